//! Softmax that widens: CUDA reads float16 and returns float32 in one kernel; the CPU requires one datatype.

use super::{FLOAT, to};
use crate::compute::value::{Arguments, Value, call};

fn name_of(arguments: &Arguments) -> &'static str {
    match arguments.operator.name.as_str() {
        "aten::_softmax" => "aten::_softmax",
        "aten::_log_softmax" => "aten::_log_softmax",
        "aten::_softmax_backward_data" => "aten::_softmax_backward_data",
        _ => "aten::_log_softmax_backward_data",
    }
}

/// `_softmax(Tensor self, int dim, bool half_to_float)`
pub(super) fn forward(arguments: Arguments) -> Vec<Value> {
    let input = arguments.get("self");
    let input = if arguments.get("half_to_float").as_bool() { to(&input, FLOAT) } else { input };
    call(name_of(&arguments), [input, arguments.get("dim"), Value::bool(false)])
}

/// `_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype)`
pub(super) fn backward(arguments: Arguments) -> Vec<Value> {
    let gradient = arguments.get("grad_output");
    let own = gradient.data_type();
    let result = call(name_of(&arguments), [gradient, arguments.get("output"), arguments.get("dim"), Value::int(own)]);
    let wanted = arguments.get("input_dtype").as_int().unwrap_or(own);
    result.iter().map(|gradient| to(gradient, wanted)).collect()
}
