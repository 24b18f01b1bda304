//! Every block of code of the pages is in a language, and what reads that language finds nothing wrong in it.

use std::fs;
use std::path::{Path, PathBuf};

use duct::{Expression, cmd};
use serde_json::json;

use super::blocks::{self, Block};
use super::{fragment, typed};

/// Reads [line of the page, program] pairs as JSON and prints what does not compile.
const COMPILES: &str = "
import json, sys, warnings
warnings.simplefilter('error')
for place, text in json.load(sys.stdin):
    try:
        compile(text, place, 'exec')
    except Exception as error:
        print(f'{place}: {error}')
";

/// Directories of the checkout: a path in one of them that a page names is there.
const NAMED: [&str; 14] = [
    "abi",
    "benches",
    "coordinator",
    "dataplane",
    "fixtures",
    "model",
    "packaging",
    "profiles",
    "protocol",
    "ptx",
    "runner",
    "shim",
    "smi",
    "xtask",
];

fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// What blocks are judged by, other than here: (language, page, file that says how).
const ELSEWHERE: [(&str, &str, &str); 6] = [
    // Each recipe below the heading of its product.
    ("yaml", "docs/ci.md", ".ci/run"),
    ("groovy", "docs/ci.md", ".ci/run"),
    ("cmake", "docs/ci.md", ".ci/run"),
    ("rust", "docs/ci.md", ".ci/run"),
    ("diff", "docs/tutorial.md", "xtask/src/tutorial.rs"),
    ("stages", "ARCHITECTURE.md", "xtask/tests/stages.rs"),
];

/// A directory as a suite's in a repository: beside it what the pages name.
fn repository() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let suites = directory.path().join("suites");
    let clusters = directory.path().join("clusters");
    fs::create_dir(&suites).unwrap();
    fs::create_dir(&clusters).unwrap();
    fs::write(clusters.join("production.yaml"), "nodes: 2\ngpus_per_node: 4\nprofile: h100\n").unwrap();
    fs::copy(checkout().join("profiles/h100.yaml"), suites.join("my-gpu.yaml")).unwrap();
    fs::write(suites.join("train.py"), "").unwrap();
    for name in ["requirements.txt", "requirements.lock"] {
        fs::write(directory.path().join(name), "torch==2.15.0\n").unwrap();
    }
    let project = "[project]\nname = \"page\"\nversion = \"1\"\n[project.optional-dependencies]\ntest = [\"pytest\"]\n";
    fs::write(directory.path().join("pyproject.toml"), project).unwrap();
    (directory, suites)
}

/// What is wrong in the blocks, and how many commands of ours they have.
fn judge(blocks: &[Block]) -> (Vec<String>, usize) {
    let (_repository, suites) = repository();
    let (mut mistakes, mut commands, mut python) = (Vec::new(), 0, Vec::new());
    for block in blocks {
        let found = match block.language.as_str() {
            "" => vec!["the block has no language; output is `text`".to_owned()],
            "text" => continue,
            // These have the place already.
            "python" => {
                python.push(json!([format!("{}:{}", block.page, block.line), block.text]));
                continue;
            }
            "sh" | "console" => script(&block.language, &block.text),
            "json" => serde_json::from_str::<serde_json::Value>(&block.text)
                .err()
                .map(|error| error.to_string())
                .into_iter()
                .collect(),
            "toml" => block.text.parse::<toml::Table>().err().map(|error| error.to_string()).into_iter().collect(),
            language => match ELSEWHERE.iter().find(|(known, page, _)| (*known, *page) == (language, &block.page)) {
                Some((_, _, judge)) => elsewhere(block, judge),
                None if language == "yaml" => fragment::mistakes(&block.text, &suites),
                None => vec![format!("nothing checks `{language}` on this page")],
            },
        };
        let (count, typed) = typed::in_block(&block.text);
        commands += count;
        mistakes.extend(found.into_iter().chain(typed).map(|what| block.mistake(&what)));
    }
    mistakes.extend(compiled(&python));
    (mistakes, commands)
}

/// A block that `judge` checks: it names the block's language, and a recipe's heading.
fn elsewhere(block: &Block, judge: &str) -> Vec<String> {
    let text = fs::read_to_string(checkout().join(judge)).unwrap();
    let wanted = if block.language == "yaml" { &block.section } else { &block.language };
    if text.contains(wanted.as_str()) { Vec::new() } else { vec![format!("{judge} does not mention `{wanted}`")] }
}

/// What a shell cannot read in a script, or in what is typed at a prompt.
fn script(language: &str, text: &str) -> Vec<String> {
    let typed = text.lines().filter_map(|line| line.strip_prefix("$ ")).map(|line| format!("{line}\n")).collect();
    let (status, printed) = piped(&cmd!("sh", "-n"), if language == "sh" { text.to_owned() } else { typed });
    if status { Vec::new() } else { vec![printed] }
}

/// What does not compile, of [place, program] pairs.
fn compiled(programs: &[serde_json::Value]) -> Vec<String> {
    let (status, printed) = piped(&cmd!("python3", "-c", COMPILES), json!(programs).to_string());
    assert!(status, "{printed}");
    printed.lines().map(str::to_owned).collect()
}

/// Whether a program that reads `input` succeeds, and what it prints.
fn piped(command: &Expression, input: String) -> (bool, String) {
    let output = command.stdin_bytes(input).stderr_to_stdout().stdout_capture().unchecked().run().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn blocks_of_code_are_right() {
    let pages = blocks::pages(&checkout());
    let blocks: Vec<Block> = pages.iter().flat_map(|(page, text)| blocks::read(page, text).0).collect();
    let (mistakes, commands) = judge(&blocks);
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
    assert!(blocks.len() > 90 && commands > 30, "only {} blocks and {commands} commands", blocks.len());
}

#[test]
fn commands_and_paths_in_sentences_are_right() {
    let (mut mistakes, mut commands, mut paths) = (Vec::new(), 0, 0);
    for (page, text) in blocks::pages(&checkout()) {
        let (blocks, prose) = blocks::read(&page, &text);
        let in_blocks = blocks.iter().filter(|block| block.language == "sh");
        let in_blocks = in_blocks.flat_map(|block| block.text.lines().map(move |line| (block.line, line)));
        let spans = prose.iter().flat_map(|(number, line)| blocks::spans(line).map(move |span| (*number, span)));
        for (line, code) in spans.chain(in_blocks) {
            let found = typed::in_sentence(code);
            commands += usize::from(found.is_some());
            mistakes.extend(found.unwrap_or_default().into_iter().map(|what| format!("{page}:{line}: {what}")));
            // The last word of a copy is new.
            let known =
                if code.starts_with("cp ") { code.rsplit_once(' ').map_or(code, |(known, _)| known) } else { code };
            for path in known.split_whitespace().filter(|word| is_path(word)) {
                paths += 1;
                if !checkout().join(path).exists() {
                    mistakes.push(format!("{page}:{line}: there is no {path}"));
                }
            }
        }
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
    assert!(commands > 60 && paths > 60, "only {commands} commands and {paths} paths");
}

/// Whether a word is a path in the checkout, and not a pattern or what somebody writes in its place.
fn is_path(word: &str) -> bool {
    let plain = word.chars().all(|letter| letter.is_ascii_alphanumeric() || "/._-".contains(letter));
    let directory = word.split_once('/').map(|(directory, _)| directory);
    plain
        && directory.is_some_and(|directory| NAMED.contains(&directory))
        && !word.chars().any(|letter| letter.is_ascii_uppercase())
}

#[test]
fn a_block_with_a_mistake_is_found_in_every_language() {
    let block = |page: &str, language: &str, text: &str| {
        let page_text = format!("# One job per suite\n```{language}\n{text}\n```\n");
        blocks::read(page, &page_text).0.remove(0)
    };
    for (page, language, right, wrong, said) in [
        ("a.md", "text", "anything", "", ""),
        ("a.md", "yaml", "timeout: 3s", "timeout: soon", "soon"),
        ("a.md", "sh", "ftest a --keep", "ftest a --kept", "--kept"),
        ("a.md", "sh", "for a in b; do true; done", "for a in b; do true", "sh: "),
        ("a.md", "console", "$ ftest --version\nftest (1.2", "$ ftest --versions\nftest (1.2", "--versions"),
        ("a.md", "python", "x = 1", "x = = 1", "a.md:2: invalid syntax"),
        ("a.md", "json", "{}", "{", "EOF"),
        ("a.md", "toml", "a = 1", "a =", "a.md:2"),
        ("docs/ci.md", "yaml", "a: b", "", ""),
        ("docs/ci.md", "rust", "fn main() {}", "", ""),
    ] {
        let (found, _) = judge(&[block(page, language, right)]);
        assert_eq!(found, Vec::<String>::new(), "{language}");
        if !said.is_empty() {
            let (found, _) = judge(&[block(page, language, wrong)]);
            assert!(found.len() == 1 && found[0].contains(said), "{language}: {found:?}");
        }
    }
    for (language, said) in
        [("", "a.md:2: the block has no language"), ("rust", "nothing checks `rust`"), ("yml", "`yml`")]
    {
        let (found, _) = judge(&[block("a.md", language, "a: b")]);
        assert!(found.len() == 1 && found[0].contains(said), "{found:?}");
    }
}
