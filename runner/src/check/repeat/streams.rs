//! Compares the output of two runs. Left out: the date, time and thread of PyTorch log lines, NCCL_DEBUG lines (they contain
//! process ids and addresses), and the name of the run's scratch directory.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fs;
use std::io;
use std::sync::LazyLock;

use regex::bytes::{NoExpand, Regex};

use super::short;
use crate::observation::{Captured, Observation, ProcessObservation, Role};

/// The start of a log line as written by glog, c10 and PyTorch's Python code: level, month and day, time, and the thread or
/// process.
static LOG_HEAD: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b[IWEFCV][0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]+(?: +[0-9]+)?\b").expect("a constant")
});

/// A line of NCCL's log: `host:pid:tid [device] NCCL INFO ...`.
static NCCL_LINE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^[^ :]+:[0-9]+:[0-9]+ (?:\[[0-9]+\] )?NCCL ").expect("a constant"));

/// Lines of the ranks' stdout that differ; without ranks, of the one process.
pub(super) fn stdout(ignore: &[Regex], first: &Observation, second: &Observation) -> Vec<String> {
    compare(
        "stdout",
        |process| &process.stdout,
        ignore,
        first,
        second,
        |role, before, after| {
            let mut differences = Vec::new();
            for at in 0..before.len().max(after.len()) {
                let (was, is) = (before.get(at), after.get(at));
                if was.map(|(_, line)| line) != is.map(|(_, line)| line) {
                    let number = was.or(is).map_or(0, |(number, _)| *number);
                    differences.push(format!("stdout of {role}, line {number}: {}, then {}", shown(was), shown(is)));
                }
            }
            differences
        },
    )
}

/// Lines of stderr that occur in only one of the runs. Library threads write to stderr in any order.
pub(super) fn stderr(ignore: &[Regex], first: &Observation, second: &Observation) -> Vec<String> {
    compare(
        "stderr",
        |process| &process.stderr,
        ignore,
        first,
        second,
        |role, mut before, mut after| {
            before.sort_by(by_text);
            after.sort_by(by_text);
            let (before, after) = (without(&before, &after), without(&after, &before));
            (0..before.len().max(after.len()))
                .map(|at| {
                    let (was, is) = (before.get(at).copied(), after.get(at).copied());
                    format!("stderr of {role}: {}, then {}", shown(was), shown(is))
                })
                .collect()
        },
    )
}

/// A line's number, from 1, and the part of it that is compared.
type Line<'a> = (usize, Cow<'a, [u8]>);

fn by_text(one: &Line<'_>, other: &Line<'_>) -> Ordering {
    one.1.cmp(&other.1)
}

/// The lines that are not among `others`, in the order of the program. Both are sorted.
fn without<'a, 'l>(lines: &'a [Line<'l>], others: &[Line<'_>]) -> Vec<&'a Line<'l>> {
    let mut rest = others.iter().peekable();
    let mut own = Vec::new();
    for line in lines {
        while rest.next_if(|other| other.1 < line.1).is_some() {}
        if rest.next_if(|other| other.1 == line.1).is_none() {
            own.push(line);
        }
    }
    own.sort_by_key(|(number, _)| *number);
    own
}

fn compare(
    name: &str,
    stream: impl Fn(&ProcessObservation) -> &Captured,
    ignore: &[Regex],
    first: &Observation,
    second: &Observation,
    differ: impl Fn(Role, Vec<Line<'_>>, Vec<Line<'_>>) -> Vec<String>,
) -> Vec<String> {
    let has_ranks = first.ranks().next().is_some();
    let counts = |role: Role| match role {
        Role::Rank(_) => true,
        Role::Launcher(_) => !has_ranks,
        Role::Srun | Role::Coordinator => false,
    };
    let mut differences = Vec::new();
    for process in first.processes.iter().filter(|process| counts(process.role)) {
        let role = process.role;
        let Some(other) = second.process(role) else {
            if name == "stdout" {
                differences.push(format!("{role} ran only the first time"));
            }
            continue;
        };
        match (text(stream(process)), text(stream(other))) {
            (Ok(before), Ok(after)) => {
                let (before, after) = (lines(&before, ignore, first), lines(&after, ignore, second));
                differences.extend(differ(role, before, after));
            }
            (Err(error), _) | (_, Err(error)) => {
                differences.push(format!("{name} of {role} cannot be read again: {error}"));
            }
        }
    }
    differences
}

/// The whole stream.
fn text(stream: &Captured) -> io::Result<Cow<'_, [u8]>> {
    if !stream.truncated {
        return Ok(Cow::Borrowed(&stream.head));
    }
    let kept = fs::read(&stream.path)?;
    if (kept.len() as u64) < stream.bytes {
        return Err(io::Error::other(format!("{} of its {} bytes were kept", kept.len(), stream.bytes)));
    }
    Ok(Cow::Owned(kept))
}

/// The lines to compare, without their ignored parts.
fn lines<'a>(text: &'a [u8], ignore: &[Regex], seen: &Observation) -> Vec<Line<'a>> {
    let scratch = seen.scratch.to_string_lossy();
    let scratch = (!scratch.is_empty()).then(|| Regex::new(&regex::escape(&scratch)).ok()).flatten();
    let numbered = (1..).zip(text.split(|byte| *byte == b'\n')).filter(|(_, line)| !NCCL_LINE.is_match(line));
    let counted = |line: &'a [u8]| {
        let line = match &scratch {
            Some(scratch) => replaced(Cow::Borrowed(line), scratch, b"$FTEST"),
            None => Cow::Borrowed(line),
        };
        let line = replaced(line, &LOG_HEAD, b"");
        ignore.iter().fold(line, |line, regex| replaced(line, regex, b""))
    };
    numbered.map(|(number, line)| (number, counted(line))).collect()
}

fn replaced<'l>(line: Cow<'l, [u8]>, regex: &Regex, by: &[u8]) -> Cow<'l, [u8]> {
    let rest = match regex.replace_all(&line, NoExpand(by)) {
        Cow::Borrowed(_) => None,
        Cow::Owned(rest) => Some(rest),
    };
    rest.map_or(line, Cow::Owned)
}

fn shown(line: Option<&Line<'_>>) -> String {
    match line {
        Some((_, line)) => format!("`{}`", short(&String::from_utf8_lossy(line))),
        None => "nothing".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::Exit;

    fn seen(scratch: &str, stdout: &str, stderr: &str) -> Observation {
        let captured = |text: &str| Captured { head: text.as_bytes().to_vec(), ..Captured::default() };
        let (stdout, stderr) = (captured(stdout), captured(stderr));
        let process = ProcessObservation { role: Role::Rank(1), exit: Exit::Code(0), stdout, stderr };
        Observation { processes: vec![process], scratch: scratch.into(), ..Observation::default() }
    }

    #[test]
    fn stderr_is_compared_without_order_times_and_places() {
        let first =
            seen("/tmp/run/1", "", "one\n[rank1]:[W1123 00:20:01.123456789 Process.cpp:1] slow\nin /tmp/run/1/x\n");
        let second = seen("/tmp/run/2", "", "[rank1]:[W1123 00:20:07.5 Process.cpp:1] slow\nin /tmp/run/2/x\none\n");
        assert_eq!(stderr(&[], &first, &second), [""; 0]);
        let other =
            seen("/tmp/run/2", "", "[rank1]:[W1123 00:20:07.5 Process.cpp:2] slow\nin /tmp/run/2/x\none\none\n");
        assert_eq!(
            stderr(&[], &first, &other),
            [
                "stderr of rank 1: `[rank1]:[ Process.cpp:1] slow`, then `[rank1]:[ Process.cpp:2] slow`",
                "stderr of rank 1: nothing, then `one`"
            ]
        );
        let (one, other) = (seen("", "", "step in 7 ms"), seen("", "", "step in 9 ms"));
        assert_eq!(stderr(&[Regex::new("[0-9]+ ms").unwrap()], &one, &other), [""; 0]);
        assert_eq!(stderr(&[], &one, &other), ["stderr of rank 1: `step in 7 ms`, then `step in 9 ms`"]);
    }

    #[test]
    fn stdout_is_compared_in_order_and_nccl_debug_is_not() {
        let first = seen("", "a\nhost:12:13 [0] NCCL INFO comm 0x1\nb\nc", "");
        assert_eq!(stdout(&[], &first, &seen("", "a\nb\nc", "")), [""; 0]);
        assert_eq!(
            stdout(&[], &first, &seen("", "a\nc\nb", "")),
            ["stdout of rank 1, line 3: `b`, then `c`", "stdout of rank 1, line 4: `c`, then `b`"]
        );
    }
}
