//! One stream of one process: always drained, written to a file, with both ends kept in memory, and watched for lines.

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::task::JoinHandle;

use super::show::{LINE, Shown};
use crate::check::search::Search;
use crate::execute::run::clock::{Instant, timeout_at};
use crate::observation::{Captured, WriteError};

/// Bytes kept from the beginning of a stream.
pub const HEAD: usize = 32 << 10;
/// Bytes kept from its end.
pub const TAIL: usize = 96 << 10;
/// Bytes written to the file; everything after is searched for the texts of checks and dropped, except for the tail in memory.
pub const FILE_LIMIT: u64 = 64 << 20;

/// Receives every line of a stream, without its newline.
pub type Lines = Box<dyn Fn(Vec<u8>) + Send>;

/// A stream being captured.
#[derive(Debug)]
pub struct Capture {
    kept: Arc<Mutex<Kept>>,
    task: JoinHandle<()>,
    path: PathBuf,
}

#[derive(Debug, Default)]
struct Kept {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    bytes: u64,
    searches: Vec<Search>,
    write_error: Option<WriteError>,
}

impl Kept {
    /// Looks for `texts` in the stream.
    fn new(texts: &BTreeSet<String>) -> Kept {
        Kept { searches: texts.iter().map(|text| Search::new(text)).collect(), ..Kept::default() }
    }

    fn push(&mut self, mut chunk: &[u8]) {
        self.bytes += chunk.len() as u64;
        self.searches.iter_mut().for_each(|search| search.push(chunk));
        let room = (HEAD - self.head.len()).min(chunk.len());
        self.head.extend_from_slice(&chunk[..room]);
        chunk = &chunk[room..];
        if chunk.len() > TAIL {
            chunk = &chunk[chunk.len() - TAIL..];
        }
        let surplus = (self.tail.len() + chunk.len()).saturating_sub(TAIL);
        self.tail.drain(..surplus);
        self.tail.extend(chunk);
    }

    fn captured(&self, path: &Path) -> Captured {
        let (mut head, mut tail) = (self.head.clone(), self.tail.iter().copied().collect::<Vec<_>>());
        let truncated = self.bytes > (HEAD + TAIL) as u64;
        if !truncated {
            head.append(&mut tail);
        }
        let searched = self
            .searches
            .iter()
            .map(|search| (String::from_utf8_lossy(search.text()).into_owned(), search.found()))
            .collect();
        let write_error = self.write_error.clone();
        Captured { path: path.to_owned(), bytes: self.bytes, head, tail, truncated, searched, write_error }
    }
}

impl Capture {
    /// Starts draining `stream` into `path`, a file that is created when there is something to write. All of it is searched
    /// for `texts`, every line also goes to `lines`, and everything to `shown`.
    pub fn start(
        stream: impl AsyncRead + Send + Unpin + 'static,
        path: PathBuf,
        texts: &BTreeSet<String>,
        lines: Option<Lines>,
        shown: Option<Shown>,
    ) -> Capture {
        let kept = Arc::new(Mutex::new(Kept::new(texts)));
        let task = tokio::spawn(drain(stream, path.clone(), Arc::clone(&kept), lines, shown));
        Capture { kept, task, path }
    }

    /// Waits for the end of the stream, at most until `deadline`, and returns whether it came. If so, every line has been passed
    /// on.
    pub async fn ended(&mut self, deadline: Instant) -> bool {
        self.task.is_finished() || timeout_at(deadline, &mut self.task).await.is_ok()
    }

    /// Waits for the end of the stream, at most until `deadline`, then closes it. The flag tells whether it ended.
    pub async fn finish(mut self, deadline: Instant) -> (Captured, bool) {
        let ended = self.ended(deadline).await;
        if !ended {
            self.task.abort();
        }
        (self.kept.lock().captured(&self.path), ended)
    }
}

async fn drain(
    mut stream: impl AsyncRead + Unpin,
    path: PathBuf,
    kept: Arc<Mutex<Kept>>,
    lines: Option<Lines>,
    mut shown: Option<Shown>,
) {
    // Not allocated in advance: most programs write little.
    let mut chunk = Vec::with_capacity(64 << 10);
    let mut line = Vec::new();
    let (mut file, mut written) = (None, 0u64);
    loop {
        chunk.clear();
        let bytes = match stream.read_buf(&mut chunk).await {
            Ok(0) | Err(_) => break,
            Ok(count) => &chunk[..count],
        };
        {
            let mut kept = kept.lock();
            kept.push(bytes);
            // A full disk must not block the rank: memory still has both ends. The file holds the beginning without holes,
            // so nothing is written after an error.
            if kept.write_error.is_none() && written < FILE_LIMIT {
                let part = &bytes[..bytes.len().min((FILE_LIMIT - written) as usize)];
                match write(&mut file, &path, part) {
                    Ok(()) => written += part.len() as u64,
                    Err(error) => {
                        let message = format!("{}: {error}", path.display());
                        kept.write_error = Some(WriteError { kind: error.kind(), message });
                    }
                }
            }
        }
        if let Some(shown) = &mut shown {
            shown.write(bytes);
        }
        if let Some(lines) = &lines {
            for byte in bytes {
                if *byte == b'\n' || line.len() >= LINE {
                    lines(std::mem::take(&mut line));
                }
                if *byte != b'\n' {
                    line.push(*byte);
                }
            }
        }
    }
    if let Some(shown) = &mut shown {
        shown.end();
    }
    if let Some(lines) = lines.filter(|_| !line.is_empty()) {
        lines(line);
    }
}

/// Creates the file when there is something to write.
fn write(file: &mut Option<File>, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = match file {
        Some(file) => file,
        None => file.insert(File::create(path)?),
    };
    file.write_all(bytes)
}

/// A stream that another process wrote to `path`; empty if there is no such file.
pub fn from_file(path: &Path) -> Captured {
    let read = || -> io::Result<Captured> {
        let mut file = File::open(path)?;
        let bytes = file.metadata()?.len();
        let mut head = Vec::new();
        if bytes <= (HEAD + TAIL) as u64 {
            file.read_to_end(&mut head)?;
            return Ok(Captured { path: path.to_owned(), bytes, head, ..Captured::default() });
        }
        Read::by_ref(&mut file).take(HEAD as u64).read_to_end(&mut head)?;
        file.seek(SeekFrom::Start(bytes - TAIL as u64))?;
        let mut tail = Vec::new();
        file.take(TAIL as u64).read_to_end(&mut tail)?;
        Ok(Captured { path: path.to_owned(), bytes, head, tail, truncated: true, ..Captured::default() })
    };
    read().unwrap_or_else(|_| Captured { path: path.to_owned(), ..Captured::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_kept_whatever_the_pieces() {
        let text: Vec<u8> = (0..300_000u32).map(|index| (index % 251) as u8).collect();
        for piece in [1, 7, 4096, 200_000] {
            let mut kept = Kept::default();
            text.chunks(piece).for_each(|chunk| kept.push(chunk));
            let captured = kept.captured(Path::new("x"));
            assert_eq!(captured.head, text[..HEAD]);
            assert_eq!(captured.tail, text[text.len() - TAIL..]);
            assert_eq!((captured.bytes, captured.truncated), (300_000, true));
        }
    }

    #[test]
    fn a_stream_that_fits_is_all_head() {
        let mut kept = Kept::default();
        kept.push(&[b'a'; HEAD + TAIL]);
        let captured = kept.captured(Path::new("x"));
        assert_eq!((captured.head.len(), captured.tail.len(), captured.truncated), (HEAD + TAIL, 0, false));
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_written_is_reported_and_memory_keeps_everything() {
        let deadline = Instant::now() + std::time::Duration::from_secs(20);
        let texts = BTreeSet::from(["b c".to_owned(), "x".to_owned()]);
        for (path, why) in [("/nonexistent/x", "No such file or directory"), ("/dev/full", "No space left on device")] {
            let capture = Capture::start(&b"a b c"[..], path.into(), &texts, None, None);
            let (captured, ended) = capture.finish(deadline).await;
            assert_eq!((captured.head.as_slice(), ended), (&b"a b c"[..], true));
            assert_eq!(captured.searched, [("b c".to_owned(), Some(2)), ("x".to_owned(), None)].into());
            let error = captured.write_error.unwrap().message;
            assert!(error.starts_with(&format!("{path}: {why}")), "{error}");
        }
    }

    #[test]
    fn a_file_gives_the_same_ends() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = vec![b'z'; HEAD + TAIL + 1];
        std::fs::write(file.path(), &text).unwrap();
        let captured = from_file(file.path());
        assert_eq!((captured.head.len(), captured.tail.len(), captured.truncated), (HEAD, TAIL, true));
        assert_eq!(from_file(Path::new("/nonexistent/x")).bytes, 0);
    }
}
