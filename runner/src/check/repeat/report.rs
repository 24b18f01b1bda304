//! Compares the cluster reports of two runs, without measured values.

use serde_json::Value;

use super::short;
use crate::observation::Observation;

/// Where the cluster reports of two runs differ, by JSONPath. Measured values are left out.
pub fn in_report(first: &Observation, second: &Observation) -> Vec<String> {
    let report = |seen: &Observation| without_measured(seen.cluster_report.clone().unwrap_or_default());
    let mut differences = Vec::new();
    values("$", &report(first), &report(second), &mut differences);
    differences
}

pub(super) fn without_measured(mut report: Value) -> Value {
    if let Some(fields) = report.as_object_mut() {
        fields.remove("measured");
    }
    report
}

/// Where two values differ, by JSONPath.
pub(super) fn values(path: &str, first: &Value, second: &Value, differences: &mut Vec<String>) {
    match (first, second) {
        (Value::Object(first), Value::Object(second)) => {
            let added = second.keys().filter(|key| !first.contains_key(*key));
            for key in first.keys().chain(added) {
                let of = |fields: &serde_json::Map<String, Value>| fields.get(key).cloned().unwrap_or_default();
                values(&format!("{path}.{key}"), &of(first), &of(second), differences);
            }
        }
        (Value::Array(first), Value::Array(second)) if first.len() == second.len() => {
            for (index, (first, second)) in first.iter().zip(second).enumerate() {
                values(&format!("{path}[{index}]"), first, second, differences);
            }
        }
        (Value::Array(first), Value::Array(second)) => {
            differences.push(format!("{path} has {} items, then {}", first.len(), second.len()));
        }
        (first, second) if first != second => {
            let show = |value: &Value| short(&value.to_string());
            differences.push(format!("{path} is {}, then {}", show(first), show(second)));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn seen(report: Value) -> Observation {
        Observation { cluster_report: Some(report), ..Observation::default() }
    }

    #[test]
    fn fields_of_the_report_are_named_by_path_and_what_is_measured_may_differ() {
        let report = |calls: u32, links: &[u32], pid: u32| {
            let links: Vec<Value> = links.iter().map(|bytes| json!({ "bytes": bytes })).collect();
            seen(
                json!({ "collectives": { "all_reduce": { "calls": calls } }, "links": links, "measured": { "pid": pid } }),
            )
        };
        assert!(in_report(&report(1, &[2], 3), &report(1, &[2], 4)).is_empty());
        assert_eq!(
            in_report(&report(1, &[2, 3], 3), &report(2, &[2, 4], 3)),
            ["$.collectives.all_reduce.calls is 1, then 2", "$.links[1].bytes is 3, then 4"]
        );
        assert_eq!(in_report(&report(1, &[2, 3], 3), &report(1, &[2], 3)), ["$.links has 2 items, then 1"]);
    }
}
