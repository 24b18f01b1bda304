//! An `ncclComm_t`: a communicator while it forms, works, fails and drains, and the work it has in streams.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dataplane::Failure;
use dataplane::communicator::Communicator as Ranks;
use dataplane::process::{Process, Seat};
use protocol::message::{ErrorCode, SharedFile};

use super::error::{NcclError, NcclResult, code, note};
use super::reduction::Factors;
use crate::boundary::handle::Handles;
use crate::device::{self, Device};

/// The handles of all communicators.
pub(crate) static COMMUNICATORS: Handles<Communicator> = Handles::new(13);

/// One rank's communicator as C holds it.
pub(crate) struct Communicator {
    /// Where its ranks' calls run.
    pub(crate) device: &'static Device,
    state: Mutex<State>,
    changed: Condvar,
    /// Operations in streams that are not done yet.
    outstanding: AtomicU64,
    /// Threads in [`Communicator::drain`]: without them nobody is woken at an operation's end, which is a system call.
    draining: AtomicU32,
    finalized: AtomicBool,
    told: AtomicBool,
    /// User-defined reductions.
    pub(crate) factors: Factors,
    /// Different for every communicator of the process.
    pub(crate) serial: u64,
}

enum State {
    Forming,
    Ready(Arc<Ranks>),
    /// A split left this rank without a communicator.
    Nothing,
    Failed(Failure),
}

impl Communicator {
    /// One that is about to form on `device`.
    pub(crate) fn forming(device: &'static Device) -> Arc<Self> {
        static SERIALS: AtomicU64 = AtomicU64::new(0);
        Arc::new(Self {
            device,
            state: Mutex::new(State::Forming),
            changed: Condvar::new(),
            outstanding: AtomicU64::new(0),
            draining: AtomicU32::new(0),
            finalized: AtomicBool::new(false),
            told: AtomicBool::new(false),
            factors: Factors::default(),
            serial: SERIALS.fetch_add(1, Ordering::Relaxed),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes how the rendezvous ended.
    pub(crate) fn formed(&self, result: Result<Option<Arc<Ranks>>, Failure>) {
        *self.lock() = match result {
            Ok(Some(ranks)) => State::Ready(ranks),
            Ok(None) => State::Nothing,
            Err(failure) => {
                note(failure.detail.clone());
                State::Failed(failure)
            }
        };
        self.changed.notify_all();
    }

    /// The communicator itself.
    ///
    /// # Errors
    /// `ncclInvalidUsage` while it forms; the failure of the rendezvous.
    pub(crate) fn ranks(&self) -> NcclResult<Arc<Ranks>> {
        match &*self.lock() {
            State::Ready(ranks) => Ok(Arc::clone(ranks)),
            State::Forming => {
                Err(NcclError::INVALID_USAGE
                    .because("the communicator is still forming: wait for ncclCommGetAsyncError"))
            }
            State::Nothing => Err(NcclError::INVALID_ARGUMENT.because("this rank got no communicator from the split")),
            State::Failed(failure) => Err(failure.into()),
        }
    }

    /// [`Self::ranks`], fit for new operations.
    ///
    /// # Errors
    /// As above; the first failure of the communicator; `ncclInvalidUsage` after `ncclCommFinalize`.
    pub(crate) fn usable(&self) -> NcclResult<Arc<Ranks>> {
        let ranks = self.ranks()?;
        if let Some(failure) = ranks.failure() {
            return Err(failure.into());
        }
        if self.finalized.load(Ordering::Acquire) {
            return Err(NcclError::INVALID_USAGE.because("the communicator is finalized"));
        }
        Ok(ranks)
    }

    /// `ncclCommGetAsyncError`: success, in progress, or the first failure.
    pub(crate) fn async_error(&self) -> u32 {
        match &*self.lock() {
            State::Forming => NcclError::IN_PROGRESS.0,
            State::Nothing => 0,
            State::Failed(failure) => code(failure.code).0,
            State::Ready(ranks) => ranks.failure().map_or(0, |failure| code(failure.code).0),
        }
    }

    /// The sentence of its first failure.
    pub(crate) fn failure(&self) -> Option<Failure> {
        match &*self.lock() {
            State::Failed(failure) => Some(failure.clone()),
            State::Ready(ranks) => ranks.failure(),
            State::Forming | State::Nothing => None,
        }
    }

    /// True when a split left this rank without a communicator.
    pub(crate) fn is_nothing(&self) -> bool {
        matches!(*self.lock(), State::Nothing)
    }

    /// An operation goes into a stream.
    pub(crate) fn begin(&self) {
        self.outstanding.fetch_add(1, Ordering::AcqRel);
    }

    /// An operation came out of its stream.
    pub(crate) fn end(&self, result: &Result<(), Failure>) {
        if let Err(failure) = result {
            note(failure.detail.clone());
            // The program may never ask; a wrong number must not pass silently.
            if failure.code != ErrorCode::Aborted && !self.told.swap(true, Ordering::AcqRel) {
                // In one piece, since other ranks write to the same stream.
                let line = format!("fakegpu: NCCL operation failed: {}\n", failure.detail);
                let _ = std::io::stderr().write_all(line.as_bytes());
            }
        }
        let _state = self.lock();
        self.outstanding.fetch_sub(1, Ordering::AcqRel);
        if self.draining.load(Ordering::Relaxed) > 0 {
            self.changed.notify_all();
        }
    }

    /// Waits until it formed and its operations are done. Both end by themselves: they have deadlines.
    pub(crate) fn drain(&self) {
        let mut state = self.lock();
        self.draining.fetch_add(1, Ordering::Relaxed);
        while matches!(*state, State::Forming) || self.outstanding.load(Ordering::Acquire) > 0 {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        self.draining.fetch_sub(1, Ordering::Relaxed);
    }

    /// [`Self::drain`] for at most `time`.
    pub(crate) fn drain_for(&self, time: Duration) {
        let deadline = Instant::now() + time;
        let mut state = self.lock();
        self.draining.fetch_add(1, Ordering::Relaxed);
        while self.outstanding.load(Ordering::Acquire) > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        self.draining.fetch_sub(1, Ordering::Relaxed);
    }

    /// No operations after this.
    pub(crate) fn finalize(&self) {
        self.finalized.store(true, Ordering::Release);
    }
}

/// The communicator behind an `ncclComm_t`.
///
/// # Errors
/// `ncclInvalidArgument` for null, stale and invented handles.
pub(crate) fn resolve(handle: usize) -> NcclResult<Arc<Communicator>> {
    COMMUNICATORS.get(handle).ok_or_else(|| {
        NcclError::INVALID_ARGUMENT.because(if handle == 0 {
            "the communicator is null"
        } else {
            "no such communicator"
        })
    })
}

/// This process's part of the run; says goodbye when the process exits.
///
/// # Errors
/// A bad variable or an unreachable coordinator.
pub(crate) fn process() -> NcclResult<Arc<Process>> {
    crate::report::used();
    let process = Process::current()?;
    crate::boundary::at_exit::at_exit(|| {
        if let Some(process) = Process::joined() {
            process.goodbye();
        }
    });
    Ok(process)
}

/// What the others must know of the rank that uses `device`. `RANK` counts where a process plays one rank.
///
/// # Errors
/// When the device can have no memory.
pub(crate) fn seat(device: &'static Device, one_rank: bool) -> NcclResult<Seat> {
    let arena = device::arena_of(device)?;
    let told = std::env::var("RANK").ok().and_then(|rank| rank.trim().parse::<u32>().ok());
    let global_rank = told.filter(|_| one_rank).unwrap_or(device.gpu.rank.0);
    let arena = SharedFile { fd: arena.fd(), length: arena.length() as u64 };
    Ok(Seat { global_rank, device: device.ordinal, arena: Some(arena) })
}
