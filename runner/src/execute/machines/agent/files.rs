//! The files of a case that ftest reads: device reports, the journal, the logs of torchrun's workers, the state of hanging ranks.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::super::message::Answer;

/// Bytes of a file in one message.
const PIECE: usize = 64 << 10;

/// The files in `scratch` as messages, one after the other. Device reports get names of their own: processes of different
/// machines can have the same id.
pub(super) fn answers(scratch: &Path, node: u32) -> impl Iterator<Item = Answer> {
    let mut names = Vec::new();
    list(scratch, "", &mut names);
    let scratch = scratch.to_owned();
    names.into_iter().flat_map(move |name| {
        let path = scratch.join(&name);
        let name = match name.strip_prefix("device-") {
            Some(rest) => format!("device-node{node}-{rest}"),
            None => name,
        };
        if let Ok(text) = std::fs::read_link(&path) {
            return Pieces::Link(Some(Answer::Link { name, text: text.to_string_lossy().into_owned() }));
        }
        Pieces::File { file: File::open(path).ok(), name }
    })
}

/// The names of the files below `directory`.
fn list(scratch: &Path, directory: &str, names: &mut Vec<String>) {
    for entry in std::fs::read_dir(scratch.join(directory)).into_iter().flatten().flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let is_ours = !directory.is_empty()
            || name == "journal.jsonl"
            || ["device-", "torchrun-", "native-state"].iter().any(|ours| name.starts_with(ours));
        if !is_ours {
            continue;
        }
        let name = if directory.is_empty() { name } else { format!("{directory}/{name}") };
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => list(scratch, &name, names),
            Ok(kind) if kind.is_file() || kind.is_symlink() => names.push(name),
            _ => {}
        }
    }
}

/// The messages about one file.
enum Pieces {
    Link(Option<Answer>),
    File { file: Option<File>, name: String },
}

impl Iterator for Pieces {
    type Item = Answer;

    fn next(&mut self) -> Option<Answer> {
        match self {
            Pieces::Link(link) => link.take(),
            Pieces::File { file, name } => {
                let mut bytes = Vec::new();
                // What cannot be read ends there, as a file does that was being written when its machine died.
                file.as_mut()?.take(PIECE as u64).read_to_end(&mut bytes).ok().filter(|read| *read > 0)?;
                Some(Answer::File { name: name.clone(), bytes })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ftest_reads_is_sent_and_nothing_else() {
        let scratch = tempfile::tempdir().unwrap();
        let logs = scratch.path().join("torchrun-1/none_x/attempt_0/1");
        std::fs::create_dir_all(&logs).unwrap();
        std::fs::create_dir(scratch.path().join("shared")).unwrap();
        std::fs::write(logs.join("stdout.log"), vec![b'x'; PIECE + 1]).unwrap();
        std::fs::write(scratch.path().join("shared/big"), "no").unwrap();
        std::fs::write(scratch.path().join("device-7.json"), "{}").unwrap();
        std::os::unix::fs::symlink("no room", scratch.path().join("device-8.json.refused")).unwrap();
        let mut seen: Vec<String> = answers(scratch.path(), 1)
            .map(|answer| match answer {
                Answer::File { name, bytes } => format!("{name} {}", bytes.len()),
                Answer::Link { name, text } => format!("{name} -> {text}"),
                other => format!("{other:?}"),
            })
            .collect();
        seen.sort();
        let log = "torchrun-1/none_x/attempt_0/1/stdout.log";
        let wanted = [
            "device-node1-7.json 2",
            "device-node1-8.json.refused -> no room",
            &format!("{log} 1"),
            &format!("{log} 65536"),
        ];
        assert_eq!(seen, wanted);
    }
}
