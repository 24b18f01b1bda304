//! Chores of the repository. `cargo xtask help` lists them.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use xtask::architecture::{self, Crate};
use xtask::{drill, pictures, regen, times, tutorial};

const HELP: &str = "\
Chores of the repository:

  cargo xtask regen [NAME]...   rewrite every generated file; --check lists the stale ones, --list names the groups
  cargo xtask check             formatting, clippy and the documentation of the code, as CI checks them
  cargo xtask ci [STEP]...      everything that has to pass before a change lands: .ci/run; the step `release`, which
                                builds what users have, runs only when it is named
  cargo xtask bench [NAME]...   the benchmarks of docs/speed.md: all_reduce, nccl, ranks, torch, compute,
                                kernels, records, tls, overhead, runner, warm
  cargo xtask drill             the reliability drill: 15 minutes, rewrites docs/reliability.md; --quick, --long, --only NAME, --list
  cargo xtask pictures          run docs/example and redraw docs/terminal.svg and docs/report.png
  cargo xtask tutorial          follow docs/tutorial.md and compare what its commands print
  cargo xtask times --cases FILE   modeled times of collectives for published tables; --errors, --calibrate
  cargo xtask circles ROOT...   import circles between the files of a crate; ROOT is its lib.rs";

/// Steps of `.ci/run` that need no program of ours.
const CHECKS: [&str; 3] = ["format", "clippy", "rustdoc"];

/// The benchmarks: their names and commands.
const BENCHES: &[(&str, &str)] = &[
    ("all_reduce", "cargo build --release -p coordinator && cargo bench -p shim --bench all_reduce"),
    ("nccl", "./ftest bench"),
    (
        "ranks",
        "for operation in all_reduce ring all_to_all; do for ranks in 2 4 8 32 128 512 1024; do \
         ./ftest exec --profile a100 --device-count $ranks -- fixture-many-ranks $operation $ranks $((51200 / ranks)) \
         | grep op/s || exit 1; done; done",
    ),
    ("torch", "./ftest exec --profile a100 --device-count 4 -- torchrun --nproc-per-node 4 benches/collectives.py"),
    ("compute", "./ftest exec --profile a100 -- python benches/compute.py"),
    (
        "kernels",
        "FTEST_PYTHON=\"$(./ftest env path torch==2.15.0 triton numpy)/bin/python\" ./ftest exec --profile a100 -- python benches/kernels.py",
    ),
    ("records", "cargo bench -p model --bench records"),
    ("tls", "cargo bench -p dataplane --bench tls"),
    ("overhead", "./ftest --version && python3 benches/overhead.py"),
    ("runner", "./ftest --version && python3 benches/runner.py"),
    ("warm", "./ftest --version && python3 benches/warm.py --suites"),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let root = root();
    let done = match arguments.split_first() {
        Some((command, roots)) if command == "circles" => circles(roots),
        Some((command, rest)) if command == "drill" => drill::run(&root, rest),
        Some((command, rest)) if command == "regen" => regen::run(&root, rest),
        Some((command, rest)) if command == "times" => times::run(&root, rest),
        Some((command, [])) if command == "tutorial" => tutorial::run(&root),
        Some((command, [])) if command == "pictures" => pictures::run(&root).map(|()| true),
        Some((command, [])) if command == "check" => command_succeeds(Command::new(".ci/run").args(CHECKS), &root),
        Some((command, steps)) if command == "ci" => command_succeeds(Command::new(".ci/run").args(steps), &root),
        Some((command, names)) if command == "bench" => bench(&root, names),
        Some((command, _)) if command == "help" => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        _ => Err(HELP.to_owned()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::from(2)
        }
    }
}

/// The repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).unwrap_or_default()
}

fn bench(root: &Path, names: &[String]) -> Result<bool, String> {
    if let Some(unknown) = names.iter().find(|name| !BENCHES.iter().any(|(known, _)| known == name)) {
        let known: Vec<&str> = BENCHES.iter().map(|(name, _)| *name).collect();
        return Err(format!("`{unknown}` is not a benchmark; there are {}", known.join(", ")));
    }
    let wanted = BENCHES.iter().filter(|(name, _)| names.is_empty() || names.iter().any(|wanted| wanted == name));
    shell_each(root, wanted.map(|(_, line)| *line))
}

/// Runs the lines one after the other, and stops at the first that fails.
fn shell_each<'a>(root: &Path, lines: impl Iterator<Item = &'a str>) -> Result<bool, String> {
    for line in lines {
        eprintln!("$ {line}");
        if !command_succeeds(Command::new("sh").args(["-c", line]), root)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn command_succeeds(command: &mut Command, root: &Path) -> Result<bool, String> {
    regen::forget_package(command);
    let status = command.current_dir(root).status();
    status.map(|status| status.success()).map_err(|error| format!("{}: {error}", command.get_program().display()))
}

fn circles(roots: &[String]) -> Result<bool, String> {
    let mut none = true;
    for root in roots {
        let krate = Crate::read(Path::new(root)).map_err(|error| error.to_string())?;
        for circle in architecture::circles(&krate) {
            none = false;
            println!("{root}: {circle}");
        }
    }
    Ok(none)
}
