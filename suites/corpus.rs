//! The corpus of programs with one bug each: that there are enough of them, that each names the thread it comes from, and has a case that finds
//! the bug and a twin that is silent. What the cases find is up to the suites.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use protocol::finding::KINDS;
use protocol::sanitizer::Sanitizers;
use runner::case::srun::Program;
use runner::case::{Case, Launch};
use runner::suite;

/// The programs, each with what starts it.
const PROGRAMS: &[(&str, &str)] = &[
    ("fixtures/findings/backward.py", "backward.py"),
    ("fixtures/findings/buffers.py", "buffers.py"),
    ("fixtures/findings/bugs.py", "bugs.py"),
    ("fixtures/findings/compiled.py", "compiled.py"),
    ("fixtures/findings/files.py", "files.py"),
    ("fixtures/findings/gradients.py", "gradients.py"),
    ("fixtures/findings/graphs.py", "graphs.py"),
    ("fixtures/findings/host.py", "host.py"),
    ("fixtures/findings/kernels.py", "kernels.py"),
    ("fixtures/findings/not_finite.py", "not_finite.py"),
    ("fixtures/findings/order.py", "order.py"),
    ("fixtures/findings/races.py", "races.py"),
    ("fixtures/findings/replayed.py", "replayed.py"),
    ("fixtures/findings/replicas.py", "replicas.py"),
    ("fixtures/findings/splits.py", "splits.py"),
    ("fixtures/findings/sums.py", "sums.py"),
    ("fixtures/findings/threads.py", "threads.py"),
    ("fixtures/findings/transfers.py", "transfers.py"),
    ("fixtures/findings/triton_bugs.py", "triton_bugs.py"),
    ("fixtures/findings/uninitialized.py", "uninitialized.py"),
    ("fixtures/src/bin/bugs/buffers.rs", "fixture-bugs"),
    ("fixtures/src/bin/bugs/kernels.rs", "fixture-bugs"),
    ("fixtures/src/bin/bugs/memory.rs", "fixture-bugs"),
    ("fixtures/src/bin/bugs/order.rs", "fixture-bugs"),
    ("fixtures/src/bin/bugs/races.rs", "fixture-bugs"),
    ("fixtures/src/bin/bugs/ranks.rs", "fixture-bugs"),
    ("fixtures/src/bin/mismatch.rs", "fixture-mismatch"),
    ("fixtures/src/bin/misuse/main.rs", "fixture-misuse"),
];

/// What is beside the programs without a list of bugs: it looks at how findings come about, or its mistakes are its own.
const NOT_LISTED: &[&str] = &["captured.py", "ends.py", "hooks.py", "late.py", "pattern.py"];

/// The suites of the corpus. Others run some of its programs, too.
const SUITES: &[&str] = &["calls", "corpus", "findings", "misuse", "parity"];

/// The bugs that a program has all at once, in one process: a case of it finds each.
const TOGETHER: &[&str] = &["backward.py", "compiled.py", "host.py", "order.py", "races.py", "splits.py"];

/// What finds the bugs of a program, where that is a sanitizer.
const SANITIZERS: &[(&str, &str)] = &[
    ("kernels.py", "sync"),
    ("not_finite.py", "finite"),
    ("replicas.py", "replicas"),
    ("sums.py", "finite"),
    ("triton_bugs.py", "memory"),
    ("uninitialized.py", "init"),
];

/// What is checked in another way than by a finding.
const NO_FINDING: &[&str] = &["leak"];

/// Nobody knows which rank is wrong there.
const NO_RANKS: &[&str] = &["world-size", "shrink-apart"];

const LEAST: usize = 60;

/// A bug in the list at the top of its program: `name   what it is (where it comes from)`.
struct Bug {
    program: &'static str,
    name: String,
    about: String,
}

/// The list at the top of a program. An item goes on in lines that are indented.
fn bugs(file: &str, program: &'static str) -> Vec<Bug> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let is_top = |line: &&str| !file.ends_with(".rs") || line.starts_with("//!");
    let top =
        text.lines().take_while(is_top).map(|line| line.trim_start_matches("//!").strip_prefix(' ').unwrap_or(line));
    let top = top.take_while(|line| !line.starts_with("import "));
    let mut bugs: Vec<Bug> = Vec::new();
    let mut is_item = false;
    for line in top {
        let (name, about) = line.split_once(' ').unwrap_or((line, ""));
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || "-_".contains(c));
        // Two columns: a name as long as the column has one space behind it.
        let next_is_item = is_name && (about.starts_with(' ') || is_item);
        match bugs.last_mut() {
            _ if next_is_item => {
                let (name, about) = (name.to_owned(), about.trim().to_owned());
                bugs.push(Bug { program, name, about });
            }
            Some(bug) if is_item && name.is_empty() => bug.about.push_str(about.trim()),
            _ => {}
        }
        is_item = next_is_item || (is_item && name.is_empty() && !about.is_empty());
    }
    assert!(!bugs.is_empty(), "{file} lists no bug at its top");
    bugs
}

fn corpus() -> Vec<Bug> {
    PROGRAMS.iter().flat_map(|(file, program)| bugs(file, program)).collect()
}

fn cases() -> Vec<Arc<Case>> {
    let suites = Path::new(env!("CARGO_MANIFEST_DIR")).join("suites");
    let files = suite::find::named(&[suites]).into_values();
    files.flat_map(|file| suite::load(&file).unwrap_or_else(|error| panic!("{error}")).cases).collect()
}

/// What a case starts, without the interpreter: the name of the program, and its arguments.
fn command(case: &Case) -> (String, Vec<String>) {
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let argv = match &case.launch {
        Launch::Torchrun { script, args, .. } => return (name(script), args.clone()),
        Launch::Argv { argv, .. } => argv,
        Launch::Srun(srun) => match &srun.program {
            Program::Torchrun { script, args, .. } => return (name(script), args.clone()),
            Program::Rank { argv } => argv,
        },
    };
    let from = usize::from(argv.first().is_some_and(|program| program == "python"));
    let program = argv.get(from).map(|program| name(Path::new(program))).unwrap_or_default();
    (program, argv.iter().skip(from + 1).cloned().collect())
}

/// Whether a case of a program looks for what the program gets wrong.
fn looks(case: &Case, program: &str) -> bool {
    match SANITIZERS.iter().find(|(of, _)| *of == program) {
        None => case.sanitize.is_none(),
        Some((_, sanitizer)) => match &case.sanitize {
            Some(words) => words.contains(sanitizer),
            None => Sanitizers::default().words().contains(sanitizer),
        },
    }
}

/// The case that runs a program with exactly these arguments, and looks for what it gets wrong.
fn case_of<'a>(cases: &'a [Arc<Case>], program: &str, arguments: &[&str]) -> Vec<&'a Case> {
    let runs = |case: &&Arc<Case>| {
        let (started, given) = command(case);
        SUITES.contains(&case.suite.as_str()) && started == program && given == arguments && looks(case, program)
    };
    cases.iter().filter(runs).map(AsRef::as_ref).collect()
}

/// `owner/repository#1`, or the address of an issue or a pull request.
fn names_a_thread(text: &str) -> bool {
    let is_number = |text: &str| text.chars().next().is_some_and(|c| c.is_ascii_digit());
    let by_address = text.split("https://github.com/").skip(1).any(|rest| {
        let mut parts = rest.split('/').skip(2);
        parts.next().is_some_and(|kind| kind == "issues" || kind == "pull") && parts.next().is_some_and(is_number)
    });
    let by_name = text.split([' ', '(', ')', ';', ':']).any(|word| {
        word.split_once('#')
            .is_some_and(|(repository, number)| repository.matches('/').count() == 1 && is_number(number))
    });
    by_address || by_name
}

#[test]
fn there_are_enough_and_each_names_its_thread() {
    let bugs = corpus();
    let names: BTreeSet<(&str, &str)> = bugs.iter().map(|bug| (bug.program, bug.name.as_str())).collect();
    assert_eq!(names.len(), bugs.len(), "a bug is listed twice");
    assert!(bugs.len() >= LEAST, "the corpus has {} bugs, it must have {LEAST}", bugs.len());
    let without: Vec<&str> =
        bugs.iter().filter(|bug| !names_a_thread(&bug.about)).map(|bug| bug.name.as_str()).collect();
    assert_eq!(without, [""; 0], "these name no thread");
}

/// A program that is forgotten in the list above would need no thread and no twin.
#[test]
fn every_program_of_the_corpus_is_looked_at() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let listed = PROGRAMS.iter().map(|(file, _)| root.join(file)).chain([root.join("fixtures/src/bin/bugs/main.rs")]);
    let mut listed: BTreeSet<_> = listed.chain([root.join("fixtures/src/bin/bugs/stage.rs")]).collect();
    listed.extend(NOT_LISTED.iter().map(|name| root.join("fixtures/findings").join(name)));
    for directory in ["fixtures/findings", "fixtures/src/bin/bugs"] {
        let entries = fs::read_dir(root.join(directory)).unwrap().map(|entry| entry.unwrap().path());
        let programs = entries.filter(|path| path.extension().is_some_and(|end| end == "py" || end == "rs"));
        let forgotten: Vec<_> = programs.filter(|path| !listed.contains(path)).collect();
        assert!(forgotten.is_empty(), "PROGRAMS lacks {forgotten:?}");
    }
}

/// What keeps a case from finding `bug`, of `all` that its program has, exactly.
fn complaint(case: &Case, Bug { program, name, .. }: &Bug, all: usize) -> Option<String> {
    let id = case.full_id();
    if NO_FINDING.contains(&name.as_str()) {
        return case.xfail.is_none().then(|| format!("{id} passes"));
    }
    let expected = &case.expect.findings;
    if expected.is_empty() || (TOGETHER.contains(program) && expected.len() < all) {
        return Some(format!("{id} does not find what there is"));
    }
    let has_ranks = NO_RANKS.contains(&name.as_str()) || expected.iter().all(|finding| finding.ranks.is_some());
    let has_lines = !program.ends_with(".py") || expected.iter().all(|finding| !finding.lines.is_empty());
    let must_occur = expected.iter().all(|finding| !finding.optional);
    (!has_ranks || !has_lines || !must_occur).then(|| format!("{id} names no ranks, no line, or what need not occur"))
}

#[test]
fn each_is_found_with_its_ranks_and_has_a_silent_twin() {
    let cases = cases();
    for bug in &corpus() {
        let Bug { program, name, .. } = bug;
        let together = TOGETHER.contains(program);
        let all = corpus().iter().filter(|other| other.program == *program).count();
        let arguments: &[&str] = &[name, "fixed"];
        let (wrong, fixed) = if together { (&arguments[..0], &arguments[1..]) } else { (&arguments[..1], arguments) };
        let found = case_of(&cases, program, wrong);
        let complaints: Vec<String> = found.iter().filter_map(|case| complaint(case, bug, all)).collect();
        assert!(complaints.len() < found.len(), "no case finds {program} {name}: {complaints:?}");
        let twins = case_of(&cases, program, fixed);
        assert!(!twins.is_empty(), "no case runs {program} {name} fixed");
        for twin in twins {
            let is_silent = twin.expect.findings.is_empty() && twin.allow_gaps.is_empty() && twin.xfail.is_none();
            assert!(is_silent, "{} is not silent", twin.full_id());
        }
    }
}

/// Every kind of finding is found in a real run of some suite: one that nothing makes would be a promise.
#[test]
fn every_kind_of_finding_is_made_by_a_program() {
    let found: BTreeSet<&str> =
        cases().iter().flat_map(|case| case.expect.findings.iter().map(|finding| finding.kind.word())).collect();
    let known: BTreeSet<&str> = protocol::finding::WORDS.iter().copied().collect();
    assert_eq!(found, known);
}

/// The example of each kind in docs/findings.md is one that is run, and has the finding.
#[test]
fn the_example_of_each_kind_is_a_case_that_has_it() {
    let cases = cases();
    for row in KINDS {
        let case = cases.iter().find(|case| case.full_id() == row.case);
        let case = case.unwrap_or_else(|| panic!("{}: there is no case {}", row.word, row.case));
        let has_it = case.expect.findings.iter().any(|finding| finding.kind == row.kind && !finding.optional);
        assert!(has_it, "{}: {} does not expect it", row.word, row.case);
    }
}

#[test]
fn the_parts_of_this_test_can_fail() {
    assert!(names_a_thread("wrong (NVIDIA/nccl#479)") && names_a_thread("(https://github.com/NVIDIA/nccl/pull/335)"));
    for text in ["wrong", "(https://github.com/NVIDIA/nccl)", "#479", "(https://docs.nvidia.com/issues/3)"] {
        assert!(!names_a_thread(text), "{text}");
    }
    assert!(case_of(&cases(), "fixture-bugs", &["no-such-bug"]).is_empty());
}
