//! Progress output while an environment is made. On a terminal: a spinner with the elapsed time, after a first message that
//! names the cost. Elsewhere: lines.

use std::cell::Cell;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::host::printable;

/// What is said while an environment is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said<'a> {
    /// What begins now.
    Step(&'a str),
    /// How far it is, several times a second: `downloading torch: 120 of 514 MB`.
    Amount(&'a str),
}

impl Said<'_> {
    /// Whether it is a step, and the text.
    pub fn owned(self) -> (bool, String) {
        match self {
            Said::Step(text) => (true, text.to_owned()),
            Said::Amount(text) => (false, text.to_owned()),
        }
    }
}

/// In a log, amounts this far apart are enough.
pub const SELDOM: Duration = Duration::from_secs(15);

/// Shows steps on stderr.
#[derive(Debug)]
pub struct Steps {
    bar: Option<ProgressBar>,
    started: Instant,
    announced: Cell<bool>,
    /// When a line was printed.
    said: Cell<Instant>,
}

impl Default for Steps {
    fn default() -> Self {
        Steps::new()
    }
}

impl Steps {
    /// Nothing is shown before the first step.
    pub fn new() -> Steps {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}");
            ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
        });
        let now = Instant::now();
        Steps { bar, started: now, announced: Cell::new(false), said: Cell::new(now) }
    }

    /// Shows what is being done now.
    pub fn show(&self, said: Said<'_>) {
        let (is_step, text) = said.owned();
        match &self.bar {
            Some(bar) => {
                if is_step && !self.announced.replace(true) {
                    bar.println(format!("ftest: {}", printable::visible(&text)));
                    return;
                }
                bar.enable_steady_tick(Duration::from_millis(120));
                bar.set_message(printable::visible(&text));
            }
            None if is_step || self.said.get().elapsed() >= SELDOM => {
                self.said.set(Instant::now());
                eprintln!("ftest: [{:>3} s] {text}", self.started.elapsed().as_secs());
            }
            None => {}
        }
    }

    /// Removes the spinner.
    pub fn done(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
