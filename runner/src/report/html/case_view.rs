//! One case, as shown in its part of the page.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use serde::Serialize;

use crate::check::{Failure, FailureKind};
use crate::host::{docs, printable};
use crate::observation::{Exit, Gap, Role};
use crate::record::CaseRun;
use crate::record::event::{Attempt, Process, Stream};
use crate::report::chart::gpu_timeline::samples;
use crate::report::{cluster, words};
use crate::verdict::Verdict;

use super::cluster_view::{ClusterView, MOST_ROWS, ranks};
use super::relation_view::RelationsView;

/// Maximum characters of a stream: for the most informative process, for the others, and in a short view.
const LOG_LIMITS: [usize; 3] = [48 << 10, 12 << 10, 1 << 10];
/// Maximum number of attempts shown: the last ones.
const MOST_ATTEMPTS: usize = 5;
/// Maximum number of processes shown: the most informative ones.
const MOST_PROCESSES: usize = 64;

/// How much of a case is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// Everything.
    Full,
    /// No charts, and only the ends of logs.
    Short,
}

/// A case with everything that is shown about it.
#[derive(Debug, Serialize)]
pub(super) struct CaseView {
    index: usize,
    case: String,
    title: Option<String>,
    place: String,
    tags: Vec<String>,
    matrix: Vec<(String, String)>,
    world_size: Option<u32>,
    rerun: String,
    /// Failures of a policy, which are not in an attempt.
    failures: Vec<FailureView>,
    reason: Option<String>,
    started: Option<String>,
    limits: String,
    notes: Vec<String>,
    attempts: Vec<AttemptView>,
    left_out: usize,
    short: bool,
}

#[derive(Debug, Serialize)]
struct AttemptView {
    number: u32,
    verdict: &'static str,
    duration: String,
    /// It explains most.
    open: bool,
    slow: bool,
    failures: Vec<FailureView>,
    /// Exits that follow from one of those.
    follows: Vec<FailureView>,
    python: Option<String>,
    hang: Option<HangView>,
    relations: Option<RelationsView>,
    notes: Vec<String>,
    gaps: Vec<GapView>,
    /// Which processes ended how, and whether that is bad.
    exits: Vec<(String, String, bool)>,
    processes: Vec<ProcessView>,
    processes_left_out: usize,
    cluster: Option<ClusterView>,
    /// Why there is no cluster view even though there is a report.
    cluster_error: Option<String>,
    files: Vec<(&'static str, String)>,
}

/// A check that did not hold.
#[derive(Debug, Serialize)]
pub(super) struct FailureView {
    kind: String,
    place: Option<String>,
    expected: String,
    got: Vec<(&'static str, String)>,
    next: String,
    /// Sections of the page about findings that `next` cites.
    about: Vec<String>,
}

#[derive(Debug, Serialize)]
struct HangView {
    /// None if a failure tells it.
    sentence: Option<String>,
    details: Vec<String>,
    flight_record: Option<String>,
}

/// A gap, as a row of a table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct GapView {
    /// `library.name`.
    pub(super) name: String,
    /// The detail that distinguishes uses of one name.
    pub(super) detail: String,
    /// The rank that used it.
    pub(super) rank: Option<u32>,
    /// Number of uses.
    pub(super) count: u64,
}

#[derive(Debug, Serialize)]
struct ProcessView {
    role: String,
    exit: String,
    bad: bool,
    open: bool,
    size: String,
    streams: Vec<StreamView>,
}

#[derive(Debug, Serialize)]
struct StreamView {
    name: &'static str,
    text: String,
    cut: Option<String>,
}

impl CaseView {
    /// The view of a case.
    pub(super) fn new(index: usize, case: &CaseRun, depth: Depth) -> CaseView {
        let info = &case.info;
        let value = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let shown_number = case.shown().map(|attempt| attempt.number);
        let first = case.attempts.len().saturating_sub(MOST_ATTEMPTS);
        let attempts: Vec<&Attempt> = (case.attempts.iter().enumerate())
            .filter(|(at, attempt)| *at >= first || Some(attempt.number) == shown_number)
            .map(|(_, attempt)| attempt)
            .collect();
        CaseView {
            index,
            case: info.case.clone(),
            title: info.title.clone(),
            place: info.place.to_string(),
            tags: info.tags.clone(),
            matrix: info.matrix.iter().map(|(name, of)| (name.clone(), value(of))).collect(),
            world_size: info.world_size,
            rerun: words::rerun(case),
            failures: case.policy_failures().iter().map(FailureView::new).collect(),
            reason: super::reason(case),
            started: case.started_ms.map(words::date),
            limits: format!(
                "slow after {}, ended after {}",
                words::time(info.slow_us as f64),
                words::time(info.kill_us as f64)
            ),
            notes: case.notes().to_vec(),
            left_out: case.attempts.len() - attempts.len(),
            attempts: attempts
                .into_iter()
                .map(|attempt| {
                    let id = format!("c{index}a{}", attempt.number);
                    AttemptView::new(attempt, &id, depth, Some(attempt.number) == shown_number)
                })
                .collect(),
            short: depth == Depth::Short,
        }
    }
}

impl AttemptView {
    fn new(attempt: &Attempt, id: &str, depth: Depth, open: bool) -> AttemptView {
        let bad = |exit: &Exit| !matches!(exit, Exit::Code(0));
        let mut order: Vec<&Process> = attempt.processes.iter().collect();
        order.sort_by_key(|process| (attempt.culprit != Some(process.role), !bad(&process.exit), process.role));
        let failed = !attempt.verdict.is_neutral();
        let charts = depth == Depth::Full && (open || attempt.verdict == Verdict::Passed);
        let (cluster, cluster_error) = match charts.then(|| cluster::read(attempt)).flatten() {
            None => (None, None),
            Some(Ok(report)) => {
                let devices = attempt.device_reports.as_deref().filter(|_| report.time.is_some());
                let samples = devices.map(samples).unwrap_or_default();
                (Some(ClusterView::new(&report, &samples, id)), None)
            }
            Some(Err(error)) => (None, Some(error)),
        };
        let file = |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let files = [
            ("cluster report", file(&attempt.cluster_report)),
            ("device reports", file(&attempt.device_reports)),
            ("scratch directory", file(&attempt.kept)),
        ];
        // Only where something else is found first: an exit may be all there is.
        let cause = |failure: &Failure| matches!(failure.kind, FailureKind::Hang | FailureKind::Finding);
        let caused = attempt.failures.iter().any(cause);
        let (follows, first): (Vec<&Failure>, Vec<&Failure>) =
            attempt.failures.iter().partition(|failure| caused && failure.kind == FailureKind::Exit);
        let told = attempt.failures.iter().any(|failure| failure.kind == FailureKind::Hang);
        AttemptView {
            number: attempt.number,
            verdict: attempt.verdict.word(),
            duration: words::time(attempt.duration_us as f64),
            open,
            slow: attempt.slow,
            failures: first.into_iter().map(FailureView::new).collect(),
            follows: follows.into_iter().map(FailureView::new).collect(),
            python: attempt.python.as_ref().map(ToString::to_string),
            hang: attempt.hang.as_ref().map(|hang| HangView {
                sentence: (!told).then(|| hang.story()),
                details: hang.details.clone(),
                flight_record: hang.flight_record.as_ref().map(|path| path.display().to_string()),
            }),
            relations: RelationsView::new(attempt, id, depth == Depth::Full),
            notes: attempt.notes.clone(),
            gaps: attempt.gaps.iter().take(MOST_ROWS).map(GapView::new).collect(),
            exits: exits(attempt),
            processes: order
                .iter()
                .take(MOST_PROCESSES)
                .enumerate()
                .map(|(at, process)| ProcessView::new(process, at == 0 && failed, depth))
                .collect(),
            processes_left_out: order.len().saturating_sub(MOST_PROCESSES),
            cluster,
            cluster_error,
            files: files.into_iter().filter_map(|(name, path)| Some((name, path?))).collect(),
        }
    }
}

/// Processes that ended alike, together: `ranks 0-3`, `SIGKILL`.
fn exits(attempt: &Attempt) -> Vec<(String, String, bool)> {
    let mut groups: Vec<(&str, String, bool, Vec<u32>)> = Vec::new();
    for process in &attempt.processes {
        let (what, number) = match process.role {
            Role::Rank(rank) => ("rank", Some(rank)),
            Role::Launcher(node) => ("launcher", Some(node)),
            Role::Srun => ("srun", None),
            Role::Coordinator => ("coordinator", None),
        };
        let (how, bad) = (process.how(), !matches!(process.exit, Exit::Code(0)) && !process.ended);
        match groups.iter_mut().find(|group| (group.0, &group.1, group.2) == (what, &how, bad)) {
            Some((.., numbers)) => numbers.extend(number),
            None => groups.push((what, how, bad, number.into_iter().collect())),
        }
    }
    let who = |what: &str, numbers: &[u32]| match numbers {
        [] => what.to_owned(),
        [one] => format!("{what} {one}"),
        several => format!("{what}s {}", ranks(several.iter().copied())),
    };
    groups.into_iter().map(|(what, how, bad, numbers)| (who(what, &numbers), how, bad)).collect()
}

impl FailureView {
    pub(super) fn new(failure: &Failure) -> FailureView {
        let is_diff = failure.got.lines().any(|line| line.starts_with("@@ "));
        let class = |line: &str| match line.chars().next() {
            Some('+') if is_diff => "add",
            Some('-') if is_diff => "del",
            Some('@') if is_diff => "hunk",
            _ => "",
        };
        FailureView {
            kind: failure.kind.to_string(),
            place: failure.place.as_ref().map(ToString::to_string),
            expected: failure.expected.clone(),
            got: printable::visible(&failure.got).lines().map(|line| (class(line), line.to_owned())).collect(),
            next: failure.next.clone(),
            about: docs::cited(&failure.next).map(|(name, _)| name.to_owned()).collect(),
        }
    }
}

impl GapView {
    pub(super) fn new(gap: &Gap) -> GapView {
        GapView {
            name: format!("{}.{}", gap.library, gap.name),
            detail: gap.detail.clone(),
            rank: gap.rank,
            count: gap.count,
        }
    }
}

impl ProcessView {
    fn new(process: &Process, open: bool, depth: Depth) -> ProcessView {
        let limit = match (depth, open) {
            (Depth::Full, true) => LOG_LIMITS[0],
            (Depth::Full, false) => LOG_LIMITS[1],
            (Depth::Short, _) => LOG_LIMITS[2],
        };
        let streams = [("stderr", &process.stderr), ("stdout", &process.stdout)];
        let sizes: Vec<String> = streams
            .iter()
            .filter(|(_, stream)| stream.bytes > 0)
            .map(|(name, stream)| format!("{name} {}", words::bytes(stream.bytes)))
            .collect();
        ProcessView {
            role: process.role.to_string(),
            exit: process.how(),
            bad: !matches!(process.exit, Exit::Code(0)) && process.role != Role::Coordinator && !process.ended,
            open,
            size: if sizes.is_empty() { "no output".to_owned() } else { sizes.join(", ") },
            streams: streams
                .into_iter()
                .filter(|(_, stream)| stream.bytes > 0)
                .map(|(name, stream)| StreamView::new(name, stream, limit))
                .collect(),
        }
    }
}

impl StreamView {
    fn new(name: &'static str, stream: &Stream, limit: usize) -> StreamView {
        let mut text = printable::lines(&stream.head);
        if !stream.tail.is_empty() {
            text = format!("{}\n[...]\n{}", text.trim_end_matches('\n'), printable::lines(&stream.tail));
        } else if text.is_empty() {
            // For a long run, the fold drops the text.
            text = stream.file.as_ref().and_then(|file| end_of(file, limit)).unwrap_or_default();
        }
        let shortened = ends(&text, limit);
        let cut = (stream.truncated || shortened.is_some()).then(|| match &stream.file {
            Some(file) if stream.kept.is_none() => {
                format!("{} holds all {}", file.display(), words::bytes(stream.bytes))
            }
            Some(file) => format!("{} holds both ends of {}", file.display(), words::bytes(stream.bytes)),
            None => format!("the stream had {}", words::bytes(stream.bytes)),
        });
        StreamView { name, text: shortened.unwrap_or(text), cut }
    }
}

/// The last `limit` bytes of a file, as text.
fn end_of(file: &Path, limit: usize) -> Option<String> {
    let mut file = std::fs::File::open(file).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(limit as u64))).ok()?;
    let mut bytes = Vec::new();
    file.take(limit as u64).read_to_end(&mut bytes).ok()?;
    Some(printable::lines(&String::from_utf8_lossy(&bytes)))
}

/// A quarter of `limit` from the beginning of the text and the rest from its end, in whole lines if possible.
fn ends(text: &str, limit: usize) -> Option<String> {
    if text.len() <= limit {
        return None;
    }
    let head = &text[..text.floor_char_boundary(limit / 4)];
    let tail = &text[text.ceil_char_boundary(text.len() - (limit - limit / 4))..];
    let head = head.rfind('\n').map_or(head, |end| &head[..end]);
    let tail = tail.find('\n').map_or(tail, |begin| &tail[begin + 1..]);
    Some(format!("{head}\n[...]\n{tail}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::FailureKind;
    use crate::observation::Hang;
    use crate::record::event::Event;
    use crate::report::html::tests::{finished, run};
    use crate::report::html::{Limits, page};
    use crate::verdict::Verdict;

    #[test]
    fn what_a_failure_cites_is_on_the_page() {
        let [mut attempt, end] = finished("s/a", Verdict::Failed, 5);
        let next = "look there (`ftest docs findings#same_order`)".to_owned();
        let (expected, got) = (String::new(), String::new());
        if let Event::AttemptFinished { attempt, .. } = &mut attempt {
            attempt.failures.push(Failure { kind: FailureKind::Finding, expected, got, next, place: None });
        }
        let text = page(&run(&[[attempt, end]]), None, Limits::default()).unwrap();
        assert!(text.contains("<h3 id=\"about-same_order\">same_order</h3><pre>### same_order"), "{text}");
    }

    #[test]
    fn long_output_keeps_its_end() {
        let text: String = (0..1000).map(|line| format!("line {line}\n")).collect();
        let short = ends(&text, 400).unwrap();
        assert!(short.len() <= 410 && short.starts_with("line 0\n") && short.ends_with("line 999\n"), "{short}");
        assert!(short.contains("\n[...]\n"));
        assert_eq!(ends("short", 400), None);
        // One line without a newline, of multi-byte characters.
        assert!(ends(&"ü".repeat(1000), 100).is_some());
    }

    #[test]
    fn text_that_was_let_go_is_in_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "first\nlast\n").unwrap();
        let stream = Stream { bytes: 11, truncated: true, file: Some(file.path().to_owned()), ..Stream::default() };
        assert_eq!(StreamView::new("stdout", &stream, 5).text, "last\n");
    }

    fn ended(role: Role, exit: Exit, ended: bool) -> Process {
        Process { role, exit, ended, stdout: Stream::default(), stderr: Stream::default() }
    }

    #[test]
    fn processes_that_ended_alike_are_one_entry_and_those_that_ftest_ended_are_not_bad() {
        let mut processes: Vec<Process> = (0..4).map(|rank| ended(Role::Rank(rank), Exit::Unknown, true)).collect();
        processes.push(ended(Role::Rank(4), Exit::Unknown, false));
        processes.extend([0, 1].map(|node| ended(Role::Launcher(node), Exit::Code(1), true)));
        processes.push(ended(Role::Coordinator, Exit::Code(0), false));
        let attempt = Attempt { processes, ..Attempt::default() };
        let exits = exits(&attempt);
        let exits: Vec<(&str, &str, bool)> = exits.iter().map(|(who, how, bad)| (&**who, &**how, *bad)).collect();
        assert_eq!(
            exits,
            [
                ("ranks 0-3", "ended by ftest", false),
                ("rank 4", "ended in an unknown way", true),
                ("launchers 0-1", "code 1", false),
                ("coordinator", "code 0", false)
            ]
        );
    }

    #[test]
    fn a_hang_is_told_once_and_exits_follow_from_it() {
        let failure = |kind: FailureKind| Failure { kind, ..Failure::default() };
        let hang = Hang { sentence: "rank 0 waits".into(), details: vec!["rank 0: python".into()], ..Hang::default() };
        let of = |failures: Vec<Failure>| {
            let attempt = Attempt { failures, hang: Some(Box::new(hang.clone())), ..Attempt::default() };
            let view = AttemptView::new(&attempt, "a", Depth::Full, true);
            (view.failures.len(), view.follows.len(), view.hang.unwrap().sentence)
        };
        assert_eq!(
            of(vec![failure(FailureKind::Hang), failure(FailureKind::Exit), failure(FailureKind::Exit)]),
            (1, 2, None)
        );
        assert_eq!(
            of(vec![failure(FailureKind::Stdout), failure(FailureKind::Exit)]),
            (2, 0, Some("rank 0 waits".into()))
        );
        assert_eq!(of(vec![failure(FailureKind::Exit), failure(FailureKind::Finding)]).1, 1);
    }

    #[test]
    fn lines_of_a_difference_have_their_classes() {
        let failure = |got: &str| Failure { got: got.to_owned(), ..Failure::default() };
        let classes =
            |got: &str| FailureView::new(&failure(got)).got.iter().map(|(class, _)| *class).collect::<Vec<_>>();
        assert_eq!(classes("--- accepted\n+++ new\n@@ -1 +1 @@\n-a\n+b\n c"), ["del", "add", "hunk", "del", "add", ""]);
        assert_eq!(classes("-1 is not +1"), [""]);
    }
}
