//! What a program prints does not control the reader's terminal, in any report, and hides nothing that ftest prints.

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

use crate::program;

/// Clears the screen, asks where the cursor is, sets the title, writes to the clipboard, rings, colors.
const HOSTILE: &str = r"printf '\033[2J\033[6nasked \033]0;title\a\033]52;c;aGk=\033\\ \033[31mred\033[0m\b\rover\n'";

fn project(cases: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("hostile.sh"), format!("{HOSTILE}\n{HOSTILE} >&2\nexit 3\n")).unwrap();
    fs::write(directory.path().join("s.yaml"), format!("ftest: 1\nsuite: s\ncases:\n{cases}\n")).unwrap();
    directory
}

fn ftest(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = program::ftest();
    command.args(["run", "s.yaml", "--no-fail-fast", "--color", "always"]).args(arguments);
    command.current_dir(directory).env("TMPDIR", directory).stdin(Stdio::null()).output().unwrap()
}

/// Sequences that are not colors, and single characters that act; `returns` says whether a return does.
fn acting(text: &[u8], returns: bool) -> Vec<String> {
    let text = String::from_utf8_lossy(text).into_owned();
    let colors = regex::Regex::new("\x1b\\[[0-9;]*[mK]").unwrap();
    let left = colors.replace_all(&text, "").into_owned();
    let acts = |letter: &char| letter.is_control() && !matches!(letter, '\n' | '\t') && (returns || *letter != '\r');
    left.lines().filter(|line| line.chars().any(|letter| acts(&letter))).map(str::to_owned).collect()
}

#[test]
fn no_report_has_a_character_that_acts_and_all_show_what_was_there() {
    let project = project(
        "- {id: tail, launch: {argv: [sh, hostile.sh]}}\n\
         - {id: excerpt, launch: {argv: [sh, hostile.sh]}, expect: {exit: 3, stdout: never, stderr: {matches: never}}}\n\
         - {id: ranks, launch: {argv: [sh, hostile.sh], ranks: 2}}",
    );
    let reports = ["--junit", "out.xml", "--html", "out.html", "--markdown", "out.md", "--github"];
    let output = ftest(project.path(), &reports);
    assert_eq!(output.status.code(), Some(1));
    let mut texts = vec![("stdout", output.stdout), ("stderr", output.stderr)];
    for file in ["out.xml", "out.html", "out.md"] {
        texts.push((file, fs::read(project.path().join(file)).unwrap()));
    }
    for (name, text) in &texts {
        assert_eq!(acting(text, true), Vec::<String>::new(), "{name}");
        let text = String::from_utf8_lossy(text);
        // The excerpt has the line as it is; in the others only what came last is left of it.
        assert!(*name == "stderr" || text.contains("^[[2J^[[6nasked ^[]0;title^G"), "{name}: {text}");
        assert!(!text.contains("[31mred"), "{name}: {text}");
    }
}

#[test]
fn a_line_that_is_written_over_takes_no_word_of_ours_with_it() {
    let project = project("- {id: a, launch: {argv: [printf, 'theirs\\rlast']}, expect: {stdout: never}}");
    let output = ftest(project.path(), &["--markdown", "out.md", "--html", "out.html", "--junit", "out.xml"]);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let got = "launcher 0: not found in 11 bytes; the last line is: theirs";
    assert!(printed.contains(&format!("{got}^Mlast\n")), "{printed}");
    for file in ["out.md", "out.html", "out.xml"] {
        let text = fs::read_to_string(project.path().join(file)).unwrap();
        assert!(text.contains(&format!("{got}^Mlast\n")), "{file}: {text}");
    }
}

#[test]
fn a_terminal_gets_colors_and_no_sequence_that_acts() {
    let project = project(
        "- {id: one, launch: {argv: [sh, hostile.sh]}, expect: {exit: 3}}\n\
         - {id: two, launch: {argv: [sh, hostile.sh], ranks: 2}, expect: {exit: 3}}",
    );
    let output = ftest(project.path(), &["--no-capture"]);
    assert_eq!(output.status.code(), Some(0));
    for text in [&output.stdout, &output.stderr] {
        assert_eq!(acting(text, false), Vec::<String>::new());
        let text = String::from_utf8_lossy(text);
        assert!(text.contains("^[[2J^[[6nasked ^[]0;title^G^[]52;c;aGk=^[\\ \x1b[31mred\x1b[0m^H\rover\n"), "{text:?}");
        for rank in ["[rank 0] over\n", "[rank 1] over\n"] {
            assert!(text.contains(rank), "{text:?}");
        }
    }
}
