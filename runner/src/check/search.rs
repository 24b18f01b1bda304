//! Searches a stream of any length for a text, piece by piece.

use std::io::{self, Read};

use memchr::memmem::Finder;

/// Bytes read at a time from a file.
const BLOCK: usize = 1 << 20;

/// Looks for one text.
#[derive(Clone, Debug)]
pub struct Search {
    finder: Finder<'static>,
    /// The end of the input so far, where a match may have begun: one byte shorter than the text.
    end: Vec<u8>,
    seen: u64,
    found: Option<u64>,
}

impl Search {
    /// A search that has read nothing yet.
    pub fn new(text: &str) -> Search {
        let found = text.is_empty().then_some(0);
        Search { finder: Finder::new(text.as_bytes()).into_owned(), end: Vec::new(), seen: 0, found }
    }

    /// The text.
    pub fn text(&self) -> &[u8] {
        self.finder.needle()
    }

    /// Byte offset of the first match in the input so far.
    pub fn found(&self) -> Option<u64> {
        self.found
    }

    /// The next piece of the stream.
    pub fn push(&mut self, piece: &[u8]) {
        if self.found.is_some() {
            return;
        }
        let keep = self.text().len() - 1;
        let begins = self.seen - self.end.len() as u64;
        self.seen += piece.len() as u64;
        let old = self.end.len();
        self.end.extend_from_slice(&piece[..keep.min(piece.len())]);
        self.found = match self.finder.find(&self.end) {
            Some(at) => Some(begins + at as u64),
            None => self.finder.find(piece).map(|at| begins + (old + at) as u64),
        };
        if piece.len() > keep {
            self.end.clear();
            self.end.extend_from_slice(&piece[piece.len() - keep..]);
        } else {
            self.end.drain(..self.end.len().saturating_sub(keep));
        }
    }

    /// Reads `reader` up to the first match; returns the number of bytes read.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(&mut self, mut reader: impl Read) -> io::Result<u64> {
        let (mut block, mut bytes) = (vec![0; BLOCK], 0);
        while self.found.is_none() {
            match reader.read(&mut block) {
                Ok(0) => break,
                Ok(count) => {
                    self.push(&block[..count]);
                    bytes += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_place_is_found_however_the_stream_is_cut() {
        let stream = b"aab aaab ab\naaaab";
        for text in ["a", "ab", "aab", "aaab", "b\naaaa", "aaaab", "aaaaab", "x", "aab aaab ab\naaaab", ""] {
            let expected = (0..=stream.len()).find(|at| stream[*at..].starts_with(text.as_bytes()));
            for size in 1..=stream.len() {
                let mut search = Search::new(text);
                stream.chunks(size).for_each(|piece| search.push(piece));
                assert_eq!(search.found(), expected.map(|at| at as u64), "{text:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn a_file_longer_than_a_block_is_read_to_its_end() {
        let mut stream = vec![b'.'; 3 * BLOCK];
        stream[2 * BLOCK - 2..2 * BLOCK + 3].copy_from_slice(b"spans");
        let mut search = Search::new("spans");
        search.read(&stream[..]).unwrap();
        assert_eq!(search.found(), Some(2 * BLOCK as u64 - 2));
        let mut search = Search::new("nowhere");
        assert_eq!(search.read(&stream[..]).unwrap(), 3 * BLOCK as u64);
        assert_eq!(search.found(), None);
    }
}
