//! How the bridge implements an operator.

use super::value::{Arguments, Value};

/// How an operator is implemented.
#[derive(Clone, Copy, Debug)]
pub(super) enum Method {
    /// The CPU's kernel of the same name computes it.
    Twin,
    /// By others.
    Mapped(fn(Arguments) -> Vec<Value>),
    /// By other operators, which draw random numbers from the generator that is the function's last argument.
    Random(fn(Arguments, Value) -> Vec<Value>),
    /// By PyTorch's own, which lays out the results and launches nothing, and the function, which writes the numbers.
    Filled(fn(&Arguments, &[Value])),
    /// `copy_`: by PyTorch's own as long as that is a copy of bytes.
    Copy,
    /// It is not implemented.
    Gap,
}
