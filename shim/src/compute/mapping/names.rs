//! Operators that the bridge knows by name but has no mapping for: those that it calls itself, those left to PyTorch, and those
//! whose arguments may be on several devices.

/// Has a CUDA kernel in every PyTorch: its handle shows the layout of handles.
pub(crate) const ADD: &str = "aten::add.Tensor";
/// Makes the tensor on which the layout is found.
pub(crate) const SCALAR_TENSOR: &str = "aten::scalar_tensor";
/// Returns a boolean, whose tag is not known in advance.
pub(crate) const IS_FLOATING_POINT: &str = "aten::is_floating_point";
/// Copies a result into the GPU's memory.
pub(crate) const COPY: &str = "aten::copy_";
/// Made of the operators of cuDNN, or of PyTorch's own.
pub(crate) const CONVOLUTION: &str = "aten::convolution";
/// Copies a list of tensors.
pub(crate) const COPY_ALL: &str = "aten::_foreach_copy_";

/// Reads the bytes of two tensors: used to find what an observer of operators gets.
pub(crate) const EQUAL: &str = "aten::equal";
/// Copy from one device to another, through the operators that they call.
pub(crate) const MOVING: [&str; 2] = ["aten::to", "aten::cpu"];
/// Copies only tensors marked as conjugated.
pub(crate) const RESOLVE_CONJ: &str = "aten::resolve_conj";
/// Copies only tensors marked as negated.
pub(crate) const RESOLVE_NEG: &str = "aten::resolve_neg";

/// Operator libraries that are PyTorch's own, or that behave the same on CUDA and the CPU.
const NAMESPACES: [&str; 6] = ["aten", "prims", "torchvision", "torchaudio", "quantized", "_quantized"];

/// CUDA kernels that compute nothing: they look at shapes, allocate, call other operators, or talk to the runtime. They stay
/// PyTorch's.
const KEPT: [&str; 36] = [
    "_efficientzerotensor",
    "_fused_sdp_choice",
    "_has_same_storage_numel",
    "_lazy_clone",
    "_pin_memory",
    "_reshape_alias",
    "_resize_output_",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_cudnn_attention_backward",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_efficient_attention_backward",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_backward",
    "_use_cudnn_rnn_flatten_weight",
    "_use_miopen_ctc_loss",
    "as_strided",
    "as_strided_",
    "detach",
    "empty",
    "empty_strided",
    "is_pinned",
    "is_set_to",
    "lift",
    "lift_fresh",
    "pin_memory",
    "record_stream",
    "resize_",
    "set_",
    "set_data",
    "squeeze",
    "unfold",
    "unsqueeze",
    "view",
    "view_as_complex",
    "view_as_real",
    "_empty_affine_quantized",
];

/// Operators on sparse and quantized tensors that only access the parts of their arguments.
const KEPT_SPECIAL: [&str; 30] = [
    "_coalesced_",
    "_dimI",
    "_dimV",
    "_indices",
    "_nnz",
    "_sparse_coo_tensor_with_dims",
    "_sparse_coo_tensor_with_dims_and_tensors",
    "_values",
    "ccol_indices",
    "clone",
    "col_indices",
    "copy_",
    "copy_sparse_to_sparse_",
    "crow_indices",
    "dense_dim",
    "empty_like",
    "expand",
    "indices",
    "is_coalesced",
    "q_per_channel_axis",
    "q_scale",
    "q_zero_point",
    "qscheme",
    "resize_as_sparse_",
    "row_indices",
    "select_copy",
    "sparse_dim",
    "sparse_resize_",
    "sparse_resize_and_clear_",
    "values",
];

/// The operator's name without namespace and overload, if the namespace is one of `namespaces`.
fn base<'a>(name: &'a str, namespaces: &[&str]) -> Option<&'a str> {
    let (namespace, operator) = name.split_once("::")?;
    operator.split('.').next().filter(|_| namespaces.contains(&namespace))
}

/// True for an operator that is computed by the CPU kernel of the same name, if there is one.
pub(crate) fn has_twin(name: &str) -> bool {
    base(name, &NAMESPACES).is_some_and(|base| !KEPT.contains(&base))
}

/// [`has_twin`], for sparse and quantized tensors.
pub(crate) fn has_special_twin(name: &str) -> bool {
    base(name, &["aten"]).is_some_and(|base| !KEPT.contains(&base) && !KEPT_SPECIAL.contains(&base))
}

/// True for an operator whose CUDA kernel makes the host wait for the stream: its result is a number, or its size depends on
/// the data.
pub(crate) fn waits(name: &str) -> bool {
    const WAITING: [&str; 13] = [
        "_local_scalar_dense",
        "_unique",
        "_unique2",
        "bincount",
        "equal",
        "is_nonzero",
        "masked_select",
        "nms",
        "nonzero",
        "repeat_interleave",
        "unique_consecutive",
        "unique_dim",
        "unique_dim_consecutive",
    ];
    base(name, &NAMESPACES).is_some_and(|base| WAITING.contains(&base) || base.starts_with("_to_sparse"))
}

/// Operators whose CUDA kernels assert something of their arguments, without namespace and overload, sorted.
pub(crate) const ASSERTING: &[&str] = &[
    "_assert_async",
    "_index_put_impl_",
    "binary_cross_entropy",
    "embedding",
    "gather",
    "index",
    "index_add",
    "index_add_",
    "index_copy",
    "index_copy_",
    "index_fill",
    "index_fill_",
    "index_put",
    "index_put_",
    "index_select",
    "multi_margin_loss",
    "multi_margin_loss_backward",
    "multinomial",
    "nll_loss2d_backward",
    "nll_loss2d_forward",
    "nll_loss_backward",
    "nll_loss_forward",
    "put",
    "put_",
    "scatter",
    "scatter_",
    "scatter_add",
    "scatter_add_",
    "scatter_reduce",
    "scatter_reduce_",
    "take",
];

/// True for one of those.
pub(crate) fn asserts(name: &str) -> bool {
    base(name, &["aten"]).is_some_and(|base| ASSERTING.binary_search(&base).is_ok())
}

/// True for an operator whose results after the first are logarithms for its backward pass, with -inf for impossible outcomes:
/// attention and CTC loss.
pub(crate) fn keeps_logarithms(name: &str) -> bool {
    base(name, &NAMESPACES).is_some_and(|base| base.contains("attention") || base.contains("ctc_loss"))
}

/// True for an operator that divides each tensor of a list by a number.
pub(crate) fn divides_by_list(name: &str) -> bool {
    name.starts_with("aten::_foreach_div") && name.ends_with(".ScalarList")
}

/// True for an operator on a GPU tensor that accepts CPU indices.
pub(crate) fn takes_indices_of_cpu(name: &str) -> bool {
    const PREFIXES: [&str; 3] = ["aten::index.", "aten::index_put", "aten::_index_put_impl_"];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_that_compute_have_a_twin_and_views_have_none() {
        for (name, dense, special) in [
            ("aten::add.Tensor", true, true),
            ("aten::mm", true, true),
            ("torchvision::nms", true, false),
            ("quantized::add", true, false),
            // A view of the same memory.
            ("aten::view", false, false),
            ("aten::as_strided", false, false),
            ("aten::empty.memory_format", false, false),
            // `view_as_real` is kept; `view_as_real_copy` copies.
            ("aten::view_as_real_copy", true, true),
            // Of a sparse tensor, only its parts are looked at.
            ("aten::_indices", true, false),
            ("aten::copy_", true, false),
            // Not PyTorch's: nothing says that both kernels do the same.
            ("my_library::add", false, false),
            ("add", false, false),
        ] {
            assert_eq!((has_twin(name), has_special_twin(name)), (dense, special), "{name}");
        }
    }

    #[test]
    fn only_indexing_takes_indices_of_the_cpu() {
        for name in ["aten::index.Tensor", "aten::index_put_", "aten::index_put.out", "aten::_index_put_impl_"] {
            assert!(takes_indices_of_cpu(name), "{name}");
        }
        for name in ["aten::index_select", "aten::index_add", "aten::gather", "aten::indices"] {
            assert!(!takes_indices_of_cpu(name), "{name}");
        }
    }

    #[test]
    fn no_name_is_listed_twice() {
        let all: std::collections::BTreeSet<_> = KEPT.iter().chain(&KEPT_SPECIAL).collect();
        assert_eq!(all.len(), KEPT.len() + KEPT_SPECIAL.len());
    }
}
