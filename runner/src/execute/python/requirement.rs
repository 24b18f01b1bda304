//! Requirements in pip's syntax: which are installed lean, and which dependencies a lean package still needs.

use crate::case::python::{COMPILER, is_optional, is_replaced, package};

/// Packages installed without their dependencies, because those are the NVIDIA libraries that the shim replaces.
const LEAN: &[&str] = &["torch", "torchvision", "torchaudio"];
/// Whether it is installed without its dependencies.
pub(super) fn is_lean(requirement: &str) -> bool {
    LEAN.contains(&package(requirement).as_str())
}

/// Whether an entry of a lean package is not followed: the shim replaces it, or PyTorch runs without it.
fn is_spared(entry: &str) -> bool {
    is_replaced(entry) || is_optional(entry)
}

/// What remains of the `Requires-Dist` entries of a lean package: no extras, nothing that is spared, and nothing that is itself lean and requested anyway.
pub(super) fn remaining<'a>(requires: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    requires
        .into_iter()
        .map(str::trim)
        .filter(|entry| {
            let marker = entry.split_once(';').map_or("", |(_, marker)| marker);
            !marker.contains("extra ==") && !is_spared(entry) && !is_lean(entry)
        })
        .map(str::to_owned)
        .collect()
}

/// If Triton is required without a version, gives it the version that these `Requires-Dist` entries of PyTorch ask for.
pub(super) fn match_compiler(requirements: &mut [String], needs: &[&str]) {
    let Some(asked) = needs.iter().find(|entry| package(entry) == COMPILER) else { return };
    for line in requirements.iter_mut().filter(|line| *line == COMPILER) {
        (*asked).clone_into(line);
    }
}

/// The `Requires-Dist` entries of a METADATA file.
pub(super) fn requires_dist(metadata: &str) -> Vec<&str> {
    // The headers end at the first empty line; the long description follows.
    metadata
        .lines()
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("Requires-Dist:"))
        .map(str::trim)
        .collect()
}

/// A METADATA file without the needs that are not followed.
pub(super) fn without_spared(metadata: &str) -> String {
    let is_kept = |line: &&str| line.strip_prefix("Requires-Dist:").is_none_or(|entry| !is_spared(entry.trim()));
    metadata.split_inclusive('\n').filter(is_kept).collect()
}

/// Sorted, trimmed and deduplicated, so that equal needs share an environment however they are written.
pub(super) fn canonical(requirements: &[String]) -> Vec<String> {
    let mut canonical: Vec<String> =
        requirements.iter().map(|line| canonical_line(line.trim())).filter(|line| !line.is_empty()).collect();
    canonical.sort();
    canonical.dedup();
    canonical
}

/// Without spaces, except where they separate words: in options, markers, URLs and hashes.
fn canonical_line(line: &str) -> String {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.starts_with(['-', '/']) || line.contains('@') {
        return words(line);
    }
    let end = line.find(';').or_else(|| line.find(" --")).unwrap_or(line.len());
    let (what, rest) = line.split_at(end);
    let what: String = what.chars().filter(|letter| !letter.is_whitespace()).collect();
    match rest.trim_start() {
        "" => what,
        rest if rest.starts_with(';') => format!("{what};{}", words(&rest[1..])),
        rest => format!("{what} {}", words(rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_needs_that_no_gpu_library_meets_remain() {
        let metadata = "Name: torch\nRequires-Dist: filelock\nRequires-Dist: typing-extensions>=4.13.0\n\
            Requires-Dist: cuda-toolkit[cublas]==13.2.2; platform_system == \"Linux\"\n\
            Requires-Dist: nvidia-cudnn-cu13==9.26.0.51; platform_system == \"Linux\"\n\
            Requires-Dist: triton~=3.9.0; platform_system == \"Linux\"\n\
            Requires-Dist: setuptools ; python_version >= \"3.12\"\n\
            Requires-Dist: pyyaml; extra == \"pyyaml\"\n\nRequires-Dist: not-a-header\n";
        let expected = ["filelock", "typing-extensions>=4.13.0", "setuptools ; python_version >= \"3.12\""];
        assert_eq!(remaining(requires_dist(metadata)), expected);
        let stripped = without_spared(metadata);
        assert_eq!(remaining(requires_dist(&stripped)), expected);
        assert!(!stripped.contains("nvidia") && !stripped.contains("triton") && stripped.ends_with("not-a-header\n"));
    }

    #[test]
    fn triton_without_a_version_is_the_one_that_pytorch_asks_for() {
        let metadata =
            "Name: torch\nRequires-Dist: filelock\nRequires-Dist: triton~=3.9.0; platform_system == \"Linux\"\n";
        let with = |lines: [&str; 2], needs: &[&str]| {
            let mut lines = lines.map(str::to_owned);
            match_compiler(&mut lines, needs);
            lines
        };
        let needs = requires_dist(metadata);
        let expected = ["numpy", "triton~=3.9.0; platform_system == \"Linux\""];
        assert_eq!(with(["numpy", "triton"], &needs), expected);
        assert_eq!(with(["numpy", "triton==3.8.0"], &needs), ["numpy", "triton==3.8.0"]);
        // PyTorch for the CPU asks for none.
        assert_eq!(with(["numpy", "triton"], &["filelock"]), ["numpy", "triton"]);
    }

    #[test]
    fn the_order_and_spaces_of_requirements_do_not_matter() {
        let one = canonical(&["torch == 2.9.1".into(), "numpy".into()]);
        assert_eq!(one, canonical(&["numpy".into(), "torch==2.9.1".into(), "numpy ".into()]));
    }

    #[test]
    fn spaces_that_separate_words_stay() {
        for (line, expected) in [
            ("numpy >= 2 ;  python_version > '3'  and x == 'y'", "numpy>=2;python_version > '3' and x == 'y'"),
            ("numpy == 2  --hash=sha256:a  --hash=sha256:b", "numpy==2 --hash=sha256:a --hash=sha256:b"),
            ("-e /a b[test]", "-e /a b[test]"),
            ("pack @ https://x/y", "pack @ https://x/y"),
        ] {
            assert_eq!(canonical(&[line.to_owned()]), [expected]);
        }
    }
}
