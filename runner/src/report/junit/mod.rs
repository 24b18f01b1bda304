//! A run as JUnit XML, for Jenkins, GitLab and the GitHub reporters: a function of the run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use clap::ValueEnum;
use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestRerun, TestSuite};

use crate::check::{Failure, FailureKind};
use crate::host::calendar::timestamp;
use crate::record::event::{Attempt, CaseInfo, Process, Stream};
use crate::record::{CaseRun, Run};
use crate::report::xml_text::XmlText;
use crate::report::{exits, human, incomplete, room, words};
use crate::verdict::Verdict;

/// Maximum bytes of one stream.
const STREAM_LIMIT: usize = 64 << 10;
/// Maximum bytes of the text of a failure.
const DETAILS_LIMIT: usize = 256 << 10;
/// Maximum bytes of the file: servers refuse larger ones, GitLab above 30 MB. Only the elements themselves can exceed it.
const LARGEST: usize = 16 << 20;
/// With less room than one part in this many of the file, there is no output.
const SMALLEST: usize = 256;
/// Maximum characters of a property.
const PROPERTY_LIMIT: usize = 2000;

/// Which dialect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Profile {
    /// With the file and line of each case, and properties
    #[default]
    Rich,
    /// Only what the schema of Jenkins' xunit plugin allows; properties go to the output
    Strict,
}

/// The run so far. Output that does not fit is left out, from every case alike.
///
/// # Errors
/// A message about what cannot be written as XML.
pub fn document(run: &Run, profile: Profile) -> Result<String, String> {
    of_size(run, profile, LARGEST)
}

/// The document of at most `largest` bytes.
fn of_size(run: &Run, profile: Profile, largest: usize) -> Result<String, String> {
    let mut room = largest;
    loop {
        let sizes = run.cases.iter().map(|case| sizes(case).iter().sum()).collect();
        let text = render(run, profile, room::share(sizes, room), largest)?;
        if text.len() <= largest || room == 0 {
            return Ok(text);
        }
        // Escapes make text longer, by how much is only known now.
        room = (room as f64 * 0.9 * largest as f64 / text.len() as f64) as usize;
        if room < largest / SMALLEST {
            room = 0;
        }
    }
}

/// The document in which each case has at most `most` bytes of output, for one of at most `largest` bytes.
fn render(run: &Run, profile: Profile, most: usize, largest: usize) -> Result<String, String> {
    let mut report = Report::new("ftest");
    report.set_time(run.end.map_or(Duration::ZERO, |end| Duration::from_micros(end.duration_us)));
    let mut suites: Vec<(&str, TestSuite, Duration)> = Vec::new();
    let mut index: BTreeMap<&str, usize> = BTreeMap::new();
    for case in &run.cases {
        let name = case.info.suite.as_str();
        let position = *index.entry(name).or_insert_with(|| {
            suites.push((name, suite(run, &case.info, profile, (most, largest)), Duration::ZERO));
            suites.len() - 1
        });
        let (_, suite, time) = &mut suites[position];
        let test = test_case(case, run.not_run(), profile, most);
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
    let incomplete = incomplete(run);
    if !incomplete.is_empty() {
        let mut suite = TestSuite::new("ftest");
        suite.add_test_cases(incomplete.iter().map(|what| lacking(what, run.info.partial && !run.is_cut_off())));
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

fn suite(run: &Run, first: &CaseInfo, profile: Profile, (most, largest): (usize, usize)) -> TestSuite {
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
    let shortened = (most != usize::MAX).then(|| {
        format!(
            "output of a case beyond {} is left out, so that this file is not larger than {}; {} has all that was kept",
            words::bytes(most as u64),
            words::bytes(largest as u64),
            if run.directory.as_os_str().is_empty() {
                "the run's directory".to_owned()
            } else {
                run.directory.display().to_string()
            }
        )
    });
    for (name, value) in properties.into_iter().chain([("ftest.shortened", shortened.as_ref())]) {
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
    status.set_message(one_line(reason)).set_description(XmlText::new(&within(reason, PROPERTY_LIMIT)));
    status
}

/// The element of a case, with at most `most` bytes of output; `not_run` is the reason if it has no verdict.
fn test_case(case: &CaseRun, not_run: &str, profile: Profile, most: usize) -> TestCase {
    let each = room::share(sizes(case), most);
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
            status.add_reruns(others(case, case.last(), each));
            status
        }
        Some(verdict @ (Verdict::Failed | Verdict::Timeout | Verdict::Broken)) => {
            let (kind, name) = kind_of(verdict, case.failures().next());
            let mut status = TestCaseStatus::non_success(kind);
            status
                .set_message(one_line(&message(verdict, case.failures().next())))
                .set_type(name)
                .set_description(XmlText::new(&explained(human::details(case), each)));
            status.add_reruns(others(case, case.shown(), each));
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
        streams(&mut out, &attempt.processes, each, |process| &process.stdout);
        streams(&mut err, &attempt.processes, each, |process| &process.stderr);
        out.push_str(&whole_lines(attachments(attempt), each.min(STREAM_LIMIT)));
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
    let of = |kind: FailureKind| first.is_some_and(|failure| failure.kind == kind);
    match verdict {
        Verdict::Timeout => (NonSuccessKind::Failure, "ftest.timeout"),
        Verdict::Broken if of(FailureKind::Gap) => (NonSuccessKind::Error, "ftest.gap"),
        Verdict::Broken => (NonSuccessKind::Error, "ftest.infra"),
        _ if of(FailureKind::Hang) => (NonSuccessKind::Failure, "ftest.hang"),
        _ if of(FailureKind::Leak) => (NonSuccessKind::Failure, "ftest.leak"),
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
fn others<'a>(case: &'a CaseRun, shown: Option<&'a Attempt>, each: usize) -> impl Iterator<Item = TestRerun> {
    let shown = shown.map(|attempt| attempt.number);
    case.attempts.iter().filter(move |attempt| Some(attempt.number) != shown && !attempt.verdict.is_neutral()).map(
        move |attempt| {
            // Never `flakyError` or `rerunError`: Jenkins does not read them.
            let mut rerun = TestRerun::new(NonSuccessKind::Failure);
            let first = attempt.failures.first();
            let message = format!("attempt {}: {}", attempt.number, message(&attempt.verdict, first));
            rerun
                .set_message(one_line(&message))
                .set_type(kind_of(&attempt.verdict, first).1)
                .set_stack_trace(XmlText::new(&explained(human::attempt_details(attempt), each)));
            let (mut out, mut err) = (String::new(), String::new());
            streams(&mut out, &attempt.processes, each, |process| &process.stdout);
            streams(&mut err, &attempt.processes, each, |process| &process.stderr);
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
    let mut add = |name: &str, value: String| properties.push((name.to_owned(), within(&value, PROPERTY_LIMIT)));
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
    for one in &attempt.relations {
        let got = if one.got.is_empty() { String::new() } else { format!(": {}", one.got) };
        add(&format!("relation.{}", one.relation), format!("{}{got}", one.word()));
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

/// What a run lacks, as a case: readers of the file must not take the rest for all of it.
fn lacking(what: &str, allowed: bool) -> TestCase {
    let mut status = match allowed {
        true => TestCaseStatus::skipped(),
        false => TestCaseStatus::non_success(NonSuccessKind::Error),
    };
    status.set_message(one_line(what)).set_type("ftest.incomplete");
    let mut test = TestCase::new(XmlText::new(what), status);
    test.set_classname("ftest.run");
    test.set_time(Duration::ZERO);
    test
}

/// The bytes of each text that a case may have here. One that passed at once has none.
fn sizes(case: &CaseRun) -> Vec<usize> {
    let bad = case.verdict().is_some_and(|verdict| !verdict.is_neutral());
    let shown = case.shown().filter(|_| bad).map(|attempt| attempt.number);
    let mut sizes = Vec::new();
    for attempt in &case.attempts {
        let text = match Some(attempt.number) == shown {
            true => human::details(case),
            false if attempt.verdict.is_neutral() => continue,
            false => human::attempt_details(attempt),
        };
        sizes.push(text.len().min(DETAILS_LIMIT));
        sizes.push(attachments(attempt).len().min(STREAM_LIMIT));
        let streams = attempt.processes.iter().flat_map(|process| [&process.stdout, &process.stderr]);
        sizes.extend(streams.map(|stream| room::size(stream, STREAM_LIMIT)));
    }
    sizes
}

/// The text of a failure within its limits.
fn explained(text: String, each: usize) -> String {
    let left_out = |short| format!("{short}\n({} bytes in all; `ftest replay` of the run has them)", text.len());
    room::ends(&text, each.min(DETAILS_LIMIT)).map(left_out).unwrap_or(text)
}

/// As many whole lines of `text` as fit, and how many do not.
fn whole_lines(text: String, limit: usize) -> String {
    if text.len() <= limit {
        return text;
    }
    let end = text[..text.floor_char_boundary(limit)].rfind('\n').map_or(0, |end| end + 1);
    format!("{}... and {} more files\n", &text[..end], text[end..].lines().count())
}

fn within(text: &str, limit: usize) -> String {
    if text.len() <= limit { text.to_owned() } else { format!("{}...", &text[..text.floor_char_boundary(limit)]) }
}

/// Files of an attempt, in the form that Jenkins, GitLab and Azure look for.
fn attachments(attempt: &Attempt) -> String {
    let streams = attempt.processes.iter().flat_map(|process| [&process.stdout, &process.stderr]);
    let files = streams.filter(|stream| stream.bytes > 0).filter_map(|stream| stream.file.as_ref());
    let files = files.chain(&attempt.cluster_report).chain(&attempt.device_reports);
    files.map(|file| format!("[[ATTACHMENT|{}]]\n", file.display())).collect()
}

fn streams(text: &mut String, processes: &[Process], each: usize, of: impl Fn(&Process) -> &Stream) {
    for process in processes {
        let stream = of(process);
        if stream.bytes == 0 {
            continue;
        }
        let (shown, cut) = room::of_stream(stream, each.min(STREAM_LIMIT));
        for line in shown.lines() {
            let _ = writeln!(text, "[{}] {line}", process.role);
        }
        if cut {
            let whole = stream.file_holds().map(|holds| format!("; {holds}")).unwrap_or_default();
            let _ = writeln!(text, "[{}] ... the stream has {} bytes{whole}", process.role, stream.bytes);
        }
    }
}

fn one_line(text: &str) -> XmlText {
    let line: Vec<&str> = text.split_whitespace().collect();
    let short: String = line.join(" ").chars().take(500).collect();
    XmlText::new(&short)
}

#[cfg(test)]
mod tests;
