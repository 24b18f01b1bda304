//! Invariants: expressions over report, matrix, cluster and ranks that must be true.

use serde_json::{Value, json};

use crate::case::{Case, Place};
use crate::check::{Failure, exit, report};
use crate::expression;
use crate::observation::{Exit, Observation};

/// The names that an invariant may use.
pub const NAMES: [&str; 6] = ["report", "devices", "matrix", "cluster", "ranks", "world_size"];

/// One invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invariant {
    /// A name for messages; else the expression stands for it.
    pub id: Option<String>,
    /// The expression.
    pub that: String,
    /// Why, as the suite says it.
    pub because: Option<String>,
    /// Where it is written.
    pub place: Place,
}

/// The values of [`NAMES`] for a case. What was not observed is missing, so that using it is an error.
pub fn context(case: &Case, observation: &Observation) -> Value {
    let ranks: Vec<Value> = observation
        .ranks()
        .map(|(rank, process)| {
            let (code, signal) = match &process.exit {
                Exit::Code(code) => (json!(code), Value::Null),
                Exit::Signal(number) => (Value::Null, json!(crate::signal::name(*number))),
                Exit::NotStarted(_) | Exit::Unkillable | Exit::Unknown => (Value::Null, Value::Null),
            };
            json!({ "rank": rank, "exit": { "code": code, "signal": signal, "text": exit::describe(&process.exit) },
                "stdout_bytes": process.stdout.bytes, "stderr_bytes": process.stderr.bytes })
        })
        .collect();
    let mut context = json!({ "devices": observation.device_reports, "matrix": case.matrix, "ranks": ranks });
    if let Some(report) = &observation.cluster_report {
        context["report"] = report.clone();
    }
    if let Some(cluster) = &case.cluster {
        context["cluster"] = describe_cluster(cluster);
    }
    if let Some(world_size) = case.world_size() {
        context["world_size"] = json!(world_size);
    }
    context
}

/// A cluster as expressions see it.
pub fn describe_cluster(cluster: &protocol::plan::ClusterPlan) -> Value {
    let nodes: Vec<Value> = cluster
        .nodes
        .iter()
        .map(|node| json!({ "id": node.id, "host": node.host, "ranks": node.ranks, "gpus": node.gpus }))
        .collect();
    json!({
        "name": cluster.name,
        "world_size": cluster.world_size(),
        "node_count": cluster.nodes.len(),
        "nodes": nodes,
        "intra_node": cluster.intra_node,
        "inter_node": cluster.inter_node,
    })
}

impl Invariant {
    /// The failure, if it does not hold in `context`.
    pub fn check(&self, context: &Value) -> Option<Failure> {
        let got = match expression::evaluate(&self.that, context) {
            Ok(Value::Bool(true)) => return None,
            Ok(Value::Bool(false)) => explain(&self.that, context),
            Ok(other) => format!("{}, which is neither true nor false", report::shorten(&other)),
            Err(error) => error.to_string(),
        };
        let name = self.id.as_ref().map(|id| format!("{id}: ")).unwrap_or_default();
        Some(Failure {
            place: Some(self.place.clone()),
            kind: "invariant",
            expected: format!("{name}{}", self.that),
            got,
            next: self.because.clone().unwrap_or_default(),
        })
    }
}

/// The values of the sides of every comparison, so that a person sees why it is false.
fn explain(expression: &str, context: &Value) -> String {
    let mut lines = Vec::new();
    for conjunct in split(expression, &[" and ", " or "]) {
        let conjunct = strip_parentheses(conjunct.trim());
        if conjunct != expression && expression::evaluate(conjunct, context) == Ok(Value::Bool(true)) {
            continue;
        }
        let sides = split(conjunct, &["==", "!=", "<=", ">=", "<", ">", " not in ", " in "]);
        for side in sides.iter().map(|side| side.trim()) {
            if is_literal(side) || sides.len() < 2 {
                continue;
            }
            if let Ok(value) = expression::evaluate(side, context) {
                lines.push(format!("{side} = {}", report::shorten(&value)));
            }
        }
    }
    lines.dedup();
    if lines.is_empty() { "false".to_owned() } else { lines.join("\n") }
}

fn is_literal(text: &str) -> bool {
    text.parse::<f64>().is_ok() || text.starts_with(['\'', '"']) || matches!(text, "true" | "false" | "none")
}

fn strip_parentheses(text: &str) -> &str {
    let Some(inner) = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) else { return text };
    let mut depth = 0_i32;
    let closes_early = inner.chars().any(|character| {
        depth += i32::from(character == '(') - i32::from(character == ')');
        depth < 0
    });
    if closes_early { text } else { inner }
}

/// `text` cut at `separators` that stand outside of parentheses, brackets and quotes; the longest separator wins.
fn split<'a>(text: &'a str, separators: &[&str]) -> Vec<&'a str> {
    let mut parts = Vec::new();
    let (mut depth, mut quote, mut start, mut skip_to) = (0_i32, None, 0, 0);
    for (at, character) in text.char_indices() {
        if at < skip_to {
            continue;
        }
        if let Some(end) = quote {
            quote = (character != end).then_some(end);
            continue;
        }
        match character {
            '\'' | '"' => quote = Some(character),
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 && quote.is_none() {
            let found = separators
                .iter()
                .filter(|separator| text[at..].starts_with(**separator))
                .max_by_key(|separator| separator.len());
            if let Some(separator) = found {
                parts.push(&text[start..at]);
                start = at + separator.len();
                skip_to = start;
            }
        }
    }
    parts.push(&text[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invariant(that: &str) -> Invariant {
        Invariant { id: None, that: that.to_owned(), because: None, place: Place::default() }
    }

    #[test]
    fn shows_the_values_of_both_sides() {
        let context = json!({"report": {"sent": 12, "received": 16}, "matrix": {"world": 4}});
        assert_eq!(invariant("report.sent < report.received").check(&context), None);
        let failure = invariant("matrix.world == 4 and (report.sent == report.received)").check(&context).unwrap();
        assert_eq!(failure.got, "report.sent = 12\nreport.received = 16");
        let failure = invariant("report.sent >= 13").check(&context).unwrap();
        assert_eq!(failure.got, "report.sent = 12");
    }

    #[test]
    fn only_true_is_true() {
        let context = json!({"report": {"n": 1}});
        assert!(invariant("report.n").check(&context).unwrap().got.contains("neither"));
        assert!(invariant("report.typo == 1").check(&context).is_some());
        assert!(invariant("report.typo | length == 0").check(&context).is_some());
        assert!(invariant("not report.typo").check(&context).is_some());
    }
}
