//! Recurrent cells as CUDA fuses them, in the order of operations of PyTorch's unfused cells, so that the numbers are the
//! CPU's.

use super::{add, mul, sub};
use crate::compute::value::{Arguments, Value};

/// cuDNN is not used.
pub(super) fn no(_arguments: Arguments) -> Vec<Value> {
    vec![Value::bool(false)]
}

/// `_cudnn_rnn_flatten_weight`: the weights stay where they are.
pub(super) fn flatten(_arguments: Arguments) -> Vec<Value> {
    vec![super::empty(super::FLOAT)]
}

/// Parts of equal width along the second dimension.
fn parts(tensor: &Value, count: i64) -> Vec<Value> {
    let width = tensor.sizes().get(1).copied().unwrap_or(0) / count;
    let part = |index: i64| {
        tensor.then(
            "aten::slice.Tensor",
            [Value::int(1), Value::int(index * width), Value::int((index + 1) * width), Value::int(1)],
        )
    };
    (0..count).map(part).collect()
}

fn joined(parts: &[&Value]) -> Value {
    let mut parts = parts.iter();
    let first = parts.next().map_or(Value::NONE, |first| (*first).clone());
    let width = |value: &Value| value.sizes().get(1).copied().unwrap_or(0);
    let total = width(&first) * (parts.len() as i64 + 1);
    let rows = first.sizes().first().copied().unwrap_or(0);
    let no_options = [Value::NONE, Value::NONE, Value::NONE, Value::NONE];
    let result = first.then("aten::new_empty", std::iter::once(Value::ints(&[rows, total])).chain(no_options));
    for (index, part) in std::iter::once(&&first).chain(parts).enumerate() {
        let width = width(part);
        let place = result.then(
            "aten::slice.Tensor",
            [Value::int(1), Value::int(index as i64 * width), Value::int((index as i64 + 1) * width), Value::int(1)],
        );
        place.then("aten::copy_", [(*part).clone(), Value::bool(false)]);
    }
    result
}

fn with_bias(gates: Value, bias: &Value) -> Value {
    if bias.is_none() { gates } else { add(&gates, bias) }
}

fn sigmoid(value: &Value) -> Value {
    value.then("aten::sigmoid", [])
}

fn tanh(value: &Value) -> Value {
    value.then("aten::tanh", [])
}

/// 1 - value
fn rest(value: &Value) -> Value {
    value.then("aten::rsub.Scalar", [Value::int(1), Value::int(1)])
}

/// value * (1 - value): the derivative of the sigmoid, from its value.
fn slope(value: &Value) -> Value {
    mul(value, &rest(value))
}

/// 1 - value²: the derivative of tanh, from its value.
fn tanh_slope(value: &Value) -> Value {
    rest(&mul(value, value))
}

/// `_thnn_fused_lstm_cell(Tensor input_gates, Tensor hidden_gates, Tensor cx, Tensor? input_bias, Tensor? hidden_bias)`
/// -> (hy, cy, workspace); the workspace holds the four gates.
pub(super) fn lstm_cell(arguments: Arguments) -> Vec<Value> {
    let input = with_bias(arguments.get("input_gates"), &arguments.get("input_bias"));
    let hidden = with_bias(arguments.get("hidden_gates"), &arguments.get("hidden_bias"));
    let [input, forget, cell, output] = &parts(&add(&hidden, &input), 4)[..] else { return Vec::new() };
    let (input, forget, cell, output) = (sigmoid(input), sigmoid(forget), tanh(cell), sigmoid(output));
    let next = add(&mul(&forget, &arguments.get("cx")), &mul(&input, &cell));
    let result = mul(&output, &tanh(&next));
    vec![result, next, joined(&[&input, &forget, &cell, &output])]
}

/// `_thnn_fused_lstm_cell_backward_impl(Tensor? grad_hy, Tensor? grad_cy, Tensor cx, Tensor cy, Tensor workspace, bool
/// has_bias)` -> (grad_gates, grad_cx, grad_bias)
pub(super) fn lstm_cell_backward(arguments: Arguments) -> Vec<Value> {
    let (of_result, of_cell) = (arguments.get("grad_hy"), arguments.get("grad_cy"));
    if of_result.is_none() && of_cell.is_none() {
        return vec![Value::undefined(), Value::undefined(), Value::undefined()];
    }
    let [input, forget, cell, output] = &parts(&arguments.get("workspace"), 4)[..] else { return Vec::new() };
    let squashed = tanh(&arguments.get("cy"));
    let zeros = || squashed.then("aten::zeros_like", [Value::NONE, Value::NONE, Value::NONE, Value::NONE, Value::NONE]);
    let of_result = if of_result.is_none() { zeros() } else { of_result };
    let through = mul(&mul(&of_result, output), &tanh_slope(&squashed));
    let of_next = if of_cell.is_none() { through } else { add(&through, &of_cell) };
    let gates = joined(&[
        &mul(&mul(&of_next, cell), &slope(input)),
        &mul(&mul(&of_next, &arguments.get("cx")), &slope(forget)),
        &mul(&mul(&of_next, input), &tanh_slope(cell)),
        &mul(&mul(&of_result, &squashed), &slope(output)),
    ]);
    let bias = if arguments.get("has_bias").as_bool() { over_rows(&gates) } else { Value::undefined() };
    vec![gates, mul(&of_next, forget), bias]
}

fn over_rows(tensor: &Value) -> Value {
    tensor.then("aten::sum.dim_IntList", [Value::ints(&[0]), Value::bool(false), Value::NONE])
}

/// `_thnn_fused_gru_cell(Tensor input_gates, Tensor hidden_gates, Tensor hx, Tensor? input_bias, Tensor? hidden_bias)`
/// -> (hy, workspace); the workspace holds the three gates, the previous state, and the hidden part of the new gate.
pub(super) fn gru_cell(arguments: Arguments) -> Vec<Value> {
    let input = with_bias(arguments.get("input_gates"), &arguments.get("input_bias"));
    let hidden = with_bias(arguments.get("hidden_gates"), &arguments.get("hidden_bias"));
    let before = arguments.get("hx");
    let ([input_reset, input_update, input_new], [hidden_reset, hidden_update, hidden_new]) =
        (&parts(&input, 3)[..], &parts(&hidden, 3)[..])
    else {
        return Vec::new();
    };
    let reset = sigmoid(&add(hidden_reset, input_reset));
    let update = sigmoid(&add(hidden_update, input_update));
    let new = tanh(&add(input_new, &mul(hidden_new, &reset)));
    let result = add(&mul(&sub(&before, &new), &update), &new);
    vec![result, joined(&[&reset, &update, &new, &before, hidden_new])]
}

/// `_thnn_fused_gru_cell_backward(Tensor grad_hy, Tensor workspace, bool has_bias)` -> gradients of the input gates, the
/// hidden gates, the previous state, and both biases.
pub(super) fn gru_cell_backward(arguments: Arguments) -> Vec<Value> {
    let gradient = arguments.get("grad_hy");
    let [reset, update, new, before, hidden_new] = &parts(&arguments.get("workspace"), 5)[..] else {
        return Vec::new();
    };
    let of_new = mul(&mul(&gradient, &rest(update)), &tanh_slope(new));
    let of_update = mul(&mul(&gradient, &sub(before, new)), &slope(update));
    let of_reset = mul(&mul(&of_new, hidden_new), &slope(reset));
    let input = joined(&[&of_reset, &of_update, &of_new]);
    let hidden = joined(&[&of_reset, &of_update, &mul(&of_new, reset)]);
    let has_bias = arguments.get("has_bias").as_bool();
    let bias = |gates: &Value| if has_bias { over_rows(gates) } else { Value::undefined() };
    let biases = [bias(&input), bias(&hidden)];
    [input, hidden, mul(&gradient, update)].into_iter().chain(biases).collect()
}
