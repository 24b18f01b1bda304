//! Runs a first suite again with a package that its program asked for.

use std::path::Path;
use std::time::Duration;

use runner::case::python::is_replaced;
use runner::verdict::exit_code::ExitCode;

use super::missing::Asked;
use super::{imports, python};

/// How often at most.
const MOST: usize = 4;
/// Time for all runs together: that of the first run's case.
const TIME: Duration = Duration::from_secs(5 * 60);
/// A run with less time left would only be cut short.
const LEAST: Duration = Duration::from_secs(30);

/// A suite with one more package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Addition {
    /// The text of the suite.
    pub(super) suite: String,
    /// The package.
    pub(super) package: String,
    /// What to say of it.
    pub(super) said: String,
}

/// The suite with the package that the program at `root` asks for; none if no known package provides the module (its name alone may
/// be the name of a stranger's package), if it is the repository itself, if only a GPU could use it, or if the suite names it already.
pub(super) fn with(suite: &str, asked: &Asked, root: &Path) -> Option<Addition> {
    const KEY: &str = "\n  python: ";
    let (module, package, why) = match asked {
        Asked::Module(module) => {
            let why = "which the program imports and its requirements leave out";
            (module.clone(), imports::package(module)?, why)
        }
        Asked::Package(name) => (name.replace('-', "_"), name.as_str(), "which an error of the program asks for"),
    };
    if imports::is_own(root, &module) || is_replaced(package) {
        return None;
    }
    let start = suite.find(KEY)? + KEY.len();
    let (before, rest) = suite.split_at(start);
    let (value, after) = rest.split_at(rest.find('\n')?);
    let value = python::with(value, package)?;
    Some(Addition {
        suite: format!("{before}{value}{after}"),
        package: package.to_owned(),
        said: format!("added `{package}`, {why}"),
    })
}

/// Whether a run with this exit code may have lacked something.
pub(super) fn is_failure(code: i32) -> bool {
    code == ExitCode::Failed as i32 || code == ExitCode::CouldNotRun as i32
}

/// Runs the suite, and again as long as it fails, `add` adds something to it, and there is time. `run` gets the time that it may take,
/// if that is limited; `past` says how much has passed since the start. Returns the last exit code, and whether its run was cut short.
pub(super) fn repeat(
    past: impl Fn() -> Duration,
    mut run: impl FnMut(Option<Duration>) -> i32,
    mut add: impl FnMut() -> bool,
) -> (i32, bool) {
    let left = || TIME.saturating_sub(past());
    let (mut code, mut is_cut) = (run(None), false);
    for _ in 0..MOST {
        if !is_failure(code) || left() < LEAST || !add() {
            break;
        }
        code = run(Some(left()));
        is_cut = is_failure(code) && left().is_zero();
    }
    (code, is_cut)
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::fs;

    use super::*;

    #[test]
    fn only_what_is_known_or_asked_for_by_name_is_added() {
        let root = tempfile::tempdir().unwrap();
        for file in ["pack/__init__.py", "pack/requests.py", "jobs/datasets/load.py", "my_tool.py"] {
            let file = root.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        let module = |name: &str| Asked::Module(name.to_owned());
        let package = |name: &str| Asked::Package(name.to_owned());
        for (asked, value, expected) in [
            // That of the repository is `pack.requests`.
            (module("requests"), "[numpy]", Some("[numpy, requests]")),
            (module("yaml"), "{ project: .. }", Some("{ project: .., packages: [pyyaml] }")),
            (module("pkg_resources"), "[numpy]", Some("[numpy, \"setuptools<81\"]")),
            (module("numpy"), "[numpy]", None),
            (module("datasets"), "[numpy]", None),
            (module("mystery"), "[numpy]", None),
            (module("apex"), "[numpy]", None),
            (package("tensorboardX"), "[numpy]", Some("[numpy, tensorboardX]")),
            (package("my-tool"), "[numpy]", None),
            (package("nvidia-nccl-cu13"), "[numpy]", None),
        ] {
            let suite = format!("suite: x\n\ndefaults:\n  cwd: ..\n  python: {value}\n  timeout: 1m\n");
            let added = with(&suite, &asked, root.path());
            let text = expected.map(|expected| suite.replace(value, expected));
            assert_eq!(added.as_ref().map(|added| &added.suite), text.as_ref(), "{asked:?} {value}");
            assert!(added.is_none_or(|added| added.said.starts_with(&format!("added `{}`, which ", added.package))));
        }
    }

    #[test]
    fn it_runs_again_while_something_is_added_and_there_is_time() {
        // Exit codes of the runs, seconds that each takes, how many times something can be added.
        for (codes, seconds, additions, expected) in [
            (&[0][..], 10, 9, (0, false)),
            (&[1], 10, 0, (1, false)),
            (&[1, 0], 10, 9, (0, false)),
            (&[1, 3, 0], 10, 9, (0, false)),
            (&[1, 1, 1], 10, 2, (1, false)),
            (&[1, 1, 1, 1, 1], 10, 9, (1, false)),
            (&[130], 10, 9, (130, false)),
            (&[1], 271, 9, (1, false)),
            (&[1, 1], 200, 9, (1, true)),
            (&[1, 0], 200, 9, (0, false)),
        ] {
            let (past, runs, added) = (Cell::new(0), RefCell::new(Vec::new()), Cell::new(0));
            let run = |limit: Option<Duration>| {
                let start = past.get();
                past.set(limit.map_or(start + seconds, |limit| start + seconds.min(limit.as_secs())));
                runs.borrow_mut().push(limit);
                codes[runs.borrow().len() - 1]
            };
            let add = || {
                added.set(added.get() + 1);
                added.get() <= additions
            };
            assert_eq!(repeat(|| Duration::from_secs(past.get()), run, add), expected, "{codes:?}");
            assert_eq!(runs.borrow().len(), codes.len(), "{codes:?}");
            assert!(runs.borrow()[0].is_none() && runs.borrow()[1..].iter().all(Option::is_some));
            assert!(past.get() <= 300);
        }
    }
}
