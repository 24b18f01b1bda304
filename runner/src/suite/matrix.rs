//! Matrix expansion, with `include` and `exclude` as on GitHub.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use model::node::{Node, Value};

use crate::expression::{self, compare};
use crate::suite::language::keys;
use crate::suite::reader::{Reader, did_you_mean, to_json};

/// One combination, by name.
pub(crate) type Combination = BTreeMap<String, serde_json::Value>;

/// Maximum number of combinations unless `max` is set.
const DEFAULT_MAX: u32 = 256;
/// Maximum number of combinations before `exclude`.
const MOST: usize = 100_000;

struct Rule {
    values: Combination,
    span: Range<usize>,
}

/// The combinations of a `matrix`; one empty combination if there is no matrix.
pub(crate) fn expand(reader: &Reader<'_>, node: Option<&Node>) -> Vec<Combination> {
    let Some(node) = node else { return vec![Combination::new()] };
    let Some(matrix) = reader.section(&keys::MATRIX, node) else { return Vec::new() };
    let axes = matrix.get("axes").map(|node| read_axes(reader, node)).unwrap_or_default();
    let exclude = matrix.get("exclude").map(|node| read_rules(reader, "exclude", node)).unwrap_or_default();
    let include = matrix.get("include").map(|node| read_rules(reader, "include", node)).unwrap_or_default();
    let max = matrix.get("max").and_then(|node| reader.integer("max", node, 1, 10_000)).unwrap_or(DEFAULT_MAX);
    matrix.finish();

    let product = axes.iter().fold(1_usize, |product, (_, values)| product.saturating_mul(values.len()));
    if product > MOST {
        reader.mistake(&node.span, format!("the matrix has more than {MOST} combinations"), "leave out some values");
        return Vec::new();
    }
    let mut combinations = if axes.is_empty() { Vec::new() } else { product_of(&axes) };
    for rule in &exclude {
        for name in rule.values.keys().filter(|name| !axes.iter().any(|(axis, _)| axis == *name)) {
            let help = did_you_mean(name, axes.iter().map(|(axis, _)| axis.as_str()));
            reader.mistake(&rule.span, format!("`exclude` names `{name}`, which is not an axis"), help);
        }
        let before = combinations.len();
        combinations.retain(|combination| !agrees(combination, &rule.values));
        if combinations.len() == before {
            reader.mistake(&rule.span, "this `exclude` excludes nothing", "remove it, or correct its values");
        }
    }
    let originals = combinations.len();
    for rule in &include {
        let extends = |combination: &Combination| {
            axes.iter().all(|(axis, _)| match (rule.values.get(axis), combination.get(axis)) {
                (Some(wanted), Some(has)) => compare::equal(wanted, has),
                _ => true,
            })
        };
        let mut used = false;
        for combination in combinations[..originals].iter_mut().filter(|combination| extends(combination)) {
            combination.extend(rule.values.clone());
            used = true;
        }
        if !used {
            combinations.push(rule.values.clone());
        }
    }
    report(reader, node, &combinations, max);
    combinations
}

fn report(reader: &Reader<'_>, node: &Node, combinations: &[Combination], max: u32) {
    if combinations.is_empty() {
        reader.mistake(&node.span, "the matrix has no combination", "write `axes: {name: [value, ...]}`");
    }
    if combinations.len() > max as usize {
        let message = format!("the matrix has {} combinations, more than `max: {max}`", combinations.len());
        reader.mistake(&node.span, message, "raise `max`, or leave out some values");
    }
    let mut suffixes: Vec<String> = combinations.iter().map(suffix).collect();
    suffixes.sort_unstable();
    for pair in suffixes.windows(2).filter(|pair| pair[0] == pair[1]) {
        reader.mistake(&node.span, format!("the combination {} is listed twice", pair[0]), "list each once");
    }
}

/// `[dtype=bf16,world=4]`, sorted by name; nothing for an empty combination.
pub(crate) fn suffix(combination: &Combination) -> String {
    if combination.is_empty() {
        return String::new();
    }
    let values: Vec<String> = combination
        .iter()
        .map(|(name, value)| match value {
            serde_json::Value::String(text) => format!("{name}={text}"),
            other => format!("{name}={other}"),
        })
        .collect();
    format!("[{}]", values.join(","))
}

fn agrees(combination: &Combination, rule: &Combination) -> bool {
    rule.iter().all(|(name, value)| combination.get(name).is_some_and(|has| compare::equal(has, value)))
}

fn product_of(axes: &[(String, Vec<serde_json::Value>)]) -> Vec<Combination> {
    let mut combinations = vec![Combination::new()];
    for (name, values) in axes {
        combinations = combinations
            .iter()
            .flat_map(|combination| {
                values.iter().map(move |value| {
                    let mut next = combination.clone();
                    next.insert(name.clone(), value.clone());
                    next
                })
            })
            .collect();
    }
    combinations
}

fn read_axes(reader: &Reader<'_>, node: &Node) -> Vec<(String, Vec<serde_json::Value>)> {
    let Some(axes) = reader.mapping("`axes`", node) else { return Vec::new() };
    axes.entries()
        .iter()
        .filter_map(|entry| {
            is_name(reader, &entry.key, &entry.key_span);
            let items = reader.list(&entry.key, &entry.node)?;
            if items.is_empty() {
                reader.mistake(&entry.node.span, format!("axis `{}` has no value", entry.key), "give it at least one");
            }
            Some((entry.key.clone(), items.iter().filter_map(|item| scalar(reader, &entry.key, item)).collect()))
        })
        .collect()
}

fn read_rules(reader: &Reader<'_>, what: &str, node: &Node) -> Vec<Rule> {
    let items = reader.list(what, node).unwrap_or_default();
    items
        .iter()
        .filter_map(|item| {
            let rule = reader.mapping(&format!("`{what}`"), item)?;
            if rule.entries().is_empty() {
                reader.mistake(&item.span, format!("an empty `{what}`"), "name at least one value");
            }
            let values = rule
                .entries()
                .iter()
                .filter_map(|entry| {
                    is_name(reader, &entry.key, &entry.key_span);
                    Some((entry.key.clone(), scalar(reader, &entry.key, &entry.node)?))
                })
                .collect();
            Some(Rule { values, span: item.span.clone() })
        })
        .collect()
}

/// A number or boolean as it is written, if JSON has it otherwise.
fn spelled(reader: &Reader<'_>, node: &Node) -> Option<String> {
    let shown = to_json(node).to_string();
    reader.scalar(node).filter(|written| *written != shown)
}

/// Reports numbers whose value is taken as it is written, as `2.10` is, and that an expression in `texts` computes with.
pub(crate) fn computed(reader: &Reader<'_>, matrix: Option<&Node>, nodes: &[&Node]) {
    let mut odd: Vec<(&str, &Node)> = Vec::new();
    for (key, node) in named_values(matrix) {
        let named = match (key, &node.value) {
            ("axes", _) => named_values(Some(node)),
            ("include", Value::List(items)) => items.iter().flat_map(|item| named_values(Some(item))).collect(),
            _ => Vec::new(),
        };
        for (name, node) in named {
            let values =
                if let Value::List(items) = &node.value { items.as_slice() } else { std::slice::from_ref(node) };
            let is_odd = |value: &&Node| !matches!(value.value, Value::Text(_)) && spelled(reader, value).is_some();
            odd.extend(values.iter().filter(is_odd).map(|value| (name, value)));
        }
    }
    if odd.is_empty() {
        return;
    }
    let mut seen = BTreeSet::new();
    let mut see = |text: &str, bare: bool| {
        let expressions = expression::template::expressions(text);
        let bare = (bare && expressions.is_empty()).then_some(text);
        for expression in expressions.into_iter().chain(bare) {
            for name in expression::attributes(expression, "matrix").unwrap_or_default() {
                if expression != format!("matrix.{name}") && seen.insert((name.clone(), expression.to_owned())) {
                    for (_, value) in odd.iter().filter(|(odd, _)| *odd == name) {
                        let (written, number) = (reader.scalar(value).unwrap_or_default(), to_json(value));
                        let message =
                            format!("`{written}` is used in the expression `{}`", expression::cut(expression));
                        let help = format!("write \"{written}\" for text, or {number}, which is how YAML reads it");
                        reader.mistake(&value.span, message, help);
                    }
                }
            }
        }
    };
    let mut todo: Vec<(&Node, bool)> = nodes.iter().map(|node| (*node, false)).collect();
    while let Some((node, bare)) = todo.pop() {
        match &node.value {
            Value::Text(text) => see(text, bare),
            Value::List(items) => todo.extend(items.iter().map(|item| (item, bare))),
            Value::Map(entries) => {
                let is_bare = |key: &str| bare || matches!(key, "invariants" | "if");
                todo.extend(entries.iter().map(|entry| (&entry.node, is_bare(&entry.key))));
            }
            Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Float(_) => {}
        }
    }
}

fn named_values(node: Option<&Node>) -> Vec<(&str, &Node)> {
    match node.map(|node| &node.value) {
        Some(Value::Map(entries)) => entries.iter().map(|entry| (entry.key.as_str(), &entry.node)).collect(),
        _ => Vec::new(),
    }
}

fn is_name(reader: &Reader<'_>, name: &str, span: &Range<usize>) {
    let fits = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|character| character.is_ascii_alphanumeric() || character == '_');
    if !fits {
        reader.mistake(span, format!("`{name}` cannot be used in expressions"), "use letters, digits and `_`");
    }
}

fn scalar(reader: &Reader<'_>, what: &str, node: &Node) -> Option<serde_json::Value> {
    match &node.value {
        Value::Bool(_) | Value::Integer(_) | Value::Float(_) => {
            let value = to_json(node);
            // What is written counts: `2.10` is a version, and `012` a name.
            Some(spelled(reader, node).map_or(value, serde_json::Value::String))
        }
        Value::Text(text) if !text.contains([',', '[', ']', '=', '\n']) => Some(to_json(node)),
        Value::Text(_) => {
            reader.mistake(
                &node.span,
                format!("the value of `{what}` contains one of , [ ] = or a line end"),
                "matrix values are part of the case's id; use a plain word",
            );
            None
        }
        other => {
            reader.mistake(&node.span, format!("the value of `{what}` must be a scalar, found {}", other.kind()), "");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::Path;

    fn ids(text: &str) -> Result<Vec<String>, Vec<String>> {
        let reader = Reader::new(Path::new("m.yaml"), text);
        let node = reader.parse();
        let combinations = expand(&reader, node.as_ref());
        let mistakes = reader.finish();
        if mistakes.is_empty() {
            Ok(combinations.iter().map(suffix).collect())
        } else {
            Err(mistakes.iter().map(ToString::to_string).collect())
        }
    }

    #[test]
    fn axes_include_exclude() {
        let text = "axes: {world: [2, 4], dtype: [f32, bf16]}\nexclude: [{world: 2, dtype: bf16}]\ninclude: [{world: 8, dtype: f32, big: true}, {world: 4, extra: 1}]\n";
        assert_eq!(
            ids(text).unwrap(),
            [
                "[dtype=f32,world=2]",
                "[dtype=f32,extra=1,world=4]",
                "[dtype=bf16,extra=1,world=4]",
                "[big=true,dtype=f32,world=8]"
            ]
        );
    }

    #[test]
    fn values_are_as_they_are_written() {
        let text = "axes: {v: [2.9, 2.10, 012, 1e3, .5, 0x10, 1_000, yes, True, 2027-03-01, 1.0, -0, +1, 4]}\n";
        let values = ids(text).unwrap();
        let written: Vec<&str> = values.iter().map(|id| id.trim_start_matches("[v=").trim_end_matches(']')).collect();
        let expected =
            ["2.9", "2.10", "012", "1e3", ".5", "0x10", "1_000", "yes", "True", "2027-03-01", "1.0", "-0", "+1", "4"];
        assert_eq!(written, expected);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("axes: {world: []}", "has no value"),
            ("axes: {w: [1]}\nexclude: [{w: 2}]", "excludes nothing"),
            ("axes: {w: [1]}\nexclude: [{v: 1}]", "which is not an axis"),
            ("axes: {w: [1, 1]}", "listed twice"),
            ("axes: {w: [1, 2, 3]}\nmax: 2", "more than `max: 2`"),
            ("axes: {w: [[1]]}", "must be a scalar"),
            ("axis: {w: [1]}", "unknown key `axis`"),
            ("axes: {w-x: [1]}", "cannot be used in expressions"),
            ("{}", "no combination"),
        ] {
            let mistakes = ids(text).unwrap_err();
            assert!(mistakes.iter().any(|mistake| mistake.contains(part)), "{text}: {mistakes:?}");
        }
    }

    proptest! {
        #[test]
        fn the_number_of_combinations_is_the_product(sizes in proptest::collection::vec(1..5_usize, 1..4)) {
            let axes: Vec<String> = sizes.iter().enumerate()
                .map(|(axis, size)| format!("a{axis}: [{}]", (0..*size).map(|value| value.to_string()).collect::<Vec<_>>().join(", ")))
                .collect();
            let ids = ids(&format!("axes: {{{}}}\n", axes.join(", "))).unwrap();
            prop_assert_eq!(ids.len(), sizes.iter().product::<usize>());
            let mut unique = ids.clone();
            unique.sort();
            unique.dedup();
            prop_assert_eq!(unique.len(), ids.len());
        }
    }
}
