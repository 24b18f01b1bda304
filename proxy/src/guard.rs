//! The outer edge of every C function: no panic leaves it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::trouble;

/// Runs the body of `name`; a panic in it is `ncclInternalError`.
pub(crate) fn guard(name: &str, body: impl FnOnce() -> Result<u32, u32>) -> u32 {
    catch_unwind(AssertUnwindSafe(body)).map_or_else(
        |_| trouble::refuse(trouble::INTERNAL, &format!("{name}: a mistake in fakegpu")),
        |result| result.unwrap_or_else(|code| code),
    )
}
