//! The modeled clock of this process (`FAKEGPU_CLOCK=modeled`): its calls cost the host what `timing::work::host` says, its streams
//! end when the time model says, and its waits wait for that. It only knows what is submitted, in the order in which it is
//! submitted, so a run does not depend on this machine. All times are in nanoseconds from the start of the process.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use dataplane::lock::Mutex;
use protocol::operations::Act;
use timing::work::host;
pub(crate) use timing::work::nanoseconds;

use crate::process::{program_clock, time_module};
use crate::report::operations::{self, Log};
use crate::report::time;
use crate::settings::{self, Clock};

/// The host's time. One for all threads of the program: those that submit work wait for each other, as the main thread does for
/// the one that runs the backward pass.
static HOST: AtomicU64 = AtomicU64::new(0);

const SECOND: u64 = 1_000_000_000;

/// What a read of the clock takes, ns: one through the vDSO.
const READ_NS: u64 = 40;

/// The moment that the program last asked about in vain, and when.
static ASKED: Mutex<(u64, u64)> = Mutex::new((0, 0));

thread_local! {
    /// Whether this thread has submitted work or waited for it. Threads that only look, such as NCCL's watchdog, have no time
    /// of their own: what they see is what has really happened.
    static TAKES_PART: Cell<bool> = const { Cell::new(false) };
}

/// Whether times are those of the simulated GPUs.
pub(crate) fn is_modeled() -> bool {
    static MODELED: OnceLock<bool> = OnceLock::new();
    *MODELED.get_or_init(|| {
        let clock = settings::get().map_or(Clock::Real, |settings| settings.clock);
        match clock {
            Clock::Real => {}
            Clock::Fast => follow(time_module::Clock { now: fast_ns, slept: |_| {} }),
            Clock::Modeled => {
                time::tell(host_ns);
                follow(time_module::Clock { now: program_ns, slept });
            }
        }
        clock == Clock::Modeled
    })
}

/// Lets the program read this clock.
fn follow(clock: time_module::Clock) {
    time_module::follow(clock);
    program_clock::follow(clock);
}

/// The host's time.
pub(crate) fn host_ns() -> u64 {
    HOST.load(Ordering::Acquire)
}

/// What the program reads from its own clocks: the host's time, counted from what the clock said when it was first asked, in
/// whole seconds: a program that reads the time as a floating-point number gets the same differences in every run. Reading it
/// takes time, so that no stretch is empty.
pub(crate) fn program_ns(id: libc::clockid_t) -> u64 {
    static STARTS: [OnceLock<u64>; 2] = [const { OnceLock::new() }; 2];
    let start = STARTS[usize::from(id != libc::CLOCK_REALTIME)]
        .get_or_init(|| real_ns(id).saturating_sub(HOST.load(Ordering::Acquire)).next_multiple_of(SECOND));
    operations::spent(READ_NS);
    start + HOST.fetch_add(READ_NS, Ordering::AcqRel)
}

/// The same of a clock that runs twice as fast from when it is first asked.
fn fast_ns(id: libc::clockid_t) -> u64 {
    static STARTS: [OnceLock<u64>; 2] = [const { OnceLock::new() }; 2];
    let now = real_ns(id);
    let start = *STARTS[usize::from(id != libc::CLOCK_REALTIME)].get_or_init(|| now);
    now + now.saturating_sub(start)
}

/// A clock of libc, or of a library that gives the process another date. Of the program, only the executable is bound to `program_ns`.
fn real_ns(id: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is written to.
    unsafe { libc::clock_gettime(id, &raw mut now) };
    now.tv_sec as u64 * SECOND + now.tv_nsec as u64
}

/// The program has slept for so long.
pub(crate) fn slept(ns: u64) {
    operations::spent(ns);
    HOST.fetch_add(ns, Ordering::AcqRel);
}

/// Lets a call of this thread cost `us` of the host's time; returns the time after it.
pub(crate) fn spend(us: f64) -> u64 {
    TAKES_PART.set(true);
    let ns = nanoseconds(us);
    operations::spent(ns);
    HOST.fetch_add(ns, Ordering::AcqRel) + ns
}

/// The program waits for what ends at a moment.
pub(crate) fn host_waits(act: impl FnOnce(&mut Log) -> Act, ends_ns: impl FnOnce() -> u64) {
    if is_modeled() {
        operations::act(act);
        let ends_ns = ends_ns();
        let came_ns = HOST.fetch_max(ends_ns, Ordering::AcqRel);
        if came_ns < ends_ns {
            time::host_waited((came_ns, ends_ns));
        }
        spend(host::SYNCHRONIZE_US);
    }
}

/// Whether the program, which asks without waiting, sees what ends at a moment as done. Who asks again and again, and does nothing
/// else, spends time, and so gets there; a single question is free, because what it finds may depend on this machine.
pub(crate) fn sees(act: impl FnOnce(&mut Log) -> Act, ends_ns: impl FnOnce() -> u64) -> bool {
    if !is_modeled() || !TAKES_PART.get() {
        return true;
    }
    let (ends_ns, now_ns) = (ends_ns(), host_ns());
    let mut asked = ASKED.lock();
    if ends_ns <= now_ns {
        // Who asked for it and did nothing else has waited.
        if *asked == (ends_ns, now_ns) && ends_ns > 0 {
            operations::act(act);
        }
        return true;
    }
    let now_ns = if *asked == (ends_ns, now_ns) { spend(host::QUERY_US) } else { now_ns };
    *asked = (ends_ns, now_ns);
    false
}
