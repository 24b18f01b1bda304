//! `ftest man`: the manual pages, made from the command line itself.

use std::path::PathBuf;

use clap::{Args, CommandFactory};

use crate::commands::cli::Cli;
use crate::verdict::exit_code::ExitCode;

/// Arguments of `ftest man`.
#[derive(Args, Clone, Debug)]
pub struct ManArgs {
    /// Where they go: ftest.1, ftest-run.1 and so on
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
}

/// Runs the command.
pub fn run(arguments: &ManArgs) -> ExitCode {
    let directory = &arguments.directory;
    let written = std::fs::create_dir_all(directory).and_then(|()| clap_mangen::generate_to(Cli::command(), directory));
    match written {
        Ok(()) => ExitCode::Passed,
        Err(error) => {
            eprintln!("ftest man: {}: {error}", directory.display());
            ExitCode::Usage
        }
    }
}
