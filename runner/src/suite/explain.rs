//! A fully resolved case: every key with its value and where it is set, or its default.

use std::fmt::Write as _;

use model::node::{Entry, Node, Value};

use crate::suite::language::{Section, Shape, Unless, keys};
use crate::suite::quantity;
use crate::suite::reader::Reader;

/// Keys whose values in `defaults` and in the case are combined.
const ADDITIVE: [&str; 5] = ["tags", "allow_gaps", "requires", "uses", "env_inherit"];
/// Keys whose mappings are merged key by key.
const MERGED: [&str; 3] = ["env", "timeout", "resources"];
/// Maximum length of a list or mapping shown on one line, characters.
const ONE_LINE: usize = 100;
/// Column at which origins begin, unless the line is longer.
const COLUMN: usize = 48;

/// The explanation of a case as YAML with a comment for each value.
pub(super) fn case(reader: &Reader<'_>, id: &str, case: &Node, defaults: Option<&Node>, notes: &[String]) -> String {
    let mut out = Lines { reader, text: String::new() };
    let _ = writeln!(out.text, "# {id}");
    for note in notes {
        let _ = writeln!(out.text, "# {note}");
    }
    for key in keys::CASE.keys() {
        let own = find(case, key.name);
        let default = defaults.and_then(|defaults| find(defaults, key.name));
        match (own, default) {
            (Some(own), Some(default)) if ADDITIVE.contains(&key.name) => out.added(key.name, &[default, own]),
            (Some(own), Some(default)) if MERGED.contains(&key.name) => {
                out.merged(key.name, &key.shape, &[(&default.node, true), (&own.node, false)]);
            }
            (Some(own), _) if MERGED.contains(&key.name) => {
                out.merged(key.name, &key.shape, &[(&own.node, false)]);
            }
            (None, Some(default)) if MERGED.contains(&key.name) => {
                out.merged(key.name, &key.shape, &[(&default.node, true)]);
            }
            (Some(own), _) => out.entry(0, key.name, &own.node, Some(&key.shape), false),
            (None, Some(default)) => out.entry(0, key.name, &default.node, Some(&key.shape), true),
            (None, None) if MERGED.contains(&key.name) => out.merged(key.name, &key.shape, &[]),
            (None, None) => out.absent(0, key.name, key.unless),
        }
    }
    out.text
}

struct Lines<'a> {
    reader: &'a Reader<'a>,
    text: String,
}

impl Lines<'_> {
    fn line(&mut self, depth: usize, text: &str, origin: &str) {
        let line = format!("{:indent$}{text}", "", indent = depth * 2);
        if origin.is_empty() {
            let _ = writeln!(self.text, "{line}");
        } else {
            let _ = writeln!(self.text, "{line:<COLUMN$} # {origin}");
        }
    }

    /// `suite.yaml:12, of defaults, ${{ matrix.n }}, 1073741824 bytes`.
    fn origin(&self, node: &Node, shape: Option<&Shape>, of_defaults: bool) -> String {
        let mut parts = Vec::new();
        if node.span != (0..0) {
            let place = self.reader.place(&node.span);
            parts.push(format!("{}:{}", place.file.display(), place.line));
        }
        if of_defaults {
            parts.push("defaults".to_owned());
        }
        let written = self.reader.text().get(node.span.clone()).unwrap_or_default();
        if written.contains("${{") && !matches!(node.value, Value::Map(_) | Value::List(_)) {
            parts.push(written.trim_matches(['"', '\'']).to_owned());
        }
        if let Some(bytes) = bytes(node, shape) {
            parts.push(format!("{bytes} bytes"));
        }
        if let (Value::Map(entries), Some(section)) = (&node.value, section_of(shape)) {
            for entry in entries {
                let shape = section.key(&entry.key).map(|key| &key.shape);
                parts.extend(bytes(&entry.node, shape).map(|bytes| format!("{} {bytes} bytes", entry.key)));
            }
        }
        parts.join(", ")
    }

    /// The default of a key that is not set.
    fn absent(&mut self, depth: usize, key: &str, unless: Unless) {
        if let Unless::Default(value) = unless {
            let value = value.replace('`', "");
            // A default that is not a value is given in words; a link would lead nowhere here.
            if value.starts_with("see [") {
                return;
            }
            if value == "none" || value.contains(' ') {
                self.line(depth, &format!("# {key} left out: {value}"), "");
            } else {
                self.line(depth, &format!("{key}: {value}"), "built in");
            }
        }
    }

    fn entry(&mut self, depth: usize, key: &str, node: &Node, shape: Option<&Shape>, of_defaults: bool) {
        let origin = self.origin(node, shape, of_defaults);
        let flow = flow(self.reader, node);
        match &node.value {
            Value::Map(entries) if depth == 0 || flow.chars().count() + key.len() > ONE_LINE => {
                self.line(depth, &format!("{}:", quoted(key)), "");
                let section = section_of(shape);
                for entry in entries {
                    let shape = section.and_then(|section| section.key(&entry.key)).map(|key| &key.shape);
                    self.entry(depth + 1, &entry.key, &entry.node, shape, of_defaults);
                }
                self.bounds(depth + 1, entries);
            }
            Value::List(items) if flow.chars().count() + key.len() > ONE_LINE || items.iter().any(has_size) => {
                self.line(depth, &format!("{}:", quoted(key)), "");
                self.items(depth + 1, items, shape, of_defaults);
            }
            _ => self.line(depth, &format!("{}: {flow}", quoted(key)), &origin),
        }
    }

    fn items(&mut self, depth: usize, items: &[Node], shape: Option<&Shape>, of_defaults: bool) {
        let section = section_of(shape);
        for item in items {
            match &item.value {
                Value::Map(entries) => {
                    for (index, entry) in entries.iter().enumerate() {
                        let shape = section.and_then(|section| section.key(&entry.key)).map(|key| &key.shape);
                        let lead = if index == 0 { "- " } else { "  " };
                        let origin = self.origin(&entry.node, shape, of_defaults);
                        let text = format!("{lead}{}: {}", quoted(&entry.key), flow(self.reader, &entry.node));
                        self.line(depth, &text, &origin);
                    }
                    self.bounds(depth + 1, entries);
                }
                _ => {
                    let origin = self.origin(item, None, of_defaults);
                    self.line(depth, &format!("- {}", flow(self.reader, item)), &origin);
                }
            }
        }
    }

    /// The absolute numbers for the percentages of a `perf`.
    fn bounds(&mut self, depth: usize, entries: &[Entry]) {
        let get = |key: &str| entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node.value);
        let number = |value: &Value| match value {
            Value::Integer(number) => Some(*number as f64),
            Value::Float(number) => Some(*number),
            _ => None,
        };
        let Some(reference) = get("reference").and_then(number) else { return };
        for key in ["lower", "upper", "warn_lower", "warn_upper"] {
            let Some(Value::Text(text)) = get(key) else { continue };
            let percent = text.strip_suffix('%').and_then(|text| text.trim_end().parse::<f64>().ok());
            if let Some(bound) =
                percent.and_then(|percent| crate::check::perf::Bound::Percent(percent).resolve(Some(reference)).ok())
            {
                self.line(depth, &format!("# {key} is {}", crate::check::perf::rounded(bound)), "");
            }
        }
    }

    /// Lists one after the other, each item with its place.
    fn added(&mut self, key: &str, layers: &[&Entry]) {
        self.line(0, &format!("{key}:"), "");
        for (layer, of_defaults) in layers.iter().zip([true, false]) {
            let one = std::slice::from_ref(&layer.node);
            let items = if let Value::List(items) = &layer.node.value { items.as_slice() } else { one };
            self.items(1, items, None, of_defaults);
        }
    }

    /// Mappings one over the other, then the built-in defaults. A scalar stands for the key that its short form means.
    fn merged(&mut self, key: &str, shape: &Shape, layers: &[(&Node, bool)]) {
        let section = section_of(Some(shape));
        let mut names: Vec<String> =
            section.map(|section| section.keys().map(|key| key.name.to_owned()).collect()).unwrap_or_default();
        let mut found: Vec<(String, &Node, bool)> = Vec::new();
        for (node, of_defaults) in layers {
            match &node.value {
                Value::Map(entries) => {
                    found.extend(entries.iter().map(|entry| (entry.key.clone(), &entry.node, *of_defaults)));
                }
                _ => found.push(("kill".to_owned(), node, *of_defaults)),
            }
        }
        for (name, _, _) in &found {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        if names.is_empty() {
            return;
        }
        self.line(0, &format!("{key}:"), "");
        for name in names {
            let known = section.and_then(|section| section.key(&name));
            match found.iter().rev().find(|(key, _, _)| *key == name) {
                Some((_, node, of_defaults)) => {
                    self.entry(1, &name, node, known.map(|key| &key.shape), *of_defaults);
                }
                None => self.absent(1, &name, known.map_or(Unless::Nothing, |key| key.unless)),
            }
        }
    }
}

/// A size in bytes.
fn bytes(node: &Node, shape: Option<&Shape>) -> Option<u64> {
    match (&node.value, shape) {
        (Value::Text(text), Some(Shape::Size)) => quantity::size(text),
        _ => None,
    }
}

fn find<'n>(node: &'n Node, key: &str) -> Option<&'n Entry> {
    match &node.value {
        Value::Map(entries) => entries.iter().find(|entry| entry.key == key),
        _ => None,
    }
}

fn has_size(node: &Node) -> bool {
    matches!(&node.value, Value::Map(_))
}

fn section_of(shape: Option<&Shape>) -> Option<&'static Section> {
    match shape? {
        Shape::Section(section) => Some(section),
        Shape::List(_, inner) | Shape::Literal(inner) => section_of(Some(inner)),
        Shape::Either(choices) => choices.iter().find_map(|choice| section_of(Some(choice))),
        _ => None,
    }
}

/// A value on one line, as YAML; a number as it is written.
fn flow(reader: &Reader<'_>, node: &Node) -> String {
    match &node.value {
        Value::Null => "~".to_owned(),
        Value::Bool(_) | Value::Integer(_) => reader.scalar(node).unwrap_or_default(),
        Value::Float(number) => match reader.text().get(node.span.clone()) {
            Some(written) if !written.is_empty() && !written.contains("${{") => written.to_owned(),
            _ => format!("{number:?}"),
        },
        Value::Text(text) => quoted(text),
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(|item| flow(reader, item)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(entries) if entries.is_empty() => "{}".to_owned(),
        Value::Map(entries) => {
            let entries: Vec<String> =
                entries.iter().map(|entry| format!("{}: {}", quoted(&entry.key), flow(reader, &entry.node))).collect();
            format!("{{ {} }}", entries.join(", "))
        }
    }
}

/// Text as a YAML scalar: plain if that gives the same text.
fn quoted(text: &str) -> String {
    let plain = text.starts_with(|first: char| first.is_ascii_alphabetic() || matches!(first, '/' | '$' | '_'))
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "/._-$+=@ ".contains(letter))
        && !text.ends_with(' ')
        && !matches!(text, "true" | "false" | "null" | "yes" | "no");
    if plain { text.to_owned() } else { serde_json::Value::String(text.to_owned()).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_back_as_they_are() {
        for text in
            ["a b", "1.0", "true", "x: y", "", "-c", "#x", "a # b", "$HOME", "${{ x }}", "é\n\"", "null", ".nan", "=x"]
        {
            let written = quoted(text);
            let node: Node = model::yaml::read("q.yaml", &format!("- {written}\n")).unwrap();
            let Value::List(items) = &node.value else { panic!("{node:?}") };
            assert_eq!(items[0].value, Value::Text(text.to_owned()), "{written}");
        }
    }
}
