//! Memory that was summed over all ranks of a communicator, for the sanitizer `replicas`: if it is a parameter's gradient,
//! the parameter has replicas on these ranks.

use std::collections::{BTreeMap, BTreeSet};

use dataplane::lock::Mutex;
use protocol::ids::Rank;

use crate::process::fork;
use crate::settings;

/// Maximum number of pieces of memory remembered: the gradients of a step.
const REMEMBERED: usize = 1 << 16;

struct Sum {
    end: usize,
    ranks: Vec<Rank>,
    /// Whether an optimizer used it.
    is_used: bool,
}

type Sums = BTreeMap<usize, Sum>;

static SUMS: Mutex<Sums> = Mutex::new(BTreeMap::new());

/// How many bytes there were in each sum since [`forget_lengths`].
static LENGTHS: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// Whether the sanitizer `replicas` is enabled.
pub(crate) fn is_wanted() -> bool {
    settings::get().is_ok_and(|settings| settings.sanitize.replicas) && !fork::is_lost()
}

/// Whether the case asked for it, so that a check that is not made is a gap.
pub(crate) fn is_asked() -> bool {
    settings::get().is_ok_and(|settings| settings.asks_for_replicas)
}

/// Records that the ranks sum these bytes.
pub(crate) fn note(address: usize, bytes: usize, ranks: Vec<Rank>) {
    note_in(&mut SUMS.lock(), address, bytes, ranks);
    let mut lengths = LENGTHS.lock();
    if lengths.len() < REMEMBERED {
        lengths.insert(bytes);
    }
}

/// Whether so many bytes were summed at once, wherever they went from there.
pub(crate) fn is_length(bytes: usize) -> bool {
    LENGTHS.lock().contains(&bytes)
}

/// Later calls of [`is_length`] ask about later sums.
pub(crate) fn forget_lengths() {
    LENGTHS.lock().clear();
}

/// The ranks that summed all of these bytes, which an optimizer uses.
pub(crate) fn used(address: usize, bytes: usize) -> Option<Vec<Rank>> {
    let mut sums = SUMS.lock();
    let sum = sum_of(&mut sums, address, bytes)?;
    sum.is_used = true;
    Some(sum.ranks.clone())
}

/// Whether all of these bytes were summed.
pub(crate) fn is_sum(address: usize, bytes: usize) -> bool {
    sum_of(&mut SUMS.lock(), address, bytes).is_some()
}

/// Called when the optimizer is done with the memory it used: the next step needs new sums.
pub(crate) fn step() {
    SUMS.lock().retain(|_, sum| !sum.is_used);
}

/// Called when memory is copied: a sum is then a sum at its new place too, and everything else there is not.
pub(crate) fn copied(to: usize, from: usize, bytes: usize) {
    let mut sums = SUMS.lock();
    match sum_of(&mut sums, from, bytes).map(|sum| sum.ranks.clone()) {
        Some(ranks) => note_in(&mut sums, to, bytes, ranks),
        None => forget_in(&mut sums, to, bytes),
    }
}

/// Called when memory gets a new owner, or what is there is no sum any more.
pub(crate) fn forget(address: usize, bytes: usize) {
    if is_wanted() {
        forget_in(&mut SUMS.lock(), address, bytes);
    }
}

fn sum_of(sums: &mut Sums, address: usize, bytes: usize) -> Option<&mut Sum> {
    let (_, sum) = sums.range_mut(..=address).next_back()?;
    (bytes > 0 && address + bytes <= sum.end).then_some(sum)
}

fn note_in(sums: &mut Sums, address: usize, bytes: usize, ranks: Vec<Rank>) {
    forget_in(sums, address, bytes);
    if sums.len() >= REMEMBERED {
        sums.clear();
    }
    sums.insert(address, Sum { end: address + bytes, ranks, is_used: false });
}

fn forget_in(sums: &mut Sums, address: usize, bytes: usize) {
    let before = sums.range(..address).next_back().filter(|(_, sum)| sum.end > address).map(|(start, _)| *start);
    let within: Vec<usize> = sums.range(address..address + bytes).map(|(start, _)| *start).collect();
    for start in before.into_iter().chain(within) {
        sums.remove(&start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_known_until_it_is_used_or_its_memory_goes() {
        let group = || vec![Rank(0), Rank(2)];
        note(1000, 100, group());
        note(1200, 100, group());
        assert_eq!(used(1000, 101), None, "not all of it");
        assert!(is_length(100) && !is_length(50));
        assert_eq!((is_sum(1000, 100), is_sum(1000, 101)), (true, false));
        assert_eq!(used(1090, 10), Some(group()));
        assert_eq!(used(1100, 10), None);
        step();
        assert_eq!(used(1000, 100), None, "used");
        copied(2000, 1250, 50);
        assert_eq!(used(2000, 50), Some(group()), "a part of a sum, elsewhere");
        copied(2000, 5000, 10);
        assert_eq!(used(2000, 50), None, "something else is there now");
        assert_eq!(used(1200, 100), Some(group()));
        forget_in(&mut SUMS.lock(), 1299, 10);
        assert_eq!(used(1200, 50), None);
        note(1400, 100, group());
        note(1450, 100, vec![Rank(1)]);
        assert_eq!(used(1400, 10), None, "another sum is there now");
        assert_eq!(used(1450, 100), Some(vec![Rank(1)]));
    }
}
