//! The faults of the case, and which of them fired. Each fires once in a run, however often its rank is restarted.

use std::collections::BTreeMap;

use protocol::fault::{Fault, FaultRecord, Trigger};
use protocol::gpu_event::GpuEvent;
use protocol::gpu_event::board::Times;
use protocol::report::FaultKind;

/// Faults beyond this many are not kept: a case has a handful.
const MAX_FAULTS: usize = 10_000;

/// What ranks reported about faults, by the fault's number.
#[derive(Debug, Default)]
pub(crate) struct FiredFaults {
    records: BTreeMap<u32, FaultRecord>,
    /// The faults that the case asks for, as far as the coordinator knows them.
    asked: Vec<Fault>,
}

impl FiredFaults {
    /// What the case asks for.
    pub(crate) fn ask(&mut self, faults: Vec<Fault>) {
        self.asked = faults;
    }

    /// Notes what happened to GPUs at a time after the start, which no rank reports. `times` are those in the machine's file, and
    /// `now` is by the same clock (us). True if something happened.
    pub(crate) fn note_gpus(&mut self, times: &Times, now: u64) -> bool {
        let due = |fault: &Fault| {
            let Trigger::After { rank, elapsed } = fault.at else { return None };
            let at = times.start.saturating_add(elapsed.as_micros() as u64);
            let record = FaultRecord { number: fault.number, kind: FaultKind::Gpu, rank, collective: None };
            (fault.action.gpu().is_some() && times.start > 0 && at <= now).then_some(record)
        };
        let due: Vec<FaultRecord> = self.asked.iter().filter_map(due).collect();
        let mut changed = false;
        for record in due {
            changed |= self.note(record);
        }
        changed
    }

    /// What a fault does to a GPU.
    pub(crate) fn gpu_event(&self, number: u32) -> Option<&GpuEvent> {
        self.asked.iter().find(|fault| fault.number == number)?.action.gpu()
    }

    /// A rank is about to suffer a fault. False if it was reported before.
    pub(crate) fn note(&mut self, record: FaultRecord) -> bool {
        if self.records.contains_key(&record.number) {
            return false;
        }
        if self.records.len() < MAX_FAULTS {
            self.records.insert(record.number, record);
        }
        true
    }

    /// The faults in the order of the case's list.
    pub(crate) fn records(&self) -> impl Iterator<Item = &FaultRecord> {
        self.records.values()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use protocol::fault::Action;
    use protocol::gpu_event::GpuHealth;
    use protocol::ids::Rank;

    use super::*;

    #[test]
    fn what_happens_to_a_gpu_after_a_while_is_noted_once_its_time_has_come() {
        let event = |number: u32, seconds| Fault {
            number,
            origin: "s.yaml:1:1".to_owned(),
            at: Trigger::After { rank: Some(Rank(number)), elapsed: Duration::from_secs(seconds) },
            action: Action::Gpu(GpuEvent {
                gpu: format!("node0/{number}"),
                node: 0,
                local: number,
                slot: 0,
                health: GpuHealth { pcie_generation: Some(1), ..GpuHealth::default() },
            }),
        };
        let kill = Fault { action: Action::Kill, ..event(3, 0) };
        let mut faults = FiredFaults::default();
        faults.ask(vec![event(1, 0), event(2, 2), kill]);
        let mut noted = |start, now| {
            let changed = faults.note_gpus(&Times { start, happened: Vec::new() }, now);
            (changed, faults.records().map(|record| record.number).collect::<Vec<_>>())
        };
        assert_eq!(noted(0, 5_000_000), (false, vec![]), "no process called CUDA");
        assert_eq!(noted(4_000_000, 5_000_000), (true, vec![1]));
        assert_eq!(noted(4_000_000, 5_999_999), (false, vec![1]));
        assert_eq!(noted(4_000_000, 6_000_000), (true, vec![1, 2]), "a kill is for its rank to report");
        assert_eq!(faults.gpu_event(2).map(|event| event.gpu.as_str()), Some("node0/2"));
        assert!(faults.gpu_event(3).is_none());
    }
}
