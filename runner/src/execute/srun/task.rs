//! `ftest __task`: started by srun in each task. It checks that Slurm placed it as the cluster requires, gives the program the
//! variables for its place, and stays to record how the program ended.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use protocol::launcher::Task;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, pidfd_open};

use super::{Ended, ORDER, Order, apart, ended, here, started};
use crate::execute::launch::environment::Environment;
use crate::execute::launch::placement::{Placement, node_cookie, variables};
use crate::execute::launch::program;
use crate::execute::launch::torchrun;
use crate::execute::process_tree::cookie::Cookie;
use crate::execute::process_tree::inherit::UmaskOf;
use crate::execute::process_tree::kernel::{self, Spawn};
use crate::host::{deadline, whole_file};
use crate::observation::Exit;

/// First argument under which `ftest` is a task.
pub const ARGUMENT: &str = "__task";
/// The exit code that a shell returns for a missing program.
const NOT_STARTED: i32 = 127;

/// The task's main function, given the words of the program. Returns the exit code; if a signal ended the program, ends itself by
/// the same signal.
pub fn main(words: &[OsString]) -> i32 {
    // Slurm signals all processes of a step: this one must live as long as its program.
    kernel::outlive_signals();
    let order = std::env::var(ORDER).ok().and_then(|text| serde_json::from_str::<Order>(&text).ok());
    let task = Task::read(|name| std::env::var(name).ok());
    let (Some(order), Some(task)) = (order, task) else {
        eprintln!("ftest: {ARGUMENT} is internal, and started by srun with {ORDER} in its environment");
        return 2;
    };
    let (pid, exit) = match run(&order, task, words) {
        Ok((pid, exit)) => (pid, exit),
        Err(why) => {
            eprintln!("ftest: {why}");
            (0, Exit::NotStarted(why))
        }
    };
    if let Err(error) = write(&order, &ended(task.id), &Ended { pid, exit: exit.clone() }) {
        eprintln!("ftest: cannot write down how task {} ended: {error}", task.id);
    }
    if matches!(exit, Exit::NotStarted(_)) {
        cancel_step();
    }
    match exit {
        Exit::Code(code) => code,
        Exit::Signal(signal) => kernel::end_by(signal),
        _ => NOT_STARTED,
    }
}

fn run(order: &Order, task: Task, words: &[OsString]) -> Result<(i32, Exit), String> {
    let (machine, host) = here();
    let is_elsewhere = machine != order.machine;
    if is_elsewhere && !order.apart {
        return Err(format!(
            "task {} runs on {host}, and ftest with its coordinator on {}, where only tasks of that machine reach it: set \
             `transport: tcp` in the case",
            task.id, order.host
        ));
    }
    let mut environment = environment(order, task)?;
    if order.apart {
        let node = if order.torchrun.is_some() { task.node } else { placed(order, task)?.node };
        apart::place(&mut environment, order, (task, node), is_elsewhere)?;
    }
    let name = words.first().ok_or("srun was given no program")?;
    let directory = std::env::current_dir().map_err(|error| format!("the working directory is gone: {error}"))?;
    let file =
        program::find(name, environment.get("PATH").as_deref(), &directory).map_err(|error| error.to_string())?;
    let failed = |error: io::Error| format!("cannot start {}: {error}", file.display());
    let copy = |stream: &dyn AsFd| stream.as_fd().try_clone_to_owned();
    let streams: [OwnedFd; 3] = [
        File::open("/dev/null").map(OwnedFd::from).map_err(failed)?,
        copy(&io::stdout()).map_err(failed)?,
        copy(&io::stderr()).map_err(failed)?,
    ];
    let spawn = Spawn {
        file: &file,
        arguments: words.iter().map(OsString::as_os_str).collect(),
        environment: environment.whole(),
        directory: &directory,
        streams: streams.each_ref().map(AsFd::as_fd),
        umask: UmaskOf::Case,
        network: None,
        foreground: true,
        at_our_death: Some(Signal::KILL.as_raw()),
    };
    let pid = spawn.start().map_err(failed)?;
    drop(streams);
    let told = write(order, &started(task.id), &pid);
    if let Err(error) = told {
        eprintln!("ftest: cannot write down that task {} started: {error}", task.id);
    }
    Ok((pid, wait(pid)))
}

/// The case is broken: the other tasks would wait for this one. Without scancel here they do, until the case ends them.
fn cancel_step() {
    if let (Ok(job), Ok(step)) = (std::env::var("SLURM_JOB_ID"), std::env::var("SLURM_STEP_ID")) {
        let mut scancel = Command::new("scancel");
        scancel.args(["--quiet", &format!("{job}.{step}")]);
        if let Err(error) = run_within(deadline::SCANCEL, &mut scancel) {
            eprintln!("ftest: the other tasks of step {job}.{step} were not canceled: scancel: {error}");
        }
    }
}

/// Runs `command`; kills it if it takes longer.
fn run_within(limit: Duration, command: &mut Command) -> io::Result<()> {
    let mut child = command.spawn()?;
    let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
    let ended = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())
        .and_then(|pidfd| poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&limit)));
    if ended != Ok(1) {
        child.kill()?;
        child.wait()?;
        return Err(io::ErrorKind::TimedOut.into());
    }
    let status = child.wait()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(status.to_string())) }
}

/// Changes relative to the environment that srun passed on.
fn environment(order: &Order, task: Task) -> Result<Environment, String> {
    let mut environment = Environment::new();
    environment.remove(ORDER);
    let cookie = Cookie::from_text(order.cookie.as_str());
    if let Some(logs) = &order.torchrun {
        for (name, value) in torchrun::variables(logs, task.id) {
            environment.set(name, value);
        }
        environment.set(protocol::env::COOKIE.name, node_cookie(&cookie, task.id).to_string());
        return Ok(environment);
    }
    let placement = placed(order, task)?;
    for (name, value) in variables(task.id, task.tasks, placement, "127.0.0.1", order.port) {
        if !order.own.contains(name) {
            environment.set(name, value);
        }
    }
    environment.set(protocol::env::COOKIE.name, node_cookie(&cookie, placement.node).to_string());
    Ok(environment)
}

/// The rank's placement: where Slurm has put it, or where the cluster has it if Slurm knows only one node.
fn placed(order: &Order, task: Task) -> Result<Placement, String> {
    let here =
        Placement { node: task.node, nodes: task.nodes, local_rank: task.local_id, local_size: task.local_tasks };
    let Some(wanted) = order.placements.as_ref().and_then(|all| all.get(task.id as usize)) else { return Ok(here) };
    if task.nodes == 1 || *wanted == here {
        return Ok(*wanted);
    }
    Err(format!(
        "Slurm has rank {} as task {} of {} on node {}, but the cluster has it as GPU {} on node {}, which has {} of the ranks: \
         set `ntasks_per_node`, or the option `--distribution`, or the `ranks` of the cluster's nodes",
        task.id, here.local_rank, here.local_size, here.node, wanted.local_rank, wanted.node, wanted.local_size
    ))
}

fn write(order: &Order, name: &str, what: &impl serde::Serialize) -> io::Result<()> {
    let text = serde_json::to_string(what).map_err(io::Error::other)?;
    whole_file::replace(&Path::new(&order.directory).join(name), &[text.as_bytes()])
}

fn wait(pid: i32) -> Exit {
    let Some(pid) = Pid::from_raw(pid) else { return Exit::Unknown };
    loop {
        match rustix::process::waitpid(Some(pid), WaitOptions::empty()) {
            Ok(Some((_, status))) => {
                return match (status.exit_status(), status.terminating_signal()) {
                    (Some(code), _) => Exit::Code(code),
                    (None, Some(signal)) => Exit::Signal(signal),
                    (None, None) => continue,
                };
            }
            Err(rustix::io::Errno::INTR) | Ok(None) => {}
            Err(_) => return Exit::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(placements: Option<Vec<Placement>>) -> Order {
        let (directory, cookie) = ("/x".into(), "run/0".to_owned());
        Order {
            directory,
            machine: "m".into(),
            host: "h".into(),
            cookie,
            port: 7,
            own: Default::default(),
            placements,
            apart: false,
            torchrun: None,
        }
    }

    /// The placements of four ranks, two per node.
    fn two_by_two() -> Vec<Placement> {
        let at = |node, local_rank| Placement { node, nodes: 2, local_rank, local_size: 2 };
        vec![at(0, 0), at(0, 1), at(1, 0), at(1, 1)]
    }

    #[test]
    fn a_rank_sits_where_slurm_and_the_cluster_have_it() {
        let task = |id, local_id, local_tasks, node, nodes| Task { id, tasks: 4, local_id, local_tasks, node, nodes };
        // Slurm alone.
        let alone = placed(&order(None), task(3, 0, 1, 1, 2)).unwrap();
        assert_eq!(alone, Placement { node: 1, nodes: 2, local_rank: 0, local_size: 1 });
        // Both agree.
        assert_eq!(placed(&order(Some(two_by_two())), task(2, 0, 2, 1, 2)).unwrap(), two_by_two()[2]);
        // One Slurm node represents the whole cluster.
        assert_eq!(placed(&order(Some(two_by_two())), task(2, 2, 4, 0, 1)).unwrap(), two_by_two()[2]);
        // `srun -N2 -n4` without a number per node: three and one.
        let wrong = placed(&order(Some(two_by_two())), task(2, 2, 3, 0, 2)).unwrap_err();
        assert!(
            wrong.contains("rank 2 as task 2 of 3 on node 0, but the cluster has it as GPU 0 on node 1"),
            "{wrong}"
        );
    }

    #[test]
    fn a_command_that_takes_too_long_is_killed() {
        let run = |limit, words: &str| {
            let kind = run_within(Duration::from_millis(limit), Command::new("sh").args(["-c", words]));
            kind.map_err(|error| error.kind())
        };
        assert_eq!(run(10, "exec sleep 60"), Err(io::ErrorKind::TimedOut));
        assert_eq!(run(60_000, "exit 3"), Err(io::ErrorKind::Other));
        assert_eq!(run(60_000, "true"), Ok(()));
    }

    #[test]
    fn a_rank_is_told_its_place_and_a_torchrun_its_node() {
        let task = Task { id: 2, tasks: 4, local_id: 0, local_tasks: 2, node: 1, nodes: 2 };
        let rank = environment(&order(None), task).unwrap();
        for (name, value) in
            [("RANK", "2"), ("WORLD_SIZE", "4"), ("LOCAL_RANK", "0"), ("LOCAL_WORLD_SIZE", "2"), ("NODE_RANK", "1")]
        {
            assert_eq!(rank.get(name).as_deref(), Some(value.as_ref()), "{name}");
        }
        assert_eq!(rank.get(protocol::env::COOKIE.name).as_deref(), Some("run/0/node1".as_ref()));
        let own = ["MASTER_PORT".to_owned()].into();
        let rank = environment(&Order { own, ..order(None) }, task).unwrap();
        assert!(rank.changes().all(|(name, _)| name != "MASTER_PORT"), "what the case has stays");
        let torchrun = environment(&Order { torchrun: Some("/logs".into()), ..order(None) }, task).unwrap();
        assert_eq!(torchrun.get("PET_NODE_RANK").as_deref(), Some("2".as_ref()));
        assert!(torchrun.changes().all(|(name, _)| name != "RANK"));
    }
}
