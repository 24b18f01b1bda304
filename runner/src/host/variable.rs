//! Environment variables that say something: an empty one counts as one that is not set, everywhere.

use std::ffi::OsString;

/// What `name` holds, unless that is nothing.
pub fn get(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Whether `name` holds something.
pub fn is_set(name: &str) -> bool {
    get(name).is_some()
}
