//! The order of a run: which case starts when, how many at once, how often, and when to stop starting.

pub mod arguments;
pub mod attempts;
pub mod fixture_pool;
pub mod order;
pub mod resources;
pub mod rounds;
pub mod run_resources;
pub mod slurm;

use crate::record::concluded;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{JoinSet, LocalSet};

use crate::case::Case;
use crate::check::snapshot::SnapshotMode;
use crate::execute::clock::Instant;
use crate::host::machine;
use crate::record::event;
use crate::record::event::Event;
use crate::schedule::resources::{Claim, Pool};
use crate::schedule::run_resources::RunResources;
use crate::verdict::Verdict;
use crate::verdict::conclusion::Conclusion;
use rounds::{Rounds, Tally};

/// How a run goes.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// CPU slots. A case that wants more than there are runs alone.
    pub slots: u32,
    /// After so many cases that did not pass, no other is started.
    pub fail_fast: Option<u32>,
    /// How often.
    pub rounds: Rounds,
    /// What becomes of snapshots that differ.
    pub snapshots: SnapshotMode,
    /// Seeds of delays that every case is tried with, after a run without.
    pub chaos: Option<u32>,
    /// Scratch directories stay, also those of passed cases.
    pub keep: bool,
    /// A requirement that is not met fails the case.
    pub deny_skip: bool,
    /// After more cases than this failed their first attempt, none is retried: that is not a flake.
    pub retry_limit: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            slots: 1,
            fail_fast: None,
            rounds: Rounds::Once,
            snapshots: SnapshotMode::Review,
            chaos: None,
            keep: false,
            deny_skip: false,
            retry_limit: RETRY_LIMIT,
        }
    }
}

/// [`Settings::retry_limit`] unless the user sets another.
pub const RETRY_LIMIT: u32 = 10;

/// In which order cases start.
#[derive(Debug)]
pub enum Order {
    /// In that of these places.
    Known(Vec<usize>),
    /// The case at each place that is received. The end of the channel is the end of the run: the cases that run are ended as by
    /// Ctrl-C.
    Asked(UnboundedReceiver<usize>),
}

/// Where a run sends its events. Never called while it is being called.
pub type Announce = Rc<dyn Fn(Event)>;

/// Runs `cases`, which start in this order, and announces their events. Returns when every started case is cleaned up, with the
/// processes that no case could be blamed for, in words.
pub async fn run(
    cases: &[Arc<Case>],
    order: Order,
    resources: Rc<RunResources>,
    settings: Settings,
    announce: Announce,
) -> Vec<String> {
    let local = LocalSet::new();
    let mut tallies = vec![Tally::default(); cases.len()];
    let here = |case: &&Arc<Case>| !resources.slurm.as_ref().is_some_and(|slurm| slurm.takes(case));
    let all: Vec<Arc<Case>> = cases.iter().filter(here).cloned().collect();
    resources.execution.expect(&all, settings.rounds.repeat());
    let early = Rc::clone(&resources);
    let warm_up = local.spawn_local(async move { early.execution.warm_up(&all).await });
    local.run_until(start_all(cases, order, &resources, settings, &announce, &mut tallies)).await;
    warm_up.abort();
    // Until it has let go of the run.
    let _ = local.run_until(warm_up).await;
    if settings.rounds.repeat() {
        cases.iter().zip(tallies).filter_map(|(case, tally)| tally.finish(case)).for_each(|event| announce(event));
    }
    resources.execution.end_strays().await
}

async fn start_all(
    cases: &[Arc<Case>],
    order: Order,
    resources: &Rc<RunResources>,
    settings: Settings,
    announce: &Announce,
    tallies: &mut [Tally],
) {
    let mut running: JoinSet<(usize, Claim, Ended)> = JoinSet::new();
    let (order, mut asked) = match order {
        Order::Known(order) => (order, None),
        Order::Asked(asked) => (Vec::new(), Some(asked)),
    };
    let mut queue = Queue::new(&order, settings.rounds);
    let mut fixtures = Fixtures { rounds: vec![Rc::new(attempts::Shared::new(cases))], current: 1 };
    let mut pool = Pool::new(settings.slots, machine::memory().unwrap_or(u64::MAX), cases);
    let mut bad = 0;
    loop {
        let stop = settings.fail_fast.is_some_and(|limit| bad >= limit);
        while !stop && !resources.execution.cancel.is_raised() {
            let ready = queue.ready(tallies).map(|index| &cases[index].resources);
            let Some((position, claim)) = pool.first(ready) else { break };
            let shared = fixtures.of_round(queue.round, || queue.cases(cases));
            let Some(index) = queue.start(position) else { break };
            let case = &cases[index];
            let (case, resources, announce) = (Arc::clone(case), Rc::clone(resources), Rc::clone(announce));
            announce(Event::CaseStarted { case: case.full_id(), at_ms: event::ms(SystemTime::now()) });
            running.spawn_local(async move {
                if let Some(slurm) = resources.slurm.as_ref().filter(|slurm| slurm.takes(&case)) {
                    let (verdict, events) = slurm.run(&case, &resources.execution).await;
                    events.into_iter().for_each(|event| announce(event));
                    return (index, claim, Ended::Elsewhere(verdict));
                }
                let conclusion = if settings.rounds.repeat() {
                    // An iteration that is tried again would hide what they are made for.
                    let case = Case { retries: None, ..(*case).clone() };
                    attempts::run(&case, &resources, settings, &shared).await
                } else {
                    let conclusion = attempts::run(&case, &resources, settings, &shared).await;
                    let events = concluded::events(&conclusion, &case, resources.artifacts.as_ref());
                    events.into_iter().for_each(|event| announce(event));
                    conclusion
                };
                (index, claim, Ended::Here(conclusion))
            });
        }
        let finished = tokio::select! {
            Some(finished) = running.join_next() => finished,
            place = next(&mut asked), if asked.is_some() => {
                match place {
                    Some(place) => queue.waiting.push_back(place),
                    None => asked = None,
                }
                if asked.is_none() && !running.is_empty() {
                    resources.execution.cancel.raise();
                }
                continue;
            }
            () = resources.execution.cancel.raised(1), if asked.is_some() => {
                asked = None;
                continue;
            }
            else => break,
        };
        // A panic in a case is a bug of ours; it must not look like an end of the run.
        let (index, claim, ended) = finished.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        pool.give(claim);
        queue.running.retain(|running| *running != index);
        bad += u32::from(!ended.verdict().is_neutral());
        if let (true, Ended::Here(conclusion)) = (settings.rounds.repeat(), ended) {
            let discard =
                |outcome: &crate::verdict::conclusion::Outcome| resources.execution.discard(&outcome.observation);
            let event = tallies[index].add(&cases[index], conclusion, resources.artifacts.as_ref(), discard);
            event.into_iter().for_each(|event| announce(event));
        }
        fixtures.finish(false, resources, settings, announce).await;
    }
    fixtures.finish(true, resources, settings, announce).await;
}

/// A case that ended.
enum Ended {
    /// It was run by this process.
    Here(Conclusion),
    /// It was run elsewhere, and its events are known.
    Elsewhere(Verdict),
}

impl Ended {
    fn verdict(&self) -> &Verdict {
        match self {
            Ended::Here(conclusion) => &conclusion.verdict,
            Ended::Elsewhere(verdict) => verdict,
        }
    }
}

/// The next place that is received; none at the end.
async fn next(asked: &mut Option<UnboundedReceiver<usize>>) -> Option<usize> {
    asked.as_mut()?.recv().await
}

/// What cases share, recreated for each round: the last case of a round takes it down.
struct Fixtures {
    rounds: Vec<Rc<attempts::Shared>>,
    /// The round of the last.
    current: u32,
}

impl Fixtures {
    fn of_round(&mut self, round: u32, cases: impl FnOnce() -> Vec<Arc<Case>>) -> Rc<attempts::Shared> {
        let shared = match self.rounds.last() {
            Some(shared) if self.current == round => return Rc::clone(shared),
            _ => Rc::new(attempts::Shared::new(&cases())),
        };
        self.current = round;
        self.rounds.push(Rc::clone(&shared));
        shared
    }

    /// Reports teardowns that failed, and takes down what is left of finished rounds.
    async fn finish(&mut self, all: bool, resources: &RunResources, settings: Settings, announce: &Announce) {
        let last = self.rounds.len().saturating_sub(1);
        for (index, shared) in self.rounds.iter().enumerate() {
            if all || (index < last && Rc::strong_count(shared) == 1) {
                shared.finish(resources, settings).await;
            }
            for (fixture, failure) in shared.teardown_failures() {
                announce(Event::TeardownFailed { fixture, failure });
            }
        }
        let mut index = 0;
        self.rounds.retain(|shared| {
            index += 1;
            index > last || Rc::strong_count(shared) > 1
        });
    }
}

/// The places of the cases that are still to start, round after round.
struct Queue<'a> {
    order: &'a [usize],
    rounds: Rounds,
    waiting: VecDeque<usize>,
    running: Vec<usize>,
    /// Rounds that began.
    round: u32,
    started: Instant,
}

impl<'a> Queue<'a> {
    fn new(order: &'a [usize], rounds: Rounds) -> Queue<'a> {
        let waiting = order.iter().copied().collect();
        Queue { order, rounds, waiting, running: Vec::new(), round: 1, started: Instant::now() }
    }

    /// The next ones, up to the first that must wait until it is through with the round before.
    fn ready(&mut self, tallies: &[Tally]) -> impl Iterator<Item = usize> {
        if self.waiting.is_empty() && self.another() {
            self.waiting.extend(self.order.iter().filter(|index| !tallies[**index].is_over()));
            self.round += 1;
        }
        if self.round > 1 && self.is_late() {
            self.waiting.clear();
        }
        self.waiting.iter().copied().take_while(|index| !self.running.contains(index))
    }

    /// Those that are still to start in this round.
    fn cases(&self, cases: &[Arc<Case>]) -> Vec<Arc<Case>> {
        self.waiting.iter().map(|index| Arc::clone(&cases[*index])).collect()
    }

    /// Takes the one at this position of those that are ready.
    fn start(&mut self, position: usize) -> Option<usize> {
        let index = self.waiting.remove(position)?;
        self.running.push(index);
        Some(index)
    }

    fn another(&self) -> bool {
        match self.rounds {
            Rounds::Once => false,
            Rounds::Count(count) => self.round < count,
            Rounds::For(_) => !self.is_late(),
        }
    }

    fn is_late(&self) -> bool {
        matches!(self.rounds, Rounds::For(time) if self.started.elapsed() >= time)
    }
}
