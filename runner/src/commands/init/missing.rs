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
    let text: Vec<String> =
        texts.map(|stream| last_error(&format!("{}\n{}", stream.head, stream.tail)).to_owned()).collect();
    of_output(&text.join("\n"), root)
}

/// What a program said last of an error: from its last traceback on.
fn last_error(text: &str) -> &str {
    text.rfind("Traceback (most recent call last)").map_or(text, |start| &text[start..])
}

fn of_output(text: &str, root: &Path) -> Option<String> {
    static RULES: LazyLock<[Regex; 7]> = LazyLock::new(|| {
        [
            r"ModuleNotFoundError: No module named '([\w.]+)'",
            r"ImportError: cannot import name '\w+' from '(\w+)",
            r"the following arguments are required: (.+)",
            r"(?:host='|connect to '(?:https?://)?)([\w.-]+)",
            r"(?i)Temporary failure in name resolution|Name or service not known|urlopen error|Network is unreachable|ConnectError|ConnectionError|couldn't connect to|LocalEntryNotFoundError|does not appear to have a file named",
            r"No such file or directory: '([^']+)'",
            r"(?m)^(?:\[rank\d+\]: )?(?:AssertionError|FileNotFoundError|ValueError|RuntimeError|OSError|NotADirectoryError)\b.*?([\w~.-]*/[\w./~-]+)",
        ]
        .map(|rule| Regex::new(rule).expect("a constant"))
    });
    let [module, version, arguments, host, network, file, path] = &*RULES;
    let first = |rule: &Regex| {
        let found = rule.captures(text)?;
        Some(found.iter().skip(1).flatten().next().map(|part| part.as_str().trim().to_owned()).unwrap_or_default())
    };
    if let Some(module) = first(module) {
        if module.starts_with("torch.") {
            return Some(format!(
                "The program imports `{module}`, which its PyTorch does not have: it is for another version."
            ));
        }
        return Some(format!(
            "The program imports `{module}`, which its environment does not have: add the package of that module to `python` in {SUITE}."
        ));
    }
    if let Some(module) = first(version) {
        return Some(format!(
            "The program is for another version of `{module}` than its environment has: pin the version in `python` in {SUITE}."
        ));
    }
    if let Some(arguments) = first(arguments) {
        return Some(format!("The program requires {arguments}: add it to `args` in {SUITE}."));
    }
    if network.is_match(text) {
        let from = first(host).map(|host| format!(" from {host}")).unwrap_or_default();
        return Some(fixture(
            &format!("The program{} downloads something{from}, which this machine cannot reach.", place(text, root)),
            "COMMAND that puts a small data set where the program looks for it",
        ));
    }
    let missing = first(file).or_else(|| first(path).filter(|path| !exists(root, path)))?;
    let command = match preparation(root, &missing) {
        Some(script) => format!("python3 {script}"),
        None => format!("COMMAND that makes {missing}"),
    };
    Some(fixture(
        &format!("The program{} needs {missing}, which is not in the repository.", place(text, root)),
        &command,
    ))
}

/// The last line of the repository in a traceback: ` (train.py:12)`.
fn place(text: &str, root: &Path) -> String {
    static FRAME: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"File "([^"]+\.py)", line (\d+)"#).expect("a constant"));
    let Ok(root) = root.canonicalize() else { return String::new() };
    let own = FRAME.captures_iter(text).filter_map(|frame| {
        let file = Path::new(&frame[1]).strip_prefix(&root).ok()?;
        Some(format!(" ({}:{})", file.display(), &frame[2]))
    });
    own.last().unwrap_or_default()
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
            (
                "ImportError: cannot import name '_pil_interp' from 'timm.data.transforms' (/x/timm)",
                ["another version of `timm`", "`python` in suites/training.yaml"],
            ),
            ("ModuleNotFoundError: No module named 'torch._six'", ["imports `torch._six`", "for another version"]),
            (
                "[rank0]: ModuleNotFoundError: No module named 'apex'",
                ["imports `apex`", "to `python` in suites/training.yaml"],
            ),
            (
                "main.py: error: the following arguments are required: --cfg\nNo such file or directory: 'x'",
                ["requires --cfg", "to `args`"],
            ),
            (
                "Name or service not known\nConnectionError: HTTPSConnectionPool(host='example.com', port=443): Max retries",
                ["downloads something from example.com", "small data set"],
            ),
        ] {
            let said = of_output(text, root.path()).unwrap();
            assert!(parts.iter().all(|part| said.contains(part)), "{said}");
        }
        let root = root.path().canonicalize().unwrap();
        let text = format!(
            "  File \"{}/a/train.py\", line 7, in f\n  File \"/lib/x.py\", line 9\nurlopen error",
            root.display()
        );
        assert!(of_output(&text, &root).unwrap().starts_with("The program (a/train.py:7) downloads something"));
        let root = tempfile::tempdir().unwrap();
        assert_eq!(of_output("RuntimeError: shapes differ", root.path()), None);
    }
}
