//! Ranks and launchers that end before the others: each is reported to the coordinator, and the first failure limits how long the
//! others may go on. mpirun would end the job immediately; here, survivors get time to report what they saw.

use std::time::Duration;

use protocol::ids::Rank;
use protocol::message::ToCoordinator;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::case::Case;
use crate::check::exit;
use crate::execute::coordinator::control::Control;
use crate::execute::launch::environment::Endpoint;
use crate::execute::run::clock::Instant;
use crate::observation::{Exit, Role};

/// The deaths of a case so far.
#[derive(Debug, Default)]
pub(in crate::execute) struct Deaths {
    notices: Option<DeathNotices>,
    /// The first process that ended with an error that the case does not expect.
    failed: Option<Failed>,
}

/// A process that ended with an error which the case does not expect.
#[derive(Clone, Debug)]
pub(in crate::execute) struct Failed {
    pub(in crate::execute) role: Role,
    pub(in crate::execute) exit: Exit,
    pub(in crate::execute) at: Instant,
}

/// Reports deaths to the coordinator, without waiting for it.
#[derive(Debug)]
pub struct DeathNotices(UnboundedSender<ToCoordinator>);

impl DeathNotices {
    /// Reports to the coordinator at `endpoint`. Connects when there is something to report.
    pub fn new(endpoint: &Endpoint) -> DeathNotices {
        let (sender, deaths) = unbounded_channel();
        tokio::spawn(forward(endpoint.clone(), deaths));
        DeathNotices(sender)
    }

    /// Reports how the process `pid`, started as `rank`, ended.
    pub fn ended(&self, rank: u32, pid: u32, exit: &Exit) {
        // The receiver is gone only when the coordinator is.
        let _ = self.0.send(ToCoordinator::RankEnded { rank: Rank(rank), pid, how: how(exit) });
    }
}

impl Deaths {
    /// Records that the process `pid` with this role ended while others still run. `endpoint` is where the coordinator listens,
    /// while it does.
    pub(in crate::execute) fn observe(
        &mut self,
        case: &Case,
        (role, pid): (Role, i32),
        exit: &Exit,
        endpoint: Option<&Endpoint>,
    ) {
        if let (Role::Rank(rank), Some(endpoint)) = (role, endpoint) {
            let notices = self.notices.get_or_insert_with(|| DeathNotices::new(endpoint));
            notices.ended(rank, pid.unsigned_abs(), exit);
        }
        // Where a hang is expected, the exits do not matter.
        if self.failed.is_none() && case.expect.hang.is_none() && is_unexpected(case, role, exit) {
            self.failed = Some(Failed { role, exit: exit.clone(), at: Instant::now() });
        }
    }

    /// The first that failed.
    pub(in crate::execute) fn failed(&self) -> Option<&Failed> {
        self.failed.as_ref()
    }

    /// How long the others may go on after the first failure, given `survivors`.
    pub(in crate::execute) fn limit(&self, survivors: Option<Duration>) -> Option<Instant> {
        Some(self.failed.as_ref()?.at + survivors?)
    }
}

/// Whether the exit is an error that the case does not expect of a process with this role.
fn is_unexpected(case: &Case, role: Role, exit: &Exit) -> bool {
    exit::is_error(exit) && !case.expect.exit.accepts(role, exit)
}

/// Completes a sentence about a rank.
fn how(exit: &Exit) -> String {
    match exit {
        Exit::Code(code) => format!("ended with exit code {code}"),
        Exit::Signal(_) => format!("was killed by {}", exit::describe(exit)),
        _ => "ended".to_owned(),
    }
}

/// Reports deaths to the coordinator until there are no more, or until it cannot be reached because it has ended, too.
async fn forward(endpoint: Endpoint, mut deaths: UnboundedReceiver<ToCoordinator>) {
    let Some(first) = deaths.recv().await else { return };
    let Ok(mut control) = Control::connect(&endpoint).await else { return };
    let mut next = Some(first);
    while let Some(death) = next {
        if control.send(&death).await.is_err() {
            return;
        }
        next = deaths.recv().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_fails_by_an_error_that_nobody_expects() {
        use crate::check::exit::ExitWant;
        use crate::source::SourceLocation;
        let mut case = Case::default();
        let fails = |case: &Case, exit| is_unexpected(case, Role::Rank(1), &exit);
        assert!(fails(&case, Exit::Signal(9)) && fails(&case, Exit::Code(7)));
        assert!(!fails(&case, Exit::Code(0)));
        case.expect.exit.ranks.insert(1, (ExitWant::AnySignal, SourceLocation::default()));
        assert!(!fails(&case, Exit::Signal(9)) && fails(&case, Exit::Code(7)));
        // Wrong, but not a reason for the others to hang.
        assert!(!fails(&case, Exit::Code(0)));
    }

    #[test]
    fn a_death_completes_a_sentence() {
        assert_eq!(how(&Exit::Code(7)), "ended with exit code 7");
        assert_eq!(how(&Exit::Signal(libc::SIGKILL)), "was killed by SIGKILL");
    }
}
