//! Chores of the repository. `cargo xtask help` lists them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use xtask::architecture::{self, Crate};
use xtask::drill;

const HELP: &str = "\
Chores of the repository:

  cargo xtask circles ROOT...   import circles between the files of a crate; ROOT is its lib.rs
  cargo xtask drill             the reliability drill: 20 minutes, rewrites docs/reliability.md; --quick, --only NAME, --list";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((command, roots)) if command == "circles" => circles(roots),
        Some((command, rest)) if command == "drill" => match drill::run(&root(), rest) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => {
                eprintln!("xtask: {error}");
                ExitCode::from(2)
            }
        },
        Some((command, _)) if command == "help" => {
            println!("{HELP}");
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("{HELP}");
            ExitCode::from(2)
        }
    }
}

/// The repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).unwrap_or_default()
}

fn circles(roots: &[String]) -> ExitCode {
    let mut found = false;
    for root in roots {
        let krate = match Crate::read(Path::new(root)) {
            Ok(krate) => krate,
            Err(error) => {
                eprintln!("xtask: {error}");
                return ExitCode::from(2);
            }
        };
        for circle in architecture::circles(&krate) {
            found = true;
            println!("{root}: {circle}");
        }
    }
    if found { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
