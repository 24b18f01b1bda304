//! Compares the replicas of two runs after their last step.

use serde_json::Value;

use crate::observation::Observation;

/// The tensors of replicas that differ.
pub(super) fn tensors(first: &Observation, second: &Observation) -> Vec<String> {
    let groups = |seen: &Observation| {
        let groups = seen.cluster_report.as_ref().and_then(|report| report["measured"]["replicas"].as_array());
        groups.cloned().unwrap_or_default()
    };
    let (first, second) = (groups(first), groups(second));
    let ranks = |group: &Value| {
        let ranks: Vec<String> = group["ranks"].as_array().into_iter().flatten().map(Value::to_string).collect();
        format!("replicas of ranks {}", ranks.join(", "))
    };
    let same = |one: &Value, other: &Value| one["ranks"] == other["ranks"];
    let mut differences = Vec::new();
    for group in second.iter().filter(|group| !first.iter().any(|other| same(group, other))) {
        differences.push(format!("{}: none, then {} steps", ranks(group), group["steps"]));
    }
    for group in &first {
        let Some(other) = second.iter().find(|other| same(group, other)) else {
            differences.push(format!("{}: {} steps, then none", ranks(group), group["steps"]));
            continue;
        };
        if group["steps"] != other["steps"] {
            differences.push(format!("{}: {} steps, then {}", ranks(group), group["steps"], other["steps"]));
            continue;
        }
        let tensors = |group: &Value| group["tensors"].as_array().cloned().unwrap_or_default();
        let others = tensors(other);
        for tensor in tensors(group) {
            let is_there = |other: &&Value| other["name"] == tensor["name"];
            if others.iter().find(is_there).is_none_or(|other| other["hash"] != tensor["hash"]) {
                differences.push(format!("{}: {}", ranks(group), tensor["name"].as_str().unwrap_or_default()));
            }
        }
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn seen(report: Value) -> Observation {
        Observation { cluster_report: Some(report), ..Observation::default() }
    }

    #[test]
    fn the_parameter_that_differs_is_named() {
        let group = |steps: u32, hash: &str| {
            let held =
                json!([{ "name": "parameter 0.weight", "hash": "a" }, { "name": "parameter 0.bias", "hash": hash }]);
            seen(json!({ "measured": { "replicas": [{ "ranks": [0, 1], "steps": steps, "tensors": held }] } }))
        };
        assert!(tensors(&group(2, "b"), &group(2, "b")).is_empty());
        assert_eq!(tensors(&group(2, "b"), &group(2, "c")), ["replicas of ranks 0, 1: parameter 0.bias"]);
        assert_eq!(tensors(&group(2, "b"), &group(3, "b")), ["replicas of ranks 0, 1: 2 steps, then 3"]);
        assert_eq!(tensors(&group(2, "b"), &seen(json!({}))), ["replicas of ranks 0, 1: 2 steps, then none"]);
    }
}
