//! What a first run lacked: a file, a download, a module or an argument, by what the program said, and what to do about it.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;
use runner::record::run::Run;
use runner::record::store::{self, Runs};
use runner::verdict::Verdict;

use super::files::SUITE;

/// What a run lacked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lack {
    /// What to do about it, for a reader.
    pub(super) advice: String,
    /// What the environment of the program would have to have, if it is that.
    pub(super) asked: Option<Asked>,
    /// The module that could not be imported, whole, if it is that.
    pub(super) module: Option<String>,
}

/// What an error asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// A module, by its first name.
    Module(String),
    /// A package, by its name on the package index.
    Package(String),
}

impl From<String> for Lack {
    fn from(advice: String) -> Lack {
        Lack { advice, ..Lack::default() }
    }
}

/// What the last run in `runs` lacked; none if nothing in its output is known here.
pub(super) fn of_run(runs: &Runs, root: &Path) -> Option<Lack> {
    let run: Run = store::read(&runs.find(None).ok()?).ok()?;
    let attempt = run.cases.iter().find_map(|case| case.shown())?;
    let texts = attempt.processes.iter().flat_map(|process| [&process.stderr, &process.stdout]);
    let texts: Vec<String> = texts.map(|stream| format!("{}\n{}", stream.head, stream.tail)).collect();
    of_outputs(&texts, attempt.verdict == Verdict::Timeout, root)
}

/// Whether a process of the last run in `runs` was started.
pub(super) fn has_started(runs: &Runs) -> bool {
    let run = runs.find(None).ok().and_then(|directory| -> Option<Run> { store::read(&directory).ok() });
    let attempts = |run: Run| run.cases.iter().any(|case| case.shown().is_some_and(|one| !one.processes.is_empty()));
    run.is_some_and(attempts)
}

fn of_outputs(texts: &[String], is_timeout: bool, root: &Path) -> Option<Lack> {
    let of = |part: fn(&str) -> &str| texts.iter().map(|text| part(text)).collect::<Vec<_>>().join("\n");
    let whole = of(|text| text);
    if !is_timeout {
        return of_output(&of(last_error), &whole, root);
    }
    // It may repeat what does not work for as long as it runs; its last traceback says where it was when it was ended.
    Some(if NETWORK.is_match(&whole) { download(&whole, &whole, root) } else { too_long() }.into())
}

/// `error` is what it said last, `whole` what it said in all.
fn download(error: &str, whole: &str, root: &Path) -> String {
    static HOST: LazyLock<Regex> = LazyLock::new(|| {
        let before = r"(?i)(?:host='|connect to '(?:https?://)?|resolve host(?: address)?:? ['\u{2018}]?)([\w.-]+)";
        Regex::new(before).expect("a constant")
    });
    // Of the lines that programs write before they download a file, the last.
    static URL: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#"(?i)(?:downloading\b[^\n]*?|\btried )(https?://[^\s'")]*[\w/])"#).expect("a constant")
    });
    static PATH: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"with url: (/[^\s')]+)").expect("a constant"));
    let host = HOST.captures(error).map(|found| found[1].to_owned());
    let what = match (host, PATH.captures(error), URL.captures_iter(whole).last().or(NO_FILE_AT_URL.captures(error))) {
        (Some(host), Some(path), _) => format!("https://{host}{}", &path[1]),
        (_, _, Some(url)) => url[1].to_owned(),
        (Some(host), ..) => format!("something from {host}"),
        _ => "something".to_owned(),
    };
    fixture(
        &format!("The program{} downloads {what}, which this machine cannot reach.", place(error, root)),
        "COMMAND that puts a small data set where the program looks for it",
    )
}

fn too_long() -> String {
    format!(
        "The program was not over in time: make its run shorter by more arguments in {SUITE} (fewer steps, a smaller model), or \
         raise `timeout` there."
    )
}

/// What a program said last of an error: from its last traceback on, without torchrun's own about a worker that failed.
fn last_error(text: &str) -> &str {
    const TRACEBACK: &str = "Traceback (most recent call last)";
    let Some(start) = text.rfind(TRACEBACK) else { return text };
    let (before, last) = text.split_at(start);
    match before.rfind(TRACEBACK) {
        Some(start) if last.contains("ChildFailedError") => &before[start..],
        _ => last,
    }
}

/// What says that something could not be reached.
static NETWORK: LazyLock<Regex> = LazyLock::new(|| {
    let words = r"(?i)Temporary failure in name resolution|Name or service not known|urlopen error|Network is unreachable|ConnectError|ConnectionError|couldn't connect to|LocalEntryNotFoundError|does not appear to have a file named|Could not resolve host|unable to resolve host|curl: \((?:6|7|28|35)\)|Failed to resolve";
    Regex::new(words).expect("a constant")
});

/// A file that is not found at a URL.
static NO_FILE_AT_URL: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"FileNotFoundError: (https?://\S+)").expect("a constant"));

/// What a program says that ends by itself where a model or a data set was not downloaded before.
static NOT_FOUND: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?im)^.*\b(?:not found|does not exist|missing)\b.*\bdownload.*$").expect("a constant")
});

fn of_output(text: &str, whole: &str, root: &Path) -> Option<Lack> {
    static RULES: LazyLock<[Regex; 6]> = LazyLock::new(|| {
        [
            r"No module named '([\w.]+)'",
            r"ImportError: cannot import name '\w+' from '(\w+)",
            r"the following arguments are required: (.+)",
            r"(?:No such file or directory:|Unable to find) '([^']*[./][^']*)'",
            r"pip3? install (?:-U |--upgrade )?['\u{60}\u{22}]?([A-Za-z][\w.-]*\w)(?:['\u{60}\u{22}\s]|$)",
            r"(?m)^(?:\[rank\d+\]: )?(?:AssertionError|FileNotFoundError|ValueError|RuntimeError|OSError|NotADirectoryError)\b.*?([\w~.-]*/[\w./~-]+)",
        ]
        .map(|rule| Regex::new(rule).expect("a constant"))
    });
    let [module, version, arguments, file, hint, path] = &*RULES;
    let first = |rule: &Regex| {
        let found = rule.captures(text)?;
        Some(found.iter().skip(1).flatten().next().map(|part| part.as_str().trim().to_owned()).unwrap_or_default())
    };
    if let Some(module) = first(module) {
        if module.starts_with("torch.") {
            let advice =
                format!("The program imports `{module}`, which its PyTorch does not have: it is for another version.");
            return Some(advice.into());
        }
        let advice = format!(
            "The program imports `{module}`, which its environment does not have: add the package of that module to `python` in {SUITE}."
        );
        // Of a module in another, the other one is there.
        let asked = (!module.contains('.')).then(|| Asked::Module(module.clone()));
        return Some(Lack { advice, asked, module: Some(module) });
    }
    if let Some(module) = first(version) {
        let advice = format!(
            "The program is for another version of `{module}` than its environment has: pin the version in `python` in {SUITE}."
        );
        return Some(advice.into());
    }
    if let Some(arguments) = first(arguments) {
        return Some(format!("The program requires {arguments}: add it to `args` in {SUITE}.").into());
    }
    if text.contains("CUDA_HOME environment variable is not set") {
        let advice = format!(
            "The program{} compiles CUDA code, for which it needs NVIDIA's compiler and headers, and CUDA_HOME in `env`: \
             `ftest docs kernels#compilers`.",
            place(text, root)
        );
        return Some(advice.into());
    }
    if NETWORK.is_match(text) {
        return Some(download(text, whole, root).into());
    }
    if let Some(package) = first(hint).filter(|_| text.contains("Error")) {
        let advice = format!("The program lacks the package {package}: add it to `python` in {SUITE}.");
        return Some(Lack { advice, asked: Some(Asked::Package(package)), module: None });
    }
    if let Some(said) = NOT_FOUND.find(text) {
        let what = format!("The program says: {}.", said.as_str().trim().trim_end_matches('.'));
        return Some(fixture(&what, "COMMAND that makes a small stand-in where the program looks for it").into());
    }
    // What reads files by URL calls one that it cannot reach not found.
    if NO_FILE_AT_URL.is_match(text) {
        return Some(download(text, whole, root).into());
    }
    let missing = first(file).or_else(|| first(path).filter(|path| !exists(root, path)))?;
    let own = absolute(root).and_then(|root| Some(Path::new(&missing).strip_prefix(root).ok()?.display().to_string()));
    let missing = own.unwrap_or(missing);
    let command = match preparation(root, &missing) {
        Some(script) => format!("python3 {script}"),
        None => format!("COMMAND that makes {missing}"),
    };
    let what = format!("The program{} needs {missing}, which is not in the repository.", place(text, root));
    Some(fixture(&what, &command).into())
}

/// The innermost line of the repository in a traceback: ` (train.py:12)`.
fn place(text: &str, root: &Path) -> String {
    static FRAME: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"File "([^"]+\.py)", line (\d+)"#).expect("a constant"));
    let Some(root) = absolute(root) else { return String::new() };
    let of = |frame: regex::Captures<'_>| {
        let file = Path::new(&frame[1]).strip_prefix(&root).ok()?;
        Some(format!(" ({}:{})", file.display(), &frame[2]))
    };
    // What an interpreter shows when it is ended has the innermost frame first.
    let own = match text.split_once("(most recent call first)") {
        Some((_, frames)) => FRAME.captures_iter(frames).find_map(of),
        None => FRAME.captures_iter(text).filter_map(of).last(),
    };
    own.unwrap_or_default()
}

/// The repository; an empty path is the working directory.
fn absolute(root: &Path) -> Option<PathBuf> {
    if root.as_os_str().is_empty() { Path::new(".") } else { root }.canonicalize().ok()
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
                "No such file or directory: 'lspci'\nFileNotFoundError: Unable to find '/nowhere/data.json'",
                ["needs /nowhere/data.json,", "COMMAND that makes /nowhere/data.json"],
            ),
            (
                "FileNotFoundError: https://some.host/a/input.txt\n\nSet the environment variable X=1",
                ["downloads https://some.host/a/input.txt, which", "uses: [data]"],
            ),
            (
                "AssertionError: provided COCO path /path/to/coco does not exist",
                ["needs /path/to/coco,", "uses: [data]"],
            ),
            (
                "ImportError: cannot import name '_pil_interp' from 'timm.data.transforms' (/x/timm)",
                ["another version of `timm`", "`python` in suites/training.yaml"],
            ),
            (
                "ImportError: requests package is required by x :: No module named 'requests'",
                ["imports `requests`", "to `python`"],
            ),
            (
                "ModuleNotFoundError: Neither is available. Try `pip install`ing either.\nTry running `pip install -U 'mine'`",
                ["lacks the package mine", "to `python`"],
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
            (
                "curl: (6) Could not resolve host: example.org\nWarning: Will retry in 2 seconds",
                ["downloads something from example.org", "small data set"],
            ),
            (
                "wget: unable to resolve host address \u{2018}example.net\u{2019}",
                ["downloads something from example.net", "small data set"],
            ),
            (
                "HTTPSConnectionPool(host='example.com', port=443): Max retries exceeded with url: /a/b.json (Caused by \
                 NameResolutionError(\"Failed to resolve 'example.com'\"))",
                ["downloads https://example.com/a/b.json, which", "small data set"],
            ),
            (
                "See https://example.net/help\nDownloading https://example.org/a.zip to a.zip\n\
                 curl: (6) Could not resolve host: example.org",
                ["downloads https://example.org/a.zip, which", "small data set"],
            ),
            (
                "x\nModel a/b not found. Please download it using `get a/b`\nx",
                ["says: Model a/b not found. Please download it using `get a/b`.", "uses: [data]"],
            ),
            ("OSError: CUDA_HOME environment variable is not set. Please", ["compiles CUDA code", "kernels#compilers"]),
        ] {
            let said = of_output(text, text, root.path()).unwrap().advice;
            assert!(parts.iter().all(|part| said.contains(part)), "{said}");
        }
        let failed = "Traceback (most recent call last)\nModuleNotFoundError: No module named 'a'\n";
        let agent = "Traceback (most recent call last):\n  x\nChildFailedError:\n";
        assert_eq!(last_error(&format!("1\n{failed}{agent}")), failed);
        assert_eq!((last_error(agent), last_error(failed), last_error("no")), (agent, failed, "no"));
        let ended =
            "curl: (6) Could not resolve host: example.org\nTraceback (most recent call last)\n  x\n".to_owned();
        let said = |text: &String, is_timeout| {
            of_outputs(std::slice::from_ref(text), is_timeout, root.path()).map(|lack| lack.advice)
        };
        assert!(said(&ended, true).unwrap().contains("something from example.org"));
        assert_eq!(said(&ended, false), None);
        let loads =
            "Downloading: \"https://example.org/a.pth\" to /x\nTraceback (most recent call last)\nurlopen error"
                .to_owned();
        assert!(said(&loads, false).unwrap().contains("downloads https://example.org/a.pth, which"));
        assert!(said(&failed.to_owned(), true).unwrap().contains("not over in time"));
        let root = root.path().canonicalize().unwrap();
        let text = format!(
            "  File \"{}/a/train.py\", line 7, in f\n  File \"/lib/x.py\", line 9\nurlopen error",
            root.display()
        );
        assert!(
            of_output(&text, &text, &root)
                .unwrap()
                .advice
                .starts_with("The program (a/train.py:7) downloads something")
        );
        let text = format!(
            "Thread 1 (most recent call first):\n  File \"/lib/x.py\", line 9 in f\n  File \"{0}/get.py\", line 3 in g\n  File \"{0}/train.py\", line 7 in h",
            root.display()
        );
        assert_eq!(place(&text, &root), " (get.py:3)");
        let text = format!("FileNotFoundError: Unable to find '{}/data/x.json'", root.display());
        assert!(of_output(&text, &text, &root).unwrap().advice.contains(" needs data/x.json, "));
        let here = std::env::current_dir().unwrap();
        assert_eq!(place(&format!("File \"{}/x.py\", line 1", here.display()), Path::new("")), " (x.py:1)");
        let root = tempfile::tempdir().unwrap();
        assert_eq!(of_output("RuntimeError: shapes differ", "", root.path()), None);
    }

    #[test]
    fn what_an_error_asks_for_is_a_module_or_a_package() {
        let root = tempfile::tempdir().unwrap();
        let module = |name: &str| Some(Asked::Module(name.to_owned()));
        for (text, asked) in [
            ("ModuleNotFoundError: No module named 'requests'", module("requests")),
            ("ImportError: requests package is required by x :: No module named 'requests'", module("requests")),
            ("ModuleNotFoundError: No module named 'yaml.old'", None),
            ("ModuleNotFoundError: No module named 'torch._six'", None),
            (
                "ModuleNotFoundError: Neither is available. Try `pip install`ing either.\nTry running `pip install -U 'mine'`",
                Some(Asked::Package("mine".to_owned())),
            ),
            ("ImportError: cannot import name 'x' from 'timm.data'\nTry `pip install timm`", None),
            ("the following arguments are required: --cfg\nError, see `pip install mine`", None),
        ] {
            assert_eq!(of_output(text, text, root.path()).unwrap().asked, asked, "{text}");
        }
    }
}
