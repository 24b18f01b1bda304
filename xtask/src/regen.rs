//! `cargo xtask regen`: rewrites every committed file that is generated from code, or reports which are stale.

use std::path::Path;
use std::process::{Command, Stdio};

/// How to call it.
pub const USAGE: &str = "\
usage: cargo xtask regen [--check] [--list] [NAME]...

  NAME      only these groups of files; all of them by default
  --check   change nothing; list what is stale and exit with 1
  --list    the groups and their files

Look at `git diff` before you commit what was rewritten.";

/// If this variable is set, the tests write the files that they otherwise compare.
const VARIABLE: &str = "FTEST_REGEN";

/// Files that one set of tests owns: the tests compare them with the code, or write them if [`VARIABLE`] is set.
struct Group {
    name: &'static str,
    /// The generated files, below the repository.
    files: &'static [&'static str],
    /// What they are generated from.
    from: &'static str,
    /// Arguments of `cargo test`.
    tests: &'static [&'static str],
    /// Whether the tests run the programs of a whole build.
    programs: bool,
}

const GROUPS: &[Group] = &[
    Group {
        name: "environment",
        files: &["docs/environment.md"],
        from: "the table of protocol/src/env.rs",
        tests: &["-p", "protocol", "--test", "integration", "environment_page::"],
        programs: false,
    },
    Group {
        name: "report-schema",
        files: &["schema/cluster_report.v1.json"],
        from: "the types of protocol/src/report",
        tests: &["-p", "model", "--test", "cluster", "report_schema::"],
        programs: false,
    },
    Group {
        name: "operations-schema",
        files: &["schema/operations.v1.json"],
        from: "the types of protocol/src/operations.rs",
        tests: &["-p", "model", "--test", "cluster", "operations_schema::"],
        programs: false,
    },
    Group {
        name: "model-scripts",
        files: &["model/tests/scripts"],
        from: "what the cluster model answers",
        tests: &["-p", "model", "--test", "cluster", "scripts::"],
        programs: false,
    },
    Group {
        name: "exports",
        files: &["shim/exports"],
        from: "the tables of shim/src; needs-*.txt from wheels, as shim/tests/exports.rs says",
        tests: &["-p", "shim", "--test", "integration", "exports::"],
        programs: false,
    },
    Group {
        name: "kernels",
        files: &["docs/kernels.md"],
        from: "the table of ptx/tests/support.rs",
        tests: &["-p", "ptx", "--test", "integration", "support::"],
        programs: false,
    },
    Group {
        name: "time",
        files: &["docs/time.md", "docs/time.svg"],
        from: "the time model and benches/published/nccl.json",
        tests: &["-p", "xtask", "--test", "integration", "times::"],
        programs: false,
    },
    Group {
        name: "docs",
        files: &[
            "docs/suite.schema.json",
            "schema/events.v1.json",
            "docs/suites.md",
            "docs/suites-reference.md",
            "docs/cli.md",
            "docs/reports.md",
            "docs/findings.md",
        ],
        from: "the suite language, the event types and the command line of runner/src and commands/src",
        tests: &["-p", "commands", "--test", "integration", "docs::"],
        programs: false,
    },
    Group {
        name: "outcomes",
        files: &["commands/tests/cases"],
        from: "what ftest prints for the suites there, and its exit codes",
        tests: &["-p", "commands", "--test", "integration", "outcomes::"],
        programs: true,
    },
];

/// The options on the command line.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    check: bool,
    list: bool,
    only: Vec<String>,
}

impl Options {
    fn read(arguments: &[String]) -> Result<Options, String> {
        let mut options = Options::default();
        for word in arguments {
            match word.as_str() {
                "--check" => options.check = true,
                "--list" => options.list = true,
                name if GROUPS.iter().any(|group| group.name == name) => options.only.push(name.to_owned()),
                other => {
                    let names: Vec<&str> = GROUPS.iter().map(|group| group.name).collect();
                    return Err(format!("`{other}` is not an option or one of {}\n{USAGE}", names.join(", ")));
                }
            }
        }
        Ok(options)
    }

    fn wants(&self, group: &Group) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == group.name)
    }
}

/// Rewrites the groups that the command line names, or checks them. True if all could be rewritten, or none is stale.
///
/// # Errors
/// The command line is wrong, or cargo or git cannot be started.
pub fn run(root: &Path, arguments: &[String]) -> Result<bool, String> {
    let options = Options::read(arguments)?;
    let groups: Vec<&Group> = GROUPS.iter().filter(|group| options.wants(group)).collect();
    if options.list {
        for group in groups {
            println!("{:14} {}\n{:14} from {}", group.name, group.files.join(", "), "", group.from);
        }
        return Ok(true);
    }
    let mut failed = Vec::new();
    for group in &groups {
        eprintln!("{}: {}", group.name, group.files.join(", "));
        if !test(root, group, options.check)? {
            failed.push(group.name);
        }
    }
    if options.check {
        if !failed.is_empty() {
            println!("stale: {}; run `cargo xtask regen {}`", failed.join(", "), failed.join(" "));
        }
    } else {
        let changed = changed(root, &groups)?;
        if changed.is_empty() {
            println!("nothing differs from the last commit");
        }
        changed.iter().for_each(|line| println!("{line}"));
        if !failed.is_empty() {
            println!("could not be rewritten: {}; the tests above say why", failed.join(", "));
        }
    }
    Ok(failed.is_empty())
}

/// A cargo command in the repository.
fn cargo(root: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(words).current_dir(root).stdin(Stdio::null()).stderr(Stdio::inherit()).env_remove(VARIABLE);
    forget_package(&mut command);
    command
}

/// Removes the variables with which cargo describes this package to its programs. A build script that reads them would run
/// again, and everything that depends on it would be recompiled.
pub fn forget_package(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name == "CARGO_MANIFEST_DIR" || name.to_string_lossy().starts_with("CARGO_PKG_") {
            command.env_remove(name);
        }
    }
}

/// Runs the tests of `group`; with `check` they compare. Their output is shown only when they fail.
fn test(root: &Path, group: &Group, check: bool) -> Result<bool, String> {
    if group.programs {
        let built = cargo(root, &["build", "--quiet", "--locked"]).status();
        if !built.map_err(|error| format!("cargo build: {error}"))?.success() {
            return Ok(false);
        }
    }
    let mut command = cargo(root, &["test", "--quiet", "--locked", "--no-fail-fast"]);
    command.args(group.tests);
    if !check {
        command.env(VARIABLE, "1");
    }
    let output = command.output().map_err(|error| format!("cargo test: {error}"))?;
    if !output.status.success() {
        eprintln!("{}", String::from_utf8_lossy(&output.stdout));
    }
    Ok(output.status.success())
}

/// The generated files that differ from the last commit, as git prints them.
fn changed(root: &Path, groups: &[&Group]) -> Result<Vec<String>, String> {
    let files = groups.iter().flat_map(|group| group.files);
    let words = ["status", "--porcelain", "--untracked-files=all", "--"];
    let listed = duct::cmd("git", words.iter().chain(files)).dir(root).read();
    Ok(listed.map_err(|error| format!("git status: {error}"))?.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    #[test]
    fn groups_have_names_of_their_own_and_files_that_exist() {
        let names: BTreeSet<&str> = GROUPS.iter().map(|group| group.name).collect();
        assert_eq!(names.len(), GROUPS.len());
        for file in GROUPS.iter().flat_map(|group| group.files) {
            assert!(root().join(file).exists(), "{file}");
        }
    }

    /// Tests that every test that can write its files is in a group, so that `regen` leaves none out.
    #[test]
    fn every_test_that_reads_the_variable_is_in_a_group() {
        let mut readers = BTreeSet::new();
        let crates = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path().join("tests"));
        let mut directories: Vec<PathBuf> = crates.filter(|tests| tests.is_dir()).collect();
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    directories.push(path);
                } else if path.extension().is_some_and(|ending| ending == "rs")
                    && fs::read_to_string(&path).unwrap().contains(VARIABLE)
                {
                    // A module of several files has the name of their directory.
                    let name = if path.ends_with("mod.rs") { path.parent().unwrap() } else { &path };
                    readers.insert(format!("{}::", name.file_stem().unwrap().to_string_lossy()));
                }
            }
        }
        let run: BTreeSet<String> =
            GROUPS.iter().map(|group| group.tests.last().expect("a test").to_string()).collect();
        assert_eq!(readers, run);
    }

    #[test]
    fn the_command_line_is_read() {
        let read = |words: &[&str]| Options::read(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(
            read(&["--check", "docs"]).unwrap(),
            Options { check: true, list: false, only: vec!["docs".into()] }
        );
        assert!(read(&["dogs"]).unwrap_err().contains("one of environment, report-schema"));
    }
}
