//! One HTML file for a run: needs no network and no other file; usable on a phone, in dark mode and on paper.
//!
//! Cases that did not pass are in the page itself; the parts of other cases are inert `<template>`s, so that thousands of
//! cases cost the browser little. The file size is limited, roughly: see [`Limits`].

mod case_view;
mod cluster_view;
pub mod compare;
mod relation_view;

use std::collections::{BTreeMap, BTreeSet};

use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, UndefinedBehavior};
use serde::Serialize;

use crate::check::Failure;
use crate::host::{docs, shell};
use crate::record::{CaseRun, Run};
use crate::report::{chart::svg, incomplete, words};
use crate::verdict::Verdict;
use case_view::{CaseView, Depth, FailureView, GapView};
use compare::Comparison;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");
/// Verdicts, worst first.
pub const WORDS: [&str; 7] = ["broken", "timeout", "failed", "not run", "xfailed", "skipped", "passed"];

/// Size limits of the page.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of cases with charts and logs; further cases are short.
    pub full: usize,
    /// Bytes of all cases; further cases are only a line.
    pub all: usize,
    /// Cases that did not pass, shown before all cases.
    pub listed: usize,
    /// How many of them are open initially: drawings cost a browser more than text.
    pub open: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { full: 12 << 20, all: 16 << 20, listed: 30, open: 5 }
    }
}

#[derive(Debug, Serialize)]
struct Page {
    style: &'static str,
    script: &'static str,
    title: String,
    headline: String,
    good: bool,
    ended: Option<String>,
    facts: Vec<(&'static str, String)>,
    counts: Vec<Count>,
    rerun: Vec<(&'static str, String)>,
    /// Cases that did not pass, shown before all cases.
    open: Vec<OpenCase>,
    open_left_out: usize,
    comparison: Option<Comparison>,
    teardowns: Vec<(String, FailureView)>,
    gaps: Vec<(GapView, String)>,
    gaps_left_out: usize,
    skips: Vec<(String, usize)>,
    suites: Vec<SuiteView>,
    templates: Vec<(usize, String)>,
    /// The sections of the documentation that failures link to.
    about: BTreeMap<String, &'static str>,
    cases: usize,
    /// Cases whose part is short, and those that are only a line.
    cut: (usize, usize),
}

#[derive(Debug, Serialize)]
struct Count {
    word: &'static str,
    class: String,
    count: usize,
    percent: String,
}

#[derive(Debug, Serialize)]
struct OpenCase {
    row: Row,
    /// The content, if it is open initially.
    html: Option<String>,
    /// Whether the content is created when it is opened.
    template: bool,
}

#[derive(Debug, Serialize)]
struct SuiteView {
    name: String,
    summary: String,
    bad: bool,
    groups: Vec<Group>,
}

#[derive(Debug, Serialize)]
struct Group {
    name: String,
    /// Whether these are several expansions of a matrix; otherwise a single case.
    several: bool,
    summary: String,
    bad: bool,
    rows: Vec<Row>,
}

/// One line of the tree.
#[derive(Clone, Debug, Serialize)]
struct Row {
    index: usize,
    case: String,
    label: String,
    word: &'static str,
    class: String,
    duration: String,
    bar: u64,
    difference: Option<String>,
    flags: Vec<String>,
    note: Option<String>,
    search: String,
    /// `open`: it is shown above; `template`: its part is in the page; `line`: it is not.
    shown: &'static str,
}

/// The sections that a failure cites.
fn cited(failure: &Failure) -> impl Iterator<Item = (String, &'static str)> {
    docs::cited(&failure.next).map(|(name, text)| (name.to_owned(), text))
}

/// The page. `before` is an earlier run to compare with.
///
/// # Errors
/// A mistake in the templates, which are part of the program.
pub fn page(run: &Run, before: Option<&Run>, limits: Limits) -> Result<String, minijinja::Error> {
    let mut templates = Environment::new();
    templates.set_undefined_behavior(UndefinedBehavior::Strict);
    templates.set_auto_escape_callback(|_| AutoEscape::Html);
    // The library's own way also escapes every `/`, of which paths have many.
    templates.set_formatter(|out, _, value| {
        let text = value.to_string();
        Ok(out.write_str(if value.is_safe() { text } else { svg::escaped(&text) }.as_str())?)
    });
    templates.add_template("case", include_str!("case.html"))?;
    templates.add_template("page", include_str!("page.html"))?;
    let case_html = templates.get_template("case")?;

    // Readers of a report look for cases that did not pass; those get the space.
    let mut order: Vec<usize> = (0..run.cases.len()).filter(|index| has_part(&run.cases[*index])).collect();
    order.sort_by_key(|index| {
        let case = &run.cases[*index];
        (!is_bad(case), !case.flaky(), *index)
    });
    let (mut used, mut cut) = (0, (0, 0));
    let mut parts: BTreeMap<usize, String> = BTreeMap::new();
    for index in order {
        let depth = if used < limits.full { Depth::Full } else { Depth::Short };
        if used >= limits.all {
            cut.1 += 1;
            continue;
        }
        cut.0 += usize::from(depth == Depth::Short);
        let html = case_html.render(Serde(CaseView::new(index, &run.cases[index], depth)))?;
        used += html.len();
        parts.insert(index, html);
    }
    let longest = run.cases.iter().map(CaseRun::duration_us).max().unwrap_or(1).max(1);
    let bad: Vec<usize> = (0..run.cases.len()).filter(|index| is_bad(&run.cases[*index])).collect();
    let in_page: BTreeSet<usize> = parts.keys().copied().collect();
    let row = |index: usize| {
        let case = &run.cases[index];
        let shown = if bad.iter().take(limits.listed).any(|listed| *listed == index) {
            "open"
        } else if in_page.contains(&index) {
            "template"
        } else {
            "line"
        };
        row(index, case, before, longest, shown)
    };
    let open: Vec<OpenCase> = bad
        .iter()
        .take(limits.listed)
        .enumerate()
        .map(|(at, index)| {
            let html = if at < limits.open { parts.remove(index) } else { None };
            OpenCase { row: row(*index), html, template: parts.contains_key(index) }
        })
        .collect();
    let (gaps, gaps_left_out) = gaps(run);
    let page = Page {
        style: STYLE,
        script: SCRIPT,
        title: title(run),
        headline: headline(run),
        good: bad.is_empty() && run.teardowns.is_empty() && incomplete(run).is_empty(),
        ended: ended(run),
        facts: facts(run),
        counts: counts(run),
        rerun: rerun(run, &bad),
        open_left_out: bad.len().saturating_sub(open.len()),
        open,
        comparison: before.and_then(|before| Comparison::new(before, run)),
        teardowns: run.teardowns.iter().map(|(name, failure)| (name.clone(), FailureView::new(failure))).collect(),
        gaps,
        gaps_left_out,
        skips: skips(run),
        suites: suites(run, &row),
        templates: parts.into_iter().collect(),
        about: run
            .cases
            .iter()
            .flat_map(|case| &case.attempts)
            .flat_map(|attempt| &attempt.failures)
            .flat_map(cited)
            .collect(),
        cases: run.cases.len(),
        cut,
    };
    templates.get_template("page")?.render(Serde(page))
}

/// Whether its verdict prevents the run from exiting with 0.
pub fn is_bad(case: &CaseRun) -> bool {
    case.verdict().is_some_and(|verdict| !verdict.is_neutral())
}

fn has_part(case: &CaseRun) -> bool {
    !case.attempts.is_empty() || is_bad(case)
}

/// Why a case was skipped or is expected not to pass.
fn reason(case: &CaseRun) -> Option<String> {
    match case.verdict()? {
        Verdict::Skipped { reason } | Verdict::Xfailed { reason } => Some(reason.clone()),
        Verdict::Passed | Verdict::Failed | Verdict::Broken | Verdict::Timeout => None,
    }
}

fn word(case: &CaseRun) -> &'static str {
    case.verdict().map_or("not run", Verdict::word)
}

fn class(word: &str) -> String {
    format!("v-{}", word.replace(' ', "-"))
}

fn title(run: &Run) -> String {
    let mut suites: Vec<&str> = run.cases.iter().map(|case| case.info.suite.as_str()).collect();
    suites.dedup();
    let named: Vec<&str> = suites.iter().take(4).copied().collect();
    let more =
        if suites.len() > named.len() { format!(" and {} more", suites.len() - named.len()) } else { String::new() };
    format!("ftest {}{more}", named.join(", "))
}

/// The run in one sentence.
pub fn headline(run: &Run) -> String {
    let bad = run.cases.iter().filter(|case| is_bad(case)).count();
    let missing = run.cases.iter().filter(|case| case.end.is_none()).count();
    let all = words::counted(run.cases.len(), "case");
    let rest = if run.info.missing.is_empty() { "" } else { ", and a part of the run is missing" };
    let verdict = match (bad, missing) {
        (0, 0) => {
            let passed = run.cases.iter().filter(|case| matches!(case.verdict(), Some(Verdict::Passed))).count();
            if passed == run.cases.len() {
                format!("All {all} passed")
            } else {
                format!("{passed} of {all} passed, none failed")
            }
        }
        (0, missing) => format!("{missing} of {all} did not run"),
        (bad, _) => format!("{bad} of {all} did not pass"),
    };
    verdict + rest
}

/// What keeps the run from being whole, in sentences.
pub fn ended(run: &Run) -> Option<String> {
    let sentence = |text: &String| format!("{}{}.", text[..1].to_uppercase(), &text[1..]);
    let sentences: Vec<String> = incomplete(run).iter().map(sentence).collect();
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

fn facts(run: &Run) -> Vec<(&'static str, String)> {
    let info = &run.info;
    let command: Vec<String> = info.command.iter().map(|word| shell::quoted(word)).collect();
    let facts = [
        ("began", format!("{} UTC", words::date(info.at_ms))),
        ("took", run.end.as_ref().map_or_else(String::new, |end| words::time(end.duration_us as f64))),
        ("exit code", run.end.as_ref().map_or_else(String::new, |end| end.exit_code.to_string())),
        ("shard", info.shard.clone().unwrap_or_default()),
        ("run", info.run.clone()),
        ("ftest", info.ftest.clone()),
        ("machine", info.host.clone()),
        ("directory", info.directory.display().to_string()),
        ("command", command.join(" ")),
    ];
    facts.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}

fn counts(run: &Run) -> Vec<Count> {
    let counts = run.counts();
    let all = run.cases.len().max(1) as f64;
    WORDS
        .into_iter()
        .filter_map(|word| {
            let count = *counts.get(word)?;
            Some(Count { word, class: class(word), count, percent: format!("{:.3}", count as f64 * 100.0 / all) })
        })
        .collect()
}

fn rerun(run: &Run, bad: &[usize]) -> Vec<(&'static str, String)> {
    let command: Vec<String> = run.info.command.iter().map(|word| shell::quoted(word)).collect();
    let mut lines = vec![("all of it", command.join(" "))];
    if let [only] = bad {
        lines.insert(0, ("the one that did not pass", words::rerun(&run.cases[*only])));
    } else if !bad.is_empty() {
        lines.insert(0, ("what did not pass", format!("ftest run --failed={}", run.info.run)));
    }
    lines.retain(|(_, line)| !line.is_empty());
    lines
}

/// Gaps of all cases, each with the cases in which it occurred.
fn gaps(run: &Run) -> (Vec<(GapView, String)>, usize) {
    const MOST: usize = 100;
    const NAMED: usize = 3;
    let mut all: BTreeMap<(String, String), (u64, Vec<&str>)> = BTreeMap::new();
    for case in &run.cases {
        for gap in case.shown().iter().flat_map(|attempt| &attempt.gaps) {
            let view = GapView::new(gap);
            let (count, cases) = all.entry((view.name, view.detail)).or_default();
            *count += gap.count;
            if cases.last() != Some(&case.info.case.as_str()) {
                cases.push(&case.info.case);
            }
        }
    }
    let left_out = all.len().saturating_sub(MOST);
    let rows = all.into_iter().take(MOST).map(|((name, detail), (count, cases))| {
        let named = cases.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
        let more = cases.len().saturating_sub(NAMED);
        let cases = if more > 0 { format!("{named} and {more} more") } else { named };
        (GapView { name, detail, rank: None, count }, cases)
    });
    (rows.collect(), left_out)
}

/// Why cases were skipped, and how many for each reason, most frequent first.
pub fn skips(run: &Run) -> Vec<(String, usize)> {
    let mut skips: BTreeMap<String, usize> = BTreeMap::new();
    for case in &run.cases {
        if let Some(Verdict::Skipped { reason }) = case.verdict() {
            *skips.entry(reason.clone()).or_default() += 1;
        }
    }
    let mut skips: Vec<(String, usize)> = skips.into_iter().collect();
    skips.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    skips
}

fn suites(run: &Run, row: &dyn Fn(usize) -> Row) -> Vec<SuiteView> {
    /// Names of cases and the indices of their expansions.
    type Groups = Vec<(String, Vec<usize>)>;
    let mut suites: Vec<(String, Groups)> = Vec::new();
    for (index, case) in run.cases.iter().enumerate() {
        let name = &case.info.suite;
        let position = suites.iter().position(|(suite, _)| suite == name).unwrap_or_else(|| {
            suites.push((name.clone(), Vec::new()));
            suites.len() - 1
        });
        let group = case.info.id.split('[').next().unwrap_or_default();
        let groups = &mut suites[position].1;
        // Expansions of a case follow each other.
        match groups.last_mut() {
            Some((last, members)) if last == group => members.push(index),
            _ => groups.push((group.to_owned(), vec![index])),
        }
    }
    let summary = |members: &mut dyn Iterator<Item = usize>| {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        members.for_each(|index| *counts.entry(word(&run.cases[index])).or_default() += 1);
        let parts: Vec<String> =
            WORDS.iter().filter_map(|word| counts.get(word).map(|count| format!("{count} {word}"))).collect();
        parts.join(", ")
    };
    suites
        .into_iter()
        .map(|(name, groups)| {
            let all = || groups.iter().flat_map(|(_, members)| members.iter().copied());
            SuiteView {
                name,
                summary: summary(&mut all()),
                bad: all().any(|index| is_bad(&run.cases[index])),
                groups: groups
                    .iter()
                    .map(|(name, members)| Group {
                        name: name.clone(),
                        several: members.len() > 1,
                        summary: summary(&mut members.iter().copied()),
                        bad: members.iter().any(|index| is_bad(&run.cases[*index])),
                        rows: members
                            .iter()
                            .map(|index| {
                                let mut row = row(*index);
                                let matrix = row.label.strip_prefix(name.as_str());
                                if let Some(matrix) = matrix.filter(|matrix| members.len() > 1 && !matrix.is_empty()) {
                                    row.label = matrix.trim_matches(['[', ']']).replace(',', ", ");
                                }
                                row
                            })
                            .collect(),
                    })
                    .collect(),
            }
        })
        .collect()
}

fn row(index: usize, case: &CaseRun, before: Option<&Run>, longest: u64, shown: &'static str) -> Row {
    let word = word(case);
    let (last, chosen) = (case.last(), case.shown());
    let mut flags = Vec::new();
    if case.flaky() {
        flags.push("flaky".to_owned());
    }
    if case.attempts.len() > 1 {
        flags.push(words::counted(case.attempts.len(), "attempt"));
    }
    if case.slow() {
        flags.push("slow".to_owned());
    }
    if chosen.is_some_and(|attempt| attempt.hang.is_some()) {
        flags.push("hang".to_owned());
    }
    if let Some(count) = chosen.map(|attempt| attempt.gaps.len()).filter(|count| *count > 0) {
        flags.push(words::counted(count, "gap"));
    }
    let was = before.and_then(|before| before.case(&case.info.case));
    if let Some(was) = was.filter(|was| was.verdict().is_some_and(|verdict| verdict.word() != word)) {
        flags.push(format!("was {}", self::word(was)));
    }
    let search = [
        &case.info.case,
        case.info.title.as_ref().unwrap_or(&String::new()),
        &case.info.tags.join(" "),
        &flags.join(" "),
    ]
    .map(|part| part.to_lowercase())
    .join(" ");
    Row {
        index,
        case: case.info.case.clone(),
        label: case.info.id.clone(),
        word,
        class: class(word),
        duration: if last.is_some() { words::time(case.duration_us() as f64) } else { String::new() },
        bar: case.duration_us() * 100 / longest,
        difference: was.and_then(|was| compare::difference(was, case)),
        flags,
        note: reason(case),
        search,
        shown,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::check::{Failure, FailureKind};
    use crate::observation::{Exit, Role};
    use crate::record::event::{Attempt, CaseInfo, Event, Process, RunInfo, Stream};

    /// The end of a case, after one attempt.
    pub(crate) fn finished(case: &str, verdict: Verdict, duration_us: u64) -> [Event; 2] {
        let attempt = Attempt { number: 1, verdict: verdict.clone(), duration_us, ..Attempt::default() };
        [
            Event::AttemptFinished { case: case.into(), attempt },
            Event::CaseFinished { case: case.into(), verdict, flaky: false, failures: Vec::new(), notes: Vec::new() },
        ]
    }

    /// A run of the cases that these events name.
    pub(crate) fn run(events: &[[Event; 2]]) -> Run {
        let cases = events.iter().filter_map(|[_, end]| match end {
            Event::CaseFinished { case, .. } => {
                let (suite, id) = case.split_once('/').unwrap();
                Some(CaseInfo { case: case.clone(), suite: suite.into(), id: id.into(), ..CaseInfo::default() })
            }
            _ => None,
        });
        let start = Event::RunStarted(RunInfo { run: "r".into(), cases: cases.collect(), ..RunInfo::default() });
        let end = Event::RunFinished { at_ms: 0, duration_us: 0, interrupted: false, exit_code: 1 };
        Run::from_events([&start].into_iter().chain(events.iter().flatten()).chain([&end]))
    }

    fn render(run: &Run, before: Option<&Run>, limits: Limits) -> String {
        page(run, before, limits).unwrap()
    }

    #[test]
    fn nothing_that_a_test_prints_becomes_markup() {
        let evil = "</template></script><script>alert(1)</script><img src=x onerror=alert(1)> \u{1b}[31m\" onclick='x'";
        let [mut attempt, mut end] = finished("s/a", Verdict::Failed, 5);
        let kind = FailureKind::Unknown(evil.into());
        let failure = Failure { kind, expected: evil.into(), got: evil.into(), next: evil.into(), place: None };
        if let Event::AttemptFinished { attempt, .. } = &mut attempt {
            attempt.failures.push(failure.clone());
            attempt.notes.push(evil.into());
            let stream = Stream { bytes: 9, head: evil.into(), ..Stream::default() };
            let process = Process {
                role: Role::Rank(0),
                exit: Exit::Code(1),
                ended: false,
                stdout: stream.clone(),
                stderr: stream,
            };
            attempt.processes.push(process);
        }
        if let Event::CaseFinished { failures, notes, .. } = &mut end {
            failures.push(failure);
            notes.push(evil.into());
        }
        let text = render(&run(&[[attempt, end]]), None, Limits::default());
        assert!(
            text.matches("alert(1)").count() >= 8 && !text.contains("<img") && !text.contains("<script>alert"),
            "{text}"
        );
        assert_eq!((text.matches("</script>").count(), text.matches("<template").count()), (1, 0));
    }

    #[test]
    fn the_page_asks_nobody_for_anything() {
        let text = render(&run(&[finished("s/a", Verdict::Failed, 5)]), None, Limits::default());
        for word in ["http:", "https:", "src=", "@import", "url(", "<link"] {
            assert!(!text.contains(word), "{word}");
        }
    }

    #[test]
    fn what_did_not_pass_comes_first_and_whole() {
        let text = render(
            &run(&[
                finished("s/good", Verdict::Passed, 5),
                finished("s/bad", Verdict::Timeout, 5),
                finished("s/odd", Verdict::Skipped { reason: "no gcc".into() }, 0),
            ]),
            None,
            Limits::default(),
        );
        assert!(text.contains("<h1 class=\"bad\">1 of 3 cases did not pass</h1>"), "{text}");
        assert!(text.find("id=\"case-1\"").unwrap() < text.find("id=\"tree\"").unwrap());
        assert!(text.contains("<template id=\"part-0\">") && !text.contains("<template id=\"part-1\">"));
        assert!(text.contains("ftest run") && text.contains("<b>1</b> no gcc"));
    }

    #[test]
    fn a_large_run_keeps_its_failures_and_says_what_is_missing() {
        let mut events: Vec<[Event; 2]> =
            (0..400).map(|index| finished(&format!("s/case{index}"), Verdict::Passed, 5)).collect();
        events.push(finished("s/last", Verdict::Failed, 5));
        let limits = Limits { full: 4_000, all: 8_000, listed: 30, open: 5 };
        let text = render(&run(&events), None, limits);
        assert!(text.contains("<details class=\"case shown\" id=\"case-400\" open>"));
        assert!(
            text.contains("are without charts and most of their output") && text.contains("are only a line"),
            "{text}"
        );
        assert_eq!(text.matches("<li class=\"row\"").count(), 401);
        assert!(text.len() < 400 * 700, "{}", text.len());
    }

    #[test]
    fn a_run_before_is_compared() {
        let before = run(&[finished("s/a", Verdict::Passed, 5)]);
        let text = render(&run(&[finished("s/a", Verdict::Failed, 5)]), Some(&before), Limits::default());
        assert!(text.contains("Compared with the previous run") && text.contains("was passed"), "{text}");
    }

    #[test]
    fn every_link_to_a_case_leads_somewhere() {
        let skipped = Verdict::Skipped { reason: "no gcc".into() };
        let before = run(&["s/a", "s/b", "s/c"].map(|case| finished(case, Verdict::Passed, 5)));
        let mut now = vec![finished("s/a", Verdict::Failed, 5), finished("s/b", Verdict::Passed, 900_000)];
        now.push([Event::CaseStarted { case: "s/c".into(), at_ms: 0 }, finished("s/c", skipped, 0)[1].clone()]);
        let text = render(&run(&now), Some(&before), Limits::default());
        let linked: BTreeSet<&str> =
            text.split("href=\"#").skip(1).map(|rest| rest.split_once('"').unwrap().0).collect();
        assert!(linked.contains("case-0") && linked.contains("case-2"), "{linked:?}");
        for id in linked {
            assert_eq!(text.matches(&format!("id=\"{id}\"")).count(), 1, "{id}");
        }
    }
}
