//! Ranks started by Slurm. srun is our child, but the tasks are not: slurmd starts them. Each task is `ftest __task`, which
//! becomes the parent of the rank (or of its node's torchrun), reports which task it is, and records how it ended; its output
//! goes to files.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::launch::environment::Environment;
use crate::case::srun::{Program, Srun};
use crate::case::{Case, Launch, Transport};
use crate::execute::launch::placement::{Placement, Shared};
use crate::host::machine;
use crate::observation::Exit;

mod apart;
mod follow;
mod said;
pub mod task;
mod tasks;

pub use said::last_words;
pub(super) use said::{refusal, untraced, why};
pub(super) use tasks::Tasks;

/// The variable that carries the [`Order`] to the tasks.
const ORDER: &str = "FTEST_TASK";

/// What every task of a step needs to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Order {
    /// Where the tasks record their state.
    directory: PathBuf,
    /// The machine on which ftest and the coordinator run: see [`here`].
    machine: String,
    /// The same as a host name, for messages.
    host: String,
    /// The mark of the case.
    cookie: String,
    /// Where rank 0 listens.
    port: u16,
    /// The variables that the case sets or removes.
    own: BTreeSet<String>,
    /// The placement of the ranks on the cluster, by rank.
    placements: Option<Vec<Placement>>,
    /// Whether tasks may run on other machines.
    apart: bool,
    /// If set, each task is a torchrun that logs below this directory; otherwise a rank.
    torchrun: Option<PathBuf>,
}

/// Whether tasks of `case` may run on other machines than ftest's: its coordinator listens for them.
pub(super) fn is_apart(case: &Case) -> bool {
    matches!(case.launch, Launch::Srun(_)) && case.transport == Transport::Tcp
}

impl Order {
    pub(super) fn new(case: &Case, srun: &Srun, shared: &Shared<'_>, placements: Option<Vec<Placement>>) -> Order {
        let is_torchrun = matches!(srun.program, Program::Torchrun { .. });
        let (machine, host) = here();
        Order {
            directory: directory(shared.scratch),
            machine,
            host,
            cookie: shared.cookie.to_string(),
            port: shared.port,
            own: shared.own.clone(),
            placements,
            apart: is_apart(case),
            torchrun: is_torchrun.then(|| shared.scratch.to_owned()),
        }
    }

    /// Puts it into the environment of the tasks.
    pub(super) fn announce(&self, environment: &mut Environment) {
        environment.set(ORDER, serde_json::to_string(self).expect("an order has string keys only"));
    }
}

/// How a task ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Ended {
    /// The process.
    pid: i32,
    /// Its exit, or why it was not started.
    exit: Exit,
}

/// Where the tasks of a case write.
fn directory(scratch: &Path) -> PathBuf {
    scratch.join("srun")
}

/// The file below it that a task writes when its process runs.
fn started(task: u32) -> String {
    format!("{task}.started")
}

/// The file below it that a task writes when its process has ended.
fn ended(task: u32) -> String {
    format!("{task}.ended")
}

/// This machine, and its name. Processes of one machine reach each other by loopback: it is the kernel's boot id, and the network
/// namespace.
fn here() -> (String, String) {
    let network = std::fs::read_link("/proc/self/ns/net").unwrap_or_default();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    (format!("{} {}", boot.trim(), network.display()), machine::name())
}

/// The command of srun for these words.
pub(super) fn argv(case: &Case, srun: &Srun, shared: &Shared<'_>, words: Vec<OsString>) -> Vec<OsString> {
    let files = directory(shared.scratch);
    let mut argv: Vec<OsString> = vec!["srun".into()];
    let mut flag = |name: &str, value: &dyn std::fmt::Display| argv.push(format!("--{name}={value}").into());
    flag("nodes", &srun.nodes);
    flag("ntasks", &srun.ntasks);
    if let Some(per_node) = srun.ntasks_per_node {
        flag("ntasks-per-node", &per_node);
    }
    flag("job-name", &"ftest");
    flag("chdir", &case.cwd.display());
    flag("export", &"ALL");
    flag("input", &"none");
    // The case decides how long the others may go on after one has failed.
    flag("kill-on-bad-exit", &0);
    flag("wait", &0);
    // Written by each task's own node, byte for byte: srun would cut it into lines.
    flag("output", &files.join("%t.stdout").display());
    flag("error", &files.join("%t.stderr").display());
    argv.extend(srun.options.iter().map(OsString::from));
    argv.extend([shared.ftest.into(), task::ARGUMENT.into()]);
    argv.extend(words);
    argv
}
