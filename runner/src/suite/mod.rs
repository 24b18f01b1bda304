//! The suite language: a YAML file -> cases. All mistakes of a file are reported at once, each with its place.
//!
//! The keys are in [`language`], which explains how to add one; everything else (schema, documentation) follows from it.

mod case;
mod cluster;
mod directory;
mod expect;
mod explain;
mod fault;
mod fields;
mod file;
pub mod find;
mod fixture;
mod fixture_definitions;
pub mod format;
mod gpu;
mod honored;
mod kill;
pub mod language;
mod launch;
mod lint;
mod load;
mod matrix;
mod mistakes;
mod moment;
mod name;
mod network;
mod output_line;
mod path;
mod perf;
mod policy;
pub mod quantity;
mod rank;
mod reader;
mod relation;
mod report;
pub mod requirements;
mod requires;
mod room;
mod shared;
mod srun;
mod surroundings;
pub(crate) mod template;
mod torchrun;
pub mod variables;

pub use file::Suite;
pub use load::{explain, gpu_events, load, parse};
pub use mistakes::{Mistakes, SuiteError, Warnings};
pub use name::is_name;
use name::slug;
use reader::Span;
pub use reader::did_you_mean;
pub use relation::possible as possible_relations;
use shared::Shared;
