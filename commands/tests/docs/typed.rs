//! The command lines of `ftest` and `fgpu` that pages show, read by the programs' own parsers.

use std::ffi::OsString;
use std::sync::LazyLock;

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use commands::cli::Cli;
use commands::fgpu::FgpuArgs;
use regex::Regex;

/// A program at the start of a command, with what is before it.
static PROGRAM: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#"(^|[\s"'(=])(?:\./|\.\./)?(ftest|fgpu) "#).unwrap());
/// A value that is only known when the command runs: an expression of a workflow, arithmetic of the shell, a variable.
static LATER: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\$\{\{.*?\}\}|\$+\(\(.*?\)\)|\$+\{?\w+\}?").unwrap());

/// What stands for it.
const SOME: &str = "1";

/// What is wrong with the commands of a block: its lines, those that end with `\` continued by the next.
pub(crate) fn in_block(text: &str) -> (usize, Vec<String>) {
    let lines = text.replace("\\\n", " ");
    let found: Vec<_> = lines.lines().filter(|line| !line.trim_start().starts_with('#')).flat_map(commands).collect();
    (found.len(), found.iter().filter_map(|words| mistake(words, false)).collect())
}

/// What is wrong with a command in a sentence, which may leave out what it is not about. `None`: it is not a command.
pub(crate) fn in_sentence(span: &str) -> Option<Vec<String>> {
    PROGRAM.find(span).filter(|program| program.start() == 0)?;
    Some(commands(span).iter().filter_map(|words| mistake(words, true)).collect())
}

/// The commands in a line, in words.
fn commands(line: &str) -> Vec<Vec<String>> {
    let line = LATER.replace_all(line, SOME);
    let read = |found: regex::Captures<'_>| {
        let quote = found[1].chars().next().filter(|before| "\"'".contains(*before));
        let rest = &line[found.get(2)?.start()..];
        shlex::split(&rest[..end(rest, quote)])
    };
    PROGRAM.captures_iter(&line).filter_map(read).collect()
}

/// Where a command ends: at what the shell reads as the end of a command or a redirection, or at the quote that it is in.
fn end(text: &str, within: Option<char>) -> usize {
    let mut open = None;
    for (index, letter) in text.char_indices() {
        match open {
            Some(quote) if letter == quote => open = None,
            Some(_) => {}
            None if within == Some(letter) || ");|&>`".contains(letter) => return index,
            None if "\"'".contains(letter) => open = Some(letter),
            None => {}
        }
    }
    text.len()
}

fn mistake(words: &[String], partly: bool) -> Option<String> {
    let arguments = words.iter().map(OsString::from);
    let read = match words.first()?.as_str() {
        "fgpu" => FgpuArgs::try_parse_from(arguments).map(drop),
        _ => Cli::try_read(arguments).map(drop),
    };
    let error = read.err()?;
    let left_out = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
        ErrorKind::MissingRequiredArgument | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => partly,
        // Only known later; or no value, or a word in its place: SHELL.
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => match error.get(ContextKind::InvalidValue) {
            Some(ContextValue::String(value)) => {
                value == SOME || partly && value.chars().all(|letter| letter.is_ascii_uppercase())
            }
            _ => false,
        },
        _ => false,
    };
    (!left_out).then(|| format!("`{}`: {}", words.join(" "), error.render()))
}

#[test]
fn commands_end_where_the_shell_ends_them() {
    for (line, expected) in [
        ("FTEST_HOME=$PWD ftest smoke && rm x", vec![vec!["ftest", "smoke"]]),
        ("- run: ./ftest ${{ matrix.suite }} --junit j.xml # all", vec![vec!["ftest", "1", "--junit", "j.xml"]]),
        (r#"run: echo "matrix=$(../ftest run a --list)" >> x"#, vec![vec!["ftest", "run", "a", "--list"]]),
        ("exec ftest a --shard \"$((INDEX + 1))/$SHARDS\"", vec![vec!["ftest", "a", "--shard", "1/1"]]),
        ("sh './ftest a --keep'; ftest b | tee c", vec![vec!["ftest", "a", "--keep"], vec!["ftest", "b"]]),
        ("ftest a -E 'tag(x) & world(>=4)'", vec![vec!["ftest", "a", "-E", "tag(x) & world(>=4)"]]),
        ("swift test, ftest-report", vec![]),
    ] {
        assert_eq!(commands(line), expected, "{line}");
    }
}

#[test]
fn a_command_that_cannot_be_typed_is_found() {
    assert_eq!(in_block("ftest a --keep\n./fgpu --profile a100 true\n# ftest --nothing\n"), (2, Vec::new()));
    assert!(in_block("ftest a \\\n  --kept\n").1[0].contains("unexpected argument '--kept'"));
    assert!(in_block("ftest replay --html\n").1[0].contains("a value is required"));
    assert_eq!(in_sentence("ftest replay --html"), Some(Vec::new()));
    assert_eq!(in_sentence("ftest replay --htm").unwrap().len(), 1);
    assert!(in_sentence("an ftest of its own").is_none());
}
