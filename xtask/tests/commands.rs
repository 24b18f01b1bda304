//! The chores that pages tell of are there.

use std::fs;
use std::path::Path;

/// What `cargo xtask` prints for these arguments.
fn printed(arguments: &[&str]) -> String {
    duct::cmd(env!("CARGO_BIN_EXE_xtask"), arguments).stderr_to_stdout().unchecked().read().unwrap()
}

/// The words after each `cargo xtask`, up to a comment or the end of the code.
fn commands(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let words = |rest: &str| rest.find(['#', '`', '\n', '.', ',', ';', ')']).unwrap_or(rest.len());
    text.split("cargo xtask ").skip(1).map(move |rest| rest[..words(rest)].split_whitespace().collect())
}

/// What is wrong with the words after `cargo xtask`, other than paths, by what its help and its lists name.
fn mistake(words: &[&str], known: &str) -> Option<String> {
    let is_known = |word: &&&str| {
        known.split(|letter: char| letter.is_whitespace() || ",;:[]|()`".contains(letter)).any(|other| other == **word)
    };
    words
        .iter()
        .filter(|word| !word.contains('/'))
        .find(|word| !is_known(word))
        .map(|word| format!("`cargo xtask {}`: nothing has the name {word}", words.join(" ")))
}

#[test]
fn the_chores_of_the_pages_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let lists = [&["help"][..], &["drill", "--list"], &["drill", "--help"], &["regen", "--list"]];
    let known = lists.map(printed).join("\n") + "\nhelp";
    let mut names: Vec<_> = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.extend(["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"].map(|name| root.join(name)));
    let (mut found, mut mistakes) = (0, Vec::new());
    for page in names.iter().filter(|name| name.extension().is_some_and(|extension| extension == "md")) {
        let text = fs::read_to_string(page).unwrap();
        for words in commands(&text) {
            found += 1;
            mistakes.extend(mistake(&words, &known).map(|mistake| format!("{}: {mistake}", page.display())));
        }
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
    assert!(found > 15, "only {found} are told of");
    for wrong in ["regenerate", "drill --fast", "drill --only full-disc", "bench runners", "regen doc"] {
        assert!(mistake(&wrong.split(' ').collect::<Vec<_>>(), &known).is_some(), "{wrong}");
    }
}
