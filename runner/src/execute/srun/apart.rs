//! Tasks on other machines than that of ftest: where they reach the coordinator and the first rank, which node they are, and files
//! of their own for what only processes of one machine can share.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::path::Path;
use std::time::Duration;

use protocol::env;
use protocol::launcher::Task;

use super::Order;
use crate::execute::collect::reports;
use crate::execute::launch::environment::Environment;
use crate::execute::launch::torchrun;
use crate::host::{deadline, machine};

/// Slurm's variable with the address from which this machine was asked to start the task: that of srun's machine.
const LAUNCHED_FROM: &str = "SLURM_LAUNCH_NODE_IPADDR";
/// Slurm's variable with the names of the step's nodes.
const NODES: &str = "SLURM_STEP_NODELIST";

/// Sets what a task that acts as `node` of the cluster needs to know, `elsewhere` or on the machine of ftest.
///
/// # Errors
/// Slurm does not say where something is, or the coordinator is out of reach: one sentence.
pub(super) fn place(
    environment: &mut Environment,
    order: &Order,
    (task, node): (Task, u32),
    elsewhere: bool,
) -> Result<(), String> {
    environment.set(env::NODE.name, node.to_string());
    let text = |environment: &Environment, name: &str| environment.get(name).and_then(|value| value.into_string().ok());
    let from: Option<IpAddr> = text(environment, LAUNCHED_FROM).and_then(|from| from.parse().ok());
    let host = match from {
        // All slurmd are on this machine, whatever they are called.
        Some(from) if from.is_loopback() => from.to_string(),
        _ => {
            let first = first_rank(order, task);
            let host = text(environment, NODES).and_then(|list| hosts(&list)?.into_iter().nth(first as usize));
            let host = host.ok_or_else(|| format!("{NODES} does not name node {first}, where the first rank runs"))?;
            if task.nodes > 1 { reachable(host, (first == task.node, from), &addresses)? } else { host }
        }
    };
    let master = if order.torchrun.is_some() { torchrun::MASTER } else { "MASTER_ADDR" };
    if !order.own.contains(master) {
        environment.set(master, host);
    }
    let coordinator = text(environment, env::COORDINATOR_ADDR.name).and_then(|address| address.parse().ok());
    // A case may name a coordinator of its own.
    if let Some(address) = coordinator.filter(|address: &SocketAddr| address.ip().is_loopback()) {
        let from =
            from.ok_or_else(|| format!("{LAUNCHED_FROM} is no address, and the coordinator is on that machine"))?;
        let address = SocketAddr::new(from, address.port());
        if elsewhere {
            reach(address, deadline::COORDINATOR_REACHED)?;
        }
        environment.set(env::COORDINATOR_ADDR.name, address.to_string());
    }
    if elsewhere && let Some(scratch) = order.directory.parent() {
        // Processes of different machines can have the same id.
        environment.set(env::REPORT_PATH.name, scratch.join(format!("device-node{node}-{{pid}}.json")));
        environment.machine(&order.directory.join(format!("node{node}.gpus")));
        environment.journal(&order.directory.join(format!("node{node}.{JOURNAL}")));
    }
    Ok(())
}

/// `host`, where the first rank runs, or its address if the name leads back to this machine: Debian has its own name as 127.0.1.1,
/// and a rank that listens there is reached by no other. `is_here`: this is that node; `from` is srun's machine.
///
/// # Errors
/// No rank could be reached by that name: one sentence.
fn reachable(
    host: String,
    (is_here, from): (bool, Option<IpAddr>),
    addresses: &dyn Fn(&str) -> Vec<IpAddr>,
) -> Result<String, String> {
    let known = addresses(&host);
    if known.is_empty() || known.iter().any(|address| !address.is_loopback()) {
        return Ok(host);
    }
    let own = from.filter(|_| is_here).and_then(|from| {
        // Nothing is sent: the kernel only chooses the address that packets to there come from.
        let socket = UdpSocket::bind((if from.is_ipv4() { "0.0.0.0" } else { "::" }, 0)).ok()?;
        socket.connect((from, 1)).ok()?;
        socket.local_addr().ok().map(|address| address.ip())
    });
    own.map(|own| own.to_string()).ok_or_else(|| {
        format!(
            "on {}, {host} is {}, so the first rank cannot be reached there: give it its own address in /etc/hosts",
            machine::name(),
            known[0]
        )
    })
}

/// The addresses of `host`.
fn addresses(host: &str) -> Vec<IpAddr> {
    (host, 0).to_socket_addrs().into_iter().flatten().map(|address| address.ip()).collect()
}

/// Makes sure that this machine reaches the coordinator, before the program waits for ranks that cannot come.
fn reach(coordinator: SocketAddr, limit: Duration) -> Result<(), String> {
    // It drops a connection that ends without a hello.
    let Err(error) = TcpStream::connect_timeout(&coordinator, limit) else { return Ok(()) };
    let why = match error.kind() {
        io::ErrorKind::TimedOut => format!("no answer within {} s", limit.as_secs()),
        _ => error.to_string(),
    };
    let here = machine::name();
    Err(format!(
        "{here} does not reach the coordinator at {coordinator}, on the machine of srun: {why}; let the machines reach each other on \
         the TCP ports that the kernel chooses (/proc/sys/net/ipv4/ip_local_port_range), not only on Slurm's"
    ))
}

/// The end of the name of a journal.
const JOURNAL: &str = "journal";

/// Adds the journals in the `directory` of the tasks to that of the case.
///
/// # Errors
/// One cannot be read, or that of the case not written.
pub(super) fn gather(directory: &Path) -> io::Result<()> {
    let Some(scratch) = directory.parent() else { return Ok(()) };
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == JOURNAL) {
            let lines = std::fs::read(path)?;
            std::fs::File::options().create(true).append(true).open(reports::journal(scratch))?.write_all(&lines)?;
        }
    }
    Ok(())
}

/// The node of Slurm on which the first rank runs.
fn first_rank(order: &Order, task: Task) -> u32 {
    match order.placements.as_ref().and_then(|all| all.first()) {
        Some(first) if task.nodes > 1 && order.torchrun.is_none() => first.node,
        _ => 0,
    }
}

/// The names in a list as Slurm writes it: `login,rack[1-2]n[08-10,12]`.
fn hosts(list: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut rest = list.trim();
    while !rest.is_empty() {
        let mut is_within = false;
        let end = rest.find(|letter| {
            is_within = letter == '[' || is_within && letter != ']';
            letter == ',' && !is_within
        });
        let (entry, more) = end.map_or((rest, ""), |end| (&rest[..end], &rest[end + 1..]));
        names.extend(expanded(entry)?);
        rest = more;
    }
    Some(names)
}

/// The names that one entry of a list means.
fn expanded(entry: &str) -> Option<Vec<String>> {
    let Some((before, after)) = entry.split_once('[') else { return Some(vec![entry.to_owned()]) };
    let (ranges, after) = after.split_once(']')?;
    let ends = expanded(after)?;
    let mut names = Vec::new();
    for range in ranges.split(',') {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        for number in from.parse::<u32>().ok()?..=to.parse().ok()? {
            names.extend(ends.iter().map(|end| format!("{before}{number:0width$}{end}", width = from.len())));
        }
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::launch::placement::Placement;

    #[test]
    fn a_list_of_nodes_is_read_as_slurm_writes_it() {
        assert_eq!(hosts("n0").unwrap(), ["n0"]);
        assert_eq!(hosts("n[0-1]").unwrap(), ["n0", "n1"]);
        assert_eq!(hosts("login,n[08-10,12],x").unwrap(), ["login", "n08", "n09", "n10", "n12", "x"]);
        assert_eq!(hosts("r[1-2]n[3,5]").unwrap(), ["r1n3", "r1n5", "r2n3", "r2n5"]);
        assert_eq!(hosts("n[a-b]"), None);
        assert_eq!(hosts("n[1"), None);
    }

    #[test]
    fn a_name_that_leads_back_to_its_machine_is_replaced_by_an_address() {
        let with = |known: &[&str], is_here: bool| {
            let known: Vec<IpAddr> = known.iter().map(|address| address.parse().unwrap()).collect();
            // Whatever the machine's network is, this reaches itself.
            reachable("n1".into(), (is_here, "127.0.0.1".parse().ok()), &move |_| known.clone())
        };
        assert_eq!(with(&["10.0.0.1"], true).as_deref(), Ok("n1"));
        assert_eq!(with(&["127.0.1.1", "10.0.0.1"], true).as_deref(), Ok("n1"));
        assert_eq!(with(&[], false).as_deref(), Ok("n1"), "the program's resolver may know it");
        assert_eq!(with(&["127.0.1.1"], true).as_deref(), Ok("127.0.0.1"));
        let why = with(&["127.0.1.1"], false).unwrap_err();
        assert!(why.contains("n1 is 127.0.1.1, so the first rank cannot be reached there"), "{why}");
    }

    /// What Slurm sets on n1, and ftest for every task.
    fn given() -> Environment {
        let mut environment = Environment::new();
        environment.set(NODES, "n[0-1]").set(LAUNCHED_FROM, "10.0.0.9");
        environment.set(env::COORDINATOR_ADDR.name, "127.0.0.1:77");
        environment
    }

    fn order(torchrun: bool) -> Order {
        let at = |node| Placement { node, nodes: 2, local_rank: 0, local_size: 1 };
        Order {
            directory: "/case/srun".into(),
            machine: "m".into(),
            host: "h".into(),
            cookie: "run/0".to_owned(),
            own: Default::default(),
            port: 7,
            // The first rank is on the second node.
            placements: Some(vec![at(1), at(0)]),
            apart: true,
            torchrun: torchrun.then(|| "/case".into()),
        }
    }

    const TASK: Task = Task { id: 0, tasks: 2, local_id: 0, local_tasks: 1, node: 1, nodes: 2 };

    #[test]
    fn a_task_learns_from_slurm_where_the_others_are() {
        let placed = |torchrun, elsewhere| {
            let mut environment = given();
            place(&mut environment, &order(torchrun), (TASK, 1), elsewhere).unwrap();
            move |name: &str| environment.get(name).map(|value| value.into_string().unwrap())
        };
        let rank = placed(false, true);
        assert_eq!(rank("MASTER_ADDR").as_deref(), Some("n1"));
        assert_eq!(rank(env::COORDINATOR_ADDR.name).as_deref(), Some("10.0.0.9:77"));
        assert_eq!(rank(env::NODE.name).as_deref(), Some("1"));
        assert_eq!(rank(env::GPUS.name).as_deref(), Some("/case/srun/node1.gpus"));
        assert_eq!(rank(env::REPORT_PATH.name).as_deref(), Some("/case/device-node1-{pid}.json"));
        assert_eq!(placed(true, true)(torchrun::MASTER).as_deref(), Some("n0"));
        let mut alone = given();
        alone.set(LAUNCHED_FROM, "127.0.0.1");
        place(&mut alone, &order(false), (TASK, 1), false).unwrap();
        assert_eq!(alone.get("MASTER_ADDR").as_deref(), Some("127.0.0.1".as_ref()));
        // On ftest's own machine, files are those of the case.
        assert_eq!(placed(false, false)(env::JOURNAL.name), std::env::var(env::JOURNAL.name).ok());
    }

    #[test]
    fn what_slurm_does_not_say_is_named() {
        let mut environment = given();
        environment.remove(LAUNCHED_FROM);
        let why = place(&mut environment, &order(false), (TASK, 1), true).unwrap_err();
        assert!(why.starts_with("SLURM_LAUNCH_NODE_IPADDR is no address"), "{why}");
        environment.set(NODES, "n0");
        let why = place(&mut environment, &order(false), (TASK, 1), true).unwrap_err();
        assert_eq!(why, "SLURM_STEP_NODELIST does not name node 1, where the first rank runs");
    }

    #[test]
    fn a_coordinator_that_is_not_reached_is_named() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(reach(address, Duration::from_secs(10)), Ok(()));
        drop(listener);
        let why = reach(address, Duration::from_secs(10)).unwrap_err();
        assert!(
            why.contains(&format!("coordinator at {address}, on the machine of srun: Connection refused")),
            "{why}"
        );
    }

    #[test]
    fn journals_of_machines_become_that_of_the_case() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("srun");
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(reports::journal(scratch.path()), "a\n").unwrap();
        std::fs::write(directory.join("node1.journal"), "b\n").unwrap();
        std::fs::write(directory.join("0.ended"), "c\n").unwrap();
        gather(&directory).unwrap();
        assert_eq!(std::fs::read_to_string(reports::journal(scratch.path())).unwrap(), "a\nb\n");
    }
}
