//! `ftest new`: writes a suite to start from, or a case copied from another one.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use runner::suite;
use runner::verdict::exit_code::ExitCode;

use crate::init;

/// Arguments of `ftest new`.
#[derive(Args, Clone, Debug)]
pub struct NewArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Debug, Subcommand)]
enum What {
    /// Write a suite with one case: suites/NAME.yaml
    Suite {
        /// Letters, digits, `-`, `_` and `.`
        name: String,
        /// What it runs, from the working directory: a Python file, by torchrun, or another program, once per rank
        program: String,
    },
    /// Add a copy of a case to its suite, under another id
    Case {
        /// The suite's file
        file: PathBuf,
        /// The id of the case to copy
        from: String,
        /// The id of the new one
        id: String,
    },
}

/// Runs the command.
pub fn run(arguments: &NewArgs) -> ExitCode {
    let done = match &arguments.what {
        What::Suite { name, program } => new_suite(Path::new("."), name, program),
        What::Case { file, from, id } => new_case(file, from, id),
    };
    match done {
        Ok(said) => {
            println!("{said}");
            ExitCode::Passed
        }
        Err(why) => {
            eprintln!("ftest new: {why}");
            ExitCode::Usage
        }
    }
}

/// Writes the suite below `root`.
fn new_suite(root: &Path, name: &str, program: &str) -> Result<String, String> {
    if !suite::is_name(name) {
        return Err(format!("`{name}` cannot be the name of a suite: use letters, digits, `-`, `_` and `.`"));
    }
    if !root.join(program).is_file() {
        return Err(format!("there is no {program} here"));
    }
    let path = Path::new("suites").join(format!("{name}.yaml"));
    let (directory, file) = (root.join("suites"), root.join(&path));
    let wrong = |error: std::io::Error| format!("{}: {error}", path.display());
    fs::create_dir_all(&directory).map_err(wrong)?;
    let text = text_of_suite(root, name, program);
    ids(&file, &text)?;
    // Never overwrites an existing file.
    let mut new = fs::File::create_new(&file).map_err(wrong)?;
    new.write_all(text.as_bytes()).map_err(wrong)?;
    Ok(format!("wrote {}; next: ftest {}", path.display(), path.display()))
}

fn text_of_suite(root: &Path, name: &str, program: &str) -> String {
    let is_python = program.ends_with(".py");
    let python = if is_python { format!("\n  python: {}", init::python_of(root, program)) } else { String::new() };
    let launch = match is_python {
        true => format!("torchrun: {{ nproc_per_node: 2, script: {}, args: [] }}", init::quoted(program)),
        false => format!("argv: [{}]\n      ranks: 2", init::quoted(&format!("./{program}"))),
    };
    format!(
        "ftest: 1\nsuite: {name}\n\nclusters:\n  small: {{ nodes: 1, gpus_per_node: 2, profile: h100 }}\n\n\
         defaults:\n  cluster: small\n  cwd: ..{python}\n  timeout: {{ kill: 5m, idle: 30s }}\n\n\
         cases:\n  - id: runs\n    title: two ranks run to their end\n    launch:\n      {launch}\n    \
         expect:\n      exit: {{ all: {{ code: 0 }} }}\n      report:\n        \
         - {{ path: $.cluster.world_size, eq: 2 }}\n"
    )
}

fn new_case(file: &Path, from: &str, id: &str) -> Result<String, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let there = ids(file, &text)?;
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let start = format!("- id: {from}");
    let is_start = |line: &&str| {
        line.trim().strip_prefix(&start).is_some_and(|rest| rest.is_empty() || rest.trim_start().starts_with('#'))
    };
    let Some(first) = lines.iter().position(is_start) else {
        let known = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
        return Err(format!("{}: no line `{start}`; the cases: {known}", file.display()));
    };
    let depth = indentation(lines[first]).len();
    let is_outside = |line: &&str| !line.trim().is_empty() && indentation(line).len() <= depth;
    let length = lines[first + 1..].iter().position(is_outside).unwrap_or(lines.len() - first - 1) + 1;
    let block = lines[first..first + length].concat();
    let copy = block.replacen(&start, &format!("- id: {id}"), 1);
    // One empty line between the two; text after the first now follows the second.
    let trailing = &block[block.trim_end().len()..];
    let new = format!(
        "{}{}\n\n{}{trailing}{}",
        lines[..first].concat(),
        block.trim_end(),
        copy.trim_end(),
        lines[first + length..].concat()
    );
    let now = ids(file, &new)?;
    if now.len() <= there.len() {
        return Err(format!("{}: the copy would not be a case of its own", file.display()));
    }
    runner::host::whole_file::replace(file, &[new.as_bytes()])
        .map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(format!("added {id}, a copy of {from}, to {}: change what is different about it", file.display()))
}

/// The ids of the cases in `text`.
fn ids(file: &Path, text: &str) -> Result<Vec<String>, String> {
    let directory = file.parent().unwrap_or(Path::new("."));
    let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    match suite::parse(file, text, &directory) {
        Ok(suite) => Ok(suite.cases.into_iter().map(|case| case.id.clone()).collect()),
        Err(error) => Err(error.to_string()),
    }
}

fn indentation(line: &str) -> &str {
    &line[..line.len() - line.trim_start_matches(' ').len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_suite_runs_the_program_and_is_never_written_over_another() {
        let root = tempfile::tempdir().unwrap();
        for (name, program, part) in [
            ("python", "train.py", "torchrun: { nproc_per_node: 2, script: train.py, args: [] }"),
            ("native", "a b", "argv: ['./a b']"),
        ] {
            fs::write(root.path().join(program), "").unwrap();
            let said = new_suite(root.path(), name, program).unwrap();
            assert!(said.contains(&format!("next: ftest suites/{name}.yaml")), "{said}");
            let text = fs::read_to_string(root.path().join(format!("suites/{name}.yaml"))).unwrap();
            assert!(text.contains(part), "{text}");
            let why = new_suite(root.path(), name, program).unwrap_err();
            assert!(why.contains("exists"), "{why}");
        }
        assert!(new_suite(root.path(), "x", "missing").unwrap_err().contains("there is no missing"));
        assert!(new_suite(root.path(), "a/b", "train.py").unwrap_err().contains("cannot be the name of a suite"));
    }

    #[test]
    fn a_case_is_copied_with_its_comments_and_nothing_else_changes() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("s.yaml");
        let text = "ftest: 1\nsuite: s\ncases:\n  - id: one # first\n    launch: { argv: [a] }\n\n  - id: two\n    # why\n    \
                    launch:\n      argv: [b]\n\n  - id: three\n    launch: { argv: [c] }\n";
        fs::write(&file, text).unwrap();
        let said = new_case(&file, "two", "four").unwrap();
        assert!(said.starts_with("added four, a copy of two"), "{said}");
        let expected = text.replace(
            "      argv: [b]\n\n",
            "      argv: [b]\n\n  - id: four\n    # why\n    launch:\n      argv: [b]\n\n",
        );
        assert_eq!(fs::read_to_string(&file).unwrap(), expected);
        new_case(&file, "three", "five").unwrap();
        let end = "  - id: three\n    launch: { argv: [c] }\n\n  - id: five\n    launch: { argv: [c] }\n";
        assert!(fs::read_to_string(&file).unwrap().ends_with(end));
        for (from, id, part) in
            [("two", "two", "a second case `two`"), ("none", "x", "the cases: one, two, four, three")]
        {
            let why = new_case(&file, from, id).unwrap_err();
            assert!(why.contains(part), "{why}");
        }
    }
}
