//! Faults that a case asks for: how they travel from the runner to the ranks (`FTEST_FAULTS`), and what a rank reports about one
//! that fires.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::datatype::Operation;
use crate::gpu_event::GpuEvent;
use crate::ids::{CommunicatorId, Rank, Sequence};
use crate::report::FaultKind;

/// One fault. Every process of a case gets the list of all of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Position in the case's list, from 1. 0 if it is from `FAKEGPU_NCCL_FAULT_*`; then nothing waits for the report that it
    /// fired.
    pub number: u32,
    /// Where it was requested, for messages: "suite.yaml:12:9".
    pub origin: String,
    /// When.
    pub at: Trigger,
    /// What happens.
    pub action: Action,
}

/// When a fault fires.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Trigger {
    /// At the start of a rank's collective, send or recv.
    Collective {
        /// Global rank.
        rank: Rank,
        /// Which of the rank's communicators, counted from 1 as they form; `None` is any.
        communicator: Option<u64>,
        /// Which kind.
        operation: Operation,
        /// Its position among all collectives of the communicator, or among the rank's own sends or recvs in it; `None` is the
        /// first of its kind.
        sequence: Option<Sequence>,
    },
    /// Some time after the process joined.
    After {
        /// Global rank; `None` is every rank.
        rank: Option<Rank>,
        /// The time; zero is from the start.
        elapsed: Duration,
    },
}

/// What a fault does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Action {
    /// SIGKILL to the rank's process.
    Kill,
    /// SIGSTOP to the rank's process.
    Stop,
    /// The rank arrives later by this much.
    Delay(Duration),
    /// The collective fails on the rank with `ncclRemoteError`.
    NcclError,
    /// One bit of what the rank contributes is flipped.
    Corrupt,
    /// The rank never arrives.
    Drop,
    /// Operations that cross a link take longer.
    SlowLink {
        /// The link.
        link: Link,
        /// The time that every operation takes longer.
        delay: Duration,
        /// The bandwidth of the link for their bytes, Gbit/s; `None` adds no time.
        gbps: Option<f64>,
    },
    /// Operations that cross a link fail.
    CutLink {
        /// The link.
        link: Link,
    },
    /// The health of the rank's GPU changes.
    Gpu(GpuEvent),
}

/// The link between two nodes, both directions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Link(pub [Side; 2]);

/// One end of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Side {
    /// Name of the node.
    pub node: String,
    /// Global ranks on it.
    pub ranks: Vec<Rank>,
}

/// A fault that fires, as the rank reports it to the coordinator beforehand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultRecord {
    /// [`Fault::number`].
    pub number: u32,
    /// What it does.
    pub kind: FaultKind,
    /// The global rank it hits; absent for a link.
    pub rank: Option<Rank>,
    /// What it hits: communicator, position and operation.
    pub collective: Option<(CommunicatorId, Sequence, Operation)>,
}

impl Action {
    /// The word for it.
    pub fn kind(&self) -> FaultKind {
        match self {
            Self::Kill => FaultKind::Kill,
            Self::Stop => FaultKind::Stop,
            Self::Delay(_) => FaultKind::Delay,
            Self::NcclError => FaultKind::NcclError,
            Self::Corrupt => FaultKind::Corrupt,
            Self::Drop => FaultKind::Drop,
            Self::SlowLink { .. } => FaultKind::SlowLink,
            Self::CutLink { .. } => FaultKind::CutLink,
            Self::Gpu(_) => FaultKind::Gpu,
        }
    }

    /// The GPU whose health it changes.
    pub fn gpu(&self) -> Option<&GpuEvent> {
        match self {
            Self::Gpu(event) => Some(event),
            _ => None,
        }
    }

    /// The link that it concerns.
    pub fn link(&self) -> Option<&Link> {
        match self {
            Self::SlowLink { link, .. } | Self::CutLink { link } => Some(link),
            _ => None,
        }
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} and {}", self.0[0].node, self.0[1].node)
    }
}

/// "`delay` at rank 1, collective 2 (all_reduce)", "`kill` of rank 0 after 2s", "`cut_link` between node0 and node1",
/// "`gpu` node0/3 (xid 79, lost) after 2s".
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.action.kind().name())?;
        if let Some(event) = self.action.gpu() {
            write!(f, " {} ({})", event.gpu, event.health)?;
        }
        if let Some(link) = self.action.link() {
            write!(f, " between {link}")?;
        }
        match &self.at {
            Trigger::Collective { rank, communicator, operation, sequence } => {
                match sequence {
                    Some(sequence) if operation.is_for_two() => write!(f, " at rank {rank}, {operation} {sequence}")?,
                    Some(sequence) => write!(f, " at rank {rank}, collective {sequence} ({operation})")?,
                    None => write!(f, " at rank {rank}, first {operation}")?,
                }
                match communicator {
                    Some(number) if *number > 1 => write!(f, " of its communicator {number}"),
                    _ => Ok(()),
                }
            }
            Trigger::After { rank, elapsed } => {
                if let (Some(rank), None) = (rank, self.action.gpu()) {
                    write!(f, " of rank {rank}")?;
                }
                if elapsed.is_zero() { Ok(()) } else { write!(f, " after {elapsed:?}") }
            }
        }
    }
}

/// The value of `FTEST_FAULTS` for `faults`.
///
/// # Panics
/// Never: the types have only string keys, and the runner refuses numbers that JSON cannot represent.
pub fn to_json(faults: &[Fault]) -> String {
    serde_json::to_string(faults).expect("faults always serialize")
}

/// Reads what [`to_json`] wrote.
///
/// # Errors
/// What is wrong with the text.
pub fn from_json(text: &str) -> Result<Vec<Fault>, serde_json::Error> {
    serde_json::from_str(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu_event::GpuHealth;

    fn faults() -> Vec<Fault> {
        let side = |node: &str, ranks: [u32; 2]| Side { node: node.to_owned(), ranks: ranks.map(Rank).to_vec() };
        let link = Link([side("node0", [0, 1]), side("node1", [2, 3])]);
        let at = |communicator, sequence| Trigger::Collective {
            rank: Rank(1),
            communicator,
            operation: Operation::AllReduce,
            sequence,
        };
        let sends = Trigger::Collective {
            rank: Rank(1),
            communicator: Some(1),
            operation: Operation::Send,
            sequence: Some(Sequence(3)),
        };
        let after = |rank, milliseconds| Trigger::After { rank, elapsed: Duration::from_millis(milliseconds) };
        let health = GpuHealth { lost: true, xid: Some(79), ..GpuHealth::default() };
        let lost = Action::Gpu(GpuEvent { gpu: "node1/1".to_owned(), node: 1, local: 1, slot: 0, health });
        let slow = Action::SlowLink { link: link.clone(), delay: Duration::from_micros(1500), gbps: Some(0.5) };
        [
            (at(Some(1), Some(Sequence(2))), Action::Delay(Duration::from_millis(200))),
            (at(Some(2), None), Action::Corrupt),
            (after(Some(Rank(0)), 2000), Action::Kill),
            (after(None, 0), slow),
            (after(None, 1500), Action::CutLink { link }),
            (sends, Action::Drop),
            (after(Some(Rank(3)), 2000), lost),
        ]
        .into_iter()
        .zip(1..)
        .map(|((at, action), number)| Fault { number, origin: "s.yaml:1:2".to_owned(), at, action })
        .collect()
    }

    #[test]
    fn faults_travel_as_json() {
        assert_eq!(from_json(&to_json(&faults())).unwrap(), faults());
        assert!(from_json("[{\"number\": 1}]").is_err());
    }

    #[test]
    fn a_fault_reads_like_a_sentence() {
        let texts: Vec<String> = faults().iter().map(Fault::to_string).collect();
        assert_eq!(
            texts,
            [
                "`delay` at rank 1, collective 2 (all_reduce)",
                "`corrupt` at rank 1, first all_reduce of its communicator 2",
                "`kill` of rank 0 after 2s",
                "`slow_link` between node0 and node1",
                "`cut_link` between node0 and node1 after 1.5s",
                "`drop` at rank 1, send 3",
                "`gpu` node1/1 (xid 79, lost) after 2s",
            ]
        );
    }
}
