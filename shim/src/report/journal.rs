//! The journal: gaps and findings are written to disk immediately, because a process may end in ways that no handler sees.

use std::fs::OpenOptions;
use std::io::{self, Write};

use dataplane::refusal;
use protocol::device_report::{Change, JournalEntry, JournalLine};
use protocol::file_access::FileAccess;
use protocol::sampling::Pass;
use protocol::transfer::Transfer;
use protocol::upstream::Upstream;

use crate::process::rank;
use crate::settings;

/// Maximum size, bytes; no useful journal is larger.
const LARGEST: u64 = 1 << 30;

/// Appends a gap that this process met for the first time.
pub(crate) fn note(library: &str, name: &str, detail: &str) {
    append(&JournalLine::Gap(JournalEntry {
        pid: std::process::id(),
        rank: rank(),
        library: library.to_owned(),
        name: name.to_owned(),
        detail: detail.to_owned(),
    }));
}

/// Appends a pass over a dataset.
pub(crate) fn note_pass(pass: Pass) {
    append(&JournalLine::Pass(pass));
}

/// Appends an access to a file.
pub(crate) fn note_file(access: FileAccess) {
    append(&JournalLine::File(access));
}

/// Appends an end of a send and recv.
pub(crate) fn note_transfer(transfer: Transfer) {
    append(&JournalLine::Transfer(transfer));
}

/// Appends the gradient of a tensor that an all_reduce changed.
pub(crate) fn note_upstream(upstream: Upstream) {
    append(&JournalLine::Upstream(upstream));
}

/// Appends that a relation has changed something in the program.
pub(crate) fn note_change() {
    append(&JournalLine::Change(Change { changed_pid: std::process::id() }));
}

/// Appends a line. False if there is no journal.
pub(super) fn append(entry: &JournalLine) -> bool {
    let Ok(Some(path)) = settings::get().map(|settings| settings.journal.as_deref()) else { return false };
    let append = || -> io::Result<()> {
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        // In one piece: other processes append to the same file. Not kept open, so that neither fork nor exec matters.
        OpenOptions::new().append(true).create(true).open(path)?.write_all(&line)
    };
    if let Err(error) = refusal::with_file_size(LARGEST, append) {
        let sentence = refusal::explain(&format!("a gap or finding cannot be noted in {path}"), &error);
        eprintln!("fakegpu: {sentence}");
    }
    true
}
