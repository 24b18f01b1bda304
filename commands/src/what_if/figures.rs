//! The figures of a replay, as they are compared and printed.

use protocol::report::{DeviceSteps, PathSegment, StepTime};
use serde::Serialize;
use timing::replay::Replayed;

/// The figures of one replay.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figures {
    /// What it is: `before`, `after`, or a value of the sweep.
    pub(super) name: String,
    pub(super) ranks: u32,
    /// The longest median step of a rank, us; of a program without steps, the whole run.
    pub(super) step_us: f64,
    pub(super) has_steps: bool,
    /// In the step of the rank that decides, us.
    pub(super) computing_us: Option<f64>,
    pub(super) communication_us: Option<f64>,
    pub(super) exposed_communication_us: Option<f64>,
    pub(super) collective_wait_us: Option<f64>,
    pub(super) launch_bound_us: Option<f64>,
    /// Bytes of the whole run inside of nodes and between them, over rings.
    pub(super) inside_bytes: u64,
    pub(super) between_bytes: u64,
    /// Kernels whose time is not known, of all ranks.
    pub(super) unknown_kernels: u64,
    pub(super) is_calibrated: bool,
    /// Of the slowest rank's second step.
    pub(super) critical_path: Vec<PathSegment>,
    /// Of each rank, as in the cluster report.
    pub(super) steps: Vec<DeviceSteps>,
}

/// The comparison.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Comparison {
    pub(super) version: u32,
    /// What differs, in words.
    pub(super) changes: Vec<String>,
    /// What was assumed.
    pub(super) assumed: Vec<String>,
    pub(super) before: Figures,
    pub(super) after: Vec<Figures>,
}

/// The figures of a replay of so many ranks.
pub(super) fn figures(name: &str, replayed: &Replayed, ranks: u32) -> Figures {
    let time = &replayed.time;
    // The rank whose step is the longest decides; of equal ones, the first.
    let median = |steps: &&DeviceSteps| steps.median.as_ref().map(|step| step.duration_ns);
    let longest = time.steps.iter().rev().filter(|steps| steps.median.is_some()).max_by_key(median);
    let step = longest.and_then(|steps| steps.median.as_ref());
    let us = |ns: fn(&StepTime) -> u64| step.map(|step| ns(step) as f64 / 1e3);
    let slowest = time.steps.iter().find(|steps| steps.rank == time.slowest_rank);
    Figures {
        name: name.to_owned(),
        ranks,
        step_us: time.step_us.unwrap_or(replayed.end_ns as f64 / 1e3),
        has_steps: time.step_us.is_some(),
        computing_us: us(|step| step.computing_ns),
        communication_us: us(|step| step.communication_ns),
        exposed_communication_us: us(|step| step.exposed_communication_ns),
        collective_wait_us: us(|step| step.collective_wait_ns),
        launch_bound_us: us(|step| step.launch_bound_ns),
        inside_bytes: replayed.inside_bytes,
        between_bytes: replayed.between_bytes,
        unknown_kernels: replayed.unknown.values().sum(),
        is_calibrated: time.is_calibrated,
        critical_path: slowest.map(|steps| steps.critical_path.clone()).unwrap_or_default(),
        steps: time.steps.clone(),
    }
}
