//! Compares the device reports of two runs. For a process with PyTorch, memory accounting is left out: when the caching allocator
//! asks for more memory depends on what other threads have freed by then.

use std::collections::BTreeMap;

use serde_json::Value;

use super::report::{values, without_measured};

/// Fields left out if PyTorch ran, in the summary and in each device.
const MEMORY: [&str; 4] = ["alloc", "free", "used_memory_peak", "used_memory_current"];

/// Where they differ, by rank and JSONPath.
pub(super) fn differences(first: &[Value], second: &[Value]) -> Vec<String> {
    let (first, second) = (by_rank(first), by_rank(second));
    let mut differences = Vec::new();
    for rank in first.keys().chain(second.keys().filter(|rank| !first.contains_key(*rank))) {
        let of = |reports: &BTreeMap<Option<u64>, Vec<Value>>| reports.get(rank).cloned().unwrap_or_default();
        let (before, after) = (of(&first), of(&second));
        let whose = rank.map_or("processes without a rank".to_owned(), |rank| format!("rank {rank}"));
        if before.len() != after.len() {
            differences.push(format!("{whose} left {} device reports, then {}", before.len(), after.len()));
            continue;
        }
        for (before, after) in before.iter().zip(&after) {
            let mut found = Vec::new();
            values("$", before, after, &mut found);
            differences.extend(found.into_iter().map(|found| format!("device report of {whose}: {found}")));
        }
    }
    differences
}

/// The compared parts of each rank's reports, in an order that does not depend on process ids.
fn by_rank(reports: &[Value]) -> BTreeMap<Option<u64>, Vec<Value>> {
    let mut ranks: BTreeMap<Option<u64>, Vec<Value>> = BTreeMap::new();
    for report in reports {
        ranks.entry(report["measured"]["rank"].as_u64()).or_default().push(compared(report.clone()));
    }
    ranks.values_mut().for_each(|reports| reports.sort_by_cached_key(Value::to_string));
    ranks
}

fn compared(report: Value) -> Value {
    let mut report = without_measured(report);
    if report["operators"].as_object().is_some_and(|operators| !operators.is_empty()) {
        let devices = report.get_mut("devices").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default();
        let devices = devices.into_iter().map(without_memory).collect();
        report["devices"] = Value::Array(devices);
        report["summary"] = without_memory(report["summary"].take());
    }
    report
}

fn without_memory(mut entry: Value) -> Value {
    if let Some(fields) = entry.as_object_mut() {
        fields.retain(|name, _| !MEMORY.contains(&name.as_str()));
    }
    entry
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(rank: Option<u32>, pid: u32, copies: u32, allocations: u32, operators: &Value) -> Value {
        json!({
            "operators": operators,
            "summary": { "alloc": { "calls": allocations }, "io": { "h2d": { "calls": copies } } },
            "devices": [{ "used_memory_peak": allocations, "index": 0 }],
            "measured": { "rank": rank, "pid": pid },
        })
    }

    #[test]
    fn a_rank_that_copies_more_is_named_and_process_ids_may_differ() {
        let none = json!({});
        let run =
            |pid: u32, copies: u32| vec![report(Some(0), pid, 2, 1, &none), report(Some(1), pid + 1, copies, 1, &none)];
        assert_eq!(differences(&run(10, 3), &run(20, 3)), [""; 0]);
        assert_eq!(
            differences(&run(10, 3), &run(20, 4)),
            ["device report of rank 1: $.summary.io.h2d.calls is 3, then 4"]
        );
        assert_eq!(differences(&run(10, 3), &run(20, 3)[..1]), ["rank 1 left 1 device reports, then 0"]);
        assert_eq!(differences(&[], &run(20, 3)[..1]), ["rank 0 left 0 device reports, then 1"]);
    }

    #[test]
    fn processes_of_one_rank_are_compared_in_any_order() {
        let none = json!({});
        let (one, other) = (report(None, 1, 2, 1, &none), report(None, 2, 3, 1, &none));
        assert_eq!(differences(&[one.clone(), other.clone()], &[other, one]), [""; 0]);
    }

    #[test]
    fn the_memory_of_pytorch_may_differ_and_nobody_elses() {
        let (none, some) = (json!({}), json!({ "aten::add.Tensor": 3 }));
        let run = |allocations: u32, operators: &Value| [report(Some(0), 1, 2, allocations, operators)];
        assert_eq!(differences(&run(1, &some), &run(2, &some)), [""; 0]);
        assert_eq!(
            differences(&run(1, &none), &run(2, &none)),
            [
                "device report of rank 0: $.summary.alloc.calls is 1, then 2",
                "device report of rank 0: $.devices[0].used_memory_peak is 1, then 2"
            ]
        );
        assert_eq!(
            differences(&run(1, &some), &run(1, &json!({ "aten::add.Tensor": 4 }))),
            ["device report of rank 0: $.operators.aten::add.Tensor is 3, then 4"]
        );
    }
}
