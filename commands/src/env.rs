//! `ftest env`: the managed Python environments.

use std::collections::{BTreeSet, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use runner::case::python::{PythonNeed, shown};
use runner::execute::python;
use runner::execute::python::managed;
use runner::host::install::Install;
use runner::suite::Suite;
use runner::suite::requirements::{self, Mistake};

use crate::suites;

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
    Path(PathArgs),
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
    /// Remove what no environment uses: wheels, and environments that cannot be used
    Gc,
}

#[derive(Args, Clone, Debug)]
struct PathArgs {
    /// As pip writes them [default: numpy torch==2.15.0]
    packages: Vec<String>,
    /// What this requirements file, file with hashes or pylock.toml lists
    #[arg(short, long, value_name = "FILE")]
    requirements: Vec<PathBuf>,
    /// What the pyproject.toml in this directory depends on, and the project itself, editable
    #[arg(long, value_name = "DIRECTORY")]
    project: Option<PathBuf>,
    /// An extra of the project
    #[arg(long, value_name = "NAME", requires = "project")]
    extra: Vec<String>,
}

impl PathArgs {
    fn all(&self) -> Result<Vec<String>, Mistake> {
        let mut all = self.packages.clone();
        for file in &self.requirements {
            all.extend(requirements::of_file(file)?);
        }
        if let Some(project) = &self.project {
            all.extend(requirements::of_project(project, &self.extra)?);
        }
        Ok(all)
    }
}

/// Runs the command; returns the exit code: 0, 2 for a wrong name or requirements file, 3 if it could not be done.
pub fn run(arguments: &EnvArgs) -> i32 {
    let result = match &arguments.action {
        Action::List => list(),
        Action::Path(arguments) => match arguments.all() {
            Ok(requirements) => path(&requirements),
            Err(mistake) => {
                eprintln!("ftest env: {mistake}; {}", mistake.help);
                return 2;
            }
        },
        Action::Make { suites } => match suites::load(suites, &Install::find()) {
            Ok(suites) => make(&suites),
            Err(code) => return code as i32,
        },
        Action::Remove { keys, all } => remove(keys, *all),
        Action::Gc => collect(),
    };
    match result {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("ftest env: {error}");
            if matches!(error, python::Error::Unknown { .. }) { 2 } else { 3 }
        }
    }
}

fn list() -> Result<(), python::Error> {
    for environment in managed::list()? {
        let holds = match &environment.requirements {
            Some(requirements) => shown(requirements),
            None => "(not complete)".to_owned(),
        };
        let size = Size::measure(&environment.path);
        let shared = match size.shared / MEGABYTE {
            0 => String::new(),
            shared => format!(" and {shared} MB shared"),
        };
        let left_out = match environment.left_out.as_slice() {
            [] => String::new(),
            names => format!("\twithout {}", names.join(" ")),
        };
        println!("{}\t{} MB{shared}\t{holds}{left_out}", environment.key, size.own / MEGABYTE);
    }
    let wheels = managed::wheels()?;
    let size = Size::measure(&wheels);
    if size.own + size.shared > 0 {
        eprintln!(
            "ftest env: the environments share files with the wheels in {} ({} MB, {} MB of it in no environment): \
             `ftest env gc` removes those",
            wheels.display(),
            (size.own + size.shared) / MEGABYTE,
            size.own / MEGABYTE
        );
    }
    Ok(())
}

fn collect() -> Result<(), python::Error> {
    let freed = Size::measure(&managed::wheels()?).own;
    let (removed, wheels) = managed::collect(&|said| eprintln!("ftest env: {}", said.owned().1))?;
    removed.iter().for_each(|key| println!("removed {key}"));
    println!("removed {}: {} MB", wheels.display(), freed / MEGABYTE);
    Ok(())
}

fn path(requirements: &[String]) -> Result<(), python::Error> {
    let steps = python::Steps::new();
    let provided = managed::provide(requirements, "", &|said| steps.show(said));
    steps.done();
    let python = provided?;
    println!("{}", python.bin.parent().unwrap_or(&python.bin).display());
    Ok(())
}

fn make(suites: &[Suite]) -> Result<(), python::Error> {
    if let Some(chosen) = python::chosen()? {
        eprintln!(
            "ftest env: nothing to make: cases run in {} ({}); {}",
            chosen.program.display(),
            chosen.variable,
            chosen.otherwise()
        );
        return Ok(());
    }
    needs(suites).iter().try_for_each(|requirements| path(requirements))
}

/// The distinct requirement lists of the cases and their fixtures.
fn needs(suites: &[Suite]) -> BTreeSet<Vec<String>> {
    let cases = || suites.iter().flat_map(|suite| &suite.cases);
    let fixtures = cases().flat_map(|case| &case.uses).filter_map(|fixture| fixture.python.clone());
    let managed = |need| match need {
        PythonNeed::Managed(requirements) => Some(managed::whole(&requirements)),
        PythonNeed::System => None,
    };
    cases().filter_map(|case| case.python_need()).chain(fixtures).filter_map(managed).collect()
}

fn remove(keys: &[String], all: bool) -> Result<(), python::Error> {
    let keys: Vec<String> = match all {
        true => managed::list()?.into_iter().map(|environment| environment.key).collect(),
        false => keys.to_vec(),
    };
    for key in keys {
        managed::remove(&key, &|said| eprintln!("ftest env: {}", said.owned().1))?;
        println!("removed {key}");
    }
    Ok(())
}

const MEGABYTE: u64 = 1_000_000;

/// Bytes of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    /// Bytes in files that exist nowhere else.
    own: u64,
    /// Bytes in files that another directory shares through a hard link.
    shared: u64,
}

impl Size {
    /// The size of everything below `directory`, counting each file once; symbolic links are not followed.
    fn measure(directory: &Path) -> Size {
        let mut size = Size::default();
        // Number of links found here, per file.
        let mut linked: HashMap<(u64, u64), (u64, u64, u64)> = HashMap::new();
        size.add(directory, &mut linked);
        for (bytes, links, here) in linked.into_values() {
            *if here < links { &mut size.shared } else { &mut size.own } += bytes;
        }
        size
    }

    fn add(&mut self, directory: &Path, linked: &mut HashMap<(u64, u64), (u64, u64, u64)>) {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(meta) if meta.is_dir() => self.add(&entry.path(), linked),
                Ok(meta) if meta.nlink() > 1 => {
                    linked.entry((meta.dev(), meta.ino())).or_insert((meta.len(), meta.nlink(), 0)).2 += 1;
                }
                Ok(meta) => self.own += meta.len(),
                Err(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_counts_once_and_as_shared_where_it_is_also_elsewhere() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let file = |name: &str, bytes: usize| std::fs::write(here.path().join(name), vec![0; bytes]).unwrap();
        let link = |name: &str, to: PathBuf| std::fs::hard_link(here.path().join(name), to).unwrap();
        std::fs::create_dir(here.path().join("inside")).unwrap();
        file("own", 1);
        file("inside/shared", 10);
        file("twice", 100);
        link("inside/shared", there.path().join("shared"));
        link("twice", here.path().join("inside/twice"));
        std::os::unix::fs::symlink("/bin/sh", here.path().join("symbolic")).unwrap();
        let symbolic = "/bin/sh".len() as u64;
        assert_eq!(Size::measure(here.path()), Size { own: 101 + symbolic, shared: 10 });
        assert_eq!(Size::measure(there.path()), Size { own: 0, shared: 10 });
    }
}
