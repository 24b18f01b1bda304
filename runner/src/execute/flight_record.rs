//! Writes a hang to files as PyTorch's flight recorder does: one pickle per rank, which
//! `torch.distributed.flight_recorder.fr_trace` reads.
//!
//! The fields are those of version 2.10 as PyTorch's `FlightRecorder.hpp` and `components/types.py` name them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

/// Version of the format.
const VERSION: &str = "2.10";
/// The prefix of each file name; the global rank follows.
const PREFIX: &str = "rank_";

/// Writes the record of every rank in `activities` (of a coordinator's diagnosis, taken at `now`) into `directory`.
///
/// # Errors
/// One sentence: which file could not be written.
pub fn write(activities: &[Value], now: SystemTime, directory: &Path) -> Result<Vec<PathBuf>, String> {
    let now_ns = now.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_nanos() as u64;
    let mut files = Vec::new();
    for (rank, record) in records(activities, now_ns) {
        let path = directory.join(format!("{PREFIX}{rank}"));
        let failed = |error: &dyn std::fmt::Display| format!("cannot write {}: {error}", path.display());
        std::fs::create_dir_all(directory).map_err(|error| failed(&error))?;
        let bytes = serde_pickle::to_vec(&record, serde_pickle::SerOptions::new()).map_err(|error| failed(&error))?;
        std::fs::write(&path, bytes).map_err(|error| failed(&error))?;
        files.push(path);
    }
    Ok(files)
}

/// The record of each rank, by global rank.
fn records(activities: &[Value], now_ns: u64) -> BTreeMap<u64, Value> {
    let mut ranks: BTreeMap<u64, Vec<Value>> = BTreeMap::new();
    for activity in activities {
        ranks.entry(activity["rank"].as_u64().unwrap_or(0)).or_default().push(activity.clone());
    }
    // The analyzer wants a file for every member; one that is gone has no record.
    for activity in activities {
        for rank in activity["ranks"].as_array().into_iter().flatten().filter_map(Value::as_u64) {
            let silent = json!({ "comm_id": activity["comm_id"], "ranks": activity["ranks"] });
            let recorded = ranks.entry(rank).or_default();
            if recorded.iter().all(|known| known["comm_id"] != silent["comm_id"]) {
                recorded.push(silent);
            }
        }
    }
    ranks.into_iter().map(|(rank, activities)| (rank, record(&activities, now_ns))).collect()
}

fn record(activities: &[Value], now_ns: u64) -> Value {
    let mut groups = serde_json::Map::new();
    let mut entries = Vec::new();
    for activity in activities {
        let group = group(activity);
        groups.insert(
            group[0].clone(),
            json!({ "name": group[0], "desc": group[1], "ranks": activity["ranks"].to_string() }),
        );
        for operation in ["recent", "current"].iter().flat_map(|key| activity[key].as_array().into_iter().flatten()) {
            entries.push(entry(activity, &group, operation, now_ns));
        }
    }
    entries.sort_by_key(|entry| entry["time_created_ns"].as_u64());
    for (id, entry) in entries.iter_mut().enumerate() {
        entry["record_id"] = json!(id);
    }
    json!({ "version": VERSION, "pg_config": groups, "pg_status": {}, "entries": entries })
}

/// Name and description of the process group; NCCL does not know PyTorch's own name.
fn group(activity: &Value) -> [String; 2] {
    let number = &activity["comm_id"];
    [number.to_string(), if number == 1 { "default_pg".to_owned() } else { format!("communicator {number}") }]
}

fn entry(activity: &Value, group: &[String; 2], operation: &Value, now_ns: u64) -> Value {
    let us = |key: &str| operation[key].as_u64();
    let created = now_ns.saturating_sub(us("age_us").unwrap_or(0) * 1000);
    let completed = us("took_us").map(|took| created + took * 1000);
    let name = operation["operation"].as_str().unwrap_or("?");
    let transfer = matches!(name, "send" | "recv");
    let profiled = match (name, operation["peer"].as_u64(), activity["comm_rank"].as_u64()) {
        ("send", Some(peer), Some(own)) => format!("nccl:send {own}->{peer}"),
        ("recv", Some(peer), Some(own)) => format!("nccl:recv {own}<-{peer}"),
        _ => format!("nccl:{name}"),
    };
    let size = activity["ranks"].as_array().map_or(1, Vec::len) as u64;
    let count = operation["count"].as_u64().unwrap_or(0);
    // For each side, its number of elements per element of NCCL's count.
    let (input, output) = match name {
        "all_gather" | "gather" => (count, count * size),
        "reduce_scatter" | "scatter" => (count * size, count),
        "all_to_all" => (count * size, count * size),
        _ => (count, count),
    };
    let datatype = scalar_type(operation["datatype"].as_str().unwrap_or("?"));
    let sequence = operation["sequence"].as_u64().unwrap_or(0);
    json!({
        "record_id": 0,
        "pg_id": activity["comm_id"],
        "process_group": group,
        "collective_seq_id": if transfer { 0 } else { sequence },
        "p2p_seq_id": if transfer { sequence } else { 0 },
        "op_id": sequence,
        "profiling_name": profiled,
        "time_created_ns": created,
        "time_discovered_started_ns": created,
        "time_discovered_completed_ns": completed,
        "duration_ms": us("took_us").map(|took| took as f64 / 1000.0),
        "input_sizes": [[input]],
        "input_dtypes": [datatype],
        "output_sizes": [[output]],
        "output_dtypes": [datatype],
        "state": if completed.is_some() { "completed" } else { "started" },
        "timeout_ms": 600_000,
        "is_p2p": transfer,
        "retired": completed.is_some(),
        "frames": [],
    })
}

/// PyTorch's name of a datatype (`c10::ScalarType`).
fn scalar_type(datatype: &str) -> &str {
    match datatype {
        "int8" => "Char",
        "uint8" => "Byte",
        "int32" => "Int",
        "uint32" => "UInt32",
        "int64" => "Long",
        "uint64" => "UInt64",
        "float16" => "Half",
        "float32" => "Float",
        "float64" => "Double",
        "bfloat16" => "BFloat16",
        "float8e4m3" => "Float8_e4m3fn",
        "float8e5m2" => "Float8_e5m2",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_has_its_operations_in_order_and_its_groups() {
        let operation = |sequence: u64, age: u64, took: Option<u64>| {
            json!({ "sequence": sequence, "operation": "all_gather", "count": 4, "datatype": "bfloat16", "age_us": age,
                    "took_us": took, "peer": null })
        };
        let activity = json!({
            "rank": 3, "comm_id": 1, "comm_rank": 1, "ranks": [2, 3], "queued": 0,
            "current": [operation(2, 10, None)], "recent": [operation(1, 50, Some(20))],
        });
        let records = records(&[activity], 1_000_000);
        let record = &records[&3];
        assert_eq!(records[&2]["entries"], json!([]), "a member that is gone");
        assert_eq!(record["pg_config"], json!({ "1": { "name": "1", "desc": "default_pg", "ranks": "[2,3]" } }));
        let seen: Vec<_> = record["entries"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| (entry["record_id"].as_u64(), entry["state"].as_str(), entry["time_created_ns"].as_u64()))
            .collect();
        assert_eq!(seen, [(Some(0), Some("completed"), Some(950_000)), (Some(1), Some("started"), Some(990_000))]);
        let entry = &record["entries"][1];
        assert_eq!((&entry["input_sizes"], &entry["output_sizes"]), (&json!([[4]]), &json!([[8]])));
        assert_eq!(entry["output_dtypes"], json!(["BFloat16"]));
    }

    #[test]
    fn a_send_is_named_with_both_ends() {
        let operation =
            json!({ "sequence": 0, "operation": "send", "count": 8, "datatype": "float32", "peer": 0, "age_us": 1 });
        let activity =
            json!({ "rank": 1, "comm_id": 2, "comm_rank": 1, "ranks": [0, 1], "current": [operation], "recent": [] });
        let entry = &records(&[activity], 1_000_000)[&1]["entries"][0];
        assert_eq!(entry["profiling_name"], "nccl:send 1->0");
        assert_eq!((&entry["is_p2p"], &entry["process_group"]), (&json!(true), &json!(["2", "communicator 2"])));
    }
}
