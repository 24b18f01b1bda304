//! A real run of nccl-tests beside the model: how far each size is off, and which single change of the machine would explain it.

use protocol::datatype::Operation;

use crate::machine::{Machine, Shape, Transport};
use crate::physics::{Launch, Physics, estimate};
use crate::{Settings, nccl::tuner::Algorithm};

/// A line of nccl-tests' output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Size, bytes.
    pub bytes: u64,
    /// The smaller of the out-of-place and in-place times, us.
    pub us: f64,
}

/// The lines of nccl-tests' output that have a size and a time. Its columns are size, count, type, operator, root, then time,
/// algbw, busbw and errors, out of place and in place; comments start with `#`.
///
/// # Errors
/// No line has those columns.
pub fn read(text: &str) -> Result<Vec<Measured>, String> {
    let rows: Vec<Measured> = text.lines().filter_map(row).collect();
    if rows.is_empty() {
        return Err("no line has nccl-tests' columns: size, count, type, redop, root, time, algbw, busbw".to_owned());
    }
    Ok(rows)
}

/// Columns in front of the times at least: size, count, type.
const LEADING: usize = 3;
/// Columns of times: time, algbw, busbw and errors, once out of place and once in place.
const COLUMNS: usize = 4;

fn row(line: &str) -> Option<Measured> {
    // Launchers put "[0] " or "node0: " in front.
    let words: Vec<&str> = line.split_whitespace().collect();
    let start = words.iter().position(|word| word.parse::<u64>().is_ok())?;
    let words = &words[start..];
    let bytes = words.first()?.parse().ok()?;
    words.get(1)?.parse::<u64>().ok()?;
    // Old versions leave columns out in front of the times, so these are counted from the end.
    let time = |from_end: usize| -> Option<f64> {
        let place = words.len().checked_sub(from_end).filter(|place| *place >= LEADING)?;
        words.get(place)?.parse().ok().filter(|time: &f64| *time > 0.0)
    };
    let us = time(2 * COLUMNS).into_iter().chain(time(COLUMNS)).reduce(f64::min)?;
    (bytes > 0).then_some(Measured { bytes, us })
}

/// A change of the machine that would explain a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// In words: "half of the NICs".
    pub what: &'static str,
    /// Median of the deviation that is left, as a factor of at least 1.
    pub left: f64,
}

/// Measured over modeled of each row, and the change that explains it best.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// (row, modeled us, measured / modeled).
    pub rows: Vec<(Measured, f64, f64)>,
    /// Median deviation of the machine as it is described, as a factor of at least 1.
    pub deviation: f64,
    /// The single changes that bring it closest, best first, if they bring it much closer. Several cannot be told apart by times.
    pub explanations: Vec<Explanation>,
}

/// From this deviation on a run is not normal: twice the model's own error on the sizes that are judged.
pub const NORMAL: f64 = 1.25;
/// Changes whose deviations differ by less than this cannot be told apart.
const ALIKE: f64 = 1.15;
/// Below this size, launch and harness decide, which say nothing about links.
const JUDGED_FROM: u64 = 1 << 20;

/// Compares a run with the model of `machine`. `None` if the model has no time for the operation.
pub fn compare(
    machine: &Machine,
    settings: &Settings,
    operation: Operation,
    launch: Launch,
    run: &[Measured],
) -> Option<Verdict> {
    let physics = Physics::default();
    let time = |machine: &Machine, settings: &Settings, bytes: u64| {
        estimate(machine, settings, &physics, operation, bytes, launch).map(|answer| answer.us)
    };
    let rows: Option<Vec<_>> = run
        .iter()
        .map(|row| time(machine, settings, row.bytes).map(|modeled| (*row, modeled, row.us / modeled)))
        .collect();
    let judged: Vec<Measured> = if run.iter().any(|row| row.bytes >= JUDGED_FROM) {
        run.iter().copied().filter(|row| row.bytes >= JUDGED_FROM).collect()
    } else {
        run.to_vec()
    };
    let deviation = |machine: &Machine, settings: &Settings| {
        let all: Option<Vec<f64>> =
            judged.iter().map(|row| Some((row.us / time(machine, settings, row.bytes)?).ln().abs())).collect();
        Some(median(all?).exp())
    };
    let found = deviation(machine, settings)?;
    let changes = changes(machine, settings);
    let mut explanations: Vec<Explanation> = changes
        .into_iter()
        .filter_map(|(what, machine, settings)| Some(Explanation { what, left: deviation(&machine, &settings)? }))
        .filter(|change| found >= NORMAL && change.left.ln() < 0.5 * found.ln())
        .collect();
    explanations.sort_by(|a, b| a.left.total_cmp(&b.left));
    let best = explanations.first().map_or(f64::INFINITY, |best| best.left);
    explanations.retain(|change| change.left <= best * ALIKE);
    Some(Verdict { rows: rows?, deviation: found, explanations })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Single changes that threads about slow collectives end with.
fn changes(machine: &Machine, settings: &Settings) -> Vec<(&'static str, Machine, Settings)> {
    let mut changes = Vec::new();
    let mut change = |what: &'static str, edit: &dyn Fn(&mut Machine)| {
        let mut changed = machine.clone();
        edit(&mut changed);
        if changed != *machine {
            changes.push((what, changed, settings.clone()));
        }
    };
    if machine.nodes > 1 {
        change("one NIC of each node is missing", &|machine| machine.nics = (machine.nics - 1).max(1));
        change("half of the NICs are used", &|machine| machine.nics = (machine.nics / 2).max(1));
        change("a single NIC (one rail) is used", &|machine| machine.nics = 1);
        change("no GPUDirect RDMA: bytes go through the host's memory", &|machine| machine.gpudirect = false);
        change("TCP sockets instead of RDMA", &|machine| {
            machine.transport = Transport::Sockets;
            machine.nics = 1;
        });
    }
    change("PCIe instead of NVLink (P2P or NVLink is off)", &|machine| machine.shape = Shape::None);
    change("half of the NVLinks are up", &|machine| machine.links /= 2);
    if settings.allows_algorithm(Operation::AllReduce, Algorithm::Nvls) && machine.shape == Shape::MulticastSwitch {
        let mut off = settings.clone();
        off.nvls_off = true;
        changes.push(("NVLS is off (NCCL_NVLS_ENABLE=0, or no fabric manager)", machine.clone(), off));
    }
    changes
}
