//! `ftest man`: writes the manual pages, generated from the command line definition.

use std::path::PathBuf;

use clap::Args;
use runner::verdict::exit_code::ExitCode;

/// Arguments of `ftest man`.
#[derive(Args, Clone, Debug)]
pub struct ManArgs {
    /// Where they go: ftest.1, ftest-run.1 and so on
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
}

/// Writes the pages of `program` and its commands.
pub fn run(arguments: &ManArgs, program: clap::Command) -> ExitCode {
    let directory = &arguments.directory;
    let written = std::fs::create_dir_all(directory).and_then(|()| clap_mangen::generate_to(program, directory));
    match written {
        Ok(()) => ExitCode::Passed,
        Err(error) => {
            eprintln!("ftest man: {}: {error}", directory.display());
            ExitCode::Usage
        }
    }
}
