//! The command line of the drill.

use super::rows::DRILLS;
use super::workspace::Scale;

/// How to call it.
pub const USAGE: &str = "\
usage: cargo xtask drill [--quick | --long] [--only NAME]... [--list]

  --only NAME   only the row of this name, any number of times
  --quick       each row a few times; docs/reliability.md stays as it is
  --long        each row more often, in about an hour
  --list        the names of the rows

All of it takes about 15 minutes on two idle cores after a build, 20 on slow ones. It rewrites the table of
docs/reliability.md row by row, and ends with 1 when a row fails.";

/// The options on the command line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) only: Vec<String>,
    pub(super) scale: Scale,
    pub(super) list: bool,
}

impl Options {
    pub(super) fn read(arguments: &[String]) -> Result<Options, String> {
        let mut options = Options::default();
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--quick" => options.scale = Scale::Quick,
                "--long" => options.scale = Scale::Long,
                "--list" => options.list = true,
                "--only" => {
                    let name = words.next().ok_or("--only wants the name of a row")?;
                    if !DRILLS.iter().any(|drill| drill.name == name) {
                        return Err(format!("there is no row `{name}`; --list shows them"));
                    }
                    options.only.push(name.clone());
                }
                other => return Err(format!("`{other}` is not known\n{USAGE}")),
            }
        }
        Ok(options)
    }
}
