//! Budget for file descriptors: a case starts only when there are enough for all its processes. So neither they nor the
//! sweep that ends them run out halfway.

use std::sync::Arc;

use rustix::process::Resource;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::case::{Case, Launch};
use crate::execute::process_tree::inherit;

/// Descriptors per process of a case: both ends of two pipes, the files behind them, and its handle.
const PROCESS: u64 = 7;
/// Other descriptors per case: the port that it holds, the coordinator's lifeline, and those open briefly while a
/// process starts.
const CASE: u64 = 4;
/// Reserved for everything else: sweeps through `/proc`, the run's log and reports, steps of fixtures.
const RESERVE: u64 = 16;

/// A case needs more descriptors than this process can ever have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "too few open descriptors: ftest needs {needed} for the {processes} processes of this case, and the {}limit (`ulimit -Hn`) is \
     {limit}: raise it, or start fewer ranks",
    if *.hard { "hard " } else { "" }
)]
pub(in crate::execute) struct TooFewDescriptors {
    needed: u64,
    processes: u64,
    /// Whether the hard limit is meant.
    hard: bool,
    limit: u64,
}

/// The descriptors available for cases.
#[derive(Debug)]
pub(in crate::execute) struct Descriptors {
    free: Arc<Semaphore>,
    /// The total when no case runs.
    all: u64,
    /// The limit of this process.
    limit: u64,
}

impl Descriptors {
    /// The number of descriptors that this process may still open.
    pub(in crate::execute) fn left() -> Descriptors {
        let open = std::fs::read_dir("/proc/self/fd").map_or(0, |open| open.count() as u64);
        Descriptors::new(inherit::most_descriptors(), open)
    }

    fn new(limit: u64, open: u64) -> Descriptors {
        let all = limit.saturating_sub(open + RESERVE).min(u64::from(u32::MAX).min(Semaphore::MAX_PERMITS as u64));
        Descriptors { free: Arc::new(Semaphore::new(all as usize)), all, limit }
    }

    /// Waits until there is room for `case`. The room is reserved as long as the permit lives.
    ///
    /// # Errors
    /// [`TooFewDescriptors`].
    pub(in crate::execute) async fn room(&self, case: &Case) -> Result<OwnedSemaphorePermit, TooFewDescriptors> {
        let (processes, needed) = needs(case);
        if needed > self.all {
            let hard = rustix::process::getrlimit(Resource::Nofile).maximum;
            let needed = needed + (self.limit - self.all);
            return Err(TooFewDescriptors { needed, processes, hard: hard == Some(self.limit), limit: self.limit });
        }
        let permits = u32::try_from(needed).unwrap_or(u32::MAX);
        Ok(Arc::clone(&self.free).acquire_many_owned(permits).await.expect("the semaphore is never closed"))
    }
}

/// Processes that ftest starts for `case`, and descriptors for all of them.
fn needs(case: &Case) -> (u64, u64) {
    let programs = match &case.launch {
        Launch::Argv { ranks, .. } => ranks.unwrap_or(1),
        Launch::Torchrun { nnodes, .. } => *nnodes,
        // A task has two files and two streams that follow them.
        Launch::Srun(srun) => 1 + srun.ntasks,
    };
    let processes = u64::from(programs) + u64::from(case.coordinator);
    (processes, processes * PROCESS + CASE)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;

    fn case(ranks: u32) -> Arc<Case> {
        let text = format!("ftest: 1\nsuite: s\ncases:\n- {{id: c, launch: {{argv: [x], ranks: {ranks}}}}}\n");
        crate::suite::parse(Path::new("s.yaml"), &text, Path::new("/")).unwrap().cases.remove(0)
    }

    #[tokio::test]
    async fn a_case_waits_for_room_and_one_that_never_has_it_is_refused() {
        // 2 ranks need 2 * 7 + 4.
        let descriptors = Descriptors::new(64, 10);
        assert_eq!((needs(&case(2)), descriptors.all), ((2, 18), 38));
        let first = descriptors.room(&case(2)).await.unwrap();
        let _second = descriptors.room(&case(2)).await.unwrap();
        let one = case(1);
        let third = || tokio::time::timeout(Duration::from_millis(50), descriptors.room(&one));
        assert!(third().await.is_err(), "there is no room now");
        drop(first);
        assert!(third().await.unwrap().is_ok());
        let error = descriptors.room(&case(5)).await.unwrap_err();
        assert_eq!((error.needed, error.processes, error.limit), (65, 5, 64));
        assert!(error.to_string().contains("needs 65 for the 5 processes"), "{error}");
        assert!(Descriptors::new(1 << 40, 10).all >= 1 << 31);
    }
}
