//! What a person reads: one line per case in suite order, everything about a case that did not pass, and a summary.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::case::Case;
use crate::check::{Failure, Verdict};
use crate::progress::{Conclusion, Progress};
use crate::report::{culprit, exits, tail};

/// Lines of stderr that are shown of a case that did not pass.
const TAIL_LINES: usize = 20;
/// Cases named in the progress bar.
const NAMED: usize = 4;

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
    cases: Vec<Arc<Case>>,
    running: Vec<usize>,
    /// Finished, but not yet shown because an earlier one runs.
    waiting: BTreeMap<usize, Arc<Conclusion>>,
    next: usize,
    counts: BTreeMap<&'static str, usize>,
    skips: BTreeMap<String, usize>,
}

impl HumanReport {
    /// A report to `out`. The bar shows only on a terminal that is no CI log.
    pub fn new(out: Box<dyn Write>) -> HumanReport {
        let terminal = std::io::stderr().is_terminal() && std::env::var_os("CI").is_none();
        HumanReport {
            out,
            bar: terminal.then(|| ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr())),
            cases: Vec::new(),
            running: Vec::new(),
            waiting: BTreeMap::new(),
            next: 0,
            counts: BTreeMap::new(),
            skips: BTreeMap::new(),
        }
    }

    /// Shows what happened.
    pub fn on(&mut self, progress: &Progress) {
        match progress {
            Progress::RunStarted { cases, .. } => self.start(cases),
            Progress::Preparing(what) => match &self.bar {
                Some(bar) => bar.set_message(what.clone()),
                None => self.print(&format!("{DIM}      ... {what}{RESET}\n")),
            },
            Progress::CaseStarted { index } => {
                self.running.push(*index);
                self.show_running();
            }
            Progress::CaseFinished { index, conclusion } => {
                self.running.retain(|running| running != index);
                self.waiting.insert(*index, Arc::clone(conclusion));
                if let Some(bar) = &self.bar {
                    bar.inc(1);
                }
                self.show_running();
                while let Some(conclusion) = self.waiting.remove(&self.next) {
                    self.show(self.next, &conclusion);
                    self.next += 1;
                }
            }
            Progress::TeardownFailed { fixture, failure } => {
                let mut text = String::new();
                failures(&mut text, std::slice::from_ref(failure));
                self.print(&format!("{RED}{:>8}{RESET} the teardown of {fixture}\n{}", "error", indent(&text, "    ")));
            }
            Progress::RunFinished { duration, interrupted } => self.finish(*duration, *interrupted),
        }
    }

    fn start(&mut self, cases: &[Arc<Case>]) {
        self.cases = cases.to_vec();
        if let Some(bar) = &self.bar {
            if let Ok(style) = ProgressStyle::with_template("{pos}/{len} [{bar:24}] {elapsed} {wide_msg}") {
                bar.set_style(style.progress_chars("=> "));
            }
            bar.set_length(cases.len() as u64);
            bar.enable_steady_tick(Duration::from_millis(250));
        }
    }

    fn show_running(&self) {
        let Some(bar) = &self.bar else { return };
        let mut names: Vec<String> =
            self.running.iter().take(NAMED).map(|index| self.cases[*index].full_id()).collect();
        if self.running.len() > NAMED {
            names.push(format!("and {} more", self.running.len() - NAMED));
        }
        bar.set_message(names.join(", "));
    }

    fn show(&mut self, index: usize, conclusion: &Conclusion) {
        let case = Arc::clone(&self.cases[index]);
        *self.counts.entry(conclusion.verdict.word()).or_default() += 1;
        let color = match conclusion.verdict {
            Verdict::Passed => GREEN,
            Verdict::Skipped(_) | Verdict::Xfailed(_) => YELLOW,
            Verdict::Failed | Verdict::Broken | Verdict::Timeout => RED,
        };
        let mut text = format!(
            "{color}{:>8}{RESET} {DIM}[{:>8.3} s]{RESET} {}",
            conclusion.verdict.word(),
            conclusion.duration().as_secs_f64(),
            case.full_id()
        );
        if conclusion.flaky {
            let _ = write!(text, " {YELLOW}(flaky: attempt {} passed){RESET}", conclusion.attempts.len());
        }
        if conclusion.slow() {
            let _ = write!(text, " {YELLOW}(slow: longer than {} s){RESET}", case.timeout.slow.as_secs_f64());
        }
        if let Verdict::Skipped(reason) | Verdict::Xfailed(reason) = &conclusion.verdict {
            let _ = write!(text, " {DIM}({reason}){RESET}");
        }
        if let Verdict::Skipped(reason) = &conclusion.verdict {
            *self.skips.entry(reason.clone()).or_default() += 1;
        }
        text.push('\n');
        if !conclusion.verdict.is_neutral() || conclusion.flaky {
            text.push_str(&indent(&details(&case, conclusion), "    "));
        } else {
            for note in &conclusion.notes {
                let _ = writeln!(text, "    note: {note}");
            }
            for attempt in conclusion.attempts.iter().filter(|attempt| attempt.kept) {
                let _ = writeln!(text, "    kept: {}", attempt.observation.scratch.display());
            }
        }
        self.print(&text);
    }

    fn finish(&mut self, duration: Duration, interrupted: bool) {
        // Cases behind one that never ran are shown all the same.
        for (index, conclusion) in std::mem::take(&mut self.waiting) {
            self.show(index, &conclusion);
        }
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        let shown: usize = self.counts.values().sum();
        let mut parts: Vec<String> = ["passed", "xfailed", "failed", "broken", "timeout", "skipped"]
            .into_iter()
            .filter_map(|word| self.counts.get(word).map(|count| format!("{count} {word}")))
            .collect();
        if self.cases.len() > shown {
            parts.push(format!("{} not run", self.cases.len() - shown));
        }
        let mut text = String::new();
        if interrupted {
            text.push_str("interrupted\n");
        }
        let plural = if self.cases.len() == 1 { "case" } else { "cases" };
        let _ = writeln!(
            text,
            "{BOLD}{} {plural}{RESET}: {} in {:.1} s",
            self.cases.len(),
            parts.join(", "),
            duration.as_secs_f64()
        );
        if !interrupted {
            for (reason, count) in &self.skips {
                let _ = writeln!(text, "  skipped {count}: {reason}");
            }
        }
        self.print(&text);
    }

    /// Prints above the bar. A closed stdout is no reason to fail: the exit code still tells.
    fn print(&mut self, text: &str) {
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

/// Everything about a case that did not pass, without color: also the text of a JUnit failure.
pub fn details(case: &Case, conclusion: &Conclusion) -> String {
    let mut text = String::new();
    let (number, outcome) = conclusion.shown();
    let observation = &outcome.observation;
    if let Some(title) = &case.title {
        let _ = writeln!(text, "{title}");
    }
    failures(&mut text, &conclusion.failures);
    for note in &conclusion.notes {
        let _ = writeln!(text, "note: {note}");
    }
    if conclusion.attempts.len() > 1 {
        for (index, attempt) in conclusion.attempts.iter().enumerate() {
            let kept =
                if attempt.kept { format!(", kept: {}", attempt.observation.scratch.display()) } else { String::new() };
            let _ = writeln!(text, "attempt {}: {}{kept}", index + 1, attempt.verdict.word());
        }
        let _ = writeln!(text, "attempt {number} in full:");
    }
    failures(&mut text, &outcome.failures);
    if !observation.processes.is_empty() {
        let _ = writeln!(text, "exits: {}", exits(observation));
    }
    for detail in observation.hang.iter().flat_map(|hang| &hang.details) {
        let _ = writeln!(text, "hang: {detail}");
    }
    for note in &observation.notes {
        let _ = writeln!(text, "note: {note}");
    }
    if let Some(process) = culprit(case, observation).and_then(|role| observation.process(role)) {
        for (name, stream) in [("stderr", &process.stderr), ("stdout", &process.stdout)] {
            let lines = tail(stream, TAIL_LINES);
            if !lines.is_empty() {
                let _ = writeln!(
                    text,
                    "{name} of {} (last {} lines of {}):",
                    process.role,
                    lines.len(),
                    stream.path.display()
                );
                for line in lines {
                    let _ = writeln!(text, "  | {line}");
                }
                break;
            }
        }
    }
    if outcome.kept && conclusion.attempts.len() == 1 {
        let _ = writeln!(text, "kept: {}", observation.scratch.display());
    }
    let _ = writeln!(text, "again: ftest run {} --filter '{}'", case.place.file.display(), case.full_id());
    text
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
