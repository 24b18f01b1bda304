//! How long source files are: the median and the longest, by what CONTRIBUTING.md asks for.

use crate::{root, rust_files};

/// Lines of the median file, at most.
const MEDIAN: usize = 130;
/// Lines of a file, at most.
const MOST: usize = 600;
/// Files that a message lists.
const SHOWN: usize = 15;

/// What is wrong with files of so many lines, in words; nothing where all is well.
fn complaint(mut files: Vec<(usize, String)>) -> Option<String> {
    files.sort();
    let list = |files: &[&(usize, String)]| {
        files.iter().map(|(lines, file)| format!("  {lines:4} {file}\n")).collect::<String>()
    };
    let long: Vec<_> = files.iter().filter(|(lines, _)| *lines > MOST).collect();
    if !long.is_empty() {
        return Some(format!("these files have more than {MOST} lines:\n{}", list(&long)));
    }
    let median = files.get(files.len() / 2).map_or(0, |(lines, _)| *lines);
    if median <= MEDIAN {
        return None;
    }
    // One of these in two puts two files below the median where one was above it.
    let twice: Vec<_> =
        files.iter().rev().filter(|(lines, _)| (MEDIAN + 1..=2 * MEDIAN).contains(lines)).take(SHOWN).collect();
    let count = files.len();
    Some(format!(
        "the median of {count} files has {median} lines, more than {MEDIAN}. A file with two subjects becomes two, each with a \
         first line that says what it owns; look at those that you changed, and at these:\n{}",
        list(&twice)
    ))
}

#[test]
fn the_median_file_is_short_and_none_is_long() {
    let lines = |file: String| (std::fs::read_to_string(root().join(&file)).unwrap().lines().count(), file);
    let all: Vec<_> = rust_files().into_iter().map(lines).collect();
    let outside_of_tests: Vec<_> = all.iter().filter(|(_, file)| !file.contains("/tests/")).cloned().collect();
    for files in [all, outside_of_tests] {
        if let Some(complaint) = complaint(files) {
            panic!("{complaint}");
        }
    }
}

#[test]
fn what_is_too_long_is_named() {
    let files = |lines: &[usize]| lines.iter().map(|lines| (*lines, format!("f{lines}.rs"))).collect::<Vec<_>>();
    assert_eq!(complaint(files(&[600, 130, 7])), None);
    let long = complaint(files(&[601, 7, 8])).unwrap();
    assert!(long.contains("more than 600 lines") && long.contains(" 601 f601.rs") && !long.contains("f8.rs"), "{long}");
    let wide = complaint(files(&[131, 260, 261, 7, 8])).unwrap();
    assert!(wide.contains("5 files has 131 lines") && wide.contains(" 260 f260.rs\n   131 f131.rs"), "{wide}");
    assert!(!wide.contains("f261.rs"), "{wide}");
}
