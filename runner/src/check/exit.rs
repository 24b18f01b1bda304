//! How processes must end: per rank, for the other ranks, for the launchers, or for all.

use std::collections::BTreeMap;

use crate::check::cause::{self, Cause};
use crate::check::{Failure, FailureKind};
use crate::host::signal;
use crate::observation::{Exit, Observation, ProcessObservation, Role};
use crate::source::SourceLocation;

/// How one process must end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExitWant {
    /// It ends with this code.
    Code(i32),
    /// It ends with a code other than 0; a signal does not count.
    NonZero,
    /// It is ended by this signal.
    Signal(i32),
    /// By any signal.
    AnySignal,
    /// It ends in any way, once it was started.
    Any,
}

/// An [`ExitWant`] and where the suite defines it.
pub type Placed = (ExitWant, SourceLocation);

/// How the processes of a case must end. Processes that are not listed must exit with 0.
#[derive(Clone, Debug, Default)]
pub struct ExitExpectation {
    /// Every rank and launcher without its own rule.
    pub all: Option<Placed>,
    /// The rules of single ranks, by global rank.
    pub ranks: BTreeMap<u32, Placed>,
    /// Ranks not in `ranks`.
    pub others: Option<Placed>,
    /// torchrun, srun, or the one plain process.
    pub launcher: Option<Placed>,
    /// If it fails, the checks after it are skipped.
    pub fatal: bool,
    /// The place that failures of processes that are not listed name.
    pub place: SourceLocation,
}

impl ExitWant {
    /// The rule as messages name it: `code 0`.
    pub fn describe(&self) -> String {
        match self {
            ExitWant::Code(code) => format!("code {code}"),
            ExitWant::NonZero => "a code other than 0".to_owned(),
            ExitWant::Signal(number) => signal::name(*number),
            ExitWant::AnySignal => "a signal".to_owned(),
            ExitWant::Any => "any exit".to_owned(),
        }
    }

    /// Whether `exit` is as expected.
    pub fn accepts(&self, exit: &Exit) -> bool {
        match (self, exit) {
            (ExitWant::Code(want), Exit::Code(code)) => want == code,
            (ExitWant::NonZero, Exit::Code(code)) => *code != 0,
            (ExitWant::Signal(want), Exit::Signal(number)) => want == number,
            (ExitWant::AnySignal, Exit::Signal(_)) => true,
            (ExitWant::Any, Exit::Code(_) | Exit::Signal(_) | Exit::Unknown) => true,
            _ => false,
        }
    }
}

/// Whether a process with this exit failed.
pub fn is_error(exit: &Exit) -> bool {
    matches!(exit, Exit::Signal(_)) || matches!(exit, Exit::Code(code) if *code != 0)
}

/// The end as messages name it: `code 1`, `SIGKILL`.
pub fn describe(exit: &Exit) -> String {
    match exit {
        Exit::Code(code) => format!("code {code}"),
        Exit::Signal(number) => signal::name(*number),
        Exit::NotStarted(why) => format!("never started: {why}"),
        Exit::Unkillable => "still there after SIGKILL".to_owned(),
        Exit::Unknown => "ended in an unknown way".to_owned(),
    }
}

impl ExitExpectation {
    /// Whether a process with this role may end this way.
    pub fn accepts(&self, role: Role, exit: &Exit) -> bool {
        self.want(role).0.accepts(exit)
    }

    fn want(&self, role: Role) -> Placed {
        let own = match role {
            Role::Rank(rank) => self.ranks.get(&rank).or(self.others.as_ref()),
            Role::Launcher(_) | Role::Srun => self.launcher.as_ref(),
            Role::Coordinator => None,
        };
        own.or(self.all.as_ref()).cloned().unwrap_or_else(|| (ExitWant::Code(0), self.place.clone()))
    }

    fn is_wrong(&self, process: &ProcessObservation) -> bool {
        is_error(&process.exit) && !self.accepts(process.role, &process.exit)
    }

    /// The process that failed by itself before the others.
    pub fn cause(&self, observation: &Observation) -> Option<Cause> {
        cause::first(|process| self.is_wrong(process), observation)
    }

    /// Processes that failed unexpectedly before the case was ended. Excludes processes that were ended, and those whose
    /// exit is unexpected but not an error.
    pub fn failed_early<'a>(&self, observation: &'a Observation) -> Vec<&'a ProcessObservation> {
        observation
            .finished()
            .filter(|process| process.role != Role::Coordinator)
            .filter(|process| self.is_wrong(process))
            .collect()
    }

    /// The processes that did not end as expected.
    pub fn check(&self, observation: &Observation) -> Vec<Failure> {
        // Without a line it has nothing to say that the others have not.
        let cause = self.cause(observation).filter(|cause| !cause.line.is_empty());
        let launchers_fine = observation
            .processes
            .iter()
            .filter(|process| matches!(process.role, Role::Launcher(_) | Role::Srun))
            .all(|process| process.exit == Exit::Code(0));
        // Ranks with the same expectation and the same exit are reported together.
        let mut groups: Vec<(Placed, &Exit, Vec<&ProcessObservation>)> = Vec::new();
        for process in observation.finished().filter(|process| process.role != Role::Coordinator) {
            let placed = self.want(process.role);
            // torchrun returns 0 only if every worker did: its exit covers a worker that it reaped itself.
            let ended = observation.execution.was_ended();
            let vouched = process.exit == Exit::Unknown && (ended || placed.0 == ExitWant::Code(0) && launchers_fine);
            if vouched || placed.0.accepts(&process.exit) {
                continue;
            }
            let is_cause = |role: Role| cause.as_ref().is_some_and(|cause| cause.role == role);
            let same = |group: &&mut (Placed, &Exit, Vec<&ProcessObservation>)| {
                group.0 == placed
                    && *group.1 == process.exit
                    && !is_cause(process.role)
                    && !group.2.iter().any(|process| is_cause(process.role))
            };
            match groups.iter_mut().find(same) {
                Some((_, _, processes)) => processes.push(process),
                None => groups.push((placed, &process.exit, vec![process])),
            }
        }
        // What failed by itself is the reason why others did.
        let is_first = |processes: &[&ProcessObservation]| {
            cause.as_ref().is_some_and(|cause| processes.iter().any(|process| process.role == cause.role))
        };
        groups.sort_by_key(|(.., processes)| !is_first(processes));
        let got = |exit: &Exit, processes: &[&ProcessObservation]| {
            let line = cause.as_ref().map(|cause| &cause.line).filter(|_| is_first(processes));
            line.map_or_else(|| describe(exit), |line| format!("{}: {line}", describe(exit)))
        };
        let mut failures: Vec<Failure> = groups
            .into_iter()
            .map(|((want, place), exit, processes)| {
                let names: Vec<String> = processes.iter().map(|process| process.role.to_string()).collect();
                let verb = if names.len() == 1 { "ends" } else { "end" };
                Failure {
                    place: Some(place),
                    kind: FailureKind::Exit,
                    expected: format!("{} {verb} with {}", names.join(", "), want.describe()),
                    got: got(exit, &processes),
                    next: next(processes[0]),
                }
            })
            .collect();
        for (rank, (want, place)) in self.ranks.iter().filter(|_| !observation.execution.is_timeout()) {
            if observation.process(Role::Rank(*rank)).is_none() {
                failures.push(Failure {
                    place: Some(place.clone()),
                    kind: FailureKind::Exit,
                    expected: format!("rank {rank} ends with {}", want.describe()),
                    got: "no such rank was seen".to_owned(),
                    next: String::new(),
                });
            }
        }
        failures
    }
}

/// Where to look, and what to do about a port that is taken: cases run side by side, and a program that has its port in its
/// text meets itself.
fn next(process: &ProcessObservation) -> String {
    const TAKEN: [&[u8]; 2] = [b"EADDRINUSE", b"Address already in use"];
    let has = |text: &[u8]| TAKEN.iter().any(|said| memchr::memmem::find(text, said).is_some());
    let port = if has(&process.stderr.head) || has(&process.stderr.tail) {
        "its port was taken: by this program in another case if it always uses the same one (`--jobs 1` runs one case at a time; \
         `$MASTER_PORT` is the case's own where `launch` has `ranks`), or by another program; "
    } else {
        ""
    };
    format!("{port}the stderr of {} is {}", process.role, process.stderr.path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::Captured;

    #[test]
    fn a_port_that_is_taken_is_named() {
        let process = |text: &str| ProcessObservation {
            role: Role::Rank(1),
            exit: Exit::Code(1),
            stdout: Captured::default(),
            stderr: Captured { tail: text.as_bytes().to_vec(), ..Captured::default() },
        };
        assert!(next(&process("DistNetworkError: port: 12355, name: EADDRINUSE")).starts_with("its port was taken: "));
        assert!(next(&process("OSError: [Errno 98] Address already in use")).starts_with("its port was taken: "));
        assert!(next(&process("RuntimeError: address")).starts_with("the stderr of rank 1 is "));
    }

    fn seen(exits: &[(Role, Exit)]) -> Observation {
        Observation {
            processes: exits
                .iter()
                .map(|(role, exit)| ProcessObservation {
                    role: *role,
                    exit: exit.clone(),
                    stdout: Captured::default(),
                    stderr: Captured::default(),
                })
                .collect(),
            ..Observation::default()
        }
    }

    fn placed(want: ExitWant) -> Placed {
        (want, SourceLocation::default())
    }

    #[test]
    fn what_is_not_said_must_be_0() {
        let observation =
            seen(&[(Role::Rank(0), Exit::Code(0)), (Role::Rank(1), Exit::Code(3)), (Role::Coordinator, Exit::Code(9))]);
        let failures = ExitExpectation::default().check(&observation);
        assert_eq!(failures.len(), 1);
        assert_eq!((failures[0].expected.as_str(), failures[0].got.as_str()), ("rank 1 ends with code 0", "code 3"));
    }

    #[test]
    fn a_signal_is_no_exit_code() {
        let expectation = ExitExpectation {
            ranks: BTreeMap::from([(3, placed(ExitWant::Signal(9)))]),
            others: Some(placed(ExitWant::NonZero)),
            launcher: Some(placed(ExitWant::Code(1))),
            ..ExitExpectation::default()
        };
        let killed =
            [(Role::Rank(0), Exit::Code(1)), (Role::Rank(3), Exit::Signal(9)), (Role::Launcher(0), Exit::Code(1))];
        assert!(expectation.check(&seen(&killed)).is_empty());
        let crashed =
            [(Role::Rank(0), Exit::Signal(11)), (Role::Rank(3), Exit::Code(137)), (Role::Launcher(0), Exit::Code(1))];
        assert_eq!(expectation.check(&seen(&crashed)).len(), 2);
        assert_eq!(expectation.check(&seen(&killed[..1])).len(), 1);
    }

    #[test]
    fn a_launcher_vouches_for_workers_it_reaped() {
        let fine = seen(&[(Role::Rank(0), Exit::Unknown), (Role::Launcher(0), Exit::Code(0))]);
        assert!(ExitExpectation::default().check(&fine).is_empty());
        let bad = seen(&[(Role::Rank(0), Exit::Unknown), (Role::Launcher(0), Exit::Code(1))]);
        assert_eq!(ExitExpectation::default().check(&bad).len(), 2);
        let alike = seen(&[(Role::Rank(0), Exit::Code(2)), (Role::Rank(1), Exit::Code(2))]);
        let failures = ExitExpectation::default().check(&alike);
        assert_eq!((failures.len(), failures[0].expected.as_str()), (1, "rank 0, rank 1 end with code 0"));
    }
}
