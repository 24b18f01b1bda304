//! The conditions under which a case runs.

use std::path::PathBuf;

use crate::host::version::Range;

/// A condition under which a case runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// `os` or `os-arch`: `linux`, `linux-x86_64`.
    Platform(String),
    /// A program on PATH.
    Command(String),
    /// A variable that is set and not empty, or has this value.
    Env {
        /// Name.
        name: String,
        /// The wanted value, if any.
        value: Option<String>,
    },
    /// A file, absolute or from the suite's directory.
    File(PathBuf),
    /// A module that the case's Python can import. The executor asks that Python once there is one.
    PythonModule {
        /// Its name.
        name: String,
        /// The accepted versions.
        version: Option<Range>,
    },
    /// This many CPUs.
    Cpus(u32),
    /// This many bytes of memory in total, used or free.
    Memory(u64),
    /// This many bytes free in `/dev/shm`.
    Shm(u64),
    /// The inner requirement is not met.
    Not(Box<Requirement>),
    /// At least one of these.
    Any(Vec<Requirement>),
    /// Each of these.
    All(Vec<Requirement>),
}
