//! What a repository has: programs that torchrun could start, and what they require.

use std::fs;
use std::path::Path;

use crate::execute::python;

/// What a program that trains on several GPUs calls.
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
/// Directories that hold nobody's own programs.
const FOREIGN: &[&str] = &["node_modules", "site-packages", "build", "dist", "target", "venv", "env", "__pycache__"];
/// Levels of directories that are looked at.
const DEPTH: usize = 4;
/// A larger file is not a program that somebody wrote, bytes.
const LARGEST: u64 = 1 << 20;

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Survey {
    /// Programs, from the repository's root, the likeliest first.
    pub(super) scripts: Vec<String>,
    /// Python packages; PyTorch is always among them.
    pub(super) requirements: Vec<String>,
}

impl Survey {
    /// Looks at the repository at `root`.
    ///
    /// # Errors
    /// One sentence when it cannot be read.
    pub(super) fn of(root: &Path) -> Result<Survey, String> {
        let mut found = Vec::new();
        look(root, "", DEPTH, &mut found).map_err(|error| format!("{}: {error}", root.display()))?;
        // Many marks, near the root, by name.
        found.sort_by_key(|(marks, path): &(usize, String)| {
            (std::cmp::Reverse(*marks), path.matches('/').count(), path.clone())
        });
        let text = fs::read_to_string(root.join("requirements.txt")).unwrap_or_default();
        Ok(Survey { scripts: found.into_iter().map(|(_, path)| path).collect(), requirements: requirements(&text) })
    }
}

fn look(directory: &Path, above: &str, depth: usize, found: &mut Vec<(usize, String)>) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)?.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let (Ok(kind), place) = (entry.file_type(), format!("{above}{name}")) else { continue };
        if name.starts_with('.') {
            continue;
        }
        if kind.is_dir() {
            if depth > 0 && !FOREIGN.contains(&name.as_str()) {
                // What cannot be read is not a program that can be run.
                let _ = look(&entry.path(), &format!("{place}/"), depth - 1, found);
            }
        } else if kind.is_file()
            && name.ends_with(".py")
            && !(name.starts_with("test_") || name.ends_with("_test.py") || name == "conftest.py")
            && entry.metadata().is_ok_and(|meta| meta.len() <= LARGEST)
        {
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            let marks = MARKS.iter().filter(|mark| text.contains(*mark)).count();
            if marks > 0 {
                // A library has the calls, too; a program is started.
                found.push((marks + 10 * usize::from(is_program(&text)), place));
            }
        }
    }
    Ok(())
}

fn is_program(text: &str) -> bool {
    text.contains("__main__") || text.lines().any(|line| line.starts_with("dist.init_process_group"))
}

/// The packages that a requirements file names, with PyTorch. Options and other files are left out.
fn requirements(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| line.split(" #").next().unwrap_or_default().trim());
    let named =
        lines.filter(|line| line.starts_with(|first: char| first.is_ascii_alphanumeric()) && !line.contains(';'));
    let mut packages: Vec<String> = named.map(|line| line.replace(' ', "")).collect();
    let is_torch = |package: &String| {
        package.strip_prefix("torch").is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_alphabetic()))
    };
    // One that is not pinned could be another tomorrow.
    packages.retain(|package| !is_torch(package) || package.contains("=="));
    if !packages.iter().any(is_torch) {
        packages.extend(python::default_requirements().into_iter().filter(is_torch));
    }
    if packages.len() == 1 {
        packages.extend(python::default_requirements().into_iter().filter(|package| !is_torch(package)));
    }
    packages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_come_before_libraries_and_tests_are_left_out() {
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
        write("plain.py", "print(1)");
        write("venv/lib/torch.py", "init_process_group");
        write(".hidden/x.py", "init_process_group");
        let survey = Survey::of(root.path()).unwrap();
        assert_eq!(survey.scripts, ["train.py", "examples/fsdp.py", "lib/wrap.py"]);
        assert!(Survey::of(Path::new("/nowhere")).unwrap_err().starts_with("/nowhere: "));
    }

    #[test]
    fn requirements_have_a_pinned_pytorch() {
        let default = python::default_requirements();
        let torch = default.iter().find(|package| package.starts_with("torch")).unwrap().as_str();
        assert_eq!(requirements(""), [torch, "numpy"]);
        let text = "# a comment\n-r other.txt\n--index-url https://x\ntorch >= 2.1\ntorchvision==0.24.0\n\
                    numpy  # numbers\ntransformers==5.0.0 ; python_version > '3'\n";
        assert_eq!(requirements(text), ["torchvision==0.24.0", "numpy", torch]);
        assert_eq!(requirements("torch==2.9.1\npeft\n"), ["torch==2.9.1", "peft"]);
    }
}
