//! Reports: projections of a run's events. They see nothing else of the run.

pub mod chart;
pub mod cluster;
pub mod files;
pub mod github;
pub mod html;
pub mod human;
pub mod junit;
pub mod junit_file;
pub mod live;
pub mod markdown;
pub mod room;
pub mod step_change;
mod summary;
pub mod trace;
pub mod words;
pub mod xml_text;

pub use summary::{counts, exits, incomplete, seconds};
