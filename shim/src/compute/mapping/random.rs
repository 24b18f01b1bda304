//! Dropout as CUDA fuses it.

use super::{mul, scale};
use crate::compute::value::{Arguments, Value, one};

/// 1 with probability `keep`, else 0, in the shape of `like` and the datatype `data_type`.
pub(super) fn kept(like: &Value, keep: f64, generator: Value, data_type: i64) -> Value {
    let options = [Value::int(data_type), Value::NONE, Value::NONE, Value::NONE, Value::NONE];
    let mask = like.then("aten::empty_like", options);
    mask.then("aten::bernoulli_.float", [Value::double(keep), generator])
}

/// `c10::ScalarType::Bool`, `Byte`
pub(super) const BOOL: i64 = 11;
const BYTE: i64 = 0;

/// `native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)`
pub(super) fn dropout(arguments: Arguments, generator: Value) -> Vec<Value> {
    let (input, train) = (arguments.get("input"), arguments.get("train"));
    let drop = arguments.get("p").as_double().unwrap_or(0.0);
    if input.elements() == 0 || (!train.is_none() && !train.as_bool()) {
        let options = [Value::int(BOOL), Value::NONE, Value::NONE, Value::NONE, Value::NONE];
        return vec![input.then("aten::clone", [Value::NONE]), input.then("aten::ones_like", options)];
    }
    // The mask is drawn in the input's datatype, as the CPU's dropout does, so that both drop the same elements.
    let mask = kept(&input, 1.0 - drop, generator, input.data_type());
    let factor = if drop == 1.0 { 0.0 } else { 1.0 / (1.0 - drop) };
    let result = mul(&input, &scale(&mask, factor));
    vec![result, super::to(&mask, BOOL)]
}

/// `_fused_dropout(Tensor self, float p, Generator? generator=None) -> (Tensor, Tensor)`; `p` is the fraction kept.
pub(super) fn fused_dropout(arguments: Arguments, generator: Value) -> Vec<Value> {
    let (input, keep) = (arguments.get("self"), arguments.get("p").as_double().unwrap_or(1.0));
    let mask = kept(&input, keep, generator, input.data_type());
    vec![mul(&input, &scale(&mask, 1.0 / keep)), super::to(&mask, BYTE)]
}

/// `_masked_scale(Tensor self, Tensor mask, float scale) -> Tensor`
pub(super) fn masked_scale(arguments: Arguments) -> Vec<Value> {
    let input = arguments.get("self");
    let factor = arguments.get("scale").as_double().unwrap_or(1.0);
    let mask = super::to(&arguments.get("mask"), input.data_type());
    vec![one("aten::mul.Tensor", [input, scale(&mask, factor)])]
}
