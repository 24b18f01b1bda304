//! The files generated from the code are up to date: the JSON Schemas, the tables of keys, options and exit codes.
//! `cargo xtask regen docs` rewrites them. And what is written by hand names cases that exist, and holds code that is right.

mod blocks;
mod code;
mod fragment;
mod typed;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use commands::manual;
use runner::record;
use runner::suite::{self, language};

fn docs(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name)
}

fn must_be(path: &Path, expected: &str) {
    if std::env::var_os("FTEST_REGEN").is_some() {
        fs::write(path, expected).unwrap();
        return;
    }
    let committed = fs::read_to_string(path).unwrap_or_default();
    let diff = similar::TextDiff::from_lines(committed.as_str(), expected)
        .unified_diff()
        .header("committed", "code")
        .to_string();
    assert!(committed == expected, "{} is stale; run `cargo xtask regen docs`\n{diff}", path.display());
}

#[test]
fn the_schema_is_the_code_s() {
    must_be(&docs("suite.schema.json"), &language::schema_text());
}

#[test]
fn the_page_of_all_keys_is_the_code_s() {
    must_be(&docs("suites-reference.md"), &language::reference_page());
}

#[test]
fn the_schema_of_the_event_log_is_the_code_s() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../schema/events.v1.json");
    must_be(&path, &record::schema::text());
}

#[test]
fn the_generated_parts_are_the_code_s() {
    for name in ["suites.md", "cli.md", "reports.md", "findings.md"] {
        let text = fs::read_to_string(docs(name)).unwrap();
        must_be(&docs(name), &manual::fill(&text).unwrap_or_else(|error| panic!("docs/{name}: {error}")));
    }
}

#[test]
fn every_command_and_exit_code_is_documented_once() {
    if std::env::var_os("FTEST_REGEN").is_some() {
        // The files are being written.
        return;
    }
    let cli = fs::read_to_string(docs("cli.md")).unwrap();
    let options = manual::commands_with_options().into_iter().map(|name| format!("options {name}"));
    for name in options.chain(["commands".to_owned(), "options ftest".to_owned(), "exit codes".to_owned()]) {
        let marker = format!("<!-- generated: {name} -->");
        assert_eq!(cli.matches(&marker).count(), 1, "docs/cli.md: {marker}");
    }
    let reports = fs::read_to_string(docs("reports.md")).unwrap();
    assert_eq!(reports.matches("<!-- generated: events -->").count(), 1);
    assert!(manual::fill("<!-- generated: options nothing -->\n<!-- /generated -->").is_err());
    assert!(manual::fill("<!-- generated: exit codes -->\n").is_err());
}

#[test]
fn the_cases_that_pages_name_are_in_the_suites() {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut cases = BTreeMap::new();
    for (name, file) in suite::find::named(&[checkout.join("suites")]) {
        let suite = suite::load(&file).unwrap_or_else(|_| panic!("{} has mistakes", file.display()));
        // With the values of the matrix and without.
        let ids = suite.cases.iter().flat_map(|case| [case.id.as_str(), case.id.split('[').next().unwrap_or_default()]);
        cases.insert(name, ids.map(str::to_owned).collect::<BTreeSet<_>>());
    }
    let mut named = 0;
    for entry in fs::read_dir(checkout.join("docs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for word in text.split('`') {
            let Some((suite, case)) = word.split_once('/') else { continue };
            let Some(known) = cases.get(suite) else { continue };
            assert!(known.contains(case), "{}: there is no case `{word}`", path.display());
            named += 1;
        }
    }
    assert!(named > 30, "only {named} cases are named");
}
