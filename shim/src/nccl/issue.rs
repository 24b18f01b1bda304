//! The order in which this process issues operations to each of its devices, which NCCL requires to be the same on all devices
//! of their communicators. The coordinator compares.

use std::collections::BTreeMap;

use dataplane::call::Call;
use dataplane::lock::Mutex;
use protocol::datatype::Operation;
use protocol::record::Issue;

/// The last place given out, by device.
static LAST: Mutex<BTreeMap<u32, u64>> = Mutex::new(BTreeMap::new());

/// Gives the operations of one group, each with its device, their places in the order of the devices.
pub(super) fn number<'a>(operations: impl Iterator<Item = (u32, &'a mut Call)>) {
    let mut devices: BTreeMap<u32, Vec<&mut Call>> = BTreeMap::new();
    for (device, call) in operations.filter(|(_, call)| has_place(call)) {
        devices.entry(device).or_default().push(call);
    }
    let mut last = LAST.lock();
    for (device, calls) in devices {
        let place = last.entry(device).or_default();
        *place += 1;
        let issue = Issue { place: *place, together: calls.len() as u32 };
        calls.into_iter().for_each(|call| call.issue = issue);
    }
}

/// Whether an operation waits for others, and is reported when it is done.
fn has_place(call: &Call) -> bool {
    match call.operation {
        Operation::Send | Operation::Recv => true,
        Operation::AllReduce
        | Operation::Reduce
        | Operation::Broadcast
        | Operation::AllGather
        | Operation::ReduceScatter
        | Operation::AllToAll
        | Operation::Gather
        | Operation::Scatter => call.count > 0,
        Operation::Barrier
        | Operation::Split
        | Operation::Shrink
        | Operation::Grow
        | Operation::PutSignal
        | Operation::Signal
        | Operation::WaitSignal => false,
    }
}
