//! The fixtures of each round of a run: set up again for each round, and torn down when it is over.

use std::rc::Rc;
use std::sync::Arc;

use super::attempts;
use super::run_resources::RunResources;
use super::settings::{Announce, Settings};
use crate::case::Case;
use crate::record::event::Event;

/// Fixtures that cases share, recreated for each round: the last case of a round tears them down.
pub(super) struct RoundFixtures {
    rounds: Vec<Rc<attempts::Shared>>,
    /// The round of the last entry.
    current: u32,
}

impl RoundFixtures {
    pub(super) fn new(cases: &[Arc<Case>]) -> RoundFixtures {
        RoundFixtures { rounds: vec![Rc::new(attempts::Shared::new(cases))], current: 1 }
    }

    pub(super) fn of_round(&mut self, round: u32, cases: impl FnOnce() -> Vec<Arc<Case>>) -> Rc<attempts::Shared> {
        let shared = match self.rounds.last() {
            Some(shared) if self.current == round => return Rc::clone(shared),
            _ => Rc::new(attempts::Shared::new(&cases())),
        };
        self.current = round;
        self.rounds.push(Rc::clone(&shared));
        shared
    }

    /// Reports failed teardowns, and tears down what is left of finished rounds.
    pub(super) async fn finish(
        &mut self,
        all: bool,
        resources: &RunResources,
        settings: Settings,
        announce: &Announce,
    ) {
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
