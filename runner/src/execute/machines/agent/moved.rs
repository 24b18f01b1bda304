//! Paths in arguments and variables that are elsewhere on this machine.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// Directories of ftest's machine and those in their place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Moved(Vec<(Vec<u8>, Vec<u8>)>);

impl Moved {
    /// Has `to` in place of `from`.
    pub(super) fn add(&mut self, from: &OsStr, to: &Path) {
        self.0.push((from.as_bytes().to_vec(), to.as_os_str().as_bytes().to_vec()));
    }

    /// `text` with the names of all directories replaced.
    pub(super) fn apply(&self, text: &OsStr) -> OsString {
        let mut bytes = text.as_bytes().to_vec();
        for (from, to) in &self.0 {
            bytes = replaced(&bytes, from, to);
        }
        OsString::from_vec(bytes)
    }
}

fn replaced(text: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memmem::find(rest, from).filter(|_| !from.is_empty()) {
        let end = at + from.len();
        out.extend_from_slice(&rest[..at]);
        // `/tmp/run/1` is not the beginning of `/tmp/run/12`.
        let goes_on = rest.get(end).is_some_and(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte));
        out.extend_from_slice(if goes_on { from } else { to });
        rest = &rest[end..];
    }
    out.extend_from_slice(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_replaced_where_it_is_named_as_a_whole() {
        let mut moved = Moved::default();
        moved.add("/tmp/ft-0/1".as_ref(), Path::new("/var/ft-9/4"));
        moved.add("/c/holders/ab".as_ref(), Path::new("/c/holders/cd"));
        for (text, expected) in [
            ("/tmp/ft-0/1", "/var/ft-9/4"),
            ("/tmp/ft-0/1/device-{pid}.json", "/var/ft-9/4/device-{pid}.json"),
            ("/tmp/ft-0/12/x:/tmp/ft-0/1:/c/holders/ab/bin", "/tmp/ft-0/12/x:/var/ft-9/4:/c/holders/cd/bin"),
            ("--log-dir=/tmp/ft-0/1/torchrun-1", "--log-dir=/var/ft-9/4/torchrun-1"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(moved.apply(text.as_ref()), expected, "{text}");
        }
    }
}
