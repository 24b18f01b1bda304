//! What the devices of this process did on the modeled clock, and the marks of steps in between, for the device report. What counts
//! as what is decided in `timing::steps`.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use dataplane::lock::Mutex;
use protocol::device_report::DeviceTime;
use protocol::ids::Rank;
use protocol::report::{PathKind, SamplePiece, StepMark, StepSample, StepWindow};
pub(crate) use timing::steps::Piece as Detail;
use timing::steps::{Activity, Interval, Intervals, LOST, Mark, critical_path, device_steps, exposed, windows};

use crate::process::rank;

/// The most pieces of a process that are kept for its steps: 64 MiB. Later steps are only counted.
const MOST: usize = 1 << 22;

#[derive(Debug, Default)]
struct Device {
    activity: Activity,
    works: u64,
    unknown: BTreeMap<String, u64>,
}

#[derive(Debug, Default)]
struct State {
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

static STATE: Mutex<State> = Mutex::new(State {
    devices: BTreeMap::new(),
    marks: Vec::new(),
    ends: Vec::new(),
    host_waits: Intervals::new(),
    full_ns: None,
    sample: Vec::new(),
    sample_full_ns: None,
});

/// The most pieces of the second step that are told one by one.
const SAMPLED: usize = 4096;
/// The second step is submitted between these numbers of marks, if it is one of several kinds.
const SAMPLED_MARKS: std::ops::Range<usize> = 1..8;
/// The most steps whose times are told.
const WINDOWS: usize = 1000;
/// The step that is looked at closely: the first has what the program does before it.
const SAMPLED_STEP: usize = 2;

/// How many marks there are.
static MARKED: AtomicUsize = AtomicUsize::new(0);

/// What a piece of work is to these totals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Computing,
    Communicating,
    /// It takes no time of the device.
    Nothing,
}

/// When a piece of work ran, ns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) device: u32,
    pub(crate) part: Part,
    /// How many marks there were when the host submitted it.
    pub(crate) marked: usize,
    /// When its stream could have begun it, and when it could begin: the host had submitted it, too.
    pub(crate) could_ns: u64,
    pub(crate) ready_ns: u64,
    /// It began later if it waited for other ranks.
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
}

/// Whether work that is submitted now may be looked at closely.
#[inline]
pub(crate) fn is_sampled(marked: usize) -> bool {
    SAMPLED_MARKS.contains(&marked)
}

/// How many marks there are: what is submitted now belongs to what comes after them.
#[inline]
pub(crate) fn marked() -> usize {
    MARKED.load(Ordering::Acquire)
}

/// The host has come to the beginning or the end of a step.
pub(crate) fn mark(by: StepMark, is_begin: bool) {
    let Some(host_ns) = host_ns() else { return };
    let mut state = STATE.lock();
    state.marks.push(Mark { by, is_begin, host_ns });
    MARKED.store(state.marks.len(), Ordering::Release);
}

/// The host has waited for the device.
pub(crate) fn host_waited(interval: (u64, u64)) {
    STATE.lock().host_waits.add(interval);
}

/// The last work of a stream ended later, as other work ran beside it: from when to when.
pub(crate) fn lost(device: u32, stream: u64, (begin_ns, end_ns): Interval, is_collective: bool, marked: usize) {
    let part = if is_collective { Part::Communicating } else { Part::Computing };
    let piece = Piece { device, part, marked, could_ns: begin_ns, ready_ns: begin_ns, begin_ns, end_ns };
    keep(&mut STATE.lock(), piece, || Detail {
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
        end_ns,
        is_host_late: false,
    });
}

/// Adds a piece of work; `unknown` is the name of one about which the model knows nothing, `detail` makes one that is looked at
/// closely.
pub(crate) fn add(piece: Piece, unknown: Option<&str>, detail: impl FnOnce() -> Detail) {
    let mut state = STATE.lock();
    let (device, part) = (piece.device, piece.part);
    keep(&mut state, piece, detail);
    if part == Part::Nothing {
        return;
    }
    let device = state.devices.entry(device).or_default();
    device.works += 1;
    if let Some(name) = unknown {
        match device.unknown.get_mut(name) {
            Some(count) => *count += 1,
            None => drop(device.unknown.insert(name.to_owned(), 1)),
        }
    }
}

fn keep(state: &mut State, piece: Piece, detail: impl FnOnce() -> Detail) {
    if state.ends.len() <= piece.marked {
        state.ends.resize(piece.marked + 1, 0);
    }
    state.ends[piece.marked] = state.ends[piece.marked].max(piece.end_ns);
    let kept = state.host_waits.len() + state.devices.values().map(|device| device.activity.len()).sum::<usize>();
    let device = state.devices.entry(piece.device).or_default();
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
        state.full_ns = Some(state.full_ns.unwrap_or(u64::MAX).min(piece.could_ns));
    }
    if is_sampled(piece.marked) && state.sample.len() < SAMPLED {
        state.sample.push((piece.device, detail()));
    } else if piece.marked > 0 {
        state.sample_full_ns = Some(state.sample_full_ns.unwrap_or(u64::MAX).min(piece.begin_ns));
    }
}

static HOST: OnceLock<fn() -> u64> = OnceLock::new();

/// From now on, `host_ns` tells the host's time.
pub(crate) fn tell(host_ns: fn() -> u64) {
    let _ = HOST.set(host_ns);
}

/// The host's time, ns; `None` without a modeled clock.
pub(super) fn host_ns() -> Option<u64> {
    HOST.get().map(|host_ns| host_ns())
}

/// The totals of a device and its steps; `None` if it did nothing.
pub(super) fn totals(device: u32, is_calibrated: bool) -> Option<DeviceTime> {
    let mut state = STATE.lock();
    let state = &mut *state;
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
        steps = device_steps(rank().map(Rank), device, by, &each, (windows.len() - kept) as u64);
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
