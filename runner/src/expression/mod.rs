//! Expressions of suites (`${{ ... }}` and `invariants`): one strict environment in which a wrong name is an error, never an
//! empty value.

pub mod compare;
mod compile;
mod context;
pub mod deferred;
mod environment;
mod error;
mod evaluate;
mod explain;
mod limit;
mod print;
mod reach;
pub mod template;

pub(crate) use compile::names;
pub(crate) use context::{Context, Truth};
pub(crate) use error::{ExpressionError, cut};
pub(crate) use evaluate::evaluate;
pub(crate) use explain::{attributes, explain};
pub(crate) use reach::uses;
