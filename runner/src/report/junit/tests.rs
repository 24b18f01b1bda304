//! Tests of the JUnit file: what readers count in it, that any output is valid XML, and that it never becomes too large.

use super::*;
use crate::observation::{Exit, Role};
use crate::record::event::{Event, RunInfo};
use crate::source::SourceLocation;
use crate::verdict::relation_result::RelationResult;
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
    let process =
        Process { role: Role::Rank(0), exit: Exit::Code(1), ended: false, stdout: stream, stderr: Stream::default() };
    let failure = Failure { kind: FailureKind::Exit, expected: "<a & \"b\">".into(), got: text, ..Failure::default() };
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
                    let value = attribute.normalized_value(quick_xml::XmlVersion::Implicit1_0).unwrap().into_owned();
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
    super::document(&Run::from_events(events), profile).unwrap()
}

#[test]
fn totals_count_every_case_also_those_that_did_not_run() {
    let mut events = vec![started()];
    events.extend(ended("three[w=2]", Verdict::Broken, b"x"));
    let totals = |text: &str, element: &str| {
        let attributes = &read(text)[element].1;
        ["tests", "skipped", "errors", "failures"].map(|name| attributes[name].clone())
    };
    // A run that has not ended is an error of its own: what has a verdict is not all of it.
    assert_eq!(totals(&document(&events, Profile::Rich), "testsuites"), ["4", "2", "2", "0"]);
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
    if let (Event::AttemptFinished { case, .. }, Event::AttemptFinished { attempt, .. }) = (&mut first, &mut passed) {
        *case = "s/two".into();
        attempt.number = 2;
    }
    if let Event::CaseFinished { flaky, .. } = &mut finished {
        *flaky = true;
    }
    events.extend([first, passed, finished]);
    events.extend(ended("three[w=2]", Verdict::Xfailed { reason: "not yet".into() }, b"x"));
    events.push(Event::TeardownFailed { fixture: "s/server".into(), failure: Failure::default() });
    events.push(Event::RunFinished { at_ms: 0, duration_us: 2_000_000, interrupted: false, exit_code: 3 });
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
fn a_relation_is_a_property_with_what_differs() {
    let mut events = vec![started()];
    let [mut attempt, end] = ended("one", Verdict::Failed, b"");
    if let Event::AttemptFinished { attempt, .. } = &mut attempt {
        let result = |relation: &str, holds, got: &str| RelationResult {
            relation: relation.to_owned(),
            holds,
            got: got.to_owned(),
            ..RelationResult::default()
        };
        attempt.relations = vec![result("twice", Some(true), ""), result("ranks: 1", Some(false), "0.5, but 0.25")];
    }
    events.extend([attempt, end]);
    let xml = document(&events, Profile::Rich);
    for property in
        [r#"name="relation.twice" value="holds""#, r#"name="relation.ranks: 1" value="differs: 0.5, but 0.25""#]
    {
        assert!(xml.contains(property), "{xml}");
    }
}

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

#[test]
fn what_a_run_lacks_is_an_error_unless_it_is_known() {
    let mut events = vec![started()];
    events.extend(["one", "two", "three[w=2]"].map(|id| ended(id, Verdict::Passed, b"")).concat());
    events.push(Event::RunFinished { at_ms: 0, duration_us: 0, interrupted: false, exit_code: 0 });
    let whole = Run::from_events(&events);
    let errors = |run: &Run| {
        let seen = read(&super::document(run, Profile::Rich).unwrap());
        let attributes = &seen["testsuites"].1;
        (attributes["tests"].clone(), attributes["errors"].clone(), attributes["skipped"].clone())
    };
    let counts = |tests: &str, errors: &str, skipped: &str| (tests.to_owned(), errors.to_owned(), skipped.to_owned());
    assert_eq!(errors(&whole), counts("3", "0", "0"));
    let mut partial = whole.clone();
    partial.info.missing = vec!["shard 2/2 is missing".to_owned()];
    assert_eq!(errors(&partial), counts("4", "1", "0"));
    partial.info.partial = true;
    assert_eq!(errors(&partial), counts("4", "0", "1"));
    let mut interrupted = whole;
    interrupted.end.as_mut().unwrap().interrupted = true;
    assert_eq!(errors(&interrupted), counts("4", "1", "0"));
}

/// Here a quarter of the output are characters that XML makes five times as long.
#[test]
fn the_file_has_a_limit_and_every_case_a_fair_part_of_it() {
    let cases: Vec<String> = (0..20).map(|number| format!("c{number}")).collect();
    let info =
        |id: &String| CaseInfo { case: format!("s/{id}"), suite: "s".into(), id: id.clone(), ..CaseInfo::default() };
    let cases_known = cases.iter().map(info).collect();
    let mut events = vec![Event::RunStarted(RunInfo { cases: cases_known, ..RunInfo::default() })];
    let middle = "abc&".repeat(20_000);
    for (number, id) in cases.iter().enumerate() {
        // One in ten is short, and stays whole.
        let text =
            if number % 10 == 0 { format!("short {id} whole") } else { format!("first {id}\n{middle}\nlast {id}") };
        let file = Some(format!("s/{id}/out").into());
        let stream = Stream { bytes: text.len() as u64, head: text, file, ..Stream::default() };
        let process = |rank| Process {
            role: Role::Rank(rank),
            exit: Exit::Code(1),
            ended: false,
            stdout: stream.clone(),
            stderr: stream.clone(),
        };
        let processes = (0..4).map(process).collect();
        let attempt = Attempt { number: 1, verdict: Verdict::Failed, processes, ..Attempt::default() };
        let case = format!("s/{id}");
        events.push(Event::AttemptFinished { case: case.clone(), attempt });
        let (verdict, failures, notes) = (Verdict::Failed, Vec::new(), Vec::new());
        events.push(Event::CaseFinished { case, verdict, flaky: false, failures, notes });
    }
    events.push(Event::RunFinished { at_ms: 0, duration_us: 0, interrupted: false, exit_code: 1 });
    let run = Run::from_events(&events);
    let largest = 1 << 20;
    for profile in [Profile::Rich, Profile::Strict] {
        let text = of_size(&run, profile, largest).unwrap();
        assert!((largest / 2..=largest).contains(&text.len()), "{}", text.len());
        assert_eq!(read(&text)["testcase"].0, 20);
        let has = |words: String| assert!(text.contains(&words), "{words}");
        for (number, id) in cases.iter().enumerate() {
            if number % 10 == 0 {
                has(format!("[rank 3] short {id} whole"));
            } else {
                has(format!("[rank 3] first {id}\n"));
                has(format!("[rank 3] last {id}\n[rank 3] ... the stream has 8001"));
                has(format!(" bytes; s/{id}/out holds it\n"));
            }
        }
        has("so that this file is not larger than 1.0 MiB; the run".to_owned());
    }
    // Everything that is too long even so is left out.
    let text = of_size(&run, Profile::Rich, 20 << 10).unwrap();
    assert!(text.len() < 60 << 10 && read(&text)["testcase"].0 == 20, "{}", text.len());
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
        // Three, and that the run did not end.
        prop_assert_eq!(read(&document(&events, Profile::Strict))["testcase"].0, 4);
        prop_assert_eq!(read(&xml)["testcase"].0, 4);
    }
}
