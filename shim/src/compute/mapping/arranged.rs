//! Results whose elements CUDA's kernels lay out in a different order than the CPU's. Compiled programs and DTensor
//! expect CUDA's strides.

use super::one;
use crate::compute::value::{Arguments, Value, call};

/// `tensor` contiguous, with the last dimension fastest.
pub(super) fn by_rows(tensor: &Value) -> Value {
    if tensor.is_none() { tensor.clone() } else { tensor.then("aten::contiguous", [Value::int(0)]) }
}

/// The CPU kernel of the same name, with every result in row-major order.
pub(super) fn twin_by_rows(arguments: Arguments) -> Vec<Value> {
    arguments.on_cpu().iter().map(by_rows).collect()
}

/// `values` in the order of `like`, which has the same sizes.
pub(super) fn ordered_like(values: &Value, like: &Value) -> Value {
    let strides = |tensor: &Value| tensor.tensor().map(|tensor| tensor.sizes_and_strides().1.to_vec());
    let no_options = [Value::NONE, Value::NONE, Value::NONE, Value::NONE];
    let options = std::iter::once(Value::int(values.data_type())).chain(no_options);
    let target = like.then("aten::empty_like", options);
    if strides(&target) == strides(values) {
        return values.clone();
    }
    target.then("aten::copy_", [values.clone(), Value::bool(false)])
}

/// A pointwise operator whose CPU kernel does not preserve the order of its input's dimensions.
pub(super) fn twin_like_input(arguments: Arguments) -> Vec<Value> {
    let input = arguments.get("self");
    arguments.on_cpu().iter().map(|result| ordered_like(result, &input)).collect()
}

/// `_linalg_svd(Tensor A, ...)` -> (U, S, Vh): cuSOLVER returns Vh in row-major order.
pub(super) fn svd(arguments: Arguments) -> Vec<Value> {
    let mut results = arguments.on_cpu();
    if let Some(last) = results.last_mut() {
        *last = by_rows(last);
    }
    results
}

/// `linalg_eig(Tensor self)` -> (eigenvalues, eigenvectors): the vectors in row-major order.
pub(super) fn eig(arguments: Arguments) -> Vec<Value> {
    call("aten::linalg_eig", [arguments.get("self")]).iter().map(by_rows).collect()
}

/// `linalg_eig.out`
pub(super) fn eig_into(arguments: Arguments) -> Vec<Value> {
    let results = call("aten::linalg_eig", [arguments.get("self")]);
    let outs = ["eigenvalues", "eigenvectors"].map(|name| arguments.get(name));
    results.iter().zip(outs).map(|(result, out)| super::into(&out, result)).collect()
}

/// `binary_cross_entropy_backward.grad_input`, whose CPU kernel does not resize its output.
pub(super) fn binary_cross_entropy_backward(arguments: Arguments) -> Vec<Value> {
    let given = ["grad_output", "self", "target", "weight", "reduction"].map(|name| arguments.get(name));
    let result = one("aten::binary_cross_entropy_backward", given);
    vec![super::into(&arguments.get("grad_input"), &result)]
}

/// `_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided)`, in the order produced by cuFFT's batches
/// (aten/src/ATen/native/cuda/SpectralOps.cpp).
pub(super) fn real_to_complex(arguments: Arguments) -> Vec<Value> {
    let (input, dimensions) = (arguments.get("self"), arguments.get("dim").as_ints());
    let Some(result) = arguments.on_cpu().into_iter().next() else { return Vec::new() };
    let Some(strides) = input.tensor().map(|tensor| tensor.sizes_and_strides().1.to_vec()) else { return vec![result] };
    if result.elements() == 0 || dimensions.is_empty() {
        return vec![result];
    }
    let mut order = transformed(&result.sizes(), &strides, &dimensions);
    // More than three dimensions, or the first two of all, are transformed in several steps: the last alone, then the others,
    // those with the greatest strides last.
    if dimensions.len() > MOST_AT_ONCE || dimensions.starts_with(&[0, 1]) {
        if !arguments.get("onesided").as_bool() {
            return vec![by_rows(&result)];
        }
        let last = dimensions.len() - 1;
        order = transformed(&result.sizes(), &strides, &dimensions[last..]);
        let mut rest = dimensions[..last].to_vec();
        while !rest.is_empty() {
            rest.sort_by_key(|place| std::cmp::Reverse(order[*place as usize]));
            let now = rest.split_off(rest.len().saturating_sub(MOST_AT_ONCE));
            order = transformed(&result.sizes(), &order, &now);
        }
    }
    let no_options = [Value::NONE, Value::NONE, Value::NONE];
    let options = [Value::ints(&result.sizes()), Value::ints(&order), Value::int(result.data_type())];
    let target = one("aten::empty_strided", options.into_iter().chain(no_options));
    vec![target.then("aten::copy_", [result, Value::bool(false)])]
}

/// Dimensions that cuFFT transforms in one plan.
const MOST_AT_ONCE: usize = 3;

/// Strides of a transform's result: the batch's dimensions, in the order of the input's strides, then those transformed.
fn transformed(sizes: &[i64], strides: &[i64], dimensions: &[i64]) -> Vec<i64> {
    let mut order: Vec<usize> = (0..sizes.len()).filter(|place| !dimensions.contains(&(*place as i64))).collect();
    order.sort_by_key(|place| std::cmp::Reverse(strides[*place]));
    order.extend(dimensions.iter().map(|place| *place as usize));
    let (mut result, mut stride) = (vec![0; sizes.len()], 1);
    for place in order.into_iter().rev() {
        result[place] = stride;
        stride *= sizes[place];
    }
    result
}

/// `log_sigmoid_forward(Tensor self)` -> (output, buffer): CUDA keeps nothing for the backward pass.
pub(super) fn log_sigmoid(arguments: Arguments) -> Vec<Value> {
    let input = arguments.get("self");
    let output = one("aten::log_sigmoid_forward", [input.clone()]);
    vec![output, super::empty(input.data_type())]
}

/// `log_sigmoid_forward.output`
pub(super) fn log_sigmoid_into(arguments: Arguments) -> Vec<Value> {
    let output = one("aten::log_sigmoid_forward", [arguments.get("self")]);
    let buffer = arguments.get("buffer").then("aten::resize_", [Value::ints(&[0]), Value::NONE]);
    vec![super::into(&arguments.get("output"), &output), buffer]
}

/// `log_sigmoid_backward(Tensor grad_output, Tensor self, Tensor buffer)`
pub(super) fn log_sigmoid_backward(arguments: Arguments) -> Vec<Value> {
    let input = arguments.get("self");
    let kept = call("aten::log_sigmoid_forward", [input.clone()]).pop().unwrap_or(Value::NONE);
    vec![one("aten::log_sigmoid_backward", [arguments.get("grad_output"), input, kept])]
}

/// `log_sigmoid_backward.grad_input`
pub(super) fn log_sigmoid_backward_into(arguments: Arguments) -> Vec<Value> {
    let out = arguments.get("grad_input");
    log_sigmoid_backward(arguments).iter().map(|result| super::into(&out, result)).collect()
}

/// `_embedding_bag` and `_embedding_bag_forward_only` -> (output, offset2bag, bag_size, max_indices)
pub(super) fn embedding_bag(arguments: &Arguments, results: &[Value]) {
    let [output, bag_of, counts, largest] = results else { return };
    let (indices, mut starts) = (arguments.get("indices").integers(), arguments.get("offsets").integers());
    let padding = arguments.get("padding_idx").as_int().unwrap_or(-1);
    let own = arguments.on_cpu();
    let copy = |target: &Value, source: Option<&Value>| {
        if let Some(source) = source.filter(|source| source.sizes() == target.sizes()) {
            target.then("aten::copy_", [source.clone(), Value::bool(false)]);
        }
    };
    copy(output, own.first());
    copy(largest, own.get(3));
    if arguments.get("include_last_offset").as_bool() {
        starts.pop();
    }
    let end = |bag: usize| starts.get(bag + 1).copied().unwrap_or(indices.len() as i64);
    let (mut bags, mut sizes) = (vec![0; indices.len()], vec![0; counts.elements() as usize]);
    for (bag, start) in starts.iter().enumerate() {
        for place in *start..end(bag) {
            let Some(index) = indices.get(place as usize) else { continue };
            bags[place as usize] = bag as i64;
            sizes[bag] += i64::from(*index != padding);
        }
    }
    bag_of.write_integers(&bags);
    counts.write_integers(&sizes);
}

/// `cudnn_affine_grid_generator(Tensor theta, int N, int C, int H, int W)`: corners aligned.
pub(super) fn affine_grid(arguments: Arguments) -> Vec<Value> {
    call("aten::affine_grid_generator", [arguments.get("theta"), sizes_of_grid(&arguments), Value::bool(true)])
}

/// `cudnn_affine_grid_generator_backward`
pub(super) fn affine_grid_backward(arguments: Arguments) -> Vec<Value> {
    let result = call(
        "aten::affine_grid_generator_backward",
        [arguments.get("grad"), sizes_of_grid(&arguments), Value::bool(true)],
    );
    result.iter().map(by_rows).collect()
}

fn sizes_of_grid(arguments: &Arguments) -> Value {
    Value::ints(&["N", "C", "H", "W"].map(|name| arguments.get(name).as_int().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed by hand: the transformed dimensions are innermost, in order; the others keep the input's order.
    #[test]
    fn a_transform_puts_its_dimensions_innermost() {
        // Contiguous, transformed along the last: contiguous.
        assert_eq!(transformed(&[2, 3, 4], &[12, 4, 1], &[2]), [12, 4, 1]);
        // Along the first: 3 and 4 are the batch, so 2 is innermost.
        assert_eq!(transformed(&[2, 3, 4], &[12, 4, 1], &[0]), [1, 8, 2]);
        // Along the last of a transposed batch: the batch stays transposed.
        assert_eq!(transformed(&[2, 3, 4], &[4, 8, 1], &[2]), [4, 8, 1]);
        // Along two, named in reverse.
        assert_eq!(transformed(&[2, 3, 4], &[12, 4, 1], &[2, 1]), [12, 1, 3]);
    }
}
