//! Scaled dot product attention: computes the results of CUDA's flash, memory-efficient and cuDNN kernels. A dense batch
//! uses the CPU's flash kernel if it supports the case, and the formula otherwise.

mod cudnn;
mod efficient;
mod flash;
mod pieces;

pub(super) use cudnn::{backward as cudnn_backward, forward as cudnn_forward, into as cudnn_into};
pub(super) use efficient::{backward as efficient_backward, forward as efficient_forward};
pub(super) use flash::{backward as flash_backward, forward as flash_forward, into as flash_into};

use super::random::{BOOL, kept};
use super::{FLOAT, add, mul, scale, sub, to};
use crate::compute::value::{Value, call};

/// The keys that a query sees: those whose position minus the query's position is within the bounds.
#[derive(Clone, Copy, Debug, Default)]
struct Band {
    least: Option<i64>,
    most: Option<i64>,
}

/// Attention of sequences of equal length; all tensors are (batch, heads, length, width).
struct Attention {
    query: Value,
    /// The keys, with one head per query head.
    key: Value,
    value: Value,
    /// Heads of keys and of values, as given.
    heads: [i64; 2],
    /// Added to the scores; `None` if there is no bias.
    bias: Value,
    band: Band,
    factor: f64,
    dropout: f64,
}

impl Attention {
    /// `scale` is the factor for the scores; if none, 1 / sqrt(width).
    fn new(query: Value, key: &Value, value: &Value, scale: &Value) -> Self {
        let heads = |tensor: &Value| tensor.sizes().get(1).copied().unwrap_or(1).max(1);
        let shared = |tensor: &Value| {
            let group = heads(&query) / heads(tensor);
            if group <= 1 {
                return tensor.clone();
            }
            tensor.then("aten::repeat_interleave.self_int", [Value::int(group), Value::int(1), Value::NONE])
        };
        let width = query.sizes().last().copied().unwrap_or(1) as f64;
        Self {
            key: shared(key),
            value: shared(value),
            heads: [heads(key), heads(value)],
            query,
            bias: Value::NONE,
            band: Band::default(),
            factor: scale.as_double().unwrap_or_else(|| 1.0 / width.sqrt()),
            dropout: 0.0,
        }
    }

    /// Lengths of queries and keys.
    fn lengths(&self) -> (i64, i64) {
        let length = |tensor: &Value| tensor.sizes().get(2).copied().unwrap_or(0);
        (length(&self.query), length(&self.key))
    }

    /// Whether the CPU's flash kernel supports this (aten/src/ATen/native/transformers/sdp_utils_cpp.cpp); its causal mask
    /// begins at the upper left.
    fn fits_flash(&self) -> bool {
        let tensors = [&self.query, &self.key, &self.value];
        let sizes = tensors.map(Value::sizes);
        let strides_end_in_one = tensors
            .iter()
            .all(|tensor| tensor.tensor().is_some_and(|tensor| tensor.sizes_and_strides().1.last() == Some(&1)));
        let [query, key, value] = &sizes;
        self.dropout == 0.0
            && self.band.least.is_none()
            && matches!(self.band.most, None | Some(0))
            && strides_end_in_one
            && sizes.iter().all(|sizes| sizes.len() == 4 && !sizes.contains(&0))
            && query[..2] == key[..2]
            && key[..3] == value[..3]
            && query[3] == key[3]
            && key[3] == value[3]
            && (self.bias.is_none() || matches!(self.bias.sizes().len(), 2 | 4))
    }

    /// (output in the query's datatype, logsumexp); the logsumexp of a query that sees no key is -inf, its output 0.
    fn forward(&self, generator: &Value) -> [Value; 2] {
        if self.fits_flash() {
            let results = call(
                "aten::_scaled_dot_product_flash_attention_for_cpu",
                [
                    self.query.clone(),
                    self.key.clone(),
                    self.value.clone(),
                    Value::double(0.0),
                    Value::bool(self.band.most.is_some()),
                    self.bias.clone(),
                    Value::double(self.factor),
                ],
            );
            if let Ok(results) = <[Value; 2]>::try_from(results) {
                return results;
            }
        }
        let scores = self.scores();
        let logsumexp = scores.then("aten::logsumexp", [Value::ints(&[-1]), Value::bool(false)]);
        let weights = scores.then("aten::_safe_softmax", [Value::int(-1), Value::NONE]);
        let weights =
            if self.dropout > 0.0 { self.thinned(&weights, &self.mask(&weights, generator)) } else { weights };
        let output = matmul(&weights, &to(&self.value, weights.data_type()));
        [to(&output, self.query.data_type()), logsumexp]
    }

    /// The dropout mask: 1 or 0 for each weight, drawn as in the CPU's formula.
    fn mask(&self, weights: &Value, generator: &Value) -> Value {
        kept(weights, 1.0 - self.dropout, generator.clone(), weights.data_type())
    }

    fn thinned(&self, weights: &Value, mask: &Value) -> Value {
        let factor = if self.dropout == 1.0 { 0.0 } else { 1.0 / (1.0 - self.dropout) };
        scale(&mul(weights, mask), factor)
    }

    /// query key^T factor + bias, widened; -inf for keys that are not seen.
    fn scores(&self) -> Value {
        let wide = self.computed_in();
        let scores = matmul(&to(&self.query, wide), &transposed(&to(&self.key, wide)));
        let mut scores = scale(&scores, self.factor);
        if let Some(hidden) = self.hidden() {
            scores = scores.then("aten::masked_fill.Scalar", [hidden, Value::double(f64::NEG_INFINITY)]);
        }
        if self.bias.is_none() { scores } else { add(&scores, &to(&self.bias, wide)) }
    }

    /// (queries, keys): true where the band hides a key.
    fn hidden(&self) -> Option<Value> {
        if self.band.least.is_none() && self.band.most.is_none() {
            return None;
        }
        let (queries, keys) = self.lengths();
        let no_options = [Value::NONE, Value::NONE, Value::NONE, Value::NONE];
        let sizes = [Value::ints(&[queries, keys]), Value::bool(true)];
        let mut seen = super::one("aten::new_full", [self.query.clone()].into_iter().chain(sizes).chain(no_options));
        seen = to(&seen, BOOL);
        if let Some(most) = self.band.most {
            seen = seen.then("aten::tril", [Value::int(most)]);
        }
        if let Some(least) = self.band.least {
            seen = seen.then("aten::triu", [Value::int(least)]);
        }
        Some(seen.then("aten::logical_not", []))
    }

    /// Datatype to compute in: half precision is widened.
    fn computed_in(&self) -> i64 {
        const DOUBLE: i64 = 7;
        if self.query.data_type() == DOUBLE { DOUBLE } else { FLOAT }
    }

    /// Gradients of query, key, value and scores, the last one widened, and none if it is not wanted. `output` and `logsumexp`
    /// may cover more keys than these (ring attention), so the weights are derived from them, not recomputed.
    fn backward(
        &self,
        gradient: &Value,
        output: &Value,
        logsumexp: &Value,
        generator: &Value,
        wants_scores: bool,
    ) -> [Value; 4] {
        if self.fits_flash() && !wants_scores {
            let results = call(
                "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
                [
                    gradient.clone(),
                    self.query.clone(),
                    self.key.clone(),
                    self.value.clone(),
                    output.clone(),
                    like_flash(logsumexp),
                    Value::double(0.0),
                    Value::bool(self.band.most.is_some()),
                    self.bias.clone(),
                    Value::double(self.factor),
                ],
            );
            if let Ok([query, key, value]) = <[Value; 3]>::try_from(results) {
                return [query, summed(&key, self.heads[0]), summed(&value, self.heads[1]), Value::NONE];
            }
        }
        let wide = self.computed_in();
        let (gradient, output) = (to(gradient, wide), to(output, wide));
        let last = |tensor: &Value| tensor.then("aten::unsqueeze", [Value::int(-1)]);
        let weights = sub(&self.scores(), &last(&to(logsumexp, wide))).then("aten::exp", []);
        let mask = (self.dropout > 0.0).then(|| self.mask(&weights, generator));
        let thinned = |values: Value| mask.as_ref().map_or_else(|| values.clone(), |mask| self.thinned(&values, mask));
        let of_value = matmul(&transposed(&thinned(weights.clone())), &gradient);
        let of_weights = thinned(matmul(&gradient, &transposed(&to(&self.value, wide))));
        let along =
            mul(&gradient, &output).then("aten::sum.dim_IntList", [Value::ints(&[-1]), Value::bool(true), Value::NONE]);
        let of_scores = mul(&sub(&of_weights, &along), &weights);
        let of_query = scale(&matmul(&of_scores, &to(&self.key, wide)), self.factor);
        let of_key = scale(&matmul(&transposed(&of_scores), &to(&self.query, wide)), self.factor);
        [of_query, summed(&of_key, self.heads[0]), summed(&of_value, self.heads[1]), of_scores]
    }
}

/// The CPU's flash backward expects the logsumexp in the layout of its forward: by length, then by heads.
fn like_flash(logsumexp: &Value) -> Value {
    let swapped = |tensor: &Value| tensor.then("aten::transpose.int", [Value::int(1), Value::int(2)]);
    swapped(&swapped(logsumexp).then("aten::contiguous", [Value::int(0)]))
}

/// The gradient of `heads` heads, each shared by a group.
fn summed(gradient: &Value, heads: i64) -> Value {
    let mut sizes = gradient.sizes();
    let group = sizes.get(1).copied().unwrap_or(heads) / heads;
    if group <= 1 {
        return gradient.clone();
    }
    sizes[1] = heads;
    sizes.insert(2, group);
    let grouped = gradient.then("aten::reshape", [Value::ints(&sizes)]);
    grouped.then("aten::sum.dim_IntList", [Value::ints(&[2]), Value::bool(false), Value::NONE])
}

/// `logsumexp` with `value` for queries that see no key.
fn with_unseen(logsumexp: &Value, value: f64) -> Value {
    let unseen = logsumexp.then("aten::eq.Scalar", [Value::double(f64::NEG_INFINITY)]);
    logsumexp.then("aten::masked_fill.Scalar", [unseen, Value::double(value)])
}

fn matmul(left: &Value, right: &Value) -> Value {
    left.then("aten::matmul", [right.clone()])
}

fn transposed(tensor: &Value) -> Value {
    tensor.then("aten::transpose.int", [Value::int(-2), Value::int(-1)])
}
