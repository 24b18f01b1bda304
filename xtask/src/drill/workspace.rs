//! The workspace of a row: its own directory, the build under test, and the commands that it starts there.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::command::{Ended, Started};

/// Variables of a CI job, a cargo command or a user's shell that would change what is tested.
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

/// Builds what is tested, as users do.
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
    /// As often as fits into the time that somebody is willing to wait.
    #[default]
    Usual,
    /// Until something that happens once in a thousand times should have happened.
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
    /// A directory cannot be created.
    pub(super) fn new(root: &Path, scale: Scale) -> Result<Workspace, String> {
        // Sockets need short paths.
        let directory =
            tempfile::Builder::new().prefix("drill-").tempdir_in("/tmp").map_err(|error| error.to_string())?;
        Ok(Workspace { root: root.to_owned(), scale, directory })
    }

    /// How often to try, chosen from these three.
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

    /// Keeps the directory for inspection.
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

    /// The same, in a shell that first runs `before`.
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
            // A guard cleans up after a killed run.
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
