//! Names say what they name: a function is not called by a bare preposition or adverb, and a module with parts of its own is
//! `name/mod.rs`, never `name.rs` beside a folder.

use crate::{root, rust_files};

/// Names that say nothing of what a function does. A constructor is `new` or `from_...`, a look-up is `find`, `get` or `..._at`.
const BANNED: [&str; 7] = ["of", "at", "see", "way", "said", "ours", "always"];

/// The functions with a banned name in `text`, by line from 1.
fn banned(text: &str) -> Vec<(usize, String)> {
    let name = |line: &str| {
        let name = line.split_once("fn ")?.1;
        let end = name.find(|letter: char| !letter.is_alphanumeric() && letter != '_')?;
        BANNED.contains(&&name[..end]).then(|| name[..end].to_owned())
    };
    let code = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with(['/', '"']));
    code.filter_map(|(index, line)| Some((index + 1, name(line)?))).collect()
}

#[test]
fn functions_have_names_that_say_what_they_do() {
    let mut found = Vec::new();
    for file in rust_files() {
        let text = std::fs::read_to_string(root().join(&file)).unwrap();
        found.extend(banned(&text).into_iter().map(|(line, name)| format!("{file}:{line}: fn {name}")));
    }
    assert!(found.is_empty(), "give these functions names that say what they do:\n{}", found.join("\n"));
}

#[test]
fn a_module_with_parts_is_a_folder() {
    let is_both = |file: &&String| root().join(file.trim_end_matches(".rs")).is_dir();
    let found: Vec<String> = rust_files().iter().filter(is_both).cloned().collect();
    assert!(found.is_empty(), "move these to NAME/mod.rs: {found:?}");
}

/// Dependencies of the workspace in `text` that have no comment above them.
fn without_reason(text: &str) -> Vec<&str> {
    let (_, list) = text.split_once("[workspace.dependencies]\n").unwrap();
    let lines: Vec<&str> = list.lines().take_while(|line| !line.starts_with('[')).collect();
    let is_bare =
        |pair: &&[&str]| pair[1].contains(" = ") && !pair[1].contains("{ path =") && !pair[0].starts_with('#');
    let is_code = |line: &&str| !line.starts_with('#');
    lines.windows(2).filter(is_bare).map(|pair| pair[1]).filter(is_code).collect()
}

#[test]
fn every_dependency_has_its_reason_above_it() {
    let text = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    assert!(text.contains("[workspace.dependencies]"));
    assert_eq!(without_reason(&text), [""; 0], "say above these in Cargo.toml what they are for");
    assert_eq!(
        without_reason("[workspace.dependencies]\na = { path = \"a\" }\nb = \"1\"\n# For c.\nc = \"1\"\n[x]\n"),
        ["b = \"1\""]
    );
}

#[test]
fn a_banned_name_is_found_by_its_line() {
    let text =
        "impl A {\n    pub(crate) const fn of<T>(value: T) -> Self {\n// fn at(\nfn at_place(x: u32) {}\nfn say() {}\n";
    assert_eq!(banned(text), [(2, "of".to_owned())]);
}
