//! ftest where a shell or a container gives it little: descriptors, the umask, variables that are empty or wrong.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::program;

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

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    /// `ftest run` on the suite, by a shell that first does `before`.
    fn ftest_after(&self, before: &str, arguments: &[&str]) -> Command {
        let mut command = program::behind(&["bash", "-c", &format!("{before}\nexec \"$0\" \"$@\"")]);
        command.args(["run", "s.yaml", "--no-fail-fast", "--runs-dir", "runs"]).args(arguments);
        command.current_dir(self.0.path()).env("TMPDIR", self.0.path()).env("NO_COLOR", "1").stdin(Stdio::null());
        command
    }

    fn after(&self, before: &str, arguments: &[&str]) -> (i32, String) {
        outcome(&self.ftest_after(before, arguments).output().unwrap())
    }
}

fn outcome(output: &Output) -> (i32, String) {
    let text = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    (output.status.code().unwrap_or(-1), text.concat())
}

/// Every file and directory below `directory`, with its permissions.
fn modes(directory: &Path) -> Vec<(PathBuf, u32)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let meta = entry.metadata().unwrap();
        if !meta.is_symlink() {
            found.push((entry.path(), meta.permissions().mode() & 0o777));
        }
        if meta.is_dir() {
            found.extend(modes(&entry.path()));
        }
    }
    found
}

// ---- descriptors -------------------------------------------------------------------------------------------------------

#[test]
fn a_case_of_many_processes_runs_below_a_low_soft_limit_and_its_programs_keep_that() {
    let workspace = Workspace::new(&[
        "{id: a, launch: {argv: [sh, -c, 'ulimit -Sn; ulimit -Hn'], ranks: 40}, expect: {stdout: {rank: all, matches: '\\A64\\n4096\\n\\z'}}}",
    ]);
    let (code, text) = workspace.after("ulimit -Sn 64; ulimit -Hn 4096", &[]);
    assert_eq!(code, 0, "{text}");
}

#[test]
fn fixtures_and_commands_keep_the_users_soft_limit_too() {
    let workspace = Workspace::new(&["{id: a, uses: [f], launch: {argv: ['true']}}"]);
    let fixture = "fixtures:\n  f: {setup: {argv: [sh, -c, 'ulimit -Sn > limit']}}\n";
    fs::write(workspace.file("s.yaml"), format!("{}{fixture}", workspace.read("s.yaml"))).unwrap();
    let (code, text) = workspace.after("ulimit -Sn 64; ulimit -Hn 4096", &[]);
    assert_eq!((code, workspace.read("limit").as_str()), (0, "64\n"), "{text}");
}

#[test]
fn a_hard_limit_that_is_too_low_is_said_before_anything_runs() {
    let workspace =
        Workspace::new(&["{id: many, launch: {argv: [touch, ran], ranks: 40}}", "{id: one, launch: {argv: ['true']}}"]);
    let (code, text) = workspace.after("ulimit -n 64", &[]);
    assert_eq!(code, 3, "{text}");
    assert!(text.contains("for the 40 processes of this case, and the hard limit (`ulimit -Hn`) is 64"), "{text}");
    assert!(text.contains("1 passed, 1 broken") && !workspace.file("ran").exists(), "{text}");
}

#[test]
fn cases_side_by_side_wait_for_descriptors_and_none_is_broken_by_another() {
    let workspace = Workspace::new(&[
        "{id: a, matrix: {axes: {n: [1, 2, 3, 4, 5, 6]}}, launch: {argv: [sh, -c, 'echo out; echo err >&2'], ranks: 4}}",
    ]);
    // Two such cases have room at once.
    let (code, text) = workspace.after("ulimit -n 110", &["--jobs", "6"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("6 passed"), "{text}");
}

#[test]
fn processes_are_ended_although_no_descriptor_is_left_to_look_for_them() {
    // The program takes ftest's descriptors away; then not even /proc can be read.
    let workspace = Workspace::new(&[
        "{id: a, timeout: {kill: 6s, grace: 300ms}, launch: {argv: [sh, -c, 'echo $$ > pid; prlimit --nofile=3:3 --pid $PPID; exec sleep 1000'], ranks: 1}}",
    ]);
    let (_, text) = workspace.after("true", &[]);
    assert!(!text.contains("still there"), "{text}");
    let pid = workspace.read("pid");
    assert!(
        !pid.is_empty() && !Path::new("/proc").join(pid.trim()).exists(),
        "process {pid} outlives its case: {text}"
    );
}

// ---- disks, loopback, /proc --------------------------------------------------------------------------------------------

/// Runs `script`, in which `ftest` is the program under test, in mounts and a network of its own. `None`: impossible here.
fn apart(workspace: &Workspace, script: &str) -> Option<(i32, String)> {
    if let Err(error) = runner::execute::network::Network::possible() {
        eprintln!("not tried: {error}");
        return None;
    }
    let own = if rustix::process::geteuid().is_root() { "-mn" } else { "-Urmn" };
    let script = format!("ftest() {{ \"$0\" \"$@\"; }}\n{script}");
    let mut command = program::behind(&["unshare", own, "bash", "-c", &script]);
    command.current_dir(workspace.0.path()).env("NO_COLOR", "1").stdin(Stdio::null());
    Some(outcome(&command.output().unwrap()))
}

#[test]
fn a_full_disk_is_named_where_it_is_and_so_is_what_else_is_missing() {
    let workspace = Workspace::new(&[
        r#"{id: writes, launch: {argv: [sh, -c, 'head -c 3000000 /dev/zero > "$TMPDIR/x"'], ranks: 1}}"#,
        "{id: meets, transport: tcp, cluster: {nodes: 1, gpus_per_node: 2, profile: h100}, launch: {argv: ['true'], ranks: 2}}",
        "{id: shares, launch: {argv: [sh, -c, 'echo x > /dev/shm/x']}}",
        "{id: alone, launch: {argv: ['true'], ranks: 2}}",
    ]);
    fs::create_dir(workspace.file("small")).unwrap();
    let script =
        "mount -t tmpfs -o size=1m none small && mount -t tmpfs -o ro none /dev/shm && export TMPDIR=$PWD/small
        ftest run s.yaml --no-fail-fast --runs-dir runs --jobs 1; code=$?; ftest doctor --offline; exit $code";
    let Some((code, text)) = apart(&workspace, script) else { return };
    assert_eq!(code, 3, "{text}");
    let small = workspace.file("small");
    for part in [
        &format!("got:      rank 0 found no space: TMPDIR, {}/ft-", small.display()),
        "is on a disk that has 0 B left of 1 MiB",
        "got:      127.0.0.1 cannot be reached: Network is unreachable (os error 101); set the interface `lo` up",
        "nothing can be written to /dev/shm: Read-only file system",
        "1 passed, 3 broken",
        "limited  /dev/shm     nothing can be written (Read-only file system",
        &format!("limited  TMPDIR       {}, 1", small.display()),
        "limited  loopback     127.0.0.1 cannot be reached",
    ] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
}

#[test]
fn a_machine_without_proc_is_said() {
    let workspace = Workspace::new(&["{id: a, launch: {argv: ['true']}}"]);
    let script = "mount -t tmpfs none /proc; ftest run s.yaml; code=$?; ftest doctor --offline | head -1; exit $code";
    let Some((code, text)) = apart(&workspace, script) else { return };
    assert_eq!(code, 3, "{text}");
    let said = "/proc/self/stat: No such file or directory (os error 2); ftest finds its own parts";
    assert_eq!(text.matches(said).count(), 2, "{text}");
}

// ---- limits that programs inherit --------------------------------------------------------------------------------------

#[test]
fn a_limit_that_ended_a_program_breaks_the_case_and_is_named() {
    let workspace = Workspace::new(&[
        "{id: files, launch: {argv: [sh, -c, 'head -c 100000 /dev/zero > big'], ranks: 1}}",
        "{id: own, launch: {argv: [sh, -c, 'exit 1']}}",
        "{id: wanted, launch: {argv: [sh, -c, 'kill -XFSZ $$']}, expect: {exit: {signal: SIGXFSZ}}}",
        "{id: burns, timeout: 20s, launch: {argv: [sh, -c, 'while :; do :; done'], ranks: 1}}",
    ]);
    // bash counts files in KiB.
    let (code, text) = workspace.after("ulimit -f 50; ulimit -t 2", &[]);
    assert_eq!(code, 3, "{text}");
    assert!(text.contains("1 passed, 1 failed, 2 broken"), "{text}");
    for part in [
        "SIGXFSZ ended rank 0: a file became larger than allowed",
        "the limit on the size of files (`ulimit -f`) is 51200 bytes: raise it",
        "the limit on processor time (`ulimit -t`) is 2 s: raise it",
        "note: ftest was started under limits that programs inherit: the size of files (`ulimit -f`) 51200, processor time",
    ] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
}

#[test]
fn too_few_addresses_for_ftest_itself_are_said() {
    let workspace = Workspace::new(&["{id: a, launch: {argv: ['true']}}"]);
    let (code, text) = workspace.after("ulimit -v 100000", &[]);
    let printed = "the limit on addresses (`ulimit -v`) is 97.7 MiB, and ftest itself needs 128 MiB: raise it";
    assert!(code == 3 && text.contains(printed), "{code}: {text}");
}

#[test]
fn a_small_stack_is_the_programs_alone() {
    let workspace =
        Workspace::new(&["{id: a, launch: {argv: [sh, -c, 'ulimit -s; exit 1']}, expect: {stdout: \"128\"}}"]);
    let (code, text) = workspace.after("ulimit -s 128", &[]);
    assert_eq!(code, 1, "{text}");
    assert!(
        text.contains("limits that programs inherit: stacks (`ulimit -s`) 131072") && !text.contains("stdout ("),
        "{text}"
    );
}

#[test]
fn a_limit_on_files_does_not_end_ftest_itself() {
    let workspace = Workspace::new(&["{id: a, launch: {argv: ['true']}}", "{id: b, launch: {argv: ['false']}}"]);
    let (code, text) = workspace.after("ulimit -f 0", &["--junit", "out.xml"]);
    assert!(text.contains("1 passed, 1 failed") && code == 3, "{code}: {text}");
    assert!(text.contains("File too large"), "{text}");
}

#[test]
fn the_parent_of_ftest_may_ignore_the_ends_of_children() {
    let workspace = Workspace::new(&[
        "{id: a, launch: {argv: [sh, -c, 'exit 3'], ranks: 2}, expect: {exit: 3}}",
        "{id: b, launch: {argv: [sh, -c, 'kill -KILL $$']}, expect: {exit: {signal: SIGKILL}}}",
    ]);
    let (code, text) = workspace.after("trap '' CHLD", &[]);
    assert_eq!(code, 0, "{text}");
}

// ---- permissions -------------------------------------------------------------------------------------------------------

#[test]
fn what_ftest_writes_follows_the_users_umask() {
    let workspace = Workspace::new(&[
        "{id: passes, launch: {argv: [sh, -c, 'umask > mask; echo x > made']}}",
        "{id: fails, launch: {argv: [sh, -c, 'echo x; exit 1'], ranks: 2}}",
    ]);
    let reports = ["--junit", "new/out.xml", "--html", "out.html", "--markdown", "out.md", "--trace", "out.json"];
    for (umask, programs, forbidden) in [("077", "0077", 0o077), ("002", "0022", 0o002), ("022", "0022", 0o022)] {
        for name in ["runs", "new"] {
            let _ = fs::remove_dir_all(workspace.file(name));
        }
        for name in ["out.html", "out.md", "out.json", "mask", "made"] {
            let _ = fs::remove_file(workspace.file(name));
        }
        let (code, text) = workspace.after(&format!("umask {umask}"), &reports);
        assert_eq!(code, 1, "{text}");
        assert_eq!(workspace.read("mask").trim(), programs, "under {umask}");
        let written = modes(workspace.0.path());
        assert!(written.iter().any(|(path, _)| path.ends_with("new/out.xml")), "{written:?}");
        for (path, mode) in &written {
            assert!(path.ends_with("s.yaml") || mode & forbidden == 0, "{} is {mode:o} under {umask}", path.display());
        }
        let mode_of = |name: &str| written.iter().find(|(path, _)| path.ends_with(name)).unwrap().1;
        for name in ["out.xml", "out.html", "out.md", "out.json", "events.jsonl"] {
            assert_eq!(mode_of(name), 0o666 & !forbidden, "{name} under {umask}");
        }
    }
}

// ---- variables ---------------------------------------------------------------------------------------------------------

/// A case on a cluster needs the cache directory, the coordinator and the shim.
const ON_A_CLUSTER: &str =
    "{id: a, cluster: {nodes: 1, gpus_per_node: 1, profile: a100}, launch: {argv: [sh, -c, ':'], ranks: 1}}";

/// An installation with stand-ins for shim and coordinator, so that no test waits for a build of them.
fn install(workspace: &Workspace) {
    const COORDINATOR: &str = "#!/bin/sh\nwhile [ $# -gt 0 ]; do case $1 in --address) at=$2 ;; esac; shift; done\n\
         trap 'exit 0' TERM\necho \"fakegpu-coordinator listening on $at\"\nwhile :; do sleep 0.05; done\n";
    for directory in ["home/bin", "home/lib"] {
        fs::create_dir_all(workspace.file(directory)).unwrap();
    }
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let library = maps.split_ascii_whitespace().find(|word| word.contains("libgcc_s")).expect("Rust uses libgcc_s");
    fs::copy(library, workspace.file("home/lib/libfakegpu.so")).unwrap();
    fs::write(workspace.file("home/bin/fakegpu-coordinator"), COORDINATOR).unwrap();
    fs::set_permissions(workspace.file("home/bin/fakegpu-coordinator"), PermissionsExt::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_ftest"), workspace.file("home/bin/ftest")).unwrap();
}

/// What `ftest run` answers with these variables; an empty name removes nothing, a value of `-` the variable.
fn with(workspace: &Workspace, variables: &[(&str, &str)]) -> (i32, String) {
    let mut command = program::ftest();
    command.args(["run", "s.yaml"]).current_dir(workspace.0.path()).stdin(Stdio::null());
    command.env("TMPDIR", workspace.0.path()).env("HOME", workspace.0.path()).env("NO_COLOR", "1");
    command.env("FTEST_HOME", workspace.file("home")).env_remove("XDG_CACHE_HOME").env_remove("FTEST_CACHE_DIR");
    for (name, value) in variables {
        match *value {
            "-" => command.env_remove(name),
            value => command.env(name, value),
        };
    }
    outcome(&command.output().unwrap())
}

#[test]
fn an_empty_variable_is_one_that_is_not_set() {
    let workspace = Workspace::new(&[ON_A_CLUSTER]);
    install(&workspace);
    for name in ["TMPDIR", "FTEST_RUNS_DIR", "FTEST_CACHE_DIR", "XDG_CACHE_HOME", "FTEST_CASE_COOKIE", "CI", "PATH"] {
        let (code, text) = with(&workspace, &[(name, "")]);
        assert_eq!(code, 0, "{name}: {text}");
    }
    assert!(workspace.file(".ftest/runs").is_dir() && workspace.file(".cache/ftest/holders").is_dir());
}

#[test]
fn a_relative_variable_means_the_working_directory() {
    let workspace =
        Workspace::new(&[ON_A_CLUSTER.replace("':'", "'case $LD_LIBRARY_PATH in /*) ;; *) exit 9; esac'").as_str()]);
    install(&workspace);
    fs::create_dir(workspace.file("sub")).unwrap();
    fs::rename(workspace.file("s.yaml"), workspace.file("sub/s.yaml")).unwrap();
    // The case runs in the directory of its suite, ftest beside it.
    for (name, value) in [("FTEST_HOME", "home"), ("HOME", "new-home"), ("FTEST_CACHE_DIR", "cache"), ("TMPDIR", "sub")]
    {
        let mut command = program::ftest();
        command.args(["run", "sub/s.yaml"]).current_dir(workspace.0.path()).stdin(Stdio::null());
        command
            .env("FTEST_HOME", workspace.file("home"))
            .env("HOME", workspace.0.path())
            .env("TMPDIR", workspace.0.path());
        command.env_remove("FTEST_CACHE_DIR").env_remove("XDG_CACHE_HOME");
        let (code, text) = outcome(&command.env(name, value).output().unwrap());
        assert_eq!(code, 0, "{name}: {text}");
    }
}

#[test]
fn a_variable_that_names_nothing_usable_is_said_with_what_to_do() {
    let workspace = Workspace::new(&[ON_A_CLUSTER]);
    install(&workspace);
    // Not even root can make a file in /proc.
    for (variables, printed) in [
        (&[("TMPDIR", "/proc")][..], &["cannot make /proc/ft-", "set TMPDIR to a directory that can be written"][..]),
        (&[("TMPDIR", "/no/such")], &["cannot make /no/such/ft-", "set TMPDIR to a directory that can be written"]),
        (
            &[("HOME", "/proc")],
            &["/proc/.cache/ftest/holders", "set FTEST_CACHE_DIR to a directory that can be written"],
        ),
        (&[("HOME", "-")], &["none of FTEST_CACHE_DIR, XDG_CACHE_HOME and HOME is set", "set FTEST_CACHE_DIR to"]),
        (&[("HOME", "")], &["none of FTEST_CACHE_DIR, XDG_CACHE_HOME and HOME is set", "set FTEST_CACHE_DIR to"]),
        (&[("XDG_CACHE_HOME", "/proc")], &["/proc/ftest/holders", "set FTEST_CACHE_DIR to"]),
        (&[("FTEST_CACHE_DIR", "/proc/x")], &["/proc/x/holders", "set FTEST_CACHE_DIR to"]),
        (&[("FTEST_HOME", "/no/such")], &["FTEST_HOME=/no/such: no such directory", "unset it, or correct it"]),
    ] {
        let (code, text) = with(&workspace, variables);
        assert_eq!(code, 3, "{variables:?}: {text}");
        for part in printed {
            assert!(text.contains(part), "{variables:?}: {text}");
        }
    }
}
