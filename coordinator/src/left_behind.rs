//! Operations that a process completed and had no time to report: read from its memory file, which the coordinator
//! holds open.

use std::fs::File;
use std::os::unix::fs::FileExt;

use protocol::backlog::Backlog;
use protocol::message::ProcessInfo;
use protocol::record::OperationRecord;

/// The memory file of a process that may be gone.
#[derive(Debug)]
pub(crate) struct LeftBehind {
    backlog: Backlog,
    file: File,
}

impl LeftBehind {
    /// The file of a process on this host; files of other hosts are out of reach.
    pub(crate) fn from_process(info: &ProcessInfo) -> Option<Self> {
        let backlog = info.backlog?;
        let file = File::open(format!("/proc/{}/fd/{}", info.pid, backlog.fd)).ok()?;
        Some(Self { backlog, file })
    }

    /// The operations that it has not reported.
    pub(crate) fn records(&self) -> Vec<OperationRecord> {
        let mut bytes = vec![0; Backlog::HEADER_BYTES];
        if self.file.read_exact_at(&mut bytes, 0).is_err() {
            return Vec::new();
        }
        if bytes[Backlog::WRITTEN..][..8] == bytes[Backlog::REPORTED..][..8] {
            return Vec::new();
        }
        bytes.resize(Backlog::BYTES, 0);
        match self.file.read_exact_at(&mut bytes, 0) {
            Ok(()) => self.backlog.unreported(&bytes),
            Err(_) => Vec::new(),
        }
    }
}
