//! Which collectives of a step were exposed: they ran, and nothing else did.

use std::collections::BTreeMap;

use protocol::report::{ExposedCollective, PathKind};

use super::intervals::{Coverage, Intervals};
use super::{Interval, Piece, TOLD};

/// The collectives of a step that were exposed, equal ones added up, the longest first.
pub fn exposed(pieces: &[Piece], (begin, end): Interval) -> Vec<ExposedCollective> {
    let mut computing = Intervals::new();
    let others = pieces.iter().filter(|piece| piece.kind != PathKind::Collective);
    others.for_each(|piece| computing.add((piece.begin_ns, piece.end_ns)));
    let computing = Coverage::new(computing.joined().to_vec());
    // By operation, bytes and line: how many, and how long.
    let mut totals: BTreeMap<_, (u64, u64)> = BTreeMap::new();
    for piece in pieces {
        let (Some(operation), Some(bytes)) = (piece.operation, piece.bytes) else { continue };
        let window = (piece.begin_ns.max(begin), piece.end_ns.min(end));
        let total = totals.entry((operation.name(), bytes, piece.line.as_ref())).or_default();
        total.0 += 1;
        total.1 += window.1.saturating_sub(window.0) - computing.within(window);
    }
    let exposed = totals.into_iter().filter(|(_, (_, time_ns))| *time_ns > 0);
    let exposed = exposed.map(|((operation, bytes, line), (count, time_ns))| ExposedCollective {
        operation: operation.to_owned(),
        bytes,
        file: line.map(|(file, _)| file.clone()),
        line: line.map(|(_, line)| *line),
        count,
        time_ns,
    });
    let mut exposed: Vec<ExposedCollective> = exposed.collect();
    exposed.sort_by_key(|exposed| std::cmp::Reverse(exposed.time_ns));
    exposed.truncate(TOLD);
    exposed
}

#[cfg(test)]
mod tests {
    use protocol::datatype::Operation;

    use super::*;

    fn piece(operation: Option<Operation>, bytes: u64, (begin_ns, end_ns): Interval) -> Piece {
        Piece {
            name: "kernel".to_owned(),
            kind: if operation.is_some() { PathKind::Collective } else { PathKind::Compute },
            operation,
            bytes: operation.map(|_| bytes),
            line: operation.map(|_| ("train.py".to_owned(), 7)),
            stream: 1,
            at_ns: 0,
            after_ns: 0,
            lost_ns: 0,
            ready_ns: begin_ns,
            begin_ns,
            awaited: None,
            end_ns,
            is_host_late: false,
        }
    }

    #[test]
    fn what_kernels_hide_does_not_count() {
        let (gather, reduce) = (Some(Operation::AllGather), Some(Operation::AllReduce));
        let pieces = [
            piece(gather, 100, (50, 150)),
            piece(None, 0, (120, 300)),
            piece(reduce, 8, (140, 290)),
            piece(gather, 100, (290, 350)),
            piece(gather, 4, (340, 345)),
        ];
        let told: Vec<_> = exposed(&pieces, (100, 340))
            .into_iter()
            .map(|one| (one.operation, one.bytes, one.line, one.count, one.time_ns))
            .collect();
        assert_eq!(told, [("all_gather".to_owned(), 100, Some(7), 2, 20 + 40)]);
    }
}
