//! Batch and layer normalization as on CUDA, which keeps half-precision statistics in float32; batch normalization of
//! cuDNN and of synchronized layers; the backward of fused RMS normalization.

use super::arranged::ordered_like;
use super::convolution::{per_channel, sum_per_channel, times};
use super::{FLOAT, add, is_half, mul, scale, sub, to};
use crate::compute::value::{Arguments, Value, call, one};

/// Whether this is half precision, for which the CPU keeps the statistics in the datatype of the parameters.
fn keeps_half_statistics(input: &Value, parameters: &[Value]) -> bool {
    let mut given = parameters.iter().filter(|parameter| !parameter.is_none()).peekable();
    is_half(input) && (given.peek().is_none() || given.any(is_half))
}

/// Calls `body` with float32 copies of `tensors` (running statistics), and writes the values back.
fn widened<R>(tensors: &[Value], body: impl FnOnce(&[Value]) -> R) -> R {
    let copies: Vec<Value> = tensors.iter().map(|tensor| to(tensor, FLOAT)).collect();
    let result = body(&copies);
    for (tensor, copy) in tensors.iter().zip(&copies).filter(|(tensor, _)| !tensor.is_none()) {
        if tensor.data_type() != FLOAT {
            tensor.then("aten::copy_", [copy.clone(), Value::bool(false)]);
        }
    }
    result
}

/// `native_batch_norm`, `_native_batch_norm_legit` and its form without running statistics -> (output, save_mean,
/// save_invstd); the last two have one element per channel even without training.
pub(super) fn native_batch_norm(arguments: Arguments) -> Vec<Value> {
    let [input, weight, bias, running_mean, running_var] = named(&arguments);
    let (training, momentum, eps) =
        (arguments.get("training").as_bool(), arguments.get("momentum"), arguments.get("eps"));
    trained_batch_norm(&[input, weight, bias, running_mean, running_var], training, momentum, eps)
}

/// `_batch_norm_with_update(Tensor input, ...)` -> (output, save_mean, save_invstd, reserve)
pub(super) fn batch_norm_with_update(arguments: Arguments) -> Vec<Value> {
    let mut results = trained_batch_norm(&named(&arguments), true, arguments.get("momentum"), arguments.get("eps"));
    results.push(super::empty(0));
    results
}

/// The forms of these that write to given tensors.
pub(super) fn batch_norm_into(arguments: Arguments) -> Vec<Value> {
    let outs = [&["out"][..], &["save_mean"], &["save_invstd", "save_var"], &["reserve"]];
    let outs = outs.map(|names| arguments.first_of(names));
    let results = match arguments.operator.name.as_str() {
        "aten::_batch_norm_with_update.out" => batch_norm_with_update(arguments),
        _ => native_batch_norm(arguments),
    };
    results.iter().zip(outs).map(|(result, out)| super::into(&out, result)).collect()
}

fn named(arguments: &Arguments) -> [Value; 5] {
    ["input", "weight", "bias", "running_mean", "running_var"].map(|name| arguments.get(name))
}

fn trained_batch_norm(tensors: &[Value; 5], training: bool, momentum: Value, eps: Value) -> Vec<Value> {
    let [input, weight, bias, running_mean, running_var] = tensors;
    let is_wide = keeps_half_statistics(input, &tensors[1..]);
    let running = [running_mean.clone(), running_var.clone()];
    let given = |tensor: &Value| if is_wide { to(tensor, FLOAT) } else { tensor.clone() };
    let body = |running: &[Value]| {
        let (mean, variance) = (running[0].clone(), running[1].clone());
        let all = [given(input), given(weight), given(bias), mean, variance, Value::bool(training), momentum, eps];
        call("aten::native_batch_norm", all)
    };
    let results = if is_wide { widened(&running, body) } else { body(&running) };
    let [output, mean, invstd] = &results[..] else { return results };
    let output = ordered_like(&to(output, input.data_type()), input);
    let channels = input.sizes().get(1).copied().unwrap_or(0);
    let per_channel = |saved: &Value| {
        if saved.elements() == channels {
            return saved.clone();
        }
        let no_options = [Value::NONE, Value::NONE, Value::NONE, Value::NONE];
        saved.then("aten::new_zeros", std::iter::once(Value::ints(&[channels])).chain(no_options))
    };
    vec![output, per_channel(mean), per_channel(invstd)]
}

/// `native_batch_norm_backward` and `batch_norm_backward` -> gradients of input, weight and bias
pub(super) fn native_batch_norm_backward(arguments: Arguments) -> Vec<Value> {
    let get = |name: &str| arguments.get(name);
    let (input, weight) = (get("input"), get("weight"));
    let saved = [get("save_mean"), arguments.first_of(&["save_invstd", "save_var"])];
    let is_wide = keeps_half_statistics(&input, std::slice::from_ref(&weight));
    let given = |tensor: &Value| if is_wide { to(tensor, FLOAT) } else { tensor.clone() };
    let results = call(
        "aten::native_batch_norm_backward",
        [
            given(&arguments.first_of(&["grad_out", "grad_output"])),
            given(&input),
            given(&weight),
            given(&get("running_mean")),
            given(&get("running_var")),
            given(&saved[0]),
            given(&saved[1]),
            arguments.first_of(&["train", "update"]),
            get("eps"),
            get("output_mask"),
        ],
    );
    let parameters = if weight.is_none() { FLOAT } else { weight.data_type() };
    let [of_input, of_weight, of_bias] = &results[..] else { return results };
    let of_input = to(of_input, input.data_type());
    let of_input = if of_input.is_none() { of_input } else { ordered_like(&of_input, &input) };
    let of_parameter = |gradient: &Value| if is_wide { to(gradient, parameters) } else { gradient.clone() };
    vec![of_input, of_parameter(of_weight), of_parameter(of_bias)]
}

/// `native_layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps)` -> (output, mean, rstd)
pub(super) fn layer_norm(arguments: Arguments) -> Vec<Value> {
    let [input, weight, bias] = ["input", "weight", "bias"].map(|name| arguments.get(name));
    if !keeps_half_statistics(&input, &[weight.clone(), bias.clone()]) {
        return arguments.on_cpu();
    }
    let given = |tensor: &Value| to(tensor, FLOAT);
    let all = [given(&input), arguments.get("normalized_shape"), given(&weight), given(&bias), arguments.get("eps")];
    let mut results = call("aten::native_layer_norm", all);
    if let Some(output) = results.first_mut() {
        *output = to(output, input.data_type());
    }
    results
}

/// `native_layer_norm_backward` -> gradients of input, weight and bias
pub(super) fn layer_norm_backward(arguments: Arguments) -> Vec<Value> {
    let [gradient, input, mean, rstd, weight, bias] =
        ["grad_out", "input", "mean", "rstd", "weight", "bias"].map(|name| arguments.get(name));
    if !keeps_half_statistics(&input, &[weight.clone(), bias.clone()]) {
        return arguments.on_cpu();
    }
    let given = |tensor: &Value| to(tensor, FLOAT);
    let results = call(
        "aten::native_layer_norm_backward",
        [
            given(&gradient),
            given(&input),
            arguments.get("normalized_shape"),
            given(&mean),
            given(&rstd),
            given(&weight),
            given(&bias),
            arguments.get("output_mask"),
        ],
    );
    results.iter().zip([&input, &weight, &bias]).map(|(result, of)| to(result, of.data_type())).collect()
}

/// `cudnn_batch_norm` -> (output, save_mean, save_invstd, reserve)
pub(super) fn batch_norm(arguments: Arguments) -> Vec<Value> {
    let mut results = call(
        "aten::native_batch_norm",
        [
            arguments.get("input"),
            arguments.get("weight"),
            arguments.get("bias"),
            arguments.get("running_mean"),
            arguments.get("running_var"),
            arguments.get("training"),
            arguments.get("exponential_average_factor"),
            arguments.get("epsilon"),
        ],
    );
    results.push(super::empty(0));
    results
}

/// `cudnn_batch_norm_backward` -> gradients of input, weight and bias
pub(super) fn batch_norm_backward(arguments: Arguments) -> Vec<Value> {
    let saved = arguments.get("save_mean");
    call(
        "aten::native_batch_norm_backward",
        [
            arguments.get("grad_output"),
            arguments.get("input"),
            arguments.get("weight"),
            arguments.get("running_mean"),
            arguments.get("running_var"),
            saved.clone(),
            arguments.get("save_var"),
            Value::bool(saved.elements() > 0),
            arguments.get("epsilon"),
            Value::bools(&[true, true, true]),
        ],
    )
}

/// `batch_norm_stats(Tensor input, float eps)` -> (mean, invstd)
pub(super) fn stats(arguments: Arguments) -> Vec<Value> {
    let input = wide(&arguments.get("input"));
    let none = || Value::NONE;
    let all = [input, none(), none(), none(), none(), Value::bool(true), Value::double(0.0), arguments.get("eps")];
    call("aten::native_batch_norm", all).into_iter().skip(1).collect()
}

/// Statistics of half precision are kept in float32.
fn wide(tensor: &Value) -> Value {
    if is_double(tensor) { tensor.clone() } else { to(tensor, FLOAT) }
}

fn is_double(tensor: &Value) -> bool {
    const DOUBLE: i64 = 7;
    tensor.data_type() == DOUBLE
}

/// (input - mean) * invstd, widened.
fn normalized(input: &Value, mean: &Value, invstd: &Value) -> Value {
    let centered = sub(&wide(input), &per_channel(mean, input));
    mul(&centered, &per_channel(invstd, input))
}

/// `batch_norm_elemt(Tensor input, Tensor? weight, Tensor? bias, Tensor mean, Tensor invstd, float eps)`
pub(super) fn element(arguments: Arguments) -> Vec<Value> {
    let input = arguments.get("input");
    let result = normalized(&input, &arguments.get("mean"), &arguments.get("invstd"));
    let result = times(&result, &arguments.get("weight"), &input);
    let bias = arguments.get("bias");
    let result = if bias.is_none() { result } else { add(&result, &per_channel(&bias, &input)) };
    vec![to(&result, input.data_type())]
}

/// `batch_norm_gather_stats_with_counts`: the statistics of all ranks, weighted by their counts; the variant without
/// counts uses one count for all.
pub(super) fn gather(arguments: Arguments) -> Vec<Value> {
    let (means, invstds, epsilon) = (arguments.get("mean"), arguments.get("invstd"), arguments.get("eps"));
    let ranks = means.sizes().first().copied().unwrap_or(0);
    let counts = match arguments.get("count").as_int() {
        Some(count) => means.then(
            "aten::new_full",
            [Value::ints(&[ranks]), Value::int(count), Value::NONE, Value::NONE, Value::NONE, Value::NONE],
        ),
        None => to(&arguments.get("counts"), means.data_type()),
    };
    let counts = counts.then("aten::reshape", [Value::ints(&[ranks, 1])]);
    let total = counts.then("aten::sum", [Value::NONE]);
    let over_ranks = |tensor: &Value| {
        let sum =
            mul(tensor, &counts).then("aten::sum.dim_IntList", [Value::ints(&[0]), Value::bool(false), Value::NONE]);
        sum.then("aten::div.Tensor", [total.clone()])
    };
    let mean = over_ranks(&means);
    let variances = invstds
        .then("aten::pow.Tensor_Scalar", [Value::int(-2)])
        .then("aten::sub.Scalar", [epsilon.clone(), Value::int(1)]);
    let apart = sub(&means, &mean);
    let variance = over_ranks(&add(&variances, &mul(&apart, &apart)));
    let momentum = arguments.get("momentum").as_double().unwrap_or(0.0);
    let update = |running: &Value, value: &Value| {
        if !running.is_none() {
            let value = to(value, running.data_type());
            running.then("aten::mul_.Scalar", [Value::double(1.0 - momentum)]);
            running.then("aten::add_.Tensor", [value, Value::double(momentum)]);
        }
    };
    update(&arguments.get("running_mean"), &mean);
    let others = total.then("aten::sub.Scalar", [Value::int(1), Value::int(1)]);
    let unbiased = mul(&variance, &total).then("aten::div.Tensor", [others]);
    update(&arguments.get("running_var"), &unbiased);
    let invstd = variance.then("aten::add.Scalar", [epsilon, Value::int(1)]).then("aten::rsqrt", []);
    vec![mean, invstd]
}

/// `batch_norm_backward_reduce` -> (sum_dy, sum_dy_xmu, grad_weight, grad_bias)
pub(super) fn backward_reduce(arguments: Arguments) -> Vec<Value> {
    let (input, gradient) = (arguments.get("input"), wide(&arguments.get("grad_out")));
    let invstd = arguments.get("invstd");
    let centered = sub(&wide(&input), &per_channel(&arguments.get("mean"), &input));
    let (sum, sum_centered) = (sum_per_channel(&gradient), sum_per_channel(&mul(&gradient, &centered)));
    let weight = arguments.get("weight");
    let like_weight = |value: Value| if weight.is_none() { value } else { to(&value, weight.data_type()) };
    let wanted = |name: &str, value: &dyn Fn() -> Value| {
        if arguments.get(name).as_bool() { like_weight(value()) } else { Value::undefined() }
    };
    let of_weight = wanted("weight_g", &|| mul(&sum_centered, &invstd));
    let of_bias = wanted("bias_g", &|| sum.clone());
    vec![sum, sum_centered, of_weight, of_bias]
}

/// `batch_norm_backward_elemt` -> gradient of the input
pub(super) fn backward_element(arguments: Arguments) -> Vec<Value> {
    let (input, invstd) = (arguments.get("input"), arguments.get("invstd"));
    let total = to(&arguments.get("count").then("aten::sum", [Value::NONE]), invstd.data_type());
    let mean_of = |name: &str| arguments.get(name).then("aten::div.Tensor", [total.clone()]);
    let centered = sub(&wide(&input), &per_channel(&arguments.get("mean"), &input));
    let along = per_channel(&mul(&mul(&invstd, &invstd), &mean_of("sum_dy_xmu")), &input);
    let gradient = sub(&wide(&arguments.get("grad_out")), &per_channel(&mean_of("sum_dy"), &input));
    let gradient = mul(&sub(&gradient, &mul(&centered, &along)), &per_channel(&invstd, &input));
    vec![to(&times(&gradient, &arguments.get("weight"), &input), input.data_type())]
}

/// `_fused_rms_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor rstd, Tensor? weight, bool[2]
/// output_mask)` -> gradients of input and weight
pub(super) fn rms_norm_backward(arguments: Arguments) -> Vec<Value> {
    let (input, weight) = (arguments.get("input"), arguments.get("weight"));
    let (gradient, rstd) = (wide(&arguments.get("grad_out")), arguments.get("rstd"));
    let mask = arguments.get("output_mask").as_bools();
    let dimensions = input.sizes().len() as i64;
    // rstd has the leading sizes of the input and ones for the normalized ones.
    let is_one = |place: &i64| rstd.sizes().get(*place as usize) == Some(&1);
    let inner: Vec<i64> = (0..dimensions).rev().take_while(is_one).collect();
    let inner = match weight.sizes().len() as i64 {
        0 => inner,
        count => (dimensions - count..dimensions).collect(),
    };
    let outer: Vec<i64> = (0..dimensions).filter(|place| !inner.contains(place)).collect();
    let normal = mul(&wide(&input), &rstd);
    let weighted = if weight.is_none() { gradient.clone() } else { mul(&gradient, &wide(&weight)) };
    let mean = mul(&weighted, &normal).then("aten::mean.dim", [Value::ints(&inner), Value::bool(true), Value::NONE]);
    let of_input = mul(&sub(&weighted, &mul(&normal, &mean)), &rstd);
    let of_weight = if !weight.is_none() && mask.get(1) == Some(&true) {
        let product = mul(&gradient, &normal);
        let sum = if outer.is_empty() {
            scale(&product, 1.0)
        } else {
            one("aten::sum.dim_IntList", [product, Value::ints(&outer), Value::bool(false), Value::NONE])
        };
        to(&sum, weight.data_type())
    } else {
        Value::undefined()
    };
    vec![to(&of_input, input.data_type()), of_weight]
}
