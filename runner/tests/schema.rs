//! The JSON Schema for editors says what the reader of suites says: what runs is valid, and misspelt keys are not.

use std::fs;
use std::path::{Path, PathBuf};

use jsonschema::Validator;
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn validator() -> Validator {
    let text = fs::read_to_string(root().join("docs/suite.schema.json")).unwrap();
    jsonschema::validator_for(&serde_json::from_str(&text).unwrap()).unwrap()
}

fn read(file: &Path) -> Value {
    let options = serde_yaml::options! { strict_booleans: true };
    let text = fs::read_to_string(file).unwrap();
    serde_yaml::from_str_with_options(&text, options).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn suites(directory: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(root().join(directory))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| if path.is_dir() { path.join("suite.yaml") } else { path })
        .filter(|path| path.is_file() && path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    files
}

#[test]
fn every_suite_that_runs_is_valid() {
    let validator = validator();
    let files: Vec<PathBuf> =
        ["suites", "commands/tests/cases/pass", "commands/tests/cases/fail"].into_iter().flat_map(suites).collect();
    assert!(files.len() > 8, "{files:?}");
    for file in files {
        let mistakes: Vec<String> = validator
            .iter_errors(&read(&file))
            .map(|error| format!("{}{}: {error}", file.display(), error.instance_path()))
            .collect();
        assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
    }
}

#[test]
fn our_own_suites_are_without_warnings() {
    for file in suites("suites") {
        let suite = runner::suite::load(&file).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(suite.warnings.count(), 0, "{}", suite.warnings);
    }
}

#[test]
fn wrong_suites_are_refused() {
    let validator = validator();
    for name in ["types", "version"] {
        let file = root().join("commands/tests/cases/invalid").join(name).join("suite.yaml");
        assert!(!validator.is_valid(&read(&file)), "{}", file.display());
    }
    let good = read(&root().join("commands/tests/cases/pass/plain/suite.yaml"));
    for pointer in ["", "/cases/0", "/cases/0/launch", "/cases/0/expect", "/cases/0/expect/stdout"] {
        let mut wrong = good.clone();
        wrong.pointer_mut(pointer).unwrap()["mistyped"] = Value::Bool(true);
        assert!(validator.is_valid(&good) && !validator.is_valid(&wrong), "a wrong key at `{pointer}` is accepted");
    }
}
