//! Asking every process which operation it is in, and noticing when it is time to ask.

use std::collections::BTreeSet;
use std::time::Duration;

use model::cluster::Cluster;
use model::cluster::hang::FoundHang;
use model::exchange::ConnectionId;
use protocol::activity::Activity;
use protocol::diagnosis::{Diagnosis, RankActivity};
use tokio::time::Instant;

/// Processes have this long to answer; one that does not is reported as silent.
const ANSWER_DEADLINE: Duration = Duration::from_secs(1);
/// Waits shorter than this are left out of an answer.
const SHORT: Duration = Duration::from_millis(500);

/// Processes that were asked.
pub(crate) struct Inquiry {
    pub(crate) request: u64,
    missing: BTreeSet<ConnectionId>,
    /// Whether every process has answered so far.
    is_complete: bool,
    pub(crate) deadline: Instant,
    activities: Vec<Activity>,
    /// Connections that want the answer; empty if the inquiry was made because nothing moved.
    pub(crate) askers: Vec<ConnectionId>,
    /// Whether the result may go into the report.
    pub(crate) last: bool,
}

impl Inquiry {
    pub(crate) fn new(request: u64, asked: BTreeSet<ConnectionId>, askers: Vec<ConnectionId>) -> Self {
        let deadline = Instant::now() + ANSWER_DEADLINE;
        let last = askers.is_empty();
        Self { request, missing: asked, is_complete: true, deadline, activities: Vec::new(), askers, last }
    }

    /// Notes that a process no longer answers.
    pub(crate) fn gone(&mut self, connection: ConnectionId) {
        self.is_complete &= !self.missing.remove(&connection);
    }

    /// Notes that the time to answer is over.
    pub(crate) fn time_is_up(&mut self) {
        self.is_complete &= self.missing.is_empty();
        self.missing.clear();
    }

    /// Whether no process is left to wait for.
    pub(crate) fn is_over(&self) -> bool {
        self.missing.is_empty()
    }

    /// Whether the report adopts the result: only the answers of all processes show that nobody waits, and ranks may be ended
    /// meanwhile.
    pub(crate) fn is_for_report(&self, found: Option<&FoundHang>) -> bool {
        self.last && (found.is_some() || self.is_complete)
    }

    pub(crate) fn answer(&mut self, from: ConnectionId, request: u64, activities: Vec<Activity>) {
        if request == self.request && self.missing.remove(&from) {
            self.activities.extend(activities);
        }
    }

    /// What the answers mean, and the diagnosis for the clients that asked. It names files relative to `root`.
    pub(crate) fn judge(
        &self,
        cluster: &Cluster,
        root: Option<&str>,
        quiet: Duration,
        now_us: u64,
    ) -> (Option<FoundHang>, Diagnosis) {
        let at_least = if self.askers.is_empty() { quiet.mul_f64(0.5) } else { SHORT };
        let found = cluster.diagnose(&self.activities, at_least.as_micros() as u64, now_us);
        let diagnosis = Diagnosis {
            hang: found.as_ref().map(|found| found.hang_below(root)),
            waits_ms: found.as_ref().map(|found| found.waited_us.iter().map(|us| us / 1000).collect()),
            missing_processes: found.as_ref().map(|found| found.missing_processes.clone()),
            activities: self.activities.iter().filter_map(|activity| in_report(cluster, activity)).collect(),
        };
        (found, diagnosis)
    }
}

/// What a rank does, in the numbers of the report.
fn in_report(cluster: &Cluster, activity: &Activity) -> Option<RankActivity> {
    let place = cluster.place(activity.communicator, activity.rank)?;
    Some(RankActivity {
        rank: place.global,
        comm_id: place.number,
        comm_rank: activity.rank,
        ranks: place.members,
        current: activity.current.clone(),
        queued: activity.queued,
        recent: activity.recent.clone(),
    })
}

/// Since when nothing has moved, and how long that may last before it is reported.
pub(crate) struct Quiet {
    limit: Option<Duration>,
    since: Instant,
    revision: u64,
    /// Whether it was already announced that nothing moves.
    announced: bool,
}

impl Quiet {
    pub(crate) fn new(limit: Option<Duration>) -> Self {
        Self { limit, since: Instant::now(), revision: 0, announced: false }
    }

    /// Notes the cluster's revision: if it has changed, something has happened.
    pub(crate) fn note_revision(&mut self, revision: u64) {
        if revision != self.revision {
            *self = Self { limit: self.limit, since: Instant::now(), revision, announced: false };
        }
    }

    /// Starts the time again, because nobody could have moved in it.
    pub(crate) fn resume(&mut self) {
        self.since = Instant::now();
    }

    /// Stops looking, because from now on processes that do not move are about to be ended.
    pub(crate) fn stop(&mut self) {
        self.limit = None;
    }

    /// When the processes are to be asked.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.limit.filter(|_| !self.announced).map(|limit| self.since + limit)
    }

    /// How long nothing has moved.
    pub(crate) fn lasted(&self) -> Duration {
        self.since.elapsed()
    }

    /// Notes that the processes were asked, and whether a hang was found. If not, they are asked again after the same time.
    pub(crate) fn asked(&mut self, revision: u64, hang: bool) {
        self.revision = revision;
        self.announced = hang;
        if !hang {
            self.since = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_makes_the_time_begin_anew_until_the_last_question() {
        let mut quiet = Quiet::new(Some(Duration::from_secs(1)));
        quiet.asked(1, true);
        assert_eq!(quiet.deadline(), None, "it was announced");
        quiet.note_revision(2);
        assert!(quiet.deadline().is_some());
        quiet.stop();
        // The ranks are ended one by one.
        quiet.note_revision(3);
        assert_eq!(quiet.deadline(), None);
    }
}
