//! `ftest schema`: the JSON Schema of the suite language.

use std::io::Write;

use runner::host::output;
use runner::suite::language;
use runner::verdict::exit_code::ExitCode;

/// Runs the command.
pub fn run() -> ExitCode {
    // A closed pipe (`| head`) is the reader's choice.
    let _ = output::stdout().write_all(language::schema_text().as_bytes());
    ExitCode::Passed
}
