//! Paths in JSON. Bytes of a path that are not UTF-8 become U+FFFD: a log with such a path is better than none.

use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

/// Serializes a path, as `#[serde(serialize_with)]` wants it.
///
/// # Errors
/// Those of the serializer.
pub(crate) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    path.to_string_lossy().serialize(serializer)
}

/// The same for a path that may be missing.
///
/// # Errors
/// Those of the serializer.
pub(crate) fn optional<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_ref().map(|path| path.to_string_lossy()).serialize(serializer)
}
