//! JSONPath as users write it, within limits: the parser works by recursion, and retries the content of a filter, so
//! that each filter inside another doubles its time.

pub(crate) mod query;

use serde_json_path::JsonPath;

use query::Query;

/// Maximum nesting of brackets and parentheses.
const DEPTH: usize = 32;
/// Maximum nesting of filters `[?...]`.
const FILTERS: usize = 8;
/// Longest path, bytes.
const LENGTH: usize = 16 << 10;

/// What is wrong with a path.
#[derive(Debug)]
pub(super) struct Wrong {
    /// Where, in bytes of it.
    pub(super) at: Option<usize>,
    /// What.
    pub(super) what: String,
}

/// Reads a path, for evaluation and as names.
///
/// # Errors
/// [`Wrong`].
pub(super) fn parse(text: &str) -> Result<(JsonPath, Query), Wrong> {
    bounded(text).map_err(|what| Wrong { at: None, what })?;
    let query = query::read(text)
        .map_err(|expected| Wrong { at: Some(expected.at), what: format!("expected {}", expected.what) })?;
    let path = JsonPath::parse(text)
        .map_err(|error| Wrong { at: Some(error.position()), what: error.message().to_owned() })?;
    Ok((path, query))
}

fn bounded(text: &str) -> Result<(), String> {
    if text.len() > LENGTH {
        return Err(format!("it has {} bytes; {LENGTH} are the most that is read", text.len()));
    }
    let (mut quote, mut escaped) = (None, false);
    // For each open bracket or parenthesis, whether a filter began in it.
    let mut open: Vec<bool> = Vec::new();
    for character in text.chars() {
        if let Some(end) = quote {
            if character == end && !escaped {
                quote = None;
            }
            escaped = character == '\\' && !escaped;
            continue;
        }
        match character {
            '\'' | '"' => quote = Some(character),
            '[' | '(' => open.push(false),
            ']' | ')' => drop(open.pop()),
            '?' => {
                if let Some(filter) = open.last_mut() {
                    *filter = true;
                }
            }
            _ => {}
        }
        if open.len() > DEPTH {
            return Err(format!("more than {DEPTH} nested brackets and parentheses"));
        }
        if open.iter().filter(|filter| **filter).count() > FILTERS {
            return Err(format!("more than {FILTERS} nested filters"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_paths_are_refused_and_others_are_read() {
        let refused = [
            format!("${}", "[".repeat(5_000)),
            format!("${}{}", "[?@".repeat(50), "]".repeat(50)),
            format!("$[?{}@.a{}]", "(".repeat(5_000), ")".repeat(5_000)),
            format!("$[?{}@{} > 1]", "length(".repeat(5_000), ")".repeat(5_000)),
            format!("$['x'{}{}", "[?@".repeat(9), "]".repeat(9)),
            format!("$.{}", "a".repeat(20_000)),
        ];
        for path in refused {
            let error = parse(&path).unwrap_err().what;
            assert!(error.contains("nested") || error.contains("the most that is read"), "{error}");
        }
        for path in [
            format!("${}{}", "[?@".repeat(8), "]".repeat(8)),
            format!("$[?@.a == '{}']", "[?(".repeat(100)),
            format!("$[?@.a == \"\\\"{}\"]", "[?(".repeat(100)),
            format!("${}", "[?@.a]".repeat(100)),
            format!("$[?{}]", vec!["(@.a)"; 500].join(" && ")),
        ] {
            assert!(parse(&path).is_ok(), "{path}");
        }
        assert_eq!(parse("$.a[").unwrap_err().at, Some(4));
        let unknown = parse("$[?foo(@.a)]").unwrap_err();
        assert!(unknown.what.contains("'foo' is not defined"), "{unknown:?}");
    }
}
