//! Operators that need more than the CPU kernel of the same name: those that only CUDA has, put together from others, and
//! those whose CUDA side is chosen above the kernels.

use super::cxx::IValue;
use super::kernel::Method;
use super::operator::Operator;

/// What does a mapped operator: it takes the arguments over (CPU views for CUDA tensors) and gives the results.
pub(super) type Body = unsafe fn(&Operator, Vec<IValue>) -> Vec<IValue>;

const TABLE: &[(&str, Method)] = &[
    ("aten::copy_", Method::Copy),
    // Above the choice between cuDNN and PyTorch's own convolutions, so that the CPU makes its own choice.
    ("aten::convolution", Method::Twin),
    ("aten::_convolution", Method::Twin),
    ("aten::convolution_backward", Method::Twin),
];

/// Names of the operators of the table.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|(name, _)| *name)
}

/// How the table says that an operator is done.
pub(super) fn of(name: &str) -> Option<Method> {
    TABLE.iter().find(|(known, _)| *known == name).map(|(_, method)| *method)
}
