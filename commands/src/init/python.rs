//! The value of `python` in a suite: what the repository requires for a program, with PyTorch.

use std::path::{Path, PathBuf};

use runner::case::python::package;
use runner::execute::python;
use runner::host::version::{Range, Version};
use runner::suite::requirements;

use super::imports::Imports;

/// The oldest PyTorch that is simulated, as a range.
const OLDEST: &str = ">=2.9";

/// A value, and why it is not what the repository states.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Python {
    pub(super) value: String,
    pub(super) note: Option<String>,
}

/// What the program at `program`, below `root`, needs: the requirements that are stated nearest to it, and the known packages
/// among what it imports that those do not name. Paths are relative to `root/suites`.
pub(super) fn choose(root: &Path, program: Option<&Path>, imports: &Imports) -> Python {
    let nearest = program.and_then(Path::parent).unwrap_or(root);
    let places = nearest.ancestors().take_while(|place| place.starts_with(root));
    let mut note = None;
    for place in places {
        let file = place.join("requirements.txt");
        let stated = requirements::of_file(&file).ok().filter(|lines| !lines.is_empty());
        if let Some(lines) = stated {
            match misfit(&lines) {
                None => {
                    let missing = missing(&lines, imports);
                    return Python {
                        value: format!("{{ requirements: {}{} }}", quoted(root, &file), packages(&lines, missing)),
                        note: None,
                    };
                }
                Some(why) => {
                    note.get_or_insert(format!("{} {why}: here are the packages that it imports", shown(root, &file)));
                }
            }
        } else if let Ok(lines) = requirements::of_project(place, &[]) {
            let missing = missing(&lines, imports);
            return Python {
                value: format!("{{ project: {}{} }}", quoted(root, place), packages(&lines, missing)),
                note: None,
            };
        }
    }
    let mut all = python::default_requirements();
    all.extend(
        imports
            .packages
            .iter()
            .filter(|name| !all.iter().any(|one| package(one) == **name))
            .map(|name| (*imports.bounds.get(name).unwrap_or(name)).to_owned())
            .collect::<Vec<_>>(),
    );
    Python { value: format!("[{}]", all.iter().map(|one| word(one)).collect::<Vec<_>>().join(", ")), note }
}

/// The value of `python` with one more package; none if it names that already.
pub(super) fn with(value: &str, requirement: &str) -> Option<String> {
    const LIST: &str = "packages: [";
    let start = if value.starts_with('[') { Some(1) } else { value.find(LIST).map(|at| at + LIST.len()) };
    let Some(start) = start else {
        return Some(format!("{}, {LIST}{}] }}", value.strip_suffix(" }")?, word(requirement)));
    };
    // A list is the last part of the value.
    let end = value.rfind(']')?;
    let mut all = value.get(start..end)?.split(", ").map(|one| one.trim_matches('"')).filter(|one| !one.is_empty());
    if all.any(|one| package(one) == package(requirement)) {
        return None;
    }
    let separator = if end == start { "" } else { ", " };
    Some(format!("{}{separator}{}{}", &value[..end], word(requirement), &value[end..]))
}

/// Why these lines cannot be installed for a simulation.
fn misfit(lines: &[String]) -> Option<String> {
    let foreign = lines.iter().find(|line| line.contains("git+"));
    if let Some(line) = foreign {
        let short: String = line.chars().take(60).collect();
        return Some(format!("needs Git for {short}"));
    }
    let oldest = Range::parse(OLDEST).ok()?;
    lines.iter().filter(|line| package(line) == "torch").find_map(|line| {
        let pinned = line.split(';').next()?.split("==").nth(1)?.trim();
        let version: Version = pinned.trim_end_matches(".*").parse().ok()?;
        (!oldest.holds(&version)).then(|| format!("wants torch {pinned}, and {OLDEST} is simulated"))
    })
}

/// The imported packages that `lines` do not name.
fn missing(lines: &[String], imports: &Imports) -> Vec<String> {
    let is_named = |name: &&&str| {
        let same = |line: &String| {
            let stated = package(line.trim_start_matches("-c "));
            // Four packages have the same module.
            stated == package(name) || stated.starts_with("opencv-") && name.starts_with("opencv-")
        };
        lines.iter().any(same) || **name == "torch"
    };
    imports.packages.iter().filter(|name| !is_named(name)).map(|name| (*name).to_owned()).collect()
}

/// `, packages: [...]`: PyTorch of the default version, unless `lines` pin another or exclude this one (an unpinned version could
/// change tomorrow), and what is missing.
fn packages(lines: &[String], missing: Vec<String>) -> String {
    let usual = python::default_requirements().into_iter().find(|one| package(one) == "torch");
    let usual = usual.filter(|usual| {
        let version = usual.rsplit('=').next().unwrap_or_default();
        let admits = |line: &&String| {
            let specifiers =
                line.trim_start_matches("-c ")["torch".len()..].split(';').next().unwrap_or_default().trim();
            let holds = |range: Range| version.parse().is_ok_and(|version: Version| range.holds(&version));
            specifiers.is_empty() || !specifiers.contains("==") && Range::parse(specifiers).is_ok_and(holds)
        };
        lines.iter().filter(|line| package(line.trim_start_matches("-c ")) == "torch").all(|line| admits(&line))
    });
    let all: Vec<String> = usual.into_iter().chain(missing).map(|one| word(&one)).collect();
    if all.is_empty() { String::new() } else { format!(", packages: [{}]", all.join(", ")) }
}

/// A requirement as an item of a list.
fn word(requirement: &str) -> String {
    if requirement.contains(['<', '>', ',', ' ', '[']) { format!("\"{requirement}\"") } else { requirement.to_owned() }
}

fn quoted(root: &Path, path: &Path) -> String {
    super::quoted(&relative(root, path).display().to_string())
}

fn shown(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}

/// `path` from the directory of the suite.
fn relative(root: &Path, path: &Path) -> PathBuf {
    let below = path.strip_prefix(root).unwrap_or(path);
    if below.as_os_str().is_empty() { PathBuf::from("..") } else { Path::new("..").join(below) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_the_repository_requires_comes_with_a_pinned_pytorch() {
        let default = python::default_requirements();
        let torch = default.iter().find(|line| line.starts_with("torch")).unwrap().as_str();
        let of = |file: &str, text: &str| {
            let root = tempfile::tempdir().unwrap();
            fs::write(root.path().join(file), text).unwrap();
            let imports = Imports { packages: ["numpy", "torch", "tqdm"].into(), ..Imports::default() };
            choose(root.path(), None, &imports)
        };
        let requirements = |text: &str| of("requirements.txt", text).value;
        assert_eq!(requirements("# nothing\n"), format!("[numpy, {torch}, tqdm]"));
        let more = "packages: [numpy, tqdm] }";
        assert_eq!(requirements("torch==2.9.1\npeft\n"), format!("{{ requirements: ../requirements.txt, {more}"));
        assert_eq!(requirements("torch<2.12\n"), format!("{{ requirements: ../requirements.txt, {more}"));
        let pinned = format!("{{ requirements: ../requirements.txt, packages: [{torch}, numpy, tqdm] }}");
        for text in ["torch >= 2.1 ; python_version > '3'\n", "torchvision==0.24.0\nscipy  # numbers\n", "torch\n"] {
            assert_eq!(requirements(text), pinned, "{text}");
        }
        let project = of("pyproject.toml", "[project]\nname = 'x'\ndependencies = ['torch', 'numpy', 'tqdm']\n");
        assert_eq!(project.value, format!("{{ project: .., packages: [{torch}] }}"));
        let old = of("requirements.txt", "torch==1.13.1\ntimm==0.3.2\n");
        assert_eq!(old.value, format!("[numpy, {torch}, tqdm]"));
        assert!(old.note.unwrap().contains("wants torch 1.13.1, and >=2.9 is simulated"));
    }

    #[test]
    fn a_package_is_added_once_to_any_form_of_the_value() {
        for (value, requirement, expected) in [
            ("[numpy, torch==2.15.0]", "requests", Some("[numpy, torch==2.15.0, requests]")),
            ("[]", "requests", Some("[requests]")),
            ("[numpy]", "setuptools<81", Some("[numpy, \"setuptools<81\"]")),
            ("{ project: .. }", "requests", Some("{ project: .., packages: [requests] }")),
            (
                "{ requirements: ../requirements.txt, packages: [\"a[b]\"] }",
                "requests",
                Some("{ requirements: ../requirements.txt, packages: [\"a[b]\", requests] }"),
            ),
            ("[numpy, torch==2.15.0]", "torch", None),
            ("{ project: .., packages: [\"setuptools<81\"] }", "setuptools<81", None),
            ("[tensorboardx]", "tensorboardX", None),
        ] {
            assert_eq!(with(value, requirement).as_deref(), expected, "{value} {requirement}");
        }
    }

    #[test]
    fn the_nearest_statement_counts() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("a/b")).unwrap();
        fs::write(root.path().join("requirements.txt"), "torch==2.9.1\n").unwrap();
        fs::write(root.path().join("a/requirements.txt"), "torch==2.10.0\n").unwrap();
        let found = |program: &str| choose(root.path(), Some(&root.path().join(program)), &Imports::default()).value;
        assert_eq!(found("a/b/train.py"), "{ requirements: ../a/requirements.txt }");
        assert_eq!(found("train.py"), "{ requirements: ../requirements.txt }");
    }
}
