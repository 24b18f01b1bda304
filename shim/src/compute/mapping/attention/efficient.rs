//! The memory-efficient kernels, `_efficient_attention_forward` and its backward, over (batch, length, heads, width), or over
//! packed sequences in a batch of one. The logsumexp is padded with infinity to a multiple of 32.

use super::super::arranged::by_rows;
use super::super::{FLOAT, one, to};
use super::pieces::{Span, along, cut, fill, heads_first, row, spans, write};
use super::{Attention, Band, with_unseen};
use crate::compute::generator::{self, Drawing};
use crate::compute::value::{Arguments, Value};

/// `_efficient_attention_forward` -> (output, logsumexp, philox_seed, philox_offset, max_seqlen_q, max_seqlen_k)
pub(in super::super) fn forward(arguments: &Arguments, results: &[Value]) {
    let [output, logsumexp, seed, offset, ..] = results else { return };
    let dropout = arguments.get("dropout_p").as_double().unwrap_or(0.0);
    let drawing = (dropout > 0.0).then(|| Drawing::begin(None, arguments.device));
    let place = drawing.as_ref().map_or((0, 0), Drawing::place);
    seed.write_words(&[place.0]);
    offset.write_words(&[place.1]);
    let generator = drawing.as_ref().map_or(Value::NONE, |drawing| Value::own(drawing.argument()));
    let problem = Problem::new(arguments, dropout);
    fill(logsumexp, f64::INFINITY);
    if !problem.queries.is_empty() {
        fill(output, 0.0);
    }
    for index in 0..problem.count() {
        let attention = problem.attention(index);
        let [result, sums] = attention.forward(&generator);
        write(&problem.of_query(output, index), result);
        if logsumexp.elements() > 0 {
            write(&problem.of_logsumexp(logsumexp, index), with_unseen(&sums, 0.0));
        }
    }
}

/// `_efficient_attention_backward` -> gradients of query, key, value and bias, laid out as in
/// aten/src/ATen/native/transformers/cuda/attention_backward.cu; PyTorch's own kernel would multiply whole tensors on
/// the way.
pub(in super::super) fn backward(arguments: Arguments) -> Vec<Value> {
    let dropout = arguments.get("dropout_p").as_double().unwrap_or(0.0);
    let place = [arguments.get("philox_seed").words(), arguments.get("philox_offset").words()];
    let generator = match [place[0].as_slice(), place[1].as_slice()] {
        [[seed], [offset]] if dropout > 0.0 => generator::again(*seed, *offset),
        _ => Value::NONE,
    };
    let problem = Problem::new(&arguments, dropout);
    let (bias, wants_bias) = (arguments.get("bias"), arguments.get("bias_requires_grad").as_bool());
    let (gradient, output) = (arguments.first_of(&["grad_out_", "grad_out"]), arguments.get("out"));
    let logsumexp = arguments.get("logsumexp");
    let of_sequence = |index| {
        problem.attention(index).backward(
            &problem.of_query(&gradient, index),
            &problem.of_query(&output, index),
            &problem.of_logsumexp(&logsumexp, index),
            &generator,
            wants_bias,
        )
    };
    let is_chunk = arguments.get("shared_storage_dqdkdv").as_bool();
    if problem.queries.is_empty() && !is_chunk {
        let [query, key, value, scores] = of_sequence(0);
        let own = |gradient: Value, of: &Value| by_rows(&heads_first(&to(&gradient, of.data_type())));
        let [of_query, of_key, of_value] = &problem.tensors;
        let of_bias = if wants_bias { of_bias(&bias, &scores) } else { Value::undefined() };
        return vec![own(query, of_query), own(key, of_key), own(value, of_value), of_bias];
    }
    let [of_query, of_key, of_value] = problem.zeros(is_chunk);
    let mut all_scores = Value::undefined();
    for index in 0..problem.count() {
        let [query, key, value, scores] = of_sequence(index);
        write(&problem.of_query(&of_query, index), query);
        write(&problem.of_key(&of_key, index), key);
        write(&problem.of_key(&of_value, index), value);
        if wants_bias {
            all_scores = of_bias(&bias, &scores);
        }
    }
    vec![of_query, of_key, of_value, all_scores]
}

/// The gradient of `bias`, whose rows begin at multiples of 16 elements.
fn of_bias(bias: &Value, scores: &Value) -> Value {
    const ALIGNMENT: i64 = 16;
    let sizes = bias.sizes();
    let gradient = to(&to(scores, FLOAT).then("aten::sum_to_size", [Value::ints(&sizes)]), bias.data_type());
    let Some(length) = sizes.last().copied().filter(|length| length % ALIGNMENT != 0) else {
        return by_rows(&gradient);
    };
    let mut padded = sizes;
    if let Some(last) = padded.last_mut() {
        *last = (length + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    let rows = along(&zeros(&padded, bias), padded.len() as i64 - 1, Span { start: 0, length });
    write(&rows, gradient);
    rows
}

/// The arguments common to forward and backward.
struct Problem<'a> {
    arguments: &'a Arguments,
    tensors: [Value; 3],
    /// The sequences of packed tensors; empty for a dense batch.
    queries: Vec<Span>,
    keys: Vec<Span>,
    dropout: f64,
}

impl<'a> Problem<'a> {
    fn new(arguments: &'a Arguments, dropout: f64) -> Self {
        let queries = spans(&arguments.get("cu_seqlens_q"));
        let mut keys = spans(&arguments.get("cu_seqlens_k"));
        for (span, used) in keys.iter_mut().zip(arguments.get("seqlen_k").integers()) {
            span.length = used;
        }
        Self { arguments, tensors: ["query", "key", "value"].map(|name| arguments.get(name)), queries, keys, dropout }
    }

    /// One for a dense batch, else the number of sequences.
    fn count(&self) -> usize {
        if self.queries.is_empty() { 1 } else { self.queries.len() }
    }

    fn of_query(&self, tensor: &Value, index: usize) -> Value {
        part(tensor, self.queries.get(index))
    }

    fn of_key(&self, tensor: &Value, index: usize) -> Value {
        part(tensor, self.keys.get(index))
    }

    /// The logsumexp from (batch or sequences, heads, padded length).
    fn of_logsumexp(&self, tensor: &Value, index: usize) -> Value {
        match self.queries.get(index) {
            Some(span) => along(&row(tensor, index), 2, Span { start: 0, length: span.length }),
            None => {
                let length = self.tensors[0].sizes().get(1).copied().unwrap_or(0);
                along(tensor, 2, Span { start: 0, length })
            }
        }
    }

    /// Tensors for the gradients of query, key and value: three separate ones, or parts of one.
    fn zeros(&self, is_chunk: bool) -> [Value; 3] {
        let [query, ..] = &self.tensors;
        let sizes = query.sizes();
        if let (true, [batch, length, heads, width]) = (is_chunk, sizes.as_slice()) {
            let chunk = zeros(&[*batch, *length, 3, *heads, *width], query);
            return [0, 1, 2].map(|part| chunk.then("aten::select.int", [Value::int(2), Value::int(part)]));
        }
        self.tensors.each_ref().map(|tensor| zeros(&tensor.sizes(), tensor))
    }

    fn attention(&self, index: usize) -> Attention {
        let [query, key, value] = &self.tensors;
        let (query, key, value) = (self.of_query(query, index), self.of_key(key, index), self.of_key(value, index));
        let mut attention = Attention::new(query, &key, &value, &self.arguments.get("scale"));
        let (queries, keys) = attention.lengths();
        // No mask, causal from the upper left, causal from the lower right.
        let diagonal = match self.arguments.get("custom_mask_type").as_int() {
            Some(1) => Some(0),
            Some(2) => Some(keys - queries),
            _ => None,
        };
        let window = self.arguments.get("window_size").as_int().filter(|size| *size > 0);
        attention.band = Band { least: window.map(|size| diagonal.unwrap_or(0) - size + 1), most: diagonal };
        attention.bias = self.arguments.get("bias");
        if attention.bias.is_none() {
            attention.bias = Value::NONE;
        }
        attention.dropout = self.dropout;
        attention
    }
}

fn part(tensor: &Value, span: Option<&Span>) -> Value {
    match span {
        Some(span) => cut(&tensor.then("aten::squeeze.dim", [Value::int(0)]), *span),
        None => heads_first(tensor),
    }
}

/// Zeros in row-major order, in the datatype of `like`.
fn zeros(sizes: &[i64], like: &Value) -> Value {
    let no_options = [Value::NONE, Value::NONE, Value::NONE];
    one("aten::zeros", [Value::ints(sizes), Value::int(like.data_type())].into_iter().chain(no_options))
}
