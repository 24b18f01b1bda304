//! How much of its arguments an operator reads: usually all of every argument that it does not only write.

use crate::compute::cxx::IValue;
use crate::compute::operator::Operator;

/// How much of an argument is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// It is only written, or ignored.
    Nothing,
    /// Elements are picked or moved; which ones matter is not known.
    Picked,
    /// Its numbers go into the result.
    All,
}

/// In-place operators that ignore the old contents. This includes those that write only some elements: the rest may have
/// been written before, or may never be read.
const OVERWRITING: [&str; 25] = [
    "_copy_from",
    "_foreach_copy_",
    "_foreach_zero_",
    "_index_put_impl_",
    "bernoulli_",
    "cauchy_",
    "copy_",
    "exponential_",
    "fill_",
    "fill_diagonal_",
    "geometric_",
    "index_copy_",
    "index_fill_",
    "index_put_",
    "log_normal_",
    "masked_fill_",
    "masked_scatter_",
    "normal_",
    "put_",
    "random_",
    "resize_as_",
    "scatter_",
    "uniform_",
    "zero_",
    "copy_sparse_to_sparse_",
];

/// Operators that move elements, or read those that another argument selects. A partially filled buffer is fine for them.
const PICKING: [&str; 42] = [
    "_chunk_cat",
    "_embedding_bag",
    "_embedding_bag_forward_only",
    "_foreach_copy_",
    "_index_put_impl_",
    "_nested_from_padded",
    "_unsafe_index",
    "as_strided_copy",
    "cat",
    "chunk_cat_mixed_dtype",
    "constant_pad_nd",
    "copy_",
    "embedding",
    "embedding_renorm_",
    "flip",
    "gather",
    "grid_sampler_2d",
    "grid_sampler_3d",
    "index",
    "index_add",
    "index_add_",
    "index_copy",
    "index_fill",
    "index_put",
    "index_put_",
    "index_reduce",
    "index_reduce_",
    "index_select",
    "masked_fill",
    "masked_scatter",
    "masked_select",
    "roll",
    "scatter",
    "scatter_add",
    "scatter_add_",
    "scatter_reduce",
    "scatter_reduce_",
    "split_with_sizes_copy",
    "take",
    "tril",
    "triu",
    "where",
];

/// In-place variants of these, whose names differ only in their ending.
const PICKING_IN_PLACE: [&str; 2] = ["tril_", "triu_"];

/// Operators that read nothing: they put weights into one buffer, even weights that are not initialized yet.
const PACKING: [&str; 1] = ["_cudnn_rnn_flatten_weight"];

/// How much the call reads of the argument at `place`.
pub(crate) fn part_read(operator: &Operator, arguments: &[IValue], place: usize) -> Part {
    let schema = operator.schema();
    let is_zero = |place: usize| arguments.get(place).is_some_and(|slot| slot.payload == 0);
    // `beta * self + ...`: 0 is not multiplied (cuBLAS too does not read C then).
    let is_scaled_away = schema.place("self") == Some(place) && schema.place("beta").is_some_and(is_zero);
    // SGD's first step writes the momentum buffers, which nobody has filled.
    let is_first = schema.place("is_first_step").is_some_and(|place| arguments[place].payload & 0xff == 1);
    let is_made_here = is_first && schema.place("momentum_buffer_list") == Some(place);
    // In place or not, it keeps there what it drew.
    let is_noise = operator.name.contains("rrelu_with_noise") && schema.place("noise") == Some(place);
    let part = by_name(&operator.name, schema.written[place]);
    if is_scaled_away || is_made_here || (is_noise && schema.written[place]) { Part::Nothing } else { part }
}

/// The same, for an argument that is written or not.
fn by_name(name: &str, written: bool) -> Part {
    let base = name.rsplit("::").next().unwrap_or(name).split('.').next().unwrap_or(name);
    let is_in_place = base.ends_with('_');
    if written && (!is_in_place || OVERWRITING.contains(&base)) || PACKING.contains(&base) {
        Part::Nothing
    } else if PICKING.contains(&base) || PICKING_IN_PLACE.contains(&base) || base.ends_with("_grouped_mm") {
        Part::Picked
    } else {
        Part::All
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_by_table() {
        for (name, of_written, of_others) in [
            ("aten::add.Tensor", Part::Nothing, Part::All),
            // Its result is only written.
            ("aten::add.out", Part::Nothing, Part::All),
            ("aten::add_.Tensor", Part::All, Part::All),
            ("aten::__ior__.Tensor", Part::All, Part::All),
            ("aten::_fused_adam_", Part::All, Part::All),
            ("aten::uniform_", Part::Nothing, Part::All),
            ("aten::masked_fill_.Scalar", Part::Nothing, Part::All),
            ("aten::index_put_", Part::Nothing, Part::Picked),
            // Adds to what was there, but nobody knows where.
            ("aten::scatter_add_", Part::Picked, Part::Picked),
            ("aten::index_select", Part::Nothing, Part::Picked),
            ("aten::cat.out", Part::Nothing, Part::Picked),
            // `nn.LSTM` calls it before `reset_parameters`.
            ("aten::_cudnn_rnn_flatten_weight", Part::Nothing, Part::Nothing),
            ("aten::triu_", Part::Picked, Part::Picked),
            ("aten::_local_scalar_dense", Part::Nothing, Part::All),
        ] {
            assert_eq!((by_name(name, true), by_name(name, false)), (of_written, of_others), "{name}");
        }
    }

    #[test]
    fn no_name_is_listed_twice() {
        for list in [&OVERWRITING[..], &PICKING[..]] {
            let all: std::collections::BTreeSet<_> = list.iter().collect();
            assert_eq!(all.len(), list.len());
        }
    }
}
