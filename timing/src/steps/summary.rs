//! The steps of a device and those of a run in short.

use protocol::ids::Rank;
use protocol::report::{DeviceSteps, RunTime, StepMark, StepTime};

/// Steps after the first are a sample: it has what the program does before it.
const AFTER_FIRST: usize = 1;

/// The steps of a device in short; `None` without any. `dropped` more were not recorded.
pub fn device_steps(
    rank: Option<Rank>,
    device: u32,
    marked_by: StepMark,
    steps: &[StepTime],
    dropped: u64,
) -> Option<DeviceSteps> {
    let (first, last) = (steps.first()?.clone(), steps.last()?.clone());
    let mut after: Vec<&StepTime> = steps[AFTER_FIRST..].iter().collect();
    let total = sum(after.iter().copied());
    after.sort_by_key(|step| (step.duration_ns, step.step));
    let middle = after.len().saturating_sub(1) / 2;
    Some(DeviceSteps {
        rank,
        device,
        marked_by,
        count: steps.len() as u64,
        dropped,
        first,
        last,
        median: after.get(middle).map(|step| StepTime::clone(step)),
        shortest: after.first().map(|step| StepTime::clone(step)),
        longest: after.last().map(|step| StepTime::clone(step)),
        total,
        critical_path: Vec::new(),
        exposed: Vec::new(),
    })
}

/// The run of these devices, in any order. All with a model of GPU that was compared with measurements, or not.
pub fn run_time(is_calibrated: bool, mut steps: Vec<DeviceSteps>) -> RunTime {
    steps.sort_by_key(|steps| (steps.rank.is_none(), steps.rank, steps.device));
    let total = sum(steps.iter().filter_map(|steps| steps.total.as_ref()));
    let duration = total.as_ref().map_or(0, |total| total.duration_ns);
    let part = |of: fn(&StepTime) -> u64| total.as_ref().and_then(|total| share(of(total), duration));
    let median = |steps: &DeviceSteps| steps.median.as_ref().map(|median| median.duration_ns);
    // The mean time of a step without waiting; the lowest rank of equal ones.
    let own = |steps: &&DeviceSteps| {
        let total = steps.total.as_ref()?;
        Some((total.duration_ns - total.collective_wait_ns.min(total.duration_ns)) / (steps.count - 1).max(1))
    };
    let slowest = steps.iter().rev().filter(|steps| own(steps).is_some()).max_by_key(own);
    RunTime {
        is_calibrated,
        step_us: steps.iter().filter_map(median).max().map(|ns| ns as f64 / 1e3),
        slowest_rank: slowest.and_then(|steps| steps.rank),
        busy_share: part(|total| total.busy_ns),
        exposed_share: part(|total| total.exposed_communication_ns),
        overlap_share: total.as_ref().and_then(|total| total.overlap_share),
        launch_bound_share: part(|total| total.launch_bound_ns),
        collective_wait_share: part(|total| total.collective_wait_ns),
        steps,
    }
}

/// The sum of steps; `None` without any.
fn sum<'s>(steps: impl Iterator<Item = &'s StepTime>) -> Option<StepTime> {
    let mut sum = steps.cloned().reduce(|mut sum, step| {
        sum.duration_ns += step.duration_ns;
        sum.busy_ns += step.busy_ns;
        sum.computing_ns += step.computing_ns;
        sum.communication_ns += step.communication_ns;
        sum.exposed_communication_ns += step.exposed_communication_ns;
        sum.collective_wait_ns += step.collective_wait_ns;
        sum.launch_bound_ns += step.launch_bound_ns;
        sum.host_wait_ns += step.host_wait_ns;
        sum
    })?;
    sum.step = 0;
    set_shares(&mut sum);
    Some(sum)
}

/// Sets the shares of a step by its times.
pub(super) fn set_shares(step: &mut StepTime) {
    let hidden = step.communication_ns - step.exposed_communication_ns;
    step.overlap_share = share(hidden, step.communication_ns);
    step.launch_bound_share = share(step.launch_bound_ns, step.duration_ns);
}

/// Rounded to three decimals, as all fractions of a report; `None` of nothing.
pub(super) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| (part as f64 / whole as f64 * 1e3).round() / 1e3)
}
