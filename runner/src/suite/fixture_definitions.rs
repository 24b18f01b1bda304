//! The `fixtures` of a suite as written: their names, what each uses, and which are unused.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use model::node::Node;

use crate::case::fixture::{Fixture, Scope};
use crate::suite::language;
use crate::suite::reader::{Reader, Span, did_you_mean};

/// The fixtures of a suite, by name.
#[derive(Debug, Default)]
pub(super) struct Definitions<'a> {
    pub(super) by_name: BTreeMap<String, Definition<'a>>,
}

#[derive(Debug)]
pub(super) struct Definition<'a> {
    pub(super) node: &'a Node,
    pub(super) key: &'a Span,
    pub(super) scope: Scope,
    pub(super) outputs: Vec<String>,
    pub(super) uses: Vec<String>,
    /// A fixture of suite scope, once a case has used it; a fixture of case scope belongs to one case.
    pub(super) made: RefCell<Option<Arc<Fixture>>>,
    pub(super) used: std::cell::Cell<bool>,
}

/// Reads the definitions as far as possible without a case.
pub(super) fn read<'a>(reader: &Reader<'_>, node: Option<&'a Node>) -> Definitions<'a> {
    let mut definitions = Definitions::default();
    let Some(mapping) = node.and_then(|node| reader.mapping("`fixtures`", node)) else { return definitions };
    for entry in mapping.entries() {
        let fits = |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_');
        if entry.key.is_empty() || !entry.key.chars().all(fits) {
            let message = format!("`{}` cannot be named in expressions", entry.key);
            reader.mistake(&entry.key_span, message, "use letters, digits, `-` and `_`");
        }
        let Some(inner) = reader.section(&language::fixture::FIXTURE, &entry.node) else { continue };
        let scope = inner.get("scope").and_then(|node| reader.choice("scope", node, &["case", "suite"]));
        let outputs = inner.get("outputs").and_then(|node| {
            let names = reader.texts("outputs", node)?;
            for (name, node) in names.iter().zip(reader.list("outputs", node)?) {
                let head = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
                if !head || !name.chars().all(|character| character.is_ascii_alphanumeric() || character == '_') {
                    let message = format!("`{name}` is not a valid name of a variable");
                    reader.mistake(&node.span, message, "use letters, digits and `_`");
                }
            }
            Some(names)
        });
        let uses = inner.get("uses").and_then(|node| reader.texts("uses", node));
        let definition = Definition {
            node: &entry.node,
            key: &entry.key_span,
            scope: if scope == Some(1) { Scope::Suite } else { Scope::Case },
            outputs: outputs.unwrap_or_default(),
            uses: uses.unwrap_or_default(),
            made: RefCell::default(),
            used: Default::default(),
        };
        definitions.by_name.insert(entry.key.clone(), definition);
    }
    definitions.check_uses(reader);
    definitions
}

impl Definitions<'_> {
    fn check_uses(&self, reader: &Reader<'_>) {
        for (name, definition) in &self.by_name {
            for other in &definition.uses {
                match self.by_name.get(other) {
                    None => self.unknown(reader, other, definition.key),
                    Some(used) if definition.scope == Scope::Suite && used.scope == Scope::Case => reader.mistake(
                        definition.key,
                        format!("`{name}` lives as long as the suite and uses `{other}`, which lives for one case"),
                        format!("write `scope: suite` for `{other}`, or `scope: case` for `{name}`"),
                    ),
                    Some(_) => {}
                }
            }
            if let Some(circle) = self.circle(name) {
                reader.mistake(definition.key, format!("fixtures that use each other: {circle}"), "break the circle");
            }
        }
    }

    /// `a -> b -> a`, reported once, for the first of its names.
    fn circle(&self, start: &str) -> Option<String> {
        let mut paths = vec![vec![start]];
        while let Some(path) = paths.pop() {
            let last = path.last().and_then(|name| self.by_name.get(*name));
            for next in last.iter().flat_map(|definition| &definition.uses) {
                if next == start {
                    let first = path.iter().min() == Some(&start);
                    return first.then(|| format!("{} -> {start}", path.join(" -> ")));
                }
                if !path.contains(&next.as_str()) {
                    paths.push(path.iter().copied().chain([next.as_str()]).collect());
                }
            }
        }
        None
    }

    pub(super) fn unknown(&self, reader: &Reader<'_>, name: &str, span: &Span) {
        let known = self.by_name.keys().map(String::as_str);
        let help =
            if self.by_name.is_empty() { "define it under `fixtures`".to_owned() } else { did_you_mean(name, known) };
        reader.mistake(span, format!("unknown fixture `{name}`"), help);
    }

    /// Reports the fixtures that are not used.
    pub(super) fn finish(&self, reader: &Reader<'_>) {
        for (name, definition) in self.by_name.iter().filter(|(_, definition)| !definition.used.get()) {
            let help = format!("remove it, or write `uses: [{name}]` in a case");
            reader.mistake(definition.key, format!("no case uses the fixture `{name}`"), help);
        }
    }
}
