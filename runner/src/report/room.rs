//! How much of each output fits into a report of limited size: fair shares, and both ends of a text.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use crate::record::event::Stream;

/// Stands for what is left out.
const GAP: &str = "\n[...]\n";

/// The most that each of these sizes may have such that all together fit into `room`: small ones stay whole, and the others
/// are equal.
pub fn share(mut sizes: Vec<usize>, mut room: usize) -> usize {
    sizes.sort_unstable();
    for (at, size) in sizes.iter().enumerate() {
        let each = room / (sizes.len() - at);
        if *size > each {
            return each;
        }
        room -= size;
    }
    usize::MAX
}

/// Both ends of a text of more than `limit` bytes.
pub fn ends(text: &str, limit: usize) -> Option<String> {
    if text.len() <= limit {
        return None;
    }
    let half = limit / 2;
    let (head, tail) = (text.floor_char_boundary(half), text.ceil_char_boundary(text.len() - half));
    Some(format!("{}{GAP}{}", &text[..head], &text[tail..]))
}

/// How many bytes of a stream there are to show, at most `limit`.
pub fn size(stream: &Stream, limit: usize) -> usize {
    match stream.head.len() + stream.tail.len() {
        // For a long run, the fold drops the text.
        0 if stream.file.is_some() => usize::try_from(stream.bytes).unwrap_or(usize::MAX).min(limit),
        known => known.min(limit),
    }
}

/// Both ends of a stream within `limit`, and whether something is left out.
pub fn of_stream(stream: &Stream, limit: usize) -> (String, bool) {
    let mut all = stream.head.clone();
    if !stream.tail.is_empty() {
        all.push_str(GAP);
        all.push_str(&stream.tail);
    }
    if all.is_empty() && stream.bytes > 0 {
        let read = stream.file.as_deref().and_then(|file| of_file(file, limit));
        return read.unwrap_or((String::new(), true));
    }
    match ends(&all, limit) {
        Some(short) => (short, true),
        None => (all, stream.truncated),
    }
}

/// Both ends of a file within `limit`, as text.
fn of_file(path: &Path, limit: usize) -> Option<(String, bool)> {
    let mut file = File::open(path).ok()?;
    let length = usize::try_from(file.metadata().ok()?.len()).ok()?;
    let mut read = |from: usize, most: usize| {
        file.seek(SeekFrom::Start(from as u64)).ok()?;
        let mut bytes = Vec::new();
        Read::by_ref(&mut file).take(most as u64).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    if length <= limit {
        return Some((read(0, limit)?, false));
    }
    let half = limit / 2;
    Some((format!("{}{GAP}{}", read(0, half)?, read(length - half, half)?), true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_ones_stay_whole_and_the_others_are_equal() {
        assert_eq!(share(vec![], 10), usize::MAX);
        assert_eq!(share(vec![3, 7], 10), usize::MAX);
        assert_eq!(share(vec![100, 2, 100], 10), 4);
        assert_eq!(share(vec![5, 5, 5], 0), 0);
    }

    #[test]
    fn text_that_was_let_go_is_in_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "first and last").unwrap();
        let stream = Stream { bytes: 14, truncated: true, file: Some(file.path().to_owned()), ..Stream::default() };
        assert_eq!(of_stream(&stream, 10), ("first\n[...]\n last".to_owned(), true));
        assert_eq!(of_stream(&stream, 14), ("first and last".to_owned(), false));
        assert_eq!(size(&stream, 10), 10);
        let gone = Stream { file: Some("/no/file".into()), ..stream };
        assert_eq!(of_stream(&gone, 10), (String::new(), true));
    }
}
