//! `ftest env`: the managed Python environments.

use std::collections::BTreeSet;
use std::path::Path;

use clap::{Args, Subcommand};

use crate::case::python::PythonNeed;
use crate::commands::suites;
use crate::execute::python;
use crate::execute::python::managed;
use crate::host::install::Install;
use crate::suite::Suite;

/// Arguments of `ftest env`.
#[derive(Args, Clone, Debug)]
pub struct EnvArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Clone, Debug, Subcommand)]
enum Action {
    /// List the environments with size and requirements
    List,
    /// Print the directory of the environment for these requirements, making it when it is missing
    Path {
        /// As pip writes them [default: numpy torch==2.15.0]
        requirements: Vec<String>,
    },
    /// Make the environments that suites need, so that no case waits for one; print their directories
    Make {
        /// Names of suites, suite files, or directories of them
        #[arg(value_name = "SUITE", required = true)]
        suites: Vec<String>,
    },
    /// Remove environments
    Remove {
        /// Names that `ftest env list` shows
        #[arg(required_unless_present = "all")]
        keys: Vec<String>,
        /// Every environment
        #[arg(long, conflicts_with = "keys")]
        all: bool,
    },
}

/// Runs the command; gives the exit code: 0, 2 for a name that does not exist, 3 when it could not be done.
pub fn run(arguments: &EnvArgs) -> i32 {
    let result = match &arguments.action {
        Action::List => list(),
        Action::Path { requirements } => path(requirements),
        Action::Make { suites } => match suites::load(suites, &Install::find()) {
            Ok(suites) => make(&suites),
            Err(code) => return code as i32,
        },
        Action::Remove { keys, all } => remove(keys, *all),
    };
    match result {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("ftest env: {error}");
            if matches!(error, managed::Error::Unknown { .. }) { 2 } else { 3 }
        }
    }
}

fn list() -> Result<(), managed::Error> {
    for environment in managed::list()? {
        let holds = match &environment.requirements {
            Some(requirements) => requirements.join(" "),
            None => "(not complete)".to_owned(),
        };
        let megabytes = bytes_below(&environment.path) / 1_000_000;
        println!("{}\t{megabytes} MB\t{holds}", environment.key);
    }
    Ok(())
}

fn path(requirements: &[String]) -> Result<(), managed::Error> {
    let steps = python::Steps::new();
    let provided = managed::provide(requirements, "", &|step| steps.show(step));
    steps.done();
    let python = provided?;
    println!("{}", python.bin.parent().unwrap_or(&python.bin).display());
    Ok(())
}

fn make(suites: &[Suite]) -> Result<(), managed::Error> {
    if let Some(program) = python::chosen()? {
        eprintln!("ftest env: nothing to make: cases run in {}, which was chosen", program.display());
        return Ok(());
    }
    needs(suites).iter().try_for_each(|requirements| path(requirements))
}

/// The requirements of the cases and their fixtures, each list once.
fn needs(suites: &[Suite]) -> BTreeSet<Vec<String>> {
    let cases = || suites.iter().flat_map(|suite| &suite.cases);
    let fixtures = cases().flat_map(|case| &case.uses).filter_map(|fixture| fixture.python.clone());
    let managed = |need| match need {
        PythonNeed::Managed(requirements) if requirements.is_empty() => Some(python::default_requirements()),
        PythonNeed::Managed(requirements) => Some(requirements),
        PythonNeed::System => None,
    };
    cases().filter_map(|case| case.python_need()).chain(fixtures).filter_map(managed).collect()
}

fn remove(keys: &[String], all: bool) -> Result<(), managed::Error> {
    let keys: Vec<String> = match all {
        true => managed::list()?.into_iter().map(|environment| environment.key).collect(),
        false => keys.to_vec(),
    };
    for key in keys {
        managed::remove(&key, &|step| eprintln!("ftest env: {step}"))?;
        println!("removed {key}");
    }
    Ok(())
}

/// Bytes of the files below `directory`; links are not followed.
fn bytes_below(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.metadata().ok().map(|meta| (entry.path(), meta)))
        .map(|(path, meta)| if meta.is_dir() { bytes_below(&path) } else { meta.len() })
        .sum()
}
