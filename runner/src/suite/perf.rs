//! `expect.perf`: numbers against a reference, with named bounds.

use model::node::{Node, Value};
use serde_json::json;

use crate::check::capture::Operand;
use crate::check::perf::{Bound, Bounds, Metric, PerfCheck};
use crate::suite::fields::Report;
use crate::suite::language::expect as language;
use crate::suite::reader::Reader;
use crate::suite::report::{Captured, read_kind, read_path};

/// One item of `perf`.
pub(super) fn read(reader: &Reader<'_>, node: &Node, captured: &Captured) -> Option<PerfCheck> {
    let mapping = reader.section(&language::PERF, node)?;
    captured.refuse(reader, &mapping, &["metric", "reference"]);
    let of = read_kind(reader, &mapping);
    let metric_node = mapping.required("metric", "metric: $.collectives.all_reduce.bytes");
    let metric = metric_node.and_then(|node| match captured.later(reader, node) {
        Some(later) => Some(Metric::Captured(later)),
        None => {
            let text = reader.string("metric", node)?;
            let (path, selected) = read_path(reader, &node.span, &text, Report::for_kind(of, false))?;
            let types = selected.and_then(|selected| selected.types());
            if types.is_some_and(|types| !types.contains("integer") && !types.contains("number")) {
                reader.mistake(&node.span, "the metric is not a number", "name a field that is one");
            }
            Some(Metric::Path(of, path))
        }
    });
    let text = |key| mapping.get(key).and_then(|node| reader.string(key, node));
    let name = text("name").or_else(|| metric_node.and_then(|node| reader.scalar(node)));
    let (unit, because) = (text("unit"), text("because"));
    let reference = mapping.get("reference").map(|node| match captured.later(reader, node) {
        Some(later) => Some(Operand::Later(later)),
        None => reader.number("reference", node).map(|number| Operand::Value(json!(number))),
    });
    let known = match &reference {
        Some(Some(Operand::Value(value))) => value.as_f64(),
        _ => None,
    };
    let read = |key| mapping.get(key).and_then(|node| Some((read_bound(reader, key, node)?, node)));
    let [lower, upper, warn_lower, warn_upper] = ["lower", "upper", "warn_lower", "warn_upper"].map(read);
    for (bound, node) in [lower, upper, warn_lower, warn_upper].into_iter().flatten() {
        // A reference that is computed later is checked then.
        if (known.is_some() || reference.is_none())
            && let Err(error) = bound.resolve(known)
        {
            reader.mistake(&node.span, error, "write a number, in the metric's unit, or another `reference`");
        }
    }
    let resolved = |bound: Option<(Bound, &Node)>| bound.and_then(|(bound, _)| bound.resolve(known).ok());
    let misplaced = |low: Option<(Bound, &Node)>, high: Option<(Bound, &Node)>, what: &str| {
        if let (Some(low_value), Some(high_value), Some((_, node))) = (resolved(low), resolved(high), high)
            && low_value > high_value
        {
            reader.mistake(&node.span, format!("{what}: {low_value} is above {high_value}"), "exchange them");
        }
    };
    misplaced(lower, upper, "no value is between `lower` and `upper`");
    misplaced(warn_lower, warn_upper, "no value is between `warn_lower` and `warn_upper`");
    misplaced(lower, warn_lower, "`warn_lower` is below `lower`, so it never warns");
    misplaced(warn_upper, upper, "`warn_upper` is above `upper`, so it never warns");
    if lower.or(upper).or(warn_lower).or(warn_upper).is_none() && reader.count() == 0 {
        reader.mistake(&node.span, "this `perf` has no bound", "add `lower: -10%` or `upper: 5`");
    }
    mapping.finish();
    let bound = |bound: Option<(Bound, &Node)>| bound.map(|(bound, _)| bound);
    Some(PerfCheck {
        name: name?,
        metric: metric?,
        unit,
        reference: match reference {
            Some(reference) => Some(reference?),
            None => None,
        },
        fails: Bounds { lower: bound(lower), upper: bound(upper) },
        warns: Bounds { lower: bound(warn_lower), upper: bound(warn_upper) },
        because,
        place: reader.place(&node.span),
    })
}

/// `-10%`, a number, or nothing.
fn read_bound(reader: &Reader<'_>, key: &str, node: &Node) -> Option<Bound> {
    let percent = |text: &str| {
        let number = text.strip_suffix('%')?.trim_end();
        number.starts_with(['+', '-']).then_some(number)?.parse::<f64>().ok().filter(|number| number.is_finite())
    };
    match &node.value {
        Value::Null => None,
        Value::Text(text) => {
            let found = percent(text);
            if found.is_none() {
                let message = format!("`{key}` must be a number or a percentage with its sign, found `{text}`");
                reader.mistake(&node.span, message, "write `-10%`, `+5%` or `43.5`");
            }
            found.map(Bound::Percent)
        }
        _ => reader.number(key, node).map(Bound::Number),
    }
}
