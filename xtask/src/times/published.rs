//! Published measurements: the file of tables, or of cases without times, as values.

use std::path::Path;

use protocol::datatype::Operation;
use serde_json::Value;
use timing::machine::Machine;
use timing::physics::Physics;
use timing::{Launch, Settings};

use super::hardware;

/// One published table.
pub(super) struct Case {
    /// Its name.
    pub id: String,
    /// Address of the publication.
    pub source: String,
    /// As published: "H100 SXM 80GB", 2 x 8, network.
    pub hardware: String,
    /// What was measured.
    pub operation: Operation,
    /// "healthy", "suspect", "known-bad"; empty for a case without times.
    pub status: String,
    /// The machine that its text describes.
    pub machine: Machine,
    /// Variables and version of NCCL.
    pub settings: Settings,
    /// How it was started.
    pub launch: Launch,
    /// Sizes, with times where they are known.
    pub rows: Vec<Row>,
}

/// One size.
pub(super) struct Row {
    /// As nccl-tests counts them.
    pub bytes: u64,
    /// The smaller of out-of-place and in-place, us.
    pub measured_us: Option<f64>,
}

impl Case {
    /// What the model says, us.
    pub(super) fn predict(&self, physics: &Physics, bytes: u64) -> Option<f64> {
        timing::estimate(&self.machine, &self.settings, physics, self.operation, bytes, self.launch)
            .map(|estimate| estimate.us)
    }

    /// Error of each row that has a time: (bytes, (modeled - measured) / measured).
    pub(super) fn errors(&self, physics: &Physics) -> Vec<(u64, f64)> {
        let rows = self.rows.iter().filter_map(|row| Some((row.bytes, row.measured_us?)));
        rows.filter_map(|(bytes, measured)| Some((bytes, (self.predict(physics, bytes)? - measured) / measured)))
            .collect()
    }
}

/// The cases of a file with `tables` (times) or `cases` (sizes).
pub(super) fn read(path: &Path) -> Result<Vec<Case>, String> {
    let at = |error: String| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| at(error.to_string()))?;
    let file: Value = serde_json::from_str(&text).map_err(|error| at(error.to_string()))?;
    let list = file.get("tables").or_else(|| file.get("cases")).and_then(Value::as_array);
    let list = list.ok_or_else(|| at("it has neither `tables` nor `cases`".to_owned()))?;
    list.iter().map(|entry| case(entry).map_err(&at)).collect()
}

fn case(entry: &Value) -> Result<Case, String> {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let id = if entry.get("id").is_some() { text(entry, "id") } else { text(entry, "case") };
    let operation = match text(entry, "op").as_str() {
        "all_reduce" => Operation::AllReduce,
        "all_gather" => Operation::AllGather,
        "reduce_scatter" => Operation::ReduceScatter,
        "broadcast" => Operation::Broadcast,
        "reduce" => Operation::Reduce,
        "alltoall" => Operation::AllToAll,
        "sendrecv" => Operation::Send,
        other => return Err(format!("{id}: `op` is `{other}`")),
    };
    let published = entry.get("hardware").ok_or_else(|| format!("{id}: `hardware` is missing"))?;
    let machine = hardware::machine(published).map_err(|mistake| format!("{id}: {mistake}"))?;
    let settings = hardware::settings(published).map_err(|mistake| format!("{id}: {mistake}"))?;
    let machine = settings.used(machine);
    let launch = hardware::launch(&text(published, "launch"));
    let number = |value: &Value, key: &str| value.get(key).and_then(Value::as_f64);
    let mut rows = Vec::new();
    for row in entry.get("rows").and_then(Value::as_array).into_iter().flatten() {
        let bytes = row.get("size_bytes").and_then(Value::as_u64).ok_or_else(|| format!("{id}: a row without size"))?;
        let measured = number(row, "time_us").into_iter().chain(number(row, "time_inplace_us")).reduce(f64::min);
        rows.push(Row { bytes, measured_us: measured });
    }
    for size in entry.get("sizes").and_then(Value::as_array).into_iter().flatten() {
        let bytes = size.as_u64().ok_or_else(|| format!("{id}: `{size}` is not a size"))?;
        rows.push(Row { bytes, measured_us: None });
    }
    let hardware =
        [text(published, "gpu"), format!("{} x {}", machine.nodes, machine.gpus_per_node), text(published, "network")];
    let hardware = hardware.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
    Ok(Case {
        id,
        source: text(entry, "source"),
        hardware,
        operation,
        status: text(entry, "status"),
        machine,
        settings,
        launch,
        rows,
    })
}
