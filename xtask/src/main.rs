//! Chores of the repository. `cargo xtask help` lists them.

use std::path::Path;
use std::process::ExitCode;

use xtask::architecture::{self, Crate};

const HELP: &str = "\
Chores of the repository:

  cargo xtask circles ROOT...   import circles between the files of a crate; ROOT is its lib.rs";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((command, roots)) if command == "circles" => circles(roots),
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
