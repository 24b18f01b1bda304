//! One case alone, for what its relations show: `ftest relations`.

use std::rc::Rc;
use std::sync::Arc;

use tokio::task::LocalSet;

use super::attempts::{self, Shared};
use super::resources::{Pool, SharedPool};
use super::run_resources::RunResources;
use super::settings::Settings;
use crate::case::Case;
use crate::host::machine;
use crate::verdict::conclusion::Conclusion;

/// Runs `case` with its relations, and nothing else. Returns when everything is cleaned up; the texts describe processes that
/// could not be attributed to it.
pub async fn try_relations(
    case: &Arc<Case>,
    resources: &Rc<RunResources>,
    settings: Settings,
) -> (Conclusion, Vec<String>) {
    let cases = std::slice::from_ref(case);
    let pool = SharedPool::new(Pool::new(settings.slots, machine::memory().unwrap_or(u64::MAX), cases));
    // Its own share is taken, as in a run.
    let own = pool.first([&case.resources]);
    let shared = Shared::new(cases);
    resources.execution.expect(cases, true);
    let local = LocalSet::new();
    let early = Rc::clone(resources);
    let warm_up = local.spawn_local(async move { early.execution.warm_up().await });
    let conclusion = local.run_until(attempts::run(case, (resources, &pool), settings, &shared)).await;
    own.into_iter().for_each(|(_, claim)| pool.give(claim));
    local.run_until(shared.finish(resources, settings)).await;
    warm_up.abort();
    let _ = local.run_until(warm_up).await;
    (conclusion, resources.execution.end_strays().await)
}
