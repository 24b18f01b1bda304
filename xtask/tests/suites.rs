//! `suites/` is the list of suites: the workflow, which cannot read a directory, names every one of them and no other.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

#[test]
fn the_workflow_runs_every_suite() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let suites: BTreeSet<String> = fs::read_dir(repository.join("suites"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert!(suites.contains("smoke"), "the suites were not found: {suites:?}");
    let workflow = fs::read_to_string(repository.join(".github/workflows/ci.yml")).unwrap();
    let named: BTreeSet<String> =
        workflow.lines().filter_map(|line| line.trim().strip_prefix("- suite: ")).map(str::to_owned).collect();
    assert_eq!(named, suites, "the matrix of .github/workflows/ci.yml, and the files of suites/");
}
