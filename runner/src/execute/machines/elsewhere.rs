//! The processes of one case that run on other machines: started, asked, ended, and their files fetched.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::process::Signal;
use tokio::sync::mpsc::UnboundedReceiver;

use super::machine::Machine;
use super::message::{Answer, Holders, Open, Order, Start};
use crate::case::{Case, KillTarget};
use crate::execute::process_tree::sweep::Swept;
use crate::execute::process_tree::{ProcessPlan, ProcessTree};
use crate::execute::run::cancel::Cancel;
use crate::execute::run::clock::{Instant, timeout_at};
use crate::host::{deadline, plain_path};
use crate::observation::Role;

/// Bytes of a stream that wait for the case to read them.
const PIECE: usize = 64 << 10;

/// The part of a case on other machines.
#[derive(Debug)]
pub(in crate::execute) struct Elsewhere {
    case: u64,
    /// The parts of the case, by node.
    parts: BTreeMap<u32, Part>,
}

#[derive(Debug)]
struct Part {
    /// The name of the node.
    name: String,
    machine: Arc<Machine>,
    answers: UnboundedReceiver<Answer>,
    /// Orders that [`Answer::Gone`] has not answered yet. The answer to an earlier one is no answer to the next.
    going: u32,
}

/// Why a process does not run, one sentence each.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::execute) enum StartError {
    /// It was not started.
    #[error("{0}")]
    NotStarted(String),
    /// Its machine was lost, or did not answer: it may have started.
    #[error("{0}")]
    Unanswered(String),
}

impl Elsewhere {
    pub(super) fn new(case: u64) -> Elsewhere {
        Elsewhere { case, parts: BTreeMap::new() }
    }

    pub(super) fn add(&mut self, node: u32, name: &str, machine: Arc<Machine>, answers: UnboundedReceiver<Answer>) {
        self.parts.insert(node, Part { name: name.to_owned(), machine, answers, going: 0 });
    }

    /// Has each machine make a directory that replaces `scratch`, and the libraries that replace NVIDIA's.
    pub(in crate::execute) fn prepare(&self, scratch: &Path, holders: Option<&Holders>) {
        for (node, part) in &self.parts {
            let open = Open { node: *node, scratch: scratch.into(), holders: holders.cloned() };
            part.machine.order(self.case, Order::Open(open));
        }
    }

    /// Starts `plan` on the machine of `node`, in `tree`. Its streams go to files below `scratch`.
    ///
    /// # Errors
    /// It was not started, or nobody knows.
    pub(in crate::execute) async fn start(
        &mut self,
        node: u32,
        plan: &ProcessPlan,
        (scratch, watched): (&Path, bool),
        tree: &mut ProcessTree,
    ) -> Result<(), StartError> {
        let (case, role) = (self.case, plan.role);
        let part = self.parts.get_mut(&node);
        let part = part.ok_or_else(|| StartError::NotStarted(format!("no machine has joined for node {node}")))?;
        let ((output, from_output), (error, from_error)) = (tokio::io::duplex(PIECE), tokio::io::duplex(PIECE));
        part.machine.follow(case, role, [output, error]);
        let start = Start {
            role,
            argv: plan.argv.clone(),
            environment: plan.environment.whole(),
            directory: plan.directory.clone().into(),
            links: plain_path::used().into_iter().map(|(link, target)| (link.into(), target.into())).collect(),
            at_our_death: plan.at_our_death.map(Signal::as_raw),
        };
        part.machine.order(case, Order::Start(Box::new(start)));
        let started = part.answer(deadline::MACHINE, |answer| match answer {
            Answer::Started { pid } => Some(Ok(pid)),
            Answer::NotStarted(why) => Some(Err(why)),
            _ => None,
        });
        let started = started.await;
        let place = format!("on {}, which is {}", part.name, part.machine);
        let why = match started {
            Ok(Ok(pid)) => {
                let captures = plan.capture([from_output, from_error], (scratch, tree.events(), watched));
                tree.adopt(role, pid, captures);
                return Ok(());
            }
            Ok(Err(why)) => StartError::NotStarted(format!("{place}: {why}")),
            Err(why) => {
                StartError::Unanswered(part.machine.loss_of(&part.name).unwrap_or_else(|| format!("{place}: {why}")))
            }
        };
        part.machine.forget_role(case, role);
        Err(why)
    }

    /// Sends the signal of kill number `kill` of `case` if its target is elsewhere; the event `Hit` says what happened.
    pub(in crate::execute) fn hit(&self, case: &Case, kill: usize) -> bool {
        let wanted = &case.kill[kill];
        let (node, rank) = match wanted.target {
            KillTarget::Coordinator => return false,
            KillTarget::Node(node) => (node, None),
            KillTarget::Rank(rank) => (node_of(case, Role::Rank(rank)), Some(rank)),
        };
        let Some(part) = self.parts.get(&node) else { return false };
        part.machine.order(self.case, Order::Hit { kill: kill as u32, rank, signal: wanted.signal });
        true
    }

    /// The ranks that run, each with whether it is stopped.
    pub(in crate::execute) async fn running(&mut self) -> Vec<(u32, bool)> {
        let running = self.ask(Order::Look, |answer| match answer {
            Answer::Running(ranks) => Some(ranks),
            _ => None,
        });
        running.await.into_iter().flat_map(|(_, ranks)| ranks).collect()
    }

    /// What the ranks are doing: a line for each of their processes.
    pub(in crate::execute) async fn state(&mut self, missing: &[u32], stacks: bool) -> Vec<String> {
        let lines = self.ask(Order::State { missing: missing.to_vec(), stacks }, |answer| match answer {
            Answer::State(lines) => Some(lines),
            _ => None,
        });
        let named = |(machine, lines): (Arc<Machine>, Vec<String>)| {
            lines.into_iter().map(move |line| format!("{line}, on {}", machine.host))
        };
        lines.await.into_iter().flat_map(named).collect()
    }

    /// Lets Python print its stacks, at most for a while.
    pub(in crate::execute) async fn print_stacks(&mut self, cancel: &Cancel) {
        self.let_go(&Order::PrintStacks);
        self.gone(Instant::now() + deadline::STACKS, cancel).await;
    }

    /// Asks everything to end.
    pub(in crate::execute) fn terminate(&mut self) {
        self.let_go(&Order::Terminate);
    }

    /// Gives an order that [`Answer::Gone`] answers.
    fn let_go(&mut self, order: &Order) {
        self.order_all(order);
        self.parts.values_mut().for_each(|part| part.going += 1);
    }

    /// Waits until everything that was asked to has ended, at most until `deadline` or until the user presses a second time.
    pub(in crate::execute) async fn gone(&mut self, deadline: Instant, cancel: &Cancel) {
        let all = async {
            for part in self.parts.values_mut() {
                let answers = async {
                    while part.going > 0 {
                        match part.answers.recv().await {
                            Some(Answer::Gone) => part.going -= 1,
                            Some(_) => {}
                            None => return,
                        }
                    }
                };
                if timeout_at(deadline, answers).await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = all => {}
            () = cancel.raised(2) => {}
        }
    }

    /// Kills what is left. With `normal`, processes that ended by themselves get time for what they left to leave.
    pub(in crate::execute) async fn end(&mut self, normal: bool) -> Swept {
        let answers = self.ask(Order::End { normal }, |answer| match answer {
            Answer::Swept { killed, unkillable } => Some(Swept { killed, unkillable }),
            _ => None,
        });
        let mut all = Swept::default();
        for (machine, swept) in answers.await {
            let named = |process: String| format!("{process} on {}", machine.host);
            all.killed.extend(swept.killed.into_iter().map(named));
            all.unkillable.extend(swept.unkillable.into_iter().map(named));
        }
        all
    }

    /// Fetches the files into `scratch`. Nothing of the case is left on the machines then.
    ///
    /// # Errors
    /// One sentence: not all could be fetched.
    pub(in crate::execute) async fn close(mut self, scratch: &Path) -> Result<(), String> {
        self.order_all(&Order::Close);
        let mut wrong = None;
        for part in self.parts.values_mut() {
            loop {
                match part.answer(deadline::MACHINE, Some).await {
                    Ok(Answer::Closed) => break,
                    Ok(answer) => {
                        if let Err(error) = write(scratch, answer) {
                            let why = format!("a file from {} cannot be kept: {error}", part.machine);
                            wrong.get_or_insert(why);
                        }
                    }
                    Err(why) => {
                        wrong.get_or_insert(format!(
                            "the files of {} were not fetched from {}: {why}",
                            part.name, part.machine
                        ));
                        break;
                    }
                }
            }
        }
        wrong.map_or(Ok(()), Err)
    }

    fn order_all(&self, order: &Order) {
        for part in self.parts.values() {
            part.machine.order(self.case, order.clone());
        }
    }

    /// Gives the order to all machines, then waits for the answers. A machine that is lost or late gives none.
    async fn ask<T>(&mut self, order: Order, accept: impl Fn(Answer) -> Option<T>) -> Vec<(Arc<Machine>, T)> {
        self.order_all(&order);
        let mut answers = Vec::new();
        for part in self.parts.values_mut() {
            if let Ok(answer) = part.answer(deadline::MACHINE, &accept).await {
                answers.push((Arc::clone(&part.machine), answer));
            }
        }
        answers
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        for part in self.parts.values() {
            part.machine.forget(self.case);
        }
    }
}

impl Part {
    /// The first answer that `accept` takes; earlier ones are late, and no longer needed.
    ///
    /// # Errors
    /// The machine is lost, or it took longer than `limit`.
    async fn answer<T>(&mut self, limit: Duration, accept: impl Fn(Answer) -> Option<T>) -> Result<T, String> {
        let deadline = Instant::now() + limit;
        loop {
            match timeout_at(deadline, self.answers.recv()).await {
                Ok(Some(answer)) => {
                    if let Some(answer) = accept(answer) {
                        return Ok(answer);
                    }
                }
                Ok(None) => return Err("the machine was lost".to_owned()),
                Err(_) => return Err(format!("its agent did not answer within {} s", limit.as_secs())),
            }
        }
    }
}

/// The node on which a process of `case` runs.
pub(in crate::execute) fn node_of(case: &Case, role: Role) -> u32 {
    match (role, case.torchruns(), &case.cluster) {
        (Role::Launcher(node), ..) => node,
        (Role::Rank(rank), Some((per_node, _)), _) => rank / per_node.max(1),
        (Role::Rank(rank), None, Some(cluster)) => {
            cluster.node_of(protocol::ids::Rank(rank)).map_or(0, |(node, _)| node as u32)
        }
        _ => 0,
    }
}

/// Keeps a piece of a file, or a link, below `scratch`.
fn write(scratch: &Path, answer: Answer) -> io::Result<()> {
    let place = |name: &str| {
        let name = Path::new(name);
        // Nothing outside of the directory is written, whatever an agent says.
        if !name.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{} is no name below it", name.display())));
        }
        let mut path = scratch.to_owned();
        for part in name.parent().into_iter().flat_map(Path::components) {
            path.push(part);
            // A link in its place would lead elsewhere.
            match std::fs::symlink_metadata(&path) {
                Ok(found) if found.is_dir() => {}
                Ok(_) => return Err(io::ErrorKind::NotADirectory.into()),
                Err(_) => std::fs::create_dir(&path)?,
            }
        }
        Ok(scratch.join(name))
    };
    match answer {
        Answer::File { name, bytes } => {
            let flags = OFlags::NOFOLLOW.bits() as i32;
            File::options().create(true).append(true).custom_flags(flags).open(place(&name)?)?.write_all(&bytes)
        }
        Answer::Link { name, text } => std::os::unix::fs::symlink(text, place(&name)?),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_stay_below_the_directory_and_pieces_follow_each_other() {
        let scratch = tempfile::tempdir().unwrap();
        let file = |name: &str| Answer::File { name: name.to_owned(), bytes: b"ab".to_vec() };
        for name in ["../x", "/x", "a/../../x"] {
            assert_eq!(write(scratch.path(), file(name)).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{name}");
        }
        for _ in 0..2 {
            write(scratch.path(), file("torchrun-1/r/stdout.log")).unwrap();
        }
        assert_eq!(std::fs::read(scratch.path().join("torchrun-1/r/stdout.log")).unwrap(), b"abab");
    }

    #[test]
    fn no_link_of_an_agent_is_followed() {
        let (scratch, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let target = outside.path().to_str().unwrap();
        for (name, text) in [("device-a", target.to_owned()), ("device-b", format!("{target}/b"))] {
            write(scratch.path(), Answer::Link { name: name.to_owned(), text }).unwrap();
        }
        let file = |name: &str| Answer::File { name: name.to_owned(), bytes: b"x".to_vec() };
        let link = Answer::Link { name: "device-a/l".to_owned(), text: "t".to_owned() };
        for answer in [file("device-a/f"), file("device-b"), link] {
            write(scratch.path(), answer).unwrap_err();
        }
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    }
}
