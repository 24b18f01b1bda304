//! Numbers: the types of PTX, and exact arithmetic in every format.

mod arithmetic;
mod conversion;
mod exact;
mod format;
mod scalar;

pub(crate) use arithmetic::arithmetic;
pub(crate) use conversion::convert;
pub(crate) use format::*;
pub(crate) use scalar::{Scalar, truncate};
