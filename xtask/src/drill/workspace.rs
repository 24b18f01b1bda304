//! Where a row works: a directory of its own, the build that is tried, and what runs of ftest left in their event logs.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Variables of a CI job, a cargo command or a person's shell that would change what is tried.
const REMOVED: [&str; 12] = [
    "CI",
    "CARGO_TARGET_DIR",
    "FTEST_CACHE_DIR",
    "FTEST_CASE_COOKIE",
    "FTEST_PYTHON",
    "FTEST_RUNS_DIR",
    "GITHUB_ACTIONS",
    "GITHUB_STEP_SUMMARY",
    "GITHUB_WORKSPACE",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "VIRTUAL_ENV",
];

/// Builds what is tried, as users do.
///
/// # Errors
/// It cannot be built.
pub(super) fn build(root: &Path) -> Result<(), String> {
    let status = Command::new(root.join("ftest")).arg("--version").stdout(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("./ftest --version: {status}")),
        Err(error) => Err(format!("./ftest: {error}")),
    }
}

/// How often rows try, in ascending order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scale {
    /// A few times.
    Quick,
    /// As often as fits into the time that somebody waits.
    #[default]
    Usual,
    /// Until what happens once in a thousand times should have happened.
    Long,
}

/// A directory of a row.
#[derive(Debug)]
pub(super) struct Workspace {
    pub root: PathBuf,
    /// How often a row tries.
    pub scale: Scale,
    directory: tempfile::TempDir,
}

impl Workspace {
    /// # Errors
    /// There is no room for a directory.
    pub(super) fn new(root: &Path, scale: Scale) -> Result<Workspace, String> {
        // Sockets want short paths.
        let directory =
            tempfile::Builder::new().prefix("drill-").tempdir_in("/tmp").map_err(|error| error.to_string())?;
        Ok(Workspace { root: root.to_owned(), scale, directory })
    }

    /// How often to try, of these three.
    pub(super) fn times(&self, quick: usize, usual: usize, long: usize) -> usize {
        match self.scale {
            Scale::Quick => quick,
            Scale::Usual => usual,
            Scale::Long => long,
        }
    }

    pub(super) fn quick(&self) -> bool {
        self.scale == Scale::Quick
    }

    pub(super) fn long(&self) -> bool {
        self.scale == Scale::Long
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Leaves the directory for somebody to look into.
    pub(super) fn keep(self) -> PathBuf {
        self.directory.keep()
    }

    /// A file here.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> Result<PathBuf, String> {
        let path = self.path(name);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }

    /// A program of the build that `./ftest` uses.
    pub(super) fn program(&self, name: &str) -> PathBuf {
        if let Some(programs) = std::env::var_os("FTEST_PROGRAMS").filter(|programs| !programs.is_empty()) {
            return self.root.join(programs).join(name);
        }
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| self.root.join("target"), PathBuf::from);
        target.join("release").join(name)
    }

    /// `ftest ARGUMENTS`, working here.
    pub(super) fn ftest(&self, arguments: &[&str]) -> Command {
        self.command(&self.program("ftest").to_string_lossy(), arguments)
    }

    /// The same, by a shell that first does `before`.
    pub(super) fn ftest_after(&self, before: &str, arguments: &[&str]) -> Command {
        let ftest = self.program("ftest").to_string_lossy().into_owned();
        let script = format!("{before}\nexec \"$0\" \"$@\"");
        let words = [&["-c", &script, &*ftest], arguments].concat();
        self.command("bash", &words)
    }

    /// A command that works here.
    pub(super) fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.directory.path()).stdin(Stdio::null());
        for name in REMOVED {
            command.env_remove(name);
        }
        command.env("FTEST_HOME", &self.root).env("TMPDIR", self.directory.path()).env("NO_COLOR", "1");
        command
    }

    /// Starts a command whose streams go to files here.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn start(&self, command: &mut Command) -> Result<Started, String> {
        let streams = tempfile::tempdir_in(self.directory.path()).map_err(|error| error.to_string())?.keep();
        let file = |name: &str| File::create(streams.join(name)).map_err(|error| format!("{name}: {error}"));
        let child = command.stdout(file("out")?).stderr(file("err")?).spawn();
        let child = child.map_err(|error| format!("{}: {error}", command.get_program().to_string_lossy()))?;
        Ok(Started { child, began: Instant::now(), streams })
    }

    /// The processes that work here, or were started by one that does, with their programs.
    pub(super) fn processes(&self) -> Vec<(u32, String)> {
        let own = self.directory.path().as_os_str().as_encoded_bytes();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            if environment.windows(own.len()).any(|part| part == own) {
                let program = fs::read_link(entry.path().join("exe")).unwrap_or_default();
                let name = program.file_name().map(|name| name.to_string_lossy().into_owned());
                found.push((pid, name.unwrap_or_default()));
            }
        }
        found
    }

    /// Processes and directories of cases that a row left behind.
    pub(super) fn left(&self) -> Vec<String> {
        let began = Instant::now();
        loop {
            let processes = self.processes().into_iter().map(|(pid, name)| format!("process {name} ({pid})"));
            let entries = fs::read_dir(self.directory.path()).into_iter().flatten().flatten();
            let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
            let left: Vec<String> = processes.chain(names.filter(|name| name.starts_with("ft-"))).collect();
            // A guard clears up after a killed run.
            if left.is_empty() || began.elapsed() > Duration::from_secs(20) {
                return left;
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Runs a command to its end, at most for `deadline`.
    ///
    /// # Errors
    /// It cannot be started, or does not end in time.
    pub(super) fn run(&self, command: &mut Command, deadline: Duration) -> Result<Ended, String> {
        self.start(command)?.end(deadline)
    }
}

/// A command that runs.
#[derive(Debug)]
pub(super) struct Started {
    child: Child,
    began: Instant,
    streams: PathBuf,
}

/// A command that ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
    pub took: Duration,
}

impl Started {
    /// Waits for its end; a process that does not end is killed.
    ///
    /// # Errors
    /// It did not end in time.
    pub(super) fn end(mut self, deadline: Duration) -> Result<Ended, String> {
        let pid = Pid::from_child(&self.child);
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || sender.send(self.child.wait()));
        let waited = receiver.recv_timeout(deadline.saturating_sub(self.began.elapsed()));
        let read = |name: &str| {
            let bytes = fs::read(self.streams.join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        match waited {
            Ok(Ok(status)) => Ok(Ended { status, out: read("out"), err: read("err"), took: self.began.elapsed() }),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => {
                let _ = kill_process(pid, Signal::KILL);
                let _ = receiver.recv();
                Err(format!("not ended after {} s: {}{}", deadline.as_secs(), read("out"), read("err")))
            }
        }
    }
}

impl Ended {
    /// Exit code, or that of a shell for a signal.
    pub(super) fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap_or_default())
    }

    /// Both streams.
    pub(super) fn text(&self) -> String {
        format!("{}{}", self.out, self.err)
    }

    /// Whether it ended with one of `codes`, and not by a panic.
    ///
    /// # Errors
    /// It did not; with what it said.
    pub(super) fn expect(&self, codes: &[i32]) -> Result<(), String> {
        let text = self.text();
        if text.contains("panicked at") {
            return Err(format!("a panic: {text}"));
        }
        if !codes.contains(&self.code()) {
            return Err(format!("ended with {}, expected {codes:?}: {text}", self.code()));
        }
        Ok(())
    }
}

/// One attempt of a case, as the event log of a run has it.
#[derive(Debug)]
pub(super) struct Attempt {
    pub case: String,
    pub verdict: String,
    /// What the failures say, each with its kind in front.
    pub failures: Vec<String>,
    pub took: Duration,
    /// The cluster report that was kept, from the run's directory.
    pub report: Option<String>,
    /// The list of device reports, likewise.
    pub devices: Option<String>,
    /// Roles and ends of its processes.
    pub ends: String,
    /// How many processes were forked from a warm one, and why others were not.
    pub warm: u64,
    pub cold: Vec<String>,
}

/// The attempts of the only run below `runs`.
///
/// # Errors
/// There is not exactly one run, or its log cannot be read.
pub(super) fn attempts(runs: &Path) -> Result<(PathBuf, Vec<Attempt>), String> {
    let entries: Vec<_> =
        fs::read_dir(runs).map_err(|error| format!("{}: {error}", runs.display()))?.flatten().collect();
    let directories: Vec<PathBuf> =
        entries.iter().map(|entry| entry.path()).filter(|path| path.join("events.jsonl").is_file()).collect();
    let [run] = directories.as_slice() else { return Err(format!("{} runs in {}", directories.len(), runs.display())) };
    let log = fs::read_to_string(run.join("events.jsonl")).map_err(|error| error.to_string())?;
    let mut attempts = Vec::new();
    for line in log.lines() {
        let event: Value = serde_json::from_str(line).map_err(|error| format!("event log: {error}"))?;
        if event["event"] == "attempt_finished" {
            attempts.push(Attempt::read(&event));
        }
    }
    Ok((run.clone(), attempts))
}

impl Attempt {
    fn read(event: &Value) -> Attempt {
        let attempt = &event["attempt"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let processes = attempt["processes"].as_array().into_iter().flatten();
        let failure = |failure: &Value| {
            format!("{}: {} | {}", text(&failure["kind"]), text(&failure["expected"]), text(&failure["got"]))
        };
        Attempt {
            case: text(&event["case"]),
            verdict: text(&attempt["verdict"]["is"]),
            failures: attempt["failures"].as_array().into_iter().flatten().map(failure).collect(),
            took: Duration::from_micros(attempt["duration_us"].as_u64().unwrap_or_default()),
            report: attempt["cluster_report"].as_str().map(str::to_owned),
            devices: attempt["device_reports"].as_str().map(str::to_owned),
            ends: processes
                .map(|process| format!("{} {}", process["role"], process["exit"]))
                .collect::<Vec<_>>()
                .join(", "),
            warm: attempt["starts"]["warm"].as_u64().unwrap_or_default(),
            cold: attempt["starts"]["cold"].as_array().into_iter().flatten().map(text).collect(),
        }
    }
}
