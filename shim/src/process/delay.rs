//! Delays that a case asks for (`schedule`). Each is a function of seed, rank, kind of moment, thread and the number of the
//! thread's visits, so it does not depend on which thread comes first.

use std::cell::RefCell;
use std::time::Duration;

use protocol::schedule::Schedule;
use xxhash_rust::xxh64::xxh64;

use super::rank;
use crate::settings;

/// A moment at which a delay may be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Moment {
    /// A communicator forms.
    Start,
    /// A collective, send or recv is issued.
    Collective,
    /// Work of a stream begins.
    Stream,
    /// The host has waited for a stream, an event or a device.
    Wake,
    /// An operator of PyTorch writes its results.
    Operator,
}

/// One in this many stream operations and host waits is late: there are thousands in a step.
const ONE_OF: u64 = 8;
/// The same for operators, of which there are more.
const ONE_OF_OPERATORS: u64 = 16;

/// The inputs for a thread's draws.
struct Thread {
    rank: u64,
    name: u64,
    /// How often each moment was visited.
    visits: [u64; 5],
}

thread_local! {
    // Boxed, because the loader has little room for what is in each thread.
    static THREAD: RefCell<Option<Box<Thread>>> = const { RefCell::new(None) };
}

/// How long this thread waits when it next comes to such a moment. `None` if no case asks for it.
pub(crate) fn draw(moment: Moment) -> Option<Duration> {
    let schedule = settings::get().ok()?.schedule.as_ref()?;
    let drawn = THREAD.try_with(|thread| {
        let mut thread = thread.borrow_mut();
        let Thread { rank, name, visits } = &mut **thread.get_or_insert_with(|| Box::new(Thread::this()));
        let visit = &mut visits[moment as usize];
        *visit += 1;
        delay_of(schedule, moment, [*rank, *name, *visit])
    });
    // A thread that ends has no values any more.
    drawn.ok().filter(|delay| !delay.is_zero())
}

/// Waits for the drawn delay.
pub(crate) fn wait(moment: Moment) {
    if let Some(delay) = draw(moment) {
        std::thread::sleep(delay);
    }
}

impl Thread {
    fn this() -> Self {
        let mut name = [0u8; 16];
        // SAFETY: the kernel writes at most 16 bytes, with the 0 at the end.
        unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
        Self { rank: rank().map_or(u64::MAX, u64::from), name: xxh64(&name, 0), visits: [0; 5] }
    }
}

fn delay_of(schedule: &Schedule, moment: Moment, [rank, name, visit]: [u64; 3]) -> Duration {
    let key: Vec<u8> = [rank, name, moment as u64, visit].iter().flat_map(|word| word.to_le_bytes()).collect();
    let number = xxh64(&key, schedule.seed.into());
    let one_of = match moment {
        Moment::Start | Moment::Collective => 1,
        Moment::Stream | Moment::Wake => ONE_OF,
        Moment::Operator => ONE_OF_OPERATORS,
    };
    if !number.is_multiple_of(one_of) {
        return Duration::ZERO;
    }
    let most = schedule.jitter.as_micros() as u64;
    Duration::from_micros(number / ONE_OF.max(one_of) % (most + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(seed: u32, rank: u64, moment: Moment) -> Vec<u128> {
        let schedule = Schedule { seed, jitter: Duration::from_millis(5) };
        (1..=400).map(|visit| delay_of(&schedule, moment, [rank, 7, visit]).as_micros()).collect()
    }

    #[test]
    fn delays_are_those_of_the_seed_and_spread_up_to_the_jitter() {
        let some = delays(1, 0, Moment::Collective);
        assert_eq!(some, delays(1, 0, Moment::Collective));
        for others in [delays(2, 0, Moment::Collective), delays(1, 1, Moment::Collective), delays(1, 0, Moment::Start)]
        {
            assert_ne!(some, others);
        }
        assert!(some.iter().all(|us| *us <= 5000));
        let mean = some.iter().sum::<u128>() / 400;
        assert!((2100..2900).contains(&mean), "{mean} us: 2500 us, give or take 5 times 72 us");
        let late = delays(1, 0, Moment::Stream).iter().filter(|us| **us > 0).count();
        assert!((17..=83).contains(&late), "{late}: 50 of 400, give or take 5 times 6.6");
        let late = delays(1, 0, Moment::Operator).iter().filter(|us| **us > 0).count();
        assert!((1..=50).contains(&late), "{late}: 25 of 400, give or take 5 times 4.8");
        let none = Schedule { seed: 1, jitter: Duration::ZERO };
        assert_eq!(delay_of(&none, Moment::Collective, [0, 7, 1]), Duration::ZERO);
    }
}
