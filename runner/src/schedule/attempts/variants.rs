//! `holds_under`: runs a case with each change, side by side as the resources of the run allow.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use super::observe::Attempts;
use crate::case::Case;
use crate::case::fixture::Scope;
use crate::case::relation::{Relation, Relations, Restart};
use crate::case::variant::{resumed, until_killed, variant};
use crate::check::compared::Compared;
use crate::check::snapshot::SnapshotMode;
use crate::observation::Observation;
use crate::schedule::resources::Claim;
use crate::verdict::{Verdict, judge};

/// A variant that runs.
struct Running<'a> {
    index: usize,
    /// What it takes of the run's resources; none for the one that has what the case itself took.
    claim: Option<Claim>,
    observed: Pin<Box<dyn Future<Output = Observation> + 'a>>,
}

impl Attempts<'_> {
    /// Runs the variants of `case`, which has not seen fixture outputs yet. If one is interrupted, those after it are missing.
    pub(super) async fn observe_variants(&self, case: &Case, relations: &Relations) -> Vec<Observation> {
        let alone = case.uses.iter().any(|fixture| fixture.scope == Scope::Case);
        let mut waiting: VecDeque<usize> = (0..relations.relations.len()).collect();
        let mut running: Vec<Running<'_>> = Vec::new();
        let mut seen: Vec<Option<Observation>> = relations.relations.iter().map(|_| None).collect();
        loop {
            while let Some(index) = waiting.front().copied() {
                let is_first = running.iter().all(|running| running.claim.is_some());
                let claim = match is_first {
                    true => None,
                    // Another one's fixtures may need the same port.
                    false if alone => break,
                    false => match self.pool.take_more(&case.resources) {
                        Some(claim) => Some(claim),
                        None => break,
                    },
                };
                waiting.pop_front();
                let observed =
                    Box::pin(self.observe_variant(case, &relations.relations[index], relations.compared.as_ref()));
                running.push(Running { index, claim, observed });
            }
            if running.is_empty() {
                break;
            }
            let (ended, observation) = first_to_end(&mut running).await;
            ended.claim.into_iter().for_each(|claim| self.pool.give(claim));
            if observation.execution.is_interrupted() {
                waiting.clear();
            }
            seen[ended.index] = Some(observation);
        }
        seen.into_iter().map_while(std::convert::identity).collect()
    }

    async fn observe_variant(&self, case: &Case, relation: &Relation, compared: Option<&Compared>) -> Observation {
        let variant = variant(case, relation);
        self.resources.secrets.learn(variant.env.clone());
        match &relation.restart {
            Some(restart) => self.observe_restarted(variant, relation, restart, compared).await,
            None => self.observe(&mut Cow::Owned(variant)).await,
        }
    }

    /// Runs `variant` until it is killed, and then again in the same directory. If it was not killed, that run alone.
    async fn observe_restarted(
        &self,
        variant: Case,
        relation: &Relation,
        restart: &Restart,
        compared: Option<&Compared>,
    ) -> Observation {
        let part = until_killed(&variant, relation, restart);
        let mut before = self.observe(&mut Cow::Borrowed(&part)).await;
        if judge::judge(&part, &before, SnapshotMode::CompareOnly).0 != Verdict::Passed {
            return before;
        }
        before.numbers = compared.map(|compared| compared.read_part(&before));
        let mut rest = Cow::Owned(Case { shared: Some(before.shared()), ..resumed(&variant, restart) });
        let after = self.observe(&mut rest).await;
        Observation { before: Some(Box::new(before)), ..after }
    }
}

/// Takes out the one that ends first.
async fn first_to_end<'a>(running: &mut Vec<Running<'a>>) -> (Running<'a>, Observation) {
    poll_fn(|context| {
        let ended =
            running.iter_mut().enumerate().find_map(|(place, running)| match running.observed.as_mut().poll(context) {
                Poll::Ready(observation) => Some((place, observation)),
                Poll::Pending => None,
            });
        match ended {
            Some((place, observation)) => Poll::Ready((running.remove(place), observation)),
            None => Poll::Pending,
        }
    })
    .await
}
