//! The schedule of a run: which case starts when, how many at once, how often, and when to stop starting.

pub mod arguments;
pub mod attempts;
pub mod fixture_pool;
pub mod order;
mod queue;
pub mod relations;
pub mod resources;
mod round_fixtures;
pub mod rounds;
mod run;
pub mod run_resources;
mod settings;
pub mod slurm;

pub use run::{Order, run};
pub use settings::{Announce, RETRY_LIMIT, Settings};
