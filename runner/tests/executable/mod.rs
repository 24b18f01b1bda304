//! Programs that a test writes and then runs.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Makes the executable file `path`.
///
/// A child writes it: what this process has open for writing, a sibling test that is just starting a program holds open as
/// well, and the kernel refuses to execute a file that is open for writing (ETXTBSY).
pub(crate) fn write(path: &Path, text: &str) {
    let mut child = Command::new("sh")
        .args(["-c", "cat > \"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("there is a shell");
    child.stdin.take().expect("it is a pipe").write_all(text.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "{} cannot be written", path.display());
}
