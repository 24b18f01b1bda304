//! Scaled dot product attention: CUDA's flash, memory-efficient and cuDNN kernels are the CPU's flash kernel where that
//! can do the same, and else the formula.

use super::random::{BOOL, kept};
use super::{FLOAT, add, mul, scale, sub, to};
use crate::compute::value::{Arguments, Value, call};

/// What all three have in common.
struct Attention {
    query: Value,
    key: Value,
    value: Value,
    bias: Value,
    dropout: f64,
    is_causal: bool,
    scale: Value,
    /// Queries' heads that share one head of keys and values.
    group: i64,
}

impl Attention {
    fn new(arguments: &Arguments<'_>, bias: &str) -> Self {
        let bias = arguments.get(bias);
        let (query, key, value) = (arguments.get("query"), arguments.get("key"), arguments.get("value"));
        let heads = |tensor: &Value| tensor.sizes().iter().rev().nth(2).copied().unwrap_or(1).max(1);
        let group = heads(&query) / heads(&key);
        let shared = |tensor: Value| {
            if group <= 1 {
                return tensor;
            }
            tensor.then("aten::repeat_interleave.self_int", [Value::int(group), Value::int(-3), Value::NONE])
        };
        Self {
            query,
            key: shared(key),
            value: shared(value),
            group,
            bias: if bias.is_none() { Value::NONE } else { bias },
            dropout: arguments.get("dropout_p").as_double().unwrap_or(0.0),
            is_causal: arguments.get("is_causal").as_bool(),
            scale: arguments.get("scale"),
        }
    }

    /// What the CPU's flash kernel asks of its arguments (aten/src/ATen/native/transformers/sdp_utils_cpp.cpp).
    fn fits_flash(&self) -> bool {
        let sizes = [&self.query, &self.key, &self.value].map(Value::sizes);
        let strides_end_in_one = [&self.query, &self.key, &self.value]
            .iter()
            .all(|tensor| tensor.tensor().is_some_and(|tensor| tensor.sizes_and_strides().1.last() == Some(&1)));
        let [query, key, value] = &sizes;
        self.dropout == 0.0
            && strides_end_in_one
            && sizes.iter().all(|sizes| sizes.len() == 4 && !sizes.contains(&0))
            && query[..2] == key[..2]
            && key[..3] == value[..3]
            && query[3] == key[3]
            && key[3] == value[3]
            && (self.bias.is_none() || matches!(self.bias.sizes().len(), 2 | 4))
    }

    /// (output, logsumexp, mask of what dropout kept); the last two without elements where there is none.
    fn forward(&self, generator: Value) -> [Value; 3] {
        if self.fits_flash() {
            let results = call(
                "aten::_scaled_dot_product_flash_attention_for_cpu",
                [
                    self.query.clone(),
                    self.key.clone(),
                    self.value.clone(),
                    Value::double(0.0),
                    Value::bool(self.is_causal),
                    self.bias.clone(),
                    self.scale.clone(),
                ],
            );
            if let Ok([output, logsumexp]) = <[Value; 2]>::try_from(results) {
                return [output, logsumexp, super::empty(BOOL)];
            }
        }
        let weights = self.weights();
        let (weights, mask) = if self.dropout > 0.0 {
            let mask = kept(&weights, 1.0 - self.dropout, generator, weights.data_type());
            (self.thinned(&weights, &mask), to(&mask, BOOL))
        } else {
            (weights, super::empty(BOOL))
        };
        let output = matmul(&weights, &to(&self.value, weights.data_type()));
        [to(&output, self.query.data_type()), super::empty(FLOAT), mask]
    }

    fn thinned(&self, weights: &Value, mask: &Value) -> Value {
        let factor = if self.dropout == 1.0 { 0.0 } else { 1.0 / (1.0 - self.dropout) };
        scale(&mul(weights, &to(mask, weights.data_type())), factor)
    }

    fn factor(&self) -> f64 {
        let width = self.query.sizes().last().copied().unwrap_or(1) as f64;
        self.scale.as_double().unwrap_or_else(|| 1.0 / width.sqrt())
    }

    /// softmax(query key^T scale + bias), wide.
    fn weights(&self) -> Value {
        let wide = self.computed_in();
        let scores = matmul(&to(&self.query, wide), &transposed(&to(&self.key, wide)));
        let mut scores = scale(&scores, self.factor());
        if self.is_causal {
            let ones =
                scores.then("aten::ones_like", [Value::int(BOOL), Value::NONE, Value::NONE, Value::NONE, Value::NONE]);
            let above = ones.then("aten::triu", [Value::int(1)]);
            scores = scores.then("aten::masked_fill.Scalar", [above, Value::double(f64::NEG_INFINITY)]);
        }
        if !self.bias.is_none() {
            scores = add(&scores, &to(&self.bias, wide));
        }
        scores.then("aten::_safe_softmax", [Value::int(-1), Value::NONE])
    }

    /// Datatype to compute in: half precision is widened.
    fn computed_in(&self) -> i64 {
        const DOUBLE: i64 = 7;
        if self.query.data_type() == DOUBLE { DOUBLE } else { FLOAT }
    }

    /// Gradients of query, key, value and bias.
    fn backward(
        &self,
        gradient: &Value,
        output: Value,
        logsumexp: Value,
        mask: &Value,
        wants_bias: bool,
    ) -> [Value; 4] {
        if logsumexp.elements() > 0 && !wants_bias {
            let results = call(
                "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
                [
                    gradient.clone(),
                    self.query.clone(),
                    self.key.clone(),
                    self.value.clone(),
                    output,
                    logsumexp,
                    Value::double(0.0),
                    Value::bool(self.is_causal),
                    self.bias.clone(),
                    self.scale.clone(),
                ],
            );
            if let Ok([query, key, value]) = <[Value; 3]>::try_from(results) {
                return [query, self.summed(&key), self.summed(&value), Value::undefined()];
            }
        }
        let wide = self.computed_in();
        let (weights, gradient) = (self.weights(), to(gradient, wide));
        let has_dropout = mask.elements() > 0;
        let used = if has_dropout { self.thinned(&weights, mask) } else { weights.clone() };
        let of_value = matmul(&transposed(&used), &gradient);
        let of_used = matmul(&gradient, &transposed(&to(&self.value, wide)));
        let of_weights = if has_dropout { self.thinned(&of_used, mask) } else { of_used };
        let along = mul(&of_weights, &weights)
            .then("aten::sum.dim_IntList", [Value::ints(&[-1]), Value::bool(true), Value::NONE]);
        let of_scores = mul(&sub(&of_weights, &along), &weights);
        let of_query = scale(&matmul(&of_scores, &to(&self.key, wide)), self.factor());
        let of_key = scale(&matmul(&transposed(&of_scores), &to(&self.query, wide)), self.factor());
        let of_bias = if wants_bias && !self.bias.is_none() {
            let sum = of_scores.then("aten::sum_to_size", [Value::ints(&self.bias.sizes())]);
            to(&sum, self.bias.data_type())
        } else {
            Value::undefined()
        };
        let own = |gradient: &Value, of: &Value| to(gradient, of.data_type());
        let [of_key, of_value] = [own(&of_key, &self.key), own(&of_value, &self.value)];
        [own(&of_query, &self.query), self.summed(&of_key), self.summed(&of_value), of_bias]
    }

    /// The gradient of keys or values that a group of heads shared.
    fn summed(&self, gradient: &Value) -> Value {
        if self.group <= 1 {
            return gradient.clone();
        }
        let mut sizes = gradient.sizes();
        let heads = sizes.len() - 3;
        sizes[heads] /= self.group;
        sizes.insert(heads + 1, self.group);
        let grouped = gradient.then("aten::reshape", [Value::ints(&sizes)]);
        grouped.then("aten::sum.dim_IntList", [Value::ints(&[heads as i64 + 1]), Value::bool(false), Value::NONE])
    }
}

fn matmul(left: &Value, right: &Value) -> Value {
    left.then("aten::matmul", [right.clone()])
}

fn transposed(tensor: &Value) -> Value {
    tensor.then("aten::transpose.int", [Value::int(-2), Value::int(-1)])
}

/// Length of the sequences: the third size.
fn length(tensor: &Value) -> Value {
    Value::int(tensor.sizes().get(2).copied().unwrap_or(0))
}

/// `_scaled_dot_product_flash_attention` -> (output, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, rng_state, unused,
/// debug_attn_mask); the state of the generator is the mask itself.
pub(super) fn flash(arguments: Arguments<'_>, generator: Value) -> Vec<Value> {
    let attention = Attention::new(&arguments, "");
    let [output, logsumexp, mask] = attention.forward(generator);
    let lengths = [length(&attention.query), length(&attention.key)];
    let undefined = [Value::undefined(), Value::undefined()];
    let rest = [mask, super::empty(BOOL), super::empty(attention.query.data_type())];
    [output, logsumexp].into_iter().chain(undefined).chain(lengths).chain(rest).collect()
}

/// `_scaled_dot_product_efficient_attention` -> (output, log_sumexp, philox_seed, philox_offset)
pub(super) fn efficient(arguments: Arguments<'_>, generator: Value) -> Vec<Value> {
    let [output, logsumexp, mask] = Attention::new(&arguments, "attn_bias").forward(generator);
    vec![output, logsumexp, mask, super::empty(BOOL)]
}

/// `_scaled_dot_product_cudnn_attention` -> (output, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, philox_seed,
/// philox_offset, debug_attn_mask)
pub(super) fn cudnn(arguments: Arguments<'_>, generator: Value) -> Vec<Value> {
    let attention = Attention::new(&arguments, "attn_bias");
    let [output, logsumexp, mask] = attention.forward(generator);
    let lengths = [length(&attention.query), length(&attention.key)];
    let undefined = [Value::undefined(), Value::undefined()];
    let rest = [mask, super::empty(BOOL), super::empty(attention.query.data_type())];
    [output, logsumexp].into_iter().chain(undefined).chain(lengths).chain(rest).collect()
}

/// `_scaled_dot_product_flash_attention_backward` -> gradients of query, key and value
pub(super) fn flash_backward(arguments: Arguments<'_>) -> Vec<Value> {
    // Named `philox_seed` here although the forward calls it `rng_state`.
    let mask = arguments.get("philox_seed");
    let mask = if mask.is_none() { arguments.get("rng_state") } else { mask };
    backward(&arguments, "", "grad_out", &mask, false).into_iter().take(3).collect()
}

/// `_scaled_dot_product_efficient_attention_backward` -> gradients of query, key, value and bias
pub(super) fn efficient_backward(arguments: Arguments<'_>) -> Vec<Value> {
    let wanted = arguments.get("grad_input_mask").as_bools();
    let mask = arguments.get("philox_seed");
    backward(&arguments, "attn_bias", "grad_out_", &mask, wanted.get(3) == Some(&true)).into()
}

/// `_scaled_dot_product_cudnn_attention_backward` -> gradients of query, key and value
pub(super) fn cudnn_backward(arguments: Arguments<'_>) -> Vec<Value> {
    let mask = arguments.get("philox_seed");
    backward(&arguments, "attn_bias", "grad_out", &mask, false).into_iter().take(3).collect()
}

fn backward(arguments: &Arguments<'_>, bias: &str, gradient: &str, mask: &Value, wants_bias: bool) -> [Value; 4] {
    let gradient = arguments.get(gradient);
    let (output, logsumexp) = (arguments.get("out"), arguments.get("logsumexp"));
    if gradient.is_none() {
        return [Value::undefined(), Value::undefined(), Value::undefined(), Value::undefined()];
    }
    Attention::new(arguments, bias).backward(&gradient, output, logsumexp, mask, wants_bias)
}
