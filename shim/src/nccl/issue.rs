//! The order in which this process issues operations to each of its devices, which NCCL requires to be the same on all devices
//! of their communicators. The coordinator compares.

use std::collections::BTreeMap;

use dataplane::call::Call;
use dataplane::lock::Mutex;
use protocol::datatype::Operation;
use protocol::record::Issue;

use super::threads;

/// The last place given out, by device.
static LAST: Mutex<BTreeMap<u32, u64>> = Mutex::new(BTreeMap::new());

/// Assigns the operations of one group, each with its device, their places in the devices' orders.
pub(super) fn number<'a>(operations: impl Iterator<Item = (u32, &'a mut Call)>) {
    let mut operations: Vec<(u32, &mut Call)> = operations.filter(|(_, call)| has_place(call)).collect();
    operations.sort_by_key(|(device, _)| *device);
    let thread = threads::number() as u32;
    let mut last = LAST.lock();
    for together in operations.chunk_by_mut(|one, other| one.0 == other.0) {
        let place = last.entry(together[0].0).or_default();
        *place += 1;
        let issue = Issue { place: *place, together: together.len() as u32, thread };
        together.iter_mut().for_each(|(_, call)| call.issue = issue);
    }
}

/// Whether an operation waits for others, and is reported when it is done.
fn has_place(call: &Call) -> bool {
    match call.operation {
        Operation::Send | Operation::Recv => true,
        Operation::Barrier | Operation::Split | Operation::Shrink | Operation::Grow => false,
        operation => !operation.is_one_sided() && call.count > 0,
    }
}
