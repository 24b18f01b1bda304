//! The order of a run: which case starts when, how many at once, and when to stop starting.

use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use tokio::task::{JoinSet, LocalSet};

use crate::attempts;
use crate::case::Case;
use crate::event::{self, Event};
use crate::execute::RunContext;

/// How a run goes.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// CPU slots. A case that wants more than there are runs alone.
    pub slots: u32,
    /// After a case that did not pass, no other is started.
    pub fail_fast: bool,
    /// Snapshots of cases whose other checks hold become the accepted ones.
    pub accept: bool,
    /// Scratch directories stay, also those of passed cases.
    pub keep: bool,
    /// After more cases than this failed their first attempt, none is tried again: that is no flake.
    pub retry_limit: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { slots: 1, fail_fast: false, accept: false, keep: false, retry_limit: RETRY_LIMIT }
    }
}

/// [`Settings::retry_limit`] unless the user says otherwise.
pub const RETRY_LIMIT: u32 = 10;

/// Where a run tells what happens. Never called while it is being called.
pub type Announce = Rc<dyn Fn(Event)>;

/// Runs `cases` and announces their events. Returns when every started case is cleaned up, with the processes that no case
/// could be blamed for, in words.
pub async fn run(cases: &[Arc<Case>], context: Rc<RunContext>, settings: Settings, announce: Announce) -> Vec<String> {
    let local = LocalSet::new();
    local.run_until(start_all(cases, &context, settings, &announce)).await;
    context.end_strays().await
}

async fn start_all(cases: &[Arc<Case>], context: &Rc<RunContext>, settings: Settings, announce: &Announce) {
    let mut running: JoinSet<(u32, bool)> = JoinSet::new();
    let shared = Rc::new(attempts::Shared::new(cases));
    let (mut next, mut free, mut stop) = (0, settings.slots, false);
    loop {
        while let Some(case) = cases.get(next).filter(|_| !stop && !context.cancel.is_raised()) {
            let slots = case.resources.cpus.min(settings.slots);
            if slots > free {
                break;
            }
            free -= slots;
            let (case, context, announce) = (Arc::clone(case), Rc::clone(context), Rc::clone(announce));
            let shared = Rc::clone(&shared);
            announce(Event::CaseStarted { case: case.full_id(), at_ms: event::ms(SystemTime::now()) });
            running.spawn_local(async move {
                let conclusion = attempts::run(&case, &context, settings, &shared).await;
                conclusion.events(&case).into_iter().for_each(|event| announce(event));
                (slots, conclusion.verdict.is_neutral())
            });
            next += 1;
        }
        let Some(finished) = running.join_next().await else { break };
        // A panic in a case is a bug of ours; it must not look like an end of the run.
        let (slots, fine) = finished.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        free += slots;
        stop |= settings.fail_fast && !fine;
        tell_teardowns(&shared, announce);
    }
    shared.finish(context, settings).await;
    tell_teardowns(&shared, announce);
}

fn tell_teardowns(shared: &attempts::Shared, announce: &Announce) {
    for (fixture, failure) in shared.teardown_failures() {
        announce(Event::TeardownFailed { fixture, failure: event::Failure::from(&failure) });
    }
}
