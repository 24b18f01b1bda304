//! JUnit XML for Jenkins, GitLab and the GitHub reporters. The file is whole after every finished case, so that a killed run leaves one too.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestSuite};

use crate::calendar::timestamp;
use crate::case::Case;
use crate::check::Verdict;
use crate::observation::{Captured, ProcessObservation};
use crate::progress::{Conclusion, Progress};
use crate::report::xml_text::XmlText;
use crate::report::{exits, human};

/// Most bytes of one stream.
const STREAM_LIMIT: usize = 64 << 10;

/// Writes the file as the run goes on.
#[derive(Debug)]
pub struct JunitReport {
    path: PathBuf,
    cases: Vec<Arc<Case>>,
    finished: BTreeMap<usize, TestCase>,
    at: Option<SystemTime>,
    duration: Duration,
    /// Why cases without a result have none.
    not_run: &'static str,
}

impl JunitReport {
    /// A report that goes to `path`.
    pub fn new(path: PathBuf) -> JunitReport {
        JunitReport {
            path,
            cases: Vec::new(),
            finished: BTreeMap::new(),
            at: None,
            duration: Duration::ZERO,
            not_run: "not run: the run did not end",
        }
    }

    /// Takes note and writes the file where something changed.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn on(&mut self, progress: &Progress) -> io::Result<()> {
        match progress {
            Progress::RunStarted { cases, at } => {
                self.cases = cases.clone();
                self.at = Some(*at);
            }
            Progress::CaseFinished { index, conclusion } => {
                let Some(case) = self.cases.get(*index) else { return Ok(()) };
                self.finished.insert(*index, test_case(case, conclusion));
            }
            Progress::RunFinished { duration, interrupted } => {
                self.duration = *duration;
                self.not_run = if *interrupted {
                    "not run: the run was interrupted"
                } else {
                    "not run: another case did not pass before"
                };
            }
            Progress::Preparing(_) | Progress::CaseStarted { .. } | Progress::TeardownFailed { .. } => return Ok(()),
        }
        self.write()
    }

    /// The document as it stands.
    pub fn report(&self) -> Report {
        let mut report = Report::new("ftest");
        report.set_time(self.duration);
        let mut suites: Vec<(String, TestSuite, Duration)> = Vec::new();
        for (index, case) in self.cases.iter().enumerate() {
            let position = suites.iter().position(|(name, _, _)| *name == case.suite).unwrap_or_else(|| {
                suites.push((case.suite.clone(), self.suite(case), Duration::ZERO));
                suites.len() - 1
            });
            let (_, suite, time) = &mut suites[position];
            let test = match self.finished.get(&index) {
                Some(test) => test.clone(),
                None => named(case, skipped(self.not_run)),
            };
            *time += test.time.unwrap_or_default();
            suite.add_test_case(test);
        }
        for (_, mut suite, time) in suites {
            suite.set_time(time);
            report.add_test_suite(suite);
        }
        report
    }

    fn suite(&self, case: &Case) -> TestSuite {
        let mut suite = TestSuite::new(XmlText::new(&case.suite));
        suite.extra.insert("file".into(), XmlText::new(&case.place.file.display().to_string()).into());
        if let Some(at) = self.at {
            suite.extra.insert("timestamp".into(), timestamp(at).into());
        }
        suite.add_property(Property::new("ftest.version", env!("CARGO_PKG_VERSION")));
        suite
    }

    fn write(&self) -> io::Result<()> {
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let text = self.report().to_string().map_err(io::Error::other)?;
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

fn named(case: &Case, status: TestCaseStatus) -> TestCase {
    let mut test = TestCase::new(XmlText::new(&case.id), status);
    let name = case.id.split('[').next().unwrap_or_default();
    test.set_classname(XmlText::new(&format!("ftest.{}.{name}", case.suite)));
    test.set_time(Duration::ZERO);
    test.extra.insert("file".into(), XmlText::new(&case.place.file.display().to_string()).into());
    test.extra.insert("line".into(), case.place.line.to_string().into());
    test
}

fn skipped(reason: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::skipped();
    status.set_message(one_line(reason)).set_description(XmlText::new(reason));
    status
}

fn test_case(case: &Case, conclusion: &Conclusion) -> TestCase {
    let (_, outcome) = conclusion.shown();
    let kind = match &conclusion.verdict {
        Verdict::Passed => None,
        Verdict::Skipped(reason) | Verdict::Xfailed(reason) => return named(case, skipped(reason)),
        Verdict::Failed => Some((NonSuccessKind::Failure, "ftest.check")),
        Verdict::Timeout => Some((NonSuccessKind::Failure, "ftest.timeout")),
        Verdict::Broken => {
            let gap = outcome.failures.first().is_some_and(|failure| failure.kind == "gap");
            Some((NonSuccessKind::Error, if gap { "ftest.gap" } else { "ftest.infra" }))
        }
    };
    let status = match kind {
        None => TestCaseStatus::success(),
        Some((kind, name)) => {
            let mut status = TestCaseStatus::non_success(kind);
            let message = conclusion.failures.iter().chain(&outcome.failures).next().map_or_else(
                || conclusion.verdict.word().to_owned(),
                |failure| format!("{}: expected {}, got {}", failure.kind, failure.expected, failure.got),
            );
            status
                .set_message(one_line(&message))
                .set_type(name)
                .set_description(XmlText::new(&human::details(case, conclusion)));
            status
        }
    };
    let failed = kind.is_some();
    let mut test = named(case, status);
    test.set_time(conclusion.duration());
    for (name, value) in &case.matrix {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        test.add_property(Property::new(XmlText::new(&format!("matrix.{name}")), XmlText::new(&value)));
    }
    if !outcome.observation.processes.is_empty() {
        test.add_property(Property::new("exits", XmlText::new(&exits(&outcome.observation))));
    }
    if conclusion.slow() {
        test.add_property(Property::new("slow", "true"));
    }
    if outcome.kept {
        test.add_property(Property::new("scratch", XmlText::new(&outcome.observation.scratch.display().to_string())));
    }
    // Output of passed cases makes the file large and tells nobody anything.
    if failed {
        let out = streams(&outcome.observation.processes, |process| &process.stdout);
        let err = streams(&outcome.observation.processes, |process| &process.stderr);
        if !out.as_str().is_empty() {
            test.set_system_out(out);
        }
        if !err.as_str().is_empty() {
            test.set_system_err(err);
        }
    }
    test
}

fn streams(processes: &[ProcessObservation], of: impl Fn(&ProcessObservation) -> &Captured) -> XmlText {
    let mut text = String::new();
    for process in processes {
        let stream = of(process);
        if stream.bytes == 0 {
            continue;
        }
        let (head, cut) = ends(stream);
        for line in String::from_utf8_lossy(&head).lines() {
            text.push_str(&format!("[{}] {line}\n", process.role));
        }
        if cut {
            text.push_str(&format!(
                "[{}] ... the stream has {} bytes; {} holds it\n",
                process.role,
                stream.bytes,
                stream.path.display()
            ));
        }
    }
    XmlText::new(&text)
}

/// Head and tail of a stream within the limit, and whether something is left out.
fn ends(stream: &Captured) -> (Vec<u8>, bool) {
    let mut all = stream.head.clone();
    if !stream.tail.is_empty() {
        all.extend_from_slice(b"\n[...]\n");
        all.extend_from_slice(&stream.tail);
    }
    if all.len() <= STREAM_LIMIT {
        return (all, stream.truncated);
    }
    let half = STREAM_LIMIT / 2;
    let mut short = all[..half].to_vec();
    short.extend_from_slice(b"\n[...]\n");
    short.extend_from_slice(&all[all.len() - half..]);
    (short, true)
}

fn one_line(text: &str) -> XmlText {
    let line: Vec<&str> = text.split_whitespace().collect();
    let short: String = line.join(" ").chars().take(500).collect();
    XmlText::new(&short)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Failure;
    use crate::observation::{Exit, Observation, Role};
    use crate::progress::Outcome;
    use crate::suite;
    use proptest::prelude::*;
    use quick_xml::events::Event;

    fn cases() -> Vec<Arc<Case>> {
        let text = "ftest: 1\nsuite: s\ncases:\n- {id: one, launch: {argv: [x]}}\n- {id: two, launch: {argv: [x]}}\n- {id: three, matrix: {axes: {w: [2]}}, launch: {argv: [x]}}\n";
        suite::parse(Path::new("s.yaml"), text, Path::new("/")).unwrap().cases
    }

    fn conclusion(verdict: Verdict, stdout: &[u8]) -> Arc<Conclusion> {
        let stream = Captured { bytes: stdout.len() as u64, head: stdout.to_vec(), ..Captured::default() };
        let process = ProcessObservation {
            role: Role::Rank(0),
            exit: Exit::Code(1),
            stdout: stream,
            stderr: Captured::default(),
        };
        let failure = Failure {
            place: None,
            kind: "exit",
            expected: "<a & \"b\">".into(),
            got: String::from_utf8_lossy(stdout).into_owned(),
            next: String::new(),
        };
        let observation = Observation {
            processes: vec![process],
            duration: Duration::from_micros(1_234_567),
            ..Observation::default()
        };
        Arc::new(Conclusion::of(Outcome { verdict, failures: vec![failure], observation, slow: false, kept: false }))
    }

    /// Counts start tags by name, and the attributes of the first of each; fails on XML that is not well-formed.
    fn read(xml: &str) -> BTreeMap<String, (usize, BTreeMap<String, String>)> {
        let mut reader = quick_xml::Reader::from_str(xml);
        reader.config_mut().check_end_names = true;
        let mut seen: BTreeMap<String, (usize, BTreeMap<String, String>)> = BTreeMap::new();
        loop {
            match reader.read_event().unwrap() {
                Event::Eof => return seen,
                Event::Start(tag) | Event::Empty(tag) => {
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
                Event::Text(text) => {
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
        let mut report = JunitReport::new(path.clone());
        report
            .on(&Progress::RunStarted {
                cases: cases(),
                at: SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_219_200),
            })
            .unwrap();
        report.on(&Progress::CaseFinished { index: 2, conclusion: conclusion(Verdict::Broken, b"x") }).unwrap();
        let seen = read(&std::fs::read_to_string(&path).unwrap());
        let totals = &seen["testsuites"].1;
        assert_eq!((totals["tests"].as_str(), totals["skipped"].as_str(), totals["errors"].as_str()), ("3", "2", "1"));
        report.on(&Progress::CaseFinished { index: 0, conclusion: conclusion(Verdict::Failed, b"x") }).unwrap();
        report.on(&Progress::CaseFinished { index: 1, conclusion: conclusion(Verdict::Passed, b"x") }).unwrap();
        report.on(&Progress::RunFinished { duration: Duration::from_secs(2), interrupted: false }).unwrap();
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
            let mut report = JunitReport::new(PathBuf::new());
            report.cases = cases();
            report.finished.insert(0, test_case(&report.cases[0], &conclusion(Verdict::Failed, &bytes)));
            report.finished.insert(1, test_case(&report.cases[1], &conclusion(Verdict::Broken, text.as_bytes())));
            report.finished.insert(2, named(&report.cases[2], skipped(&text)));
            let xml = report.report().to_string().unwrap();
            prop_assert_eq!(read(&xml)["testcase"].0, 3);
        }
    }
}
