//! How every program of this crate reads its command line and ends: what stdout could not take changes the exit code.

use std::ffi::OsString;

use clap::Parser;

use crate::host::output;
use crate::verdict::exit_code::ExitCode;

/// The command line `arguments`. Help, a version and mistakes are printed, and the process ends.
pub fn parse<T: Parser>(arguments: impl IntoIterator<Item = OsString>) -> T {
    T::try_parse_from(arguments).unwrap_or_else(|error| {
        let to_stdout = !error.use_stderr();
        let printed = error.print();
        if to_stdout {
            let _ = output::remember(printed);
        }
        std::process::exit(code(error.exit_code()))
    })
}

/// `code`, or that of an incomplete stdout, which is reported on stderr.
pub fn code(code: i32) -> i32 {
    match output::lost() {
        Some(error) => {
            eprintln!("ftest: cannot write to stdout: {error}");
            code.max(ExitCode::CouldNotRun as i32)
        }
        None => code,
    }
}
