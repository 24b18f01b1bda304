//! Matrix products whose result is wider than their factors.

use super::{into, to};
use crate::compute::value::{Arguments, Value, call};

/// `mm.dtype`, `bmm.dtype`, `addmm.dtype`, `baddbmm.dtype`: the factors are widened first, which gives the same as
/// accumulating in the result's datatype.
pub(super) fn wider(arguments: Arguments) -> Vec<Value> {
    let wanted = arguments.get("out_dtype").as_int().unwrap_or(super::FLOAT);
    let wide = |name: &str| to(&arguments.get(name), wanted);
    let scalars = || [arguments.get("beta"), arguments.get("alpha")];
    match arguments.operator.name.trim_end_matches("_out") {
        "aten::mm.dtype" => call("aten::mm", [wide("self"), wide("mat2")]),
        "aten::bmm.dtype" => call("aten::bmm", [wide("self"), wide("mat2")]),
        "aten::addmm.dtype" => {
            call("aten::addmm", [wide("self"), wide("mat1"), wide("mat2")].into_iter().chain(scalars()))
        }
        _ => call("aten::baddbmm", [wide("self"), wide("batch1"), wide("batch2")].into_iter().chain(scalars())),
    }
}

/// Their `out=` forms.
pub(super) fn wider_out(arguments: Arguments) -> Vec<Value> {
    let out = arguments.get("out");
    wider(arguments).iter().map(|result| into(&out, result)).collect()
}
