//! One process of a case: its part in it, its end, and its output.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::host::signal;

/// One process.
#[derive(Clone, Debug)]
pub struct ProcessObservation {
    /// What it was.
    pub role: Role,
    /// How it ended.
    pub exit: Exit,
    /// Its standard output.
    pub stdout: Captured,
    /// Its standard error.
    pub stderr: Captured,
}

impl ProcessObservation {
    /// Messages about the streams that could not be written to their files.
    pub fn write_errors(&self) -> impl Iterator<Item = String> {
        [("stdout", &self.stdout), ("stderr", &self.stderr)].into_iter().filter_map(|(name, stream)| {
            let error = stream.write_error.as_ref()?;
            Some(format!("not all of {name} of {} could be kept: {error}", self.role))
        })
    }
}

/// What a process was in the case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A global rank.
    Rank(u32),
    /// torchrun of a node, by the node's index; or the one plain process of a case without ranks (index 0).
    Launcher(u32),
    /// Slurm's srun, which started the ranks or the torchruns.
    Srun,
    /// fakegpu-coordinator.
    Coordinator,
}

impl Role {
    /// Name of the files that hold a process's streams.
    pub fn file_stem(self) -> String {
        match self {
            Role::Rank(rank) => format!("rank-{rank}"),
            Role::Launcher(node) => format!("launcher-{node}"),
            Role::Srun => "srun".to_owned(),
            Role::Coordinator => "coordinator".to_owned(),
        }
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Role::Rank(rank) => write!(f, "rank {rank}"),
            Role::Launcher(node) => write!(f, "launcher {node}"),
            Role::Srun => f.write_str("srun"),
            Role::Coordinator => f.write_str("coordinator"),
        }
    }
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// It returned this code.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
    /// It never ran: why.
    NotStarted(String),
    /// It did not go away after SIGKILL.
    Unkillable,
    /// It ran, but how it ended is not known (a worker of torchrun or a task of srun that was not reaped by us).
    Unknown,
}

impl Exit {
    /// How it ended, phrased to follow a name: `ended with code 1`, `was ended by SIGKILL`.
    pub fn clause(&self) -> String {
        match self {
            Exit::Code(code) => format!("ended with code {code}"),
            Exit::Signal(number) => format!("was ended by {}", signal::name(*number)),
            Exit::NotStarted(why) => format!("never started: {why}"),
            Exit::Unkillable => "is still there after SIGKILL".to_owned(),
            Exit::Unknown => "ended in an unknown way".to_owned(),
        }
    }
}

/// One stream of one process. The whole of it is in `path`; memory keeps both ends.
#[derive(Clone, Debug, Default)]
pub struct Captured {
    /// The file with the whole stream.
    pub path: PathBuf,
    /// Bytes written in all.
    pub bytes: u64,
    /// The first bytes: all of them unless `truncated`.
    pub head: Vec<u8>,
    /// The last bytes if `head` is not all; otherwise empty.
    pub tail: Vec<u8>,
    /// Something between head and tail is only in the file, or was dropped.
    pub truncated: bool,
    /// Texts that were searched for in the whole stream as it arrived, and the byte offset of each first match.
    pub searched: BTreeMap<String, Option<u64>>,
    /// Why the file is incomplete, if it could not be written.
    pub write_error: Option<WriteError>,
}

/// Why not all of a stream is in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteError {
    /// What the system refused.
    pub kind: std::io::ErrorKind,
    /// The file, and the system's message.
    pub message: String,
}

impl std::fmt::Display for WriteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}
