//! Where in its program a rank was, by the stack that Python prints when ftest ends it.

use std::path::Path;

use protocol::ids::{Rank, names};
use protocol::site::CallSite;

use crate::observation::{Captured, Hang, ProcessObservation, Role};

/// The line before the frames of the thread that got the signal, which is the main one.
const CURRENT: &str = "Current thread ";
/// Places named at most: of more there is no one answer.
const MOST: usize = 3;

/// Notes where the ranks are that the others wait for.
pub(in crate::execute) fn locate_missing(hang: &mut Hang, processes: &[ProcessObservation]) {
    let here = std::env::current_dir().unwrap_or_default();
    let mut places: Vec<(CallSite, Vec<Rank>)> = Vec::new();
    for rank in hang.missing.iter().copied() {
        let process = processes.iter().find(|process| process.role == Role::Rank(rank));
        let stderr = process.map(|process| &process.stderr);
        let Some(place) = stderr.and_then(|stderr| place(&last(stderr), &here)) else { continue };
        match places.iter_mut().find(|(known, _)| *known == place) {
            Some((_, ranks)) => ranks.push(Rank(rank)),
            None => places.push((place, vec![Rank(rank)])),
        }
    }
    if places.len() > MOST {
        return;
    }
    let sentence = |(place, ranks): &(CallSite, Vec<Rank>)| {
        let verb = if ranks.len() == 1 { "is" } else { "are" };
        format!("{} {verb} at {place}", names("rank", "ranks", ranks))
    };
    hang.at = places.iter().map(sentence).collect();
}

/// The end of a stream.
pub(in crate::execute) fn last(stream: &Captured) -> String {
    String::from_utf8_lossy(if stream.tail.is_empty() { &stream.head } else { &stream.tail }).into_owned()
}

/// The frames of the main thread in the last stack of `stderr`, the innermost first.
pub(in crate::execute) fn frames(stderr: &str) -> Option<Vec<CallSite>> {
    Some(stderr[stderr.rfind(CURRENT)?..].lines().skip(1).map_while(frame).collect())
}

/// The innermost line that is the user's.
fn place(stderr: &str, here: &Path) -> Option<CallSite> {
    let own = frames(stderr)?.into_iter().find(is_the_users)?;
    let file = own.below(&here.to_string_lossy()).unwrap_or(own.file);
    Some(CallSite::new(file, own.line, own.function))
}

/// `  File "train.py", line 13 in validate`.
fn frame(line: &str) -> Option<CallSite> {
    let (file, rest) = line.trim_start().strip_prefix("File \"")?.rsplit_once("\", line ")?;
    let (number, function) = rest.split_once(" in ")?;
    Some(CallSite { file: file.to_owned(), line: number.parse().ok()?, function: function.trim().to_owned(), place: 0 })
}

/// Whether a frame is not in Python's or an installed package's files.
pub(in crate::execute) fn is_the_users(frame: &CallSite) -> bool {
    const PACKAGES: [&str; 3] = ["/site-packages/", "/dist-packages/", "/lib/python3"];
    !frame.file.starts_with('<') && !PACKAGES.iter().any(|part| frame.file.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::Exit;

    const STACK: &str = "step 1\nFatal Python error: Aborted\n\nThread 0x1 (most recent call first):\n  File \"/w/other.py\", line 1 in f\n\n\
        Current thread 0x00007f8a7c9949c0 [python] (most recent call first):\n  File \"/v/lib/python3.12/threading.py\", line 9 in wait\n  \
        File \"/w/run/../train.py\", line 13 in validate\n  File \"/w/train.py\", line 34 in <module>\n\nExtension modules: x (total: 1)\n";

    #[test]
    fn the_innermost_line_of_the_program_is_the_answer() {
        let found = place(STACK, Path::new("/w")).unwrap();
        assert_eq!(found.to_string(), "train.py:13 (validate)");
        assert_eq!(place(STACK, Path::new("/else")).unwrap().file, "/w/run/../train.py");
        for without in
            ["", "Fatal Python error: Aborted\n", "Current thread 0x1 (most recent call first):\n  <no Python frame>\n"]
        {
            assert_eq!(place(without, Path::new("/w")), None);
        }
    }

    #[test]
    fn missing_ranks_at_one_line_are_named_together() {
        let process = |rank| ProcessObservation {
            role: Role::Rank(rank),
            exit: Exit::Unknown,
            stdout: Captured::default(),
            stderr: Captured { head: STACK.into(), ..Captured::default() },
        };
        let mut hang = Hang { missing: vec![1, 2, 9], sentence: "rank 0 waits".into(), ..Hang::default() };
        locate_missing(&mut hang, &(0..3).map(process).collect::<Vec<_>>());
        let story = hang.story();
        assert!(
            story.starts_with("ranks 1 and 2 are at ") && story.ends_with("train.py:13 (validate): rank 0 waits"),
            "{story}"
        );
    }
}
