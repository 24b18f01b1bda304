//! `ftest init` in a small repository.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::environments::stand_in::STAND_IN;
use crate::executable;

fn init(root: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ftest"));
    command.arg("init").args(arguments).current_dir(root).stdin(Stdio::null());
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

#[test]
fn a_repository_gets_a_suite_that_is_right_and_nothing_is_overwritten() {
    let root = tempfile::tempdir().unwrap();
    let program = "import numpy\np.add_argument('--epochs', type=int)\ndist.init_process_group('nccl')\n";
    std::fs::write(root.path().join("train.py"), program).unwrap();
    std::fs::write(root.path().join("requirements.txt"), "torch==2.9.1\npeft\n").unwrap();
    std::fs::write(root.path().join("test_sum.py"), "@pytest.mark.cluster(gpus_per_node=2)\ndef test_sum(): pass\n")
        .unwrap();
    let (code, said) = init(root.path(), &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("found test_sum.py: `ftest test_sum.py` runs its tests"), "{said}");
    assert!(said.contains("wrote clusters/small.yaml: one node with 2 GPUs"), "{said}");
    assert!(said.contains("wrote suites/training.yaml: train.py --epochs 1 on one node with 2 GPUs"), "{said}");
    assert!(said.contains("next: ftest suites/training.yaml"), "{said}");
    let read = |path: &str| std::fs::read_to_string(root.path().join(path)).unwrap();
    let suite = read("suites/training.yaml");
    assert!(suite.contains("cwd: ..\n") && suite.contains("script: train.py, args: [--epochs, '1']"), "{suite}");
    assert!(suite.contains("python: { requirements: ../requirements.txt, packages: [numpy] }"), "{suite}");
    let workflow = read(".github/workflows/ftest.yml");
    assert!(workflow.contains("run: ftest suites/training.yaml --no-fail-fast"));
    assert!(
        workflow.contains("pip install \"${FTEST_WHEEL:?") && !workflow.contains("pip install ftest"),
        "{workflow}"
    );
    let checked = Command::new(env!("CARGO_BIN_EXE_ftest"))
        .args(["check", "--deny-warnings", "training"])
        .current_dir(root.path())
        .output()
        .unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));

    std::fs::write(root.path().join("suites/training.yaml"), "mine").unwrap();
    let (code, said) = init(root.path(), &[]);
    assert_eq!(code, Some(2));
    assert!(said.contains("already exists; nothing was written"), "{said}");
    assert_eq!(read("suites/training.yaml"), "mine");
}

#[test]
fn a_repository_without_a_program_gets_one_to_start_from() {
    let root = tempfile::tempdir().unwrap();
    let (code, said) = init(root.path(), &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("no program found in .") && said.contains("wrote suites/example.py"), "{said}");
    let checked = Command::new(env!("CARGO_BIN_EXE_ftest"))
        .args(["check", "--deny-warnings", "training"])
        .current_dir(root.path())
        .output()
        .unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn yes_also_runs_the_suite() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("train.py"), "dist.init_process_group('nccl')\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ftest"));
    // Nothing that could run the program, so that the cases are over at once.
    command
        .args(["init", "--yes"])
        .current_dir(root.path())
        .env("FTEST_PYTHON", "/nowhere/python")
        .stdin(Stdio::null());
    let output = command.env("TMPDIR", root.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("broken") && said.contains("training/trains"), "{said}");
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn packages_that_the_program_asks_for_are_added_until_it_runs() {
    // A torchrun whose program wants two modules, the second of them in a library's words.
    let torchrun = "*torch.distributed.run*)
        grep -q '^install .*requests' \"$LOG\" || { echo \"ModuleNotFoundError: No module named 'requests'\" >&2; exit 1; }
        grep -q '^install .*mine' \"$LOG\" || { echo 'ImportError: no logger. Try `pip install mine`' >&2; exit 1; }
        exit 0 ;;
    *never*)";
    let pip = "*install*)
        for word; do file=$word; done
        if [ -n \"${REFUSES-}\" ] && grep -q \"$REFUSES\" \"$file\"; then echo \"no $REFUSES in the index\" >&2; exit 1; fi";
    let stand_in = STAND_IN.replace("*torch.distributed.run*)", torchrun).replace("*install*)", pip);
    let run = |variables: &[(&str, &str)]| {
        let root = tempfile::tempdir().unwrap();
        for directory in ["bin", "home", "own"] {
            std::fs::create_dir(root.path().join(directory)).unwrap();
        }
        executable::write(&root.path().join("bin/python3"), &stand_in);
        std::fs::write(root.path().join("own/train.py"), "import torch\nx.cuda()\nif __name__ == '__main__': main()\n")
            .unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ftest"));
        command.args(["init", "--yes"]).current_dir(root.path().join("own")).stdin(Stdio::null()).env_clear();
        command.env("LOG", root.path().join("log")).env("HOME", root.path().join("home"));
        command.env("PATH", format!("{}:/usr/bin:/bin", root.path().join("bin").display()));
        let output = command.envs(variables.iter().copied()).output().unwrap();
        let suite = std::fs::read_to_string(root.path().join("own/suites/training.yaml")).unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (output.status.code(), said, suite)
    };
    let (code, said, suite) = run(&[]);
    let added = "added `requests`, which the program imports and its requirements leave out";
    assert_eq!((code, said.matches("added `").count()), (Some(1), 2), "{said}");
    // With both, it ends with code 0, and has done nothing.
    let last = said.rsplit("added `").next().unwrap_or_default();
    assert!(last.contains("devices[*].alloc.calls") && !last.contains("got:      code"), "{said}");
    assert!(said.contains(added) && said.contains("added `mine`, which an error of the program asks for"), "{said}");
    assert!(suite.contains(", requests, mine]\n"), "{suite}");

    // What cannot be installed would keep the rest from being started.
    let (code, said, suite) = run(&[("REFUSES", "mine")]);
    assert_eq!((code, said.matches("added `").count()), (Some(3), 2), "{said}");
    assert!(said.contains("took `mine` out of suites/training.yaml again"), "{said}");
    assert!(suite.contains(", requests]\n"), "{suite}");
}
