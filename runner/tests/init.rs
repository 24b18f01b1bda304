//! `ftest init` in a small repository.

use std::path::Path;
use std::process::{Command, Stdio};

fn init(root: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ftest"));
    command.arg("init").args(arguments).current_dir(root).stdin(Stdio::null());
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

#[test]
fn a_repository_gets_a_suite_that_is_right_and_nothing_is_overwritten() {
    let root = tempfile::tempdir().unwrap();
    let (code, said) = init(root.path(), &["--yes"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("no program found in .") && !root.path().join("suites").exists(), "{said}");

    std::fs::write(root.path().join("train.py"), "dist.init_process_group('nccl')\n").unwrap();
    std::fs::write(root.path().join("requirements.txt"), "torch==2.9.1\npeft\n").unwrap();
    let (code, said) = init(root.path(), &["--yes"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("wrote suites/training.yaml: train.py on one node with 2 GPUs"), "{said}");
    assert!(said.contains("next: ftest suites/training.yaml"), "{said}");
    let read = |path: &str| std::fs::read_to_string(root.path().join(path)).unwrap();
    assert!(read("suites/training.yaml").contains("python: { requirements: ../requirements.txt }"));
    assert!(read(".github/workflows/ftest.yml").contains("ftest suites/training.yaml"));
    let checked = Command::new(env!("CARGO_BIN_EXE_ftest"))
        .args(["check", "--deny-warnings", "training"])
        .current_dir(root.path())
        .output()
        .unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));

    std::fs::write(root.path().join("suites/training.yaml"), "mine").unwrap();
    let (code, said) = init(root.path(), &[]);
    assert_eq!(code, Some(2));
    assert!(said.contains("already there: nothing is written"), "{said}");
    assert_eq!(read("suites/training.yaml"), "mine");
}
