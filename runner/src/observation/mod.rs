//! Everything observed while a case ran: the only input of the checks, besides the case itself.

mod case;
mod execution;
mod gap;
mod hang;
mod number;
mod process;
mod python;

pub use case::{Observation, SHARED, Starts};
pub use execution::{Execution, FixtureError, Missed, PythonError, Ran, Stop, Waiting};
pub use gap::Gap;
pub use hang::Hang;
pub use number::{Key, Number};
pub use process::{Captured, Exit, ProcessObservation, Role, WriteError};
pub use python::PythonUsed;
