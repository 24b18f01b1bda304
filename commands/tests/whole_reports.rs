//! Reports of a run as a whole, written by the real program: `--html`, `--trace`, `--markdown`, and what GitHub reads.

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

use crate::program;

/// A failed case that prints what a workflow would execute, and one that passes.
const SUITE: &str = r#"ftest: 1
suite: evil
cases:
  - id: commands
    title: a program that speaks to GitHub
    launch:
      argv: [printf, '::set-output name=a::b\n::endgroup::\n##[set-env name=PATH;]/tmp\n::stop-commands::x\n::error::mine\n']
    expect:
      stdout: [{ contains: "<b>never</b>" }]
  - id: fine
    launch: { argv: [printf, ok] }
"#;

/// A case that passes, and a fixture that cannot be taken down and says so as a workflow would hear it.
const TORN: &str = r##"ftest: 1
suite: torn
fixtures:
  busy: { setup: { argv: ['true'] }, teardown: { shell: "echo '##[error]mine'; exit 1" } }
cases:
  - { id: uses, uses: [busy], launch: { argv: ['true'] } }
"##;

fn ftest(directory: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    program::ftest()
        .args(arguments)
        .current_dir(directory)
        .env("FTEST_HOME", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/home"))
        .env("NO_COLOR", "1")
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("suites")).unwrap();
    fs::write(place.path().join("suites/evil.yaml"), SUITE).unwrap();
    place
}

/// The lines that GitHub's runner takes as commands: leading blanks do not matter, `##[` counts anywhere in a line.
fn executed(log: &str) -> Vec<&str> {
    let (mut stopped, mut executed) = (None, Vec::new());
    for line in log.lines() {
        let line = line.trim_start();
        match &stopped {
            Some(word) if line == format!("::{word}::") => stopped = None,
            Some(_) => {}
            None => match line.strip_prefix("::stop-commands::") {
                Some(word) => stopped = Some(word.to_owned()),
                None if line.starts_with("::") || line.contains("##[") => executed.push(line),
                None => {}
            },
        }
    }
    assert_eq!(stopped, None, "commands stay stopped: {log}");
    executed
}

#[test]
fn all_files_are_written_and_the_exit_code_is_the_runs() {
    let place = place();
    let arguments =
        ["suites/evil.yaml", "--no-fail-fast", "--html", "new/r.html", "--trace", "r.json", "--markdown", "r.md"];
    let output = ftest(place.path(), &arguments, &[]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let read = |name: &str| fs::read_to_string(place.path().join(name)).unwrap();
    let page = read("new/r.html");
    assert!(page.contains("1 of 2 cases did not pass") && page.contains("&lt;b&gt;never&lt;"), "{page}");
    let unescaped = page.replace("&#x27;", "'").replace("&#39;", "'").replace("&#x2f;", "/");
    assert!(unescaped.contains("ftest run suites/evil.yaml --filter evil/commands"));
    let trace: serde_json::Value = serde_json::from_str(&read("r.json")).unwrap();
    assert!(
        trace["traceEvents"].as_array().is_some_and(|events| events.iter().any(|event| event["name"] == "evil/fine"))
    );
    assert!(read("r.md").contains("failed <code>evil/commands</code>"));
    assert!(!String::from_utf8_lossy(&output.stdout).contains("::group::"), "nobody asked for GitHub");
}

#[test]
fn a_second_run_is_compared_with_the_first() {
    let place = place();
    ftest(place.path(), &["suites/evil.yaml", "--no-fail-fast"], &[]);
    let suite = SUITE.replace("<b>never</b>", "mine");
    fs::write(place.path().join("suites/evil.yaml"), suite).unwrap();
    let output = ftest(place.path(), &["suites/evil.yaml", "--html", "r.html", "--markdown", "r.md"], &[]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let page = fs::read_to_string(place.path().join("r.html")).unwrap();
    assert!(page.contains("Compared with the previous run") && page.contains("was failed"), "{page}");
    let summary = fs::read_to_string(place.path().join("r.md")).unwrap();
    assert!(summary.contains("| <code>evil/commands</code> | failed | passed |"), "{summary}");
}

#[test]
fn a_report_that_cannot_be_written_is_an_error() {
    let place = place();
    fs::write(place.path().join("file"), "").unwrap();
    let output = ftest(place.path(), &["suites/evil.yaml", "-E", "fine", "--html", "file/r.html"], &[]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write the HTML page file/r.html"), "{output:?}");
}

#[test]
fn github_gets_annotations_groups_and_a_summary_and_executes_nothing() {
    let place = place();
    let summary = place.path().join("summary.md");
    fs::write(&summary, "what a step before said\n").unwrap();
    let (root, summary_path) = (place.path().to_str().unwrap(), summary.to_str().unwrap());
    let variables = [("GITHUB_ACTIONS", "true"), ("GITHUB_STEP_SUMMARY", summary_path), ("GITHUB_WORKSPACE", root)];
    let output = ftest(&place.path().join("suites"), &["evil.yaml", "--no-fail-fast"], &variables);
    let text = String::from_utf8(output.stdout).unwrap();
    let executed = executed(&text);
    assert_eq!(executed.len(), 3, "{text}");
    assert_eq!(executed[..2], ["::group::evil/commands in full", "::endgroup::"]);
    let error = executed[2];
    assert!(error.starts_with("::error file=suites/evil.yaml,line=9,col="), "{error}");
    assert!(error.contains("title=evil/commands%3A failed::") && error.contains("%0Aagain: ftest run "), "{error}");
    let summary = fs::read_to_string(summary).unwrap();
    assert!(summary.starts_with("what a step before said\n## ftest: 1 of 2 cases did not pass"), "{summary}");
}

#[test]
fn what_a_program_prints_itself_is_not_executed_either() {
    let place = place();
    let arguments = ["suites/evil.yaml", "--no-fail-fast", "--no-capture", "--github"];
    let text = String::from_utf8(ftest(place.path(), &arguments, &[]).stdout).unwrap();
    assert!(text.contains("::set-output name=a::b"), "{text}");
    let executed = executed(&text);
    assert_eq!(executed.len(), 1, "{text}");
    assert!(executed[0].starts_with("::error file=suites/evil.yaml"), "{text}");
    // Commands are stopped: a group would only be an odd line.
    assert!(!text.contains("::group::") && text.contains("    again: ftest run "), "{text}");
}

#[test]
fn what_a_teardown_prints_is_not_executed_either() {
    let place = place();
    fs::write(place.path().join("suites/torn.yaml"), TORN).unwrap();
    let output = ftest(place.path(), &["suites/torn.yaml", "--github"], &[]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("| # #[error]mine"), "{text}");
    let executed = executed(&text);
    assert_eq!(executed.len(), 3, "{text}");
    assert_eq!(executed[..2], ["::group::the teardown of torn/busy", "::endgroup::"]);
    assert!(executed[2].starts_with("::error file=suites/torn.yaml,line=4,"), "{text}");
}

#[test]
fn a_reader_who_leaves_is_not_missed() {
    let place = place();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = program::ftest();
    command.args(["run", "suites/evil.yaml", "--no-fail-fast", "--no-capture", "--github"]).current_dir(place.path());
    let output = command.stdin(Stdio::null()).stdout(writer).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}
