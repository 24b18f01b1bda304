//! Gaps: uses of what we do not implement. One that the case does not allow breaks it; one it asks for must be there.

use std::collections::BTreeMap;

use crate::check::Failure;
use crate::observation::{Gap, Observation};
use crate::source::SourceLocation;

/// A gap that must occur, and is thereby allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GapExpectation {
    /// Glob over `library.name`.
    pub pattern: String,
    /// Where it is written.
    pub place: SourceLocation,
}

/// Whether `pattern` (`*` any text, `?` one character) matches all of `text`.
pub fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(wanted) if *wanted == '?' || *wanted == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    p = at + 1;
                    t = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|rest| *rest == '*')
}

/// Whether a pattern means this gap. A pattern without a dot is about the name alone.
fn means(pattern: &str, gap: &Gap) -> bool {
    if pattern.contains('.') {
        glob(pattern, &format!("{}.{}", gap.library, gap.name))
    } else {
        glob(pattern, &gap.name)
    }
}

/// The gaps that break `case`.
pub fn not_allowed<'a>(allowed: &[String], expected: &[GapExpectation], observation: &'a Observation) -> Vec<&'a Gap> {
    let expected = expected.iter().map(|gap| gap.pattern.as_str());
    let allowed: Vec<&str> = allowed.iter().map(String::as_str).chain(expected).collect();
    observation.gaps.iter().filter(|gap| !allowed.iter().any(|pattern| means(pattern, gap))).collect()
}

/// Details named in one failure.
const DETAILS_SHOWN: usize = 3;

/// One failure per function and rank, however many kernels went through it.
pub fn failures(allowed: &[String], expected: &[GapExpectation], observation: &Observation) -> Vec<Failure> {
    let mut uses: BTreeMap<(&str, &str, Option<u32>), Vec<&Gap>> = BTreeMap::new();
    for gap in not_allowed(allowed, expected, observation) {
        uses.entry((&gap.library, &gap.name, gap.rank)).or_default().push(gap);
    }
    let failures = uses.into_iter().map(|((library, name, rank), gaps)| {
        let by = rank.map(|rank| format!(" by rank {rank}")).unwrap_or_default();
        let count: u64 = gaps.iter().map(|gap| gap.count).sum();
        let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
        let mut got = format!("{library}.{name} used {times}{by}");
        let details: Vec<&str> =
            gaps.iter().map(|gap| gap.detail.as_str()).filter(|detail| !detail.is_empty()).collect();
        for detail in details.iter().take(DETAILS_SHOWN) {
            got.push('\n');
            got.push_str(detail);
        }
        if details.len() > DETAILS_SHOWN {
            got.push_str(&format!("\nand {} others", details.len() - DETAILS_SHOWN));
        }
        Failure {
            place: None,
            kind: "gap".into(),
            expected: "no gap".to_owned(),
            got,
            next: format!("ftest does not implement it; `allow_gaps: [{library}.{name}]` lets the case go on"),
        }
    });
    failures.collect()
}

impl GapExpectation {
    /// The failure, if no gap is of this kind.
    pub fn check(&self, observation: &Observation) -> Option<Failure> {
        if observation.gaps.iter().any(|gap| means(&self.pattern, gap)) {
            return None;
        }
        let seen: Vec<String> = observation.gaps.iter().map(|gap| format!("{}.{}", gap.library, gap.name)).collect();
        Some(Failure {
            place: Some(self.place.clone()),
            kind: "gap".into(),
            expected: format!("a gap `{}`", self.pattern),
            got: if seen.is_empty() { "no gap".to_owned() } else { seen.join(", ") },
            next: String::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_kernels_are_one_failure() {
        let gap = |detail: &str| Gap {
            library: "libcudart".into(),
            name: "cudaLaunchKernel".into(),
            detail: detail.into(),
            count: 2,
            rank: Some(1),
        };
        let observation = Observation { gaps: ["a", "b", "c", "d"].map(gap).into(), ..Observation::default() };
        let failures = failures(&[], &[], &observation);
        assert_eq!(failures.len(), 1);
        assert_eq!(failures[0].got, "libcudart.cudaLaunchKernel used 8 times by rank 1\na\nb\nc\nand 1 others");
    }

    #[test]
    fn globs_by_table() {
        for (pattern, text, expected) in [
            ("cudart.cudaLaunchKernel", "cudart.cudaLaunchKernel", true),
            ("cudart.*", "cudart.cudaLaunchKernel", true),
            ("*Kernel*", "cudart.cudaLaunchKernelExC", true),
            ("cudart.cuda?aunch*", "cudart.cudaLaunchKernel", true),
            ("cudart.", "cudart.cudaLaunchKernel", false),
            ("*x", "cudart", false),
            ("**a*b", "aab", true),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(glob(pattern, text), expected, "{pattern} {text}");
        }
        let gap = Gap {
            library: "cudart".into(),
            name: "cudaLaunchKernel".into(),
            detail: String::new(),
            count: 1,
            rank: None,
        };
        assert!(
            means("cudaLaunch*", &gap) && means("cudart.*", &gap) && !means("cublas.*", &gap) && !means("cudart", &gap)
        );
    }
}
