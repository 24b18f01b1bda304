//! What the ranks of a job sent when a preflight ran them one after the other (`FTEST_SENT`): one file per process, in which it
//! appends what it sends, for the ranks that are run after it. Entries have a name and a number, which sender and receiver count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use dataplane::lock::Mutex;
use protocol::skip::{LACKING, MOVED, STOPPED};

use crate::sanitizer::known::{self, Missing};
use crate::settings::{self, Sent};

/// Bytes of contents that one process records. What programs send so that others decide by it is little; anything more is noted, but
/// not kept.
const KEPT: usize = 256 << 20;

/// The length of an entry's name, its kind, and the length of its contents, little-endian.
const HEADER: usize = 4 + 1 + 4;

/// What an entry says of what was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Bytes(Arc<[u8]>),
    /// Nobody computed it.
    Unknown,
    /// It is more than is kept.
    Large,
    /// Sent twice under one name, with different contents.
    Ambiguous,
}

impl Content {
    fn kind(&self) -> u8 {
        match self {
            Self::Bytes(_) => 0,
            Self::Unknown => 1,
            Self::Large => 2,
            Self::Ambiguous => 3,
        }
    }

    fn from_kind(kind: u8, bytes: &[u8]) -> Option<Self> {
        Some(match kind {
            0 => Self::Bytes(bytes.into()),
            1 => Self::Unknown,
            2 => Self::Large,
            3 => Self::Ambiguous,
            _ => return None,
        })
    }
}

/// What is known of the ranks that were run before.
#[derive(Debug, Default)]
struct Earlier {
    ranks: BTreeSet<u32>,
    contents: BTreeMap<String, Content>,
    /// Where a rank was stopped before its end: the file that says that something is lacking which it may have come to send.
    lacking: Option<PathBuf>,
}

impl Earlier {
    fn read(directory: &Path) -> Self {
        let lacking = directory.join(STOPPED).exists().then(|| directory.join(LACKING));
        let mut earlier = Self { lacking, ..Self::default() };
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let rank = name.to_str().and_then(|name| name.split_once('-')?.0.parse().ok());
            let (Some(rank), Ok(bytes)) = (rank, fs::read(entry.path())) else { continue };
            earlier.ranks.insert(rank);
            earlier.add(&bytes);
        }
        earlier
    }

    /// Adds the entries of a file; the last may be cut off where its process was killed.
    fn add(&mut self, mut file: &[u8]) {
        while let Some((name, content, rest)) = entry(file) {
            file = rest;
            let first = self.contents.entry(name).or_insert_with(|| content.clone());
            if *first != content {
                *first = Content::Ambiguous;
            }
        }
    }

    fn find(&self, name: &str, sender: Option<u32>, bytes: Option<usize>) -> Result<Arc<[u8]>, Missing> {
        match self.contents.get(name) {
            Some(Content::Bytes(found)) if bytes.is_none_or(|bytes| bytes == found.len()) => Ok(Arc::clone(found)),
            Some(Content::Bytes(_) | Content::Ambiguous) => Err(Missing::Different),
            Some(Content::Unknown) => Err(Missing::Unknown),
            Some(Content::Large) => Err(Missing::Large),
            None if sender.is_some_and(|sender| self.ranks.contains(&sender)) => Err(Missing::Unsent),
            None => Err(Missing::NotRun),
        }
    }
}

fn entry(file: &[u8]) -> Option<(String, Content, &[u8])> {
    let (header, rest) = file.split_at_checked(HEADER)?;
    let number = |bytes: &[u8]| bytes.try_into().map(u32::from_le_bytes).map(|number| number as usize).ok();
    let (name, rest) = rest.split_at_checked(number(&header[..4])?)?;
    let (bytes, rest) = rest.split_at_checked(number(&header[5..])?)?;
    Some((String::from_utf8(name.to_vec()).ok()?, Content::from_kind(header[4], bytes)?, rest))
}

fn encoded(name: &str, content: &Content) -> Vec<u8> {
    let bytes: &[u8] = if let Content::Bytes(bytes) = content { bytes } else { &[] };
    let mut entry = (name.len() as u32).to_le_bytes().to_vec();
    entry.push(content.kind());
    entry.extend((bytes.len() as u32).to_le_bytes());
    entry.extend(name.as_bytes());
    entry.extend(bytes);
    entry
}

/// This process's part of the record.
struct Record {
    earlier: Earlier,
    own: Mutex<Own>,
    /// How often each name was used.
    numbers: Mutex<BTreeMap<String, u64>>,
}

struct Own {
    file: Option<File>,
    kept: usize,
}

/// The record; `None` if there is none to keep.
fn record() -> Option<&'static Record> {
    static RECORD: OnceLock<Option<Record>> = OnceLock::new();
    let open = || {
        let Sent { directory, one_of: (rank, _) } =
            settings::get().ok()?.sent.as_ref().filter(|_| known::is_wanted())?;
        let earlier = Earlier::read(directory);
        // A rank that cannot record is one that was not run, as far as the others can tell.
        let file = File::create(directory.join(format!("{rank}-{}", std::process::id()))).ok();
        Some(Record { earlier, own: Mutex::new(Own { file, kept: 0 }), numbers: Mutex::default() })
    };
    RECORD.get_or_init(open).as_ref()
}

/// Whether anything is recorded.
pub(super) fn is_wanted() -> bool {
    record().is_some()
}

/// `name` with the number of its use in this process, from 0: senders and receivers make the same calls in the same order.
pub(super) fn numbered(name: &str) -> String {
    let Some(record) = record() else { return name.to_owned() };
    let mut numbers = record.numbers.lock();
    let number = numbers.entry(name.to_owned()).or_default();
    *number += 1;
    format!("{name} {}", *number - 1)
}

/// Records that this rank sends `content` under `name`.
pub(super) fn write(name: &str, content: Content) {
    let Some(record) = record() else { return };
    let mut own = record.own.lock();
    let content = match content {
        Content::Bytes(bytes) if bytes.len() > MOVED || own.kept + bytes.len() > KEPT => Content::Large,
        content => content,
    };
    if let Content::Bytes(bytes) = &content {
        own.kept += bytes.len();
    }
    let is_written = own.file.as_mut().is_none_or(|file| file.write_all(&encoded(name, &content)).is_ok());
    if !is_written {
        // What follows a part of an entry could not be read.
        own.file = None;
    }
}

/// What `sender`, a rank of the job where it is known, sent under `name`, if it has `bytes`.
///
/// # Errors
/// Why it is not known.
pub(super) fn find(name: &str, sender: Option<u32>, bytes: Option<usize>) -> Result<Arc<[u8]>, Missing> {
    let found = record().map_or(Err(Missing::NotRun), |record| record.earlier.find(name, sender, bytes));
    match found {
        Err(Missing::Unsent) => lacks(),
        // In a group whose ranks are not known; of what is in a store, many keys have nothing to say.
        Err(Missing::NotRun) if sender.is_none() && bytes.is_some() => lacks(),
        _ => {}
    }
    found
}

/// Notes that this rank lacks something, if a rank that was stopped before its end may have come to send it.
pub(super) fn lacks() {
    if let Some(path) = record().and_then(|record| record.earlier.lacking.as_ref()) {
        // Without the file, the report names what is lacking, as it does in any case.
        let _ = File::create(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_rank_sent_is_found_under_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let bytes = |bytes: &[u8]| Content::Bytes(bytes.into());
        let mut file: Vec<u8> = Vec::new();
        for (name, content) in [
            ("a 0", bytes(&[1, 2])),
            ("a 1", Content::Unknown),
            ("a 2", Content::Large),
            ("twice", bytes(&[1])),
            ("same", bytes(&[1])),
            ("twice", bytes(&[2])),
            ("same", bytes(&[1])),
            ("cut off", bytes(&[1])),
        ] {
            file.extend(encoded(name, &content));
        }
        file.pop();
        fs::write(directory.path().join("16-4711"), file).unwrap();
        let earlier = Earlier::read(directory.path());
        for (name, sender, length, found) in [
            ("a 0", Some(16), Some(2), Ok(&[1, 2][..])),
            ("a 0", None, None, Ok(&[1, 2])),
            ("a 0", Some(16), Some(3), Err(Missing::Different)),
            ("a 1", Some(16), Some(2), Err(Missing::Unknown)),
            ("a 2", Some(16), Some(2), Err(Missing::Large)),
            ("same", Some(16), None, Ok(&[1])),
            ("twice", Some(16), None, Err(Missing::Different)),
            ("cut off", Some(16), None, Err(Missing::Unsent)),
            ("a 3", Some(17), None, Err(Missing::NotRun)),
            ("a 3", None, None, Err(Missing::NotRun)),
        ] {
            assert_eq!(earlier.find(name, sender, length).as_deref(), found.as_ref().copied(), "{name} of {sender:?}");
        }
    }
}
