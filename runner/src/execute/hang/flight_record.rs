//! Writes a hang to files as PyTorch's flight recorder does: one pickle per rank, which
//! `torch.distributed.flight_recorder.fr_trace` reads.
//!
//! The fields are those of version 2.10 as PyTorch's `FlightRecorder.hpp` and `components/types.py` name them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use protocol::activity::Activation;
use protocol::datatype::{Datatype, Operation};
use protocol::diagnosis::RankActivity;
use protocol::ids::{CommunicatorId, Rank};
use serde_json::{Value, json};

/// Version of the format.
const VERSION: &str = "2.10";
/// The prefix of each file name; the global rank follows.
const PREFIX: &str = "rank_";

/// Writes the record of every rank in `activities` (of a coordinator's diagnosis, taken at `now`) into `directory`.
///
/// # Errors
/// One sentence: which file could not be written.
pub(super) fn write(activities: &[RankActivity], now: SystemTime, directory: &Path) -> Result<Vec<PathBuf>, String> {
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
fn records(activities: &[RankActivity], now_ns: u64) -> BTreeMap<Rank, Value> {
    let mut ranks: BTreeMap<Rank, Vec<RankActivity>> = BTreeMap::new();
    for activity in activities {
        ranks.entry(activity.rank).or_default().push(activity.clone());
    }
    // The analyzer wants a file for every member; one that is gone has no record.
    for activity in activities {
        for (comm_rank, rank) in (0..).map(Rank).zip(&activity.ranks) {
            let recorded = ranks.entry(*rank).or_default();
            if recorded.iter().all(|known| known.comm_id != activity.comm_id) {
                let (current, recent) = (Vec::new(), Vec::new());
                recorded.push(RankActivity {
                    rank: *rank,
                    comm_rank,
                    current,
                    queued: 0,
                    recent,
                    ranks: activity.ranks.clone(),
                    ..*activity
                });
            }
        }
    }
    ranks.into_iter().map(|(rank, activities)| (rank, record(&activities, now_ns))).collect()
}

fn record(activities: &[RankActivity], now_ns: u64) -> Value {
    let mut groups = serde_json::Map::new();
    let mut entries = Vec::new();
    for activity in activities {
        let group = group(activity.comm_id);
        let ranks = json!(activity.ranks).to_string();
        groups.insert(group[0].clone(), json!({ "name": group[0], "desc": group[1], "ranks": ranks }));
        for operation in activity.recent.iter().chain(&activity.current) {
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
fn group(number: CommunicatorId) -> [String; 2] {
    let description = if number.0 == 1 { "default_pg".to_owned() } else { format!("communicator {number}") };
    [number.to_string(), description]
}

fn entry(activity: &RankActivity, group: &[String; 2], operation: &Activation, now_ns: u64) -> Value {
    let created = now_ns.saturating_sub(operation.age_us * 1000);
    let completed = operation.took_us.map(|took| created + took * 1000);
    let is_transfer = matches!(operation.operation, Operation::Send | Operation::Recv);
    let own = activity.comm_rank;
    let profiled = match (operation.operation, operation.peer) {
        (Operation::Send, Some(peer)) => format!("nccl:send {own}->{peer}"),
        (Operation::Recv, Some(peer)) => format!("nccl:recv {own}<-{peer}"),
        (other, _) => format!("nccl:{other}"),
    };
    let size = activity.ranks.len() as u64;
    let count = operation.count;
    // For each side, its number of elements per element of NCCL's count.
    let (input, output) = match operation.operation {
        Operation::AllGather | Operation::Gather => (count, count * size),
        Operation::ReduceScatter | Operation::Scatter => (count * size, count),
        Operation::AllToAll => (count * size, count * size),
        _ => (count, count),
    };
    let datatype = scalar_type(operation.datatype);
    let sequence = operation.sequence.0;
    json!({
        "record_id": 0,
        "pg_id": activity.comm_id,
        "process_group": group,
        "collective_seq_id": if is_transfer { 0 } else { sequence },
        "p2p_seq_id": if is_transfer { sequence } else { 0 },
        "op_id": sequence,
        "profiling_name": profiled,
        "time_created_ns": created,
        "time_discovered_started_ns": created,
        "time_discovered_completed_ns": completed,
        "duration_ms": operation.took_us.map(|took| took as f64 / 1000.0),
        "input_sizes": [[input]],
        "input_dtypes": [datatype],
        "output_sizes": [[output]],
        "output_dtypes": [datatype],
        "state": if completed.is_some() { "completed" } else { "started" },
        "timeout_ms": 600_000,
        "is_p2p": is_transfer,
        "retired": completed.is_some(),
        "frames": [],
    })
}

/// PyTorch's name of a datatype (`c10::ScalarType`).
fn scalar_type(datatype: Datatype) -> &'static str {
    match datatype {
        Datatype::Int8 => "Char",
        Datatype::Uint8 => "Byte",
        Datatype::Int32 => "Int",
        Datatype::Uint32 => "UInt32",
        Datatype::Int64 => "Long",
        Datatype::Uint64 => "UInt64",
        Datatype::Float16 => "Half",
        Datatype::Float32 => "Float",
        Datatype::Float64 => "Double",
        Datatype::Bfloat16 => "BFloat16",
        Datatype::Float8E4M3 => "Float8_e4m3fn",
        Datatype::Float8E5M2 => "Float8_e5m2",
    }
}

#[cfg(test)]
mod tests {
    use protocol::ids::{Sequence, SiteId};

    use super::*;

    fn operation(operation: Operation, sequence: u64, age_us: u64, took_us: Option<u64>) -> Activation {
        Activation {
            sequence: Sequence(sequence),
            operation,
            count: 4,
            datatype: Datatype::Bfloat16,
            reduction_op: None,
            root: None,
            peer: None,
            age_us,
            took_us,
            site: SiteId::default(),
        }
    }

    #[test]
    fn a_rank_has_its_operations_in_order_and_its_groups() {
        let activity = RankActivity {
            rank: Rank(3),
            comm_id: CommunicatorId(1),
            comm_rank: Rank(1),
            ranks: vec![Rank(2), Rank(3)],
            current: vec![operation(Operation::AllGather, 2, 10, None)],
            queued: 0,
            recent: vec![operation(Operation::AllGather, 1, 50, Some(20))],
        };
        let records = records(&[activity], 1_000_000);
        let record = &records[&Rank(3)];
        assert_eq!(records[&Rank(2)]["entries"], json!([]), "a member that is gone");
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
        let send = Activation { peer: Some(Rank(0)), ..operation(Operation::Send, 0, 1, None) };
        let activity = RankActivity {
            rank: Rank(1),
            comm_id: CommunicatorId(2),
            comm_rank: Rank(1),
            ranks: vec![Rank(0), Rank(1)],
            current: vec![send],
            queued: 0,
            recent: Vec::new(),
        };
        let entry = &records(&[activity], 1_000_000)[&Rank(1)]["entries"][0];
        assert_eq!(entry["profiling_name"], "nccl:send 1->0");
        assert_eq!((&entry["is_p2p"], &entry["process_group"]), (&json!(true), &json!(["2", "communicator 2"])));
    }

    #[test]
    fn a_datatype_of_8_bits_has_the_name_that_pytorch_knows() {
        assert_eq!(scalar_type(Datatype::Float8E4M3), "Float8_e4m3fn");
        assert_eq!(scalar_type(Datatype::Float8E5M2), "Float8_e5m2");
    }
}
