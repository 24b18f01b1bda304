//! Compiles the text of an expression, and finds the names that it uses.

use minijinja::Expression;

use super::environment::environment;
use super::error::ExpressionError;
use super::limit;

/// The top-level names that `expression` uses, sorted.
///
/// # Errors
/// Wrong syntax.
pub(crate) fn names(expression: &str) -> Result<Vec<String>, ExpressionError> {
    let compiled = compile(expression)?;
    let mut names: Vec<String> = compiled
        .undeclared_variables(false)
        .into_iter()
        .filter(|name| !environment().globals().any(|(global, _)| global == name))
        .collect();
    names.sort_unstable();
    Ok(names)
}

pub(super) fn compile<'a>(expression: &'a str) -> Result<Expression<'a, 'a>, ExpressionError> {
    limit::check(expression)?;
    Ok(environment().compile_expression(expression)?)
}
