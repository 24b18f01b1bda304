//! The report for people: one line per case in suite order, everything about a case that did not pass, and a summary.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::check::{Failure, FailureKind};
use crate::execute::run::clock::Instant;
use crate::host::printable;
use crate::host::variable;
use crate::observation::Exit;
use crate::record::event::{Attempt, Event};
use crate::record::{CaseRun, Run};
use crate::report::{counts, exits, github, seconds, words};
use crate::verdict::Verdict;

/// Lines of stderr shown for a case that did not pass.
const TAIL_LINES: usize = 20;
/// Cases named in the progress bar.
const NAMED: usize = 4;
/// A run with more cases than this ends with a list of those that did not pass.
const MANY: usize = 20;

const GREEN: &str = "\x1b[32m";
const RED: &str = "\x1b[31m";
const YELLOW: &str = "\x1b[33m";
const DIM: &str = "\x1b[2m";
const BOLD: &str = "\x1b[1m";
const RESET: &str = "\x1b[0m";

/// Writes to stdout as the run goes on; the bar is on stderr.
pub struct HumanReport {
    out: Box<dyn Write>,
    bar: Option<ProgressBar>,
    /// Running cases, by index in the run, and when each started.
    running: Vec<(usize, Instant)>,
    /// Those that wait for their Python, by index: their time does not count.
    unready: BTreeSet<usize>,
    /// What they wait for.
    preparing: String,
    /// Finished, but not yet shown because an earlier case still runs.
    waiting: BTreeSet<usize>,
    next: usize,
    /// Number of cases that did not pass so far.
    bad: usize,
    started: Instant,
    skips: BTreeMap<String, usize>,
    groups: bool,
    verbose: bool,
}

impl HumanReport {
    /// A report to `out`, with a `bar` on a terminal that is not a CI log.
    pub fn new(out: Box<dyn Write>, bar: bool) -> HumanReport {
        let terminal = bar && std::io::stderr().is_terminal() && !variable::is_set("CI");
        HumanReport {
            out,
            bar: terminal.then(|| ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr())),
            running: Vec::new(),
            unready: BTreeSet::new(),
            preparing: String::new(),
            waiting: BTreeSet::new(),
            next: 0,
            bad: 0,
            started: Instant::now(),
            skips: BTreeMap::new(),
            groups: false,
            verbose: false,
        }
    }

    /// The same, also with the interpreter of each case that passed, if `verbose`.
    pub fn verbose(self, verbose: bool) -> HumanReport {
        HumanReport { verbose, ..self }
    }

    /// The same, but text that may contain output of programs goes into `groups` of GitHub's log, in which no line is a
    /// command.
    pub fn in_groups(self, groups: bool) -> HumanReport {
        HumanReport { groups, ..self }
    }

    /// Shows an event that `run` has already recorded.
    pub fn on(&mut self, run: &Run, event: &Event) {
        match event {
            Event::RunStarted(_) => self.start(run),
            Event::Preparing { what } => {
                self.preparing = printable::one_line(what);
                self.refresh(run);
                self.print(&format!("{DIM}      ... {}{RESET}\n", self.preparing));
            }
            Event::CaseStarted { case, .. } => {
                self.running.extend(run.position(case).map(|index| (index, Instant::now())));
                self.refresh(run);
            }
            Event::AttemptFinished { case, attempt } => self.iteration(run, case, attempt),
            Event::CaseFinished { case, verdict, .. } => {
                let Some(index) = run.position(case) else { return };
                self.running.retain(|(running, _)| *running != index);
                self.bad += usize::from(!verdict.is_neutral());
                self.waiting.insert(index);
                if let Some(bar) = &self.bar {
                    bar.inc(1);
                }
                self.refresh(run);
                while self.waiting.remove(&self.next) {
                    self.show(&run.cases[self.next]);
                    self.next += 1;
                }
            }
            Event::TeardownFailed { fixture, failure } => {
                let text = self.section(&format!("the teardown of {fixture}"), &failure_text(failure));
                self.print(&format!("{RED}{:>8}{RESET} the teardown of {fixture}\n{text}", "error"));
            }
            Event::RunFinished { duration_us, interrupted, .. } => self.finish(run, *duration_us, *interrupted),
        }
    }

    /// Whether a bar shows what happens now, so that lines need not.
    pub fn has_bar(&self) -> bool {
        self.bar.is_some()
    }

    /// Shows how far the preparation is.
    pub fn amount(&mut self, run: &Run, amount: &str) {
        amount.clone_into(&mut self.preparing);
        self.refresh(run);
    }

    /// Notes that a case waits for its Python, or no longer: then its time begins.
    pub fn waits(&mut self, run: &Run, case: &str, waits: bool) {
        let Some(index) = run.position(case) else { return };
        if waits {
            self.unready.insert(index);
        } else {
            self.unready.remove(&index);
            let of_case = self.running.iter_mut().filter(|(running, _)| *running == index);
            of_case.for_each(|(_, since)| *since = Instant::now());
        }
        self.refresh(run);
    }

    fn start(&mut self, run: &Run) {
        if let Some(seed) = run.info.seed {
            self.print(&format!("{DIM}in random order; --shuffle={seed} repeats it{RESET}\n"));
        }
        if let Some(bar) = &self.bar {
            if let Ok(style) = ProgressStyle::with_template("{pos}/{len} [{bar:24}] {wide_msg}") {
                bar.set_style(style.progress_chars("=> "));
            }
            bar.set_length(run.cases.len() as u64);
            bar.enable_steady_tick(Duration::from_millis(250));
        }
    }

    /// A line for each iteration of a run that makes several.
    fn iteration(&mut self, run: &Run, case: &str, attempt: &Attempt) {
        if run.info.rounds.is_none() {
            return;
        }
        let index = run.position(case);
        self.running.retain(|(running, _)| Some(*running) != index);
        self.refresh(run);
        let (word, number) = (attempt.verdict.word(), attempt.number);
        let color = if attempt.verdict.is_neutral() { GREEN } else { RED };
        let time = seconds(attempt.duration_us);
        self.print(&format!(
            "{color}{word:>8}{RESET} {DIM}[{time:>8.3} s]{RESET} {case} {DIM}iteration {number}{RESET}\n"
        ));
    }

    /// Redraws the bar: how many cases did not pass, and which ones run since when.
    pub fn refresh(&self, run: &Run) {
        let Some(bar) = &self.bar else { return };
        let running = |(index, since): &(usize, Instant)| {
            let time = (!self.unready.contains(index)).then(|| since.elapsed());
            running(&run.cases[*index], time)
        };
        let mut parts: Vec<String> = self.running.iter().take(NAMED).map(running).collect();
        if self.running.len() > NAMED {
            parts.push(format!("and {} more", self.running.len() - NAMED));
        }
        if !self.unready.is_empty() && !self.preparing.is_empty() {
            parts.insert(0, self.preparing.clone());
        }
        let bad = if self.bad > 0 { format!("{} not passed; ", self.bad) } else { String::new() };
        let running = printable::visible(&parts.join(", "));
        bar.set_message(format!("{} s  {bad}{running}", self.started.elapsed().as_secs()));
    }

    fn show(&mut self, case: &CaseRun) {
        let Some(verdict) = case.verdict() else { return };
        let color = match verdict {
            Verdict::Passed => GREEN,
            Verdict::Skipped { .. } | Verdict::Xfailed { .. } => YELLOW,
            Verdict::Failed | Verdict::Broken | Verdict::Timeout => RED,
        };
        let mut text = format!(
            "{color}{:>8}{RESET} {DIM}[{:>8.3} s]{RESET} {}",
            verdict.word(),
            seconds(case.duration_us()),
            case.info.case
        );
        if case.flaky() {
            let _ = write!(text, " {YELLOW}(flaky: attempt {} passed){RESET}", case.attempts.len());
        }
        if case.slow() {
            let _ = write!(text, " {YELLOW}(slow: longer than {} s){RESET}", seconds(case.info.slow_us));
        }
        if let Verdict::Skipped { reason } | Verdict::Xfailed { reason } = verdict {
            let _ = write!(text, " {DIM}({}){RESET}", printable::one_line(reason));
        }
        if let Verdict::Skipped { reason } = verdict {
            *self.skips.entry(reason.clone()).or_default() += 1;
        }
        text.push('\n');
        if !verdict.is_neutral() || case.flaky() {
            text.push_str(&self.section(&format!("{} in full", case.info.case), &details(case)));
        } else {
            let python = case.shown().and_then(|attempt| attempt.python.as_ref());
            if let Some(python) = python.filter(|_| self.verbose) {
                let _ = writeln!(text, "    python: {python}");
            }
            for note in case.notes() {
                let _ = writeln!(text, "    note: {}", continued(note));
            }
            for kept in case.attempts.iter().filter_map(|attempt| attempt.kept.as_ref()) {
                let _ = writeln!(text, "    kept: {}", kept.display());
            }
        }
        self.print(&text);
    }

    /// `text`, which may contain program output, below its line.
    fn section(&self, title: &str, text: &str) -> String {
        let text = indent(text, "    ");
        if self.groups { github::group(title, &text) } else { text }
    }

    fn finish(&mut self, run: &Run, duration_us: u64, interrupted: bool) {
        // Cases after one that never ran are still shown.
        for index in std::mem::take(&mut self.waiting) {
            self.show(&run.cases[index]);
        }
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        let mut text = String::new();
        if interrupted {
            text.push_str("interrupted\n");
        }
        let all = words::counted(run.cases.len(), "case");
        let _ = writeln!(text, "{BOLD}{all}{RESET}: {} in {:.1} s", counts(run), seconds(duration_us));
        if !interrupted {
            for (reason, count) in &self.skips {
                let _ = writeln!(text, "  skipped {count}: {}", printable::one_line(reason));
            }
        }
        for what in &run.info.missing {
            let _ = writeln!(text, "{RED}incomplete{RESET}: {what}");
        }
        if run.cases.len() > MANY {
            text.push_str(&not_passed(run));
        }
        self.print(&text);
    }

    /// Prints above the bar. A closed stdout is not an error: the exit code still has the result.
    fn print(&mut self, text: &str) {
        // Reasons and names may contain text from a program or another person's suite.
        let text = printable::on_terminal(text);
        let out = &mut self.out;
        let mut write = || {
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        };
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }
}

/// A case in the bar: "dist/all-reduce (4 ranks, 12 s)", or without a time while it waits for its Python.
fn running(case: &CaseRun, time: Option<Duration>) -> String {
    let ranks = match case.info.world_size {
        Some(1) => "1 rank, ".to_owned(),
        Some(size) => format!("{size} ranks, "),
        None => String::new(),
    };
    match time {
        Some(time) => format!("{} ({ranks}{} s)", case.info.case, time.as_secs()),
        None => format!("{} ({ranks}waits for its Python)", case.info.case),
    }
}

/// The cases that did not pass, one per line, because in a long run they have scrolled away.
fn not_passed(run: &Run) -> String {
    let bad = run.cases.iter().filter_map(|case| Some((case, case.verdict().filter(|verdict| !verdict.is_neutral())?)));
    let lines: Vec<String> =
        bad.map(|(case, verdict)| format!("{RED}{:>8}{RESET} {}\n", verdict.word(), case.info.case)).collect();
    if lines.is_empty() { String::new() } else { format!("not passed:\n{}", lines.concat()) }
}

/// Everything about a case that did not pass, without color; also used as the text of a JUnit failure.
pub fn details(case: &CaseRun) -> String {
    let mut text = String::new();
    if let Some(title) = &case.info.title {
        let _ = writeln!(text, "{}", printable::one_line(title));
    }
    failures(&mut text, case.policy_failures());
    for note in case.notes() {
        let _ = writeln!(text, "note: {}", continued(note));
    }
    let shown = case.shown();
    let iterations = case.policy_failures().iter().any(|failure| failure.kind == FailureKind::Iterations);
    if iterations {
        if let Some(shown) = shown {
            let _ = writeln!(text, "iteration {} in full:", shown.number);
        }
    } else if case.attempts.len() > 1 {
        for attempt in &case.attempts {
            let kept = attempt.kept.as_ref().map(|kept| format!(", kept: {}", kept.display())).unwrap_or_default();
            let _ = writeln!(text, "attempt {}: {}{kept}", attempt.number, attempt.verdict.word());
        }
        if let Some(shown) = shown {
            let _ = writeln!(text, "attempt {} in full:", shown.number);
        }
    }
    if let Some(attempt) = shown {
        text.push_str(&attempt_details(attempt));
        if let Some(kept) = attempt.kept.as_ref().filter(|_| case.attempts.len() == 1 || iterations) {
            let _ = writeln!(text, "kept: {}", kept.display());
        }
    }
    let _ = writeln!(text, "again: {}", words::rerun(case));
    printable::visible(&text)
}

/// The failed checks of one attempt, how its processes ended, and the last output of the most informative one.
pub fn attempt_details(attempt: &Attempt) -> String {
    let mut text = String::new();
    failures(&mut text, &attempt.failures);
    if !attempt.processes.is_empty() {
        let _ = writeln!(text, "exits: {}", exits(attempt));
    }
    if let Some(python) = &attempt.python {
        let _ = writeln!(text, "python: {python}");
    }
    for detail in attempt.hang.iter().flat_map(|hang| &hang.details) {
        let _ = writeln!(text, "hang: {detail}");
    }
    for note in &attempt.notes {
        let _ = writeln!(text, "note: {}", continued(note));
    }
    let culprit = attempt.processes.iter().find(|process| Some(process.role) == attempt.culprit);
    let streams = culprit.map(|process| [("stderr", &process.stderr), ("stdout", &process.stdout)]);
    for (name, stream) in streams.into_iter().flatten() {
        let lines = stream.last(TAIL_LINES);
        if let Some(process) = culprit.filter(|_| !lines.is_empty()) {
            let of = stream.file.as_ref().map(|file| format!(" of {}", file.display())).unwrap_or_default();
            let _ = writeln!(text, "{name} of {} (last {} lines{of}):", process.role, lines.len());
            for line in lines {
                let _ = writeln!(text, "  | {line}");
            }
            // Where nothing went wrong by its exit, stderr may have no more than warnings.
            if process.exit != Exit::Code(0) {
                break;
            }
        }
    }
    printable::visible(&text)
}

/// A failure that belongs to no case.
pub fn failure_text(failure: &Failure) -> String {
    let mut text = String::new();
    failures(&mut text, std::slice::from_ref(failure));
    printable::visible(&text)
}

fn failures(text: &mut String, failures: &[Failure]) {
    for failure in failures {
        match &failure.place {
            Some(place) => {
                let _ = writeln!(text, "{} ({place})", failure.kind);
            }
            None => {
                let _ = writeln!(text, "{}", failure.kind);
            }
        }
        field(text, "expected", &failure.expected);
        field(text, "got", &failure.got);
        if !failure.next.is_empty() {
            field(text, "next", &failure.next);
        }
    }
}

/// Text after `note: `; further lines are indented, so that none looks like one of ours.
fn continued(text: &str) -> String {
    text.lines().collect::<Vec<_>>().join("\n      ")
}

fn field(text: &mut String, name: &str, value: &str) {
    let mut lines = value.lines();
    let _ = writeln!(text, "  {:<9} {}", format!("{name}:"), lines.next().unwrap_or_default());
    for line in lines {
        let _ = writeln!(text, "            {line}");
    }
}

fn indent(text: &str, by: &str) -> String {
    text.lines().map(|line| if line.is_empty() { "\n".to_owned() } else { format!("{by}{line}\n") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::event::CaseInfo;

    fn case(id: &str, world_size: Option<u32>) -> CaseRun {
        let mut info = CaseInfo { case: id.into(), world_size, ..CaseInfo::default() };
        info.place.file = "s.yaml".into();
        CaseRun::new(info)
    }

    #[test]
    fn the_bar_shows_ranks_and_time() {
        let time = Some(Duration::from_millis(12_900));
        assert_eq!(running(&case("s/a", Some(4)), time), "s/a (4 ranks, 12 s)");
        assert_eq!(running(&case("s/a", None), time), "s/a (12 s)");
        assert_eq!(running(&case("s/a", Some(4)), None), "s/a (4 ranks, waits for its Python)");
    }

    #[test]
    fn a_case_is_run_again_by_a_filter_that_means_it() {
        assert_eq!(words::rerun(&case("s/a[w=2]", None)), "ftest run s.yaml --filter 's/a[w=2]'");
        assert_eq!(words::rerun(&case("s/a[c=x y]", None)), "ftest run s.yaml --filter 'id(=\"s/a[c=x y]\")'");
        assert_eq!(words::rerun(&case("s/a[c=it's]", None)), "ftest run s.yaml --filter \"id(=s/a[c=it's])\"");
    }
}
