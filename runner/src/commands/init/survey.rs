//! Surveys a repository: programs that torchrun could start, pytest tests for them, and their requirements.

use std::fs;
use std::path::Path;

use crate::case::python::package;
use crate::execute::python;
use crate::host::version::{Range, Version};
use crate::suite::requirements;

/// Calls that mark a program as training on several GPUs.
const MARKS: &[&str] = &[
    "init_process_group",
    "DistributedDataParallel",
    "FullyShardedDataParallel",
    "fully_shard",
    "init_device_mesh",
    "Accelerator(",
    "import lightning",
    "import deepspeed",
];
/// Directories that never hold the repository's own programs.
const FOREIGN: &[&str] = &["node_modules", "site-packages", "build", "dist", "target", "venv", "env", "__pycache__"];
/// Directory levels that are searched.
const DEPTH: usize = 4;
/// Bytes; a larger file is not a hand-written program.
const LARGEST: u64 = 1 << 20;

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Survey {
    /// Programs, from the repository's root, the likeliest first.
    pub(super) scripts: Vec<String>,
    /// pytest files with tests that run on every rank, by path.
    pub(super) suites: Vec<String>,
    /// pytest files that use several GPUs in another way, by path.
    pub(super) tests: Vec<String>,
    /// The value of `python` in a suite, with PyTorch.
    pub(super) python: String,
}

impl Survey {
    /// Looks at the repository at `root`.
    ///
    /// # Errors
    /// One sentence if it cannot be read.
    pub(super) fn of(root: &Path) -> Result<Survey, String> {
        let mut found = Found::default();
        look(root, "", DEPTH, &mut found).map_err(|error| format!("{}: {error}", root.display()))?;
        let Found { mut programs, mut suites, mut tests } = found;
        // Sorts by many marks, then nearness to the root, then name.
        programs.sort_by_key(|(marks, path)| (std::cmp::Reverse(*marks), path.matches('/').count(), path.clone()));
        suites.sort();
        tests.sort();
        Ok(Survey {
            scripts: programs.into_iter().map(|(_, path)| path).collect(),
            suites,
            tests,
            python: python(root),
        })
    }
}

/// Files, in the order of their directories.
#[derive(Default)]
struct Found {
    /// Programs and the number of marks in each.
    programs: Vec<(usize, String)>,
    suites: Vec<String>,
    tests: Vec<String>,
}

fn look(directory: &Path, above: &str, depth: usize, found: &mut Found) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)?.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let (Ok(kind), place) = (entry.file_type(), format!("{above}{name}")) else { continue };
        if name.starts_with('.') {
            continue;
        }
        if kind.is_dir() {
            if depth > 0 && !FOREIGN.contains(&name.as_str()) {
                // A file that cannot be read is not a program that can be run.
                let _ = look(&entry.path(), &format!("{place}/"), depth - 1, found);
            }
        } else if kind.is_file()
            && name.ends_with(".py")
            && name != "conftest.py"
            && entry.metadata().is_ok_and(|meta| meta.len() <= LARGEST)
        {
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            let marks = MARKS.iter().filter(|mark| text.contains(*mark)).count();
            if name.starts_with("test_") || name.ends_with("_test.py") {
                if text.contains("pytest.mark.cluster") {
                    found.suites.push(place);
                } else if marks > 0 {
                    found.tests.push(place);
                }
            } else if marks > 0 {
                // A library makes these calls, too, but a program can be started.
                found.programs.push((marks + 10 * usize::from(is_program(&text)), place));
            }
        }
    }
    Ok(())
}

fn is_program(text: &str) -> bool {
    text.contains("__main__") || text.lines().any(|line| line.starts_with("dist.init_process_group"))
}

/// The value of `python` in the suite: the repository's stated requirements, or ftest's default ones.
pub(in crate::commands) fn python(root: &Path) -> String {
    let file = requirements::of_file(&root.join("requirements.txt")).ok().filter(|lines| !lines.is_empty());
    if let Some(lines) = file {
        return format!("{{ requirements: ../requirements.txt{} }}", with_torch(&lines));
    }
    match requirements::of_project(root, &[]) {
        Ok(lines) => format!("{{ project: ..{} }}", with_torch(&lines)),
        Err(_) => format!("[{}]", python::default_requirements().join(", ")),
    }
}

/// Pins PyTorch to the default version, unless `lines` pin another or exclude this one: an unpinned version could
/// change tomorrow.
fn with_torch(lines: &[String]) -> String {
    let Some(usual) = python::default_requirements().into_iter().find(|one| package(one) == "torch") else {
        return String::new();
    };
    let version = usual.rsplit('=').next().unwrap_or_default();
    let admits = |line: &&String| {
        let specifiers = line.trim_start_matches("-c ")["torch".len()..].split(';').next().unwrap_or_default().trim();
        let holds = |range: Range| version.parse().is_ok_and(|version: Version| range.holds(&version));
        specifiers.is_empty() || !specifiers.contains("==") && Range::parse(specifiers).is_ok_and(holds)
    };
    let mut named = lines.iter().filter(|line| package(line.trim_start_matches("-c ")) == "torch");
    if named.all(|line| admits(&line)) { format!(", packages: [{usual}]") } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_come_before_libraries_and_tests_are_apart() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("lib/wrap.py", "DistributedDataParallel fully_shard init_device_mesh");
        write(
            "train.py",
            "dist.init_process_group('nccl')\nDistributedDataParallel(m)\nif __name__ == '__main__': main()",
        );
        write("examples/fsdp.py", "fully_shard(m)\nif __name__ == '__main__': main()");
        write("tests/test_train.py", "dist.init_process_group('gloo')");
        write("tests/test_sum.py", "@pytest.mark.cluster(gpus_per_node=2)\ndef test_sum(rank): pass");
        write("tests/test_plain.py", "def test_plain(): pass");
        write("plain.py", "print(1)");
        write("venv/lib/torch.py", "init_process_group");
        write(".hidden/x.py", "init_process_group");
        let survey = Survey::of(root.path()).unwrap();
        assert_eq!(survey.scripts, ["train.py", "examples/fsdp.py", "lib/wrap.py"]);
        assert_eq!(
            (survey.suites, survey.tests),
            (vec!["tests/test_sum.py".into()], vec!["tests/test_train.py".into()])
        );
        assert!(Survey::of(Path::new("/nowhere")).unwrap_err().starts_with("/nowhere: "));
    }

    #[test]
    fn what_the_repository_requires_comes_with_a_pinned_pytorch() {
        let default = python::default_requirements();
        let torch = default.iter().find(|line| line.starts_with("torch")).unwrap().as_str();
        let of = |file: &str, text: &str| {
            let root = tempfile::tempdir().unwrap();
            fs::write(root.path().join(file), text).unwrap();
            python(root.path())
        };
        let requirements = |text: &str| of("requirements.txt", text);
        assert_eq!(requirements("# nothing\n"), format!("[numpy, {torch}]"));
        assert_eq!(requirements("torch==2.9.1\npeft\n"), "{ requirements: ../requirements.txt }");
        assert_eq!(requirements("torch<2.12\n"), "{ requirements: ../requirements.txt }");
        let pinned = format!("{{ requirements: ../requirements.txt, packages: [{torch}] }}");
        for text in ["torch >= 2.1 ; python_version > '3'\n", "torchvision==0.24.0\nnumpy  # numbers\n", "torch\n"] {
            assert_eq!(requirements(text), pinned, "{text}");
        }
        let project = of("pyproject.toml", "[project]\nname = 'x'\ndependencies = ['torch']\n");
        assert_eq!(project, format!("{{ project: .., packages: [{torch}] }}"));
    }
}
