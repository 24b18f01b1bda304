//! `cargo xtask drill`: what must hold when everything around ftest fails, tried many times on real processes, and the table
//! of docs/reliability.md with what came of it.

mod crowds;
mod deaths;
mod disk;
mod injection;
mod repeated;
mod strangers;
mod suites;
mod surroundings;
mod table;
mod tally;
mod warm;
mod workspace;

use std::path::Path;
use std::time::{Duration, Instant};

use tally::{Row, Tally};
use workspace::{Scale, Workspace};

/// How to call it.
pub const USAGE: &str = "\
usage: cargo xtask drill [--quick | --long] [--only NAME]... [--list]

  --only NAME   only the row of this name, any number of times
  --quick       each row a few times; docs/reliability.md stays as it is
  --long        each row more often, in about an hour
  --list        the names of the rows

All of it takes about 15 minutes on two idle cores after a build, 20 on slow ones. It rewrites the table of
docs/reliability.md row by row, and ends with 1 when a row fails.";

/// One row of the table.
struct Drill {
    name: &'static str,
    /// What is tried, as the table has it.
    tries: &'static str,
    run: fn(&Workspace) -> Result<Tally, String>,
}

const DRILLS: &[Drill] = &[
    Drill {
        name: "strangers-coordinator",
        tries: "connections to the coordinator that send nothing, garbage, a trickle, too much or a wrong token, while four \
                ranks wait, then work",
        run: strangers::coordinator,
    },
    Drill {
        name: "strangers-ranks",
        tries: "the same on the data ports of four ranks at work over sockets",
        run: strangers::ranks,
    },
    Drill {
        name: "dead-before-nccl",
        tries: "one of four ranks dies or ends with an error before it has called NCCL, unannounced",
        run: deaths::before_nccl,
    },
    Drill {
        name: "dead-at-work",
        tries: "one of four ranks dies by SIGKILL, SIGABRT or SIGTERM 5 ms to 2 s after its start, unannounced",
        run: deaths::at_work,
    },
    Drill {
        name: "stopped",
        tries: "one of four ranks is stopped (SIGSTOP) 50 ms to 2 s after its start",
        run: deaths::stopped,
    },
    Drill {
        name: "dead-workers",
        tries: "PyTorch DDP under torchrun: a worker or the agent is killed",
        run: deaths::torchrun,
    },
    Drill {
        name: "orders-of-death",
        tries: "runner, guard and coordinator are killed one after the other in every order, and at once",
        run: repeated::orders_of_death,
    },
    Drill {
        name: "full-disk",
        tries: "every command with stdout on /dev/full; runs on file systems of 0 KiB to 1 MiB",
        run: disk::full,
    },
    Drill {
        name: "surroundings",
        tries: "HOME, TMPDIR and caches missing, read-only or no directories; ulimit -v, -f, -n, -s, -t; no PATH",
        run: surroundings::poor,
    },
    Drill {
        name: "injection",
        tries: "programs print terminal sequences, XML, HTML, Markdown, commands of CI servers and secrets; every report is \
                searched for them",
        run: injection::all_reports,
    },
    Drill {
        name: "hostile-suites",
        tries: "suites, filters, expressions and paths that nest, repeat and multiply without end, in 2 GiB of addresses",
        run: suites::hostile,
    },
    Drill {
        name: "fuzz",
        tries: "mutations of the fuzz corpus: suites, filters, XML, frames, reports, event logs",
        run: repeated::fuzz,
    },
    Drill {
        name: "eight-at-once",
        tries: "eight runs at the same time, each with clusters of its own",
        run: crowds::eight,
    },
    Drill { name: "hundreds-of-ranks", tries: "64, 256 and 1024 native ranks in one cluster", run: crowds::hundreds },
    Drill {
        name: "same-reports",
        tries: "cluster reports of the suites dist and faults, without `measured`, compared byte for byte with the first run's",
        run: repeated::same_reports,
    },
    Drill {
        name: "warm-and-cold",
        tries: "suites with PyTorch (with --long: all), started warm and cold: verdicts, ends of processes, cluster and device reports without \
                `measured`",
        run: warm::warm_and_cold,
    },
    Drill {
        name: "one-sided",
        tries: "puts and signals over sockets, several cases at a time",
        run: repeated::one_sided,
    },
    Drill {
        name: "wild-processes",
        tries: "full pipes, ignored SIGTERM, daemons, herds, held streams, stopped processes (suite zoo)",
        run: repeated::zoo,
    },
];

/// What the command line asks for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    only: Vec<String>,
    scale: Scale,
    list: bool,
}

impl Options {
    fn read(arguments: &[String]) -> Result<Options, String> {
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
    println!("{} rows, {failed} failed, {}", rows.len(), table::time(began.elapsed()));
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

/// Longer than anything of a drill may take that is waited for, on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(120);

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
