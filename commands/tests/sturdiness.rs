//! ftest itself in hostile surroundings: directories, locales, streams, terminals, clocks, and its own violent end.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use runner::execute::process_tree::cookie::{Cookie, random_word};
use runner::execute::process_tree::sweep::Sweep;

use crate::program;

/// Longer than anything here may take on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory with a suite of `cases`, each a line of YAML.
struct Workspace(tempfile::TempDir);

impl Workspace {
    fn new(cases: &[&str]) -> Workspace {
        let directory = tempfile::tempdir_in("/tmp").unwrap();
        let cases: String = cases.iter().map(|case| format!("- {case}\n")).collect();
        let text = format!("ftest: 1\nsuite: s\ndefaults: {{timeout: 50s}}\ncases:\n{cases}");
        fs::write(directory.path().join("s.yaml"), text).unwrap();
        Workspace(directory)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// `ftest run` on the suite.
    fn ftest(&self) -> Command {
        let mut command = program::ftest();
        command.arg("run").arg(self.file("s.yaml")).arg("--no-fail-fast");
        command.env("TMPDIR", self.0.path()).env("NO_COLOR", "1").stdin(Stdio::null());
        command.arg("--runs-dir").arg(self.file("runs"));
        command
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_default()
    }
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Output without times.
fn timeless(output: &Output) -> String {
    let times = regex::Regex::new(r"\[ *\d+\.\d{3} s\]|in \d+\.\d s").unwrap();
    times.replace_all(&text(output), "TIME").into_owned()
}

#[test]
fn a_temporary_directory_with_a_name_too_long_for_sockets_or_with_separators_is_reached_by_a_link() {
    let workspace = Workspace::new(&[
        r#"{id: a, launch: {argv: [sh, -c, 'echo $FTEST_SCRATCH > short; readlink -f "$FTEST_SCRATCH" > real; touch "$TMPDIR/x"'], ranks: 2}}"#,
    ]);
    for name in ["d".repeat(150), "my project: $it's".to_owned()] {
        let chosen = workspace.file(&name);
        fs::create_dir(&chosen).unwrap();
        let output = workspace.ftest().env("TMPDIR", &chosen).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        let (short, real) = (workspace.read("short"), workspace.read("real"));
        assert!(short.len() < 100 && !short.contains(' '), "{short}");
        assert!(real.starts_with(chosen.to_str().unwrap()), "{real}");
        assert!(!Path::new(short.trim()).exists() && fs::read_dir(&chosen).unwrap().next().is_none(), "{short}");
    }
}

#[test]
fn a_directory_whose_name_is_no_text_is_refused() {
    use std::os::unix::ffi::OsStrExt;

    let workspace = Workspace::new(&["{id: a, launch: {argv: ['true']}}"]);
    let directory = workspace.0.path().join(std::ffi::OsStr::from_bytes(b"n\xff"));
    fs::create_dir(&directory).unwrap();
    fs::copy(workspace.file("s.yaml"), directory.join("s.yaml")).unwrap();
    for command in ["run", "check", "explain"] {
        let output = program::ftest().args([command, "s.yaml"]).current_dir(&directory).output().unwrap();
        let said = text(&output);
        assert!(
            output.status.code() == Some(2) && said.contains("s.yaml: the path of its directory is not UTF-8"),
            "{said}"
        );
    }
}

#[test]
fn a_locale_changes_nothing() {
    // Turkish lower case of I is not i; decimal points are commas.
    let workspace = Workspace::new(&[
        "{id: TITLE, launch: {argv: [sh, -c, 'echo $LC_ALL $LANG; date -u -d @0 +%A']}, expect: {stdout: [C.UTF-8, Thursday]}}",
        "{id: fails, launch: {argv: ['false']}}",
        "{id: killed, launch: {argv: [sh, -c, 'kill $$']}, expect: {exit: {signal: sigterm}}}",
    ]);
    let with = |locale: &str| {
        let output = workspace.ftest().env("LC_ALL", locale).env("LANG", locale).output().unwrap();
        let kept = regex::Regex::new("/runs/[^/]+").unwrap();
        (output.status.code(), kept.replace_all(&timeless(&output), "/KEPT").into_owned())
    };
    let plain = with("C");
    assert_eq!(plain.0, Some(1), "{}", plain.1);
    assert_eq!(with("tr_TR.UTF-8"), plain);
}

#[test]
fn neither_home_nor_the_working_directory_need_be_writable() {
    // Not even root can make a file in /proc.
    let workspace = Workspace::new(&["{id: a, launch: {argv: ['true'], ranks: 2}}"]);
    let mut command = program::ftest();
    command.arg("run").arg(workspace.file("s.yaml")).env("TMPDIR", workspace.0.path()).stdin(Stdio::null());
    command.env("HOME", "/proc").env_remove("XDG_CACHE_HOME").env_remove("XDG_STATE_HOME").env_remove("XDG_DATA_HOME");
    let output = command.current_dir("/proc").arg("--junit").arg(workspace.file("out.xml")).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(text(&output).contains("this run is not kept: cannot write .ftest/runs"), "{}", text(&output));
    assert!(workspace.read("out.xml").ends_with("</testsuites>\n"));
}

#[test]
fn closed_streams_are_nothing_special() {
    let workspace = Workspace::new(&[
        "{id: a, launch: {argv: [sh, -c, 'echo out; echo err >&2; readlink /proc/self/fd/0 > stdin']}, expect: {stdout: out, stderr: err}}",
        "{id: b, launch: {argv: ['false']}}",
    ]);
    let mut shell = program::behind(&["sh", "-c", "exec \"$0\" \"$@\" <&- >&- 2>&-"]);
    shell.args(workspace.ftest().get_args()).args(["--junit"]).arg(workspace.file("out.xml"));
    let status = shell.env("TMPDIR", workspace.0.path()).status().unwrap();
    assert_eq!(status.code(), Some(1), "the second case fails, and no more");
    assert_eq!(workspace.read("stdin"), "/dev/null\n");
    let junit = workspace.read("out.xml");
    assert!(junit.contains("tests=\"2\"") && junit.contains("failures=\"1\""), "{junit}");
    assert!(junit.contains("errors=\"0\""), "{junit}");
}

#[test]
fn a_reader_who_leaves_is_not_missed() {
    let workspace = Workspace::new(&[
        "{id: a, matrix: {axes: {n: [1, 2, 3, 4, 5, 6, 7, 8, 9]}}, launch: {argv: ['true']}}",
        "{id: last, launch: {argv: [sh, -c, 'touch ran; exit 3']}}",
    ]);
    // Nobody reads: the first write to stdout fails.
    let mut child = workspace.ftest().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!((child.wait().unwrap().code(), stderr.as_str()), (Some(1), ""));
    assert!(workspace.file("ran").exists(), "the run went on");

    for arguments in
        [&["check", "s.yaml"][..], &["run", "--list", "s.yaml"], &["check", "no-such-suite"], &["profiles"]]
    {
        let mut command = program::ftest();
        command.args(arguments).current_dir(workspace.0.path()).stdin(Stdio::null());
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let status = command.stdout(writer.try_clone().unwrap()).stderr(writer).status().unwrap();
        let expected = if arguments.contains(&"no-such-suite") { 2 } else { 0 };
        assert_eq!(status.code(), Some(expected), "{arguments:?}");
    }
}

#[test]
fn a_program_gets_no_terminal_even_where_ftest_has_one() {
    let workspace = Workspace::new(&[
        "{id: a, launch: {argv: [sh, -c, 'if (exec 3</dev/tty) 2>/dev/null; then exit 1; fi; ps -o tty= $$ > tty; cat']}}",
    ]);
    let controller = rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY).unwrap();
    rustix::pty::grantpt(&controller).unwrap();
    rustix::pty::unlockpt(&controller).unwrap();
    let name = rustix::pty::ptsname(&controller, Vec::new()).unwrap();
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
    let terminal: OwnedFd = rustix::fs::open(name, flags, rustix::fs::Mode::empty()).unwrap();
    // `setsid --ctty` gives its program the terminal on its stdin.
    let script = "(exec 3</dev/tty) && exec \"$0\" \"$@\"";
    let mut command = program::behind(&["setsid", "--ctty", "--wait", "sh", "-c", script]);
    command.args(workspace.ftest().get_args()).env("TMPDIR", workspace.0.path());
    let output = command.stdin(terminal).stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert_eq!(workspace.read("tty").trim(), "?");
}

#[test]
fn inherited_descriptors_stay_with_ftest() {
    let workspace = Workspace::new(&["{id: a, launch: {argv: [sh, -c, 'ls /proc/$$/fd | tr \"\\n\" \" \" > fds']}}"]);
    let mut shell = program::behind(&["sh", "-c", "exec 7</dev/null 8>&1; exec \"$0\" \"$@\""]);
    let output = shell.args(workspace.ftest().get_args()).env("TMPDIR", workspace.0.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let open = workspace.read("fds");
    assert!(!open.contains('7') && !open.contains('8'), "open in the program: {open}");
}

#[test]
fn killing_the_outer_of_two_ftests_ends_both() {
    let workspace = Workspace::new(&[r#"{id: outer, launch: {argv: [ftest, run, inner.yaml]}}"#]);
    let fifo = workspace.file("ready");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    let inner = "ftest: 1\nsuite: inner\ncases:\n- id: stays\n  launch: {argv: [sh, -c, \"(setsid sleep 1000 &); trap '' TERM HUP; echo ready > ready; sleep 1000; sleep 1000\"], ranks: 2}\n";
    fs::write(workspace.file("inner.yaml"), inner).unwrap();
    let mark = random_word();
    let mut command = workspace.ftest();
    command.env("FTEST_CASE_COOKIE", &mark).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(fs::File::open(fifo).unwrap()).lines();
        lines.map_while(Result::ok).for_each(|line| drop(sender.send(line)));
    });
    assert_eq!(lines.recv_timeout(PATIENCE).expect("the inner case starts"), "ready");
    let everything = Sweep::new(Cookie::from_text(mark));
    let before = everything.find();
    assert!(before.len() >= 5, "two ftests, their guards and the ranks: {before:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let left = runtime
        .block_on(everything.wait(before, runner::execute::run::clock::Instant::now() + Duration::from_secs(20)));
    assert_eq!((left, everything.find()), (Vec::new(), Vec::new()));
    let directories = fs::read_dir(workspace.0.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!directories.into_iter().any(|name| name.to_string_lossy().starts_with("ft-")));
}

/// Makes the wall clock jump by an hour at every look.
const JUMPS: &str = "
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static int ahead;
int clock_gettime(clockid_t clock, struct timespec *now) {
    int done = (int)syscall(SYS_clock_gettime, clock, now);
    if (clock == CLOCK_REALTIME) now->tv_sec += (ahead = !ahead) ? 3600 : -3600;
    return done;
}
";

#[test]
fn the_wall_clock_decides_nothing() {
    let workspace = Workspace::new(&[
        "{id: quick, launch: {argv: [sleep, '0.1']}}",
        "{id: late, timeout: {kill: 300ms, grace: 100ms}, launch: {argv: [sleep, '1000']}}",
    ]);
    fs::write(workspace.file("jumps.c"), JUMPS).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-o"]).arg(workspace.file("jumps.so")).arg(workspace.file("jumps.c"));
    assert!(cc.status().expect("cc, which rustc links with, runs").success());
    let started = Instant::now();
    let mut command = workspace.ftest();
    command.env("LD_PRELOAD", workspace.file("jumps.so")).arg("--junit").arg(workspace.file("out.xml"));
    let output = command.output().unwrap();
    assert!(started.elapsed() < PATIENCE);
    let printed = timeless(&output);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.contains("1 passed, 1 timeout"), "{printed}");
    let times = regex::Regex::new(r#" time="([0-9.]+)""#).unwrap();
    let junit = workspace.read("out.xml");
    let times: Vec<f64> = times.captures_iter(&junit).map(|found| found[1].parse().unwrap()).collect();
    assert!(times.len() >= 3 && times.iter().all(|time| *time < PATIENCE.as_secs_f64()), "{junit}");
}
