//! The JSON Schema of the event log, and its table for docs/reports.md: both from the types and their comments.

use std::fmt::Write as _;

use serde_json::Value;

use crate::record::event::Event;

/// The schema of one line, as schema/events.v1.json has it.
pub fn text() -> String {
    format!("{:#}\n", schema())
}

fn schema() -> Value {
    schemars::schema_for!(Event).to_value()
}

/// Every event and every object in it, with their fields.
pub fn table() -> String {
    let schema = schema();
    let mut text = String::from("| | field | |\n|---|---|---|\n");
    for variant in schema["oneOf"].as_array().into_iter().flatten() {
        let name = variant["properties"]["event"]["const"].as_str().unwrap_or_default();
        let inner = variant["$ref"].as_str().map(|reference| format!(" The fields of {}.", type_name(reference)));
        let about = format!("{}{}", description(variant), inner.unwrap_or_default());
        rows(&mut text, &format!("**`{name}`**"), &about, variant);
    }
    for (name, object) in schema["$defs"].as_object().into_iter().flatten() {
        let about = format!("{}{}", description(object), words(object));
        rows(&mut text, &format!("**{name}**"), &about, object);
        for variant in object["oneOf"].as_array().into_iter().flatten() {
            let Some(word) = variant["properties"]["is"]["const"].as_str() else { continue };
            let fields: Vec<String> = fields(variant).map(|(field, _)| format!(", `{field}`")).collect();
            let _ = writeln!(text, "| | `is`: `{word}`{} | {} |", fields.concat(), description(variant));
        }
    }
    text
}

fn rows(text: &mut String, name: &str, about: &str, object: &Value) {
    let _ = writeln!(text, "| {name} | | {about} |");
    for (field, schema) in fields(object) {
        let kind = kind(schema);
        let kind = if kind.is_empty() { kind } else { format!("{kind}: ") };
        let _ = writeln!(text, "| | `{field}` | {kind}{} |", description(schema));
    }
}

fn fields(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
    object["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(field, _)| !matches!(field.as_str(), "event" | "is"))
}

/// The type of another object that a field holds.
fn kind(schema: &Value) -> String {
    let reference =
        [schema, &schema["items"], &schema["anyOf"][0]].into_iter().find_map(|value| value["$ref"].as_str());
    let list = if schema["items"].is_object() { "list of " } else { "" };
    reference.map(|reference| format!("{list}{}", type_name(reference))).unwrap_or_default()
}

/// What an enumeration may be: its words, or objects with one field.
fn words(object: &Value) -> String {
    let variants = object["oneOf"].as_array().into_iter().flatten();
    let words: Vec<String> = variants
        .filter_map(|variant| match (&variant["const"], variant["properties"].as_object()) {
            (Value::String(word), _) => Some(format!("`\"{word}\"`")),
            (_, Some(fields)) if !fields.contains_key("is") => {
                fields.keys().next().map(|field| format!("`{{\"{field}\": ...}}`"))
            }
            _ => None,
        })
        .collect();
    if words.is_empty() { String::new() } else { format!(" {}", words.join(", ")) }
}

fn type_name(reference: &str) -> &str {
    reference.rsplit('/').next().unwrap_or_default()
}

fn description(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default();
    text.replace('\n', " ").replace("[`VERSION`]", "Of this format: 1").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{Exit, Role};
    use crate::record::event::{Attempt, Process, RunInfo, Stream};
    use crate::verdict::Verdict;

    #[test]
    fn what_is_written_is_valid_and_every_kind_is_covered() {
        let validator = jsonschema::validator_for(&schema()).unwrap();
        let process = Process {
            role: Role::Coordinator,
            exit: Exit::NotStarted("no".into()),
            ended: false,
            stdout: Stream::default(),
            stderr: Stream { file: Some("a/b".into()), ..Stream::default() },
        };
        let attempt = Attempt {
            verdict: Verdict::Skipped { reason: "no".into() },
            processes: vec![process],
            ..Attempt::default()
        };
        for event in [Event::RunStarted(RunInfo::default()), Event::AttemptFinished { case: "a/b".into(), attempt }] {
            let value = serde_json::to_value(&event).unwrap();
            assert!(validator.is_valid(&value), "{value:#}");
        }
        assert!(!validator.is_valid(&serde_json::json!({ "event": "case_started" })));
        let table = table();
        for kind in Event::KINDS {
            assert!(table.contains(&format!("| **`{kind}`** | |")), "{kind}");
        }
        assert!(table.contains("| | `stdout` | Stream: Standard output. |"), "{table}");
    }
}
