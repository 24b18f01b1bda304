//! Whether a cluster report matches its committed JSON Schema.

use std::sync::OnceLock;

use jsonschema::Validator;
use serde_json::{Value, json};

/// The committed schema, the same that users get.
const SCHEMA: &str = include_str!("../../../schema/cluster_report.v1.json");
/// Maximum number of deviations shown.
const LIMIT: usize = 5;

/// Lists that are null if a report was read without them; their items were checked while reading.
const LEFT_OUT: [&str; 2] = ["/$defs/Timeline/properties/entries", "/$defs/Measured/properties/operations"];

/// The first deviations of `report`, each with its place; empty if it is valid.
pub fn mistakes(report: &Value) -> Vec<String> {
    if validator().is_valid(report) {
        return Vec::new();
    }
    validator()
        .iter_errors(report)
        .take(LIMIT)
        .map(|error| {
            let place = error.instance_path().to_string();
            let text: String = error.to_string().chars().take(300).collect();
            format!("{}: {text}", if place.is_empty() { "/" } else { &place })
        })
        .collect()
}

/// The committed schema.
pub(crate) fn schema() -> Value {
    serde_json::from_str(SCHEMA).expect("the committed schema is JSON")
}

fn validator() -> &'static Validator {
    static VALIDATOR: OnceLock<Validator> = OnceLock::new();
    VALIDATOR.get_or_init(|| {
        let mut schema = schema();
        for place in LEFT_OUT {
            let list = schema.pointer_mut(place).expect("the committed schema has these lists");
            list["type"] = json!(["array", "null"]);
        }
        jsonschema::validator_for(&schema).expect("the committed schema is a schema")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_have_a_place() {
        let found = mistakes(&json!({"schema_version": "cluster_report.v1", "measured": 3}));
        assert!(found.iter().all(|mistake| mistake.starts_with('/')) && found.len() == LIMIT, "{found:?}");
        assert!(!mistakes(&json!([])).is_empty());
    }
}
