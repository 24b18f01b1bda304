//! When something happens: at a collective of a rank, or after a while.

use std::time::Duration;

use model::node::{Entry, Node};
use protocol::datatype::Operation;
use protocol::fault::Trigger;
use protocol::ids::{Rank, Sequence};
use protocol::report::COLLECTIVES;

use crate::suite::reader::{Mapping, Reader, sound};

/// `{collective: all_reduce, seq: 3}` or `{after: 2s}`.
pub(super) enum Moment {
    Collective { communicator: u32, operation: Operation, sequence: Option<u32> },
    After(Duration),
}

impl Moment {
    /// The trigger for `rank`.
    pub(super) fn trigger_for(self, rank: Rank) -> Trigger {
        match self {
            Self::Collective { communicator, operation, sequence } => Trigger::Collective {
                rank,
                communicator: Some(communicator.into()),
                operation,
                sequence: sequence.map(|sequence| Sequence(sequence.into())),
            },
            Self::After(elapsed) => Trigger::After { rank: Some(rank), elapsed },
        }
    }

    /// Reads the keys of `at`, at `node`; `what` and `help` say who needs a time and how it is given.
    pub(super) fn read(reader: &Reader<'_>, node: &Node, at: Mapping<'_, '_>, what: &str, help: &str) -> Option<Self> {
        let (collective, after) = (at.get("collective"), at.entry("after"));
        let (sequence, communicator) = (at.entry("seq"), at.entry("communicator"));
        at.finish();
        match (collective, after) {
            (Some(collective), None) => {
                let operation = read_collective(reader, collective);
                let number =
                    |entry: Option<&Entry>, key| entry.map(|entry| reader.integer(key, &entry.node, 1, u32::MAX));
                let (sequence, communicator) = (number(sequence, "seq"), number(communicator, "communicator"));
                Some(Self::Collective {
                    communicator: communicator.unwrap_or(Some(1))?,
                    operation: operation?,
                    sequence: sound(sequence)?,
                })
            }
            (None, Some(after)) => {
                for entry in [sequence, communicator].into_iter().flatten() {
                    let message = format!("`{}` without a `collective`", entry.key);
                    reader.mistake(&entry.key_span, message, "it belongs to `collective: all_reduce`");
                }
                let elapsed = reader.duration("after", &after.node)?;
                sequence.or(communicator).is_none().then_some(Self::After(elapsed))
            }
            (Some(_), Some(after)) => {
                reader.mistake(&after.key_span, "`at` has both `collective` and `after`", "keep one of the two");
                None
            }
            (None, None) => {
                reader.mistake(&node.span, format!("`{what}` does not say when"), help);
                None
            }
        }
    }
}

fn read_collective(reader: &Reader<'_>, node: &Node) -> Option<Operation> {
    let choices = operations();
    let names: Vec<&str> = choices.iter().map(|operation| operation.name()).collect();
    reader.choice("collective", node, &names).map(|index| choices[index])
}

/// The operations a fault may wait for. A barrier is not an NCCL operation: frameworks use an all_reduce.
pub(super) fn operations() -> Vec<Operation> {
    let collectives = COLLECTIVES.into_iter().filter(|operation| *operation != Operation::Barrier);
    collectives.chain([Operation::Send, Operation::Recv]).collect()
}
