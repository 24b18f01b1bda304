//! cuDNN's attention, `_cudnn_attention_forward` and its backward, over (batch, heads, length, width), packed sequences
//! (tokens, heads, width) and keys in pages. PyTorch's own kernels cannot even lay out the results without cuDNN, so that is
//! done here, as in aten/src/ATen/native/cudnn/MHA.cpp.

use super::super::{FLOAT, one};
use super::pieces::{Span, along, cut, fill, gathered, spans, write};
use super::{Attention, Band};
use crate::compute::generator::{self, Drawing};
use crate::compute::value::{Arguments, Value};

/// `c10::ScalarType::Long`
const LONG: i64 = 4;

/// `_cudnn_attention_forward` -> (output, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, philox_seed, philox_offset,
/// debug_attn_mask)
pub(in super::super) fn forward(arguments: Arguments) -> Vec<Value> {
    let problem = Problem::new(&arguments);
    let drawing = (problem.dropout > 0.0).then(|| Drawing::begin(None, arguments.device));
    let place = drawing.as_ref().map_or((0, 0), Drawing::place);
    let generator = drawing.as_ref().map_or(Value::NONE, |drawing| Value::own(drawing.argument()));
    let output = problem.output();
    let logsumexp = arguments.get("compute_log_sumexp").as_bool().then(|| problem.logsumexp());
    problem.run(&generator, &output, logsumexp.as_ref());
    let word = |value: u64| {
        let word = allocated(&[], &[], LONG);
        word.write_words(&[value]);
        word
    };
    let given =
        |name: &str| Some(arguments.get(name)).filter(|given| !given.is_none()).unwrap_or_else(Value::undefined);
    vec![
        output,
        logsumexp.unwrap_or_else(Value::undefined),
        given("cum_seq_q"),
        given("cum_seq_k"),
        arguments.get("max_q"),
        arguments.get("max_k"),
        word(place.0),
        word(place.1),
        Value::undefined(),
    ]
}

/// `_cudnn_attention_forward_no_dropout_inplace(Tensor(a!) out, ...)` -> logsumexp
pub(in super::super) fn into(arguments: Arguments) -> Vec<Value> {
    let problem = Problem::new(&arguments);
    let logsumexp = problem.logsumexp();
    problem.run(&Value::NONE, &arguments.get("out"), Some(&logsumexp));
    vec![logsumexp]
}

/// `_cudnn_attention_backward` -> gradients of query, key and value
pub(in super::super) fn backward(arguments: Arguments) -> Vec<Value> {
    let problem = Problem::new(&arguments);
    let place = [arguments.get("philox_seed").words(), arguments.get("philox_offset").words()];
    let generator = match [place[0].as_slice(), place[1].as_slice()] {
        [[seed], [offset]] if problem.dropout > 0.0 => generator::again(*seed, *offset),
        _ => Value::NONE,
    };
    let (gradient, output) = (arguments.get("grad_out"), arguments.get("out"));
    let logsumexp = arguments.get("logsumexp");
    let results = problem.tensors.each_ref().map(|tensor| {
        let no_options = [Value::NONE, Value::NONE, Value::NONE, Value::NONE, Value::NONE];
        tensor.then("aten::zeros_like", no_options)
    });
    for index in 0..problem.count() {
        let [query, key, value, _] = problem.attention(index).backward(
            &problem.of_query(&gradient, index),
            &problem.of_query(&output, index),
            &problem.of_logsumexp(&logsumexp, index).then("aten::squeeze.dim", [Value::int(-1)]),
            &generator,
            false,
        );
        write(&problem.of_query(&results[0], index), query);
        write(&problem.of_key(&results[1], index), key);
        write(&problem.of_key(&results[2], index), value);
    }
    results.into()
}

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
    fn new(arguments: &'a Arguments) -> Self {
        let queries = spans(&arguments.get("cum_seq_q"));
        let mut keys = spans(&arguments.get("cum_seq_k"));
        let used = arguments.get("seqused_k").integers();
        if keys.is_empty() {
            keys = used.iter().map(|length| Span { start: 0, length: *length }).collect();
        }
        for (span, used) in keys.iter_mut().zip(used) {
            span.length = used;
        }
        let tensors = ["query", "key", "value"].map(|name| arguments.get(name));
        let dropout = arguments.get("dropout_p").as_double().unwrap_or(0.0);
        Self { arguments, tensors, queries, keys, pages: arguments.get("block_table"), dropout }
    }

    fn count(&self) -> usize {
        if self.queries.is_empty() { 1 } else { self.queries.len() }
    }

    /// The query's sizes with the value's width, in the query's order of dimensions.
    fn output(&self) -> Value {
        let [query, _, value] = &self.tensors;
        let mut sizes = query.sizes();
        if let (Some(width), Some(wanted)) = (sizes.last_mut(), value.sizes().last()) {
            *width = *wanted;
        }
        if sizes == query.sizes() {
            let no_options = [Value::NONE, Value::NONE, Value::NONE, Value::NONE, Value::NONE];
            return query.then("aten::empty_like", no_options);
        }
        let strides = query.tensor().map_or_else(Vec::new, |tensor| tensor.sizes_and_strides().1.to_vec());
        let mut order: Vec<usize> = (0..sizes.len()).collect();
        order.sort_by_key(|place| if strides[*place] == 0 { i64::MAX } else { strides[*place] });
        let (mut result, mut stride) = (vec![0; sizes.len()], 1);
        for place in order {
            result[place] = stride;
            stride *= sizes[place];
        }
        allocated(&sizes, &result, query.data_type())
    }

    /// (batch, heads, length, 1), or (heads, tokens) for packed sequences; (tokens, heads, 1) before torch 2.10.
    fn logsumexp(&self) -> Value {
        let query = self.tensors[0].sizes();
        let sizes = if self.queries.is_empty() {
            vec![query[0], query[1], query[2], 1]
        } else if self.arguments.operator.schema().place("seqused_k").is_some() {
            vec![query[1], query[0]]
        } else {
            vec![query[0], query[1], 1]
        };
        let mut strides = vec![1; sizes.len()];
        for place in (1..sizes.len()).rev() {
            strides[place - 1] = strides[place] * sizes[place];
        }
        allocated(&sizes, &strides, FLOAT)
    }

    fn run(&self, generator: &Value, output: &Value, logsumexp: Option<&Value>) {
        if !self.queries.is_empty() {
            fill(output, 0.0);
            if let Some(logsumexp) = logsumexp {
                fill(logsumexp, f64::NEG_INFINITY);
            }
        }
        for index in 0..self.count() {
            let [result, sums] = self.attention(index).forward(generator);
            write(&self.of_query(output, index), result);
            if let Some(logsumexp) = logsumexp {
                write(&self.of_logsumexp(logsumexp, index), sums.then("aten::unsqueeze", [Value::int(-1)]));
            }
        }
    }

    fn of_query(&self, tensor: &Value, index: usize) -> Value {
        self.queries.get(index).map_or_else(|| tensor.clone(), |span| cut(tensor, *span))
    }

    fn of_key(&self, tensor: &Value, index: usize) -> Value {
        match self.keys.get(index) {
            Some(span) if !self.pages.is_none() => gathered(tensor, &self.pages, index, span.length),
            Some(span) => cut(tensor, *span),
            None => tensor.clone(),
        }
    }

    /// As (batch, heads, length, 1).
    fn of_logsumexp(&self, tensor: &Value, index: usize) -> Value {
        let Some(span) = self.queries.get(index) else { return tensor.clone() };
        if tensor.sizes().len() == 3 {
            return cut(tensor, *span);
        }
        let own = along(tensor, 1, *span).then("aten::unsqueeze", [Value::int(0)]);
        own.then("aten::unsqueeze", [Value::int(-1)])
    }

    fn attention(&self, index: usize) -> Attention {
        let [query, key, value] = &self.tensors;
        let (query, key, value) = (self.of_query(query, index), self.of_key(key, index), self.of_key(value, index));
        let mut attention = Attention::new(query, &key, &value, &self.arguments.get("scale"));
        let (queries, keys) = attention.lengths();
        if self.arguments.get("is_causal").as_bool() {
            // Queries over a cache of keys are its newest tokens.
            let is_cache = !self.arguments.get("seqused_k").is_none();
            attention.band = Band { least: None, most: Some(if is_cache { keys - queries } else { 0 }) };
        }
        let bias = self.arguments.get("attn_bias");
        if !bias.is_none() {
            attention.bias = match bias.sizes().len() {
                3 => bias.then("aten::unsqueeze", [Value::int(1)]),
                _ => bias,
            };
        }
        attention.dropout = self.dropout;
        attention
    }
}

fn allocated(sizes: &[i64], strides: &[i64], data_type: i64) -> Value {
    let no_options = [Value::NONE, Value::NONE, Value::NONE];
    let given = [Value::ints(sizes), Value::ints(strides), Value::int(data_type)];
    one("aten::empty_strided", given.into_iter().chain(no_options))
}
