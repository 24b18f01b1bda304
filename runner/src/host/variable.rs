//! Environment variables: an empty one counts as unset, everywhere.

use std::ffi::OsString;

/// The value of `name`, unless empty.
pub fn get(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Whether `name` is set and not empty.
pub fn is_set(name: &str) -> bool {
    get(name).is_some()
}

/// The value of `name` in an environment as shown by `/proc/PID/environ`. A value that is not UTF-8 is not found.
pub fn in_environ<'environ>(environ: &'environ [u8], name: &str) -> Option<&'environ str> {
    environ.split(|byte| *byte == 0).find_map(|entry| {
        let value = std::str::from_utf8(entry).ok()?.strip_prefix(name)?;
        value.strip_prefix('=')
    })
}
