//! Programs that a test writes and then runs.

use std::path::Path;

use duct::cmd;

/// Makes the executable file `path`.
///
/// A child writes it: what this process has open for writing, a sibling test that is just starting a program holds open as
/// well, and the kernel refuses to execute a file that is open for writing (ETXTBSY).
pub(crate) fn write(path: &Path, text: &str) {
    let writer = cmd!("sh", "-c", "cat > \"$0\" && chmod 755 \"$0\"", path);
    writer.stdin_bytes(text).run().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
