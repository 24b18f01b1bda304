//! A hang as the runner sees it: the coordinator's message, the state of every rank's processes, and the flight record.

use std::path::Path;
use std::time::SystemTime;

use protocol::report::FindingSite;
use protocol::site;
use serde_json::Value;

use super::control::{Control, ControlError};
use super::native_state;
use super::process_tree::sweep::Process;
use crate::execute::flight_record;
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
    let document = Control::connect(endpoint).await?.diagnose(true).await?;
    let Some(hang) = document.get("hang").filter(|hang| !hang.is_null()) else { return Ok(None) };
    // What the launcher started, which may be several ranks for others.
    let missing = document["missing_processes"].as_array().into_iter().flatten().filter_map(Value::as_u64);
    let missing: Vec<u32> = missing.map(|rank| rank as u32).collect();
    let sites: Vec<FindingSite> = serde_json::from_value(hang["sites"].clone()).unwrap_or_default();
    let mut details = waits(&document);
    let state = native_state::collect(ranks, &missing, stacks, &scratch.join("native-state")).await;
    details.extend(state.lines);
    details.push(match state.files {
        Ok(directory) => format!("every thread: {}/rank_N.PID.txt", directory.display()),
        Err(error) => error,
    });
    let directory = scratch.join("flight-record");
    let activities = document["activities"].as_array().cloned().unwrap_or_default();
    let flight_record = match flight_record::write(&activities, SystemTime::now(), &directory) {
        Ok(files) => (!files.is_empty()).then_some(directory),
        Err(error) => {
            details.push(error);
            None
        }
    };
    Ok(Some(Hang {
        idle,
        sentence: hang["sentence"].as_str().unwrap_or_default().to_owned(),
        missing,
        at: Vec::new(),
        lines: site::describe(&sites),
        details,
        flight_record,
    }))
}

/// "rank 0 has waited 5.0 s in all_reduce(count 4, float32, sum)".
fn waits(document: &Value) -> Vec<String> {
    let waits = document["hang"]["waits"].as_array().into_iter().flatten();
    let times = document["waits_ms"].as_array().into_iter().flatten();
    waits
        .zip(times)
        .map(|(wait, ms)| {
            let seconds = ms.as_f64().unwrap_or(0.0) / 1000.0;
            let operation = wait["operation"].as_str().unwrap_or("?");
            format!("rank {} has waited {seconds:.1} s in {operation}", wait["rank"])
        })
        .collect()
}
