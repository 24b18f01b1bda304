//! A hang as the runner sees it: the coordinator's message, the state of every rank's processes, and the flight record.

mod awaited;
mod flight_record;
pub(super) mod native_state;
pub(super) mod python_stack;
pub(super) mod stuck;

use std::path::Path;
use std::time::SystemTime;

use protocol::diagnosis::Diagnosis;
use protocol::site;

use super::process_tree::sweep::Process;
use crate::execute::coordinator::control::{Control, ControlError};
use crate::execute::launch::environment::Endpoint;
use crate::observation::Hang;

/// Asks the coordinator and looks at the ranks' processes, with `stacks` also at their stacks. `None`: no rank waits
/// for another.
///
/// # Errors
/// The coordinator cannot be asked.
pub(super) async fn look(
    endpoint: &Endpoint,
    idle: bool,
    ranks: &[Process],
    stacks: bool,
    scratch: &Path,
) -> Result<Option<Hang>, ControlError> {
    let diagnosis = Control::connect(endpoint).await?.diagnose(true).await?;
    let mut details = waits(&diagnosis);
    let Some(hang) = diagnosis.hang else { return Ok(None) };
    // What the launcher started, which may be several ranks for others.
    let missing: Vec<u32> = diagnosis.missing_processes.into_iter().flatten().map(|rank| rank.0).collect();
    let state = native_state::collect(ranks, &missing, stacks, &scratch.join("native-state")).await;
    details.extend(state.lines);
    details.push(match state.files {
        Ok(directory) => format!("every thread: {}/rank_N.PID.txt", directory.display()),
        Err(error) => error,
    });
    let directory = scratch.join("flight-record");
    let flight_record = match flight_record::write(&diagnosis.activities, SystemTime::now(), &directory) {
        Ok(files) => (!files.is_empty()).then_some(directory),
        Err(error) => {
            details.push(error);
            None
        }
    };
    Ok(Some(Hang {
        idle,
        sentence: hang.sentence,
        missing,
        at: Vec::new(),
        lines: site::describe(&hang.sites),
        details,
        flight_record,
    }))
}

/// "rank 0 has waited 5.0 s in all_reduce(count 4, float32, sum)".
fn waits(diagnosis: &Diagnosis) -> Vec<String> {
    let waits = diagnosis.hang.iter().flat_map(|hang| &hang.waits);
    let times = diagnosis.waits_ms.iter().flatten();
    waits
        .zip(times)
        .map(|(wait, ms)| {
            let seconds = *ms as f64 / 1000.0;
            format!("rank {} has waited {seconds:.1} s in {}", wait.rank, wait.operation)
        })
        .collect()
}
