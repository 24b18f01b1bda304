//! Operators that need more than the CPU kernel of the same name: those that only CUDA has, composed from others, and
//! those whose CUDA variant is chosen above the kernels.

mod arranged;
mod attention;
mod convolution;
pub(super) mod names;
mod normalization;
mod product;
mod random;
pub(super) mod reads;
mod recurrent;
mod softmax;
mod widened;

use super::method::Method;
use super::value::{Arguments, Value, one};

const TABLE: &[(&str, Method)] = &[
    ("aten::copy_", Method::Copy),
    // Above the choice between cuDNN and PyTorch's own convolutions, so that the CPU makes its own choice.
    ("aten::convolution", Method::Mapped(convolution::any)),
    ("aten::_convolution", Method::Mapped(convolution::any)),
    ("aten::convolution_backward", Method::Mapped(convolution::any_backward)),
    // Their common kernel launches one of CUDA's by itself.
    ("aten::mode", Method::Twin),
    ("aten::mode.values", Method::Twin),
    ("aten::_conj_physical", Method::Twin),
    ("aten::conj_physical_", Method::Twin),
    ("aten::ldexp.Tensor", Method::Twin),
    ("aten::ldexp.out", Method::Twin),
    ("aten::ldexp_", Method::Twin),
    // FSDP2 since PyTorch 2.15: gradients of one type become calls of `_chunk_cat`, those of two do not.
    ("fsdp::chunk_cat_mixed_dtype", Method::Twin),
    ("aten::cudnn_convolution", Method::Mapped(convolution::plain)),
    ("aten::cudnn_convolution_transpose", Method::Mapped(convolution::transposed)),
    ("aten::cudnn_convolution_relu", Method::Mapped(convolution::with_relu)),
    ("aten::cudnn_convolution_add_relu", Method::Mapped(convolution::with_sum_and_relu)),
    ("aten::_conv_depthwise2d", Method::Mapped(convolution::depthwise)),
    ("aten::_conv_depthwise2d.out", Method::Mapped(|arguments| written(arguments, convolution::depthwise))),
    ("aten::cudnn_convolution.out", Method::Mapped(|arguments| written(arguments, convolution::plain))),
    ("aten::conv_depthwise3d", Method::Mapped(convolution::depthwise)),
    ("aten::cudnn_grid_sampler", Method::Mapped(widened::cudnn_grid_sampler)),
    ("aten::cudnn_grid_sampler_backward", Method::Mapped(widened::cudnn_grid_sampler_backward)),
    ("aten::grid_sampler_2d", Method::Mapped(widened::grid_sampler_2d)),
    ("aten::grid_sampler_2d_backward", Method::Mapped(widened::grid_sampler_2d_backward)),
    ("aten::grid_sampler_3d", Method::Mapped(widened::grid_sampler_3d)),
    ("aten::grid_sampler_3d_backward", Method::Mapped(widened::grid_sampler_3d_backward)),
    ("aten::logit", Method::Mapped(widened::logit)),
    ("aten::logit_", Method::Mapped(widened::logit)),
    ("aten::logit.out", Method::Mapped(widened::logit)),
    ("aten::logit_backward", Method::Mapped(widened::logit_backward)),
    ("aten::logit_backward.grad_input", Method::Mapped(widened::logit_backward)),
    // Recurrent layers and CTC loss without cuDNN take PyTorch's own path.
    ("aten::cudnn_is_acceptable", Method::Mapped(recurrent::no)),
    ("aten::_use_cudnn_ctc_loss", Method::Mapped(recurrent::no)),
    ("aten::_use_cudnn_ctc_loss.Tensor", Method::Mapped(recurrent::no)),
    ("aten::_cudnn_rnn_flatten_weight", Method::Mapped(recurrent::flatten)),
    ("aten::_thnn_fused_lstm_cell", Method::Mapped(recurrent::lstm_cell)),
    ("aten::_thnn_fused_lstm_cell_backward_impl", Method::Mapped(recurrent::lstm_cell_backward)),
    ("aten::_thnn_fused_gru_cell", Method::Mapped(recurrent::gru_cell)),
    ("aten::_thnn_fused_gru_cell_backward", Method::Mapped(recurrent::gru_cell_backward)),
    ("aten::cudnn_batch_norm", Method::Mapped(normalization::batch_norm)),
    ("aten::cudnn_batch_norm_backward", Method::Mapped(normalization::batch_norm_backward)),
    ("aten::batch_norm_stats", Method::Mapped(normalization::stats)),
    ("aten::batch_norm_elemt", Method::Mapped(normalization::element)),
    ("aten::batch_norm_elemt.out", Method::Mapped(|arguments| written(arguments, normalization::element))),
    ("aten::batch_norm_gather_stats", Method::Mapped(normalization::gather)),
    ("aten::batch_norm_gather_stats_with_counts", Method::Mapped(normalization::gather)),
    ("aten::batch_norm_backward_reduce", Method::Mapped(normalization::backward_reduce)),
    ("aten::batch_norm_backward_elemt", Method::Mapped(normalization::backward_element)),
    ("aten::native_batch_norm", Method::Mapped(normalization::native_batch_norm)),
    ("aten::_native_batch_norm_legit", Method::Mapped(normalization::native_batch_norm)),
    ("aten::_native_batch_norm_legit.no_stats", Method::Mapped(normalization::native_batch_norm)),
    ("aten::_batch_norm_with_update", Method::Mapped(normalization::batch_norm_with_update)),
    ("aten::native_batch_norm.out", Method::Mapped(normalization::batch_norm_into)),
    ("aten::_native_batch_norm_legit.out", Method::Mapped(normalization::batch_norm_into)),
    ("aten::_native_batch_norm_legit.no_stats_out", Method::Mapped(normalization::batch_norm_into)),
    ("aten::_batch_norm_with_update.out", Method::Mapped(normalization::batch_norm_into)),
    ("aten::native_batch_norm_backward", Method::Mapped(normalization::native_batch_norm_backward)),
    ("aten::batch_norm_backward", Method::Mapped(normalization::native_batch_norm_backward)),
    ("aten::native_layer_norm", Method::Mapped(normalization::layer_norm)),
    ("aten::native_layer_norm_backward", Method::Mapped(normalization::layer_norm_backward)),
    ("aten::_fused_rms_norm_backward", Method::Mapped(normalization::rms_norm_backward)),
    ("aten::_softmax", Method::Mapped(softmax::forward)),
    ("aten::_log_softmax", Method::Mapped(softmax::forward)),
    ("aten::_softmax_backward_data", Method::Mapped(softmax::backward)),
    ("aten::_log_softmax_backward_data", Method::Mapped(softmax::backward)),
    ("aten::_fft_r2c", Method::Mapped(arranged::real_to_complex)),
    ("aten::_linalg_svd", Method::Mapped(arranged::svd)),
    ("aten::linalg_eig", Method::Mapped(arranged::eig)),
    ("aten::linalg_eig.out", Method::Mapped(arranged::eig_into)),
    ("aten::angle", Method::Mapped(arranged::twin_like_input)),
    ("aten::channel_shuffle", Method::Mapped(arranged::twin_by_rows)),
    ("aten::max_unpool2d", Method::Mapped(arranged::twin_by_rows)),
    ("aten::reflection_pad2d", Method::Mapped(arranged::twin_by_rows)),
    ("aten::reflection_pad2d_backward", Method::Mapped(arranged::twin_by_rows)),
    ("aten::reflection_pad3d", Method::Mapped(arranged::twin_by_rows)),
    ("aten::reflection_pad3d_backward", Method::Mapped(arranged::twin_by_rows)),
    ("aten::replication_pad2d", Method::Mapped(arranged::twin_by_rows)),
    ("aten::replication_pad2d_backward", Method::Mapped(arranged::twin_by_rows)),
    ("aten::replication_pad3d", Method::Mapped(arranged::twin_by_rows)),
    ("aten::replication_pad3d_backward", Method::Mapped(arranged::twin_by_rows)),
    ("aten::_slow_conv2d_forward", Method::Mapped(arranged::twin_by_rows)),
    ("aten::_slow_conv2d_backward.output_mask", Method::Mapped(arranged::twin_by_rows)),
    ("aten::_slow_conv2d_backward.grad_input", Method::Mapped(convolution::slow_backward_into)),
    ("aten::slow_conv_dilated2d", Method::Mapped(arranged::twin_by_rows)),
    ("aten::slow_conv_transpose2d", Method::Mapped(arranged::twin_by_rows)),
    ("aten::binary_cross_entropy_backward.grad_input", Method::Mapped(arranged::binary_cross_entropy_backward)),
    ("aten::log_sigmoid_forward", Method::Mapped(arranged::log_sigmoid)),
    ("aten::log_sigmoid_forward.output", Method::Mapped(arranged::log_sigmoid_into)),
    ("aten::log_sigmoid_backward", Method::Mapped(arranged::log_sigmoid_backward)),
    ("aten::log_sigmoid_backward.grad_input", Method::Mapped(arranged::log_sigmoid_backward_into)),
    ("aten::_embedding_bag", Method::Filled(arranged::embedding_bag)),
    ("aten::_embedding_bag_forward_only", Method::Filled(arranged::embedding_bag)),
    ("aten::cudnn_affine_grid_generator", Method::Mapped(arranged::affine_grid)),
    ("aten::cudnn_affine_grid_generator_backward", Method::Mapped(arranged::affine_grid_backward)),
    ("aten::mm.dtype", Method::Mapped(product::wider)),
    ("aten::bmm.dtype", Method::Mapped(product::wider)),
    ("aten::addmm.dtype", Method::Mapped(product::wider)),
    ("aten::baddbmm.dtype", Method::Mapped(product::wider)),
    ("aten::mm.dtype_out", Method::Mapped(product::wider_out)),
    ("aten::bmm.dtype_out", Method::Mapped(product::wider_out)),
    ("aten::addmm.dtype_out", Method::Mapped(product::wider_out)),
    ("aten::baddbmm.dtype_out", Method::Mapped(product::wider_out)),
    ("aten::native_dropout", Method::Random(random::dropout)),
    ("aten::_fused_dropout", Method::Random(random::fused_dropout)),
    ("aten::_masked_scale", Method::Mapped(random::masked_scale)),
    // What calls these, `_scaled_dot_product_*`, is PyTorch's own.
    ("aten::_flash_attention_forward", Method::Filled(attention::flash_forward)),
    ("aten::_flash_attention_forward_no_dropout_inplace", Method::Filled(attention::flash_into)),
    ("aten::_flash_attention_backward", Method::Filled(attention::flash_backward)),
    ("aten::_efficient_attention_forward", Method::Filled(attention::efficient_forward)),
    ("aten::_efficient_attention_backward", Method::Mapped(attention::efficient_backward)),
    ("aten::_cudnn_attention_forward", Method::Mapped(attention::cudnn_forward)),
    ("aten::_cudnn_attention_forward_no_dropout_inplace", Method::Mapped(attention::cudnn_into)),
    ("aten::_cudnn_attention_backward", Method::Mapped(attention::cudnn_backward)),
];

/// `c10::ScalarType::Float`
const FLOAT: i64 = 6;

/// True for a tensor of float16 or bfloat16.
fn is_half(value: &Value) -> bool {
    /// `c10::ScalarType`
    const HALF: i64 = 5;
    const BFLOAT16: i64 = 15;
    matches!(value.data_type(), HALF | BFLOAT16)
}

/// Names of the operators of the table.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|(name, _)| *name)
}

/// How an operator in the table is computed.
pub(super) fn find(name: &str) -> Option<Method> {
    TABLE.iter().find(|(known, _)| *known == name).map(|(_, method)| *method)
}

/// `tensor` converted to a datatype, given as c10's number.
pub(super) fn to(tensor: &Value, data_type: i64) -> Value {
    if tensor.is_none() || tensor.data_type() == data_type {
        return tensor.clone();
    }
    tensor.then("aten::to.dtype", [Value::int(data_type), Value::bool(false), Value::bool(false), Value::NONE])
}

/// The form of `body` that writes its only result to `out`.
fn written(arguments: Arguments, body: fn(Arguments) -> Vec<Value>) -> Vec<Value> {
    let out = arguments.get("out");
    body(arguments).iter().map(|result| into(&out, result)).collect()
}

/// Writes `result` to `out`, which takes its sizes.
fn into(out: &Value, result: &Value) -> Value {
    out.then("aten::resize_", [Value::ints(&result.sizes()), Value::NONE]);
    out.then("aten::copy_", [result.clone(), Value::bool(false)])
}

fn add(left: &Value, right: &Value) -> Value {
    left.then("aten::add.Tensor", [right.clone(), Value::int(1)])
}

fn sub(left: &Value, right: &Value) -> Value {
    left.then("aten::sub.Tensor", [right.clone(), Value::int(1)])
}

fn mul(left: &Value, right: &Value) -> Value {
    left.then("aten::mul.Tensor", [right.clone()])
}

fn scale(tensor: &Value, factor: f64) -> Value {
    tensor.then("aten::mul.Scalar", [Value::double(factor)])
}

/// A tensor without elements, in place of one that only CUDA reads.
fn empty(data_type: i64) -> Value {
    let no_options = [Value::int(data_type), Value::NONE, Value::NONE, Value::NONE, Value::NONE];
    one("aten::empty.memory_format", std::iter::once(Value::ints(&[0])).chain(no_options))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn an_operator_has_one_mapping() {
        let all: BTreeSet<_> = names().collect();
        assert_eq!(all.len(), names().count());
        assert!(all.iter().all(|name| name.contains("::") && find(name).is_some()));
        assert!(find("aten::add.Tensor").is_none());
    }
}
