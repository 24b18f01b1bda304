//! Operators whose CUDA kernels compute 16-bit numbers in float32 (`opmath_t`) and round once, where the CPU's kernels round
//! between their steps: `logit` and grid sampling.

use super::{FLOAT, into, is_half, to};
use crate::compute::value::{Arguments, Value, call};

/// Results of the operator `name` for float32 copies of 16-bit tensors, in the datatype of the first.
fn widened(name: &'static str, given: &[Value]) -> Vec<Value> {
    let own = given.first().map_or(FLOAT, Value::data_type);
    let wide = given.iter().map(|value| if is_half(value) { to(value, FLOAT) } else { value.clone() });
    call(name, wide).iter().map(|result| to(result, own)).collect()
}

/// `logit(Tensor self, float? eps)`, in place and with `out=`
pub(super) fn logit(arguments: Arguments) -> Vec<Value> {
    let input = arguments.get("self");
    if !is_half(&input) {
        return arguments.on_cpu();
    }
    let results = widened("aten::logit", &[input.clone(), arguments.get("eps")]);
    let Some(result) = results.first() else { return results };
    match arguments.operator.name.as_str() {
        "aten::logit_" => vec![into(&input, result)],
        "aten::logit.out" => vec![into(&arguments.get("out"), result)],
        _ => results,
    }
}

/// `logit_backward(Tensor grad_output, Tensor self, float? eps)` and with `grad_input=`
pub(super) fn logit_backward(arguments: Arguments) -> Vec<Value> {
    let given = ["grad_output", "self", "eps"].map(|name| arguments.get(name));
    if !is_half(&given[0]) {
        return arguments.on_cpu();
    }
    let (results, out) = (widened("aten::logit_backward", &given), arguments.get("grad_input"));
    if out.is_none() { results } else { results.iter().map(|result| into(&out, result)).collect() }
}

/// `grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners)`
pub(super) fn grid_sampler_2d(arguments: Arguments) -> Vec<Value> {
    widened("aten::grid_sampler_2d", &sampled(&arguments))
}

/// As [`grid_sampler_2d`].
pub(super) fn grid_sampler_3d(arguments: Arguments) -> Vec<Value> {
    widened("aten::grid_sampler_3d", &sampled(&arguments))
}

fn sampled(arguments: &Arguments) -> [Value; 5] {
    ["input", "grid", "interpolation_mode", "padding_mode", "align_corners"].map(|name| arguments.get(name))
}

/// `grid_sampler_2d_backward(Tensor grad_output, Tensor input, ..., bool[2] output_mask)` -> gradients of input and grid
pub(super) fn grid_sampler_2d_backward(arguments: Arguments) -> Vec<Value> {
    widened("aten::grid_sampler_2d_backward", &resampled(&arguments))
}

/// As [`grid_sampler_2d_backward`].
pub(super) fn grid_sampler_3d_backward(arguments: Arguments) -> Vec<Value> {
    widened("aten::grid_sampler_3d_backward", &resampled(&arguments))
}

fn resampled(arguments: &Arguments) -> Vec<Value> {
    let [input, grid, interpolation, padding, corners] = sampled(arguments);
    vec![arguments.get("grad_output"), input, grid, interpolation, padding, corners, arguments.get("output_mask")]
}

/// `cudnn_grid_sampler`: bilinear, zeros outside, corners aligned.
pub(super) fn cudnn_grid_sampler(arguments: Arguments) -> Vec<Value> {
    let given = [arguments.get("self"), arguments.get("grid"), Value::int(0), Value::int(0), Value::bool(true)];
    widened("aten::grid_sampler_2d", &given)
}

/// `cudnn_grid_sampler_backward`
pub(super) fn cudnn_grid_sampler_backward(arguments: Arguments) -> Vec<Value> {
    let [input, gradient, grid] = ["self", "grad_output", "grid"].map(|name| arguments.get(name));
    let modes = [Value::int(0), Value::int(0), Value::bool(true), Value::bools(&[true, true])];
    let given: Vec<Value> = [gradient, input, grid].into_iter().chain(modes).collect();
    widened("aten::grid_sampler_2d_backward", &given)
}
