//! `ftest env` with a stand-in for Python: made once, also by two at once; a crash is cleaned up; without network a clear end.

pub(crate) mod stand_in;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::executable;
use stand_in::{STAND_IN, UV};

struct Machine {
    root: tempfile::TempDir,
}

impl Machine {
    fn new() -> Machine {
        let root = tempfile::tempdir().unwrap();
        let python = root.path().join("bin/python3");
        std::fs::create_dir(root.path().join("bin")).unwrap();
        executable::write(&python, STAND_IN);
        Machine { root }
    }

    fn log(&self) -> PathBuf {
        self.root.path().join("log")
    }

    fn installed(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.log()).unwrap_or_default();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }

    fn ftest(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ftest"));
        command.args(arguments).env_clear().env("LOG", self.log()).env("HOME", self.root.path());
        command.env("PATH", format!("{}:/usr/bin:/bin", self.root.path().join("bin").display()));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// What `ftest run` says of a suite with this one case, all of it.
fn run(machine: &Machine, case: &str, variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let suite = machine.root.path().join("s.yaml");
    std::fs::write(machine.root.path().join("x.py"), "").unwrap();
    std::fs::write(&suite, format!("ftest: 1\nsuite: s\ncases:\n- {case}\n")).unwrap();
    let mut command = machine.ftest(&["run", suite.to_str().unwrap()]);
    let output = command.current_dir(machine.root.path()).envs(variables.iter().copied()).output().unwrap();
    (code(&output), text(&output.stdout) + &text(&output.stderr))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

#[test]
fn an_environment_is_made_lean_reused_listed_and_removed() {
    let machine = Machine::new();
    let made = machine.ftest(&["env", "path", "torch == 2.9.1", "numpy"]).output().unwrap();
    assert_eq!(code(&made), Some(0), "{}", text(&made.stderr));
    let path = text(&made.stdout).trim().to_owned();
    assert!(
        path.starts_with(machine.root.path().join(".cache/ftest/envs/torch-2.9.1-py3.99-").to_str().unwrap()),
        "{path}"
    );
    assert!(Path::new(&path).join("bin/python").is_file());
    // torch without what it asks for, and of that only what no shim replaces.
    let expected = ["install --no-deps torch==2.9.1", "install numpy filelock", "venv"];
    assert_eq!(machine.installed(), expected);
    // Nor does it ask for the rest any more, so that what comes on top of it does not bring that.
    let metadata = machine.root.path().join("site/torch-2.9.1.dist-info/METADATA");
    assert_eq!(std::fs::read_to_string(metadata).unwrap(), "Name: torch\nRequires-Dist: filelock\n\nText.\n");

    let again = machine.ftest(&["env", "path", "numpy", "torch==2.9.1"]).output().unwrap();
    assert_eq!((text(&again.stdout), text(&again.stderr)), (text(&made.stdout), String::new()));
    assert_eq!(machine.installed(), expected);

    let key = Path::new(&path).file_name().unwrap().to_str().unwrap();
    let listed = machine.ftest(&["env", "list"]).output().unwrap();
    assert_eq!(text(&listed.stdout), format!("{key}\t0 MB\tnumpy torch==2.9.1\twithout nvidia-nccl-cu13 triton\n"));
    assert_eq!(code(&machine.ftest(&["env", "remove", "torch"]).output().unwrap()), Some(2));
    assert_eq!(code(&machine.ftest(&["env", "remove", key]).output().unwrap()), Some(0));
    assert!(!Path::new(&path).exists());
}

#[test]
fn uv_is_fetched_where_it_is_missing_and_its_wheels_stay_as_they_are() {
    let machine = Machine::new();
    let wheel = machine.root.path().join("wheel");
    executable::write(&wheel, UV);
    let ftest = |arguments: &[&str]| {
        let output = machine.ftest(arguments).env("WHEEL", &wheel).output().unwrap();
        assert_eq!(code(&output), Some(0), "{}", text(&output.stderr));
        output
    };
    let path = text(&ftest(&["env", "path", "torch==2.9.1", "numpy"]).stdout).trim().to_owned();
    let expected = [
        "compiles lib",
        "fetched uv",
        "uv installs without 6 --no-deps torch==2.9.1 from https://mine/simple, compiled: 0",
        "uv installs without 6 numpy filelock from https://mine/simple, compiled: 0",
    ];
    assert_eq!(machine.installed(), expected);
    let cache = machine.root.path().join(".cache/ftest");
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap();
    assert!(!read(machine.root.path().join("site/torch-2.9.1.dist-info/METADATA")).contains("nvidia"));
    assert!(read(cache.join("wheels/METADATA")).contains("nvidia"), "the wheel's own file is changed");

    std::fs::remove_file(machine.log()).unwrap();
    ftest(&["env", "path", "numpy"]);
    let expected = ["compiles lib", "uv installs without 6 numpy from https://mine/simple, compiled: 0"];
    assert_eq!(machine.installed(), expected);
    std::fs::create_dir(cache.join("envs/half")).unwrap();
    let collected = text(&ftest(&["env", "gc"]).stdout);
    assert!(collected.starts_with("removed half\nremoved ") && collected.contains("/wheels: 0 MB"), "{collected}");
    assert!(!cache.join("wheels").exists() && Path::new(&path).join("bin/python").is_file());
    assert_eq!(text(&ftest(&["env", "list"]).stdout).lines().count(), 2);
}

#[test]
fn the_doctor_names_the_python_and_whether_the_index_answers() {
    let machine = Machine::new();
    let doctor = |arguments: &[&str], variables: &[(&str, &str)]| {
        let home = machine.root.path().join("home");
        let output = machine.ftest(arguments).env("FTEST_HOME", home).envs(variables.iter().copied()).output().unwrap();
        (code(&output), text(&output.stdout))
    };
    let wheel = machine.root.path().join("wheel");
    std::fs::write(&wheel, "").unwrap();
    // Cargo builds the shim for this test only where something else asks for it.
    let home = machine.root.path().join("home");
    std::fs::create_dir_all(home.join("lib")).unwrap();
    std::fs::write(home.join("lib/libfakegpu.so"), "").unwrap();
    let (ended, said) = doctor(&["doctor"], &[("WHEEL", wheel.to_str().unwrap())]);
    let line = |said: &str, thing: &str| {
        let is_it = |line: &&str| line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ").starts_with(thing);
        said.lines().find(is_it).unwrap_or_default().to_owned()
    };
    assert_eq!(ended, Some(0), "{said}");
    let python = machine.root.path().join("bin/python3");
    assert!(line(&said, "Python").contains(python.to_str().unwrap()), "{said}");
    assert!(line(&said, "environment").starts_with("ok ") && line(&said, "package index").starts_with("ok "), "{said}");
    let (_, said) = doctor(&["doctor"], &[]);
    assert!(line(&said, "package index").starts_with("limited ") && said.contains("no wheel of uv"), "{said}");
    let (_, said) = doctor(&["doctor", "--offline"], &[]);
    assert_eq!(line(&said, "package index"), "");
    let (ended, said) = doctor(&["doctor", "--offline"], &[("FTEST_HOME", "/nowhere")]);
    assert_eq!(ended, Some(3));
    assert!(line(&said, "ftest").starts_with("missing ") && said.contains("FTEST_HOME=/nowhere"), "{said}");
}

#[test]
fn the_environments_of_suites_are_made_ahead() {
    let machine = Machine::new();
    let suite = machine.root.path().join("s.yaml");
    let case = |id: &str, more: &str| format!("  - {{ id: {id}, {more} launch: {{ argv: [\"true\"] }} }}\n");
    let cases = [("native", ""), ("system", "python: system,"), ("one", "python: [numpy], uses: [made],")]
        .map(|(id, more)| case(id, more))
        .concat();
    let fixtures = "fixtures: { made: { python: [psutil], setup: { argv: [\"true\"] } } }";
    let same = case("same", "python: [numpy],");
    std::fs::write(&suite, format!("ftest: 1\nsuite: s\n{fixtures}\ncases:\n{cases}{same}")).unwrap();
    let make = || machine.ftest(&["env", "make", suite.to_str().unwrap()]);
    let made = make().output().unwrap();
    assert_eq!(code(&made), Some(0), "{}", text(&made.stderr));
    assert_eq!(machine.installed(), ["install numpy", "install psutil", "venv", "venv"]);
    let listed = text(&machine.ftest(&["env", "list"]).output().unwrap().stdout);
    let keys: Vec<_> = listed.lines().map(|line| line.split('\t').next().unwrap()).collect();
    let printed = text(&made.stdout);
    let directories: Vec<_> = printed.lines().map(|line| line.rsplit('/').next().unwrap()).collect();
    assert_eq!(directories, keys);

    let chosen = make().env("FTEST_PYTHON", "system").output().unwrap();
    assert_eq!((code(&chosen), text(&chosen.stdout)), (Some(0), String::new()));
    assert!(text(&chosen.stderr).contains("nothing to make"), "{}", text(&chosen.stderr));
    assert_eq!(code(&machine.ftest(&["env", "make", "no-such-suite"]).output().unwrap()), Some(2));
}

#[test]
fn a_case_that_compiles_gets_the_triton_that_pytorch_asks_for() {
    for (python, installed) in [
        ("{torch: 2.9.1, compile: true}", "install triton~=3.5.1 filelock"),
        ("{torch: 2.9.1, compile: false}", "install filelock"),
        ("[torch==2.9.1, triton==3.4.0]", "install triton==3.4.0 filelock"),
    ] {
        let machine = Machine::new();
        let (code, printed) = run(&machine, &format!("{{id: a, python: {python}, launch: {{argv: ['true']}}}}"), &[]);
        assert_eq!(code, Some(0), "{python}: {printed}");
        assert_eq!(machine.installed(), ["install --no-deps torch==2.9.1", installed, "venv"], "{python}");
    }
    let wrong = "{id: a, python: {torch: 2.9.1, compile: yes please}, launch: {argv: ['true']}}";
    let (code, printed) = run(&Machine::new(), wrong, &[]);
    assert!(code == Some(2) && printed.contains("s.yaml:4:43"), "{printed}");
}

#[test]
fn two_at_once_make_one() {
    let machine = Machine::new();
    let children: Vec<_> = (0..2).map(|_| machine.ftest(&["env", "path", "numpy"]).spawn().unwrap()).collect();
    for child in children {
        assert_eq!(code(&child.wait_with_output().unwrap()), Some(0));
    }
    assert_eq!(machine.installed(), ["install numpy", "venv"]);
}

#[test]
fn what_a_crash_left_is_made_anew() {
    let machine = Machine::new();
    let crashed = machine.ftest(&["env", "path", "numpy"]).env("CRASH", "1").output().unwrap();
    assert_eq!(code(&crashed), None);
    let listed = machine.ftest(&["env", "list"]).output().unwrap();
    assert!(text(&listed.stdout).contains("(not complete)"), "{}", text(&listed.stdout));
    assert_eq!(code(&machine.ftest(&["env", "path", "numpy"]).output().unwrap()), Some(0));
    assert_eq!(machine.installed(), ["install numpy", "venv", "venv"]);
}

#[test]
fn without_network_the_end_is_clear_and_nothing_stays() {
    let machine = Machine::new();
    let failed = machine.ftest(&["env", "path", "torch==2.15.0"]).env("NO_NETWORK", "1").output().unwrap();
    assert_eq!(code(&failed), Some(3));
    let printed = text(&failed.stderr);
    for part in ["torch==2.15.0", "no route to the index", "FTEST_PYTHON"] {
        assert!(printed.contains(part), "{printed}");
    }
    assert_eq!(text(&machine.ftest(&["env", "list"]).output().unwrap().stdout), "");
}

#[test]
fn why_there_is_no_environment_is_the_last_line() {
    let machine = Machine::new();
    for (says, expected) in [
        ("Because numpyy was not found in the package registry", "the package index has no package of that name"),
        ("Because there is no version of torch==9.9.9", "the package index has no such version for Python 3.99"),
        ("error: Failed to fetch: https://x/simple", "the package index cannot be reached"),
        // pip says this also where no index answers, as here.
        ("Could not find a version that satisfies numpyy (from versions: none)", "the package index cannot be reached"),
        ("torch==2 has no wheels with a matching Python version tag", "no wheel of that version for Python 3.99"),
    ] {
        let failed = machine.ftest(&["env", "path", "torch==9.9.9"]).env("SAYS", says).output().unwrap();
        assert_eq!(code(&failed), Some(3));
        let printed = text(&failed.stderr);
        let last = printed.lines().last().unwrap_or_default().trim();
        assert!(last.starts_with(expected), "{printed}");
    }
}

#[test]
fn the_default_pytorch_has_a_wheel_for_the_interpreter() {
    let machine = Machine::new();
    executable::write(&machine.root.path().join("bin/python3"), &STAND_IN.replace("echo 3.99", "echo 3.10"));
    let path = text(&machine.ftest(&["env", "path"]).output().unwrap().stdout);
    assert!(path.contains("/torch-2.14.1-py3.10-"), "{path}");
    let said = text(&machine.ftest(&["doctor", "--offline"]).output().unwrap().stdout);
    assert!(said.contains("numpy torch==2.14.1 for Python 3.10 in "), "{said}");
}

#[test]
fn what_has_no_wheel_for_the_interpreter_gets_another() {
    let machine = Machine::new();
    let refuses = "*install*) echo 'torch==2.15.0 has no wheels with a matching Python tag. tags: `cp312`' >&2; exit 1 ;;\n    *\"no install\"*)";
    let old = STAND_IN.replace("echo 3.99", "echo 3.10").replace("*install*)", refuses);
    executable::write(&machine.root.path().join("bin/python3"), &old);
    executable::write(&machine.root.path().join("bin/python3.11"), &STAND_IN.replace("echo 3.99", "echo 3.11"));
    executable::write(&machine.root.path().join("bin/python3.12"), &STAND_IN.replace("echo 3.99", "echo 3.12"));
    let make = || machine.ftest(&["env", "path", "torch==2.15.0"]).output().unwrap();
    let made = make();
    let (path, said) = (text(&made.stdout), text(&made.stderr));
    assert!(path.contains("/torch-2.15.0-py3.12-"), "{path}{said}");
    assert!(said.contains("no wheel for Python 3.10: trying ") && said.contains("bin/python3.12\n"), "{said}");
    let again = make();
    assert_eq!((text(&again.stdout), text(&again.stderr)), (path, String::new()));
}

#[test]
fn helper_tools_run_without_the_shim() {
    let machine = Machine::new();
    // A preload that does not exist: the loader says so on stderr, and the stand-in would note its name.
    let made = machine.ftest(&["env", "path", "numpy"]).env("LD_PRELOAD", "libno-such.so").output().unwrap();
    assert_eq!(code(&made), Some(0));
    assert_eq!(machine.installed(), ["install numpy", "venv"]);
}

#[test]
fn ctrl_c_ends_the_tools_that_make_an_environment() {
    let machine = Machine::new();
    let suite = machine.root.path().join("s.yaml");
    let text_of = "ftest: 1\nsuite: s\ncases:\n  - id: c\n    python: [numpy]\n    launch: { argv: [\"true\"] }\n";
    std::fs::write(&suite, text_of).unwrap();
    let fifo = machine.root.path().join("installing");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    let mut command = machine.ftest(&["run", suite.to_str().unwrap()]);
    command.current_dir(machine.root.path());
    command.env("STAY", &fifo).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = std::os::unix::process::CommandExt::process_group(&mut command, 0).spawn().unwrap();
    // Returns when pip has begun.
    let (sender, printed) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(std::fs::read_to_string(&fifo).unwrap()));
    assert_eq!(printed.recv_timeout(Duration::from_secs(60)).expect("pip begins"), "installing\n");
    // To ftest alone, as `kill` sends it: pip hears nothing of it.
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert_eq!(text(&machine.ftest(&["env", "list"]).output().unwrap().stdout), "");
}

const TORCHRUN: &str = "launch: {torchrun: {script: x.py, nproc_per_node: 1}}";

#[test]
fn a_python_program_gets_the_python_on_path_and_no_environment_is_made() {
    let machine = Machine::new();
    let here = machine.root.path().join("bin/python3");
    for case in [
        "{id: a, launch: {argv: [python3, x.py]}}",
        "{id: a, python: system, launch: {argv: [sh, -c, 'python3 x.py']}}",
        "{id: a, launch: {argv: [sh, -c, 'python3 x.py']}}",
    ] {
        let (code, printed) = run(&machine, case, &[]);
        assert_eq!((code, machine.installed().len()), (Some(0), 0), "{case}: {printed}");
    }
    let (code, printed) = run(&machine, &format!("{{id: a, python: system, {TORCHRUN}}}"), &[]);
    assert_eq!((code, machine.installed()), (Some(0), vec![format!("torchrun of {}", here.display())]), "{printed}");
}

#[test]
fn one_variable_turns_managed_environments_off() {
    let machine = Machine::new();
    for python in ["system", "python3"] {
        for case in [&*format!("{{id: a, {TORCHRUN}}}"), "{id: a, python: [numpy], launch: {argv: ['true']}}"] {
            let (code, printed) = run(&machine, case, &[("FTEST_PYTHON", python)]);
            assert_eq!(code, Some(0), "{python}, {case}: {printed}");
        }
    }
    assert!(!machine.installed().iter().any(|line| line == "venv"), "{:?}", machine.installed());
    for (python, expected) in
        [("/bin/false", "/bin/false does not work as a Python interpreter (FTEST_PYTHON"), ("/no", "FTEST_PYTHON=/no")]
    {
        let (code, printed) =
            run(&machine, "{id: a, python: [numpy], launch: {argv: ['true']}}", &[("FTEST_PYTHON", python)]);
        assert!(code == Some(3) && printed.contains(expected), "{printed}");
    }
}

/// An interpreter of an environment of the user, at `venv/bin/python`.
fn active(machine: &Machine) -> String {
    let venv = machine.root.path().join("venv");
    std::fs::create_dir_all(venv.join("bin")).unwrap();
    executable::write(&venv.join("bin/python"), STAND_IN);
    venv.display().to_string()
}

#[test]
fn an_active_environment_that_lacks_what_a_case_declares_breaks_it() {
    let machine = Machine::new();
    let venv = active(&machine);
    let root = machine.root.path();
    std::fs::write(root.join("requirements.txt"), "six>=1; python_version > '3'\n--pre\n-c limits.txt\n").unwrap();
    std::fs::write(root.join("limits.txt"), "numpy<2\n").unwrap();
    std::fs::write(root.join("pylock.toml"), "[[packages]]\nname = 'numpy'\nversion = '2.0'\n").unwrap();
    std::fs::write(root.join("pyproject.toml"), "[project]\nname = 'mine'\ndependencies = ['rich']\n").unwrap();
    let plain = "launch: {argv: ['true']}";
    let cluster = "cluster: {nodes: 1, gpus_per_node: 1, profile: h100}";
    let mut selections = [
        ("VIRTUAL_ENV", venv.clone(), "`deactivate` or set FTEST_PYTHON=managed"),
        ("CONDA_PREFIX", venv.clone(), "`conda deactivate` or set FTEST_PYTHON=managed"),
        ("FTEST_PYTHON", format!("{venv}/bin/python"), "unset FTEST_PYTHON or set FTEST_PYTHON=managed"),
    ]
    .into_iter()
    .cycle();
    for (python, launch, lacks) in [
        ("python: {torch: 2.15.0}", plain, "torch 2.9.1 instead of torch==2.15.0"),
        ("python: [torch==2.15.0, numpy]", TORCHRUN, "torch 2.9.1 instead of torch==2.15.0"),
        ("python: [six]", plain, "no six"),
        ("python: {requirements: requirements.txt}", plain, "numpy 2.4.1 instead of numpy<2, no six"),
        ("python: {requirements: pylock.toml}", plain, "numpy 2.4.1 instead of numpy==2.0"),
        ("python: {project: .}", plain, "no rich"),
        ("python: {torch: 2.9.1, compile: true}", plain, "no triton"),
        ("python: {compile: true}", plain, "no triton"),
        ("requires: [{torch: 2.15.0}]", plain, "torch 2.9.1 instead of torch==2.15.0"),
        (
            "python: [torch==2.15.0]",
            "launch: {argv: ['true'], ranks: 1}, CLUSTER",
            "torch 2.9.1 instead of torch==2.15.0",
        ),
    ] {
        let case = format!("{{id: a, {python}, {}}}", launch.replace("CLUSTER", cluster));
        let (variable, value, otherwise) = selections.next().unwrap();
        let (code, printed) = run(&machine, &case, &[(variable, &value), ("HAS", "torch=2.9.1 numpy=2.4.1")]);
        assert!(code == Some(3) && printed.contains("1 broken"), "{case} {variable}: {printed}");
        let got = format!("got:      {venv}/bin/python ({variable}) has {lacks}\n");
        assert!(printed.contains(&got) && printed.contains(otherwise), "{case} {variable}: {printed}");
    }
    assert!(machine.installed().is_empty(), "{:?}", machine.installed());
}

#[test]
fn a_launch_that_needs_pytorch_says_that_the_environment_has_none() {
    let machine = Machine::new();
    let venv = active(&machine);
    for case in [format!("{{id: a, {TORCHRUN}}}"), format!("{{id: a, python: system, {TORCHRUN}}}")] {
        let (code, printed) = run(&machine, &case, &[("VIRTUAL_ENV", &venv), ("HAS", "pip=24.0")]);
        assert!(code == Some(3) && printed.contains(" (VIRTUAL_ENV) has no torch\n"), "{printed}");
        // Which version is not declared.
        let (code, printed) = run(&machine, &case, &[("VIRTUAL_ENV", &venv), ("HAS", "torch=2.3.0")]);
        assert_eq!(code, Some(0), "{printed}");
    }
}

#[test]
fn what_ran_is_in_every_report() {
    let machine = Machine::new();
    let venv = active(&machine);
    let suite = machine.root.path().join("s.yaml");
    let text_of = "ftest: 1\nsuite: s\ncases:\n\
        - {id: declared, python: [torch==2.15.0], launch: {argv: ['true']}}\n\
        - {id: hashed, python: {requirements: lock.txt}, launch: {argv: ['true']}}\n\
        - {id: path, env: {PYTHONPATH: /x}, launch: {argv: [python3, x.py]}}\n\
        - {id: native, launch: {argv: ['true']}}\n";
    std::fs::write(&suite, text_of).unwrap();
    std::fs::write(machine.root.path().join("lock.txt"), "numpy==2.4.1 --hash=sha256:aa\n").unwrap();
    let ftest = |arguments: &[&str]| {
        let mut command = machine.ftest(arguments);
        command.current_dir(machine.root.path()).env("VIRTUAL_ENV", &venv).env("HAS", "torch=2.15.0+cpu numpy=2.4.1");
        let output = command.output().unwrap();
        assert_eq!(code(&output), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    };
    let reports = ["--junit", "j.xml", "--html", "h.html"];
    let line = format!("python: Python 3.99.1, torch 2.15.0+cpu, numpy 2.4.1: {venv}/bin/python (VIRTUAL_ENV)");
    let check = |printed: &str| {
        assert_eq!(printed.matches(&line).count(), 3, "{printed}");
        assert_eq!(printed.matches("; hashes were not compared\n").count(), 1, "{printed}");
        let read = |name: &str| std::fs::read_to_string(machine.root.path().join(name)).unwrap();
        let (junit, page) = (read("j.xml"), read("h.html"));
        for (name, value, count) in [
            ("python", format!("{venv}/bin/python"), 3),
            ("python.selected", "VIRTUAL_ENV".to_owned(), 3),
            ("python.version", "3.99.1".to_owned(), 3),
            ("python.packages", "torch 2.15.0+cpu, numpy 2.4.1".to_owned(), 3),
            ("python.hashes", "not compared".to_owned(), 1),
        ] {
            let property = format!("<property name=\"{name}\" value=\"{value}\"/>");
            assert_eq!(junit.matches(&property).count(), count, "{name}: {junit}");
        }
        assert_eq!(page.matches("Python 3.99.1, torch 2.15.0+cpu").count(), 3, "{page}");
    };
    check(&ftest(&[&["run", "s.yaml", "-v"][..], &reports].concat()));
    check(&ftest(&[&["replay", "-v"][..], &reports].concat()));
    let run = std::fs::read_dir(machine.root.path().join(".ftest/runs")).unwrap();
    let run = run.flatten().find(|entry| entry.path().join("events.jsonl").exists()).unwrap().path();
    let log = std::fs::read_to_string(run.join("events.jsonl")).unwrap();
    assert_eq!(log.matches(r#""python":{"program":""#).count(), 3, "{log}");
    check(&ftest(&[&["merge", "-v", run.to_str().unwrap()][..], &reports].concat()));
    assert!(!ftest(&["run", "s.yaml"]).contains("python:"));
    // Once for each interpreter and PYTHONPATH of a run.
    let asked = std::fs::read_to_string(machine.root.path().join("log.asked")).unwrap();
    assert_eq!(asked.lines().count(), 2 * 2);
}

#[test]
fn managed_means_managed_whatever_is_active() {
    let machine = Machine::new();
    let venv = active(&machine);
    let variables = [("VIRTUAL_ENV", venv.as_str()), ("FTEST_PYTHON", "managed"), ("HAS", "numpy=1.0")];
    let (code_of, printed) = run(&machine, "{id: a, python: [numpy], launch: {argv: ['true']}}", &variables);
    assert_eq!(
        (code_of, machine.installed()),
        (Some(0), vec!["install numpy".to_owned(), "venv".to_owned()]),
        "{printed}"
    );
    let made =
        machine.ftest(&["env", "make", "s.yaml"]).current_dir(machine.root.path()).env("VIRTUAL_ENV", &venv).output();
    let said = text(&made.unwrap().stderr);
    assert!(said.contains("(VIRTUAL_ENV); `deactivate` or set FTEST_PYTHON=managed"), "{said}");
}

#[test]
fn a_fixture_gets_what_it_declares_or_is_refused() {
    let machine = Machine::new();
    let venv = active(&machine);
    let suite = machine.root.path().join("s.yaml");
    let text_of = "ftest: 1\nsuite: s\nfixtures:\n  made: {scope: suite, python: [six], setup: {argv: ['true']}}\n\
        \u{20} fails: {scope: suite, setup: {shell: 'seq 20; exit 1'}}\n\
        cases:\n- {id: a, uses: [made], launch: {argv: ['true']}}\n\
        - {id: b, uses: [fails], launch: {argv: ['true']}}\n- {id: c, uses: [fails], launch: {argv: ['true']}}\n";
    std::fs::write(&suite, text_of).unwrap();
    let mut command = machine.ftest(&["run", "s.yaml", "-j1", "--no-fail-fast"]);
    command.current_dir(machine.root.path()).env("VIRTUAL_ENV", &venv);
    let output = command.output().unwrap();
    let printed = text(&output.stdout);
    for part in [
        "expected: the setup of `made` runs in a Python with six\n",
        "(VIRTUAL_ENV) has no six\n",
        "s/b says this in full\n",
        "3 broken",
    ] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    assert_eq!(printed.matches("| 20\n").count(), 1, "{printed}");
}

#[test]
fn what_an_environment_costs_is_said_before_it_is_made_and_how_to_do_without() {
    let machine = Machine::new();
    let (_, printed) = run(&machine, &format!("{{id: a, {TORCHRUN}}}"), &[("NO_NETWORK", "1")]);
    let notice = "making a Python environment for numpy torch==2.15.0 (PyTorch: 0.5 to 0.9 GB to download, 1.4 to 2 GB on disk, once) in ";
    let at = printed.find(notice).unwrap_or_else(|| panic!("{printed}"));
    assert!(
        printed[at..].contains("; to use another Python instead: FTEST_PYTHON=system, or the path of one\n"),
        "{printed}"
    );
    assert!(printed.find("installing").is_some_and(|installing| installing > at), "{printed}");
    // A command that may start Python says why.
    let mut fgpu = Command::new(env!("CARGO_BIN_EXE_fgpu"));
    fgpu.args(["sh", "-c", "true"]).env_clear().env("HOME", machine.root.path()).env("LOG", machine.log());
    fgpu.env("PATH", format!("{}:/usr/bin:/bin", machine.root.path().join("bin").display())).env("NO_NETWORK", "1");
    let output = fgpu.output().unwrap();
    let printed = text(&output.stderr);
    assert!(printed.contains(&format!("sh is, or may start, Python, which has PyTorch here: {notice}")), "{printed}");
}

#[test]
fn a_program_without_pytorch_gets_a_hint_on_how_to_install_it() {
    let machine = Machine::new();
    let fails = "sh, -c, 'echo \"ModuleNotFoundError: No module named ''torch''\" >&2; exit 1'";
    let (code, printed) = run(&machine, &format!("{{id: a, launch: {{argv: [{fails}]}}}}"), &[]);
    let hint = "note: launcher 0 found no PyTorch: the case names no `python`, so it ran with the one on PATH; `python: {torch: \"2.15.0\"}`";
    assert!(code == Some(1) && printed.contains(hint), "{printed}");
    let (_, printed) = run(&machine, &format!("{{id: a, python: system, launch: {{argv: [{fails}]}}}}"), &[]);
    assert!(!printed.contains("found no PyTorch"), "{printed}");
}
