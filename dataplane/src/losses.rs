//! Ranks of a communicator that will not come again, as far as this process knows.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard};

use protocol::record::ErrorCode;

use crate::lock::Mutex;
use crate::wake::Wake;

/// A rank that will not come again, the reason, and a sentence about it.
pub(crate) type Loss = (u32, ErrorCode, String);

/// The losses of one communicator. The first reason of each rank stays.
pub(crate) struct Losses {
    by_rank: Mutex<BTreeMap<u32, (ErrorCode, String)>>,
    /// Rung at every loss.
    wake: Arc<Wake>,
}

impl Losses {
    /// No losses yet.
    pub(crate) fn new(wake: Arc<Wake>) -> Self {
        Self { by_rank: Mutex::default(), wake }
    }

    fn by_rank(&self) -> MutexGuard<'_, BTreeMap<u32, (ErrorCode, String)>> {
        self.by_rank.lock()
    }

    /// The wake-up that is rung at every loss, for threads that poll.
    pub(crate) fn wake(&self) -> &Wake {
        &self.wake
    }

    /// Records a loss and wakes the pollers.
    pub(crate) fn note(&self, rank: u32, code: ErrorCode, detail: &str) {
        self.by_rank().entry(rank).or_insert_with(|| (code, detail.to_owned()));
        self.wake.ring();
    }

    /// Why `rank` will not come again, if that is known.
    pub(crate) fn why(&self, rank: u32) -> Option<(ErrorCode, String)> {
        self.by_rank().get(&rank).cloned()
    }

    /// All known losses.
    pub(crate) fn all(&self) -> Vec<Loss> {
        self.by_rank().iter().map(|(rank, (code, detail))| (*rank, *code, detail.clone())).collect()
    }
}
