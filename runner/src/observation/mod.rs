//! Everything observed while a case ran: the only input of the checks, besides the case itself.

mod case;
mod gap;
mod hang;
mod process;
mod python;

pub use case::{FixtureError, Observation, PythonError, SHARED, Starts};
pub use gap::Gap;
pub use hang::Hang;
pub use process::{Captured, Exit, ProcessObservation, Role};
pub use python::PythonUsed;
