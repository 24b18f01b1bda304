//! What the attempts of a case share, and one run of it with its fixtures.

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::Arc;

use crate::case::{Case, outputs};
use crate::check::Failure;
use crate::execute::run_case;
use crate::observation::Observation;
use crate::schedule::Settings;
use crate::schedule::fixture_pool::Fixtures;
use crate::schedule::resources::SharedPool;
use crate::schedule::run_resources::RunResources;

/// State shared by the attempts of a run.
#[derive(Debug, Default)]
pub struct Shared {
    pub(super) fixtures: Fixtures,
    /// Cases whose first attempt did not pass.
    pub(super) failed: Cell<u32>,
}

impl Shared {
    /// The state shared by the attempts of these cases, each run once.
    pub fn new(cases: &[Arc<Case>]) -> Shared {
        Shared { fixtures: Fixtures::new(cases), failed: Cell::new(0) }
    }

    /// Tears down whatever is still set up.
    pub async fn finish(&self, resources: &RunResources, settings: Settings) {
        self.fixtures.finish(resources, settings.keep).await;
    }

    /// Teardowns that failed since the last call: `suite/fixture`, and what went wrong.
    pub fn teardown_failures(&self) -> Vec<(String, Failure)> {
        self.fixtures.failures()
    }
}

/// The attempts of one case.
pub(super) struct Attempts<'a> {
    pub(super) case: &'a Case,
    pub(super) resources: &'a RunResources,
    pub(super) pool: &'a SharedPool,
    pub(super) settings: Settings,
    pub(super) shared: &'a Shared,
}

impl Attempts<'_> {
    /// Runs the case with its fixtures and their outputs.
    pub(super) async fn observe(&self, case: &mut Cow<'_, Case>) -> Observation {
        if case.uses.is_empty() {
            return run_case(case, &self.resources.execution).await;
        }
        let fixtures = &self.shared.fixtures;
        let entered = match fixtures.enter(case, self.resources).await {
            Ok(entered) => entered,
            Err(execution) => return execution.into(),
        };
        outputs::fill_case(case.to_mut(), &entered.outputs);
        self.resources.secrets.learn(case.env.clone());
        let observation = run_case(case, &self.resources.execution).await;
        fixtures.leave(entered, self.resources, self.settings.keep).await;
        observation
    }
}
