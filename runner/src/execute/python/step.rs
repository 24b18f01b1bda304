//! One step of making an environment: runs a tool to its end while showing the user what it downloads.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;

use super::error::Error;
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

/// Runs a tool to its end, announcing what it downloads, and returns its stdout.
///
/// # Errors
/// [`Error::Step`] with the end of its output.
pub(super) fn step(step: &str, mut command: Command, announce: &dyn Fn(&str)) -> Result<String, Error> {
    let wrong = |detail: String| Error::Step { step: step.to_owned(), detail };
    if step.starts_with("installing") {
        announce(step);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| wrong(machine::explained(&error)))?;
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(wrong("no streams".to_owned()));
    };
    let (mut output, mut complaint) = (String::new(), String::new());
    std::thread::scope(|scope| {
        let (sender, lines) = mpsc::channel();
        for (is_output, stream) in [(true, Box::new(stdout) as Box<dyn Read + Send>), (false, Box::new(stderr))] {
            let sender = sender.clone();
            scope.spawn(move || {
                for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
                    let _ = sender.send((is_output, String::from_utf8_lossy(&line).into_owned()));
                }
            });
        }
        drop(sender);
        for (is_output, line) in lines {
            if let Some(step) = progress_of(&line) {
                announce(&step);
            }
            let text = if is_output { &mut output } else { &mut complaint };
            text.push_str(&line);
            text.push('\n');
        }
    });
    let status = child.wait().map_err(|error| wrong(error.to_string()))?;
    if status.success() {
        return Ok(output);
    }
    let last: Vec<&str> = complaint.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = last[last.len().saturating_sub(4)..].join("\n    ");
    Err(wrong(if last.is_empty() { status.to_string() } else { format!("{status}\n    {last}") }))
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
