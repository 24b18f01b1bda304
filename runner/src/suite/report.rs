//! `expect.report`: paths, operators and quantifiers.

use std::ops::Range;
use std::sync::Arc;

use model::node::{Node, Value};
use serde_json::json;
use serde_json_path::JsonPath;

use crate::check::capture::{self, Later, Operand};
use crate::check::operator::{Direction, Operator, Type};
use crate::check::report::{Count, ReportCheck, ReportKind};
use crate::check::tolerance::{self, DTYPES, Tolerance};
use crate::expression;
use crate::suite::fields::{self, Report, Selected};
use crate::suite::language::expect as language;
use crate::suite::output_line::regex;
use crate::suite::rank::read_ranks;
use crate::suite::reader::{self, Mapping, Reader, did_you_mean};
use crate::suite::{path, quantity, template};

/// Captures that values of checks may use, evaluated when the processes have ended.
#[derive(Clone, Debug)]
pub(super) struct Captured {
    /// The names that output checks of the case capture.
    pub(super) names: Vec<String>,
    /// Other names that expressions see.
    pub(super) context: Arc<serde_json::Value>,
}

/// Keys whose values may use captures.
const LATER: [&str; 10] = ["eq", "ne", "lt", "le", "gt", "ge", "between", "near", "in", "contains"];

impl Captured {
    /// Reports captures in `expression` that no output check has.
    pub(super) fn check(&self, reader: &Reader<'_>, span: &Range<usize>, expression: &str) {
        for name in expression::attributes(expression, capture::NAME).unwrap_or_default() {
            if !self.names.contains(&name) {
                let help = if self.names.is_empty() {
                    format!("capture it: `stdout: {{matches: \"(?<{name}>...)\", capture: [{name}]}}`")
                } else {
                    did_you_mean(&name, self.names.iter().map(String::as_str))
                };
                reader.mistake(span, format!("nothing captures `{name}`"), help);
            }
        }
    }

    /// The expression over captures that `node` is, if it is one.
    pub(super) fn later(&self, reader: &Reader<'_>, node: &Node) -> Option<Later> {
        let Value::Text(text) = &node.value else { return None };
        if !template::uses_captures(text) {
            return None;
        }
        for expression in expression::template::expressions(text) {
            match expression::names(expression) {
                Err(error) => reader.mistake(&node.span, format!("wrong expression: {error}"), ""),
                Ok(names) => {
                    let known = |name: &str| name == capture::NAME || self.context.get(name).is_some();
                    for name in names.iter().filter(|name| !known(name)) {
                        reader.mistake(&node.span, format!("unknown name `{name}`"), "");
                    }
                }
            }
            self.check(reader, &node.span, expression);
        }
        Some(Later { text: text.clone(), context: Arc::clone(&self.context) })
    }

    /// Reports captures where they are not allowed: in other keys than `allowed`, and deeper than their items.
    pub(super) fn refuse(&self, reader: &Reader<'_>, mapping: &Mapping<'_, '_>, allowed: &[&str]) {
        for entry in mapping.entries().iter().filter(|entry| !NESTED.contains(&entry.key.as_str())) {
            let wrong = match &entry.node.value {
                Value::Text(_) if allowed.contains(&entry.key.as_str()) => None,
                Value::List(items) if matches!(entry.key.as_str(), "between" | "in") => {
                    items.iter().filter(|item| !matches!(item.value, Value::Text(_))).find_map(with_captures)
                }
                _ => with_captures(&entry.node),
            };
            if let Some(node) = wrong {
                let deeper = if allowed.contains(&entry.key.as_str()) { " below" } else { " in" };
                let message = format!("captures are not allowed{deeper} `{}`", entry.key);
                let allowed = if allowed.is_empty() { LATER.as_slice() } else { allowed };
                reader.mistake(&node.span, message, format!("they may be a value of {}", allowed.join(", ")));
            }
        }
    }
}

/// Keys whose mappings are checked separately.
const NESTED: [&str; 5] = ["all", "any", "none", "count", "where"];

/// The first text at or below `node` that uses captures.
fn with_captures(node: &Node) -> Option<&Node> {
    match &node.value {
        Value::Text(text) => template::uses_captures(text).then_some(node),
        Value::List(items) => items.iter().find_map(with_captures),
        Value::Map(entries) => entries.iter().find_map(|entry| with_captures(&entry.node)),
        Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Float(_) => None,
    }
}

/// A path into `report`, written at `span`, and what it selects.
pub(super) fn read_path(
    reader: &Reader<'_>,
    span: &Range<usize>,
    text: &str,
    report: Report,
) -> Option<(JsonPath, Option<Selected>)> {
    let (path, query) = match path::parse(text) {
        Ok(read) => read,
        Err(path::Wrong { at, what }) => {
            let here = at.map_or_else(|| span.clone(), |at| reader.part(span, text, at..at + 1));
            let message = format!("wrong path `{}`: {what}", expression::cut(text));
            reader.mistake(&here, message, "a path is RFC 9535 JSONPath, `$.ranks[*].calls`");
            return None;
        }
    };
    match report.check(&query) {
        Ok(selected) => Some((path, Some(selected))),
        Err(unknown) => {
            let here = reader.part(span, text, unknown.at);
            reader.mistake(&here, format!("the report has no `{}` there", unknown.name), unknown.help);
            Some((path, None))
        }
    }
}

/// Reports values of another type than that of what is selected: they are never equal.
fn never_equal(reader: &Reader<'_>, mapping: &Mapping<'_, '_>, selected: Option<&Selected>) {
    let Some(types) = selected.and_then(Selected::types) else { return };
    for entry in mapping.entries() {
        let items = match (entry.key.as_str(), &entry.node.value) {
            ("all" | "any" | "none", Value::Map(_)) => {
                if let Some(inner) = reader.mapping(&entry.key, &entry.node) {
                    never_equal(reader, &inner, selected);
                }
                continue;
            }
            ("count", Value::Map(inner)) => {
                let inner = inner.iter().find(|entry| entry.key == "where");
                if let Some(inner) = inner.and_then(|entry| reader.mapping("where", &entry.node)) {
                    never_equal(reader, &inner, selected);
                }
                continue;
            }
            ("in", Value::List(items)) => items.as_slice(),
            ("eq" | "ne", _) => std::slice::from_ref(&entry.node),
            _ => continue,
        };
        for item in
            items.iter().filter(|item| !matches!(&item.value, Value::Text(text) if template::uses_captures(text)))
        {
            let value = reader::to_json(item);
            let is = fields::type_of(&value);
            let fits = types.contains(is) || is == "number" && types.contains("integer");
            if fits || matches!(is, "array" | "object") {
                continue;
            }
            let there: Vec<&str> = types.iter().map(|one| if *one == "string" { "text" } else { one }).collect();
            let is = if is == "string" { "text" } else { is };
            let help = match &item.value {
                Value::Text(text) if text.parse::<f64>().is_ok() && !types.contains("string") => {
                    format!("write it without quotes: `{}: {text}`", entry.key)
                }
                Value::Integer(_) | Value::Float(_) if types.contains("string") => {
                    format!("put it in quotes: `{}: \"{}\"`", entry.key, reader.scalar(item).unwrap_or_default())
                }
                _ => "correct the path or the value".to_owned(),
            };
            let message = format!(
                "`{}` is {is}, and what the path selects is {}: they are never equal",
                entry.key,
                there.join(" or ")
            );
            reader.mistake(&item.span, message, help);
        }
    }
}

pub(super) fn read_kind(reader: &Reader<'_>, mapping: &Mapping<'_, '_>) -> ReportKind {
    match mapping.get("of").and_then(|node| reader.choice("of", node, &["cluster", "report", "device"])) {
        Some(2) => ReportKind::Device,
        _ => ReportKind::Cluster,
    }
}

/// One item of `report`.
pub(super) fn read(reader: &Reader<'_>, node: &Node, captured: &Captured, world: Option<u32>) -> Vec<ReportCheck> {
    let Some((check, ranks)) = read_check(reader, node, captured, world) else { return Vec::new() };
    match ranks {
        None => vec![check],
        Some(ranks) => ranks.into_iter().map(|rank| ReportCheck { rank: Some(rank), ..check.clone() }).collect(),
    }
}

/// The check, and the ranks whose device reports it is made for.
fn read_check(
    reader: &Reader<'_>,
    node: &Node,
    captured: &Captured,
    world: Option<u32>,
) -> Option<(ReportCheck, Option<Vec<u32>>)> {
    let mapping = reader.section(&language::REPORT, node)?;
    captured.refuse(reader, &mapping, &LATER);
    let of = read_kind(reader, &mapping);
    let report = Report::for_kind(of, mapping.get("rank").is_some());
    let path = mapping
        .required("path", "path: $.cluster.world_size")
        .and_then(|node| read_path(reader, &node.span, &reader.string("path", node)?, report));
    never_equal(reader, &mapping, path.as_ref().and_then(|(_, selected)| selected.as_ref()));
    let ranks = mapping.get("rank").map(|node| match &node.value {
        Value::Text(text) if text == "all" => (0..world.filter(|world| *world < u32::MAX).unwrap_or(1)).collect(),
        _ => read_ranks(reader, node, world),
    });
    if let (Some(node), true) = (mapping.get("rank"), mapping.entry("of").is_some() && of != ReportKind::Device) {
        let help = "a rank has a device report: write `of: device`, or leave it out";
        reader.mistake(&node.span, "`rank` of the cluster report", help);
    }
    let fatal = mapping.is_fatal();
    let because = mapping.get("because").and_then(|node| reader.string("because", node));
    let operators = read_operators(reader, &mapping, captured);
    let quantified = |key| {
        let Some(node) = mapping.get(key) else { return Some(Vec::new()) };
        let inner = reader.section_as(&language::OF_EACH, &format!("`{key}`"), node)?;
        captured.refuse(reader, &inner, &LATER);
        let operators = read_operators(reader, &inner, captured);
        if operators.is_empty() && inner.entries().is_empty() {
            reader.mistake(&node.span, format!("`{key}` asks for nothing"), "write `{eq: 1}`");
        }
        inner.finish();
        Some(operators)
    };
    let (all, any, none) = (quantified("all"), quantified("any"), quantified("none"));
    let count = mapping.get("count").map(|node| read_count(reader, node, captured));
    let exists = mapping.get("exists").and_then(|node| reader.boolean("exists", node));
    let absent = mapping.get("absent").and_then(|node| reader.boolean("absent", node));
    if mapping.entries().iter().all(|entry| matches!(entry.key.as_str(), "path" | "of" | "rank" | "fatal" | "because"))
    {
        let operators: Vec<&str> = language::REPORT
            .keys()
            .map(|key| key.name)
            .filter(|name| {
                !["path", "of", "rank", "fatal", "because", "rel", "abs", "dtype", "nan", "unordered"].contains(name)
            })
            .collect();
        let help = format!("add an operator: {}", operators.join(", "));
        reader.mistake(&node.span, "this check compares nothing", help);
    }
    if exists.is_some() && absent.is_some() {
        reader.mistake(&node.span, "`exists` and `absent` exclude each other", "keep one of the two");
    }
    mapping.finish();
    let check = ReportCheck {
        of,
        rank: None,
        fatal,
        path: path?.0,
        operators,
        all: all?,
        any: any?,
        none: none?,
        count: count.map_or(Some(None), |count| count.map(Some))?,
        exists: exists.or(absent.map(|absent| !absent)),
        because,
        place: reader.place(&node.span),
    };
    Some((check, ranks))
}

/// A number, or `{where: {...}, min: 1, max: 3}`.
fn read_count(reader: &Reader<'_>, node: &Node, captured: &Captured) -> Option<Count> {
    let number = |what, node| reader.integer(what, node, 0, u32::MAX).map(u64::from);
    if !matches!(node.value, Value::Map(_)) {
        let exact = number("count", node)?;
        return Some(Count { of: Vec::new(), min: Some(exact), max: Some(exact) });
    }
    let mapping = reader.section(&language::COUNT, node)?;
    captured.refuse(reader, &mapping, &[]);
    let of = mapping.get("where").map(|node| {
        let inner = reader.section_as(&language::OF_EACH, "`where`", node)?;
        captured.refuse(reader, &inner, &LATER);
        let operators = read_operators(reader, &inner, captured);
        inner.finish();
        Some(operators)
    });
    let bound = |key| mapping.get(key).and_then(|node| number(key, node));
    let (exact, min, max) = (bound("eq"), bound("min"), bound("max"));
    mapping.finish();
    if exact.or(min).or(max).is_none() {
        reader.mistake(&node.span, "`count` asks for no number", "add `eq: 2`, `min: 1` or `max: 3`");
    } else if exact.is_some() && min.or(max).is_some() {
        reader.mistake(&node.span, "`count` has `eq` and a range", "keep one of the two");
    } else if min.zip(max).is_some_and(|(min, max)| min > max) {
        reader.mistake(&node.span, "`min` is above `max`", "no number is both");
    }
    Some(Count { of: of.unwrap_or(Some(Vec::new()))?, min: exact.or(min), max: exact.or(max) })
}

fn read_operators(reader: &Reader<'_>, mapping: &Mapping<'_, '_>, captured: &Captured) -> Vec<Operator<Operand>> {
    let mut operators = Vec::new();
    let value = |key| mapping.get(key).and_then(|node| read_value(reader, key, node, captured));
    let unordered = mapping.get("unordered").and_then(|node| Some((reader.boolean("unordered", node)?, node)));
    match (mapping.get("eq"), unordered) {
        (Some(eq), Some((true, _))) => {
            if !matches!(eq.value, Value::List(_) | Value::Text(_)) {
                reader.mistake(&eq.span, "`unordered` compares a list", "write `eq: [a, b]`");
            }
            operators.extend(value("eq").map(Operator::EqUnordered));
        }
        (Some(_), _) => operators.extend(value("eq").map(Operator::Eq)),
        (None, Some((_, node))) => reader.mistake(&node.span, "`unordered` without `eq`", "add `eq: [a, b]`"),
        (None, None) => {}
    }
    operators.extend(value("ne").map(Operator::Ne));
    type Make = fn(Operand) -> Operator<Operand>;
    let makers: [(&'static str, Make); 4] =
        [("lt", Operator::Lt), ("le", Operator::Le), ("gt", Operator::Gt), ("ge", Operator::Ge)];
    for (key, make) in makers {
        operators.extend(mapping.get(key).and_then(|node| read_size(reader, key, node, captured)).map(make));
    }
    if let Some(node) = mapping.get("between") {
        match &node.value {
            Value::List(items) if items.len() == 2 => {
                let end = |item| read_size(reader, "between", item, captured);
                if let (Some(low), Some(high)) = (end(&items[0]), end(&items[1])) {
                    operators.push(Operator::Between(low, high));
                }
            }
            _ => reader.mistake(&node.span, "`between` must be a list of two numbers or sizes", "write `[1, 2]`"),
        }
    }
    operators.extend(read_near(reader, mapping, captured));
    if let Some(items) = mapping.get("in").and_then(|node| reader.list("in", node)) {
        operators
            .push(Operator::In(items.iter().filter_map(|item| read_value(reader, "in", item, captured)).collect()));
    }
    operators.extend(value("contains").map(Operator::Contains));
    if let Some(node) = mapping.get("matches")
        && let Some(text) = reader.string("matches", node)
        && regex(reader, node, &text).is_some()
    {
        operators.extend(regex::Regex::new(&text).ok().map(Operator::Matches));
    }
    if let Some(node) = mapping.get("type") {
        let names = Type::ALL.map(|(name, _)| name);
        operators.extend(reader.choice("type", node, &names).map(|index| Operator::Type(Type::ALL[index].1)));
    }
    let len = mapping.get("len").and_then(|node| reader.integer("len", node, 0, u32::MAX));
    operators.extend(len.map(|len| Operator::Len(len.into())));
    if mapping.get("unique").and_then(|node| only_true(reader, "unique", node)).is_some() {
        operators.push(Operator::Unique);
    }
    if let Some(index) =
        mapping.get("sorted").and_then(|node| reader.choice("sorted", node, &["ascending", "descending"]))
    {
        operators.push(Operator::Sorted([Direction::Ascending, Direction::Descending][index]));
    }
    operators
}

/// `true`; `false` is a mistake, because it would mean nothing.
fn only_true(reader: &Reader<'_>, key: &str, node: &Node) -> Option<()> {
    if reader.boolean(key, node)? {
        return Some(());
    }
    reader.mistake(&node.span, format!("`{key}: false` asks for nothing"), "leave it out");
    None
}

/// `near` with its tolerance.
fn read_near(reader: &Reader<'_>, mapping: &Mapping<'_, '_>, captured: &Captured) -> Option<Operator<Operand>> {
    let dtype = mapping.get("dtype").map(|node| {
        let names: Vec<&str> = DTYPES.iter().map(|(name, _, _)| *name).collect();
        (reader.choice("dtype", node, &names).map(|index| DTYPES[index]), node)
    });
    let nan_equal = mapping.get("nan").map(|node| (reader.choice("nan", node, &["equal", "unequal"]) == Some(0), node));
    let tolerance = |key| {
        mapping.get(key).map(|node| {
            let number = reader.number(key, node);
            if number.is_some_and(|number| number < 0.0) {
                reader.mistake(&node.span, "a tolerance below 0", "write 0 or more");
            }
            (number, node)
        })
    };
    let (relative, absolute) = (tolerance("rel"), tolerance("abs"));
    let Some(near) = mapping.get("near") else {
        let stray = [relative.map(|(_, node)| node), absolute.map(|(_, node)| node), dtype.map(|(_, node)| node)];
        if let Some(node) = stray.into_iter().flatten().next() {
            reader.mistake(&node.span, "a tolerance without `near`", "add `near: NUMBER`");
        } else if let Some((_, node)) = nan_equal {
            reader.mistake(&node.span, "`nan` without `near`", "add `near: NUMBER`");
        }
        return None;
    };
    if relative.is_none() && absolute.is_none() && dtype.is_none() {
        reader.mistake(&near.span, "`near` without a tolerance", "add `rel: 1.0e-6`, `abs: 0.001` or `dtype: float32`");
    }
    let (dtype_relative, dtype_absolute) =
        dtype.and_then(|(found, _)| found).map_or((0.0, 0.0), |(_, relative, absolute)| (relative, absolute));
    let number = |tolerance: Option<(Option<f64>, &Node)>, usual| {
        tolerance.map_or(usual, |(number, _)| number.unwrap_or_default())
    };
    let tolerance = Tolerance {
        relative: number(relative, dtype_relative),
        absolute: number(absolute, dtype_absolute),
        nan_equal: nan_equal.is_some_and(|(equal, _)| equal),
    };
    let value = match captured.later(reader, near) {
        Some(later) => Operand::Later(later),
        None => Operand::Value(numbers(reader, near)?),
    };
    Some(Operator::Near { value, tolerance })
}

/// A number, including `nan` and `inf`, or a list of them.
fn numbers(reader: &Reader<'_>, node: &Node) -> Option<serde_json::Value> {
    match &node.value {
        Value::List(items) => {
            items.iter().map(|item| numbers(reader, item)).collect::<Option<Vec<_>>>().map(Into::into)
        }
        Value::Integer(_) | Value::Float(_) => Some(reader.json(node)),
        // Neither YAML nor JSON numbers include them.
        Value::Text(text) if tolerance::number(&json!(text)).is_some() => Some(json!(text)),
        other => {
            let message = format!("`near` must be a number or a list of numbers, found {}", other.kind());
            reader.mistake(&node.span, message, "write `1.5`, `[1.5, 2]`, `nan` or `inf`");
            None
        }
    }
}

fn read_value(reader: &Reader<'_>, key: &str, node: &Node, captured: &Captured) -> Option<Operand> {
    if let Some(later) = captured.later(reader, node) {
        return Some(Operand::Later(later));
    }
    if let Value::Float(number) = &node.value
        && key == "eq"
        && number.fract() != 0.0
    {
        let help = "`near` with `rel`, `abs` or `dtype` allows for rounding";
        reader.warning(&node.span, format!("`eq: {number}` compares a float bit by bit"), help);
    }
    Some(Operand::Value(reader.any(node)))
}

/// A number, a size in bytes, or an expression over captures.
fn read_size(reader: &Reader<'_>, key: &str, node: &Node, captured: &Captured) -> Option<Operand> {
    if let Some(later) = captured.later(reader, node) {
        return Some(Operand::Later(later));
    }
    let found = match &node.value {
        Value::Integer(_) => return Some(Operand::Value(reader.json(node))),
        Value::Float(number) if number.is_finite() => return Some(Operand::Value(reader.json(node))),
        Value::Text(text) => match quantity::size(text) {
            Some(bytes) => return Some(Operand::Value(json!(bytes))),
            None => format!("`{text}`"),
        },
        other => other.kind().to_owned(),
    };
    reader.mistake(&node.span, format!("`{key}` must be a number or a size, found {found}"), "write `4` or `1GiB`");
    None
}
