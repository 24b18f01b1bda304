//! `retries`, `xfail`, `deterministic` and `schedule`: what a case declares about its failures, its repetition and its delays.

use std::time::Duration;

use model::node::{Node, Value};
use protocol::schedule::Schedule;

use crate::case::policy::{Flaky, Retries, RetryIf, Xfail};
use crate::check::repeat::{Deterministic, EXCEPTIONS};
use crate::expression;
use crate::host::calendar;
use crate::suite::language::keys::{self, MOST_RETRIES as MOST};
use crate::suite::language::relation::SCHEDULE;
use crate::suite::output_line::regex;
use crate::suite::reader::{Reader, did_you_mean};

const CLASSES: [&str; 6] = ["infra", "timeout", "crash", "check", "stdout", "stderr"];

/// `2`, or `{count: 2, only_if: [...], delay: 1s, flaky: fail}`.
pub(super) fn read_retries(reader: &Reader<'_>, node: &Node) -> Option<Retries> {
    let place = reader.place(&node.span);
    if !matches!(node.value, Value::Map(_)) {
        let count = reader.integer("retries", node, 0, MOST)?;
        return Some(Retries { count, only_if: Vec::new(), delay: Duration::ZERO, flaky: Flaky::default(), place });
    }
    let mapping = reader.section(&keys::RETRIES, node)?;
    let count = mapping.required("count", "count: 2").and_then(|node| reader.integer("count", node, 0, MOST));
    let only_if = mapping.get("only_if").map(|node| {
        let one = std::slice::from_ref(node);
        let items = if let Value::List(items) = &node.value { items.as_slice() } else { one };
        if items.is_empty() {
            reader.mistake(&node.span, "`only_if` is empty", "name a class, or leave it out");
        }
        items.iter().filter_map(|item| read_class(reader, item)).collect()
    });
    let delay = mapping.get("delay").and_then(|node| reader.duration("delay", node)).unwrap_or_default();
    let flaky = match mapping.get("flaky").and_then(|node| reader.choice("flaky", node, &["pass", "fail"])) {
        Some(0) => Flaky::Pass,
        Some(_) => Flaky::Fail,
        None => Flaky::default(),
    };
    mapping.finish();
    Some(Retries { count: count?, only_if: only_if.unwrap_or_default(), delay, flaky, place })
}

/// `true`, or `{ignore: [REGEX], except: [stderr], except_files: [GLOB]}`.
pub(super) fn read_deterministic(reader: &Reader<'_>, node: &Node) -> Option<Deterministic> {
    let place = reader.place(&node.span);
    if !matches!(node.value, Value::Map(_)) {
        let is_wanted = reader.boolean("deterministic", node)?;
        return is_wanted.then(|| Deterministic { place, ..Deterministic::default() });
    }
    let mapping = reader.section(&keys::DETERMINISTIC, node)?;
    let items = |key: &'static str| mapping.get(key).and_then(|node| reader.list(key, node)).unwrap_or_default();
    let pattern = |item: &Node| reader.string("ignore", item).and_then(|text| regex(reader, item, &text));
    let ignore = items("ignore").iter().filter_map(pattern).collect();
    let word = |item: &Node| reader.choice("except", item, EXCEPTIONS).map(|word| EXCEPTIONS[word]);
    let except = items("except").iter().filter_map(word).collect();
    let except_files = mapping.get("except_files").and_then(|node| reader.texts("except_files", node));
    mapping.finish();
    Some(Deterministic { ignore, except, except_files: except_files.unwrap_or_default(), place })
}

/// `{seed: 7, jitter: 5ms}`.
pub(super) fn read_schedule(reader: &Reader<'_>, node: &Node) -> Option<Schedule> {
    let mapping = reader.section(&SCHEDULE, node)?;
    let seed = mapping.required("seed", "seed: 7").and_then(|node| reader.integer("seed", node, 0, u32::MAX));
    let jitter = match mapping.get("jitter") {
        Some(node) => reader.duration("jitter", node).filter(|jitter| {
            let is_short = *jitter <= Schedule::MOST;
            if !is_short {
                let help = format!("write at most {} s: any collective may be that late", Schedule::MOST.as_secs());
                reader.mistake(&node.span, "`jitter` is too long", help);
            }
            is_short
        }),
        None => Some(Schedule::JITTER),
    };
    mapping.finish();
    Some(Schedule { seed: seed?, jitter: jitter? })
}

fn read_class(reader: &Reader<'_>, node: &Node) -> Option<RetryIf> {
    let unknown = |word: &str, span| {
        reader.mistake(span, format!("unknown class `{word}` in `only_if`"), did_you_mean(word, CLASSES));
        None
    };
    if !matches!(node.value, Value::Map(_)) {
        let word = reader.string("only_if", node)?;
        return match word.as_str() {
            "infra" => Some(RetryIf::Infra),
            "timeout" => Some(RetryIf::Timeout),
            "crash" => Some(RetryIf::Crash),
            "check" => Some(RetryIf::Check),
            "stdout" | "stderr" => {
                let help = format!("write `{{{word}: REGEX}}`");
                reader.mistake(&node.span, format!("`{word}` needs a pattern"), help);
                None
            }
            _ => unknown(&word, &node.span),
        };
    }
    let mapping = reader.section(&keys::RETRY_CLASS, node)?;
    let [entry] = mapping.entries() else {
        reader.mistake(&node.span, "each class of `only_if` has one key", "write one item per class");
        return None;
    };
    let make = match entry.key.as_str() {
        "stdout" => RetryIf::Stdout,
        "stderr" => RetryIf::Stderr,
        word => return unknown(word, &entry.key_span),
    };
    let text = reader.string(&entry.key, &entry.node)?;
    regex(reader, &entry.node, &text).map(make)
}

/// A reason, or `{reason, issue, strict, until, if}`. Also `None` if its `if` is not true.
pub(super) fn read_xfail(reader: &Reader<'_>, node: &Node, context: &serde_json::Value) -> Option<Xfail> {
    let place = reader.place(&node.span);
    if !matches!(node.value, Value::Map(_)) {
        let reason = reader.string("xfail", node)?;
        return Some(Xfail { reason, issue: None, strict: true, until: None, place });
    }
    let mapping = reader.section(&keys::XFAIL, node)?;
    let reason = mapping.required("reason", "reason: why it fails").and_then(|node| reader.string("reason", node));
    let issue = mapping.get("issue").and_then(|node| reader.word("issue", node));
    let strict = mapping.get("strict").map_or(Some(true), |node| reader.boolean("strict", node));
    let until = mapping.get("until").and_then(|node| {
        let text = reader.scalar(node).unwrap_or_default();
        let date = calendar::parse_date(&text);
        if date.is_none() {
            reader.mistake(&node.span, format!("`until` must be a day, found `{text}`"), "write it like `2027-03-01`");
        }
        date
    });
    let holds = mapping.get("if").is_none_or(|node| read_condition(reader, node, context));
    mapping.finish();
    Some(Xfail { reason: reason?, issue, strict: strict?, until, place }).filter(|_| holds)
}

/// `true`, `false`, or an expression without braces.
fn read_condition(reader: &Reader<'_>, node: &Node, context: &serde_json::Value) -> bool {
    let value = match &node.value {
        Value::Bool(value) => return *value,
        Value::Text(text) => {
            expression::evaluate(text, context).map_err(|error| format!("`{}`: {error}", expression::cut(text)))
        }
        other => Err(format!("`if` must be an expression, found {}", other.kind())),
    };
    match value {
        Ok(serde_json::Value::Bool(value)) => return value,
        Ok(other) => reader.mistake(&node.span, format!("`if` is {other}"), "it must be true or false"),
        Err(error) => reader.mistake(&node.span, error, "write it like `matrix.world > 4`"),
    }
    false
}
