//! What of the machine a case depends on, before it starts and at its end.

use std::path::Path;

use super::CaseExecution;
use crate::case::Transport;
use crate::host::cache_directory::cache_directory;
use crate::host::surroundings;

impl CaseExecution<'_> {
    /// Makes sure that 127.0.0.1 is reached, if its processes are certain to talk by that: they would wait for each other.
    ///
    /// # Errors
    /// It is not: one sentence.
    pub(super) fn check_loopback(&self) -> Result<(), String> {
        let case = self.case;
        let is_here = self.network.is_none() && self.elsewhere.is_none();
        let meet = case.world_size().is_some_and(|ranks| ranks > 1) && case.python.is_some();
        if !is_here || !(meet || case.torchruns().is_some() || case.transport == Transport::Tcp) {
            return Ok(());
        }
        surroundings::no_loopback().map_or(Ok(()), Err)
    }

    /// Notes what the machine allowed, and what it did.
    pub(super) fn note_surroundings(&mut self) {
        let cache = cache_directory().unwrap_or_default();
        let places = [
            ("TMPDIR", self.context.directory()),
            ("the suite's directory", &self.case.dir),
            ("the cache", &cache),
            ("shared memory", Path::new("/dev/shm")),
        ];
        self.observation.machine = self.memory.machine();
        surroundings::note(&mut self.observation.machine, &places);
    }
}
