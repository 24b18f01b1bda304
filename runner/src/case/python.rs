//! Which Python a case needs.

/// What a managed environment holds by default.
pub const DEFAULT_REQUIREMENTS: &[&str] = &["numpy", "torch==2.15.0"];
/// The Python on `PATH` instead of a managed one, in `python` and in `FTEST_PYTHON`.
pub const SYSTEM: &str = "system";

/// What a case needs of Python; cases with equal needs share an environment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PythonNeed {
    /// A managed environment with these requirements, as pip writes them, sorted: `torch==2.15.0`. The usual ones where
    /// there are none.
    Managed(Vec<String>),
    /// The one on `PATH`.
    System,
}
