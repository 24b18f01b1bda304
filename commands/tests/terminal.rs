//! ftest as a job of a shell on a terminal: Ctrl-C, Ctrl-Z and fg, and a rank that wants the terminal for itself.

use std::fs;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use tempfile::TempDir;

/// Longer than anything here may take on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// An interactive shell whose controlling terminal is ours.
struct Terminal {
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    shown: String,
    shell: Child,
    directory: TempDir,
}

impl Terminal {
    fn new(suite: &str) -> Terminal {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("suite.yaml"), suite).unwrap();
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let open = || File::options().read(true).write(true).open(&name).unwrap();
        let shell = Command::new("setsid")
            .args(["--ctty", "sh", "-i", "-m"])
            .stdin(open())
            .stdout(open())
            .stderr(open())
            .env("PS1", "ready> ")
            .env("FTEST", env!("CARGO_BIN_EXE_ftest"))
            .env("TERM", "dumb")
            .env_remove("CI")
            .env_remove("GITHUB_ACTIONS")
            .env_remove("FTEST_RUNS_DIR")
            .env_remove("ENV")
            .current_dir(directory.path())
            .spawn()
            .unwrap();
        let mut reader = File::from(master);
        let keyboard = reader.try_clone().unwrap();
        let (sender, screen) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        let mut terminal = Terminal { keyboard, screen, shown: String::new(), shell, directory };
        terminal.wait_for("ready> ");
        terminal
    }

    fn type_in(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until `text` is shown and gives what came until then.
    fn wait_for(&mut self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.shown.find(text) {
                return self.shown.drain(..at + text.len()).collect();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.screen.recv_timeout(left) {
                Ok(bytes) => self.shown.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!("`{text}` was not shown; the screen:\n{}", self.shown),
            }
        }
    }

    /// Waits until a file of the directory has content.
    fn wait_for_file(&self, name: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match fs::read_to_string(self.directory.path().join(name)) {
                Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
                _ => assert!(Instant::now() < deadline, "the case does not write {name}; the screen:\n{}", self.shown),
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

fn state(pid: &str) -> char {
    let stat = fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
}

#[test]
fn ctrl_z_stops_everything_and_the_clock_and_fg_lets_it_go_on() {
    // The grandchild has left the session of the case; the deadline passes while all are stopped. Neither starts a program
    // meanwhile: a parent that used vfork is not stopped, but waits for a child that is.
    let mut terminal = Terminal::new(
        "ftest: 1\nsuite: job\ncases:\n- id: waits\n  timeout: {slow: 5s, kill: 6s}\n  launch:\n    \
         argv: [sh, -c, 'mkfifo go; setsid sh -c \"echo \\$\\$ > far; read word < go\" & echo $$ > near; wait']\n",
    );
    terminal.type_in("$FTEST suite.yaml\n");
    let pids = [terminal.wait_for_file("near"), terminal.wait_for_file("far")];
    terminal.type_in("\x1a");
    terminal.wait_for("Stopped");
    terminal.wait_for("ready> ");
    // A process stops when it next gets a processor, not when it gets the signal.
    let deadline = Instant::now() + PATIENCE;
    while pids.each_ref().map(|pid| state(pid)) != ['T', 'T'] {
        let states = pids.each_ref().map(|pid| state(pid));
        assert!(Instant::now() < deadline, "the processes are {states:?}; the screen:\n{}", terminal.shown);
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(6500));
    // Open for both, so that neither opening nor writing waits for the reader: it was stopped in doing so.
    let mut go = File::options().read(true).write(true).open(terminal.directory.path().join("go")).unwrap();
    go.write_all(b"on\n").unwrap();
    terminal.type_in("fg\n");
    let shown = terminal.wait_for("1 case");
    // Neither too late nor slow: what it was stopped does not count.
    assert!(shown.contains("passed") && !shown.contains("slow"), "{shown}");
}

#[test]
fn ctrl_c_ends_the_run() {
    let mut terminal = Terminal::new(
        "ftest: 1\nsuite: job\ncases:\n- {id: sleeps, launch: {argv: [sh, -c, 'echo $$ > pid; sleep 60']}}\n",
    );
    terminal.type_in("$FTEST suite.yaml; echo code=$?\n");
    let pid = terminal.wait_for_file("pid");
    terminal.type_in("\x03");
    terminal.wait_for("interrupted");
    terminal.wait_for("code=130");
    assert!(!Path::new("/proc").join(pid).exists());
}

#[test]
fn a_rank_that_opens_the_terminal_gets_an_error_and_nobody_is_stopped() {
    let mut terminal = Terminal::new(
        "ftest: 1\nsuite: job\ncases:\n- id: asks\n  launch: {argv: [sh, -c, 'read answer < /dev/tty || exit 7'], ranks: 2}\n  \
         expect: {exit: 7}\n",
    );
    terminal.type_in("$FTEST suite.yaml --color never; echo code=$?\n");
    let shown = terminal.wait_for("code=0");
    assert!(shown.contains("1 passed"), "{shown}");
}
