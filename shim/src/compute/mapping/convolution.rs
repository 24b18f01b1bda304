//! Convolutions and samplers that cuDNN has a name of its own for.

use super::{add, mul};
use crate::compute::value::{Arguments, Value, call, one};

fn convolution(arguments: &Arguments, bias: Value, transposed: bool, groups: Value) -> Value {
    let padding = arguments.get("padding");
    let output_padding = if transposed { arguments.get("output_padding") } else { padding.clone() };
    one(
        "aten::convolution",
        [
            arguments.get("self"),
            arguments.get("weight"),
            bias,
            arguments.get("stride"),
            padding,
            arguments.get("dilation"),
            Value::bool(transposed),
            output_padding,
            groups,
        ],
    )
}

/// `cudnn_convolution`
pub(super) fn plain(arguments: Arguments) -> Vec<Value> {
    vec![convolution(&arguments, Value::NONE, false, arguments.get("groups"))]
}

/// `cudnn_convolution_transpose`
pub(super) fn transposed(arguments: Arguments) -> Vec<Value> {
    vec![convolution(&arguments, Value::NONE, true, arguments.get("groups"))]
}

/// `cudnn_convolution_relu`
pub(super) fn with_relu(arguments: Arguments) -> Vec<Value> {
    let result = convolution(&arguments, arguments.get("bias"), false, arguments.get("groups"));
    vec![result.then("aten::relu", [])]
}

/// `cudnn_convolution_add_relu`: relu(convolution + alpha z)
pub(super) fn with_sum_and_relu(arguments: Arguments) -> Vec<Value> {
    let result = convolution(&arguments, arguments.get("bias"), false, arguments.get("groups"));
    let (alpha, other) = (arguments.get("alpha"), arguments.get("z"));
    let other = if alpha.is_none() { other } else { other.then("aten::mul.Scalar", [alpha]) };
    vec![add(&result, &other).then("aten::relu", [])]
}

/// `_conv_depthwise2d`, `conv_depthwise3d`: one group per channel of the input.
pub(super) fn depthwise(arguments: Arguments) -> Vec<Value> {
    let channels = arguments.get("self").sizes().get(1).copied().unwrap_or(1);
    vec![convolution(&arguments, arguments.get("bias"), false, Value::int(channels))]
}

/// `cudnn_grid_sampler`: bilinear, zeros outside, corners aligned.
pub(super) fn grid_sampler(arguments: Arguments) -> Vec<Value> {
    call(
        "aten::grid_sampler_2d",
        [arguments.get("self"), arguments.get("grid"), Value::int(0), Value::int(0), Value::bool(true)],
    )
}

/// `cudnn_grid_sampler_backward`
pub(super) fn grid_sampler_backward(arguments: Arguments) -> Vec<Value> {
    call(
        "aten::grid_sampler_2d_backward",
        [
            arguments.get("grad_output"),
            arguments.get("self"),
            arguments.get("grid"),
            Value::int(0),
            Value::int(0),
            Value::bool(true),
            Value::bools(&[true, true]),
        ],
    )
}

/// One value per channel, in the shape that goes with `like`: (1, C, 1, ...).
pub(super) fn per_channel(values: &Value, like: &Value) -> Value {
    let sizes: Vec<i64> = (0..like.sizes().len()).map(|place| if place == 1 { -1 } else { 1 }).collect();
    values.then("aten::reshape", [Value::ints(&sizes)])
}

/// Sum over everything but channels.
pub(super) fn sum_per_channel(tensor: &Value) -> Value {
    let places: Vec<i64> = (0..tensor.sizes().len() as i64).filter(|place| *place != 1).collect();
    tensor.then("aten::sum.dim_IntList", [Value::ints(&places), Value::bool(false), Value::NONE])
}

/// `values * factor`, where there is a factor.
pub(super) fn times(values: &Value, factor: &Value, like: &Value) -> Value {
    if factor.is_none() { values.clone() } else { mul(values, &per_channel(factor, like)) }
}
