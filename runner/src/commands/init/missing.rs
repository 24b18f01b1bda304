//! What a first run lacked: a file, a download, a module or an argument, by what the program said, and what to do about it.

use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

use super::files::SUITE;
use crate::record::run::Run;
use crate::record::store::{self, Runs};

/// Advice about the last run in `runs`; none if nothing in its output is known here.
pub(super) fn advice(runs: &Runs, root: &Path) -> Option<String> {
    let run: Run = store::read(&runs.find(None).ok()?).ok()?;
    let attempt = run.cases.iter().find_map(|case| case.shown())?;
    let texts = attempt.processes.iter().flat_map(|process| [&process.stderr, &process.stdout]);
    let text: Vec<String> = texts.map(|stream| format!("{}\n{}", stream.head, stream.tail)).collect();
    of_output(&text.join("\n"), root)
}

fn of_output(text: &str, root: &Path) -> Option<String> {
    static RULES: LazyLock<[Regex; 5]> = LazyLock::new(|| {
        [
            r"(?m)^(?:ModuleNotFoundError: )No module named '([\w.]+)'",
            r"the following arguments are required: (.+)",
            r"(?i)(?:host='([\w.-]+)'|Temporary failure in name resolution|Name or service not known|urlopen error|We couldn't connect to '([^']+)'|Network is unreachable|ConnectError|LocalEntryNotFoundError)",
            r"No such file or directory: '([^']+)'",
            r"(?m)^(?:AssertionError|FileNotFoundError|ValueError|RuntimeError|OSError|NotADirectoryError)\b.*?([\w~.-]*/[\w./~-]+)",
        ]
        .map(|rule| Regex::new(rule).expect("a constant"))
    });
    let [module, arguments, network, file, path] = &*RULES;
    let first = |rule: &Regex| {
        let found = rule.captures(text)?;
        Some(found.iter().skip(1).flatten().next().map(|part| part.as_str().trim().to_owned()).unwrap_or_default())
    };
    if let Some(module) = first(module) {
        return Some(format!(
            "The program imports `{module}`, which its environment does not have: add the package of that module to `python` in {SUITE}."
        ));
    }
    if let Some(arguments) = first(arguments) {
        return Some(format!("The program requires {arguments}: add it to `args` in {SUITE}."));
    }
    if let Some(host) = first(network) {
        let from = if host.is_empty() { String::new() } else { format!(" from {host}") };
        return Some(fixture(
            &format!("The program downloads something{from}, which this machine cannot reach."),
            "COMMAND that puts a small data set where the program looks for it",
        ));
    }
    let missing = first(file).or_else(|| first(path).filter(|path| !exists(root, path)))?;
    let command = match preparation(root, &missing) {
        Some(script) => format!("python3 {script}"),
        None => format!("COMMAND that makes {missing}"),
    };
    Some(fixture(&format!("The program needs {missing}, which is not in the repository."), &command))
}

fn exists(root: &Path, path: &str) -> bool {
    root.join(path).exists()
}

/// A script beside the missing file that may make it.
fn preparation(root: &Path, missing: &str) -> Option<String> {
    let directory = Path::new(missing).ancestors().skip(1).find(|place| root.join(place).is_dir())?;
    let place = root.join(directory);
    // The root has other scripts.
    if directory.as_os_str().is_empty() {
        return None;
    }
    let names = std::fs::read_dir(&place).ok()?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let name =
        names.filter(|name| name.ends_with(".py") && (name.contains("prepare") || name.contains("download"))).min()?;
    Some(place.strip_prefix(root).unwrap_or(&place).join(name).display().to_string())
}

fn fixture(what: &str, command: &str) -> String {
    format!(
        "{what} A fixture provides it; a small stand-in is enough. In {SUITE}:\n\n\
         fixtures:\n  data:\n    scope: suite\n    setup: {{ shell: \"{command}\" }}\ncases:\n  - id: trains\n    \
         uses: [data]\n\n`ftest docs suites#fixtures` has more."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_a_way_to_provide_it() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("data/openwebtext")).unwrap();
        std::fs::write(root.path().join("data/openwebtext/prepare.py"), "").unwrap();
        for (text, parts) in [
            (
                "x\nFileNotFoundError: [Errno 2] No such file or directory: 'data/openwebtext/train.bin'\n",
                ["needs data/openwebtext/train.bin", "shell: \"python3 data/openwebtext/prepare.py\""],
            ),
            (
                "FileNotFoundError: [Errno 2] No such file or directory: '/path/to/coco/train2017'",
                ["needs /path/to/coco/train2017", "COMMAND that makes /path/to/coco/train2017"],
            ),
            (
                "AssertionError: provided COCO path /path/to/coco does not exist",
                ["needs /path/to/coco,", "uses: [data]"],
            ),
            ("ModuleNotFoundError: No module named 'apex'", ["imports `apex`", "to `python` in suites/training.yaml"]),
            (
                "main.py: error: the following arguments are required: --cfg\nNo such file or directory: 'x'",
                ["requires --cfg", "to `args`"],
            ),
            (
                "HTTPSConnectionPool(host='example.com', port=443): Max retries exceeded",
                ["downloads something from example.com", "small data set"],
            ),
        ] {
            let said = of_output(text, root.path()).unwrap();
            assert!(parts.iter().all(|part| said.contains(part)), "{said}");
        }
        assert_eq!(of_output("RuntimeError: shapes differ", root.path()), None);
    }
}
