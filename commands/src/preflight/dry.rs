//! A run of `ftest exec` that computes nothing and is watched.

use std::cell::RefCell;
use std::io;
use std::path::Path;

use protocol::env;
use runner::execute::collect::reports;
use runner::execute::launch::environment::Environment;

use super::observed::{self, Observed};
use super::probe::Probe;
use crate::after_torch;

const WATCH: &str = include_str!("watch.py");

/// The file from which `watch.py` reads after how many steps it stops the program.
const STEPS: &str = "steps";

/// Settings of an `ftest exec` run for a preflight.
pub(crate) struct Dry<'a> {
    probe: Option<&'a Probe>,
    /// What `--assume` says.
    assumed: &'a [String],
    /// Whether the command's stdout is shown; true only for the first run.
    pub(crate) shows_output: bool,
    /// Where a rank that is run without the others finds what those before it sent, and records what it sends.
    sent: Option<&'a Path>,
    /// After how many steps of its optimizers the program is stopped.
    steps: Option<u32>,
    seen: RefCell<Result<Observed, String>>,
}

impl<'a> Dry<'a> {
    /// Settings for a run.
    pub(super) fn new(
        probe: Option<&'a Probe>,
        assumed: &'a [String],
        shows_output: bool,
        sent: Option<&'a Path>,
        steps: Option<u32>,
    ) -> Dry<'a> {
        Dry { probe, assumed, shows_output, sent, steps, seen: RefCell::new(Err("the command was not run".to_owned())) }
    }

    /// Sets the variables that let the command run without computing and be watched.
    ///
    /// # Errors
    /// A system error: the watcher could not be written.
    pub(crate) fn prepare(&self, environment: &mut Environment, scratch: &Path) -> io::Result<()> {
        let directory = observed::directory(scratch);
        after_torch::install(environment, &directory, WATCH)?;
        if let Some(steps) = self.steps {
            std::fs::write(directory.join(STEPS), steps.to_string())?;
        }
        for (variable, value) in [
            (&env::COMPUTE, "skip"),
            (&env::UNSUPPORTED_API, "allow"),
            (&env::CPU_GEMM_MODE, "skip"),
            (&env::SANITIZE, "none"),
        ] {
            environment.set(variable.name, value);
        }
        environment.set(env::REPORT_PATH.name, reports::device_report_pattern(scratch));
        if let Some(sent) = self.sent {
            std::fs::create_dir_all(sent)?;
            environment.set(env::SENT.name, sent);
        }
        if !self.assumed.is_empty() {
            environment.set(env::ASSUME.name, self.assumed.join(","));
        }
        if let Some(probe) = self.probe {
            environment.set(&probe.name, &probe.value);
        }
        Ok(())
    }

    /// Reads the files the command left, before they are removed.
    pub(crate) fn collect(&self, scratch: &Path, code: i32) {
        *self.seen.borrow_mut() = observed::read(scratch, code);
    }

    /// The observations of the run.
    ///
    /// # Errors
    /// One sentence about what could not be read.
    pub(super) fn into_seen(self) -> Result<Observed, String> {
        self.seen.into_inner()
    }
}
