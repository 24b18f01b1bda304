//! Gaps: uses of features that are not implemented. A gap that the case does not allow breaks it; an expected gap must
//! occur.

use std::collections::BTreeMap;

use crate::check::{Failure, FailureKind};
use crate::observation::{Exit, Gap, Observation, Role};
use crate::source::SourceLocation;

/// A gap that must occur, and is thereby allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GapExpectation {
    /// Glob over `library.name`.
    pub pattern: String,
    /// Where the suite defines it.
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

/// Whether a pattern matches this gap. A pattern without a dot is matched against the name alone.
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

/// Maximum number of details listed in one failure.
const DETAILS_SHOWN: usize = 3;

/// One failure per function and rank, regardless of how many kernels went through it.
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
            kind: FailureKind::Gap,
            expected: "no gap".to_owned(),
            got,
            next: advice(library, name, details.first().copied(), has_failed(observation, rank)),
        }
    });
    failures.collect()
}

/// Advice on how to fix it. If the loader ended the program, allowing the gap does not help.
fn advice(library: &str, name: &str, detail: Option<&str>, failed: bool) -> String {
    match detail {
        Some(Gap::NO_FUNCTION) if failed => format!(
            "ftest's {library} has no {name}, and the program cannot run without it: `allow_gaps` does not help. Build it \
             with headers no newer than the version that {library} reports, or call the function only if `dlsym` finds it"
        ),
        Some(Gap::NO_LIBRARY) if failed => format!(
            "ftest does not replace {name}, and the program cannot run without it: `allow_gaps` does not help. \
             Install the library where the program looks for it, or leave out what needs it"
        ),
        _ => format!("ftest does not implement it; `allow_gaps: [{library}.{name}]` lets the case go on"),
    }
}

/// Whether a process of `rank` (or, without a rank, a process that is not a rank) did not exit with 0.
fn has_failed(observation: &Observation, rank: Option<u32>) -> bool {
    observation.processes.iter().any(|process| {
        let its = match process.role {
            Role::Rank(number) => rank == Some(number),
            Role::Launcher(_) | Role::Srun => rank.is_none(),
            Role::Coordinator => false,
        };
        its && process.exit != Exit::Code(0)
    })
}

impl GapExpectation {
    /// The failure if no gap matches.
    pub fn check(&self, observation: &Observation) -> Option<Failure> {
        if observation.gaps.iter().any(|gap| means(&self.pattern, gap)) {
            return None;
        }
        let seen: Vec<String> = observation.gaps.iter().map(|gap| format!("{}.{}", gap.library, gap.name)).collect();
        Some(Failure {
            place: Some(self.place.clone()),
            kind: FailureKind::Gap,
            expected: format!("a gap `{}`", self.pattern),
            got: if seen.is_empty() { "no gap".to_owned() } else { seen.join(", ") },
            next: String::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::ProcessObservation;

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
    fn what_the_loader_did_not_find_cannot_be_allowed_where_it_ended_the_program() {
        let cases = [
            (Gap::NO_FUNCTION, Some(2), Role::Rank(2), Exit::Code(127), false),
            (Gap::NO_FUNCTION, None, Role::Launcher(0), Exit::Signal(6), false),
            (Gap::NO_LIBRARY, Some(2), Role::Rank(2), Exit::Code(1), false),
            // The program probed for the feature and went on without it, or another process failed.
            (Gap::NO_FUNCTION, Some(2), Role::Rank(2), Exit::Code(0), true),
            (Gap::NO_FUNCTION, Some(2), Role::Rank(1), Exit::Code(127), true),
            (Gap::NO_FUNCTION, None, Role::Coordinator, Exit::Code(1), true),
            ("float64", Some(2), Role::Rank(2), Exit::Code(1), true),
        ];
        for (detail, rank, role, exit, helps) in cases {
            let (stdout, stderr) = Default::default();
            let process = ProcessObservation { role, exit, stdout, stderr };
            let (library, name) = ("libnccl".to_owned(), "ncclNew".to_owned());
            let gap = Gap { library, name, detail: detail.into(), count: 1, rank };
            let observation = Observation { gaps: vec![gap], processes: vec![process], ..Observation::default() };
            let next = &failures(&[], &[], &observation)[0].next;
            assert_eq!(
                next.contains("`allow_gaps: [libnccl.ncclNew]` lets the case go on"),
                helps,
                "{detail} {role}: {next}"
            );
            assert_eq!(next.contains("`allow_gaps` does not help"), !helps, "{detail} {role}: {next}");
        }
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
