//! What the devices of one process did on the modeled clock, and the marks of steps in between. What counts as what is decided in the
//! modules beside this one.

use std::collections::BTreeMap;

use protocol::device_report::DeviceTime;
use protocol::ids::Rank;
use protocol::report::{PathKind, SamplePiece, StepSample, StepWindow};

use super::{
    Activity, Interval, Intervals, LOST, Mark, Piece as Detail, critical_path, device_steps, exposed, windows,
};

/// The most pieces of a process that are kept for its steps: 64 MiB. Later steps are only counted.
const MOST: usize = 1 << 22;

#[derive(Debug, Default)]
struct Device {
    activity: Activity,
    works: u64,
    unknown: BTreeMap<String, u64>,
}

/// The record of a process.
#[derive(Debug, Default)]
pub struct Recorder {
    devices: BTreeMap<u32, Device>,
    marks: Vec<Mark>,
    /// When the last work ended that was submitted before each mark and after the one before it, ns.
    ends: Vec<u64>,
    /// When the host waited.
    host_waits: Intervals,
    /// When the first piece began that was not kept for the steps, ns.
    full_ns: Option<u64>,
    /// Pieces of the second step, and of some after it: what marks steps is known at the end.
    sample: Vec<(u32, Detail)>,
    /// When the first piece after the first mark began that is not among them, ns.
    sample_full_ns: Option<u64>,
}

/// The most pieces of the second step that are told one by one.
const SAMPLED: usize = 4096;
/// The second step is submitted between these numbers of marks, if it is one of several kinds.
const SAMPLED_MARKS: std::ops::Range<usize> = 1..8;
/// The most steps whose times are told.
const WINDOWS: usize = 1000;
/// The step that is looked at closely: the first has what the program does before it.
const SAMPLED_STEP: usize = 2;

/// What a piece of work is to these totals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It computes or copies.
    Computing,
    /// It is NCCL's.
    Communicating,
    /// It takes no time of the device.
    Nothing,
}

/// When a piece of work ran, ns.
#[derive(Clone, Copy, Debug)]
pub struct Ran {
    /// The device's ordinal.
    pub device: u32,
    /// What it is.
    pub part: Part,
    /// How many marks there were when the host submitted it.
    pub marked: usize,
    /// When its stream could have begun it.
    pub could_ns: u64,
    /// When the host had submitted it, too.
    pub ready_ns: u64,
    /// It began later if it waited for other ranks.
    pub begin_ns: u64,
    /// When it ended.
    pub end_ns: u64,
}

/// Whether work that is submitted after so many marks may be looked at closely.
#[inline]
pub fn is_sampled(marked: usize) -> bool {
    SAMPLED_MARKS.contains(&marked)
}

impl Recorder {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self {
            devices: BTreeMap::new(),
            marks: Vec::new(),
            ends: Vec::new(),
            host_waits: Intervals::new(),
            full_ns: None,
            sample: Vec::new(),
            sample_full_ns: None,
        }
    }

    /// The host has come to the beginning or the end of a step; returns how many marks there are.
    pub fn mark(&mut self, mark: Mark) -> usize {
        self.marks.push(mark);
        self.marks.len()
    }

    /// The host has waited for the device.
    pub fn host_waited(&mut self, interval: Interval) {
        self.host_waits.add(interval);
    }

    /// The last work of a stream ended later, as other work ran beside it: from when to when.
    pub fn lost(&mut self, device: u32, stream: u64, (begin_ns, end_ns): Interval, is_collective: bool, marked: usize) {
        let part = if is_collective { Part::Communicating } else { Part::Computing };
        let ran = Ran { device, part, marked, could_ns: begin_ns, ready_ns: begin_ns, begin_ns, end_ns };
        self.keep(ran, || Detail {
            name: LOST.to_owned(),
            kind: if is_collective { PathKind::Collective } else { PathKind::Compute },
            operation: None,
            bytes: None,
            line: None,
            stream,
            at_ns: 0,
            after_ns: begin_ns,
            lost_ns: 0,
            ready_ns: begin_ns,
            begin_ns,
            awaited: None,
            end_ns,
            is_host_late: false,
        });
    }

    /// Adds a piece of work; `unknown` is the name of one about which the model knows nothing, `detail` makes one that is looked
    /// at closely.
    pub fn add(&mut self, ran: Ran, unknown: Option<&str>, detail: impl FnOnce() -> Detail) {
        self.keep(ran, detail);
        if ran.part == Part::Nothing {
            return;
        }
        let device = self.devices.entry(ran.device).or_default();
        device.works += 1;
        if let Some(name) = unknown {
            match device.unknown.get_mut(name) {
                Some(count) => *count += 1,
                None => drop(device.unknown.insert(name.to_owned(), 1)),
            }
        }
    }

    fn keep(&mut self, piece: Ran, detail: impl FnOnce() -> Detail) {
        if self.ends.len() <= piece.marked {
            self.ends.resize(piece.marked + 1, 0);
        }
        self.ends[piece.marked] = self.ends[piece.marked].max(piece.end_ns);
        let kept = self.host_waits.len() + self.devices.values().map(|device| device.activity.len()).sum::<usize>();
        let device = self.devices.entry(piece.device).or_default();
        let ran = (piece.begin_ns, piece.end_ns);
        match piece.part {
            Part::Communicating => device.activity.communicating.add(ran),
            Part::Computing => device.activity.computing.add(ran),
            Part::Nothing => return,
        }
        if kept < MOST {
            device.activity.waiting.add((piece.ready_ns, piece.begin_ns));
            if piece.could_ns < piece.ready_ns {
                device.activity.late.push((piece.could_ns, piece.ready_ns));
            }
        } else {
            self.full_ns = Some(self.full_ns.unwrap_or(u64::MAX).min(piece.could_ns));
        }
        if is_sampled(piece.marked) && self.sample.len() < SAMPLED {
            self.sample.push((piece.device, detail()));
        } else if piece.marked > 0 {
            self.sample_full_ns = Some(self.sample_full_ns.unwrap_or(u64::MAX).min(piece.begin_ns));
        }
    }

    /// The totals of a device and its steps; `None` if it did nothing.
    pub fn totals(&mut self, rank: Option<Rank>, device: u32, is_calibrated: bool) -> Option<DeviceTime> {
        let state = self;
        let marked = windows(&state.marks, &state.ends);
        let is_only = state.devices.len() == 1;
        let own = state.devices.get_mut(&device)?;
        let until = marked.iter().flat_map(|(_, windows)| windows).map(|(_, end)| *end).max();
        let figures = own.activity.figures(&mut state.host_waits, until.unwrap_or(0));
        let (mut steps, mut sample, mut step_windows) = (None, None, Vec::new());
        if let Some((by, windows)) = marked {
            let is_kept = |(_, end): &Interval| state.full_ns.is_none_or(|full_ns| *end <= full_ns);
            let told = |&(begin_ns, end_ns): &Interval| StepWindow { begin_ns, end_ns };
            step_windows.extend(windows.iter().take(WINDOWS).map(told));
            let kept = windows.partition_point(is_kept);
            let each: Vec<_> = (1..).zip(&windows[..kept]).map(|(step, window)| figures.step(step, *window)).collect();
            steps = device_steps(rank, device, by, &each, (windows.len() - kept) as u64);
            if let Some(window) = windows.get(SAMPLED_STEP - 1) {
                let is_within = |detail: &Detail| detail.begin_ns < window.1 && detail.end_ns > window.0;
                let details = state.sample.iter().filter(|(of, detail)| *of == device && is_within(detail));
                let mut details: Vec<Detail> = details.map(|(_, detail)| detail.clone()).collect();
                details.sort_by(|one, other| {
                    (one.begin_ns, one.stream, &one.name).cmp(&(other.begin_ns, other.stream, &other.name))
                });
                let is_whole = state.sample_full_ns.is_none_or(|full_ns| window.1 <= full_ns);
                if let (true, Some(steps)) = (is_whole, &mut steps) {
                    steps.exposed = exposed(&details, *window);
                }
                if let (true, true, Some(steps)) = (is_only, is_whole, &mut steps) {
                    let waits = state.host_waits.joined();
                    steps.critical_path = critical_path(&details, waits, *window).unwrap_or_default();
                }
                sample = Some(sampled(*window, &details, is_whole));
            }
        }
        Some(DeviceTime {
            is_calibrated,
            works: own.works,
            busy_ns: figures.busy_ns(),
            computing_ns: figures.computing_ns(),
            communication_ns: figures.communication_ns(),
            exposed_communication_ns: figures.exposed_communication_ns(),
            unknown: own.unknown.clone(),
            steps,
            sample,
            step_windows,
        })
    }
}

/// The sample of a step, in the order in which its pieces began.
fn sampled((begin_ns, end_ns): Interval, details: &[Detail], is_whole: bool) -> StepSample {
    let mut streams: Vec<u64> = Vec::new();
    let mut piece = |detail: &Detail| {
        let known = streams.iter().position(|stream| *stream == detail.stream);
        let stream = known.unwrap_or_else(|| {
            streams.push(detail.stream);
            streams.len() - 1
        });
        SamplePiece {
            name: detail.name.clone(),
            kind: detail.kind,
            stream: stream as u64,
            begin_ns: detail.begin_ns,
            end_ns: detail.end_ns,
            bytes: detail.bytes,
            file: detail.line.as_ref().map(|(file, _)| file.clone()),
            line: detail.line.as_ref().map(|(_, line)| *line),
        }
    };
    let pieces = details.iter().map(&mut piece).collect();
    StepSample { step: SAMPLED_STEP as u64, begin_ns, end_ns, is_whole, pieces }
}
