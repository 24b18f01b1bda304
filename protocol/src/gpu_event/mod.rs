//! What happens to a GPU in a case (`gpu`).

pub mod board;
mod health;
mod throttle;

use serde::{Deserialize, Serialize};

pub use health::{EccErrors, GpuHealth, LOST, Repairs};
pub use throttle::Throttle;

/// A change of the health of one GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuEvent {
    /// The GPU as suites name it: `node0/3`.
    pub gpu: String,
    /// Index of its node.
    pub node: u32,
    /// Index within its node.
    pub local: u32,
    /// Its number among the events of the case, below [`board::SLOTS`].
    pub slot: u32,
    /// What changes.
    pub health: GpuHealth,
}
