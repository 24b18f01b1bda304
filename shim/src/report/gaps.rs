//! How often each gap was used: by library, name and detail (a kernel's name, a datatype).

use std::collections::BTreeMap;
use std::sync::MutexGuard;

use dataplane::lock::Mutex;

/// Maximum number of details counted separately per name; further ones are counted under `_other_`.
const DETAILS: usize = 10_000;
/// Maximum number of details listed on stderr per name; the rest are only counted.
pub(crate) const NAMED: usize = 16;

type Details = BTreeMap<String, u64>;
type Gaps = BTreeMap<(&'static str, &'static str), Details>;

static GAPS: Mutex<Gaps> = Mutex::new(Gaps::new());

fn gaps() -> MutexGuard<'static, Gaps> {
    GAPS.lock()
}

/// Counts one use. For a new detail, returns the number of details known before it.
pub(crate) fn count(library: &'static str, name: &'static str, detail: &str) -> Option<usize> {
    let mut gaps = gaps();
    let details = gaps.entry((library, name)).or_default();
    let known = details.len();
    if let Some(count) = details.get_mut(detail) {
        *count += 1;
        None
    } else if known < DETAILS {
        details.insert(detail.to_owned(), 1);
        Some(known)
    } else {
        *details.entry("_other_".to_owned()).or_default() += 1;
        None
    }
}

/// (library, name, detail, count) of every gap, sorted.
pub(crate) fn all() -> Vec<(&'static str, &'static str, String, u64)> {
    let gaps = gaps();
    let rows = gaps.iter().flat_map(|((library, name), details)| {
        details.iter().map(move |(detail, count)| (*library, *name, detail.clone(), *count))
    });
    rows.collect()
}

/// Prints totals for names with more details than were listed individually.
pub(crate) fn print_totals() {
    for ((library, name), details) in gaps().iter().filter(|(_, details)| details.len() > NAMED) {
        let uses: u64 = details.values().sum();
        eprintln!("fakegpu: {name} ({library}): {} different ones, {uses} uses in total", details.len());
    }
}
