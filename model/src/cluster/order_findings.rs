//! Findings about the order of operations that nevertheless completed: cycles and shifts, in sentences.

use std::collections::{BTreeMap, BTreeSet};

use protocol::datatype::Operation;
use protocol::finding::FindingKind;
use protocol::ids::{CommunicatorId, Rank, names};
use protocol::report::{Finding, Note};

use super::Cluster;
use crate::order::{Cycle, Side};
use crate::shift::{Apart, Shift, Unusual};
use crate::site::Call;

type Numbers = BTreeMap<CommunicatorId, CommunicatorId>;

impl Cluster {
    /// The findings about order, each with its time in us; `number` has the communicators' numbers, and files are named relative
    /// to `root`.
    pub(super) fn order_findings(&self, number: &Numbers, root: Option<&str>) -> Vec<(u64, Finding)> {
        let mut shifts = self.shifts.found();
        shifts.sort_by_key(|shift| number.get(&shift.communicator).copied());
        // Ranks are apart from the first of these calls on.
        let since = |shift: &Shift| shift.calls.iter().map(|(_, call)| call.ended_us).min().unwrap_or_default();
        let mut findings: Vec<(u64, Finding)> =
            shifts.iter().filter_map(|shift| Some((since(shift), self.shift_finding(shift, number, root)?))).collect();
        let cycles = self.orders.cycles(number);
        // The last of these calls closes the circle.
        let closed = |cycle: &Cycle| {
            let sides = cycle.iter().flat_map(|edge| [edge.first, edge.second]);
            sides.map(|side| side.call.ended_us).max().unwrap_or_default()
        };
        findings
            .extend(cycles.iter().filter_map(|cycle| Some((closed(cycle), self.cycle_finding(cycle, number, root)?))));
        findings
    }

    /// Collectives that ranks called from different lines, though no shift is proven; the first of each communicator.
    pub(super) fn notes(&self, number: &Numbers, root: Option<&str>) -> Vec<Note> {
        let note = |unusual: Unusual| {
            let communicator = self.communicators.get(&unusual.communicator)?;
            let id = *number.get(&unusual.communicator)?;
            let (operation, sequence) = (unusual.operation, unusual.sequence);
            let site =
                |(rank, call): &(Rank, Call)| self.finding_site(communicator.global_rank(*rank)?, call, false, root);
            Some(Note {
                sentence: format!(
                    "in communicator {id}, ranks called {operation}, collective {sequence}, from different lines"
                ),
                comm_id: id,
                seqno: sequence,
                operation: operation.name().to_owned(),
                sites: unusual.calls.iter().filter_map(site).collect(),
            })
        };
        let mut notes: Vec<Note> = self.shifts.unusual().into_iter().filter_map(note).collect();
        notes.iter_mut().for_each(|note| note.sites.sort_by_key(|site| site.rank));
        notes.sort_by_key(|note| note.comm_id);
        notes
    }

    fn shift_finding(&self, shift: &Shift, number: &Numbers, root: Option<&str>) -> Option<Finding> {
        let communicator = self.communicators.get(&shift.communicator)?;
        let global = |rank: Rank| communicator.global_rank(rank).unwrap_or(rank);
        let id = *number.get(&shift.communicator)?;
        let (reference, operation) = (global(shift.reference), shift.operation);
        let mut ranks: Vec<Rank> = shift.apart.ranks().into_iter().map(global).collect();
        ranks.sort_unstable();
        let (kind, what) = match &shift.apart {
            Apart::Ahead(ahead) => {
                let clause = |(rank, by): &(Rank, i32)| {
                    let (rank, way) = (global(*rank), if *by > 0 { "ahead of" } else { "behind" });
                    format!("rank {rank} is {} {way} rank {reference}", collectives(by.unsigned_abs()))
                };
                let clauses: Vec<String> = ahead.iter().map(clause).collect();
                let others =
                    if shift.within_lines { "other calls on the same lines" } else { "calls from other lines" };
                let what = format!("{}: calls are paired with {others}, and the shapes match", clauses.join(", "));
                (FindingKind::CollectiveShift, what)
            }
            Apart::Turns(_) => {
                let others = names("rank", "ranks", &ranks);
                let what = format!(
                    "threads of {others} take turns in a different order than those of rank {reference}: calls of one thread \
                     are paired with those of another, and the shapes match"
                );
                (FindingKind::ThreadOrder, what)
            }
        };
        let mut sites: Vec<_> =
            shift.calls.iter().filter_map(|(rank, call)| self.finding_site(global(*rank), call, false, root)).collect();
        sites.sort_by_key(|site| site.rank);
        Some(Finding {
            index: 0,
            kind,
            sentence: format!("in communicator {id}, from {operation}, collective {}, on, {what}", shift.sequence),
            comm_id: Some(id),
            seqno: shift.sequence,
            operation: operation.name().to_owned(),
            ranks,
            processes: Vec::new(),
            observed_ranks: vec![reference],
            sites,
        })
    }

    fn cycle_finding(&self, cycle: &Cycle, number: &Numbers, root: Option<&str>) -> Option<Finding> {
        let first = cycle.first()?.first;
        let sides = || cycle.iter().flat_map(|edge| [edge.first, edge.second]);
        let communicators: BTreeSet<CommunicatorId> = sides().map(|side| side.communicator).collect();
        let is_of_transfers = sides().all(|side| side.peer.is_some());
        let kind =
            if is_of_transfers || communicators.len() == 1 { FindingKind::SendCycle } else { FindingKind::OrderCycle };
        let id = *number.get(&first.communicator)?;
        let name = |side: Side| match number.get(&side.communicator) {
            Some(number) if communicators.len() > 1 => format!("{} of communicator {number}", called(side)),
            _ => called(side),
        };
        let clauses: Vec<String> = cycle
            .iter()
            .map(|edge| format!("rank {} calls {} before {}", edge.first.rank, name(edge.first), name(edge.second)))
            .collect();
        let clauses = match clauses.as_slice() {
            [others @ .., last] if !others.is_empty() => format!("{}, and {last}", others.join(", ")),
            _ => clauses.join(""),
        };
        let place = if communicators.len() > 1 { String::new() } else { format!("in communicator {id}, ") };
        let mut ordered: Vec<&Side> = cycle.iter().flat_map(|edge| [&edge.first, &edge.second]).collect();
        ordered.sort_by_key(|side| side.rank);
        Some(Finding {
            index: 0,
            kind,
            sentence: format!("{place}{clauses}"),
            comm_id: Some(id),
            seqno: first.sequence,
            operation: first.operation.name().to_owned(),
            ranks: sides().map(|side| side.rank).collect::<BTreeSet<Rank>>().into_iter().collect(),
            processes: Vec::new(),
            observed_ranks: Vec::new(),
            sites: ordered
                .into_iter()
                .filter_map(|side| self.finding_site(side.rank, &side.call, false, root))
                .collect(),
        })
    }
}

/// "all_reduce 3", "send 1 to rank 2".
fn called(side: Side) -> String {
    let way = if side.operation == Operation::Send { "to" } else { "from" };
    match side.peer {
        Some(peer) => format!("{} {} {way} rank {peer}", side.operation, side.sequence),
        None => format!("{} {}", side.operation, side.sequence),
    }
}

fn collectives(count: u32) -> String {
    if count == 1 { "1 collective".to_owned() } else { format!("{count} collectives") }
}
