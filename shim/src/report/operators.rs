//! How often each PyTorch operator was computed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use dataplane::lock::Mutex;

/// Names and counters, one of each per registration; a name may occur more than once.
static OPERATORS: Mutex<Vec<(&'static str, &'static AtomicU64)>> = Mutex::new(Vec::new());

/// Adds the counter of an operator to the report.
pub(crate) fn register(name: &'static str, calls: &'static AtomicU64) {
    OPERATORS.lock().push((name, calls));
}

/// Operators that were computed, and how often.
pub(crate) fn calls() -> BTreeMap<String, u64> {
    let mut calls = BTreeMap::new();
    for (name, counter) in OPERATORS.lock().iter() {
        let count = counter.load(Ordering::Relaxed);
        if count > 0 {
            *calls.entry((*name).to_owned()).or_default() += count;
        }
    }
    calls
}
