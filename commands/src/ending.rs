//! How every program of this crate parses its command line and exits: output lost on stdout changes the exit code.

use std::ffi::OsString;

use clap::Parser;
use runner::host::output;
use runner::verdict::exit_code::ExitCode;

/// Parses the command line `arguments`. For help, the version or a mistake, prints it and exits.
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

/// `code`, or the exit code for incomplete stdout, which is reported on stderr.
pub fn code(code: i32) -> i32 {
    match output::lost() {
        Some(error) => {
            eprintln!("ftest: cannot write to stdout: {error}");
            code.max(ExitCode::CouldNotRun as i32)
        }
        None => code,
    }
}
