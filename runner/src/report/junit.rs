//! JUnit XML for Jenkins, GitLab and the GitHub reporters. The file is whole after every finished case, so that a killed run leaves one too.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestSuite};

use crate::calendar::timestamp;
use crate::event::{CaseInfo, Event, Process, Stream, Verdict};
use crate::record::{CaseRun, Run};
use crate::report::xml_text::XmlText;
use crate::report::{exits, human};

/// Most bytes of one stream.
const STREAM_LIMIT: usize = 64 << 10;

/// Writes the file as the run goes on.
#[derive(Debug)]
pub struct JunitReport {
    path: PathBuf,
    /// By their place in the run.
    finished: BTreeMap<usize, TestCase>,
}

impl JunitReport {
    /// A report that goes to `path`.
    pub fn new(path: PathBuf) -> JunitReport {
        JunitReport { path, finished: BTreeMap::new() }
    }

    /// Writes the file where something changed; `run` has taken note of the event.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn on(&mut self, run: &Run, event: &Event) -> io::Result<()> {
        match event {
            Event::CaseFinished { case, .. } => {
                let Some(index) = run.position(case) else { return Ok(()) };
                self.finished.insert(index, test_case(&run.cases[index], run.not_run()));
            }
            Event::RunStarted(_) | Event::RunFinished { .. } => {}
            Event::Preparing { .. }
            | Event::CaseStarted { .. }
            | Event::AttemptFinished { .. }
            | Event::TeardownFailed { .. } => return Ok(()),
        }
        self.write(run)
    }

    /// The document as it stands.
    pub fn report(&self, run: &Run) -> Report {
        let mut report = Report::new("ftest");
        report.set_time(run.end.map_or(Duration::ZERO, |end| Duration::from_micros(end.duration_us)));
        let mut suites: Vec<(&str, TestSuite, Duration)> = Vec::new();
        for (index, case) in run.cases.iter().enumerate() {
            let name = case.info.suite.as_str();
            let position = suites.iter().position(|(known, _, _)| *known == name).unwrap_or_else(|| {
                suites.push((name, suite(run, &case.info), Duration::ZERO));
                suites.len() - 1
            });
            let (_, suite, time) = &mut suites[position];
            let test = self.finished.get(&index).cloned().unwrap_or_else(|| test_case(case, run.not_run()));
            *time += test.time.unwrap_or_default();
            suite.add_test_case(test);
        }
        for (_, mut suite, time) in suites {
            suite.set_time(time);
            report.add_test_suite(suite);
        }
        report
    }

    fn write(&self, run: &Run) -> io::Result<()> {
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let text = self.report(run).to_string().map_err(io::Error::other)?;
        // A device or pipe (`/dev/stdout`) is written to; a rename would put a file in its place.
        if std::fs::metadata(&self.path).is_ok_and(|target| !target.is_file()) {
            return std::fs::write(&self.path, text);
        }
        std::fs::create_dir_all(parent)?;
        let mut file = tempfile::NamedTempFile::new_in(parent)?;
        file.write_all(text.as_bytes())?;
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        std::fs::set_permissions(file.path(), mode)?;
        file.persist(&self.path)?;
        Ok(())
    }
}

fn suite(run: &Run, first: &CaseInfo) -> TestSuite {
    let mut suite = TestSuite::new(XmlText::new(&first.suite));
    suite.extra.insert("file".into(), XmlText::new(&first.place.file.display().to_string()).into());
    suite.extra.insert("timestamp".into(), timestamp(UNIX_EPOCH + Duration::from_millis(run.info.at_ms)).into());
    suite.add_property(Property::new("ftest.version", XmlText::new(&run.info.ftest)));
    suite
}

fn named(info: &CaseInfo, status: TestCaseStatus) -> TestCase {
    let mut test = TestCase::new(XmlText::new(&info.id), status);
    let name = info.id.split('[').next().unwrap_or_default();
    test.set_classname(XmlText::new(&format!("ftest.{}.{name}", info.suite)));
    test.set_time(Duration::ZERO);
    test.extra.insert("file".into(), XmlText::new(&info.place.file.display().to_string()).into());
    test.extra.insert("line".into(), info.place.line.to_string().into());
    test
}

fn skipped(reason: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::skipped();
    status.set_message(one_line(reason)).set_description(XmlText::new(reason));
    status
}

/// The element of a case; `not_run` is why, where it has no verdict.
fn test_case(case: &CaseRun, not_run: &str) -> TestCase {
    let kind = match case.verdict() {
        None => return named(&case.info, skipped(not_run)),
        Some(Verdict::Skipped { reason }) => return named(&case.info, skipped(reason)),
        Some(Verdict::Xfailed { reason }) => {
            let mut status = skipped(reason);
            status.set_type("xfail");
            return named(&case.info, status);
        }
        Some(Verdict::Passed) => None,
        Some(Verdict::Failed) => Some((NonSuccessKind::Failure, "ftest.check")),
        Some(Verdict::Timeout) => Some((NonSuccessKind::Failure, "ftest.timeout")),
        Some(Verdict::Broken) => {
            let gap = case.failures().next().is_some_and(|failure| failure.kind == "gap");
            Some((NonSuccessKind::Error, if gap { "ftest.gap" } else { "ftest.infra" }))
        }
    };
    let status = match kind {
        None => TestCaseStatus::success(),
        Some((kind, name)) => {
            let mut status = TestCaseStatus::non_success(kind);
            let message = case.failures().next().map_or_else(
                || case.verdict().map_or("", Verdict::word).to_owned(),
                |failure| format!("{}: expected {}, got {}", failure.kind, failure.expected, failure.got),
            );
            status.set_message(one_line(&message)).set_type(name).set_description(XmlText::new(&human::details(case)));
            status
        }
    };
    let failed = kind.is_some();
    let mut test = named(&case.info, status);
    test.set_time(Duration::from_micros(case.duration_us()));
    for (name, value) in &case.info.matrix {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        test.add_property(Property::new(XmlText::new(&format!("matrix.{name}")), XmlText::new(&value)));
    }
    let Some(attempt) = case.shown() else { return test };
    if !attempt.processes.is_empty() {
        test.add_property(Property::new("exits", XmlText::new(&exits(attempt))));
    }
    if case.slow() {
        test.add_property(Property::new("slow", "true"));
    }
    if let Some(kept) = &attempt.kept {
        test.add_property(Property::new("scratch", XmlText::new(&kept.display().to_string())));
    }
    // Output of passed cases makes the file large and tells nobody anything.
    if failed {
        let out = streams(&attempt.processes, |process| &process.stdout);
        let err = streams(&attempt.processes, |process| &process.stderr);
        if !out.as_str().is_empty() {
            test.set_system_out(out);
        }
        if !err.as_str().is_empty() {
            test.set_system_err(err);
        }
    }
    test
}

fn streams(processes: &[Process], of: impl Fn(&Process) -> &Stream) -> XmlText {
    let mut text = String::new();
    for process in processes {
        let stream = of(process);
        if stream.bytes == 0 {
            continue;
        }
        let (shown, cut) = ends(stream);
        for line in shown.lines() {
            text.push_str(&format!("[{}] {line}\n", process.role));
        }
        if cut {
            let whole = stream.file.as_ref().map(|file| format!("; {} holds it", file.display())).unwrap_or_default();
            text.push_str(&format!("[{}] ... the stream has {} bytes{whole}\n", process.role, stream.bytes));
        }
    }
    XmlText::new(&text)
}

/// Head and tail of a stream within the limit, and whether something is left out.
fn ends(stream: &Stream) -> (String, bool) {
    let mut all = stream.head.clone();
    if !stream.tail.is_empty() {
        all.push_str("\n[...]\n");
        all.push_str(&stream.tail);
    }
    if all.len() <= STREAM_LIMIT {
        return (all, stream.truncated);
    }
    let half = STREAM_LIMIT / 2;
    let (head, tail) = (all.floor_char_boundary(half), all.ceil_char_boundary(all.len() - half));
    (format!("{}\n[...]\n{}", &all[..head], &all[tail..]), true)
}

fn one_line(text: &str) -> XmlText {
    let line: Vec<&str> = text.split_whitespace().collect();
    let short: String = line.join(" ").chars().take(500).collect();
    XmlText::new(&short)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Place;
    use crate::event::{Attempt, Failure, RunInfo};
    use crate::observation::{Exit, Role};
    use proptest::prelude::*;
    use quick_xml::events::Event as Xml;

    fn started() -> Event {
        let case = |line: usize, id: &str| CaseInfo {
            case: format!("s/{id}"),
            suite: "s".into(),
            id: id.into(),
            place: Place { file: "s.yaml".into(), line, column: 3 },
            ..CaseInfo::default()
        };
        let mut three = case(6, "three[w=2]");
        three.matrix.insert("w".into(), 2.into());
        let cases = vec![case(4, "one"), case(5, "two"), three];
        Event::RunStarted(RunInfo { at_ms: 1_795_219_200_000, cases, ..RunInfo::default() })
    }

    fn ended(id: &str, verdict: Verdict, stdout: &[u8]) -> [Event; 2] {
        let text = String::from_utf8_lossy(stdout).into_owned();
        let stream = Stream { bytes: stdout.len() as u64, head: text.clone(), ..Stream::default() };
        let process = Process { role: Role::Rank(0), exit: Exit::Code(1), stdout: stream, stderr: Stream::default() };
        let failure = Failure { kind: "exit".into(), expected: "<a & \"b\">".into(), got: text, ..Failure::default() };
        let attempt = Attempt {
            number: 1,
            verdict: verdict.clone(),
            failures: vec![failure],
            duration_us: 1_234_567,
            processes: vec![process],
            ..Attempt::default()
        };
        let case = format!("s/{id}");
        [
            Event::AttemptFinished { case: case.clone(), attempt },
            Event::CaseFinished { case, verdict, flaky: false, failures: Vec::new(), notes: Vec::new() },
        ]
    }

    /// Counts start tags by name, and the attributes of the first of each; fails on XML that is not well-formed.
    fn read(xml: &str) -> BTreeMap<String, (usize, BTreeMap<String, String>)> {
        let mut reader = quick_xml::Reader::from_str(xml);
        reader.config_mut().check_end_names = true;
        let mut seen: BTreeMap<String, (usize, BTreeMap<String, String>)> = BTreeMap::new();
        loop {
            match reader.read_event().unwrap() {
                Xml::Eof => return seen,
                Xml::Start(tag) | Xml::Empty(tag) => {
                    let name = String::from_utf8(tag.name().as_ref().to_vec()).unwrap();
                    let attributes = tag.attributes().map(|attribute| {
                        let attribute = attribute.unwrap();
                        let value =
                            attribute.normalized_value(quick_xml::XmlVersion::Implicit1_0).unwrap().into_owned();
                        (String::from_utf8(attribute.key.as_ref().to_vec()).unwrap(), value)
                    });
                    let entry = seen.entry(name).or_insert_with(|| (0, attributes.collect()));
                    entry.0 += 1;
                }
                Xml::Text(text) => {
                    let decoded = text.decode().unwrap().into_owned();
                    assert!(!decoded.contains("]]>"), "the end of a CDATA section in text");
                }
                _ => {}
            }
        }
    }

    #[test]
    fn totals_count_every_case_also_those_that_did_not_run() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/out.xml");
        let (mut report, mut run) = (JunitReport::new(path.clone()), Run::default());
        let mut tell = |event: &Event| {
            run.apply(event);
            report.on(&run, event).unwrap();
        };
        tell(&started());
        ended("three[w=2]", Verdict::Broken, b"x").iter().for_each(&mut tell);
        let seen = read(&std::fs::read_to_string(&path).unwrap());
        let totals = &seen["testsuites"].1;
        assert_eq!((totals["tests"].as_str(), totals["skipped"].as_str(), totals["errors"].as_str()), ("3", "2", "1"));
        ended("one", Verdict::Failed, b"x").iter().for_each(&mut tell);
        ended("two", Verdict::Passed, b"x").iter().for_each(&mut tell);
        tell(&Event::RunFinished { at_ms: 0, duration_us: 2_000_000, interrupted: false, exit_code: 3 });
        let text = std::fs::read_to_string(&path).unwrap();
        let seen = read(&text);
        for element in ["testsuites", "testsuite"] {
            let totals = &seen[element].1;
            assert_eq!(
                (&*totals["tests"], &*totals["skipped"], &*totals["errors"], &*totals["failures"]),
                ("3", "0", "1", "1"),
                "{element}"
            );
        }
        assert_eq!(seen["testcase"].0, 3);
        assert_eq!((&*seen["testcase"].1["classname"], &*seen["testcase"].1["line"]), ("ftest.s.one", "4"));
        assert_eq!(seen["testcase"].1["time"], "1.235");
        assert_eq!(seen["testsuite"].1["timestamp"], "2026-11-21T00:00:00");
        assert!(text.contains("matrix.w"));
    }

    proptest! {
        #[test]
        fn any_output_gives_well_formed_xml(bytes in proptest::collection::vec(any::<u8>(), 0..400), text in "\\PC*(]]>|\u{1b}\\[3|\u{fffe}|\u{0})\\PC*") {
            let events = [
                ended("one", Verdict::Failed, &bytes),
                ended("two", Verdict::Broken, text.as_bytes()),
                ended("three[w=2]", Verdict::Skipped { reason: text.clone() }, b""),
            ];
            let run = Run::of([started()].iter().chain(events.iter().flatten()));
            let xml = JunitReport::new(PathBuf::new()).report(&run).to_string().unwrap();
            prop_assert_eq!(read(&xml)["testcase"].0, 3);
        }
    }
}
