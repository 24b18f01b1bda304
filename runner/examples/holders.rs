//! Writes the soname holders by hand: `cargo run -p runner --example holders -- DIRECTORY SHIM [TORCH_LIB_DIRECTORY]`.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let written = match arguments.as_slice() {
        [directory, shim] => runner::execute::launch::holders::write(directory, shim, None),
        [directory, shim, libraries] => runner::execute::launch::holders::write(directory, shim, Some(libraries)),
        _ => {
            eprintln!("usage: holders DIRECTORY SHIM [TORCH_LIB_DIRECTORY]");
            return ExitCode::from(2);
        }
    };
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("holders: {error}");
            ExitCode::FAILURE
        }
    }
}
