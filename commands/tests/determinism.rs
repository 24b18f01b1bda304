//! Fifty runs in shuffled circumstances: files made in another order, suites named in another order, one by one or as
//! their directory, with other numbers of jobs. Lists, shards and reports are the same byte for byte, apart from times.
//! `FTEST_SHUFFLED_RUNS=500 cargo test -p commands --test integration determinism::` runs more.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use regex::Regex;

use crate::program;

/// What is random here, from a seed that the failure names.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % limit
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            items.swap(index, self.below(index + 1));
        }
    }
}

const SUITES: [(&str, &str); 4] = [
    ("alpha", "- {id: z, launch: {argv: ['true']}}\n- {id: a, launch: {argv: [echo, x]}, expect: {stdout: x}}\n"),
    (
        "beta",
        "- {id: m, matrix: {axes: {t: [b, a], n: [2, 10]}}, launch: {argv: ['true']}, tags: ['t${{ matrix.n }}']}\n",
    ),
    (
        "gamma",
        "- {id: fails, launch: {argv: [sh, -c, 'echo why >&2; exit 3'], ranks: 2}, expect: {exit: 0, stdout: never}}\n",
    ),
    ("omega", "- {id: skipped, requires: [{command: no-such-command}], launch: {argv: ['true']}}\n"),
];

/// The texts that must not differ, by what they are.
fn observe(seed: u64) -> Vec<(&'static str, String)> {
    let mut dice = Dice(seed);
    let place = tempfile::tempdir_in("/tmp").unwrap();
    fs::create_dir(place.path().join("many")).unwrap();
    let mut suites = SUITES;
    dice.shuffle(&mut suites);
    // In another order in the directory, where the file system keeps one.
    for (name, cases) in suites {
        let text = format!("ftest: 1\nsuite: {name}\ncases:\n{cases}");
        fs::write(place.path().join(format!("many/{name}.yaml")), text).unwrap();
    }
    let mut words: Vec<String> = vec!["many".to_owned()];
    if dice.below(2) == 0 {
        words = suites.iter().map(|(name, _)| format!("many/{name}.yaml")).collect();
        dice.shuffle(&mut words);
    }
    let jobs = (dice.below(4) + 1).to_string();
    let ftest = |arguments: &[&str]| {
        let mut command = program::ftest();
        command.arg("run").args(&words).args(arguments).current_dir(place.path());
        command.env("TMPDIR", place.path()).env("NO_COLOR", "1").stdin(Stdio::null());
        let output = command.output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{command:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let mut seen = vec![("--list", ftest(&["--list"]))];
    seen.push(("--list --shard 2/3", ftest(&["--list", "--shard", "2/3"])));
    seen.push(("--list --shard hash:1/2", ftest(&["--list", "--shard", "hash:1/2"])));
    let shown = ftest(&["--no-fail-fast", "--jobs", &jobs, "--junit", "out.xml"]);
    seen.push(("the terminal", timeless(&shown)));
    seen.push(("JUnit", timeless(&fs::read_to_string(place.path().join("out.xml")).unwrap())));
    seen.push(("the event log", results(place.path())));
    seen
}

/// Text without times and names of runs.
fn timeless(text: &str) -> String {
    let rules = [
        (r"\[ *\d+\.\d{3} s\]", "[TIME]"),
        (r"\bin \d+\.\d s", "in TIME"),
        (r#"\b(time|timestamp)="[^"]*""#, "$1"),
        (r"\d{8}T\d{6}[.\d]*-[0-9a-f]+", "RUN"),
        (r"ft-[0-9a-f]{8}/\d+", "SCRATCH"),
    ];
    rules.iter().fold(text.to_owned(), |text, (pattern, with)| {
        Regex::new(pattern).unwrap().replace_all(&text, *with).into_owned()
    })
}

/// What the event log says of each attempt and case, without what is measured; in order of the cases, for they end in any.
fn results(place: &Path) -> String {
    let run = fs::read_dir(place.join(".ftest/runs")).unwrap().next().unwrap().unwrap().path();
    let log = fs::read_to_string(run.join("events.jsonl")).unwrap();
    let mut lines = BTreeSet::new();
    for line in log.lines() {
        let mut event: serde_json::Value = serde_json::from_str(line).unwrap();
        if event["event"] == "attempt_finished" || event["event"] == "case_finished" {
            strip(&mut event, &["at_ms", "started_ms", "duration_us", "measured", "scratch"]);
            lines.insert(timeless(&event.to_string()));
        }
    }
    lines.into_iter().collect::<Vec<_>>().join("\n")
}

fn strip(value: &mut serde_json::Value, names: &[&str]) {
    match value {
        serde_json::Value::Object(fields) => {
            names.iter().for_each(|name| drop(fields.remove(*name)));
            fields.values_mut().for_each(|field| strip(field, names));
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(|item| strip(item, names)),
        _ => {}
    }
}

#[test]
fn fifty_shuffled_runs_are_the_same_byte_for_byte() {
    let runs = std::env::var("FTEST_SHUFFLED_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(50);
    let first = observe(0);
    assert_eq!(first[0].1.lines().count(), 8, "{}", first[0].1);
    assert!(first[3].1.contains("1 failed"), "{}", first[3].1);
    for seed in 1..runs {
        for ((what, expected), (_, seen)) in first.iter().zip(observe(seed)) {
            assert_eq!(&seen, expected, "{what} of run {seed} differs from the first");
        }
    }
}
