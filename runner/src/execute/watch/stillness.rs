//! Whether the processes of a case still do anything, by the processor time that the kernel counts for them.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::execute::hang::native_state;
use crate::execute::process_tree::sweep::Process;
use crate::execute::run::clock::Instant;

/// The unit of times in `/proc/PID/stat`, the same on all architectures that we run on.
const TICK: Duration = Duration::from_millis(10);
/// A process that only wakes up to look whether there is something to do uses less than this part of the time.
const BACKGROUND: f64 = 0.02;

/// How much processor time each process had used at some moment.
#[derive(Debug)]
pub(in crate::execute) struct Stillness {
    pub(in crate::execute) since: Instant,
    /// By pid and start time, ticks.
    used: BTreeMap<(i32, u64), u64>,
}

impl Stillness {
    /// The moment is now.
    pub(in crate::execute) fn measure(processes: &[Process]) -> Stillness {
        let used = processes.iter().filter_map(|process| Some(((process.pid, process.start), used(process.pid)?)));
        Stillness { since: Instant::now(), used: used.collect() }
    }

    /// Whether the same processes have done nothing from then until `now`.
    pub(in crate::execute) fn lasted_until(&self, now: &Stillness) -> bool {
        let time = (now.since - self.since).as_secs_f64();
        let most = time * BACKGROUND / TICK.as_secs_f64() + 2.0;
        self.used.keys().eq(now.used.keys())
            && self.used.iter().all(|(process, before)| now.used[process].saturating_sub(*before) as f64 <= most)
    }
}

/// Whether the main thread of one of `ranks` sleeps: it will go on by itself.
pub(in crate::execute) fn has_sleeper(ranks: &[Process]) -> bool {
    ranks.iter().any(|process| {
        native_state::main_call(process.pid).is_some_and(|call| call == "clock_nanosleep" || call == "nanosleep")
    })
}

/// The time that all threads of a process have used, ticks.
fn used(pid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may itself contain some; the state after it is field 3, the times are fields 14 and 15.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_processes_without_work_are_still() {
        let at = |since, used: &[(i32, u64)]| Stillness {
            since,
            used: used.iter().map(|(pid, ticks)| ((*pid, 7), *ticks)).collect(),
        };
        let begin = Instant::now();
        let end = begin + Duration::from_secs(10);
        let before = at(begin, &[(1, 100), (2, 5)]);
        for (after, is_still) in [
            (&[(1, 100), (2, 5)][..], true),
            // Two percent are 20 ticks.
            (&[(1, 122), (2, 5)], true),
            (&[(1, 123), (2, 5)], false),
            (&[(1, 100)], false),
            (&[(1, 100), (2, 5), (3, 0)], false),
        ] {
            assert_eq!(before.lasted_until(&at(end, after)), is_still, "{after:?}");
        }
        assert!(used(std::process::id() as i32).is_some() && used(-1).is_none());
    }
}
