//! A tensor of a run after one step, whichever ranks had which parts of it.

use protocol::site::CallSite;
use protocol::step_record::{Summary, TensorRole};

/// A tensor after one step, put together from the shards of all ranks.
#[derive(Clone, Debug, PartialEq)]
pub struct Whole {
    /// Which tensor, and when.
    pub key: Key,
    /// PyTorch's word for its datatype.
    pub dtype: String,
    /// Its shape.
    pub shape: Vec<u64>,
    /// Its numbers.
    pub summary: Summary,
    /// The line of the step.
    pub site: Option<CallSite>,
}

/// Which tensor, and when, in the order in which differences are named.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The step of its optimizer.
    pub step: u64,
    /// The position of the optimizer among those of the program.
    pub optimizer: u32,
    /// What it is to the optimizer.
    pub role: TensorRole,
    /// Its name.
    pub name: String,
}

impl Key {
    /// "gradient of `0.weight`".
    pub(super) fn title(&self) -> String {
        let name = &self.name;
        match self.role {
            TensorRole::Gradient => format!("gradient of `{name}`"),
            TensorRole::Optimizer => format!("optimizer state `{name}`"),
            TensorRole::Parameter => format!("parameter `{name}`"),
        }
    }
}
