//! `ftest profiles`: the built-in GPU profiles as a table.

use std::io::Write;

use protocol::profile;
use runner::host::output;
use runner::verdict::exit_code::ExitCode;

/// Runs the command.
pub fn run() -> ExitCode {
    let profiles = profile::all();
    let width = profiles.iter().map(|profile| profile.id.len()).max().unwrap_or_default();
    let name_width = profiles.iter().map(|profile| profile.name.len()).max().unwrap_or_default();
    let mut out = output::stdout();
    for profile in profiles {
        let gib = profile.memory.bytes as f64 / f64::from(1 << 30);
        let line = writeln!(
            out,
            "{:width$}  {:name_width$}  {:>5}  {gib:>6.1} GiB  {:>4} SMs",
            profile.id, profile.name, profile.compute_capability, profile.sm_count
        );
        // A closed pipe (`| head`) is the reader's choice.
        if line.is_err() {
            break;
        }
    }
    ExitCode::Passed
}
