//! Warnings of `ftest check`: things that are allowed in a suite but are probably mistakes.

use std::collections::BTreeSet;

use model::node::{Node, Value};

use crate::case::Launch;
use crate::case::python::{PythonNeed, is_default, package};
use crate::check::output::{OutputCheck, OutputWant};
use crate::check::{Expectations, capture};
use crate::expression;
use crate::suite::Shared;
use crate::suite::reader::Reader;

/// Warnings about one item of `cases`, as written, with these `defaults`.
pub(super) fn case(reader: &Reader<'_>, node: &Node, defaults: Option<&Node>) {
    axes(reader, node, defaults);
    timeout(reader, node);
}

/// Warnings about the expectations of a case, whose `expect` is `node`, as written.
pub(super) fn expectations(reader: &Reader<'_>, node: Option<&Node>, expect: &Expectations) {
    let Some(node) = node else { return };
    for check in &expect.output {
        let span = reader.offset(&check.place);
        if let OutputWant::Matches(regex) = &check.want {
            if regex.is_match(b"") {
                let help = "every output matches it; ask for at least one character";
                reader.warning(&span, format!("`{regex}` also matches nothing"), help);
            }
            let groups = regex.capture_names().flatten();
            for name in groups.filter(|name| !check.capture.iter().any(|captured| captured == name)) {
                reader.warning(&span, format!("the group `{name}` is not captured"), format!("add `capture: {name}`"));
            }
        }
    }
    captures(reader, node, &expect.output);
    let all_any = matches!(&expect.exit.all, Some((crate::check::exit::ExitWant::Any, _)));
    let nothing_else = expect.output.is_empty()
        && expect.report.is_empty()
        && expect.invariants.is_empty()
        && expect.perf.is_empty()
        && expect.snapshots.is_empty()
        && expect.hang.is_none()
        && expect.findings.is_empty()
        && expect.gaps.is_empty()
        && expect.within.is_none()
        && expect.exit.ranks.is_empty()
        && expect.exit.others.is_none()
        && expect.exit.launcher.is_none();
    if all_any && nothing_else {
        reader.warning(&node.span, "this case checks nothing", "any exit will do, and nothing else is expected");
    }
}

/// Captures that nothing uses.
fn captures(reader: &Reader<'_>, node: &Node, checks: &[OutputCheck]) {
    if checks.iter().all(|check| check.capture.is_empty()) {
        return;
    }
    let mut used = BTreeSet::new();
    texts(node, &mut |text| {
        if !text.contains(capture::NAME) {
            return;
        }
        let inside = expression::template::expressions(text);
        // Invariants are expressions without braces.
        for expression in inside.into_iter().chain([text]) {
            used.extend(expression::attributes(expression, capture::NAME).unwrap_or_default());
            let whole = expression::names(expression).unwrap_or_default().iter().any(|name| name == capture::NAME);
            if whole && expression::attributes(expression, capture::NAME).is_some_and(|names| names.is_empty()) {
                used.insert(String::new());
            }
        }
    });
    // An expression that takes all of them together uses each one.
    if used.contains("") {
        return;
    }
    for check in checks {
        for name in check.capture.iter().filter(|name| !used.contains(*name)) {
            let help = format!("use `captures.{name}` in `report`, `perf` or `invariants`, or drop it");
            reader.warning(&reader.offset(&check.place), format!("nothing uses the capture `{name}`"), help);
        }
    }
}

/// Axes of a matrix that change nothing but the id.
fn axes(reader: &Reader<'_>, node: &Node, defaults: Option<&Node>) {
    let Some(Value::Map(axes)) = entry(node, "matrix").and_then(|matrix| entry(matrix, "axes")).map(|axes| &axes.value)
    else {
        return;
    };
    let mut used: Option<BTreeSet<String>> = Some(BTreeSet::new());
    let mut see = |text: &str| {
        // Most texts are not expressions; parsing each would be slow in a large suite.
        if !text.contains("matrix") && !text.contains("case") {
            return;
        }
        for expression in expression::template::expressions(text).into_iter().chain([text]) {
            let names = expression::names(expression).unwrap_or_default();
            if !names.iter().any(|name| name == "matrix" || name == "case") {
                continue;
            }
            let attributes = expression::attributes(expression, "matrix").unwrap_or_default();
            match &mut used {
                Some(used) if !attributes.is_empty() => used.extend(attributes),
                // The whole of `matrix`, or the id with all values.
                _ => used = None,
            }
        }
    };
    [Some(node), defaults].into_iter().flatten().for_each(|node| texts(node, &mut see));
    let Some(used) = used else { return };
    for axis in axes.iter().filter(|axis| !used.contains(&axis.key)) {
        let more_than_one = matches!(&axis.node.value, Value::List(items) if items.len() > 1);
        if more_than_one {
            let help =
                format!("use `${{{{ matrix.{} }}}}`, or drop it; `--repeat` runs a case several times", axis.key);
            reader.warning(&axis.key_span, format!("the axis `{}` changes nothing", axis.key), help);
        }
    }
}

/// A case that is ended before it can be slow.
fn timeout(reader: &Reader<'_>, node: &Node) {
    let Some(timeout) = entry(node, "timeout") else { return };
    if let (Some(slow), Some(kill)) = (entry(timeout, "slow"), entry(timeout, "kill"))
        && slow.value == kill.value
    {
        reader.warning(&slow.span, "`slow` is not shorter than `kill`", "no case is ever marked slow");
    }
}

/// A program that gets an environment's PyTorch, on no `cluster`, which would bring the libraries that PyTorch links.
pub(super) fn torch_without_gpus(reader: &Reader<'_>, node: &Node, launch: &Launch, python: Option<&PythonNeed>) {
    let is_python = match launch {
        Launch::Argv { argv, .. } => argv.first().is_some_and(|program| program.starts_with("python")),
        Launch::Torchrun { .. } => true,
        Launch::Srun(_) => false,
    };
    let torch = match python {
        Some(PythonNeed::Managed(requirements)) => {
            is_default(requirements) || requirements.iter().any(|line| package(line) == "torch")
        }
        Some(PythonNeed::System) => false,
        None => matches!(launch, Launch::Torchrun { .. }),
    };
    if is_python && torch {
        let help = "add `cluster: {nodes: 1, gpus_per_node: 1, profile: h100}`, or start it as `fgpu python ...`";
        reader.warning(&node.span, "PyTorch cannot be imported here: its libraries come with simulated GPUs", help);
    }
}

/// Times of links in a cluster, written in place, whose case has no coordinator: nothing computes with them.
pub(super) fn links_without_times(shared: &Shared<'_>, cluster: &Node) {
    let fabric = entry(cluster, "fabric").map(|fabric| &fabric.value);
    let Some(Value::Map(links)) = fabric else { return };
    if let Some(entry) = links.iter().find(|entry| entry.key == "inter_node") {
        let help = "only the coordinator computes times; `intra_node` says whether GPUs have NVLink";
        shared.reader.warning(&entry.key_span, "`inter_node` without a coordinator", help);
    }
}

/// Clusters that no case names.
pub(super) fn clusters(shared: &Shared<'_>, node: &Node) {
    let Value::Map(entries) = &node.value else { return };
    for entry in entries.iter().filter(|entry| !shared.used.contains(&entry.key)) {
        let help = format!("remove it, or write `cluster: {}` in a case", entry.key);
        shared.reader.warning(&entry.key_span, format!("no case has the cluster `{}`", entry.key), help);
    }
}

fn entry<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    match &node.value {
        Value::Map(entries) => entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node),
        _ => None,
    }
}

/// Every text below `node`.
fn texts(node: &Node, see: &mut dyn FnMut(&str)) {
    match &node.value {
        Value::Text(text) => see(text),
        Value::List(items) => items.iter().for_each(|item| texts(item, see)),
        Value::Map(entries) => entries.iter().for_each(|entry| texts(&entry.node, see)),
        Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Float(_) => {}
    }
}
