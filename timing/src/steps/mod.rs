//! Steps of a program on the modeled clock: where they begin and end, and what a GPU did in each. Pure rules over intervals; the
//! caller records what ran. All times are in ns from the start of the process.

mod exposed;
mod intervals;
mod path;
mod recorder;
mod summary;

use protocol::report::{StepMark, StepTime};

pub use exposed::exposed;
use intervals::Coverage;
pub use intervals::{Interval, Intervals, only};
pub use path::{LOST, Piece, critical_path};
pub use recorder::{Part, Ran, Recorder, is_sampled};
pub use summary::{device_steps, run_time};

/// The most segments of a critical path, and the most exposed collectives, that are told.
pub const TOLD: usize = 8;

/// The host came to the beginning or the end of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// What says so.
    pub by: StepMark,
    /// Whether a step begins; only NVTX ranges say that.
    pub is_begin: bool,
    /// When.
    pub host_ns: u64,
}

/// What marks steps, if several things do: what the program says most explicitly.
const PREFERRED: [StepMark; 3] = [StepMark::Nvtx, StepMark::Profiler, StepMark::Optimizer];

/// The steps between marks. `ends[n]` is when the last work ended that was submitted between mark `n - 1` and mark `n`. A step
/// ends when the host has come to its mark and all that was submitted before has ended: when a synchronizing call would return.
/// `None` if no step ends.
pub fn windows(marks: &[Mark], ends: &[u64]) -> Option<(StepMark, Vec<Interval>)> {
    let by = PREFERRED.into_iter().find(|by| marks.iter().any(|mark| mark.by == *by && !mark.is_begin))?;
    let (mut now, mut begun, mut windows) = (0, Some(0), Vec::new());
    if by == StepMark::Nvtx {
        begun = None;
    }
    for (place, mark) in marks.iter().enumerate() {
        now = ends.get(place).copied().unwrap_or(0).max(mark.host_ns).max(now);
        if mark.by != by {
            continue;
        }
        if mark.is_begin {
            begun = Some(now);
        } else if let Some(begin) = begun {
            windows.push((begin, now));
            begun = (by != StepMark::Nvtx).then_some(now);
        }
    }
    Some((by, windows))
}

/// What one GPU did.
#[derive(Clone, Debug, Default)]
pub struct Activity {
    /// When kernels, copies and memsets ran.
    pub computing: Intervals,
    /// When collectives ran.
    pub communicating: Intervals,
    /// When a collective was ready here and waited for other ranks.
    pub waiting: Intervals,
    /// Work that began (second) later than the device could have begun it (first), because the host submitted it late.
    pub late: Vec<Interval>,
}

/// How much of everything lies within a step.
#[derive(Debug)]
pub struct Figures {
    busy: Coverage,
    computing: Coverage,
    communicating: Coverage,
    exposed: Coverage,
    waiting: Coverage,
    launch_bound: Coverage,
    host_waits: Coverage,
}

impl Activity {
    /// Pieces that are kept.
    pub fn len(&self) -> usize {
        self.computing.len() + self.communicating.len() + self.waiting.len() + self.late.len()
    }

    /// Whether it did nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The figures, with the times in which the host waited; nothing comes after `until`.
    pub fn figures(&mut self, host_waits: &mut Intervals, until: u64) -> Figures {
        let (computing, communicating) = (self.computing.joined(), self.communicating.joined());
        let busy = intervals::union(computing, communicating);
        let waiting = intervals::without(self.waiting.joined(), &busy);
        let active = intervals::union(&busy, &waiting);
        self.late.sort_unstable_by_key(|(could, began)| (*began, *could));
        Figures {
            launch_bound: Coverage::new(launch_bound(&active, &self.late, until)),
            exposed: Coverage::new(intervals::without(communicating, computing)),
            computing: Coverage::new(computing.to_vec()),
            communicating: Coverage::new(communicating.to_vec()),
            host_waits: Coverage::new(host_waits.joined().to_vec()),
            busy: Coverage::new(busy),
            waiting: Coverage::new(waiting),
        }
    }
}

/// When nothing was active because the host was late: of each gap, from when the work that ends it could have begun. `late` is in
/// order of the beginnings.
fn launch_bound(active: &[Interval], late: &[Interval], until: u64) -> Vec<Interval> {
    let mut idle_from = 0;
    let mut bound = Vec::new();
    for (begin, end) in active {
        // Of several that begin then, the one for which the device waited least.
        let after = late.partition_point(|(_, began)| began <= begin);
        if let Some((could, _)) = after.checked_sub(1).map(|last| late[last]).filter(|(_, began)| began == begin)
            && could.max(idle_from) < *begin
        {
            bound.push((could.max(idle_from), *begin));
        }
        idle_from = *end;
    }
    if idle_from < until {
        bound.push((idle_from, until));
    }
    bound
}

impl Figures {
    /// When anything ran, ns.
    pub fn busy_ns(&self) -> u64 {
        self.busy.total()
    }

    /// When kernels and copies ran, ns.
    pub fn computing_ns(&self) -> u64 {
        self.computing.total()
    }

    /// When collectives ran, ns.
    pub fn communication_ns(&self) -> u64 {
        self.communicating.total()
    }

    /// When collectives ran and nothing else did, ns.
    pub fn exposed_communication_ns(&self) -> u64 {
        self.exposed.total()
    }

    /// The step with this number.
    pub fn step(&self, number: u64, window: Interval) -> StepTime {
        let mut step = StepTime {
            step: number,
            duration_ns: window.1 - window.0,
            busy_ns: self.busy.within(window),
            computing_ns: self.computing.within(window),
            communication_ns: self.communicating.within(window),
            exposed_communication_ns: self.exposed.within(window),
            collective_wait_ns: self.waiting.within(window),
            launch_bound_ns: self.launch_bound.within(window),
            host_wait_ns: self.host_waits.within(window),
            overlap_share: None,
            launch_bound_share: None,
        };
        summary::set_shares(&mut step);
        step
    }
}

#[cfg(test)]
mod tests;
