//! The JSON Schema (draft 2020-12) of suites, for editors.

use serde_json::{Map, Value, json};

use super::{Key, Rule, Section, Shape, Unless, all, keys};

/// A text with an expression in it.
const TEMPLATE: &str = "template";

/// The schema of a suite file.
pub fn json_schema() -> Value {
    let mut definitions = Map::new();
    definitions.insert(
        TEMPLATE.to_owned(),
        json!({ "type": "string", "pattern": r"\$\{\{.*\}\}", "description": "An expression: `ftest docs suites`." }),
    );
    for section in all().into_iter().filter(|section| section.name != keys::SUITE.name) {
        definitions.insert(section.name.to_owned(), of_section(section));
    }
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "ftest suite, version 1",
    });
    merge(&mut schema, of_section(&keys::SUITE));
    schema["$defs"] = Value::Object(definitions);
    schema
}

/// The committed form of [`json_schema`].
pub fn text() -> String {
    format!("{:#}\n", json_schema())
}

fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}

fn of_section(section: &Section) -> Value {
    let properties: Map<String, Value> = section.keys().map(|key| (key.name.to_owned(), of_key(key))).collect();
    let required: Vec<&str> = section.keys().filter(|key| key.unless == Unless::Required).map(|key| key.name).collect();
    let mut schema = json!({ "type": "object", "description": plain(section.about), "properties": properties });
    schema["additionalProperties"] = json!(false);
    if section.is_open() {
        schema["patternProperties"] = json!({ "^x-": {} });
    }
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    let present = |names: &[&str]| names.iter().map(|name| json!({ "required": [name] })).collect::<Vec<Value>>();
    for rule in section.rules {
        match rule {
            Rule::OneOf(names) => schema["oneOf"] = json!(present(names)),
            Rule::AnyOf(names) => schema["anyOf"] = json!(present(names)),
            Rule::With(key, other) => schema["dependentRequired"][*key] = json!([other]),
        }
    }
    schema
}

fn of_key(key: &Key) -> Value {
    let mut schema = of_shape(&key.shape, true);
    let about = match key.unless {
        Unless::Default(default) => format!("{}. Default: {}", plain(key.about), plain(default)),
        Unless::Required | Unless::Nothing => plain(key.about),
    };
    schema["description"] = json!(about);
    schema
}

/// `templates`: whether an expression is allowed here.
fn of_shape(shape: &Shape, templates: bool) -> Value {
    let number = |least: Value| json!({ "type": "number", "minimum": least });
    let schema = match shape {
        Shape::Literal(inner) => return of_shape(inner, false),
        // An expression is text anyway.
        Shape::Text | Shape::Path | Shape::Regex | Shape::Expression => {
            return json!({ "type": "string", "minLength": 1 });
        }
        Shape::Word => return json!({ "type": ["string", "number", "boolean"] }),
        Shape::Any => return json!({}),
        Shape::Section(section) => json!({ "$ref": format!("#/$defs/{}", section.name) }),
        Shape::Names(inner) => json!({ "type": "object", "additionalProperties": of_shape(inner, templates) }),
        Shape::Either(choices) => {
            let choices: Vec<Value> = choices.iter().map(|choice| of_shape(choice, false)).collect();
            json!({ "anyOf": choices })
        }
        Shape::Name => json!({ "type": "string", "pattern": "^[A-Za-z0-9._-]+$" }),
        Shape::Bool => json!({ "type": "boolean" }),
        Shape::Integer(min, max) if *max == u32::MAX => json!({ "type": "integer", "minimum": min }),
        Shape::Integer(min, max) => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Shape::Number => json!({ "type": "number" }),
        Shape::AnyNumber => {
            json!({ "anyOf": [{ "type": "number" }, { "type": "string", "pattern": "^(nan|[+-]?inf)$" }] })
        }
        Shape::Positive => json!({ "type": "number", "exclusiveMinimum": 0 }),
        Shape::NotNegative => number(json!(0)),
        Shape::Duration => json!({ "type": "string", "pattern": r"^(\d+(\.\d+)?(ms|s|m|h) ?)+$" }),
        Shape::Size => json!({ "anyOf": [
            { "type": "number" },
            { "type": "string", "pattern": r"^\d+(\.\d+)? ?(B|[KMGT]iB|[kKMGT]B)$" },
        ] }),
        Shape::Bound => json!({ "anyOf": [
            { "type": "number" },
            { "type": "string", "pattern": r"^[+-]\d+(\.\d+)? ?%$" },
        ] }),
        Shape::Choice(words) => json!({ "enum": words }),
        Shape::Exactly(number) => json!({ "const": number }),
        Shape::Null => json!({ "type": "null" }),
        Shape::List(least, inner) => {
            let mut schema = json!({ "type": "array", "items": of_shape(inner, templates) });
            if *least > 0 {
                schema["minItems"] = json!(least);
            }
            schema
        }
    };
    if !templates {
        return schema;
    }
    let template = json!({ "$ref": format!("#/$defs/{TEMPLATE}") });
    match schema {
        Value::Object(mut entries) if entries.len() == 1 && entries.contains_key("anyOf") => {
            if let Some(Value::Array(choices)) = entries.get_mut("anyOf") {
                choices.push(template);
            }
            Value::Object(entries)
        }
        schema => json!({ "anyOf": [schema, template] }),
    }
}

/// Markdown without links and code marks, which editors do not render.
fn plain(markdown: &str) -> String {
    let mut out = String::new();
    let mut rest = markdown;
    while let Some(start) = rest.find('[') {
        let Some((label, end)) = link(&rest[start..]) else {
            out.push_str(&rest[..=start]);
            rest = &rest[start + 1..];
            continue;
        };
        out.push_str(&rest[..start]);
        out.push_str(label);
        rest = &rest[start + end..];
    }
    out.push_str(rest);
    out
}

/// The label of the link that `text` starts with, and where the link ends.
fn link(text: &str) -> Option<(&str, usize)> {
    let close = text.find("](")?;
    let end = close + text[close..].find(')')?;
    let label = &text[1..close];
    (!label.contains(['[', ']', '`'])).then_some((label, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_become_their_labels() {
        assert_eq!(
            plain("a [managed one](python.md): `[torch==2, numpy]` or"),
            "a managed one: `[torch==2, numpy]` or"
        );
        assert_eq!(plain("no [link"), "no [link");
    }

    #[test]
    fn the_schema_is_a_schema_and_every_reference_is_defined() {
        let schema = json_schema();
        jsonschema::validator_for(&schema).unwrap();
        let text = schema.to_string();
        for part in text.split("#/$defs/").skip(1) {
            let name = part.split('"').next().unwrap();
            assert!(schema["$defs"].get(name).is_some(), "{name}");
        }
    }
}
