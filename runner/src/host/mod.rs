//! The machine and the terminal that ftest runs on, as far as the standard library does not cover them.

#[macro_use]
pub mod output;

pub mod cache_directory;
pub mod calendar;
pub mod checkout;
pub mod deadline;
pub mod docs;
pub mod install;
pub(crate) mod lossy_path;
pub mod machine;
pub mod plain_path;
pub mod printable;
pub mod secrets;
pub mod shell;
pub mod signal;
pub mod surroundings;
pub mod variable;
pub mod version;
pub mod whole_file;
