//! What is printed on stderr.

use std::io::Write;

/// Prints what the program may never ask for, in one piece, because other processes write to the same stream.
pub(crate) fn say(detail: &str) {
    let _ = std::io::stderr().write_all(format!("fakegpu: hybrid: {detail}\n").as_bytes());
}
