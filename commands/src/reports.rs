//! What a run, a replay and a merge of shards have in common: the run so far, and the reports on it.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use runner::execute::python::SELDOM;
use runner::execute::run::clock::Instant;
use runner::execute::run::context::Announcement;
use runner::host::output;
use runner::host::variable;
use runner::record::event::Event;
use runner::record::{Recorder, Run, Runs};
use runner::report::files::FileArgs;
use runner::report::html::compare;
use runner::report::human::HumanReport;
use runner::report::junit::Profile;
use runner::report::junit_file::JunitFile;
use runner::report::step_change;
use runner::verdict::exit_code::ExitCode;

/// Which reports are written.
#[derive(Args, Clone, Debug, Default)]
pub struct ReportArgs {
    /// Also show the interpreter of each case that passed, and the versions of its packages
    #[arg(short, long, help_heading = "Reports")]
    pub verbose: bool,
    /// Write JUnit XML to this file, also during the run
    #[arg(long, value_name = "FILE", help_heading = "Reports")]
    pub junit: Option<PathBuf>,
    /// The dialect of the JUnit file
    #[arg(long, value_enum, default_value_t = Profile::Rich, value_name = "PROFILE", help_heading = "Reports")]
    pub junit_profile: Profile,
    /// Reports of the run as a whole
    #[command(flatten)]
    pub files: FileArgs,
}

impl ReportArgs {
    /// Complains about two reports that would be written to one file.
    ///
    /// # Errors
    /// The exit code.
    pub fn check(&self) -> Result<(), ExitCode> {
        let files = &self.files;
        let named = [
            ("--junit", &self.junit),
            ("--html", &files.html),
            ("--trace", &files.trace),
            ("--markdown", &files.markdown),
        ];
        let named: Vec<(&str, &PathBuf)> =
            named.into_iter().filter_map(|(option, path)| Some((option, path.as_ref()?))).collect();
        for (index, (option, path)) in named.iter().enumerate() {
            if let Some((other, _)) = named[..index].iter().find(|(_, other)| is_same_file(other, path)) {
                eprintln!("ftest: {other} and {option} name one file, {}; give each its own", path.display());
                return Err(ExitCode::Usage);
            }
        }
        Ok(())
    }
}

/// Whether both paths lead to one regular file, which may not exist yet.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let settled = |path: &Path| {
        path.canonicalize().unwrap_or_else(|_| {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let parent = parent.canonicalize().unwrap_or_else(|_| parent.to_owned());
            parent.join(path.file_name().unwrap_or_default())
        })
    };
    let is_special = |path: &Path| path.metadata().is_ok_and(|file| !file.is_file());
    settled(one) == settled(other) && !is_special(one)
}

/// Where runs are kept.
#[derive(Args, Clone, Debug, Default)]
pub struct RunsArgs {
    /// The directory of the kept runs [default: .ftest/runs]
    #[arg(long, value_name = "DIR", help_heading = "Runs")]
    pub runs_dir: Option<PathBuf>,
}

impl RunsArgs {
    /// The directory given here or in `FTEST_RUNS_DIR`.
    pub fn runs(&self) -> Runs {
        let named = self.runs_dir.clone().or_else(|| variable::get(protocol::env::RUNS.name).map(PathBuf::from));
        Runs::new(named.as_deref())
    }
}

/// The run so far, and the reports on it.
pub struct Reports {
    run: Run,
    recorder: Recorder,
    human: HumanReport,
    junit: Option<JunitFile>,
    files: FileArgs,
    junit_failed: bool,
    unwritten: bool,
    printing: bool,
    /// When an amount was last logged.
    amount: Instant,
}

impl Reports {
    /// The reports requested by `arguments` on `run`, from now on. Events go through `recorder` first.
    pub fn new(arguments: &ReportArgs, run: Run, recorder: Recorder, human: HumanReport) -> Reports {
        let junit = arguments.junit.clone().map(|path| JunitFile::new(path, arguments.junit_profile));
        let files = arguments.files.clone();
        let human = human.verbose(arguments.verbose);
        Reports {
            run,
            recorder,
            human,
            junit,
            files,
            junit_failed: false,
            unwritten: false,
            printing: false,
            amount: Instant::now(),
        }
    }

    /// The same, but prints only events, each as a line of the log. GitHub then gets only the job summary.
    pub fn printing_events(mut self) -> Reports {
        self.printing = true;
        self.files.quiet = true;
        self
    }

    /// Records an event and shows it.
    pub fn on(&mut self, event: Event) {
        let event = self.recorder.record(event);
        if self.printing {
            print(&event);
        }
        self.run.apply(&event);
        self.human.on(&self.run, &event);
        let written = self.junit.as_mut().map(|junit| junit.on(&self.run, &event));
        self.check(written, matches!(event, Event::RunFinished { .. }));
        if matches!(event, Event::RunFinished { .. }) {
            self.write_files();
        }
    }

    /// Shows an announcement; returns what belongs into the log.
    pub fn announced(&mut self, announcement: Announcement) -> Option<String> {
        match announcement {
            Announcement::Step(step) => {
                self.amount = Instant::now();
                Some(step)
            }
            Announcement::Amount(amount) => {
                self.human.amount(&self.run, &amount);
                let due = self.amount.elapsed() >= SELDOM && !self.human.has_bar();
                due.then(|| {
                    self.amount = Instant::now();
                    amount
                })
            }
            Announcement::Waits(case) => {
                self.human.waits(&self.run, &case, true);
                None
            }
            Announcement::Goes(case) => {
                self.human.waits(&self.run, &case, false);
                None
            }
        }
    }

    /// Writes the reports on the run as a whole.
    pub fn write_files(&mut self) {
        let is_timed = || self.run.cases.iter().any(step_change::is_timed);
        let before = if self.files.compares() || is_timed() { compare::before(&self.run) } else { None };
        for (index, sentence) in before.iter().flat_map(|before| step_change::changes(before, &self.run)) {
            eprintln!("ftest: {}: {sentence}", self.run.cases[index].info.case);
        }
        for mistake in self.files.write(&self.run, before.as_ref()).err().unwrap_or_default() {
            eprintln!("ftest: {mistake}");
            self.unwritten = true;
        }
    }

    /// Writes whatever is due.
    pub fn refresh(&mut self) {
        self.human.refresh(&self.run);
        let written = self.junit.as_mut().map(|junit| junit.refresh(&self.run));
        self.check(written, false);
    }

    /// A file that could not be written during the run may still be written at the end: only the `last` attempt counts.
    fn check(&mut self, written: Option<std::io::Result<()>>, last: bool) {
        let Some(Err(error)) = written else { return };
        if last || !std::mem::replace(&mut self.junit_failed, true) {
            let path = self.junit.as_ref().map(|junit| junit.path().display().to_string()).unwrap_or_default();
            eprintln!("ftest: cannot write the JUnit file {path}: {error}");
        }
        self.unwritten |= last;
    }

    /// The run.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// The exit code that follows from the reports.
    pub fn code(&self) -> ExitCode {
        if self.unwritten { ExitCode::CouldNotRun } else { ExitCode::Passed }
    }
}

/// Prints a line on standard output. A reader that is gone has also closed the input, which ends the run.
fn print(event: &Event) {
    let mut line = serde_json::to_vec(event).unwrap_or_default();
    line.push(b'\n');
    let mut out = output::stdout();
    let _ = out.write_all(&line).and_then(|()| out.flush());
}

impl Drop for Reports {
    /// After a panic, the file contains everything that happened before it.
    fn drop(&mut self) {
        if let Some(junit) = &mut self.junit {
            let _ = junit.finish(&self.run);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_reports_have_two_files() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("there"), "").unwrap();
        std::os::unix::fs::symlink(path("there"), path("link")).unwrap();
        let same = |one: &str, other: &str| is_same_file(&path(one), &path(other));
        assert!(same("x", "./x") && same("there", "link") && same("new", "new"));
        assert!(!same("x", "y") && !same("there", "x"));
        assert!(!is_same_file(Path::new("/dev/null"), Path::new("/dev/null")));
    }
}
