//! JSONPath as users write it, within limits: the parser works by recursion, and retries the content of a filter, so
//! that each filter inside another doubles its time.

use serde_json_path::JsonPath;

/// Maximum nesting of brackets and parentheses.
const DEPTH: usize = 32;
/// Maximum nesting of filters `[?...]`.
const FILTERS: usize = 8;
/// Longest path, bytes.
const LENGTH: usize = 16 << 10;

/// Reads a path.
///
/// # Errors
/// A message about what is wrong with it.
pub(super) fn parse(text: &str) -> Result<JsonPath, String> {
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
    JsonPath::parse(text).map_err(|error| error.to_string())
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
            let error = parse(&path).unwrap_err();
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
        assert!(parse("$.a[").unwrap_err().contains("position"));
    }
}
