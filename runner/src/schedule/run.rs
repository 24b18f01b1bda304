//! One run: starts cases as resources allow, and announces their events.

use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{JoinSet, LocalSet};

use super::attempts;
use super::queue::Queue;
use super::resources::{Claim, Pool, SharedPool};
use super::round_fixtures::RoundFixtures;
use super::rounds::Tally;
use super::run_resources::RunResources;
use super::settings::{Announce, Settings};
use crate::case::Case;
use crate::host::machine;
use crate::record::concluded;
use crate::record::event;
use crate::record::event::Event;
use crate::verdict::Verdict;
use crate::verdict::conclusion::{Conclusion, Outcome};

/// The order in which cases start.
#[derive(Debug)]
pub enum Order {
    /// Exactly in the order of these indices.
    Known(Vec<usize>),
    /// In the order of these indices, except that a case whose warm process is still being made lets others go first, so that no
    /// core waits for it.
    Preferred(Vec<usize>),
    /// Each case whose index is received. The end of the channel ends the run: running cases are ended as by Ctrl-C.
    Asked(UnboundedReceiver<usize>),
}

/// Runs `cases`, which start in this order, and announces their events. Returns when every started case is cleaned up; the
/// result describes processes that could not be attributed to a case.
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
    let warm_up = local.spawn_local(async move { early.execution.warm_up().await });
    local.run_until(start_all(cases, order, &resources, settings, &announce, &mut tallies)).await;
    warm_up.abort();
    // Wait until it has released the run.
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
    let (order, yields, mut asked) = match order {
        Order::Known(order) => (order, false, None),
        Order::Preferred(order) => (order, true, None),
        Order::Asked(asked) => (Vec::new(), false, Some(asked)),
    };
    let mut queue = Queue::new(&order, settings.rounds);
    let mut fixtures = RoundFixtures::new(cases);
    let pool = Pool::new(settings.slots, machine::memory().unwrap_or(u64::MAX), cases);
    let pool = Rc::new(SharedPool::new(pool));
    let mut bad = 0;
    loop {
        let stop = settings.fail_fast.is_some_and(|limit| bad >= limit);
        while !stop && !resources.execution.cancel.is_raised() {
            let mut ready: Vec<(usize, &Arc<Case>)> =
                queue.ready(tallies).map(|index| &cases[index]).enumerate().collect();
            if yields && ready.iter().any(|(_, case)| !resources.execution.is_warming(case)) {
                ready.retain(|(_, case)| !resources.execution.is_warming(case));
            }
            let wanted = ready.iter().map(|(_, case)| &case.resources);
            let Some((position, claim)) = pool.first(wanted) else { break };
            let position = ready[position].0;
            let shared = fixtures.of_round(queue.round, || queue.cases(cases));
            let Some(index) = queue.start(position) else { break };
            let case = &cases[index];
            let (case, resources, announce) = (Arc::clone(case), Rc::clone(resources), Rc::clone(announce));
            let pool = Rc::clone(&pool);
            announce(Event::CaseStarted { case: case.full_id(), at_ms: event::ms(SystemTime::now()) });
            running.spawn_local(async move {
                if let Some(slurm) = resources.slurm.as_ref().filter(|slurm| slurm.takes(&case)) {
                    let (verdict, events) = slurm.run(&case, &resources.execution).await;
                    events.into_iter().for_each(|event| announce(event));
                    return (index, claim, Ended::Elsewhere(verdict));
                }
                let conclusion = if settings.rounds.repeat() {
                    // Retrying an iteration would hide what iterations are meant to find.
                    let case = Case { retries: None, ..(*case).clone() };
                    attempts::run(&case, (&resources, &pool), settings, &shared).await
                } else {
                    let conclusion = attempts::run(&case, (&resources, &pool), settings, &shared).await;
                    let events = concluded::events(&conclusion, &case, resources.artifacts.as_ref());
                    events.into_iter().for_each(|event| announce(event));
                    conclusion
                };
                (index, claim, Ended::Here(conclusion))
            });
        }
        let finished = tokio::select! {
            Some(finished) = running.join_next() => finished,
            // Cases may wait for what a running one has returned.
            () = pool.returned(), if !running.is_empty() => continue,
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
            let discard = |outcome: &Outcome| resources.execution.discard(&outcome.observation);
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
    /// It ran elsewhere, and its events are known.
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

/// The next index received; `None` at the end.
async fn next(asked: &mut Option<UnboundedReceiver<usize>>) -> Option<usize> {
    asked.as_mut()?.recv().await
}
