//! Why a run that ended well does not prove that the program fits.

use serde::Serialize;

use super::rules::Verdict;

/// A reason to doubt the figures of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reason {
    /// Nobody watched PyTorch's allocator.
    Unwatched,
    /// What the program allocates next may depend on numbers that nobody computed.
    UnknownNumbers,
    /// It was about to train, and did not.
    Untrained,
}

/// A reason with its sentence.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Doubt {
    /// Its kind.
    pub(super) reason: Reason,
    /// What happened, and where in the program.
    pub(super) sentence: String,
}

/// The verdict of a run for which `verdict` would be right if there were no `doubts`. More memory than there is remains too much if
/// the program stopped early, but not if a size was no number that the program computes.
pub(super) fn with(doubts: &[Doubt], verdict: Verdict) -> Verdict {
    let spoils = |doubt: &Doubt| match verdict {
        Verdict::Fits => true,
        Verdict::DoesNotFit => doubt.reason == Reason::UnknownNumbers,
        Verdict::Unsure | Verdict::Unsupported => false,
    };
    if doubts.iter().any(spoils) { Verdict::Unsure } else { verdict }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_with_doubts_by_table() {
        use Reason::{UnknownNumbers, Untrained, Unwatched};
        for (reason, verdict, becomes) in [
            (Unwatched, Verdict::Fits, Verdict::Unsure),
            (Untrained, Verdict::Fits, Verdict::Unsure),
            (UnknownNumbers, Verdict::Fits, Verdict::Unsure),
            (Untrained, Verdict::DoesNotFit, Verdict::DoesNotFit),
            (UnknownNumbers, Verdict::DoesNotFit, Verdict::Unsure),
            (UnknownNumbers, Verdict::Unsupported, Verdict::Unsupported),
        ] {
            let doubt = Doubt { reason, sentence: String::new() };
            assert_eq!(with(&[doubt], verdict), becomes, "{reason:?}");
            assert_eq!(with(&[], verdict), verdict);
        }
    }
}
