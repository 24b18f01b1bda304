//! What an interpreter has: its version, and the packages that a program started with it would import.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde::Deserialize;

use crate::execute::launch::environment::{Environment, scrubbed};
use crate::host::deadline;

/// Variables that decide which packages Python finds.
const VARIABLES: [&str; 5] = ["PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONNOUSERSITE", "HOME"];

/// An interpreter as certain processes start it: the same one finds other packages with another `PYTHONPATH`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Started {
    program: PathBuf,
    variables: Vec<Option<OsString>>,
    /// Where relative paths of `PYTHONPATH` begin.
    directory: PathBuf,
}

impl Started {
    /// `program`, by processes with these changes to the environment, in `directory`.
    pub fn new(program: &Path, environment: &Environment, directory: &Path) -> Started {
        let variables = VARIABLES.map(|name| environment.get(name).filter(|value| !value.is_empty())).to_vec();
        // One answer for all suites, where it cannot matter.
        let directory = if variables[0].is_some() { directory } else { Path::new("/") };
        Started { program: program.to_owned(), variables, directory: directory.to_owned() }
    }

    /// Asks the interpreter; `None` if it does not answer.
    pub(super) async fn inventory(&self) -> Option<Inventory> {
        let mut command = std::process::Command::new(&self.program);
        scrubbed(&mut command).args(["-c", include_str!("inventory.py")]).current_dir(&self.directory);
        for (name, value) in VARIABLES.iter().zip(&self.variables) {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.stdin(Stdio::null()).stderr(Stdio::null());
        let mut command = tokio::process::Command::from(command);
        command.kill_on_drop(true);
        let answer = tokio::time::timeout(deadline::PYTHON_ANSWER, command.output()).await.ok()?.ok()?;
        // What sitecustomize prints comes first.
        serde_json::from_str(String::from_utf8_lossy(&answer.stdout).lines().last()?).ok()
    }
}

/// The answer of an interpreter.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(super) struct Inventory {
    /// The variables of markers.
    pub(super) markers: BTreeMap<String, String>,
    /// By normalized name; `None` before Python 3.8, which cannot list them.
    pub(super) packages: Option<BTreeMap<String, Package>>,
}

/// An installed package.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(super) struct Package {
    pub(super) version: String,
    /// Its `Requires-Dist` entries.
    pub(super) requires: Vec<String>,
    /// Where it came from, if not from an index.
    pub(super) direct: Option<Direct>,
    /// The directory that Python imports it from.
    pub(super) place: PathBuf,
}

/// `direct_url.json` of a package.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(super) struct Direct {
    pub(super) url: String,
    pub(super) dir_info: Option<DirInfo>,
    pub(super) vcs_info: Option<VcsInfo>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(super) struct DirInfo {
    #[serde(default)]
    pub(super) editable: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(super) struct VcsInfo {
    #[serde(default)]
    pub(super) requested_revision: String,
    #[serde(default)]
    pub(super) commit_id: String,
}

impl Inventory {
    /// `3.11.7`.
    pub(super) fn version(&self) -> &str {
        self.markers.get("python_full_version").map_or("", String::as_str)
    }
}
