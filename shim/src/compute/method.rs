//! How the bridge does an operator.

use super::value::{Arguments, Value};

/// How an operator is done.
#[derive(Clone, Copy, Debug)]
pub(super) enum Method {
    /// By the CPU's kernel of the same name.
    Twin,
    /// By others.
    Mapped(fn(Arguments) -> Vec<Value>),
    /// By others, which draw random numbers from the generator that is the last argument of the function.
    Random(fn(Arguments, Value) -> Vec<Value>),
    /// By PyTorch's own, which lays out the results and launches nothing, and the function, which writes the numbers.
    Filled(fn(&Arguments, &[Value])),
    /// `copy_`: by PyTorch's own as long as that is a copy of bytes.
    Copy,
    /// Not at all.
    Gap,
}
