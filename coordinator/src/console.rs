//! What the coordinator prints for the program that started it: lines on stdout and stderr.

use std::io::{self, Write};

use protocol::announcement::Announcement;

/// Prints a line on stdout for the program that started the coordinator; a closed stdout is ignored.
pub fn announce(announcement: &Announcement) {
    let mut stdout = io::stdout();
    let _ = writeln!(stdout, "{announcement}").and_then(|()| stdout.flush());
}

/// Prints a line on stderr; a closed stderr is ignored.
pub fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "fakegpu-coordinator: {text}");
}
