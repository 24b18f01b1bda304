//! How deeply an expression may nest, checked before it is parsed: minijinja compiles, prints and drops its trees by
//! recursion, and each operator of `1 + 1 + ...` is one level of the tree.

use minijinja::machinery::{Token, tokenize};

use super::ExpressionError;

/// Maximum nesting of operators, calls and brackets.
const DEPTH: usize = 200;

/// Checks that `expression` nests shallowly enough to be parsed. Text that is not an expression is left to the parser.
///
/// # Errors
/// It nests too deeply.
pub(super) fn check(expression: &str) -> Result<(), ExpressionError> {
    // One entry per open bracket: the number of operators so far in the current item. Items of a list are next to each
    // other, not nested.
    let (mut levels, mut depth) = (vec![0], 0);
    for (token, _) in tokenize(expression, true, Default::default()).map_while(Result::ok) {
        let outermost = levels.len() == 1;
        let innermost = levels.last_mut();
        match token {
            Token::Comma => depth -= innermost.map_or(0, std::mem::take),
            Token::BracketClose | Token::ParenClose | Token::BraceClose if !outermost => {
                depth -= levels.pop().unwrap_or_default();
            }
            token if nests(&token) => {
                depth += 1;
                if let Some(count) = innermost {
                    *count += 1;
                }
                if matches!(token, Token::BracketOpen | Token::ParenOpen | Token::BraceOpen) {
                    levels.push(0);
                }
            }
            _ => {}
        }
        if depth > DEPTH {
            let wrong = format!("more than {DEPTH} nested operators, calls and brackets; split it");
            return Err(ExpressionError(wrong));
        }
    }
    Ok(())
}

/// Whether a token begins a part that has parts itself.
fn nests(token: &Token<'_>) -> bool {
    match token {
        Token::Ident(word) => ["and", "or", "not", "in", "is", "if", "else"].contains(word),
        Token::Comma
        | Token::Colon
        | Token::BracketClose
        | Token::ParenClose
        | Token::BraceClose
        | Token::Str(_)
        | Token::String(_)
        | Token::Int(_)
        | Token::Int128(_)
        | Token::Float(_) => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::expression::{Context, attributes, evaluate, explain, names};

    #[test]
    fn every_way_to_nest_is_limited() {
        let context = json!({"report": {"a": 1}});
        for part in [
            "1+",
            "1-",
            "1*",
            "1//",
            "1**",
            "1%",
            "1~",
            "1 and ",
            "1 or ",
            "1<",
            "1 == ",
            "1 in ",
            "not ",
            "-",
            "(",
            "[",
            "{1:",
            "1 if 1 else ",
            "f(",
        ] {
            let text = format!("{}1", part.repeat(20_000));
            assert!(evaluate(&text, &context).unwrap_err().to_string().contains("nested"), "{part}");
            assert!(names(&text).is_err() && attributes(&text, "report").is_none(), "{part}");
            assert_eq!(explain(&text, &Context::new(&context)), [""; 0], "{part}");
        }
        for part in [".a", "[0]", "|abs", "()", " is odd", "[1:]"] {
            let text = format!("report{}", part.repeat(20_000));
            assert!(evaluate(&text, &context).unwrap_err().to_string().contains("nested"), "{part}");
        }
    }

    /// An expression within the limit must not overflow the stack either, here that of a test's thread.
    #[test]
    fn what_is_allowed_can_be_evaluated_and_explained() {
        let context = json!({"report": {"a": 1}});
        for part in ["1+", "0 or ", "1 and ", "1~", "not ", "1<", "1**", "-"] {
            let text = format!("{}1", part.repeat(DEPTH));
            let _ = evaluate(&text, &context);
            let _ = explain(&text, &Context::new(&context));
        }
        for part in [".a", "|abs", "()", "[0]"] {
            let text = format!("report{}", part.repeat(DEPTH - 1));
            let _ = evaluate(&text, &context);
            let _ = explain(&text, &Context::new(&context));
        }
    }

    #[test]
    fn a_long_list_is_not_deep() {
        let list = format!("[{}]", vec!["-1.5 + report.a"; 5_000].join(", "));
        assert_eq!(evaluate(&format!("{list} | length"), &json!({"report": {"a": 1}})), Ok(json!(5_000)));
    }
}
