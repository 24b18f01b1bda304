//! `cargo xtask times`: what the time model says of published measurements, and how far off it is.

mod calibrate;
mod hardware;
mod plot;
mod published;
mod sizes;
mod table;

use std::path::Path;

use timing::physics::Physics;

use published::Case;

/// Published tables, with their sources.
const PUBLISHED: &str = "benches/published/nccl.json";

const HELP: &str = "\
Times of collectives by model v2:

  cargo xtask times --cases FILE [--output FILE]   predict every size of every case or table of FILE as CSV
                                                   (case,size,predicted_us); to stdout without --output
  cargo xtask times --errors [FILE]                the error of each published table, as Markdown; without FILE those of
                                                   benches/published/nccl.json
  cargo xtask times --calibrate                    find the parameters of the model again, from the same tables";

/// Runs the chore.
///
/// # Errors
/// A file that cannot be read or written, or a wrong command line.
pub fn run(root: &Path, arguments: &[String]) -> Result<bool, String> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let published = root.join(PUBLISHED);
    match arguments.as_slice() {
        ["--cases", cases] => {
            print!("{}", predictions(&published::read(Path::new(cases))?)?);
            Ok(true)
        }
        ["--cases", cases, "--output", output] => {
            let text = predictions(&published::read(Path::new(cases))?)?;
            std::fs::write(output, text).map_err(|error| format!("{output}: {error}"))?;
            Ok(true)
        }
        ["--errors"] => {
            print!("{}", table::markdown(&published::read(&published)?));
            Ok(true)
        }
        ["--errors", tables] => {
            print!("{}", table::markdown(&published::read(Path::new(tables))?));
            Ok(true)
        }
        ["--calibrate"] => {
            calibrate::run(&published::read(&published)?);
            Ok(true)
        }
        _ => Err(HELP.to_owned()),
    }
}

/// The CSV of what the model says.
fn predictions(cases: &[Case]) -> Result<String, String> {
    let physics = Physics::default();
    let mut text = String::from("case,size,predicted_us\n");
    for case in cases {
        for row in &case.rows {
            let us = case.predict(&physics, row.bytes).ok_or_else(|| format!("{}: no algorithm is left", case.id))?;
            text.push_str(&format!("{},{},{us:.3}\n", case.id, row.bytes));
        }
    }
    Ok(text)
}

/// The tables that are in the repository, and what docs/time.md shows of them.
pub struct Pictures {
    /// The error of every table, as Markdown.
    pub table: String,
    /// Modeled against measured times, as an SVG.
    pub plot: String,
}

/// Draws both.
///
/// # Errors
/// The file of tables cannot be read.
pub fn pictures(root: &Path) -> Result<Pictures, String> {
    let cases = published::read(&root.join(PUBLISHED))?;
    Ok(Pictures { table: table::markdown(&cases), plot: plot::svg(&cases) })
}
