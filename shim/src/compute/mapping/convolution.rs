//! Convolutions and samplers for which cuDNN has separate operators.

use super::arranged::by_rows;
use super::{add, into, mul};
use crate::compute::value::{Arguments, Value, call, one};

fn convolution(arguments: &Arguments, bias: Value, transposed: bool, groups: Value) -> Value {
    let padding = arguments.get("padding");
    let output_padding = if transposed { arguments.get("output_padding") } else { padding.clone() };
    let input = arguments.get("self");
    let has_doubles = input.data_type() == DOUBLE;
    let result = one(
        "aten::convolution",
        [
            input,
            arguments.get("weight"),
            bias,
            arguments.get("stride"),
            padding,
            arguments.get("dilation"),
            Value::bool(transposed),
            output_padding,
            groups,
        ],
    );
    if has_doubles { by_rows(&result) } else { result }
}

/// `convolution`, `_convolution`
pub(super) fn any(arguments: Arguments) -> Vec<Value> {
    arranged(arguments, &["input", "weight"])
}

/// `convolution_backward` -> gradients of input, weight and bias
pub(super) fn any_backward(arguments: Arguments) -> Vec<Value> {
    arranged(arguments, &["grad_output", "input", "weight"])
}

/// The CPU's results in the layout of CUDA's kernels: cuDNN has no channels-last kernel for doubles, and does not handle large
/// output padding. If one of the tensors `given` is channels-last, the CPU kernel of a transposed 3D convolution does not
/// preserve that, but cuDNN does.
fn arranged(arguments: Arguments, given: &[&str]) -> Vec<Value> {
    let lies_by_rows = arguments.get("input").data_type() == DOUBLE || has_big_output_padding(&arguments);
    let volumes = given.iter().any(|name| is_channels_last_3d(&arguments.get(name)));
    let results = arguments.on_cpu();
    match (lies_by_rows, volumes) {
        (true, _) => results.iter().map(by_rows).collect(),
        (_, true) => results.iter().map(channels_last_3d).collect(),
        _ => results,
    }
}

/// `c10::ScalarType::Double`
const DOUBLE: i64 = 7;

/// `ConvParams::is_output_padding_big` (aten/src/ATen/native/Convolution.cpp).
fn has_big_output_padding(arguments: &Arguments) -> bool {
    let [padding, stride] = ["output_padding", "stride"].map(|name| arguments.get(name).as_ints());
    padding.iter().zip(stride.iter().cycle()).any(|(padding, stride)| padding >= stride)
}

/// `c10::is_channels_last_strides_3d`, for datatypes that cuDNN has convolutions of.
fn is_channels_last_3d(tensor: &Value) -> bool {
    /// `c10::ScalarType`
    const DOUBLE_AND_COMPLEX: std::ops::RangeInclusive<i64> = DOUBLE..=10;
    let Some(plain) = tensor.tensor() else { return false };
    let (sizes, strides) = plain.sizes_and_strides();
    if sizes.len() != 5 || strides[1] == 0 || DOUBLE_AND_COMPLEX.contains(&tensor.data_type()) {
        return false;
    }
    let mut least = 0;
    for place in [1, 4, 3, 2, 0] {
        if sizes[place] == 0 || strides[place] < least || (place == 0 && least == strides[1]) {
            return false;
        }
        least = strides[place] * sizes[place].max(1);
    }
    true
}

fn channels_last_3d(tensor: &Value) -> Value {
    /// `c10::MemoryFormat::ChannelsLast3d`
    const CHANNELS_LAST_3D: i64 = 3;
    if tensor.sizes().len() != 5 {
        return tensor.clone();
    }
    tensor.then("aten::contiguous", [Value::int(CHANNELS_LAST_3D)])
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
    vec![by_rows(&convolution(&arguments, arguments.get("bias"), false, Value::int(channels)))]
}

/// `_slow_conv2d_backward.grad_input`
pub(super) fn slow_backward_into(arguments: Arguments) -> Vec<Value> {
    let given = ["grad_output", "self", "weight", "kernel_size", "stride", "padding"].map(|name| arguments.get(name));
    let outs = ["grad_input", "grad_weight", "grad_bias"].map(|name| arguments.get(name));
    let mask = Value::bools(&outs.each_ref().map(|out| !out.is_none()));
    let results = call("aten::_slow_conv2d_backward.output_mask", given.into_iter().chain([mask]));
    let write = |(result, out): (&Value, &Value)| if out.is_none() { out.clone() } else { into(out, &by_rows(result)) };
    results.iter().zip(&outs).map(write).collect()
}

/// One value per channel, in a shape that broadcasts with `like`: (1, C, 1, ...).
pub(super) fn per_channel(values: &Value, like: &Value) -> Value {
    let sizes: Vec<i64> = (0..like.sizes().len()).map(|place| if place == 1 { -1 } else { 1 }).collect();
    values.then("aten::reshape", [Value::ints(&sizes)])
}

/// Sum over everything except channels.
pub(super) fn sum_per_channel(tensor: &Value) -> Value {
    let places: Vec<i64> = (0..tensor.sizes().len() as i64).filter(|place| *place != 1).collect();
    tensor.then("aten::sum.dim_IntList", [Value::ints(&places), Value::bool(false), Value::NONE])
}

/// `values * factor`, if there is a factor.
pub(super) fn times(values: &Value, factor: &Value, like: &Value) -> Value {
    if factor.is_none() { values.clone() } else { mul(values, &per_channel(factor, like)) }
}
