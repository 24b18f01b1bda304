//! Gaps: uses of what we do not implement. One that the case does not allow breaks it; one it asks for must be there.

use crate::case::{Case, Place};
use crate::check::Failure;
use crate::observation::{Gap, Observation};

/// A gap that must occur, and is thereby allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GapExpectation {
    /// Glob over `library.name`.
    pub pattern: String,
    /// Where it is written.
    pub place: Place,
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
pub fn not_allowed<'a>(case: &Case, observation: &'a Observation) -> Vec<&'a Gap> {
    let expected = case.expect.gaps.iter().map(|gap| gap.pattern.as_str());
    let allowed: Vec<&str> = case.allow_gaps.iter().map(String::as_str).chain(expected).collect();
    observation.gaps.iter().filter(|gap| !allowed.iter().any(|pattern| means(pattern, gap))).collect()
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
            kind: "gap",
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
        let gap = Gap { library: "cudart".into(), name: "cudaLaunchKernel".into(), count: 1, rank: None };
        assert!(
            means("cudaLaunch*", &gap) && means("cudart.*", &gap) && !means("cublas.*", &gap) && !means("cudart", &gap)
        );
    }
}
