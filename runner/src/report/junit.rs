//! A run as JUnit XML, for Jenkins, GitLab and the GitHub reporters: a function of the run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use clap::ValueEnum;
use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestRerun, TestSuite};

use crate::check::Failure;
use crate::host::calendar::timestamp;
use crate::record::event::{Attempt, CaseInfo, Process, Stream};
use crate::record::{CaseRun, Run};
use crate::report::xml_text::XmlText;
use crate::report::{exits, human};
use crate::verdict::Verdict;

/// Maximum bytes of one stream.
const STREAM_LIMIT: usize = 64 << 10;

/// Which dialect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Profile {
    /// With the file and line of each case, and properties
    #[default]
    Rich,
    /// Only what the schema of Jenkins' xunit plugin allows; properties go to the output
    Strict,
}

/// The run so far.
///
/// # Errors
/// A message about what cannot be written as XML.
pub fn document(run: &Run, profile: Profile) -> Result<String, String> {
    let mut report = Report::new("ftest");
    report.set_time(run.end.map_or(Duration::ZERO, |end| Duration::from_micros(end.duration_us)));
    let mut suites: Vec<(&str, TestSuite, Duration)> = Vec::new();
    let mut index: BTreeMap<&str, usize> = BTreeMap::new();
    for case in &run.cases {
        let name = case.info.suite.as_str();
        let position = *index.entry(name).or_insert_with(|| {
            suites.push((name, suite(run, &case.info, profile), Duration::ZERO));
            suites.len() - 1
        });
        let (_, suite, time) = &mut suites[position];
        let test = test_case(case, run.not_run(), profile);
        *time += test.time.unwrap_or_default();
        suite.add_test_case(test);
    }
    for (fixture, failure) in &run.teardowns {
        let name = fixture.split('/').next().unwrap_or_default();
        if let Some((_, suite, _)) = index.get(name).and_then(|position| suites.get_mut(*position)) {
            suite.add_test_case(teardown(name, fixture, failure));
        }
    }
    for (_, mut suite, time) in suites {
        suite.set_time(time);
        report.add_test_suite(suite);
    }
    let text = report.to_string().map_err(|error| error.to_string())?;
    Ok(match profile {
        Profile::Rich => text,
        Profile::Strict => without_skipped(&text),
    })
}

/// The root element without its count of skipped cases, which the strict schema does not allow there.
fn without_skipped(text: &str) -> String {
    let root = text.find("<testsuites ").and_then(|start| Some((start, start + text[start..].find('>')?)));
    let attribute = root.and_then(|(start, end)| Some((start + text[start..end].find(" skipped=\"")?, end)));
    match attribute {
        Some((start, end)) => {
            let value = start + " skipped=\"".len();
            let after = text[value..end].find('"').map_or(start, |quote| value + quote + 1);
            format!("{}{}", &text[..start], &text[after..])
        }
        None => text.to_owned(),
    }
}

fn suite(run: &Run, first: &CaseInfo, profile: Profile) -> TestSuite {
    let mut suite = TestSuite::new(XmlText::new(&first.suite));
    let mut attribute = |name: &'static str, value: &str| {
        suite.extra.insert(name.into(), XmlText::new(value).into());
    };
    attribute("file", &first.place.file.display().to_string());
    attribute("timestamp", &timestamp(UNIX_EPOCH + Duration::from_millis(run.info.at_ms)));
    if !run.info.host.is_empty() {
        attribute("hostname", &run.info.host);
    }
    if profile == Profile::Rich && !run.info.run.is_empty() {
        attribute("id", &run.info.run);
    }
    let properties = [
        ("ftest.version", Some(&run.info.ftest)),
        ("ftest.run", Some(&run.info.run)),
        ("ftest.shard", run.info.shard.as_ref()),
    ];
    for (name, value) in properties {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            suite.add_property(Property::new(name, XmlText::new(value)));
        }
    }
    suite
}

fn named(info: &CaseInfo, status: TestCaseStatus, profile: Profile) -> TestCase {
    let mut test = TestCase::new(XmlText::new(&info.id), status);
    let name = info.id.split('[').next().unwrap_or_default();
    test.set_classname(XmlText::new(&format!("ftest.{}.{name}", info.suite)));
    test.set_time(Duration::ZERO);
    if profile == Profile::Rich {
        test.extra.insert("file".into(), XmlText::new(&info.place.file.display().to_string()).into());
        test.extra.insert("line".into(), info.place.line.to_string().into());
    }
    test
}

fn skipped(reason: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::skipped();
    status.set_message(one_line(reason)).set_description(XmlText::new(reason));
    status
}

/// The element of a case; `not_run` is the reason if it has no verdict.
fn test_case(case: &CaseRun, not_run: &str, profile: Profile) -> TestCase {
    let status = match case.verdict() {
        None => skipped(not_run),
        Some(Verdict::Skipped { reason }) => skipped(reason),
        Some(Verdict::Xfailed { reason }) => {
            let mut status = skipped(reason);
            status.set_type("xfail");
            status
        }
        Some(Verdict::Passed) => {
            let mut status = TestCaseStatus::success();
            // Passed in the end: the earlier attempts are flaky failures.
            status.add_reruns(others(case, case.last()));
            status
        }
        Some(verdict @ (Verdict::Failed | Verdict::Timeout | Verdict::Broken)) => {
            let (kind, name) = kind_of(verdict, case.failures().next());
            let mut status = TestCaseStatus::non_success(kind);
            status
                .set_message(one_line(&message(verdict, case.failures().next())))
                .set_type(name)
                .set_description(XmlText::new(&human::details(case)));
            status.add_reruns(others(case, case.shown()));
            status
        }
    };
    let mut test = named(&case.info, status, profile);
    test.set_time(Duration::from_micros(case.duration_us()));
    let properties = properties(case);
    let (mut out, mut err) = (String::new(), String::new());
    match profile {
        Profile::Rich => {
            for (name, value) in &properties {
                test.add_property(Property::new(XmlText::new(name), XmlText::new(value)));
            }
        }
        Profile::Strict => {
            for (name, value) in &properties {
                let _ = writeln!(out, "[[PROPERTY|{name}={value}]]");
            }
        }
    }
    // Output of passed cases would make the file large and is not useful.
    if let Some(attempt) = case.shown().filter(|_| case.verdict().is_some_and(|verdict| !verdict.is_neutral())) {
        streams(&mut out, &attempt.processes, |process| &process.stdout);
        streams(&mut err, &attempt.processes, |process| &process.stderr);
        attachments(&mut out, attempt);
    }
    if !out.is_empty() {
        test.set_system_out(XmlText::new(&out));
    }
    if !err.is_empty() {
        test.set_system_err(XmlText::new(&err));
    }
    test
}

/// Element and type for a verdict that is not a pass.
fn kind_of(verdict: &Verdict, first: Option<&Failure>) -> (NonSuccessKind, &'static str) {
    let of = |kind: &str| first.is_some_and(|failure| failure.kind == kind);
    match verdict {
        Verdict::Timeout => (NonSuccessKind::Failure, "ftest.timeout"),
        Verdict::Broken if of("gap") => (NonSuccessKind::Error, "ftest.gap"),
        Verdict::Broken => (NonSuccessKind::Error, "ftest.infra"),
        _ if of("hang") => (NonSuccessKind::Failure, "ftest.hang"),
        _ if of("leak") => (NonSuccessKind::Failure, "ftest.leak"),
        _ => (NonSuccessKind::Failure, "ftest.check"),
    }
}

fn message(verdict: &Verdict, first: Option<&Failure>) -> String {
    first.map_or_else(
        || verdict.word().to_owned(),
        |failure| format!("{}: expected {}, got {}", failure.kind, failure.expected, failure.got),
    )
}

/// The attempts that did not pass, except the one that the element itself reports.
fn others<'a>(case: &'a CaseRun, shown: Option<&'a Attempt>) -> impl Iterator<Item = TestRerun> {
    let shown = shown.map(|attempt| attempt.number);
    case.attempts.iter().filter(move |attempt| Some(attempt.number) != shown && !attempt.verdict.is_neutral()).map(
        |attempt| {
            // Never `flakyError` or `rerunError`: Jenkins does not read them.
            let mut rerun = TestRerun::new(NonSuccessKind::Failure);
            let first = attempt.failures.first();
            let message = format!("attempt {}: {}", attempt.number, message(&attempt.verdict, first));
            rerun
                .set_message(one_line(&message))
                .set_type(kind_of(&attempt.verdict, first).1)
                .set_stack_trace(XmlText::new(&human::attempt_details(attempt)));
            let (mut out, mut err) = (String::new(), String::new());
            streams(&mut out, &attempt.processes, |process| &process.stdout);
            streams(&mut err, &attempt.processes, |process| &process.stderr);
            if !out.is_empty() {
                rerun.set_system_out(XmlText::new(&out));
            }
            if !err.is_empty() {
                rerun.set_system_err(XmlText::new(&err));
            }
            rerun
        },
    )
}

/// Properties of a case, as names and values.
fn properties(case: &CaseRun) -> Vec<(String, String)> {
    let mut properties: Vec<(String, String)> = Vec::new();
    let mut add = |name: &str, value: String| properties.push((name.to_owned(), value));
    for (name, value) in &case.info.matrix {
        add(&format!("matrix.{name}"), value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    }
    let Some(attempt) = case.shown() else { return properties };
    if case.attempts.len() > 1 {
        add("attempts", case.attempts.len().to_string());
    }
    if case.flaky() {
        add("flaky", "true".to_owned());
    }
    if let Some(Verdict::Xfailed { reason }) = case.verdict() {
        add("xfail", reason.clone());
    }
    if !attempt.processes.is_empty() {
        add("exits", exits(attempt));
    }
    if let Some(python) = &attempt.python {
        add("python", python.program.display().to_string());
        add("python.selected", python.selected.clone());
        add("python.version", python.version.clone());
        if !python.packages.is_empty() {
            add("python.packages", python.packages());
        }
        if python.without_hashes {
            add("python.hashes", "not compared".to_owned());
        }
        if python.only_here {
            add("python.elsewhere", "not asked".to_owned());
        }
    }
    if case.slow() {
        add("slow", "true".to_owned());
    }
    if let Some(kept) = &attempt.kept {
        add("kept", kept.display().to_string());
    }
    properties
}

/// A failed teardown as a case, because JUnit has no other place for an error outside cases.
fn teardown(suite: &str, fixture: &str, failure: &Failure) -> TestCase {
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
    status
        .set_message(one_line(&message(&Verdict::Broken, Some(failure))))
        .set_type("ftest.teardown")
        .set_description(XmlText::new(&human::failure_text(failure)));
    let mut test = TestCase::new(XmlText::new(&format!("teardown of {fixture}")), status);
    test.set_classname(XmlText::new(&format!("ftest.{suite}.fixtures")));
    test.set_time(Duration::ZERO);
    test
}

/// Files of an attempt, in the form that Jenkins, GitLab and Azure look for.
fn attachments(out: &mut String, attempt: &Attempt) {
    let streams = attempt.processes.iter().flat_map(|process| [&process.stdout, &process.stderr]);
    let files = streams.filter(|stream| stream.bytes > 0).filter_map(|stream| stream.file.as_ref());
    for file in files.chain(&attempt.cluster_report).chain(&attempt.device_reports) {
        let _ = writeln!(out, "[[ATTACHMENT|{}]]", file.display());
    }
}

fn streams(text: &mut String, processes: &[Process], of: impl Fn(&Process) -> &Stream) {
    for process in processes {
        let stream = of(process);
        if stream.bytes == 0 {
            continue;
        }
        let (shown, cut) = ends(stream);
        for line in shown.lines() {
            let _ = writeln!(text, "[{}] {line}", process.role);
        }
        if cut {
            let whole = stream.file.as_ref().map(|file| format!("; {} holds it", file.display())).unwrap_or_default();
            let _ = writeln!(text, "[{}] ... the stream has {} bytes{whole}", process.role, stream.bytes);
        }
    }
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
    use crate::observation::{Exit, Role};
    use crate::record::event::{Event, RunInfo};
    use crate::source::SourceLocation;
    use proptest::prelude::*;
    use quick_xml::events::Event as Xml;

    fn started() -> Event {
        let case = |line: usize, id: &str| CaseInfo {
            case: format!("s/{id}"),
            suite: "s".into(),
            id: id.into(),
            place: SourceLocation { file: "s.yaml".into(), line, column: 3 },
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

    fn document(events: &[Event], profile: Profile) -> String {
        super::document(&Run::of(events), profile).unwrap()
    }

    #[test]
    fn totals_count_every_case_also_those_that_did_not_run() {
        let mut events = vec![started()];
        events.extend(ended("three[w=2]", Verdict::Broken, b"x"));
        let totals = |text: &str, element: &str| {
            let attributes = &read(text)[element].1;
            ["tests", "skipped", "errors", "failures"].map(|name| attributes[name].clone())
        };
        assert_eq!(totals(&document(&events, Profile::Rich), "testsuites"), ["3", "2", "1", "0"]);
        events.extend(ended("one", Verdict::Failed, b"x"));
        events.extend(ended("two", Verdict::Passed, b"x"));
        events.push(Event::RunFinished { at_ms: 0, duration_us: 2_000_000, interrupted: false, exit_code: 3 });
        let text = document(&events, Profile::Rich);
        for element in ["testsuites", "testsuite"] {
            assert_eq!(totals(&text, element), ["3", "0", "1", "1"], "{element}");
        }
        let seen = read(&text);
        assert_eq!(seen["testcase"].0, 3);
        assert_eq!((&*seen["testcase"].1["classname"], &*seen["testcase"].1["line"]), ("ftest.s.one", "4"));
        assert_eq!(seen["testcase"].1["time"], "1.235");
        assert_eq!(seen["testsuite"].1["timestamp"], "2026-11-21T00:00:00");
        assert!(text.contains("matrix.w"));
    }

    /// One of everything that a file can contain.
    fn everything() -> Vec<Event> {
        let mut events = vec![started()];
        let [mut first, finished] = ended("one", Verdict::Failed, b"first");
        let [mut second, _] = ended("one", Verdict::Timeout, b"second");
        for (event, number) in [(&mut first, 1), (&mut second, 2)] {
            if let Event::AttemptFinished { attempt, .. } = event {
                attempt.number = number;
                attempt.cluster_report = Some("s/one/cluster-report.json".into());
            }
        }
        events.extend([first.clone(), second, finished]);
        let [mut passed, mut finished] = ended("two", Verdict::Passed, b"third");
        if let (Event::AttemptFinished { case, .. }, Event::AttemptFinished { attempt, .. }) = (&mut first, &mut passed)
        {
            *case = "s/two".into();
            attempt.number = 2;
        }
        if let Event::CaseFinished { flaky, .. } = &mut finished {
            *flaky = true;
        }
        events.extend([first, passed, finished]);
        events.extend(ended("three[w=2]", Verdict::Xfailed { reason: "not yet".into() }, b"x"));
        events.push(Event::TeardownFailed { fixture: "s/server".into(), failure: Failure::default() });
        events
    }

    #[test]
    fn attempts_are_reruns_and_an_expected_failure_is_skipped() {
        let text = document(&everything(), Profile::Rich);
        let seen = read(&text);
        let rerun = &seen["rerunFailure"];
        assert_eq!((rerun.0, &*rerun.1["type"]), (1, "ftest.timeout"));
        assert_eq!(rerun.1["message"], "attempt 2: exit: expected <a & \"b\">, got second");
        let flaky = &seen["flakyFailure"];
        assert_eq!((flaky.0, &*flaky.1["type"]), (1, "ftest.check"));
        assert_eq!((seen["failure"].0, seen["stackTrace"].0), (1, 2));
        assert_eq!(
            seen["skipped"].1,
            BTreeMap::from([("message".into(), "not yet".into()), ("type".into(), "xfail".into())])
        );
        assert_eq!(seen["error"].1["type"], "ftest.teardown");
        assert!(text.contains("\n[[ATTACHMENT|s/one/cluster-report.json]]\n"), "{text}");
    }

    /// What junit-10.xsd of Jenkins' xunit plugin allows; .ci/run validates a file with the schema itself.
    #[test]
    fn the_strict_profile_has_only_what_the_schema_knows() {
        let text = document(&everything(), Profile::Strict);
        let seen = read(&text);
        let allowed = [
            ("testsuites", "name time tests failures errors"),
            ("testsuite", "name tests failures errors time skipped timestamp hostname id package file"),
            ("testcase", "name time classname group"),
            ("failure", "type message"),
            ("error", "type message"),
            ("skipped", "type message"),
            ("rerunFailure", "type message"),
            ("flakyFailure", "type message"),
            ("properties", ""),
            ("property", "name value"),
            ("stackTrace", ""),
            ("system-out", ""),
            ("system-err", ""),
        ];
        for (element, (_, attributes)) in &seen {
            let known = allowed.iter().find(|(name, _)| name == element).map(|(_, known)| *known);
            let known = known.unwrap_or_else(|| panic!("<{element}>"));
            for attribute in attributes.keys() {
                assert!(known.split(' ').any(|name| name == attribute), "{element}@{attribute}");
            }
        }
        for (number, case) in text.split("<testcase ").skip(1).enumerate() {
            assert!(!case.contains("<propert"), "case {number}");
        }
        assert!(text.contains("[[PROPERTY|matrix.w=2]]"), "{text}");
    }

    proptest! {
        #[test]
        fn any_output_gives_well_formed_xml(bytes in proptest::collection::vec(any::<u8>(), 0..400), text in "\\PC*(]]>|\u{1b}\\[3|\u{fffe}|\u{0})\\PC*") {
            let events = [
                ended("one", Verdict::Failed, &bytes),
                ended("two", Verdict::Broken, text.as_bytes()),
                ended("three[w=2]", Verdict::Skipped { reason: text.clone() }, b""),
            ];
            let events: Vec<Event> = [started()].into_iter().chain(events.into_iter().flatten()).collect();
            let xml = document(&events, Profile::Rich);
            prop_assert_eq!(read(&document(&events, Profile::Strict))["testcase"].0, 3);
            prop_assert_eq!(read(&xml)["testcase"].0, 3);
        }
    }
}
