//! `ftest run`: suites -> cases -> verdicts -> reports -> exit code.

use std::cell::RefCell;
use std::io::Write;
use std::rc::Rc;
use std::sync::Arc;

use crate::case::Case;
use crate::cli::RunArgs;
use crate::commands::suites;
use crate::execute::{Cancel, RunContext};
use crate::exit_code::ExitCode;
use crate::filter::Filter;
use crate::install::Install;
use crate::progress::Progress;
use crate::report::human::HumanReport;
use crate::report::junit::JunitReport;
use crate::schedule::{self, Settings};

/// Runs the command.
pub fn run(arguments: &RunArgs) -> ExitCode {
    let install = Install::find();
    let cases = match select(arguments, &install) {
        Ok(cases) => cases,
        Err(code) => return code,
    };
    if cases.is_empty() {
        let filter = arguments.filter.as_ref().map(|filter| format!(" that `{filter}` accepts")).unwrap_or_default();
        eprintln!("ftest: there is no case{filter}; `ftest run --list {}` shows them", arguments.suites.join(" "));
        return ExitCode::NothingSelected;
    }
    if arguments.list {
        let mut out = std::io::stdout().lock();
        for case in &cases {
            // A closed pipe (`| head`) is the reader's choice.
            if writeln!(out, "{}", case.full_id()).is_err() {
                break;
            }
        }
        return ExitCode::Passed;
    }
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(execute(arguments, install, &cases)),
        Err(error) => {
            eprintln!("ftest: cannot start: {error}");
            ExitCode::CouldNotRun
        }
    }
}

fn select(arguments: &RunArgs, install: &Install) -> Result<Vec<Arc<Case>>, ExitCode> {
    if arguments.suites.is_empty() {
        eprintln!("ftest: name at least one suite{}", suites::choices(install));
        return Err(ExitCode::Usage);
    }
    let filter = arguments.filter.as_deref().map(Filter::parse).transpose().map_err(|error| {
        eprintln!("ftest: {error}");
        ExitCode::Usage
    })?;
    let suites = suites::load(&arguments.suites, install)?;
    let all = suites.into_iter().flat_map(|suite| suite.cases);
    Ok(all.filter(|case| filter.as_ref().is_none_or(|filter| filter.accepts(case))).collect())
}

struct Reports {
    human: HumanReport,
    junit: Option<JunitReport>,
    code: ExitCode,
}

impl Reports {
    fn on(&mut self, progress: &Progress) {
        self.human.on(progress);
        if let Progress::CaseFinished { conclusion, .. } = progress {
            self.code = self.code.max(ExitCode::of(&conclusion.verdict));
        }
        if let Progress::TeardownFailed { .. } = progress {
            self.code = self.code.max(ExitCode::CouldNotRun);
        }
        if let Some(Err(error)) = self.junit.as_mut().map(|junit| junit.on(progress)) {
            eprintln!("ftest: cannot write the JUnit file: {error}");
            self.code = self.code.max(ExitCode::CouldNotRun);
            self.junit = None;
        }
    }
}

async fn execute(arguments: &RunArgs, install: Install, cases: &[Arc<Case>]) -> ExitCode {
    let reports = Rc::new(RefCell::new(Reports {
        human: HumanReport::new(Box::new(anstream::stdout())),
        junit: arguments.junit.clone().map(JunitReport::new),
        code: ExitCode::Passed,
    }));
    let cancel = Cancel::new();
    let (announcer, mut announced) = tokio::sync::mpsc::unbounded_channel();
    let announce = Arc::new(move |step: String| {
        // The run may be over while a thread still speaks; nobody listens then.
        let _ = announcer.send(step);
    });
    let context = match RunContext::start(install, cancel.clone(), announce) {
        Ok(context) => Rc::new(context),
        Err(error) => {
            eprintln!("ftest: {error}");
            return ExitCode::CouldNotRun;
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    let in_ci = std::env::var_os("CI").is_some_and(|ci| !ci.is_empty());
    let settings = Settings {
        slots: arguments.jobs.unwrap_or(cores),
        fail_fast: !arguments.no_fail_fast && !in_ci,
        accept: arguments.accept,
        keep: arguments.keep,
        retry_limit: arguments.retry_limit,
    };
    let run = schedule::run(cases, context, settings, |progress| reports.borrow_mut().on(&progress));
    tokio::pin!(run);
    let mut signals = Signals::new();
    let mut terminated = None;
    loop {
        tokio::select! {
            () = &mut run => break,
            Some(step) = announced.recv() => reports.borrow_mut().on(&Progress::Preparing(step)),
            code = signals.next() => {
                terminated.get_or_insert(code);
                cancel.raise();
                eprintln!("ftest: ending the running cases; once more ends them at once");
            }
        }
    }
    let code = reports.borrow().code;
    terminated.unwrap_or(code)
}

/// The signals that end a run.
struct Signals {
    streams: Vec<(tokio::signal::unix::Signal, ExitCode)>,
}

impl Signals {
    fn new() -> Signals {
        use tokio::signal::unix::{SignalKind, signal};
        let wanted = [
            (SignalKind::interrupt(), ExitCode::Interrupted),
            (SignalKind::terminate(), ExitCode::Terminated),
            (SignalKind::hangup(), ExitCode::Terminated),
        ];
        Signals { streams: wanted.into_iter().filter_map(|(kind, code)| Some((signal(kind).ok()?, code))).collect() }
    }

    async fn next(&mut self) -> ExitCode {
        std::future::poll_fn(|context| {
            for (stream, code) in &mut self.streams {
                if let std::task::Poll::Ready(Some(())) = stream.poll_recv(context) {
                    return std::task::Poll::Ready(*code);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}
