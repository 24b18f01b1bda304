//! The programs that make environments: uv, fetched as a wheel where it is missing, so that environments share their packages'
//! files; or else pip.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;

use super::error::Error;
use crate::execute::launch::environment::scrubbed;
use crate::host::machine;

/// What pip fetches: 1.0 is free to change its commands.
const UV: &str = "uv>=0.9,<1";

/// The tools that make environments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tools {
    /// uv, and the interpreter for which it makes them, if the machine has one.
    Uv { uv: PathBuf, python: Option<PathBuf>, settings: Vec<(String, String)> },
    /// The venv and pip of an interpreter.
    Pip { python: PathBuf },
}

/// The program of this name on `PATH`.
pub(super) fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH");
    crate::execute::launch::program::find(program.as_ref(), path.as_deref(), Path::new("/")).ok()
}

impl Tools {
    /// Those that the machine has.
    ///
    /// # Errors
    /// [`Error::NoInterpreter`].
    pub(super) fn find() -> Result<Tools, Error> {
        match (on_path("uv"), on_path("python3").or_else(|| on_path("python"))) {
            (Some(uv), python) => Ok(Tools::Uv { uv, python, settings: Vec::new() }),
            (None, Some(python)) => Ok(Tools::Pip { python }),
            (None, None) => Err(Error::NoInterpreter),
        }
    }

    /// The interpreter for which they make environments; none where uv brings one.
    pub(super) fn python(&self) -> Option<&Path> {
        match self {
            Tools::Pip { python } => Some(python),
            Tools::Uv { python, .. } => python.as_deref(),
        }
    }

    /// Asks the package index for something small, once, and not for long.
    ///
    /// # Errors
    /// [`Error::Step`] with what it answered.
    pub(super) fn ask_index(&self) -> Result<(), Error> {
        const WHAT: &str = "pip";
        let nowhere = "/nonexistent";
        let command = match self {
            Tools::Pip { python } => {
                let options = ["--quiet", "--disable-pip-version-check", "--no-input", "--retries=0", "--timeout=10"];
                let question = ["-m", "pip", "install", "--dry-run", "--no-deps", "--target", nowhere];
                command(python, &[&question[..], &options, &[WHAT]].concat())
            }
            Tools::Uv { uv, settings, .. } => {
                let question = ["pip", "install", "--quiet", "--dry-run", "--no-deps", "--target", nowhere, WHAT];
                let mut command = command(uv, &question);
                command.env("UV_HTTP_TIMEOUT", "10").env("UV_NO_CACHE", "1").envs(settings.iter().cloned());
                command
            }
        };
        step("asking the package index", command, &|_| {}).map(drop)
    }

    /// uv in place of pip, if it is in `directory` or can be fetched into it.
    pub(super) fn with_uv(self, directory: &Path, announce: &dyn Fn(&str)) -> Tools {
        let Tools::Pip { python } = &self else { return self };
        let uv = directory.join("bin/uv");
        if !uv.is_file() {
            announce("fetching uv, with which environments share their files (25 MB, once)");
            if let Err(error) = fetch(python, directory) {
                let why = error.to_string();
                let why = why.lines().last().unwrap_or_default().trim().to_owned();
                announce(&format!("without uv, pip makes an environment that shares nothing: {why}"));
                return self;
            }
        }
        Tools::Uv { uv, python: Some(python.clone()), settings: settings_of_pip(python) }
    }
}

/// Whole or not at all: it is renamed into place.
fn fetch(python: &Path, directory: &Path) -> Result<(), Error> {
    let wrong = |source| Error::Cache { place: directory.to_owned(), source };
    let half = directory.with_extension("new");
    for place in [&half, directory] {
        if place.exists() {
            fs::remove_dir_all(place).map_err(wrong)?;
        }
    }
    let target = half.display().to_string();
    let words =
        ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--target", &target, UV];
    step("pip install uv", command(python, &words), &|_| {})?;
    // A wheel of another kind of machine installs as well.
    run(&half.join("bin/uv"), &["--version"])?;
    fs::rename(&half, directory).map_err(wrong)
}

/// What pip is configured to do, as variables for a uv that nobody configured. Those that are set stay.
fn settings_of_pip(python: &Path) -> Vec<(String, String)> {
    let listed = run(python, &["-m", "pip", "config", "list"]).unwrap_or_default();
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    settings(&listed).into_iter().filter(|(name, _)| !is_set(name)).collect()
}

/// The same, of what `pip config list` prints: `global.index-url='...'`, with `:env:` for variables, which come first.
fn settings(listed: &str) -> Vec<(String, String)> {
    let value = |key: &str| {
        let of = |section: &str| {
            let start = format!("{section}.{key}=");
            let value = listed.lines().find_map(|line| line.strip_prefix(start.as_str()))?;
            Some(value.trim().trim_matches(['\'', '"']).replace("\\n", " ").trim().to_owned())
        };
        [":env:", "install", "global"].into_iter().find_map(of).filter(|value| !value.is_empty())
    };
    let mut settings = Vec::new();
    let mut set = |name: &str, value: Option<String>| settings.extend(value.map(|value| (name.to_owned(), value)));
    set("UV_DEFAULT_INDEX", value("index-url"));
    let extra = value("extra-index-url");
    // As pip does: the best version of all indexes.
    set("UV_INDEX_STRATEGY", extra.as_ref().map(|_| "unsafe-best-match".to_owned()));
    set("UV_INDEX", extra);
    let places = value("find-links").unwrap_or_default();
    // pip passes over a directory that is not there.
    let places: Vec<&str> =
        places.split_whitespace().filter(|place| place.contains("://") || Path::new(place).exists()).collect();
    set("UV_FIND_LINKS", Some(places.join(",")).filter(|places| !places.is_empty()));
    let is_true = |value: &String| ["1", "true", "yes", "on"].contains(&value.to_ascii_lowercase().as_str());
    set("UV_NO_INDEX", value("no-index").filter(is_true));
    set("UV_INSECURE_HOST", value("trusted-host"));
    set("UV_HTTP_TIMEOUT", value("timeout").or_else(|| value("default-timeout")));
    set("SSL_CERT_FILE", value("cert"));
    set("ALL_PROXY", value("proxy"));
    settings
}

/// The version of an interpreter, `3.11`.
///
/// # Errors
/// [`Error::Step`].
pub(super) fn version(python: &Path) -> Result<String, Error> {
    let answer = run(python, &["-c", "import sys; print('%d.%d' % sys.version_info[:2])"])?;
    Ok(answer.trim().to_owned())
}

/// `program` without the variables that change what Python loads.
pub(super) fn command<S: AsRef<std::ffi::OsStr>>(program: &Path, arguments: &[S]) -> Command {
    let mut command = Command::new(program);
    scrubbed(&mut command).args(arguments);
    command
}

/// Runs `program` and gives what it wrote on stdout.
///
/// # Errors
/// [`Error::Step`] when it cannot run or fails.
pub(super) fn run<S: AsRef<std::ffi::OsStr>>(program: &Path, arguments: &[S]) -> Result<String, Error> {
    step(&program.display().to_string(), command(program, arguments), &|_| {})
}

/// Runs a tool to its end, announcing what it downloads, and gives its stdout.
///
/// # Errors
/// [`Error::Step`] with its last words.
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

/// A line of pip or uv that a person wants to see: a download that takes a while, or the unpacking.
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

    #[test]
    fn what_pip_is_configured_to_do_uv_does() {
        let listed = ":env:.find-links='/nowhere/wheels https://a/wheels /'\n:env:.index-url='https://mine/simple'\n\
            global.index-url='https://other/simple'\nglobal.extra-index-url='\\nhttps://x/simple\\nhttps://y/simple'\n\
            global.no-index='false'\ninstall.cert='/etc/ca.pem'\nglobal.default-timeout='180'\nglobal.unknown='1'\n";
        let expected = [
            ("UV_DEFAULT_INDEX", "https://mine/simple"),
            ("UV_INDEX_STRATEGY", "unsafe-best-match"),
            ("UV_INDEX", "https://x/simple https://y/simple"),
            ("UV_FIND_LINKS", "https://a/wheels,/"),
            ("UV_HTTP_TIMEOUT", "180"),
            ("SSL_CERT_FILE", "/etc/ca.pem"),
        ];
        assert_eq!(settings(listed), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(settings(""), []);
        assert_eq!(settings("global.no-index='true'\n"), [("UV_NO_INDEX".to_owned(), "true".to_owned())]);
    }
}
