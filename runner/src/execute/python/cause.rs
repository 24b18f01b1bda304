//! Why an installer failed, from what it said.

/// What a failed installation needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The index was not reached.
    Network,
    /// The index was reached, and has no package of this name; or the index is known to answer, and pip found nothing.
    NoPackage,
    /// It has the package, but not this version.
    NoVersion,
    /// There is such a version, for these other versions of Python if known: `3.11`.
    OtherPython(Vec<String>),
    /// Requirements exclude each other.
    Conflict,
    /// Something else.
    Unknown,
}

impl Cause {
    /// From the output of uv or pip. `answers` asks the index, where pip says the same of a package that does not exist as of an
    /// index that cannot be reached.
    pub(super) fn from_output(output: &str, answers: impl FnOnce() -> bool) -> Cause {
        // Long sentences may be broken into lines.
        let said = output.split_whitespace().collect::<Vec<_>>().join(" ");
        let says = |parts: &[&str]| parts.iter().any(|part| said.contains(part));
        if says(&[
            "Failed to fetch",
            "Failed to download",
            "error sending request",
            "dns error",
            "after connection broken by",
        ]) {
            return Cause::Network;
        }
        if says(&["no wheels with a matching Python", "does not satisfy Python", "require a different python version"])
        {
            return Cause::OtherPython(listed(&said));
        }
        if says(&[
            "was not found in the package registry",
            "was not found in the cache",
            "was not found in the provided",
        ]) {
            return Cause::NoPackage;
        }
        if says(&["(from versions: none)"]) {
            return if answers() { Cause::NoPackage } else { Cause::Network };
        }
        if says(&["there is no version of", "there are no versions of", "(from versions: "]) {
            return Cause::NoVersion;
        }
        if says(&["requirements are unsatisfiable", "conflicting dependencies", "ResolutionImpossible"]) {
            return Cause::Conflict;
        }
        Cause::Unknown
    }

    /// What to do, in one line.
    pub(super) fn advice(&self, python: &str) -> String {
        const OWN: &str = "name an interpreter that has them with FTEST_PYTHON, or activate its environment";
        match self {
            Cause::Network => format!("the package index cannot be reached: a machine without network needs an environment of yours; {OWN}"),
            Cause::NoPackage => "the package index has no package of that name: is it misspelled, or on another index (`--extra-index-url`)?".to_owned(),
            Cause::NoVersion => format!("the package index has no such version for Python {python}: correct the version, or take one that exists"),
            Cause::OtherPython(others) => {
                let which = if others.is_empty() { String::new() } else { format!(": there is one for {}", others.join(", ")) };
                format!("no wheel of that version for Python {python}{which}; take another version, or install such a Python (`python3.12` on PATH, or uv)")
            }
            Cause::Conflict => "the requirements exclude each other: drop or change one of those that are named above".to_owned(),
            Cause::Unknown => format!("if it cannot be made here, {OWN}"),
        }
    }
}

/// The versions of Python in uv's list of tags: ``tags: `cp311`, `cp312` ``.
fn listed(said: &str) -> Vec<String> {
    let Some((_, tags)) = said.rsplit_once(" tags: ") else { return Vec::new() };
    let words = tags.split(", ").map(|word| word.trim_matches(['`', ' ']));
    let minor = |word: &str| word.strip_prefix("cp3").and_then(|minor| minor.parse::<u32>().ok());
    words.map_while(minor).map(|minor| format!("3.{minor}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_installers_say_is_told_apart() {
        let no_wheel = "hint: You require CPython 3.10 (`cp310`), but we only found wheels for `torch` (v2.15.0) with the following \
            Python implementation tags: `cp311`, `cp312`, `cp313`";
        for (said, expected) in [
            ("cause: Failed to fetch: https://x/simple/six/\n cause: dns error", Cause::Network),
            (
                "cause: Because numpyyy was not found in the package\n   registry and you require numpyyy==1",
                Cause::NoPackage,
            ),
            ("cause: Because there is no version of torch==9.9.9 and you require", Cause::NoVersion),
            (
                &format!(
                    "Because torch==2.15.0 has no wheels with a matching Python implementation tag (e.g., `cp310`)\n\n{no_wheel}"
                ),
                Cause::OtherPython(vec!["3.11".to_owned(), "3.12".to_owned(), "3.13".to_owned()]),
            ),
            ("the current Python version (3.10.13) does not satisfy Python>=3.11", Cause::OtherPython(Vec::new())),
            (
                "cause: Because you require numpy<1 and numpy>2, we can conclude that your requirements are unsatisfiable.",
                Cause::Conflict,
            ),
            (
                "ERROR: Could not find a version that satisfies the requirement torch==9.9.9 (from versions: 1.11.0, 2.0)",
                Cause::NoVersion,
            ),
            (
                "ERROR: Could not find a version that satisfies the requirement nmpy (from versions: none)",
                Cause::NoPackage,
            ),
            (
                "WARNING: Retrying after connection broken by 'X'\nERROR: Could not find six (from versions: none)",
                Cause::Network,
            ),
            ("No space left on device", Cause::Unknown),
        ] {
            assert_eq!(Cause::from_output(said, || true), expected, "{said}");
        }
        assert_eq!(Cause::from_output("(from versions: none)", || false), Cause::Network);
        let other = Cause::OtherPython(vec!["3.11".to_owned()]);
        assert!(other.advice("3.10").starts_with("no wheel of that version for Python 3.10: there is one for 3.11; "));
    }
}
