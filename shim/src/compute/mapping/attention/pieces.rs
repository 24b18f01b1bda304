//! The inputs of attention: a whole batch, or consecutive sequences in packed tensors.

use super::super::one;
use crate::compute::value::Value;
use crate::compute::view;

/// A sequence of a packed tensor: its first token and its length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) start: i64,
    pub(super) length: i64,
}

/// The sequences between cumulative lengths, the first of which is 0.
pub(super) fn spans(cumulative: &Value) -> Vec<Span> {
    let ends = cumulative.integers();
    ends.windows(2).map(|pair| Span { start: pair[0], length: pair[1] - pair[0] }).collect()
}

/// (batch, length, heads, width) seen as (batch, heads, length, width).
pub(super) fn heads_first(tensor: &Value) -> Value {
    tensor.then("aten::transpose.int", [Value::int(1), Value::int(2)])
}

/// A sequence of (tokens, heads, width) as (1, heads, length, width).
pub(super) fn cut(tensor: &Value, span: Span) -> Value {
    let part = tensor.then("aten::narrow", [Value::int(0), Value::int(span.start), Value::int(span.length)]);
    heads_first(&part.then("aten::unsqueeze", [Value::int(0)]))
}

/// The paged keys or values of sequence `index`, (pages, page size, heads, width), as (1, heads, length, width).
pub(super) fn gathered(pages: &Value, table: &Value, index: usize, length: i64) -> Value {
    let sizes = pages.sizes();
    let page = sizes.get(1).copied().unwrap_or(1).max(1);
    let row = table.then("aten::select.int", [Value::int(0), Value::int(index as i64)]);
    let row = row.then("aten::narrow", [Value::int(0), Value::int(0), Value::int((length + page - 1) / page)]);
    let own = one("aten::index_select", [pages.clone(), Value::int(0), row]);
    let own = own.then("aten::flatten.using_ints", [Value::int(0), Value::int(1)]);
    cut(&own, Span { start: 0, length })
}

/// Row `index` of the first dimension, which is kept with size one.
pub(super) fn row(tensor: &Value, index: usize) -> Value {
    tensor.then("aten::narrow", [Value::int(0), Value::int(index as i64), Value::int(1)])
}

/// `length` elements along dimension `dimension`, from `start` on.
pub(super) fn along(tensor: &Value, dimension: i64, span: Span) -> Value {
    tensor.then("aten::narrow", [Value::int(dimension), Value::int(span.start), Value::int(span.length)])
}

/// Writes `source` to `target`, in its datatype and layout; `source` is used up.
pub(super) fn write(target: &Value, source: Value) {
    if let (Some(target), Some(source)) = (target.tensor(), source.tensor())
        && view::replace(target, source)
    {
        return;
    }
    target.then("aten::copy_", [source, Value::bool(false)]);
}

pub(super) fn fill(target: &Value, value: f64) {
    target.then("aten::fill_.Scalar", [Value::double(value)]);
}
