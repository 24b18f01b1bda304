//! The machine's file (`FTEST_GPUS`), in which the processes of a case note what happened to its GPUs, and when.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use model::cluster::Cluster;
use protocol::fault::Fault;
use protocol::gpu_event::board::{self, Times};

/// The file, and the faults that the case asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    /// Where the file is; it may not exist yet.
    pub(crate) file: Option<PathBuf>,
    /// All faults of the case.
    pub(crate) faults: Vec<Fault>,
}

impl Machine {
    /// Tells the cluster what has happened so far.
    pub(crate) fn look(&self, cluster: &mut Cluster) {
        if let Some(file) =
            self.file.as_deref().filter(|_| self.faults.iter().any(|fault| fault.action.gpu().is_some()))
        {
            cluster.gpus_changed(&times(file), now_us());
        }
    }
}

/// The content of the file. Nothing if no process has made it, because then none has called CUDA.
fn times(file: &Path) -> Times {
    let mut bytes = Vec::new();
    let read = File::open(file).and_then(|file| file.take(board::BYTES as u64).read_to_end(&mut bytes));
    read.map(|_| Times::read(&bytes)).unwrap_or_default()
}

/// The machine's boot id; empty if the system does not provide it.
pub(crate) fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// The time of the machine's monotonic clock, by which ranks time what they do.
pub(crate) fn now_us() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_nobody_made_says_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gpus");
        assert_eq!(times(&path).start, 0);
        std::fs::write(&path, 5u64.to_ne_bytes()).unwrap();
        assert_eq!(times(&path).start, 5);
    }
}
