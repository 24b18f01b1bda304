//! Warm starts against cold ones: a program that prints all that it can see prints the same, processes die in any order and
//! nothing is left. PyTorch is a stand-in here that imports in no time; `suites/` has the real one.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use regex::Regex;
use runner::execute::process_tree::cookie::{Cookie, random_word};
use runner::execute::process_tree::sweep::{Process, Sweep};
use runner::observation::{Exit, Role, Starts};
use runner::record::{event::Event, log};
use rustix::process::{Pid, Signal};

use crate::program;

/// Longer than anything here may take on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// What stands in for PyTorch, by file.
const TORCH: [(&str, &str); 8] = [
    (
        "__init__.py",
        "import ctypes, logging, multiprocessing, os, subprocess\n\
         class Generator:\n    def seed(self): pass\n\
         default_generator = Generator()\n\
         __version__ = '0'\n\
         handler = logging.StreamHandler()\n\
         early = os.environ.get('READ_AT_IMPORT')\n",
    ),
    ("distributed/__init__.py", ""),
    ("distributed/run.py", include_str!("launcher.py")),
    ("nn/parallel.py", ""),
    ("optim.py", ""),
    ("_inductor/__init__.py", ""),
    (
        "_inductor/codecache.py",
        "import os, tempfile\n\
         def default_cache_dir(): return os.path.join(tempfile.gettempdir(), 'torchinductor_me')\n\
         _HEADER_DIR = os.path.join(default_cache_dir(), 'precompiled_headers')\n\
         _HEADER_LOCK_DIR = os.path.join(_HEADER_DIR, 'locks')\n",
    ),
    // As torch/_inductor/runtime/cache_dir_utils.py does it.
    (
        "_dynamo.py",
        "import os, tempfile\n\
         os.environ['TORCHINDUCTOR_CACHE_DIR'] = os.path.join(tempfile.gettempdir(), 'torchinductor_root')\n\
         os.makedirs(os.environ['TORCHINDUCTOR_CACHE_DIR'])\n",
    ),
];
/// However they end.
const ANY: &str = "expect: {exit: {all: any}}";
/// How programs end, and how ftest sees it.
const ENDS: [(&str, Exit); 7] = [
    ("well", Exit::Code(0)),
    ("raise", Exit::Code(1)),
    ("exit", Exit::Code(3)),
    ("text", Exit::Code(1)),
    ("interrupt", Exit::Signal(2)),
    ("abort", Exit::Signal(6)),
    ("kill", Exit::Signal(9)),
];

/// Sets on which nothing depends but what they hold.
const SETS: &str = "\
names = {str(number) for number in range(3)} | set('abc')
names.add('d')
assert 'd' in names and len(names - {'x'}) == 7 and {1, 2} != {1} and not set() and sorted(names.union('y'))[0] == '0'
for number in {3, 4}:
    assert hash(1) == 1 and all(len(name) == 1 for name in sorted(set('ab')))
if frozenset('a'):
    names |= {'z'}
";

struct Machine {
    root: tempfile::TempDir,
    mark: String,
}

/// What came of one case.
#[derive(Clone, Debug, PartialEq)]
struct Came {
    case: String,
    processes: Vec<(Role, Exit, String, String)>,
    starts: Option<Starts>,
}

impl Machine {
    fn new() -> Machine {
        let root = tempfile::tempdir_in("/tmp").unwrap();
        let machine = Machine { root, mark: random_word() };
        for directory in ["home/bin", "home/lib", "tmp"] {
            fs::create_dir_all(machine.path(directory)).unwrap();
        }
        let shim = "#include <stdlib.h>\nint ftest_is_used(void) { return 0; }\nvoid ftest_forked(void) {}\nvoid ftest_leave(int code) { _Exit(code); }";
        fs::write(machine.path("shim.c"), shim).unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-o"]).arg(machine.path("home/lib/libfakegpu.so")).arg(machine.path("shim.c"));
        assert!(cc.status().expect("there is a C compiler").success());
        let made = Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(machine.path("venv")).status();
        assert!(made.expect("there is a python3").success());
        let version = fs::read_dir(machine.path("venv/lib")).unwrap().next().unwrap().unwrap();
        let torch = version.path().join("site-packages/torch");
        fs::create_dir_all(torch.join("lib")).unwrap();
        for (file, text) in TORCH {
            fs::create_dir_all(torch.join(file).parent().unwrap()).unwrap();
            fs::write(torch.join(file), text).unwrap();
        }
        fs::write(machine.path("probe.py"), include_str!("probe.py")).unwrap();
        fs::write(machine.path("family.py"), include_str!("family.py")).unwrap();
        // As pip installs the commands of packages.
        let tool = machine.path("venv/bin/tool");
        let text = format!("#!{}\n{}", machine.path("venv/bin/python").display(), include_str!("probe.py"));
        fs::write(&tool, text).unwrap();
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
        machine
    }

    fn path(&self, place: &str) -> PathBuf {
        self.root.path().join(place)
    }

    fn ftest(&self, cases: &str, warm: &str) -> Command {
        let text = format!(
            "ftest: 1\nsuite: s\nclusters: {{c: {{nodes: 1, gpus_per_node: 4, profile: a100}}}}\n\
             defaults: {{cluster: c, coordinator: false, timeout: {{slow: 50s, kill: 100s, grace: 500ms}}}}\ncases:\n{cases}"
        );
        fs::write(self.path("suite.yaml"), text).unwrap();
        let mut command = program::ftest();
        command.arg("run").arg("suite.yaml").args(["--jobs", "2", "--keep"]).current_dir(self.root.path());
        command.env("FTEST_HOME", self.path("home")).env("FTEST_PYTHON", self.path("venv/bin/python"));
        command.env("FTEST_WARM", warm).env("TMPDIR", self.path("tmp")).env("FTEST_CASE_COOKIE", &self.mark);
        command.env("FTEST_CACHE_DIR", self.path("cache")).env("FTEST_RUNS_DIR", self.path("runs"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        command
    }

    /// Runs the cases and gives what came of each, by case.
    fn run(&self, cases: &str, warm: &str) -> Vec<Came> {
        let _ = fs::remove_dir_all(self.path("runs"));
        let output = self.ftest(cases, warm).output().unwrap();
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        let runs = fs::read_dir(self.path("runs")).unwrap_or_else(|error| panic!("{error}: {said}"));
        let run = runs.map(|run| run.unwrap().path()).find(|run| run.join(log::LOG).exists()).expect("a run is kept");
        let events = log::events(&run.join(log::LOG)).unwrap();
        let mut came: Vec<Came> = events.filter_map(|event| came_of(&run, event.unwrap())).collect();
        came.sort_by(|a, b| a.case.cmp(&b.case));
        assert!(!came.is_empty(), "{said}");
        came
    }

    /// Every process of this machine's runs.
    fn everything(&self) -> Sweep {
        Sweep::new(Cookie::from_text(self.mark.as_str()))
    }

    fn assert_clean(&self) {
        assert_eq!(self.everything().find(), Vec::new());
        assert_eq!(fs::read_dir(self.path("tmp")).unwrap().count(), 0);
    }
}

fn came_of(run: &Path, event: Event) -> Option<Came> {
    let Event::AttemptFinished { case, attempt } = event else { return None };
    let processes = attempt.processes.into_iter().map(|process| {
        let [stdout, stderr] = [process.stdout, process.stderr].map(|stream| {
            // The log has the beginning of it; a file has all, where there is anything.
            let file = stream.file.filter(|_| stream.truncated);
            assert!(file.is_some() || !stream.truncated, "the whole of it is compared");
            same(&file.map_or(stream.head, |file| fs::read_to_string(run.join(file)).unwrap()))
        });
        (process.role, process.exit, stdout, stderr)
    });
    Some(Came { case, processes: processes.collect(), starts: attempt.starts.map(|starts| *starts) })
}

/// Without what differs between any two runs: cookies, scratch directories, ports, addresses of threads.
fn same(text: &str) -> String {
    let mut text = text.to_owned();
    for (pattern, with) in [
        ("[0-9a-f]{32}/[0-9a-f]{32}/[0-9]+", "COOKIE"),
        ("ft-[0-9a-f]{8}/[0-9]+", "SCRATCH"),
        ("MASTER_PORT(=|', ')[0-9]+", "MASTER_PORT"),
        ("thread 0x[0-9a-f]+", "thread X"),
        ("FTEST_WARM(=|', ')[01]", "FTEST_WARM"),
        // Of multiprocessing's sockets and arguments.
        ("(pymp|listener)-[0-9a-z_]+", "NAME"),
    ] {
        text = Regex::new(pattern).unwrap().replace_all(&text, with).into_owned();
    }
    text
}

/// So many processes were forked, and none was started cold.
fn all_warm(warm: u32) -> Option<Starts> {
    Some(Starts { warm, ..Starts::default() })
}

/// A case of each kind for each end.
fn probes() -> String {
    let mut cases = format!("- {{id: python3-well, launch: {{argv: [python3, probe.py, well], ranks: 2}}, {ANY}}}\n");
    for (end, _) in &ENDS {
        cases += &format!(
            "- {{id: ranks-{end}, env: {{MINE: 'a = b', EMPTY: ''}}, launch: {{argv: [python, ./probe.py, 'b c', '', {end}], ranks: 2}}, {ANY}}}\n\
             - {{id: module-{end}, launch: {{argv: [python, -m, probe, b, {end}], ranks: 2}}, {ANY}}}\n\
             - {{id: tool-{end}, launch: {{argv: [tool, b, {end}], ranks: 2}}, python: system, {ANY}}}\n\
             - {{id: torchrun-{end}, launch: {{torchrun: {{nproc_per_node: 2, script: probe.py, args: [{end}]}}}}, {ANY}}}\n"
        );
    }
    cases
}

#[test]
fn a_warm_process_sees_and_does_what_a_cold_one_does() {
    let machine = Machine::new();
    let cold = machine.run(&probes(), "0");
    let warm = machine.run(&probes(), "1");
    machine.assert_clean();
    assert_eq!(cold.len(), 4 * ENDS.len() + 1);
    for (cold, warm) in cold.iter().zip(&warm) {
        assert_eq!(cold.starts, None);
        assert_eq!(warm.starts, all_warm(if cold.case.contains("torchrun") { 3 } else { 2 }), "{}", warm.case);
        assert_eq!(cold.processes.len(), warm.processes.len(), "{}", warm.case);
        for (one, other) in cold.processes.iter().zip(&warm.processes) {
            let (role, exit, out, err) = one;
            assert_eq!((role, exit), (&other.0, &other.1), "{}", warm.case);
            let differ = out.lines().zip(other.2.lines()).find(|(one, other)| one != other);
            assert_eq!(differ, None, "{} {role}", warm.case);
            assert_eq!((out.lines().count(), err), (other.2.lines().count(), &other.3), "{} {role}", warm.case);
            let end = cold.case.rsplit('-').next().unwrap();
            if matches!(role, Role::Rank(_)) {
                let (_, expected) = ENDS.iter().find(|(name, _)| *name == end).unwrap();
                assert_eq!((exit, out.contains("stack ['")), (expected, true), "{} {role}: {err}", warm.case);
            }
        }
    }
}

#[test]
fn what_a_program_starts_itself_is_warm_too() {
    let machine = Machine::new();
    let cases = format!("- {{id: rank, launch: {{argv: [python, family.py], ranks: 1}}, {ANY}}}\n");
    let (cold, warm) = (machine.run(&cases, "0").remove(0), machine.run(&cases, "1").remove(0));
    machine.assert_clean();
    for (one, other) in cold.processes.iter().zip(&warm.processes) {
        let differ = one.2.lines().zip(other.2.lines()).find(|(one, other)| one != other);
        assert_eq!(differ, None);
        assert_eq!(one, other);
    }
    let (role, exit, out, _) = &cold.processes[0];
    assert_eq!((role, exit), (&Role::Rank(0), &Exit::Code(0)));
    assert!(out.contains("spawn kill -9") && out.ends_with("the end\n"), "{out}");
    let starts = warm.starts.unwrap();
    // Itself, four that multiprocessing spawns and its server of forks, and six of its eight commands. With `preexec_fn` a process runs
    // what nobody else can; `python -c` is not noted.
    assert_eq!((starts.warm, starts.cold.len()), (12, 1), "{starts:?}");
    assert!(starts.cold[0].contains("options that a fork does not follow"), "{starts:?}");
}

#[test]
fn a_suite_names_what_else_is_imported() {
    let machine = Machine::new();
    let site = fs::read_dir(machine.path("venv/lib")).unwrap().next().unwrap().unwrap().path().join("site-packages");
    fs::write(site.join("large.py"), "").unwrap();
    fs::write(site.join("loud.py"), "print('hello')\n").unwrap();
    fs::write(machine.path("names.py"), "import sys\nprint('large' in sys.modules, 'loud' in sys.modules)\n").unwrap();
    let cases = "- {id: names, launch: {argv: [python, names.py], ranks: 1, warm: [large, loud, missing]}}\n\
                 - {id: other, launch: {argv: [python, names.py], ranks: 1}}\n";
    let came = machine.run(cases, "1");
    machine.assert_clean();
    assert_eq!([&came[0].processes[0].2, &came[1].processes[0].2], ["True False\n", "False False\n"]);
    assert_eq!(came[1].starts, all_warm(1));
    let starts = came[0].starts.clone().unwrap();
    assert_eq!((starts.warm, starts.cold.len(), starts.without.len()), (1, 0, 2), "{starts:?}");
    assert!(starts.without[0].starts_with("loud: importing it prints"), "{starts:?}");
    assert!(starts.without[1].starts_with("missing: ModuleNotFoundError"), "{starts:?}");
}

#[test]
fn what_would_differ_starts_cold_and_says_why() {
    let machine = Machine::new();
    fs::write(machine.path("uses.py"), "import sys, helper\n").unwrap();
    fs::write(machine.path("helper.py"), "import os\nos.environ['OMP_NUM_THREADS'] = '2'\n").unwrap();
    fs::write(machine.path("order.py"), "names = set(['a', 'b'])\nprint(len(names))\nlast = [n for n in names][:0]\n")
        .unwrap();
    fs::write(machine.path("hashes.py"), "even = hash('a') % 2 * 0\n").unwrap();
    fs::write(machine.path("sets_are_fine.py"), SETS).unwrap();
    fs::write(machine.path("sets.py"), "import os\nos.environ['OMP_NUM_THREADS'] = '2'\n").unwrap();
    let reads = "import os\nassert not os.environ.get('OMP_NUM_THREADS') and not os.getenv('OMP_NUM_THREADS')\n\
                 if 'OMP_NUM_THREADS' in os.environ:\n    print(os.environ['OMP_NUM_THREADS'])\n";
    fs::write(machine.path("reads.py"), reads).unwrap();
    fs::write(machine.path("broken.py"), "import os\ndef (\n").unwrap();
    fs::create_dir(machine.path("beside")).unwrap();
    fs::write(machine.path("beside/train.py"), "import logging\nprint(logging.__file__)\n").unwrap();
    fs::write(machine.path("beside/logging.py"), "").unwrap();
    let table = [
        (
            "hash-seed",
            "env: {PYTHONHASHSEED: '0'}, launch: {argv: [python, probe.py], ranks: 1}",
            "PYTHONHASHSEED differs",
        ),
        ("preload", "env: {LD_PRELOAD: libm.so.6}, launch: {argv: [python, probe.py], ranks: 1}", "LD_PRELOAD differs"),
        (
            "imported",
            "env: {READ_AT_IMPORT: x}, launch: {argv: [python, probe.py], ranks: 1}",
            "READ_AT_IMPORT differs",
        ),
        ("option", "launch: {argv: [python, -X, dev, probe.py], ranks: 1}", "not `python -X`"),
        ("sets", "launch: {argv: [python, sets.py], ranks: 1}", "the script may set OMP_NUM_THREADS"),
        ("broken", "launch: {argv: [python, broken.py], ranks: 1}", "not a script that can be read"),
        ("beside", "launch: {argv: [python, beside/train.py], ranks: 1}", "beside/logging.py comes before the module"),
        ("missing", "launch: {argv: [python, none.py], ranks: 1}", "none.py is not a file"),
        ("helper", "launch: {argv: [python, uses.py], ranks: 1}", "helper.py may set OMP_NUM_THREADS"),
        (
            "order",
            "launch: {argv: [python, order.py], ranks: 1}",
            "the script, line 1, may depend on the order of a set",
        ),
        ("hashes", "launch: {argv: [python, hashes.py], ranks: 1}", "the script, line 1, may depend on the order"),
        ("no-module", "launch: {argv: [python, -m, none], ranks: 1}", "there is no module none"),
        ("worker", "launch: {torchrun: {nproc_per_node: 1, script: sets.py}}", "the script may set OMP_NUM_THREADS"),
    ];
    let mut cases: String = table.iter().map(|(id, case, _)| format!("- {{id: {id}, {case}, {ANY}}}\n")).collect();
    let fine = ["sets_are_fine", "reads"];
    cases += &fine.map(|id| format!("- {{id: {id}, launch: {{argv: [python, {id}.py], ranks: 1}}}}\n")).concat();
    let (cold, warm) = (machine.run(&cases, "0"), machine.run(&cases, "1"));
    machine.assert_clean();
    for id in fine {
        assert_eq!(warm.iter().find(|came| came.case == format!("s/{id}")).unwrap().starts, all_warm(1), "{id}");
    }
    for (id, _, why) in table {
        let of = |came: &[Came]| came.iter().find(|came| came.case == format!("s/{id}")).unwrap().clone();
        let (cold, warm) = (of(&cold), of(&warm));
        assert_eq!(cold.processes, warm.processes, "{id}");
        let starts = warm.starts.unwrap();
        assert_eq!((starts.warm, starts.cold.len()), (u32::from(id == "worker"), 1), "{id}: {starts:?}");
        assert!(starts.cold[0].starts_with("rank 0: ") && starts.cold[0].contains(why), "{id}: {starts:?}");
    }
}

#[test]
fn the_suite_and_the_user_choose() {
    let machine = Machine::new();
    let case = |id: &str, warm: &str| format!("- {{id: {id}, launch: {{argv: [python, probe.py], ranks: 1{warm}}}}}\n");
    let few = [case("1-yes", ", warm: true"), case("2-no", ", warm: false"), case("3-silent", "")].concat();
    let many = few.clone() + &case("4-silent", "");
    let (one, none) = (all_warm(1), None);
    for (cases, word, expected) in [
        (&few, "", vec![one.clone(), none.clone(), none.clone()]),
        (&many, "", vec![one.clone(), none.clone(), one.clone(), one.clone()]),
        (&few, "1", vec![one.clone(), none.clone(), one]),
        (&few, "0", vec![none; 3]),
    ] {
        let starts: Vec<_> = machine.run(cases, word).into_iter().map(|came| came.starts).collect();
        assert_eq!(starts, expected, "FTEST_WARM={word}");
    }
    let output = machine.ftest(&few, "perhaps").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("FTEST_WARM=perhaps"), "{said}");
    assert_eq!(output.status.code(), Some(2), "{said}");
}

#[test]
fn a_torch_that_cannot_be_forked_from_leaves_its_cases_cold() {
    let machine = Machine::new();
    let case = "- {id: one, launch: {argv: [python, probe.py], ranks: 2}}\n";
    let site = fs::read_dir(machine.path("venv/lib")).unwrap().next().unwrap().unwrap().path().join("site-packages");
    let init = site.join("torch/__init__.py");
    let whole = fs::read_to_string(&init).unwrap();
    for (text, why) in [
        (
            "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n",
            "importing torch starts threads",
        ),
        ("print('hello')\n", "importing torch prints something"),
        ("import sys\nsys.stderr.write('hello')\n", "prints something, and the script does not begin with that"),
        ("import os\nos.dup(1)\n", "leaves open"),
        ("import os\nos.environ['SET_BY_IMPORT'] = '1'\n", "sets SET_BY_IMPORT"),
        ("import tempfile\nplace = tempfile.TemporaryDirectory()\n", "leaves files in TMPDIR"),
        ("import os\nbegan_in = os.getcwd()\n", "keeps a directory of this process in torch"),
        ("raise ImportError('it is broken')\n", "ImportError: it is broken"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n", "the warm process ended"),
    ] {
        // In PyTorch itself; in a module that it need not have, that one is left out.
        fs::write(&init, format!("{whole}{text}")).unwrap();
        fs::write(site.join("torch/optim.py"), "").unwrap();
        let came = machine.run(case, "1").remove(0);
        let starts = came.starts.clone().unwrap();
        assert_eq!((starts.warm, starts.cold.len()), (0, 2), "{starts:?}");
        assert!(starts.cold.iter().all(|line| line.contains(why)), "{starts:?}");
        assert!(came.processes.iter().all(|process| process.1 == Exit::Code(0)), "{came:?}");
        fs::write(&init, &whole).unwrap();
        fs::write(site.join("torch/optim.py"), text).unwrap();
        let came = machine.run(case, "1").remove(0);
        assert!(came.processes.iter().all(|process| process.1 == Exit::Code(0)), "{came:?}");
        if !why.contains("ended") {
            assert_eq!(came.starts, all_warm(2), "{why}");
        }
        machine.assert_clean();
    }
}

#[test]
fn what_inductor_remembers_of_tmpdir_is_each_forks_own() {
    let machine = Machine::new();
    let program = "import os\nfrom torch._inductor import codecache as c\n\
                   own = os.environ['TMPDIR'] + '/torchinductor_me/precompiled_headers'\n\
                   assert (c._HEADER_DIR, c._HEADER_LOCK_DIR) == (own, own + '/locks'), c._HEADER_DIR\n";
    fs::write(machine.path("places.py"), program).unwrap();
    let case = "- {id: one, launch: {argv: [python, places.py], ranks: 2, warm: [torch._inductor.codecache]}}\n";
    let came = machine.run(case, "1").remove(0);
    assert!(came.processes.iter().all(|process| process.1 == Exit::Code(0)), "{came:?}");
    assert_eq!(came.starts, all_warm(2));
}

#[test]
fn what_starts_with_every_interpreter_counts() {
    let machine = Machine::new();
    let site = fs::read_dir(machine.path("venv/lib")).unwrap().next().unwrap().unwrap().path().join("site-packages");
    let case = "- {id: one, env: {READ_BY_SITE: x}, launch: {argv: [python, probe.py], ranks: 1}}\n";
    for (text, why) in [
        ("import os\nos.environ['SET_BY_SITE'] = '1'\n", Some("starting this Python sets SET_BY_SITE")),
        ("import os\nearly = os.environ.get('READ_BY_SITE')\n", Some("READ_BY_SITE differs")),
        ("import os\nkept = os.open('/dev/null', os.O_RDONLY)\n", Some("starting this Python leaves open: /dev/null")),
        ("", None),
    ] {
        fs::write(site.join("sitecustomize.py"), text).unwrap();
        let came = machine.run(case, "1").remove(0);
        machine.assert_clean();
        assert_eq!(came.processes[0].1, Exit::Code(0), "{came:?}");
        let starts = came.starts.unwrap();
        assert_eq!(
            (starts.warm, starts.cold.len()),
            (u32::from(why.is_none()), usize::from(why.is_some())),
            "{starts:?}"
        );
        assert!(why.is_none_or(|why| starts.cold[0].contains(why)), "{starts:?}");
    }
}

#[test]
fn who_looks_through_all_variables_has_read_them_all_but_tqdm() {
    let machine = Machine::new();
    let site = fs::read_dir(machine.path("venv/lib")).unwrap().next().unwrap().unwrap().path().join("site-packages");
    let looks = "import os\nfound = [value for name, value in os.environ.items() if name.startswith('TQDM_')]\n";
    fs::create_dir(site.join("tqdm")).unwrap();
    fs::write(site.join("tqdm/utils.py"), looks).unwrap();
    let cases = "- {id: a, launch: {argv: [python, probe.py], ranks: 1}}\n\
                 - {id: b, env: {TQDM_X: '1'}, launch: {argv: [python, probe.py], ranks: 1}}\n";
    for (text, reasons) in [("import tqdm.utils\n", [None, Some("TQDM_X differs")]), (looks, [Some("differs"); 2])] {
        fs::write(site.join("torch/nn/parallel.py"), text).unwrap();
        let came = machine.run(cases, "1");
        machine.assert_clean();
        for (came, reason) in came.iter().zip(reasons) {
            let starts = came.starts.clone().unwrap();
            assert_eq!(
                (starts.warm, starts.cold.len()),
                (u32::from(reason.is_none()), usize::from(reason.is_some())),
                "{starts:?}"
            );
            assert!(reason.is_none_or(|reason| starts.cold[0].contains(reason)), "{starts:?}");
        }
    }
}

#[test]
fn what_importing_torch_says_every_process_says() {
    let machine = Machine::new();
    let site = fs::read_dir(machine.path("venv/lib")).unwrap().next().unwrap().unwrap().path().join("site-packages");
    let init = site.join("torch/__init__.py");
    let whole = fs::read_to_string(&init).unwrap();
    fs::write(&init, format!("{whole}import warnings\nwarnings.warn('there is no NumPy')\n")).unwrap();
    fs::write(machine.path("says.py"), "import sys\nimport torch.distributed\nsys.stderr.write('and more\\n')\n")
        .unwrap();
    let cases = "- {id: ranks, launch: {argv: [python, says.py], ranks: 2}}\n\
                 - {id: workers, launch: {torchrun: {nproc_per_node: 1, script: says.py}}}\n";
    let (cold, warm) = (machine.run(cases, "0"), machine.run(cases, "1"));
    machine.assert_clean();
    for (cold, warm) in cold.iter().zip(&warm) {
        assert_eq!(cold.processes, warm.processes);
        assert_eq!(warm.starts, all_warm(2));
        let rank = &warm.processes[0].3;
        assert!(rank.contains("there is no NumPy") && rank.ends_with("and more\n"), "{rank}");
    }
}

/// `ftest run` with two cases whose processes stay: two ranks, and a launcher with two workers.
struct Started {
    machine: Machine,
    child: Child,
}

impl Started {
    fn new() -> Started {
        let machine = Machine::new();
        let ready = machine.path("ready");
        rustix::fs::mkfifoat(rustix::fs::CWD, &ready, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
        let cases = format!(
            "- {{id: ranks, env: {{READY: {0}}}, launch: {{argv: [python, probe.py, stay], ranks: 2}}}}\n\
             - {{id: workers, env: {{READY: {0}}}, launch: {{torchrun: {{nproc_per_node: 2, script: probe.py, args: [stay]}}}}}}\n",
            ready.display()
        );
        let mut command = machine.ftest(&cases, "1");
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        // Opening a pipe waits for its writer: in a thread, so that this test does not. Open for writing too: it never ends.
        std::thread::spawn(move || {
            let file = File::options().read(true).write(true).open(ready).unwrap();
            BufReader::new(file).lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
        });
        for _ in 0..4 {
            lines.recv_timeout(PATIENCE).expect("four ranks start");
        }
        Started { machine, child }
    }

    /// The processes of the run whose command line has this word.
    fn with(&self, word: &str) -> Vec<Process> {
        let has = |process: &Process| {
            let line = fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
            String::from_utf8_lossy(&line).split('\0').any(|part| part == word)
        };
        self.machine.everything().find().into_iter().filter(has).collect()
    }

    /// Waits until what `before` has is gone; then nothing of the run is left.
    fn assert_nothing_is_left(&self, before: Vec<Process>) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            let deadline = runner::execute::run::clock::Instant::now() + PATIENCE;
            let left = self.machine.everything().wait(before, deadline).await;
            assert!(left.is_empty(), "still there: {left:?}");
        });
        self.machine.assert_clean();
    }
}

#[test]
fn the_warm_process_goes_with_its_run_whoever_dies_first() {
    // ftest; the warm process, then ftest; the user's wish.
    for order in [&["ftest"][..], &["warm", "ftest"], &["interrupt"]] {
        let mut started = Started::new();
        let before = started.machine.everything().find();
        let ours = |process: &Process| process.parent == started.child.id() as i32;
        let (warm, theirs): (Vec<Process>, Vec<Process>) = started.with("ftest_warm").into_iter().partition(ours);
        // Two ranks, a launcher and two workers, and what each of them would ask.
        assert_eq!((warm.len(), theirs.len(), started.with("probe.py").len()), (1, 5, 5), "{before:?}");
        for who in order {
            match *who {
                "ftest" => started.child.kill().unwrap(),
                "warm" => assert!(warm[0].signal(Signal::KILL)),
                _ => rustix::process::kill_process(Pid::from_child(&started.child), Signal::INT).unwrap(),
            }
        }
        let status = started.child.wait().unwrap();
        assert_eq!(status.code(), (order == ["interrupt"]).then_some(130));
        started.assert_nothing_is_left(before);
    }
}

#[test]
fn a_run_goes_on_cold_when_its_warm_process_is_killed() {
    let machine = Machine::new();
    // The first case's first rank kills it: the parent of none, but found by its command line.
    let killer = "import os, signal\n\
        for name in filter(str.isdigit, os.listdir('/proc')):\n    \
            try:\n        \
                words = open(f'/proc/{name}/cmdline').read().split('\\0')\n        \
                mark = open(f'/proc/{name}/environ').read()\n    \
            except OSError:\n        continue\n    \
            if 'ftest_warm' in words and os.environ['MARK'] in mark:\n        \
                os.kill(int(name), signal.SIGKILL)\n";
    fs::write(machine.path("killer.py"), killer).unwrap();
    let mark = &machine.mark;
    let cases = format!(
        "- {{id: a, env: {{MARK: {mark}}}, launch: {{argv: [python, killer.py], ranks: 1}}}}\n\
         - {{id: b, resources: {{cpus: 99}}, launch: {{argv: [python, probe.py], ranks: 1}}}}\n"
    );
    let came = machine.run(&cases, "1");
    machine.assert_clean();
    assert_eq!(came[0].starts, all_warm(1));
    let starts = came[1].starts.clone().unwrap();
    assert!(starts.warm == 0 && starts.cold[0].contains("the warm process"), "{starts:?}");
    assert_eq!(came[1].processes[0].1, Exit::Code(0));
}

#[test]
fn without_pytorch_nothing_is_warm_and_who_asks_hears_why() {
    let machine = Machine::new();
    let version = fs::read_dir(machine.path("venv/lib")).unwrap().next().unwrap().unwrap();
    fs::remove_dir_all(version.path().join("site-packages/torch")).unwrap();
    let case = |id: &str, warm: &str| format!("- {{id: {id}, launch: {{argv: [python, probe.py], ranks: 1{warm}}}}}\n");
    let came = machine.run(&[case("1-silent", ""), case("2-asks", ", warm: true")].concat(), "1");
    assert_eq!((came[0].starts.clone(), came[0].processes[0].1.clone()), (None, Exit::Code(0)));
    let starts = came[1].starts.clone().unwrap();
    assert!(starts.warm == 0 && starts.cold[0].contains("in an environment that has PyTorch"), "{starts:?}");
}
