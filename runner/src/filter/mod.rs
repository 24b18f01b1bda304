//! Which cases run: a part of the id, or an expression such as `tag(smoke) & world(>=4) & not matrix.dtype = bf16`.

mod compare;
mod error;
mod expression;
mod parser;
pub mod shard;

pub use compare::{Bound, Comparison, Matcher};
pub use error::{FilterError, SYNTAX};
pub use expression::{Filter, exactly, one};
