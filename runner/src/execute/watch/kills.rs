//! Kills that a case asks for: the lines that trigger them, and the processes they hit.

use std::collections::BTreeMap;

use rustix::process::Signal;

use crate::case::{Case, Kill, KillTarget};
use crate::execute::launch::placement::node_cookie;
use crate::execute::launch::torchrun;
use crate::execute::machines::Elsewhere;
use crate::execute::process_tree::sweep::{Process, Sweep};
use crate::execute::process_tree::{COORDINATOR, Event};
use crate::observation::Role;

/// The kills of a case and which of them happened.
#[derive(Debug)]
pub(in crate::execute) struct Kills<'a> {
    case: &'a Case,
    done: Vec<bool>,
    /// The lines that triggered kills on other machines, by kill.
    asked: BTreeMap<usize, String>,
    /// Messages about what was killed.
    pub(in crate::execute) notes: Vec<String>,
    /// Whether the coordinator was hit on purpose, so that its end is expected.
    pub(in crate::execute) coordinator_hit: bool,
}

impl<'a> Kills<'a> {
    /// No kill has happened yet.
    pub(in crate::execute) fn new(case: &'a Case) -> Kills<'a> {
        Kills {
            case,
            done: vec![false; case.kill.len()],
            asked: BTreeMap::new(),
            notes: Vec::new(),
            coordinator_hit: false,
        }
    }

    /// Looks at a line and carries out the kills it triggers. `coordinator` is its pid, `sweep` finds the case's
    /// processes on this machine, and `elsewhere` has those on others.
    pub(in crate::execute) fn observe(
        &mut self,
        event: &Event,
        (sweep, coordinator): (&Sweep, Option<i32>),
        elsewhere: Option<&Elsewhere>,
    ) {
        let (role, line) = match event {
            Event::Line(role, line) => (role, line),
            Event::Hit(kill, what) => {
                let when = self.asked.remove(kill).unwrap_or_default();
                return self.notes.push(format!("{}: {what} {when}", self.case.kill[*kill].place));
            }
            _ => return,
        };
        let Some((rank, text)) = line_of_rank(self.case, *role, line) else { return };
        for index in 0..self.done.len() {
            let kill = &self.case.kill[index];
            if !self.done[index] && kill.watch == rank && kill.output.is_match(text) {
                self.done[index] = true;
                let when = format!("when rank {rank} wrote {:?}", String::from_utf8_lossy(text));
                if elsewhere.is_some_and(|elsewhere| elsewhere.hit(self.case, index)) {
                    self.asked.insert(index, when);
                    continue;
                }
                let hit = hit(kill, sweep, coordinator);
                self.coordinator_hit |= kill.target == KillTarget::Coordinator;
                self.notes.push(format!("{}: {hit} {when}", kill.place));
            }
        }
    }

    /// Messages about the kills that never happened.
    pub(in crate::execute) fn missed(&self) -> Vec<String> {
        let missed = self.case.kill.iter().zip(&self.done).filter(|(_, done)| !**done);
        missed
            .map(|(kill, _)| {
                format!(
                    "{}: rank {} never wrote a line that matches /{}/",
                    kill.place,
                    kill.watch,
                    kill.output.as_str()
                )
            })
            .collect()
    }
}

/// The global rank that wrote a line, and the line as written.
pub(in crate::execute) fn line_of_rank<'line>(
    case: &Case,
    role: Role,
    line: &'line [u8],
) -> Option<(u32, &'line [u8])> {
    match (role, case.torchruns()) {
        (Role::Rank(rank), _) => Some((rank, line)),
        (Role::Launcher(node), Some((nproc_per_node, _))) => {
            let (local_rank, text) = torchrun::teed(line)?;
            Some((node * nproc_per_node + local_rank, text))
        }
        // The one plain process counts as rank 0.
        (Role::Launcher(_), None) => Some((0, line)),
        (Role::Srun | Role::Coordinator, _) => None,
    }
}

/// Sends the signal and returns a description of what it hit.
fn hit(kill: &Kill, sweep: &Sweep, coordinator: Option<i32>) -> String {
    let targets: Vec<Process> = match kill.target {
        KillTarget::Coordinator => {
            let mut all = Sweep::new(sweep.cookie.part(COORDINATOR));
            all.awaited = sweep.awaited.clone();
            all.find().into_iter().filter(|process| Some(process.pid) == coordinator).collect()
        }
        KillTarget::Node(node) => Sweep::new(node_cookie(&sweep.cookie, node)).find(),
        KillTarget::Rank(rank) => processes_of(rank, sweep),
    };
    send(kill.signal, &targets)
}

/// The process of a rank, among those that `sweep` finds; none if it does not run.
pub(in crate::execute) fn processes_of(rank: u32, sweep: &Sweep) -> Vec<Process> {
    let all: Vec<_> = sweep.find().into_iter().filter(|process| process.rank == Some(rank)).collect();
    // A rank's helper processes inherit its number: the rank's own process is the one whose parent does not belong to the
    // rank.
    let inner = |pid: i32| all.iter().any(|process| process.pid == pid);
    all.iter().filter(|process| !inner(process.parent)).take(1).cloned().collect()
}

/// Sends the signal with this number to all of `targets`, and returns a description of what it hit.
pub(in crate::execute) fn send(number: i32, targets: &[Process]) -> String {
    let Some(signal) = Signal::from_named_raw(number) else {
        return format!("signal {number} does not exist, nothing was killed");
    };
    // A host dies all at once: none of its processes lives to see another one dead.
    if signal == Signal::KILL && targets.len() > 1 {
        for process in targets {
            process.signal(Signal::STOP);
        }
    }
    let hit: Vec<String> =
        targets.iter().filter(|process| process.signal(signal)).map(|process| process.describe()).collect();
    match hit.as_slice() {
        [] => format!("signal {number} found no process"),
        _ => format!("signal {number} sent to {}", hit.join(", ")),
    }
}
