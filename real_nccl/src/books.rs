//! A communicator's books at the coordinator: they bring its ranks together, compare their calls and note what completed, on a
//! separate thread. The program never waits for them.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use abi::nccl;
use dataplane::Failure;
use dataplane::call::Call;
use dataplane::communicator::Communicator;
use dataplane::lock::{Condvar, Mutex};
use dataplane::process::{Participant, Process};
use protocol::ids::Sequence;
use protocol::record::ErrorCode;

use crate::part::Open;
use crate::trouble;

/// What the thread of a communicator does, in the program's order.
enum Job {
    Calls(Vec<Call>),
    /// A split: its number and the communicator to split go to the child's thread, which closes the other channel when it is
    /// done.
    Split(Sender<(Arc<Communicator>, Sequence)>, Receiver<Infallible>),
    Leave,
}

/// How long an abort, or the first failure of the real NCCL, lets the books catch up: a call that they have not compared yet may be why.
const PATIENCE: Duration = Duration::from_secs(2);

/// How many jobs of a communicator are not done yet.
#[derive(Default)]
struct Behind {
    jobs: Mutex<u64>,
    changed: Condvar,
}

impl Behind {
    fn count(&self, begins: bool) {
        let mut jobs = self.jobs.lock();
        *jobs = if begins { *jobs + 1 } else { jobs.saturating_sub(1) };
        self.changed.notify_all();
    }

    fn wait(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        let mut jobs = self.jobs.lock();
        while *jobs > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            jobs = self.changed.wait_timeout(jobs, left);
        }
    }
}

/// The books of one rank's communicator.
pub(crate) struct Books {
    jobs: Sender<(Job, Open)>,
    formed: Arc<OnceLock<Result<Option<Arc<Communicator>>, Failure>>>,
    behind: Arc<Behind>,
    /// The real NCCL has reported a failure.
    failed: AtomicBool,
    pub(crate) participant: Participant,
}

impl Books {
    /// Joins the ranks that have the same unique id.
    pub(crate) fn init(
        process: &'static Arc<Process>,
        id: [u8; 128],
        size: u32,
        rank: u32,
        participant: Participant,
    ) -> Result<Arc<Self>, u32> {
        Self::start(participant, move || process.init_communicator(&id, size, rank, participant).map(Some))
    }

    /// Splits this communicator.
    pub(crate) fn split(&self, process: &'static Arc<Process>, color: Option<u32>, key: i32) -> Result<Arc<Self>, u32> {
        let (sender, receiver) = channel();
        let (pending, done) = channel();
        self.post(Job::Split(sender, done));
        let participant = self.participant;
        Self::start(participant, move || {
            let _pending = pending;
            let none = |_| Failure::new(ErrorCode::UnknownCommunicator, "its parent never formed");
            let (parent, number) = receiver.recv().map_err(none)?;
            let global_rank = parent.members()[parent.rank() as usize].global_rank.0;
            process.split(&parent, number, color, key, Participant { global_rank, ..participant })
        })
    }

    fn start(
        participant: Participant,
        form: impl FnOnce() -> Result<Option<Arc<Communicator>>, Failure> + Send + 'static,
    ) -> Result<Arc<Self>, u32> {
        let (jobs, receiver) = channel();
        let formed = Arc::new(OnceLock::new());
        let behind = Arc::new(Behind::default());
        behind.count(true);
        let books = Arc::new(Self {
            jobs,
            formed: Arc::clone(&formed),
            behind: Arc::clone(&behind),
            failed: AtomicBool::new(false),
            participant,
        });
        let open = Open::begin();
        let work = move || {
            let result = form();
            let ranks = result.as_ref().ok().cloned().flatten();
            if let Err(failure) = &result {
                trouble::report(&failure.detail);
            }
            let _ = formed.set(result);
            drop(open);
            behind.count(false);
            if let Some(ranks) = ranks {
                work_off(&ranks, &receiver, &behind);
            }
        };
        let started = std::thread::Builder::new().name("fakegpu-books".to_owned()).spawn(work);
        let failed = |error| trouble::refuse(nccl::SYSTEM, &format!("cannot start a thread: {error}"));
        started.map(|_| books).map_err(failed)
    }

    fn post(&self, job: Job) {
        self.behind.count(true);
        // A thread that has ended has nothing to note: its communicator failed to form, or this rank left it.
        if self.jobs.send((job, Open::begin())).is_err() {
            self.behind.count(false);
        }
    }

    /// Notes the calls of one group, or a single call.
    pub(crate) fn calls(&self, calls: Vec<Call>) {
        self.post(Job::Calls(calls));
    }

    /// The program destroys the communicator.
    pub(crate) fn leave(&self) {
        self.post(Job::Leave);
    }

    /// The program gives the communicator up, or the real NCCL could not do what was noted.
    pub(crate) fn abort(&self) {
        self.behind.wait(PATIENCE);
        if let Some(Ok(Some(ranks))) = self.formed.get() {
            ranks.abort();
        }
    }

    /// The first thing that went wrong between its ranks.
    pub(crate) fn failure(&self) -> Option<Failure> {
        match self.formed.get()? {
            Ok(Some(ranks)) => ranks.failure(),
            Ok(None) => None,
            Err(failure) => Some(failure.clone()),
        }
    }

    /// The real NCCL has failed, usually a consequence of what the books are about to learn. They get time for that, once.
    pub(crate) fn real_failed(&self) {
        if !self.failed.swap(true, Ordering::Relaxed) {
            self.behind.wait(PATIENCE);
        }
    }

    /// After a failure, NCCL gets no more calls: if ranks disagree it hangs, or mixes their bytes.
    ///
    /// # Errors
    /// The code of the failure.
    pub(crate) fn usable(&self) -> Result<(), u32> {
        self.failure().map_or(Ok(()), |failure| Err(trouble::keep(&failure)))
    }
}

fn work_off(ranks: &Arc<Communicator>, jobs: &Receiver<(Job, Open)>, behind: &Behind) {
    let mut reported = false;
    let mut splits = Vec::new();
    while let Ok((job, _open)) = jobs.recv() {
        match job {
            Job::Calls(calls) => {
                let failed = ranks.run(&calls).err().filter(|failure| failure.code != ErrorCode::Aborted);
                if let Some(failure) = failed.filter(|_| !reported) {
                    reported = true;
                    trouble::report(&failure.detail);
                }
            }
            Job::Split(child, done) => {
                splits.push(done);
                drop(child.send((Arc::clone(ranks), ranks.split_ticket())));
            }
            Job::Leave => {
                // The program saw its splits complete. Here they may still be in progress and need every rank; each has a
                // deadline.
                for done in splits {
                    let _ = done.recv();
                }
                return ranks.leave();
            }
        }
        behind.count(false);
    }
    // Given up before it formed.
    ranks.abort();
}
