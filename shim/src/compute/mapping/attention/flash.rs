//! The flash kernels, `_flash_attention_forward` and its backward, over dense batches (batch, length, heads, width), packed
//! sequences (tokens, heads, width) and keys in pages. Their causal mask ends at the lower right.

use super::pieces::{Span, along, cut, fill, gathered, heads_first, spans, write};
use super::{Attention, Band, with_unseen};
use crate::compute::generator::{self, Drawing};
use crate::compute::value::{Arguments, Value};

/// `_flash_attention_forward` -> (output, logsumexp, rng_state, unused, debug_attn_mask)
pub(in super::super) fn forward(arguments: &Arguments, results: &[Value]) {
    let [output, logsumexp, state, unused, _] = results else { return };
    fill(unused, 0.0);
    run(arguments, output, logsumexp, Some(state));
}

/// `_flash_attention_forward_no_dropout_inplace(Tensor(a!) out, ...)` -> logsumexp
pub(in super::super) fn into(arguments: &Arguments, results: &[Value]) {
    let [logsumexp] = results else { return };
    run(arguments, &arguments.get("out"), logsumexp, None);
}

fn run(arguments: &Arguments, output: &Value, logsumexp: &Value, state: Option<&Value>) {
    let dropout = arguments.get("dropout_p").as_double().unwrap_or(0.0);
    if arguments.get("return_debug_mask").as_bool() {
        arguments.refuse("the debug mask is not made");
    }
    let drawing = (dropout > 0.0).then(|| Drawing::begin(None, arguments.device));
    let (seed, offset) = drawing.as_ref().map_or((0, 0), Drawing::place);
    if let Some(state) = state {
        state.write_words(&[seed, offset]);
    }
    let generator = drawing.as_ref().map_or(Value::NONE, |drawing| Value::own(drawing.argument()));
    let problem = Problem::new(arguments, dropout);
    if !problem.queries.is_empty() {
        // Tokens that are in no sequence.
        fill(output, 0.0);
        fill(logsumexp, f64::INFINITY);
    }
    for index in 0..problem.count() {
        let attention = problem.attention(index);
        let [result, sums] = attention.forward(&generator);
        write(&problem.of_query(output, index), result);
        write(&problem.of_logsumexp(logsumexp, index), with_unseen(&sums, f64::INFINITY));
    }
}

/// `_flash_attention_backward` -> gradients of query, key and value
pub(in super::super) fn backward(arguments: &Arguments, results: &[Value]) {
    let [of_query, of_key, of_value] = results else { return };
    let dropout = arguments.get("dropout_p").as_double().unwrap_or(0.0);
    // Versions before 2.8 call it `philox_seed`.
    let state = arguments.first_of(&["rng_state", "philox_seed"]);
    let generator = match state.words().as_slice() {
        [seed, offset] if dropout > 0.0 => generator::again(*seed, *offset),
        _ => Value::NONE,
    };
    let problem = Problem::new(arguments, dropout);
    if !problem.queries.is_empty() {
        [of_query, of_key, of_value].into_iter().for_each(|result| fill(result, 0.0));
    }
    let (gradient, output) = (arguments.get("grad_out"), arguments.get("out"));
    let logsumexp = arguments.get("logsumexp");
    for index in 0..problem.count() {
        let [query, key, value, _] = problem.attention(index).backward(
            &problem.of_query(&gradient, index),
            &problem.of_query(&output, index),
            &problem.of_logsumexp(&logsumexp, index),
            &generator,
            false,
        );
        write(&problem.of_query(of_query, index), query);
        write(&problem.of_key(of_key, index), key);
        write(&problem.of_key(of_value, index), value);
    }
}

/// The arguments common to forward and backward.
struct Problem<'a> {
    arguments: &'a Arguments,
    tensors: [Value; 3],
    /// The sequences of packed tensors; empty for a dense batch.
    queries: Vec<Span>,
    keys: Vec<Span>,
    pages: Value,
    dropout: f64,
}

impl<'a> Problem<'a> {
    fn new(arguments: &'a Arguments, dropout: f64) -> Self {
        if !arguments.get("alibi_slopes").is_none() {
            arguments.refuse("a linear bias (ALiBi) is not computed");
        }
        let queries = spans(&arguments.get("cum_seq_q"));
        let mut keys = spans(&arguments.get("cum_seq_k"));
        let pages = arguments.get("block_table");
        let used = arguments.get("seqused_k").integers();
        if keys.is_empty() {
            keys = used.iter().map(|length| Span { start: 0, length: *length }).collect();
        }
        for (span, used) in keys.iter_mut().zip(used) {
            span.length = used;
        }
        let tensors = ["query", "key", "value"].map(|name| arguments.get(name));
        Self { arguments, tensors, queries, keys, pages, dropout }
    }

    /// One for a dense batch, else the number of sequences.
    fn count(&self) -> usize {
        if self.queries.is_empty() { 1 } else { self.queries.len() }
    }

    fn of_query(&self, tensor: &Value, index: usize) -> Value {
        self.queries.get(index).map_or_else(|| heads_first(tensor), |span| cut(tensor, *span))
    }

    fn of_key(&self, tensor: &Value, index: usize) -> Value {
        match self.keys.get(index) {
            Some(span) if !self.pages.is_none() => gathered(tensor, &self.pages, index, span.length),
            Some(span) => cut(tensor, *span),
            None => heads_first(tensor),
        }
    }

    /// Of (batch, heads, length), or of (heads, tokens) when sequences are packed.
    fn of_logsumexp(&self, tensor: &Value, index: usize) -> Value {
        self.queries
            .get(index)
            .map_or_else(|| tensor.clone(), |span| along(tensor, 1, *span).then("aten::unsqueeze", [Value::int(0)]))
    }

    fn attention(&self, index: usize) -> Attention {
        let [query, key, value] = &self.tensors;
        let (query, key, value) = (self.of_query(query, index), self.of_key(key, index), self.of_key(value, index));
        let mut attention = Attention::new(query, &key, &value, &self.arguments.get("scale"));
        let (queries, keys) = attention.lengths();
        let window = |name: &str| self.arguments.get(name).as_int().filter(|size| *size >= 0);
        let right = if self.arguments.get("is_causal").as_bool() { Some(0) } else { window("window_size_right") };
        attention.band = Band {
            least: window("window_size_left").filter(|left| *left < keys).map(|left| keys - queries - left),
            most: right.filter(|right| *right < keys).map(|right| keys - queries + right),
        };
        attention.dropout = self.dropout;
        attention
    }
}
