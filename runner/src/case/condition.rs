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
    /// A module that the case's Python can import. The executor asks it, once there is a Python.
    PythonModule {
        /// Its name.
        name: String,
        /// The versions that will do.
        version: Option<Range>,
    },
    /// So many CPUs.
    Cpus(u32),
    /// So many bytes of memory, used or not.
    Memory(u64),
    /// So many bytes free in `/dev/shm`.
    Shm(u64),
    /// That this one is not met.
    Not(Box<Requirement>),
    /// At least one of these.
    Any(Vec<Requirement>),
    /// Each of these.
    All(Vec<Requirement>),
}
