//! The kept operations of a run, computed again on a cluster: the rules of the modeled clock on logs instead of a program. A collective
//! begins when its last rank is ready; all else is the business of one rank ([`rank`]).

mod cluster;
mod meeting;
mod rank;

use std::collections::{BTreeMap, VecDeque};

use protocol::operations::{OPERATIONS_VERSION, OperationLog};
use protocol::plan::ClusterPlan;
use protocol::report::{DeviceSteps, RunTime};

use crate::steps::run_time;
use cluster::Cluster;
pub use cluster::world_size;
use meeting::Meetings;
use rank::Process;

/// What a replay says. Times are modeled.
#[derive(Clone, Debug, PartialEq)]
pub struct Replayed {
    /// Steps, as in the cluster report.
    pub time: RunTime,
    /// When the last process ended, ns from its start.
    pub end_ns: u64,
    /// Bytes from GPU to GPU inside of nodes, over rings as in the cluster report.
    pub inside_bytes: u64,
    /// Bytes between nodes.
    pub between_bytes: u64,
    /// Names of kernels about which the model knows only that they ran.
    pub unknown: BTreeMap<String, u64>,
}

/// Why a replay is not possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

/// Computes the times of `logs` on `plan`. With more than one replica, the whole job is there so often, and communicators of all its
/// ranks span all replicas; an all_gather or reduce_scatter among them has the same bytes in total.
///
/// # Errors
/// [`Refused`] for logs of another version, incomplete ones, those that do not fit together, and a cluster without room.
pub fn replay(logs: &[OperationLog], plan: &ClusterPlan, replicas: u32) -> Result<Replayed, Refused> {
    check(logs)?;
    let cluster = Cluster::new(logs, plan, replicas)?;
    let mut processes = Vec::new();
    for replica in 0..replicas {
        for log in logs {
            processes.push(Process::new(log, replica, &cluster)?);
        }
    }
    let mut meetings = Meetings::new(logs, &cluster);
    let mut due: VecDeque<usize> = (0..processes.len()).collect();
    while let Some(next) = due.pop_front() {
        processes[next].run(next, &mut meetings);
        due.extend(meetings.take_met());
    }
    if let Some(stuck) = processes.iter().find(|process| !process.has_ended()) {
        return Err(Refused(stuck.why_stuck()));
    }
    let end_ns = processes.iter().map(Process::host_ns).max().unwrap_or(0);
    let (mut steps, mut is_calibrated): (Vec<DeviceSteps>, bool) = (Vec::new(), true);
    let mut unknown = BTreeMap::new();
    for time in processes.iter_mut().flat_map(Process::totals) {
        is_calibrated &= time.is_calibrated;
        time.unknown.into_iter().for_each(|(name, count)| *unknown.entry(name).or_default() += count);
        steps.extend(time.steps);
    }
    let (inside_bytes, between_bytes) = meetings.traffic();
    Ok(Replayed { time: run_time(is_calibrated, steps), end_ns, inside_bytes, between_bytes, unknown })
}

fn check(logs: &[OperationLog]) -> Result<(), Refused> {
    let Some(first) = logs.first() else { return Err(Refused("there are no operations".to_owned())) };
    for log in logs {
        let rank = log.rank;
        if log.version != OPERATIONS_VERSION {
            let version = &log.version;
            return Err(Refused(format!("rank {rank}: the log is of version `{version}`, not {OPERATIONS_VERSION}")));
        }
        if log.dropped > 0 {
            let (kept, dropped) = (log.operations.len(), log.dropped);
            return Err(Refused(format!(
                "rank {rank} submitted {dropped} operations more than the {kept} that are kept; run fewer steps"
            )));
        }
        if log.cluster != first.cluster {
            return Err(Refused(format!("ranks {} and {rank} ran on different clusters", first.rank)));
        }
        if let Some(mistake) = mistake(log) {
            return Err(Refused(format!("rank {rank}: {mistake}")));
        }
    }
    let mut ranks: Vec<u32> = logs.iter().map(|log| log.rank.0).collect();
    ranks.sort_unstable();
    match ranks.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Refused(format!("two processes are rank {}", pair[0]))),
        None => Ok(()),
    }
}

/// A position in a log that its tables do not have.
fn mistake(log: &OperationLog) -> Option<String> {
    use protocol::operations::Act;
    let is_in = |position: u32, length: usize| (position as usize) < length;
    let stream = |position: u32| is_in(position, log.streams.len());
    let line = |position: u32| position as usize <= log.lines.len();
    let work = |position: u32| is_in(position, log.works.len());
    let known = |act: &Act| match *act {
        Act::Work(on, shape, at) => stream(on) && work(shape) && line(at),
        Act::Group(on, shape, at, group) => stream(on) && work(shape) && line(at) && is_in(group, log.groups.len()),
        Act::Record(on, _) | Act::Wait(on, _) | Act::Stream(on) | Act::SawStream(on) => stream(on),
        Act::After(on, other) => stream(on) && stream(other),
        Act::Event(_) | Act::SawEvent(_) | Act::Device(_) | Act::Mark(..) | Act::End => true,
    };
    if let Some(place) = log.operations.iter().position(|operation| !known(&operation.1)) {
        return Some(format!("operation {place} names something that its tables do not have"));
    }
    let has_room =
        |communicator: &protocol::operations::LoggedCommunicator| is_in(communicator.rank, communicator.ranks.len());
    let is_known = log.groups.iter().all(|group| is_in(group.communicator, log.communicators.len()))
        && log.streams.iter().all(|stream| is_in(stream.device, log.devices.len()))
        && log.works.iter().all(|work| is_in(work.name, log.names.len()))
        && log.communicators.iter().all(has_room);
    (!is_known).then(|| "its tables do not fit together".to_owned())
}

#[cfg(test)]
mod tests;
