//! What the kernels assert of their arguments, each as a function from CPU tensors to the first one that is out of range.

use super::Violation;
use crate::compute::mapping::to;
use crate::compute::value::{Arguments, Value, one};

/// `c10::ScalarType`
const DOUBLE: i64 = 7;
const LONG: i64 = 4;
const BOOL: i64 = 11;
const BYTE: i64 = 0;
/// Up to as many indices, PyTorch's kernels for rows take the variant for few.
const FEW: i64 = 16;
/// `at::Reduction::None`
const NO_REDUCTION: i64 = 0;

/// The elements, in order.
fn numbers(tensor: &Value) -> Vec<i64> {
    let flat = to(tensor, LONG).then("aten::reshape", [Value::ints(&[-1])]);
    let flat = flat.then("aten::contiguous", [Value::int(0)]);
    flat.words().into_iter().map(|word| word as i64).collect()
}

/// The elements, in order, as numbers with a fraction.
fn fractions(tensor: &Value) -> Vec<f64> {
    let flat = to(tensor, DOUBLE).then("aten::reshape", [Value::ints(&[-1])]);
    let bits = flat.then("aten::contiguous", [Value::int(0)]).then("aten::view.dtype", [Value::int(LONG)]);
    bits.words().into_iter().map(f64::from_bits).collect()
}

/// An element of `index` that is not in `low..size`, and `index` with all elements inside.
fn outside(index: &Value, low: i64, size: i64) -> Option<(String, Value)> {
    let (place, number) = numbers(index).into_iter().enumerate().find(|(_, number)| !(low..size).contains(number))?;
    // With no element to take, nothing would be valid.
    let valid = (size > 0).then(|| index.then("aten::clamp", [Value::int(0), Value::int(size - 1)]))?;
    Some((format!("{number} (element {place})"), valid))
}

/// The sizes of a tensor, of which a scalar has one.
fn sizes(tensor: &Value) -> Vec<i64> {
    let sizes = tensor.sizes();
    if sizes.is_empty() { vec![1] } else { sizes }
}

/// The number of the dimension that `dim` names, and its size.
fn dimension(arguments: &Arguments, tensor: &str) -> Option<(usize, i64)> {
    let sizes = sizes(&arguments.get(tensor));
    let dim = arguments.get("dim").as_int()?;
    let place = usize::try_from(if dim < 0 { dim + sizes.len() as i64 } else { dim }).ok()?;
    Some((place, *sizes.get(place)?))
}

fn few(arguments: &Arguments, argument: &str, few: &'static str, many: &'static str) -> &'static str {
    if arguments.get(argument).elements() <= FEW { few } else { many }
}

/// A violation of `low..size` in dimension `dim`, by the argument `index`.
fn rows(
    arguments: &Arguments,
    low: fn(i64) -> i64,
    (file, kernel, expression): (&'static str, &'static str, &str),
) -> Option<Violation> {
    let (dim, size) = dimension(arguments, "self")?;
    let (which, valid) = outside(&arguments.get("index"), low(size), size)?;
    let what = format!("index {which} is out of range for dimension {dim} with size {size}");
    Some(Violation { file, kernel, expression: expression.to_owned(), what, argument: "index", valid })
}

pub(super) fn index_select(arguments: &Arguments) -> Option<Violation> {
    let kernel = few(arguments, "index", "indexSelectSmallIndex", "indexSelectLargeIndex");
    rows(arguments, |_| 0, ("Indexing.cu", kernel, "srcIndex < srcSelectDimSize"))
}

pub(super) fn index_add(arguments: &Arguments) -> Option<Violation> {
    let kernel = few(arguments, "index", "indexFuncSmallIndex", "indexFuncLargeIndex");
    rows(arguments, |_| 0, ("Indexing.cu", kernel, "dstIndex < dstAddDimSize"))
}

pub(super) fn index_copy(arguments: &Arguments) -> Option<Violation> {
    let expression = "idx >= 0 && idx < self_dim_size && \"index_copy_(): index out of bounds\"";
    rows(arguments, |_| 0, ("IndexKernel.cu", "operator()", expression))
}

pub(super) fn index_fill(arguments: &Arguments) -> Option<Violation> {
    let expression = "idx >= -self_dim_size && idx < self_dim_size && \"index out of bounds\"";
    rows(arguments, |size| -size, ("IndexKernel.cu", "operator()", expression))
}

/// Gather and scatter.
pub(super) fn along_dimension(arguments: &Arguments) -> Option<Violation> {
    let expression = "idx_dim >= 0 && idx_dim < index_size && \"index out of bounds\"";
    rows(arguments, |_| 0, ("ScatterGatherKernel.cu", "operator()", expression))
}

pub(super) fn embedding(arguments: &Arguments) -> Option<Violation> {
    let size = *arguments.get("weight").sizes().first()?;
    let (which, valid) = outside(&arguments.get("indices"), 0, size)?;
    let kernel = few(arguments, "indices", "indexSelectSmallIndex", "indexSelectLargeIndex");
    let what = format!("index {which} is out of range for a table with {size} rows");
    let expression = "srcIndex < srcSelectDimSize".to_owned();
    Some(Violation { file: "Indexing.cu", kernel, expression, what, argument: "indices", valid })
}

/// `take` and `put_`, whose indices count the elements.
pub(super) fn element(arguments: &Arguments) -> Option<Violation> {
    let size = arguments.get("self").elements();
    let (which, valid) = outside(&arguments.get("index"), -size, size)?;
    let what = format!("index {which} is out of range for a tensor with {size} elements");
    let expression = "idx < numel && idx >= -numel && \"cuda_take_put_kernel() index out of bounds\"".to_owned();
    Some(Violation { file: "IndexKernel.cu", kernel: "operator()", expression, what, argument: "index", valid })
}

/// `x[i, j]`
pub(super) fn index(arguments: &Arguments) -> Option<Violation> {
    let sizes = arguments.get("self").sizes();
    let indices = arguments.get("indices");
    let mut dim = 0;
    for (place, index) in indices.members().into_iter().enumerate() {
        // A mask takes as many dimensions as it has, and its ones are inside.
        if !index.is_none() && matches!(index.data_type(), BOOL | BYTE) {
            dim += index.sizes().len();
            continue;
        }
        let size = *sizes.get(dim)?;
        if !index.is_none()
            && let Some((which, valid)) = outside(&index, -size, size)
        {
            let what = format!("index {which} is out of range for dimension {dim} with size {size}");
            let expression = "-sizes[i] <= index && index < sizes[i] && \"index out of bounds\"".to_owned();
            let valid = indices.with_member(place, &valid);
            let (file, kernel) = ("IndexKernel.cu", "operator()");
            return Some(Violation { file, kernel, expression, what, argument: "indices", valid });
        }
        dim += 1;
    }
    None
}

/// The host checks the indices of a sum (`accumulate`), and raises IndexError on a GPU as well.
pub(super) fn index_put(arguments: &Arguments) -> Option<Violation> {
    // A derivative (`unsafe`) is computed for indices that were checked.
    let is_checked = arguments.get("accumulate").as_bool() && !arguments.get("unsafe").as_bool();
    if is_checked { None } else { index(arguments) }
}

fn target(arguments: &Arguments, file: &'static str, kernel: &'static str, expression: &str) -> Option<Violation> {
    let sizes = arguments.get("self").sizes();
    let classes = *sizes.get(usize::from(sizes.len() > 1))?;
    let ignored = arguments.get("ignore_index").as_int();
    let target = arguments.get("target");
    let bad = |(_, class): &(usize, i64)| Some(*class) != ignored && !(0..classes).contains(class);
    let (place, class) = numbers(&target).into_iter().enumerate().find(bad)?;
    let valid = target.then("aten::clamp", [Value::int(0), Value::int(classes - 1)]);
    let what = format!("target {class} (element {place}) is not one of the {classes} classes");
    Some(Violation { file, kernel, expression: expression.to_owned(), what, argument: "target", valid })
}

/// `nll_loss` and `cross_entropy`
pub(super) fn class(arguments: &Arguments) -> Option<Violation> {
    let is_single = arguments.get("self").sizes().len() < 2;
    let (kernel, expression) = if is_single {
        ("nll_loss_forward_reduce_cuda_kernel_1d", "t >= 0 && t < n_classes")
    } else if arguments.get("reduction").as_int() == Some(NO_REDUCTION) {
        ("nll_loss_forward_no_reduce_cuda_kernel", "cur_target >= 0 && cur_target < n_classes")
    } else {
        ("nll_loss_forward_reduce_cuda_kernel_2d", "t >= 0 && t < n_classes")
    };
    target(arguments, "Loss.cu", kernel, expression)
}

/// The same for images.
pub(super) fn class_of_pixel(arguments: &Arguments) -> Option<Violation> {
    let (kernel, expression) = if arguments.get("reduction").as_int() == Some(NO_REDUCTION) {
        ("nll_loss2d_forward_no_reduce_kernel", "cur_target >= 0 && cur_target < n_classes")
    } else {
        ("nll_loss2d_forward_kernel", "t >= 0 && t < n_classes")
    };
    target(arguments, "NLLLoss2d.cu", kernel, expression)
}

/// `multi_margin_loss`
pub(super) fn class_of_margin(arguments: &Arguments) -> Option<Violation> {
    let expression = "target_k >= 0 && target_k < dim && \"target index is out of bounds\"";
    target(arguments, "MultiMarginLoss.cu", "MultiMarginLoss_forward_kernel", expression)
}

/// A tensor like this one, filled with 0 or 1.
fn filled(tensor: &Value, name: &'static str) -> Value {
    let options = [Value::NONE, Value::NONE, Value::NONE, Value::NONE, Value::NONE];
    one(name, std::iter::once(tensor.clone()).chain(options))
}

pub(super) fn probability(arguments: &Arguments) -> Option<Violation> {
    [("self", "input", "input_val"), ("target", "target", "target_val")].into_iter().find_map(
        |(argument, word, name)| {
            let tensor = arguments.get(argument);
            let bad = |(_, number): &(usize, f64)| !(0.0..=1.0).contains(number);
            let (place, number) = fractions(&tensor).into_iter().enumerate().find(bad)?;
            let what = format!("{word} {number} (element {place}) is not between 0 and 1");
            let expression = format!("{name} >= zero && {name} <= one");
            let valid = filled(&tensor, "aten::zeros_like");
            Some(Violation { file: "Loss.cu", kernel: "operator()", expression, what, argument, valid })
        },
    )
}

/// Weights of `multinomial`.
pub(super) fn weights(arguments: &Arguments) -> Option<Violation> {
    let tensor = arguments.get("self");
    let numbers = fractions(&tensor);
    let valid = filled(&tensor, "aten::ones_like");
    let is_one_draw = arguments.get("num_samples").as_int() == Some(1) || !arguments.get("replacement").as_bool();
    let bad = numbers.iter().enumerate().find(|(_, weight)| !weight.is_finite() || **weight < 0.0);
    let (what, once, several) = match bad {
        Some((place, weight)) => {
            let several = match weight {
                weight if weight.is_nan() => "!at::_isnan(val)",
                weight if weight.is_infinite() => "!_isinf(val)",
                _ => "val >= zero",
            };
            let once = "probability tensor contains either `inf`, `nan` or element < 0";
            (format!("weight {weight} (element {place}) is negative or not finite"), once, several)
        }
        None => {
            let row = tensor.sizes().last().copied().filter(|row| *row > 0)?;
            let empty = numbers.chunks(row as usize).position(|row| row.iter().sum::<f64>() <= 0.0)?;
            let once = "invalid multinomial distribution (sum of probabilities <= 0)";
            (format!("the weights of row {empty} are all 0"), once, "sum > accZero")
        }
    };
    let (file, kernel, expression) = match is_one_draw {
        true => ("TensorCompare.cu", "_assert_async_cuda_kernel", once),
        false => ("MultinomialKernel.cu", "sampleMultinomialOnce", several),
    };
    Some(Violation { file, kernel, expression: expression.to_owned(), what, argument: "self", valid })
}

/// `torch._assert_async`
pub(super) fn condition(arguments: &Arguments) -> Option<Violation> {
    let tensor = arguments.get("self");
    if fractions(&tensor) != [0.0] {
        return None;
    }
    let what = "the condition is false".to_owned();
    let expression = "input[0] != 0".to_owned();
    let valid = filled(&tensor, "aten::ones_like");
    let (file, kernel) = ("TensorCompare.cu", "_assert_async_cuda_kernel");
    Some(Violation { file, kernel, expression, what, argument: "self", valid })
}
