//! Follows docs/tutorial.md as a reader would: writes its files, applies its changes, runs its commands in an empty directory, and
//! compares what they print with what the page shows.

use std::fs;
use std::path::Path;

use duct::cmd;

const PAGE: &str = "docs/tutorial.md";

/// One step of a reader.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Writes a file: its name, its text.
    Write(String, String),
    /// Applies a diff.
    Change(String),
    /// Types a command, and expects these lines.
    Run(String, Vec<String>),
}

/// Follows the page. Returns whether every command printed what the page shows.
///
/// # Errors
/// One sentence if a step cannot be done.
pub fn run(root: &Path) -> Result<bool, String> {
    let page = fs::read_to_string(root.join(PAGE)).map_err(|error| format!("{PAGE}: {error}"))?;
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut path = std::ffi::OsString::from(root);
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut all = true;
    for (line, step) in steps(&page)? {
        let wrong = |what: String| format!("{PAGE}:{line}: {what}");
        match step {
            Step::Write(name, text) => {
                fs::write(scratch.path().join(name), text).map_err(|error| wrong(error.to_string()))?;
            }
            Step::Change(diff) => {
                fs::write(scratch.path().join("change.diff"), diff).map_err(|error| wrong(error.to_string()))?;
                let applied = shell("git apply --unidiff-zero -p0 change.diff", scratch.path(), &path);
                if !applied.as_ref().is_ok_and(String::is_empty) {
                    return Err(wrong(format!("the change does not apply: {}", applied.unwrap_or_default())));
                }
            }
            Step::Run(command, expected) => {
                eprintln!("$ {command}");
                let printed = shell(&command, scratch.path(), &path).map_err(wrong)?;
                let lines: Vec<&str> = printed.lines().map(str::trim_end).collect();
                let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
                if !agree(&expected, &lines) {
                    all = false;
                    eprintln!("{PAGE}:{line}: `{command}` printed\n{printed}\ninstead of\n{}\n", expected.join("\n"));
                }
            }
        }
    }
    Ok(all)
}

/// Both streams of a command, in the order in which they were written.
fn shell(command: &str, directory: &Path, path: &std::ffi::OsStr) -> Result<String, String> {
    let command = cmd!("sh", "-c", command)
        .dir(directory)
        .env("PATH", path)
        // Uses nothing from the checkout or the user's environment.
        .env_remove("GIT_DIR")
        .env("GIT_CEILING_DIRECTORIES", directory);
    command.stdin_null().stderr_to_stdout().unchecked().read().map_err(|error| error.to_string())
}

/// The steps of a page, with their lines: its blocks with a file name, and its `diff` and `console` blocks.
fn steps(page: &str) -> Result<Vec<(usize, Step)>, String> {
    let mut steps = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let Some(kind) = line.strip_prefix("```") else { continue };
        let block: Vec<&str> = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
        let text = block.iter().map(|line| format!("{line}\n")).collect::<String>();
        match kind.split_once(' ') {
            Some((_, name)) => steps.push((index + 1, Step::Write(name.to_owned(), text))),
            None if kind == "diff" => steps.push((index + 1, Step::Change(text))),
            None if kind == "console" => {
                for (offset, line) in block.iter().enumerate() {
                    match (line.strip_prefix("$ "), steps.last_mut()) {
                        (Some(command), _) => {
                            steps.push((index + 2 + offset, Step::Run(command.to_owned(), Vec::new())));
                        }
                        (None, Some((_, Step::Run(_, expected)))) => expected.push((*line).to_owned()),
                        (None, _) => return Err(format!("{PAGE}:{}: no command before this", index + 2 + offset)),
                    }
                }
            }
            None => {}
        }
    }
    Ok(steps)
}

/// Whether `lines` are as expected. `...` matches any number of lines, `[..]` any part of one; times may differ.
fn agree(expected: &[&str], lines: &[&str]) -> bool {
    match (expected.split_first(), lines.split_first()) {
        (None, None) => true,
        (Some((&"...", rest)), _) => (0..=lines.len()).any(|skipped| agree(rest, &lines[skipped..])),
        (Some((one, rest)), Some((line, others))) => line_agrees(one, line) && agree(rest, others),
        (None, Some(_)) | (Some(_), None) => false,
    }
}

fn line_agrees(expected: &str, line: &str) -> bool {
    part_agrees(&timeless(expected), &timeless(line))
}

/// The words of a line without numbers of seconds, and without the remark that a case was slow.
fn timeless(line: &str) -> String {
    let line = line.split(" (slow: ").next().unwrap_or_default();
    let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
    let is_time = |index: usize| {
        let is_number = words[index].chars().all(|letter| letter.is_ascii_digit() || letter == '.');
        is_number && words.get(index + 1).is_some_and(|unit| matches!(*unit, "s" | "s]"))
    };
    (0..words.len()).filter(|index| !is_time(*index)).map(|index| words[index]).collect::<Vec<_>>().join(" ")
}

fn part_agrees(expected: &str, line: &str) -> bool {
    let Some((start, rest)) = expected.split_once("[..]") else { return expected == line };
    let Some(line) = line.strip_prefix(start) else { return false };
    let ends = (0..=line.len()).filter(|end| line.is_char_boundary(*end));
    ends.into_iter().any(|end| part_agrees(rest, &line[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_files_changes_and_commands() {
        let page = "text\n```python train.py\nprint(1)\n```\n```diff\n--- a\n```\n```sh\nignored\n```\n\
                    ```console\n$ one\nout\n...\n$ two\n```\n";
        let run = |command: &str, lines: &[&str]| {
            Step::Run(command.to_owned(), lines.iter().map(|line| (*line).to_owned()).collect())
        };
        let expected = vec![
            (2, Step::Write("train.py".to_owned(), "print(1)\n".to_owned())),
            (5, Step::Change("--- a\n".to_owned())),
            (12, run("one", &["out", "..."])),
            (15, run("two", &[])),
        ];
        assert_eq!(steps(page).unwrap(), expected);
        assert!(steps("```console\nout\n```\n").unwrap_err().ends_with("tutorial.md:2: no command before this"));
    }

    #[test]
    fn output_agrees_with_its_picture() {
        for (expected, lines, agrees) in [
            (&["a", "..."][..], &["a", "b", "c"][..], true),
            (&["a", "...", "c"], &["a", "c"], true),
            (&["a", "...", "c"], &["a", "c", "d"], false),
            (&["took [..]s, [..]"], &["took 1.2 s, fine"], true),
            (&["  passed [   7.5 s] a/b"], &["  passed [ 120.0 s] a/b (slow: longer than 30 s)"], true),
            (&["1 case: 1 passed in 7 s"], &["1 case: 2 passed in 8 s"], false),
            (&["a"], &[], false),
            (&[], &["a"], false),
        ] {
            assert_eq!(agree(expected, lines), agrees, "{expected:?} {lines:?}");
        }
    }
}
