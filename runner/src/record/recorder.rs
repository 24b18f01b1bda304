//! Between the run and its reports: every event is masked, bounded and written to the log before anybody sees it.

use super::store::Store;
use crate::host::secrets::Secrets;
use crate::record::event::{Attempt, Event, Stream};
use crate::verdict::Verdict;

/// Text of the streams of an attempt that passed, bytes.
const PASSED: usize = 16 << 10;
/// Text of the streams of any other attempt.
const OTHER: usize = 1 << 20;
/// An attempt has at most one part in this many of the room that is left.
const ATTEMPTS: usize = 32;
/// Text of one stream: at most and, however many there are, at least.
const STREAM: (usize, usize) = (64 << 10, 1 << 10);

/// Writes the log.
#[derive(Debug)]
pub struct Recorder {
    store: Option<Store>,
    secrets: Secrets,
    /// Bytes of output that still fit into the log.
    room: usize,
}

impl Recorder {
    /// A recorder into `store`; without one it only masks and bounds.
    pub fn new(store: Option<Store>, secrets: Secrets) -> Recorder {
        Recorder { store, secrets, room: usize::MAX }
    }

    /// The same, but all output that it records has about `bytes` at most: the more of it there is, the less of each attempt.
    pub fn within(self, bytes: u64) -> Recorder {
        Recorder { room: usize::try_from(bytes).unwrap_or(usize::MAX), ..self }
    }

    /// Writes `event` and returns it as written. A log that cannot be written is given up, with a message on stderr.
    pub fn record(&mut self, event: Event) -> Event {
        let mut event = self.secrets.mask(event);
        if let Event::AttemptFinished { attempt, .. } = &mut event {
            self.room = self.room.saturating_sub(bound(attempt, self.room / ATTEMPTS));
        }
        if let Some(store) = &mut self.store {
            let line = serde_json::to_string(&event).map_err(std::io::Error::from);
            if let Err(error) = line.and_then(|line| store.append(line)) {
                eprintln!("ftest: the log of the run ends here: {}: {error}", store.directory().display());
                store.give_up_log();
            }
        }
        event
    }
}

/// Cuts the streams to what a report shows, or `most` bytes; the files have the rest. Returns how many bytes are left.
fn bound(attempt: &mut Attempt, most: usize) -> usize {
    let total = if attempt.verdict == Verdict::Passed { PASSED } else { OTHER }.min(most);
    let mut streams: Vec<&mut Stream> =
        attempt.processes.iter_mut().flat_map(|process| [&mut process.stdout, &mut process.stderr]).collect();
    streams.retain(|stream| stream.bytes > 0);
    let limit = (total / streams.len().max(1)).clamp(STREAM.1, STREAM.0);
    streams.into_iter().map(|stream| cut(stream, limit)).sum()
}

/// Keeps the first quarter of `limit` bytes and the last three: the end shows why it ended. Returns how many it has then.
fn cut(stream: &mut Stream, limit: usize) -> usize {
    let length = stream.head.len() + stream.tail.len();
    if length <= limit {
        return length;
    }
    let end = if stream.tail.is_empty() { &stream.head } else { &stream.tail };
    let from = end.ceil_char_boundary(end.len().saturating_sub(limit - limit / 4));
    let tail = end[from..].to_owned();
    stream.tail = tail;
    let head = stream.head.floor_char_boundary(limit / 4);
    stream.head.truncate(head);
    stream.truncated = true;
    stream.head.len() + stream.tail.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{Exit, Hang, Role};
    use crate::record::event::{Process, RunInfo};
    use crate::record::{Runs, store};

    #[test]
    fn streams_keep_both_ends_within_the_limit() {
        let text: String = (0..40_000).map(|number| format!("line {number} ä\n")).collect();
        let stream = |head: &str| Stream { bytes: head.len() as u64, head: head.to_owned(), ..Stream::default() };
        for (verdict, ranks, most) in
            [(Verdict::Failed, 2, OTHER), (Verdict::Passed, 8, PASSED), (Verdict::Failed, 64, OTHER)]
        {
            let process = |rank| {
                let (stdout, stderr) = (stream(&text), stream(""));
                Process { role: Role::Rank(rank), exit: Exit::Code(0), ended: false, stdout, stderr }
            };
            let processes = (0..ranks).map(process).collect();
            let mut attempt = Attempt { verdict, processes, ..Attempt::default() };
            bound(&mut attempt, usize::MAX);
            let kept = |process: &Process| process.stdout.head.len() + process.stdout.tail.len();
            let all: usize = attempt.processes.iter().map(kept).sum();
            assert!(all <= most && all > most / 16, "{all} of {most}");
            let stdout = &attempt.processes[0].stdout;
            assert!(stdout.truncated && stdout.head.starts_with("line 0 ä\n"));
            assert!(stdout.tail.ends_with("line 39999 ä\n"));
        }
    }

    #[test]
    fn a_run_without_room_for_its_log_keeps_its_directory() {
        let directory = tempfile::tempdir().unwrap();
        let runs = Runs::new(Some(directory.path()));
        let kept = runs.open("1-a", 1, u64::MAX).unwrap().without_room();
        let path = kept.directory().to_owned();
        let mut recorder = Recorder::new(Some(kept), Secrets::default());
        for number in 0..2 {
            recorder.record(Event::CaseStarted { case: "s/a".into(), at_ms: number });
        }
        drop(runs.open("2-b", 1, u64::MAX).unwrap());
        assert!(store::is_running(&path) && path.is_dir());
    }

    #[test]
    fn a_path_that_is_no_text_does_not_end_the_log() {
        use std::os::unix::ffi::OsStrExt;
        let strange = || std::path::PathBuf::from(std::ffi::OsStr::from_bytes(b"/data/\xff"));
        let directory = tempfile::tempdir().unwrap();
        let kept = Runs::new(Some(directory.path())).open("1-a", 1, u64::MAX).unwrap();
        let path = kept.directory().to_owned();
        let mut recorder = Recorder::new(Some(kept), Secrets::default());
        let place = crate::source::SourceLocation { file: strange(), line: 1, column: 1 };
        let case = crate::record::event::CaseInfo { case: "s/a".into(), place, ..Default::default() };
        let info = RunInfo { directory: strange(), cases: vec![case], ..RunInfo::default() };
        recorder.record(Event::RunStarted(info));
        let hang = Hang { flight_record: Some(strange()), ..Hang::default() };
        let file = || Stream { file: Some(strange()), ..Stream::default() };
        let process =
            Process { role: Role::Rank(0), exit: Exit::Code(0), ended: false, stdout: file(), stderr: file() };
        let attempt = Attempt {
            processes: vec![process],
            hang: Some(Box::new(hang)),
            cluster_report: Some(strange()),
            device_reports: Some(strange()),
            kept: Some(strange()),
            ..Attempt::default()
        };
        recorder.record(Event::AttemptFinished { case: "s/a".into(), attempt });
        let run = store::read(&path).unwrap();
        assert_eq!(run.info.directory, std::path::Path::new("/data/\u{fffd}"));
        assert_eq!(run.cases[0].info.place.file, std::path::Path::new("/data/\u{fffd}"));
        assert_eq!(run.cases[0].attempts.len(), 1);
    }

    #[test]
    fn a_short_stream_stays() {
        let mut stream = Stream { bytes: 3, head: "abc".into(), ..Stream::default() };
        let whole = stream.clone();
        cut(&mut stream, 1024);
        assert_eq!(stream, whole);
    }
}
