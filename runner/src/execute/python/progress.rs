//! Progress output while an environment is made. On a terminal: a spinner with the elapsed time, after a first message that
//! names the cost. Elsewhere: lines.

use std::cell::Cell;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::host::printable;

/// Shows steps on stderr.
#[derive(Debug)]
pub struct Steps {
    bar: Option<ProgressBar>,
    started: Instant,
    announced: Cell<bool>,
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
        Steps { bar, started: Instant::now(), announced: Cell::new(false) }
    }

    /// Shows that `step` is being done now.
    pub fn show(&self, step: &str) {
        match &self.bar {
            Some(bar) => {
                if !self.announced.replace(true) {
                    bar.println(format!("ftest: {}", printable::visible(step)));
                    return;
                }
                bar.enable_steady_tick(Duration::from_millis(120));
                bar.set_message(printable::visible(step));
            }
            None => eprintln!("ftest: [{:>3} s] {step}", self.started.elapsed().as_secs()),
        }
    }

    /// Removes the spinner.
    pub fn done(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
