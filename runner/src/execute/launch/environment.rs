//! The environment of a process under the shim, as a list of variables to set, change and remove.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::Path;

use protocol::env;
use protocol::plan::ClusterPlan;

use crate::case::variables;
use crate::execute::launch::program;
use crate::execute::network::port::Namespace;

/// A directory that the processes of a case, or the steps of a fixture, may write to; it is removed with them.
pub const SCRATCH: &str = "FTEST_SCRATCH";
/// The file into which the setup of a fixture writes its outputs.
pub const OUTPUT: &str = "FTEST_OUTPUT";

/// Where the ranks reach their coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// `unix` or `tcp`.
    pub transport: &'static str,
    /// Absolute path or `host:port`.
    pub address: String,
    /// The run's token; empty for none.
    pub token: String,
    /// The network from which it can be reached; if absent, ours.
    pub from: Option<Namespace>,
}

/// Changes to an environment; a later change to a variable replaces an earlier one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// The value to set, or `None` to remove.
    changes: BTreeMap<OsString, Option<OsString>>,
}

impl Environment {
    /// No change.
    pub fn new() -> Environment {
        Environment::default()
    }

    /// Exactly these variables, and none of ours.
    pub fn exactly(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Environment {
        let mut environment = Environment::new();
        for (name, _) in std::env::vars_os() {
            environment.remove(name);
        }
        for (name, value) in variables {
            environment.set(name, value);
        }
        environment
    }

    /// Sets a variable.
    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> &mut Self {
        self.changes.insert(name.into(), Some(value.into()));
        self
    }

    /// Removes a variable.
    pub fn remove(&mut self, name: impl Into<OsString>) -> &mut Self {
        self.changes.insert(name.into(), None);
        self
    }

    /// The value of `name` in a process started with these changes.
    pub fn get(&self, name: impl AsRef<OsStr>) -> Option<OsString> {
        match self.changes.get(name.as_ref()) {
            Some(value) => value.clone(),
            None => std::env::var_os(name),
        }
    }

    /// Prepends `entry` to the variable's value, separated by a colon. If `PATH` is unset, its default follows.
    pub fn prepend(&mut self, name: &str, entry: &Path) -> &mut Self {
        let mut value = entry.as_os_str().to_owned();
        let default = || (name == "PATH").then(|| program::PATH.into());
        if let Some(present) = self.get(name).filter(|present| !present.is_empty()).or_else(default) {
            value.push(":");
            value.push(present);
        }
        self.set(name, value)
    }

    /// Appends `entry` to the variable's value, separated by a colon.
    pub fn append(&mut self, name: &str, entry: &Path) -> &mut Self {
        let mut value = self.get(name).unwrap_or_default();
        if !value.is_empty() {
            value.push(":");
        }
        value.push(entry);
        self.set(name, value)
    }

    /// The changes, by name: a value to set, or `None` to remove.
    pub fn changes(&self) -> impl Iterator<Item = (&OsStr, Option<&OsStr>)> {
        self.changes.iter().map(|(name, value)| (name.as_os_str(), value.as_deref()))
    }

    /// The whole environment of a process started with these changes.
    pub fn whole(&self) -> Vec<(OsString, OsString)> {
        let kept = std::env::vars_os().filter(|(name, _)| !self.changes.contains_key(name));
        let set = self.changes.iter().filter_map(|(name, value)| Some((name.clone(), value.clone()?)));
        kept.chain(set).collect()
    }

    /// Removes variables left by an outer launcher or an outer ftest: ranks, ports, CUDA and NCCL settings, our own
    /// switches.
    pub fn isolate(&mut self) -> &mut Self {
        self.isolate_from(std::env::vars_os().map(|(name, _)| name))
    }

    fn isolate_from(&mut self, names: impl Iterator<Item = OsString>) -> &mut Self {
        for name in names {
            let Some(text) = name.to_str() else { continue };
            if variables::is_of_outer_launcher(text) {
                self.remove(text);
            }
        }
        self
    }

    /// Removes all inherited variables except these names; `LC_*` matches every name with that prefix.
    pub fn only(&mut self, names: &[String]) -> &mut Self {
        self.only_of(names, std::env::vars_os().map(|(name, _)| name))
    }

    fn only_of(&mut self, names: &[String], all: impl Iterator<Item = OsString>) -> &mut Self {
        let kept = |name: &OsString| {
            names.iter().any(|kept| match kept.strip_suffix('*') {
                Some(prefix) => name.as_encoded_bytes().starts_with(prefix.as_bytes()),
                None => *name == **kept,
            })
        };
        for name in all.filter(|name| !kept(name)) {
            self.remove(name);
        }
        self
    }

    /// Sets output and threads as tests need them, and a locale and time zone that are the same everywhere.
    pub fn reproducible(&mut self) -> &mut Self {
        for (name, value) in variables::REPRODUCIBLE {
            self.set(name, value);
        }
        self.python_defaults()
    }

    /// What Python programs need to be tested, where the environment says nothing.
    pub fn python_defaults(&mut self) -> &mut Self {
        for (name, value) in variables::OF_PYTHON {
            if self.get(name).is_none() {
                self.set(name, value);
            }
        }
        self
    }

    /// Loads the shim first and makes its holders findable, including for a compiler that links with `-lcuda`. An existing
    /// preload stays before it, because sanitizers must come first.
    pub fn preload(&mut self, shim: &Path, holders: &Path) -> &mut Self {
        let present = self.get("LD_PRELOAD").unwrap_or_default();
        let already = present.to_string_lossy().split([':', ' ']).any(|entry| Path::new(entry) == shim);
        if !already {
            self.append("LD_PRELOAD", shim);
        }
        self.append("LIBRARY_PATH", holders).prepend("LD_LIBRARY_PATH", holders)
    }

    /// Lets Triton assemble with `assembler`, whose output the shim runs, for every compute capability, unless the case chooses
    /// an assembler.
    pub fn triton(&mut self, assembler: &Path) -> &mut Self {
        for name in ["TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"] {
            if self.get(name).is_none() {
                self.set(name, assembler);
            }
        }
        self
    }

    /// Sets where the code of kernels is kept, unless the case sets it.
    pub fn kernels(&mut self, directory: &Path) -> &mut Self {
        if self.get(env::KERNELS.name).is_none() {
            self.set(env::KERNELS.name, directory);
        }
        self
    }

    /// Sets the simulated machines. A profile name in the environment no longer counts.
    pub fn cluster(&mut self, plan: &ClusterPlan) -> &mut Self {
        self.nvcc(plan).set(env::CLUSTER.name, cluster_json(plan))
    }

    /// Lets nvcc put PTX for the GPUs of `plan` into what it builds, unless the case sets its flags: builds at run time ask for
    /// machine code only.
    fn nvcc(&mut self, plan: &ClusterPlan) -> &mut Self {
        if self.get(NVCC_FLAGS).is_some() {
            return self;
        }
        let profiles = plan.gpus().into_iter().filter_map(|(_, id)| plan.profile(id));
        let capabilities: BTreeSet<String> =
            profiles.map(|profile| profile.compute_capability.replace('.', "")).collect();
        let flags: Vec<String> =
            capabilities.iter().map(|one| format!("-gencode=arch=compute_{one},code=compute_{one}")).collect();
        self.set(NVCC_FLAGS, flags.join(" "))
    }

    /// Sets the coordinator's address; NCCL is simulated by it.
    pub fn coordinator(&mut self, endpoint: &Endpoint) -> &mut Self {
        self.set(env::COORDINATOR_TRANSPORT.name, endpoint.transport)
            .set(env::COORDINATOR_ADDR.name, &endpoint.address)
            .set(env::DIST_MODE.name, "simulate");
        if endpoint.token.is_empty() {
            self.remove(env::COORDINATOR_TOKEN.name)
        } else {
            self.set(env::COORDINATOR_TOKEN.name, &endpoint.token)
        }
    }

    /// Lets processes share their GPUs' memory through this file.
    pub fn machine(&mut self, file: &Path) -> &mut Self {
        self.set(env::GPUS.name, file)
    }

    /// Sets the file where processes note gaps as soon as they occur.
    pub fn journal(&mut self, file: &Path) -> &mut Self {
        self.set(env::JOURNAL.name, file)
    }
}

/// What a suite changes in the environment.
pub fn changed(env: &BTreeMap<String, String>, unset: &[String], inherit: Option<&[String]>) -> Environment {
    let mut environment = Environment::new();
    if let Some(names) = inherit {
        environment.only(names);
    }
    for name in unset {
        environment.remove(name);
    }
    for (name, value) in env {
        environment.set(name, value);
    }
    environment
}

/// The checked cluster as passed in `FTEST_CLUSTER`.
pub fn cluster_json(plan: &ClusterPlan) -> String {
    serde_json::to_string(plan).expect("a plan has string keys only and no number that JSON refuses")
}

/// The environment of a helper tool: without any preload and without variables that belong to a case.
pub fn scrubbed(command: &mut std::process::Command) -> &mut std::process::Command {
    for name in [
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "PYTHONPATH",
        "PYTHONHOME",
        "FTEST_CLUSTER",
        "FTEST_FAULTS",
        "FTEST_CASE_COOKIE",
        "FTEST_GPUS",
    ] {
        command.env_remove(name);
    }
    command
}

/// What nvcc adds to its command line.
pub const NVCC_FLAGS: &str = "NVCC_APPEND_FLAGS";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shim_follows_a_preload_and_holders_precede_the_library_path() {
        let mut environment = Environment::new();
        environment.set("LD_PRELOAD", "libasan.so").set("LD_LIBRARY_PATH", "/opt/lib").set("LIBRARY_PATH", "/l");
        environment.preload(Path::new("/x/libfakegpu.so"), Path::new("/h"));
        environment.preload(Path::new("/x/libfakegpu.so"), Path::new("/h2"));
        assert_eq!(environment.get("LD_PRELOAD").unwrap(), "libasan.so:/x/libfakegpu.so");
        assert_eq!(environment.get("LD_LIBRARY_PATH").unwrap(), "/h2:/h:/opt/lib");
        assert!(environment.get("LIBRARY_PATH").unwrap() == "/l:/h:/h2");
    }

    #[test]
    fn triton_assembles_with_ours_unless_the_case_names_another() {
        let mut environment = Environment::new();
        environment.set("TRITON_PTXAS_PATH", "/own/ptxas").triton(Path::new("/x/fakegpu-ptxas"));
        assert_eq!(environment.get("TRITON_PTXAS_PATH").unwrap(), "/own/ptxas");
        assert_eq!(environment.get("TRITON_PTXAS_BLACKWELL_PATH").unwrap(), "/x/fakegpu-ptxas");
    }

    #[test]
    fn nvcc_makes_ptx_for_every_gpu_unless_the_case_has_flags() {
        let text = "nodes: 1\ngpus_per_node: 2\nprofile: a100\n";
        let mut plan = model::cluster_file::parse("c.yaml", text, &|_| Err(String::new())).unwrap();
        let mut environment = Environment::new();
        environment.set(NVCC_FLAGS, "").cluster(&plan);
        assert_eq!(environment.get(NVCC_FLAGS).unwrap(), "");
        environment.set(NVCC_FLAGS, "-O1").cluster(&plan);
        assert_eq!(environment.get(NVCC_FLAGS).unwrap(), "-O1");
        plan.nodes[0].gpus[1] = "h100".to_owned();
        let mut environment = Environment::new();
        environment.isolate_from([OsString::from(NVCC_FLAGS)].into_iter()).cluster(&plan);
        let expected = "-gencode=arch=compute_80,code=compute_80 -gencode=arch=compute_90,code=compute_90";
        assert_eq!(environment.get(NVCC_FLAGS).unwrap(), expected);
    }

    #[test]
    fn an_outer_launch_leaves_nothing() {
        let mut environment = Environment::new();
        let names = ["RANK", "NCCL_DEBUG", "FAKEGPU_PROFILE", "TORCHELASTIC_RUN_ID", "PATH", "RANKING"];
        environment.isolate_from(names.into_iter().map(OsString::from));
        let removed: Vec<_> = environment.changes().map(|(name, _)| name.to_str().unwrap().to_owned()).collect();
        assert_eq!(removed, ["FAKEGPU_PROFILE", "NCCL_DEBUG", "RANK", "TORCHELASTIC_RUN_ID"]);
    }

    #[test]
    fn only_what_is_named_is_inherited() {
        let mut environment = Environment::new();
        let names = ["PATH".to_owned(), "LC_*".to_owned()];
        environment.only_of(&names, ["PATH", "PATHS", "LC_ALL", "HOME"].into_iter().map(OsString::from));
        let removed: Vec<_> = environment.changes().map(|(name, _)| name.to_str().unwrap().to_owned()).collect();
        assert_eq!(removed, ["HOME", "PATHS"]);
    }
}
