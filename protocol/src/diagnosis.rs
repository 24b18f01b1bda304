//! The answer to "why does nothing move?": the hang, if there is one, and the call that each rank is in.

use serde::{Deserialize, Serialize};

use crate::activity::Activation;
use crate::ids::{CommunicatorId, Rank};
use crate::report::Hang;

/// What all processes said when they were asked, and what it means. Crosses as JSON in
/// [`ToRank::Diagnosis`](crate::message::ToRank::Diagnosis).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// The ranks that wait; `None` if no rank waits for one that does not arrive.
    pub hang: Option<Hang>,
    /// How long each has waited, ms; in the order of [`Hang::waits`].
    pub waits_ms: Option<Vec<u64>>,
    /// The ranks that the launcher gave the processes of those that are missing.
    pub missing_processes: Option<Vec<Rank>>,
    /// What each rank does in each of its communicators, as far as its process answered.
    pub activities: Vec<RankActivity>,
}

/// One rank in one communicator, in the numbers of the report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankActivity {
    /// Its position in the launch.
    pub rank: Rank,
    /// Number of the communicator.
    pub comm_id: CommunicatorId,
    /// Its position in the communicator.
    pub comm_rank: Rank,
    /// All ranks' positions in the launch, in the communicator's order.
    pub ranks: Vec<Rank>,
    /// The operations that it is in: none, one collective, or the sends and recvs of a group that are not done.
    pub current: Vec<Activation>,
    /// Launches that the program issued behind it.
    pub queued: u64,
    /// The last operations it completed, oldest first.
    pub recent: Vec<Activation>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::{Datatype, Operation, ReductionOp};
    use crate::ids::{Sequence, SiteId};
    use crate::report::HangWait;

    #[test]
    fn its_json_stays_as_it_is() {
        let operation = Activation {
            sequence: Sequence(3),
            operation: Operation::AllReduce,
            count: 4,
            datatype: Datatype::Float32,
            reduction_op: Some(ReductionOp::Sum),
            root: None,
            peer: None,
            age_us: 2_000_000,
            took_us: None,
            site: SiteId(1),
        };
        let wait = HangWait {
            rank: Rank(0),
            comm_id: Some(CommunicatorId(1)),
            seqno: Sequence(3),
            operation: operation.describe(),
            for_ranks: vec![Rank(1)],
        };
        let hang = Hang {
            sentence: "rank 0 waits".to_owned(),
            waits: vec![wait],
            missing: vec![Rank(1)],
            cycle: Vec::new(),
            sites: Vec::new(),
        };
        let activity = RankActivity {
            rank: Rank(0),
            comm_id: CommunicatorId(1),
            comm_rank: Rank(0),
            ranks: vec![Rank(0), Rank(1)],
            current: vec![operation],
            queued: 2,
            recent: Vec::new(),
        };
        let diagnosis = Diagnosis {
            hang: Some(hang),
            waits_ms: Some(vec![2000]),
            missing_processes: Some(vec![Rank(1)]),
            activities: vec![activity],
        };
        let json = serde_json::to_string(&diagnosis).unwrap();
        let expected = concat!(
            r#"{"hang":{"sentence":"rank 0 waits","waits":[{"rank":0,"comm_id":1,"seqno":3,"#,
            r#""operation":"all_reduce(count 4, float32, sum)","for_ranks":[1]}],"missing":[1],"cycle":[],"sites":[]},"#,
            r#""waits_ms":[2000],"missing_processes":[1],"activities":[{"rank":0,"comm_id":1,"comm_rank":0,"ranks":[0,1],"#,
            r#""current":[{"sequence":3,"operation":"all_reduce","count":4,"datatype":"float32","reduction_op":"sum","#,
            r#""root":null,"peer":null,"age_us":2000000,"took_us":null,"site":1}],"queued":2,"recent":[]}]}"#,
        );
        assert_eq!(json, expected);
        assert_eq!(serde_json::from_str::<Diagnosis>(&json).unwrap(), diagnosis);
        let none = r#"{"hang":null,"waits_ms":null,"missing_processes":null,"activities":[]}"#;
        assert_eq!(serde_json::to_string(&Diagnosis::default()).unwrap(), none);
    }
}
