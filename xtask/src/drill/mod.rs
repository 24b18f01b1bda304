//! `cargo xtask drill`: tries many times, on real processes, what must hold when everything around ftest fails, and writes
//! the results to the table in docs/reliability.md.

mod attempts;
mod command;
mod crowds;
mod deaths;
mod disk;
mod injection;
mod options;
mod repeated;
mod rows;
mod strangers;
mod suites;
mod surroundings;
mod table;
mod tally;
mod warm;
mod workspace;

use std::path::Path;
use std::time::Instant;

use options::Options;
use rows::{DRILLS, Drill};
use tally::{Row, Tally};
use workspace::{Scale, Workspace};

pub use options::USAGE;

/// Runs the drill. True when every row holds.
///
/// # Errors
/// The command line is wrong, ftest cannot be built, or the table cannot be written.
pub fn run(root: &Path, arguments: &[String]) -> Result<bool, String> {
    let options = Options::read(arguments)?;
    if options.list {
        DRILLS.iter().for_each(|drill| println!("{:22} {}", drill.name, drill.tries));
        return Ok(true);
    }
    workspace::build(root)?;
    let began = Instant::now();
    let order: Vec<&str> = DRILLS.iter().map(|drill| drill.name).collect();
    let mut rows = Vec::new();
    for drill in DRILLS.iter().filter(|drill| options.only.is_empty() || options.only.iter().any(|n| n == drill.name)) {
        let row = one(root, drill, options.scale)?;
        if options.scale != Scale::Quick {
            table::write(&root.join("docs/reliability.md"), &row, &order)?;
        }
        rows.push(row);
    }
    let failed = rows.iter().filter(|row| row.tally.failed()).count();
    println!("{} rows, {failed} failed, {}", rows.len(), tally::time(began.elapsed()));
    Ok(failed == 0)
}

fn one(root: &Path, drill: &Drill, scale: Scale) -> Result<Row, String> {
    eprintln!("{}: {}", drill.name, drill.tries);
    let began = Instant::now();
    let workspace = Workspace::new(root, scale)?;
    let mut tally = (drill.run)(&workspace).unwrap_or_else(Tally::could_not_run);
    let left = workspace.left();
    if !left.is_empty() {
        tally.fault(format!("left behind: {}", left.join(", ")));
    }
    let row = Row { name: drill.name, tries: drill.tries, tally, took: began.elapsed() };
    println!("{row}");
    if row.tally.failed() {
        let kept = workspace.keep();
        eprintln!("  again: cargo xtask drill --only {}\n  files: {}", drill.name, kept.display());
    }
    Ok(row)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn rows_have_names_of_their_own_and_the_options_know_them() {
        let names: BTreeSet<&str> = DRILLS.iter().map(|drill| drill.name).collect();
        assert_eq!(names.len(), DRILLS.len());
        let read = |words: &[&str]| Options::read(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(
            read(&["--only", "fuzz", "--quick"]).unwrap(),
            Options { only: vec!["fuzz".into()], scale: Scale::Quick, list: false }
        );
        assert_eq!((read(&[]).unwrap().scale, read(&["--long"]).unwrap().scale), (Scale::Usual, Scale::Long));
        assert!(read(&["--only", "fizz"]).unwrap_err().contains("no row `fizz`"));
        assert!(read(&["--only"]).is_err() && read(&["--fast"]).is_err());
    }
}
