//! What a rank does in a communicator, reported on request: by the coordinator, because nothing moves anymore, or by a person.

use serde::{Deserialize, Serialize};

use crate::datatype::{Datatype, Operation, ReductionOp};
use crate::ids::{CommunicatorId, Rank, Sequence, SiteId};

/// One rank in one communicator, at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Activity {
    /// Which communicator.
    pub communicator: CommunicatorId,
    /// The rank in it.
    pub rank: Rank,
    /// The operations that it is in: none, one collective, or the sends and recvs of a group that are not done.
    pub current: Vec<Activation>,
    /// Launches that the program issued behind it.
    pub queued: u64,
    /// The last operations it completed, oldest first.
    pub recent: Vec<Activation>,
}

/// An operation that is in progress or done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Activation {
    /// Which collective of the communicator; for send and recv, which transfer of the ordered pair, 0 while that is open.
    pub sequence: Sequence,
    /// What.
    pub operation: Operation,
    /// Elements as the caller gave them.
    pub count: u64,
    /// Element type.
    pub datatype: Datatype,
    /// Reduction operator, where the operation has one.
    pub reduction_op: Option<ReductionOp>,
    /// Root, where the operation has one.
    pub root: Option<Rank>,
    /// The other side of a send or recv.
    pub peer: Option<Rank>,
    /// Time since it began, us.
    pub age_us: u64,
    /// How long it took, us; `None` while it is in progress.
    pub took_us: Option<u64>,
    /// Where the program called it.
    pub site: SiteId,
}

impl Activation {
    /// "all_reduce(count 4, float32, sum)", "send(count 8, float32, peer 1)", "wait_signal(count 2, peer 0)".
    pub fn describe(&self) -> String {
        let mut words = match self.operation {
            Operation::Signal => Vec::new(),
            Operation::WaitSignal => vec![format!("count {}", self.count)],
            _ => vec![format!("count {}", self.count), self.datatype.to_string()],
        };
        words.extend(self.reduction_op.map(|op| op.to_string()));
        words.extend(self.root.map(|root| format!("root {root}")));
        words.extend(self.peer.map(|peer| format!("peer {peer}")));
        format!("{}({})", self.operation, words.join(", "))
    }
}
