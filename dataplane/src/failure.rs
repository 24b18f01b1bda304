//! Why an operation failed: the one error type of this crate's operations.

use protocol::ids::{Rank, SiteId, names};
use protocol::record::ErrorCode;

use crate::refusal;

/// A failed operation or rendezvous: its kind, one sentence, and the ranks at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct Failure {
    /// Kind of failure.
    pub code: ErrorCode,
    /// One sentence for people.
    pub detail: String,
    /// Ranks of the communicator that are at fault or missing, when known.
    pub culprits: Vec<Rank>,
    /// Where the program called the failed operation, if it was one.
    pub site: SiteId,
}

impl Failure {
    /// A failure without a culprit.
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), culprits: Vec::new(), site: SiteId::default() }
    }

    /// A failure of the underlying system: a socket, a mapping.
    pub fn system(what: &str, error: &std::io::Error) -> Self {
        Self::new(ErrorCode::System, refusal::explain(what, error))
    }

    /// The same failure, with the ranks to blame.
    #[must_use]
    pub fn blaming(mut self, culprits: Vec<u32>) -> Self {
        self.culprits = culprits.into_iter().map(Rank).collect();
        self
    }
}

macro_rules! numbered {
    ($($kind:ident)*) => {
        /// The kinds in order of their numbers in shared memory and on data sockets (number = position + 1; 0 means none).
        const CODES: &[ErrorCode] = &[$(ErrorCode::$kind,)*];

        /// Does not compile if a kind is missing from the list.
        const _: fn(ErrorCode) = |code| match code {
            $(ErrorCode::$kind => {})*
        };
    };
}

numbered! {
    InvalidArgument
    DuplicateRank
    WorldSizeMismatch
    CollectiveTypeMismatch
    DtypeMismatch
    CountMismatch
    ReduceOpMismatch
    RootMismatch
    TimeoutWaitingForRanks
    TimeoutWaitingForCollective
    TimeoutWaitingForP2p
    TimeoutWaitingForSplit
    RankLost
    Aborted
    UnknownCommunicator
    InjectedRankFailure
    System
    ShrinkExcludedRanksMismatch
    TimeoutWaitingForShrink
    Revoked
    SharedDevice
    Unreachable
}

/// The number that stands for a kind between ranks; never 0.
pub(crate) fn number_of(code: ErrorCode) -> u32 {
    CODES.iter().position(|known| *known == code).map_or(CODES.len() as u32, |index| index as u32 + 1)
}

/// The kind for a number that another rank wrote.
pub(crate) fn code_of(number: u32) -> ErrorCode {
    (number as usize).checked_sub(1).and_then(|index| CODES.get(index)).copied().unwrap_or(ErrorCode::System)
}

/// "rank 1", "ranks 1 and 3", "ranks 0, 2 and 5".
pub(crate) fn name_ranks(ranks: &[u32]) -> String {
    names("rank", "ranks", ranks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip_and_are_never_zero() {
        for code in CODES {
            assert_ne!(number_of(*code), 0);
            assert_eq!(code_of(number_of(*code)), *code);
        }
        assert_eq!(code_of(0), ErrorCode::System);
    }
}
