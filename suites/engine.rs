//! The thread that runs cases for the threads of libtest: fixtures with the scope of a suite are set up once, as in `ftest`.

use std::io;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use libtest_mimic::{Completion, Failed};
use runner::case::Case;
use runner::record::CaseRun;
use runner::report::human;
use runner::schedule::Settings;
use runner::schedule::attempts;
use runner::schedule::resources::SharedPool;
use runner::schedule::run_resources::RunResources;
use runner::verdict::Verdict;
use tokio::sync::mpsc as work;
use tokio::task::LocalSet;

/// The thread, and the way to it.
pub(crate) struct Engine {
    work: work::UnboundedSender<Request>,
    thread: JoinHandle<Vec<String>>,
}

struct Request {
    case: Arc<Case>,
    answer: mpsc::SyncSender<Result<Completion, Failed>>,
}

/// A case that was handed over.
pub(crate) struct Pending(mpsc::Receiver<Result<Completion, Failed>>);

impl Pending {
    /// What became of it.
    ///
    /// # Errors
    /// It did not pass, with what a user would read.
    pub(crate) fn wait(self) -> Result<Completion, Failed> {
        self.0.recv().map_err(|_| Failed::from("the engine panicked; its message is above"))?
    }
}

impl Engine {
    /// Starts the thread. `cases` are all that may come.
    ///
    /// # Errors
    /// There is no thread for it.
    pub(crate) fn start(cases: Vec<Arc<Case>>, resources: Arc<RunResources>) -> io::Result<Engine> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (work, requests) = work::unbounded_channel();
        let serve = move || LocalSet::new().block_on(&runtime, serve(requests, cases, resources));
        Ok(Engine { work, thread: thread::Builder::new().name("engine".to_owned()).spawn(serve)? })
    }

    /// Starts `case`, beside those that run already.
    pub(crate) fn run(&self, case: Arc<Case>) -> Pending {
        let (answer, pending) = mpsc::sync_channel(1);
        // If nobody takes it, the answer is dropped with it, and whoever waits hears of it.
        let _ = self.work.send(Request { case, answer });
        Pending(pending)
    }

    /// Tears down what is still set up, and ends the thread.
    ///
    /// # Errors
    /// Teardowns failed.
    pub(crate) fn end(self) -> Result<(), String> {
        drop(self.work);
        let failed = self.thread.join().map_err(|_| "the engine panicked; its message is above".to_owned())?;
        if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
    }
}

/// Runs what is asked for until nobody can ask any more. The result is what went wrong with teardowns.
async fn serve(
    mut requests: work::UnboundedReceiver<Request>,
    cases: Vec<Arc<Case>>,
    resources: Arc<RunResources>,
) -> Vec<String> {
    let shared = Rc::new(attempts::Shared::new(&cases));
    while let Some(Request { case, answer }) = requests.recv().await {
        let (shared, resources) = (Rc::clone(&shared), Arc::clone(&resources));
        tokio::task::spawn_local(async move {
            // Whoever asked may be gone.
            let _ = answer.send(conclude(&case, &resources, &shared).await);
        });
    }
    shared.finish(&resources, Settings::default()).await;
    shared.teardown_failures().iter().map(|(fixture, failure)| format!("{fixture}: {}", failure.got)).collect()
}

async fn conclude(case: &Case, resources: &RunResources, shared: &attempts::Shared) -> Result<Completion, Failed> {
    // Tests run side by side already.
    let pool = SharedPool::exhausted();
    let conclusion = attempts::run(case, (resources, &pool), Settings::default(), shared).await;
    let mut details = human::details(&CaseRun::concluded(case, &conclusion));
    for attempt in conclusion.attempts.iter().filter(|attempt| attempt.kept) {
        let scratch = &attempt.observation.scratch;
        let kept = resources.settle(scratch, &case.full_id());
        details = details.replace(&scratch.display().to_string(), &kept.display().to_string());
    }
    match &conclusion.verdict {
        Verdict::Passed => Ok(Completion::Completed),
        Verdict::Skipped { reason } | Verdict::Xfailed { reason } => Ok(Completion::ignored_with(reason)),
        Verdict::Failed | Verdict::Broken | Verdict::Timeout => {
            Err(Failed::from(format!("{}\n{details}", conclusion.verdict.word())))
        }
    }
}
