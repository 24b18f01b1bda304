//! One step of making an environment: runs a tool to its end while showing the user what it downloads.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;

use super::downloads::{self, Downloads, is_said};
use super::error::Error;
use super::progress::Said;
use crate::execute::launch::environment::scrubbed;
use crate::host::machine;

/// `program` without the variables that change what Python loads.
pub(super) fn command<S: AsRef<std::ffi::OsStr>>(program: &Path, arguments: &[S]) -> Command {
    let mut command = Command::new(program);
    scrubbed(&mut command).args(arguments);
    command
}

/// Runs `program` and returns its stdout.
///
/// # Errors
/// [`Error::Step`] if it cannot run or fails.
pub(super) fn run<S: AsRef<std::ffi::OsStr>>(program: &Path, arguments: &[S]) -> Result<String, Error> {
    step(&program.display().to_string(), command(program, arguments), &|_| {})
}

/// As much of what a tool says is kept.
const KEPT: usize = 64 << 10;

/// Runs a tool to its end, announcing what it downloads, and returns its stdout.
///
/// # Errors
/// [`Error::Step`] with the end of its output.
pub(super) fn step(step: &str, command: Command, announce: &dyn Fn(Said<'_>)) -> Result<String, Error> {
    finish(step, command, None, announce)
}

/// The same for uv, on a terminal of its own, where there is one: it says how much of a download it has.
///
/// # Errors
/// [`Error::Step`] with the end of its output.
pub(super) fn step_of_uv(step: &str, mut command: Command, announce: &dyn Fn(Said<'_>)) -> Result<String, Error> {
    let terminal = downloads::terminal();
    let ours = terminal.map(|(ours, theirs)| {
        command.env("NO_COLOR", "1").env_remove("FORCE_COLOR").env_remove("CLICOLOR_FORCE").stderr(theirs);
        ours
    });
    finish(step, command, ours, announce)
}

/// `terminal`: our end of the terminal that the command has as its stderr.
fn finish(
    step: &str,
    mut command: Command,
    terminal: Option<File>,
    announce: &dyn Fn(Said<'_>),
) -> Result<String, Error> {
    let wrong = |detail: String, output: &str| Error::Step { step: step.to_owned(), detail, output: output.to_owned() };
    if step.starts_with("installing") {
        announce(Said::Step(step));
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    if terminal.is_none() {
        command.stderr(Stdio::piped());
    }
    let mut child = command.spawn().map_err(|error| wrong(machine::explained(&error), ""))?;
    // It holds their end of the terminal, which would never close.
    drop(command);
    let is_terminal = terminal.is_some();
    let stderr = match terminal {
        Some(terminal) => Some(Box::new(terminal) as Box<dyn Read + Send>),
        None => child.stderr.take().map(|stderr| Box::new(stderr) as Box<dyn Read + Send>),
    };
    let (Some(stdout), Some(mut stderr)) = (child.stdout.take(), stderr) else {
        return Err(wrong("no streams".to_owned(), ""));
    };
    let (mut output, mut complaint) = (String::new(), String::new());
    let mut downloads = Downloads::default();
    std::thread::scope(|scope| {
        let (sender, pieces) = mpsc::channel();
        let other = sender.clone();
        scope.spawn(move || {
            for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
                let _ = sender.send((true, line));
            }
        });
        scope.spawn(move || {
            let mut piece = vec![0; 8192];
            // A terminal ends with an error.
            while let Ok(count @ 1..) = stderr.read(&mut piece) {
                let _ = other.send((false, piece[..count].to_vec()));
            }
        });
        let mut line = String::new();
        for (is_output, bytes) in pieces {
            let text = String::from_utf8_lossy(&bytes);
            if is_output {
                if let Some(step) = progress_of(&text) {
                    announce(Said::Step(&step));
                }
                output.push_str(&text);
                output.push('\n');
                continue;
            }
            if let Some(amount) = downloads.take(&text) {
                announce(Said::Amount(&amount));
            }
            line.push_str(&text);
            if !is_terminal && let Some(end) = line.rfind('\n') {
                line[..end].lines().filter_map(progress_of).for_each(|step| announce(Said::Step(&step)));
                line.drain(..=end);
            }
            complaint.push_str(&text);
            if complaint.len() > KEPT {
                let cut = complaint.ceil_char_boundary(complaint.len() - KEPT / 2);
                complaint.drain(..cut);
            }
        }
    });
    let status = child.wait().map_err(|error| wrong(error.to_string(), ""))?;
    if status.success() {
        return Ok(output);
    }
    if is_terminal {
        complaint = downloads::plain(&complaint);
    }
    let said: Vec<&str> = complaint
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty() && (!is_terminal || is_said(line)))
        .collect();
    let last = said[said.len().saturating_sub(4)..].join("\n    ");
    Err(wrong(if last.is_empty() { status.to_string() } else { format!("{status}\n    {last}") }, &said.join("\n")))
}

/// A line of pip or uv worth showing: a download that takes a while, or unpacking.
fn progress_of(line: &str) -> Option<String> {
    let line = line.trim();
    if let Some(file) = line.strip_prefix("Downloading ") {
        let name = file.rsplit('/').next().unwrap_or(file);
        let size = name.split_once('(')?.1.trim_end_matches([')', 'B', 'i']);
        let megabytes: f64 = size.strip_suffix('M')?.trim().parse().ok()?;
        return (megabytes >= 10.0).then(|| format!("downloading {name}"));
    }
    line.strip_prefix("Installing collected packages: ").map(|packages| format!("unpacking {packages}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_large_downloads_and_the_unpacking_are_announced() {
        let line = progress_of("  Downloading https://x/torch-2.15.0-cp311.whl (612.5 MB)");
        assert_eq!(line.unwrap(), "downloading torch-2.15.0-cp311.whl (612.5 MB)");
        assert_eq!(progress_of("  Downloading sympy-1.14.whl (6.3 MB)"), None);
        assert_eq!(progress_of("Downloading torch (612.5MiB)").unwrap(), "downloading torch (612.5MiB)");
        assert_eq!(progress_of("Downloading sympy (6.3MiB)"), None);
        assert_eq!(progress_of("Installing collected packages: torch").unwrap(), "unpacking torch");
        assert_eq!(progress_of("Collecting torch"), None);
    }

    #[test]
    fn a_failing_tool_gives_its_last_words() {
        let error = run(Path::new("/bin/sh"), &["-c", "echo no network >&2; exit 3"]).unwrap_err();
        assert!(error.to_string().contains("no network"), "{error}");
    }
}
