//! Managed environments in the user's cache: made once per set of requirements and Python, without GPU libraries, then
//! reused by every run.
//!
//! An environment is made at its final place, because its scripts name it, under a file lock; `.complete` is written last.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use super::cause::Cause;
use super::error::Error;
use super::making::{Site, make};
use super::progress::Said;
use super::tools::{self, Tools};
use super::{Python, hints, requirement};
use crate::case::python::{MANAGED, default_requirements_of, is_default, optional, package, replaced, shown};
use crate::host::cache_directory::cache_directory;
use crate::host::whole_file;

/// The content of `.complete`.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Complete {
    requirements: Vec<String>,
    python: String,
    torch_libraries: Option<PathBuf>,
    /// Packages that it lacks on purpose. Older versions of ftest left out more, and did not list it.
    #[serde(default)]
    left_out: Option<Vec<String>>,
}

/// An environment in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// Its name.
    pub key: String,
    /// Where it is.
    pub path: PathBuf,
    /// Its requirements; `None` if making it was never finished.
    pub requirements: Option<Vec<String>>,
    /// Packages that it lacks on purpose.
    pub left_out: Vec<String>,
}

/// What an environment is made from and where.
struct Plan {
    requirements: Vec<String>,
    tools: Tools,
    version: String,
    cache: Cache,
    key: String,
}

impl Plan {
    /// The plan with the interpreter on `PATH`.
    fn new(requirements: &[String]) -> Result<Plan, Error> {
        Plan::with(requirements, Tools::find()?)
    }

    fn with(requirements: &[String], tools: Tools) -> Result<Plan, Error> {
        let version = tools.python().map_or_else(|| Ok(BY_UV.to_owned()), tools::version)?;
        let requirements = whole_for(requirements, &version);
        let key = key(&requirements, &version);
        Ok(Plan { requirements, tools, version, cache: cache()?, key })
    }

    /// The file that names the environment for another Python which took the place of this one.
    fn other(&self) -> PathBuf {
        self.cache.environments().join(format!("{}.other", self.key))
    }

    /// Notes which environment takes the place of this one.
    fn replaced_by(&self, key: &str) -> Result<(), Error> {
        let place = self.other();
        whole_file::replace(&place, &[key.as_bytes()]).map_err(|source| Error::Cache { place, source })
    }

    /// The environment, if it exists.
    fn complete(&self) -> Option<Python> {
        complete(&self.directory()).or_else(|| {
            let other = fs::read_to_string(self.other()).ok()?;
            complete(&self.cache.environments().join(other.trim()))
        })
    }

    fn directory(&self) -> PathBuf {
        self.cache.environments().join(&self.key)
    }
}

/// The version of an interpreter that uv brings.
const BY_UV: &str = "uv";

/// Requirements in their canonical form, with PyTorch if they leave the choice to ftest.
pub fn whole(requirements: &[String]) -> Vec<String> {
    whole_for(requirements, &base_version())
}

fn whole_for(requirements: &[String], version: &str) -> Vec<String> {
    let mut requirements = requirement::canonical(requirements);
    if is_default(&requirements) {
        requirements.extend(default_requirements_of(version));
        requirements.sort();
    }
    requirements
}

/// The version of the interpreter for which environments are made, `3.11`; `uv` if uv brings one.
pub fn base_version() -> String {
    static VERSION: OnceLock<String> = OnceLock::new();
    let find = || base().and_then(|python| tools::version(&python).ok()).unwrap_or_else(|| BY_UV.to_owned());
    VERSION.get_or_init(find).clone()
}

/// The interpreter for which environments are made, if the machine has one.
pub fn base() -> Option<PathBuf> {
    Tools::find().ok()?.python().map(Path::to_owned)
}

/// Asks the package index for something small.
///
/// # Errors
/// [`Error`]: what it answered.
pub fn ask_index() -> Result<(), Error> {
    Tools::find()?.ask_index()
}

/// The environment for `requirements` if it exists already.
///
/// # Errors
/// [`Error`] if the machine has no tool to find out.
pub fn present(requirements: &[String]) -> Result<Option<Python>, Error> {
    Ok(Plan::new(requirements)?.complete())
}

/// The environment for `requirements`, made if it is missing. `announce` gets each step that takes time; the tools that
/// make it carry `mark`, unless empty, so that they can be found and stopped.
///
/// # Errors
/// [`Error`]: what failed and what to do.
pub fn provide(requirements: &[String], mark: &str, announce: &dyn Fn(Said<'_>)) -> Result<Python, Error> {
    let plan = Plan::new(requirements)?;
    if let Some(python) = plan.complete() {
        return Ok(python);
    }
    let error = match made(&plan, mark, announce) {
        Err(error) => error,
        python => return python,
    };
    // What exists for other versions of Python is made for one that the machine has, or that uv brings.
    let Error::Make { cause: Cause::OtherPython(versions), .. } = &error else { return Err(error) };
    let there = versions.iter().map(|version| key(&plan.requirements, version)).find_map(|key| {
        let python = complete(&plan.cache.environments().join(&key))?;
        Some((python, key))
    });
    if let Some((python, key)) = there {
        announce(Said::Step(&format!("no wheel for Python {}: using {}", plan.version, python.program.display())));
        plan.replaced_by(&key)?;
        return Ok(python);
    }
    let Some(tools) = plan.tools.other(&plan.version, versions, &plan.cache.uv()) else { return Err(error) };
    let python = tools.python().map_or_else(String::new, |python| python.display().to_string());
    announce(Said::Step(&format!("no wheel for Python {}: trying {python}", plan.version)));
    let other = Plan::with(requirements, tools)?;
    let Ok(python) = made(&other, mark, announce) else { return Err(error) };
    plan.replaced_by(&other.key)?;
    Ok(python)
}

/// Makes the environment, unless another run has.
fn made(plan: &Plan, mark: &str, announce: &dyn Fn(Said<'_>)) -> Result<Python, Error> {
    let directory = plan.directory();
    let home = plan.cache.environments();
    fs::create_dir_all(&home).map_err(|source| Error::Cache { place: home.clone(), source })?;
    let _lock = lock(&home, &plan.key, announce)?;
    // Another run may have made it while this run waited.
    if let Some(python) = complete(&directory) {
        return Ok(python);
    }
    clear(&directory)?;
    announce(Said::Step(&notice(&plan.requirements, &directory)));
    let tools = {
        let _lock = lock(&home, "uv", announce)?;
        plan.tools.clone().with_uv(&plan.cache.uv(), announce)
    };
    let _in_use = plan.cache.wheels_in_use()?;
    let complete = list()?.into_iter().filter(|environment| environment.requirements.is_some());
    let others = complete.map(|environment| environment.path).collect();
    let site = Site { directory: &directory, wheels: plan.cache.wheels(), others, mark };
    let left_out = make(&tools, &site, &plan.requirements, announce).map_err(|source| {
        let _ = fs::remove_dir_all(&directory);
        let cause = match &source {
            Error::Step { output, .. } => Cause::from_output(output, || tools.ask_index().is_ok()),
            _ => Cause::Unknown,
        };
        let advice = cause.advice(&plan.version);
        Error::Make { requirements: shown(&plan.requirements), source: Box::new(source), cause, advice }
    })?;
    let described = Python::describe(&directory.join("bin/python"), MANAGED)?;
    let record = Complete {
        requirements: plan.requirements.clone(),
        python: plan.version.clone(),
        torch_libraries: described.torch_libraries.clone(),
        left_out: Some(left_out),
    };
    if let Some(left_out) = record.left_out.as_ref().filter(|left_out| !left_out.is_empty()) {
        announce(Said::Step(&format!("left out, `ftest docs python#left-out`: {}", left_out.join(", "))));
    }
    hints::put(&directory, &record.requirements);
    let marker = directory.join(".complete");
    fs::write(&marker, serde_json::to_string(&record).unwrap_or_default())
        .map_err(|source| Error::Cache { place: marker, source })?;
    Ok(described)
}

/// How the message about making an environment begins.
pub(super) const MAKING: &str = "making a Python environment for";

/// The message about what is being made, what it costs and how to avoid it. Sizes are those of PyTorch 2.9 to 2.15.
fn notice(requirements: &[String], directory: &Path) -> String {
    let torch = requirements.iter().any(|one| package(one) == "torch");
    let cost = if torch { " (PyTorch: 0.5 to 0.9 GB to download, 1.4 to 2 GB on disk, once)" } else { "" };
    format!(
        "{MAKING} {}{cost} in {}; to use another Python instead: FTEST_PYTHON=system, or the path of one",
        shown(requirements),
        directory.display()
    )
}

/// The directory that ftest keeps things in.
struct Cache(PathBuf);

fn cache() -> Result<Cache, Error> {
    cache_directory().map(Cache).map_err(Error::NoCache)
}

impl Cache {
    /// Where environments are.
    fn environments(&self) -> PathBuf {
        self.0.join("envs")
    }

    /// The uv that pip fetched.
    fn uv(&self) -> PathBuf {
        self.0.join("tools/uv")
    }

    /// Files that uv fetched and unpacked; environments link to them.
    fn wheels(&self) -> PathBuf {
        self.0.join("wheels")
    }

    /// Keeps [`collect`] from removing the wheels in the meantime.
    fn wheels_in_use(&self) -> Result<File, Error> {
        let (place, file) = self.lock_of_wheels()?;
        rustix::fs::flock(&file, FlockOperation::LockShared)
            .map_err(|error| Error::Cache { place, source: error.into() })?;
        Ok(file)
    }

    fn lock_of_wheels(&self) -> Result<(PathBuf, File), Error> {
        let place = self.environments().join("wheels.lock");
        let file = File::options().create(true).truncate(false).write(true).open(&place);
        file.map(|file| (place.clone(), file)).map_err(|source| Error::Cache { place, source })
    }
}

/// `torch-2.15.0-py3.11-0123abcd`: readable, and different for different needs.
fn key(requirements: &[String], version: &str) -> String {
    // FNV-1a: the name must not change between builds, as a hash of the standard library may.
    let text = format!("{}\n{version}\n{}", requirements.join("\n"), std::env::consts::ARCH);
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let is_package = |one: &&String| !one.starts_with(['-', '/']);
    let lead = requirements.iter().find(|one| requirement::is_lean(one)).or(requirements.iter().find(is_package));
    let lead: String = lead
        .and_then(|line| line.split(' ').next())
        .unwrap_or_default()
        .replace("==", "-")
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() || ".-_".contains(letter) { letter } else { '_' })
        .take(40)
        .collect();
    format!("{lead}-py{version}-{:08x}", hash ^ (hash >> 32) & 0xffff_ffff)
}

fn complete(directory: &Path) -> Option<Python> {
    let record: Complete = serde_json::from_slice(&fs::read(directory.join(".complete")).ok()?).ok()?;
    let bin = directory.join("bin");
    let program = bin.join("python");
    // The interpreter below a venv may have been uninstalled; then it is recreated.
    program.exists().then(|| {
        hints::put(directory, &record.requirements);
        Python { program, bin, torch_libraries: record.torch_libraries, selected: MANAGED }
    })
}

fn lock(home: &Path, key: &str, announce: &dyn Fn(Said<'_>)) -> Result<File, Error> {
    let place = home.join(format!("{key}.lock"));
    let wrong = |source| Error::Cache { place: place.clone(), source };
    let file = File::options().create(true).truncate(false).write(true).open(&place).map_err(wrong)?;
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        announce(Said::Step("waiting for another run that is making the same Python environment"));
        rustix::fs::flock(&file, FlockOperation::LockExclusive).map_err(|error| wrong(error.into()))?;
    }
    Ok(file)
}

fn clear(directory: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(directory) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(Error::Cache { place: directory.to_owned(), source })
        }
        _ => Ok(()),
    }
}

/// The packages that the managed environment of this interpreter lacks on purpose.
pub(super) fn left_out(python: &Python) -> Vec<String> {
    let record = python.bin.parent().and_then(|directory| fs::read(directory.join(".complete")).ok());
    let record: Option<Complete> = record.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let earlier = || replaced().chain(optional().map(str::to_owned)).collect();
    record.map_or_else(Vec::new, |record| record.left_out.unwrap_or_else(earlier))
}

/// The environments in the cache, by key.
///
/// # Errors
/// [`Error::NoCache`].
pub fn list() -> Result<Vec<Environment>, Error> {
    let mut environments = Vec::new();
    for entry in fs::read_dir(cache()?.environments()).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            let record = fs::read(entry.path().join(".complete")).ok();
            let record: Option<Complete> = record.and_then(|bytes| serde_json::from_slice(&bytes).ok());
            environments.push(Environment {
                key: entry.file_name().to_string_lossy().into_owned(),
                path: entry.path(),
                left_out: record.as_ref().and_then(|record| record.left_out.clone()).unwrap_or_default(),
                requirements: record.map(|record| record.requirements),
            });
        }
    }
    environments.sort_by(|left, right| left.key.cmp(&right.key));
    Ok(environments)
}

/// What can be removed from the cache without loss: unusable environments, and wheels. Environments keep their files from
/// the wheels, because they share files, not a directory. Returns the environments' keys and the directory of the wheels.
///
/// # Errors
/// [`Error::Cache`]; [`Error::NoCache`].
pub fn collect(announce: &dyn Fn(Said<'_>)) -> Result<(Vec<String>, PathBuf), Error> {
    let mut removed = Vec::new();
    for environment in list()? {
        if complete(&environment.path).is_none() {
            remove(&environment.key, announce)?;
            removed.push(environment.key);
        }
    }
    let cache = cache()?;
    if cache.wheels().exists() {
        let (place, lock) = cache.lock_of_wheels()?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive)
            .map_err(|error| Error::Cache { place, source: error.into() })?;
        clear(&cache.wheels())?;
    }
    Ok((removed, cache.wheels()))
}

/// The directory of the wheels whose files environments share.
///
/// # Errors
/// [`Error::NoCache`].
pub fn wheels() -> Result<PathBuf, Error> {
    Ok(cache()?.wheels())
}

/// Removes an environment. Waits for a run that is making it.
///
/// # Errors
/// [`Error::Unknown`], or what the file system answered.
pub fn remove(key: &str, announce: &dyn Fn(Said<'_>)) -> Result<(), Error> {
    let home = cache()?.environments();
    let unknown = || Error::Unknown { key: key.to_owned() };
    if !list()?.iter().any(|environment| environment.key == key) {
        return Err(unknown());
    }
    let lock = lock(&home, key, announce)?;
    // The marker goes first, so that a half-removed environment is never taken for a complete one.
    let _ = fs::remove_file(home.join(key).join(".complete"));
    clear(&home.join(key))?;
    drop(lock);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_readable_and_differ_with_every_need() {
        let one = key(&["numpy".into(), "torch==2.15.0".into()], "3.11");
        assert!(one.starts_with("torch-2.15.0-py3.11-"), "{one}");
        assert_ne!(one, key(&["torch==2.15.0".into()], "3.11"));
        assert_ne!(one, key(&["numpy".into(), "torch==2.15.0".into()], "3.12"));
    }
}
