//! Faults of the case that fired. Each fires once in a run, however often its rank is started again.

use std::collections::BTreeMap;

use protocol::fault::FaultRecord;

/// Faults beyond this many are not kept: a case has a handful.
const MAX_FAULTS: usize = 10_000;

/// What ranks reported of faults, by the fault's number.
#[derive(Debug, Default)]
pub(crate) struct FiredFaults {
    records: BTreeMap<u32, FaultRecord>,
}

impl FiredFaults {
    /// A rank is about to suffer a fault. False when it was reported before.
    pub(crate) fn note(&mut self, record: FaultRecord) -> bool {
        if self.records.contains_key(&record.number) {
            return false;
        }
        if self.records.len() < MAX_FAULTS {
            self.records.insert(record.number, record);
        }
        true
    }

    /// In the order of the case's list.
    pub(crate) fn records(&self) -> impl Iterator<Item = &FaultRecord> {
        self.records.values()
    }
}
