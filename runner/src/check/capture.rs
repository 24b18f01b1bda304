//! Captures: text matched by named groups of output checks, for use in report checks, performance checks and
//! invariants.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::check::output::{OutputCheck, OutputWant};
use crate::check::stream::Text;
use crate::expression;
use crate::expression::template;
use crate::observation::Observation;

/// The name under which expressions find them.
pub const NAME: &str = "captures";

/// Captured values by name, or the reason there is none, phrased to follow the name in a message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Captures {
    values: BTreeMap<String, Result<Value, String>>,
}

/// An expression over `captures`, known only once the processes have ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Later {
    /// Its source, with its `${{ }}`.
    pub text: String,
    /// Other names that it may use.
    pub context: Arc<Value>,
}

/// A value of a check: a literal, or computed from captures.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// Written down.
    Value(Value),
    /// Worked out.
    Later(Later),
}

impl From<Value> for Operand {
    fn from(value: Value) -> Operand {
        Operand::Value(value)
    }
}

impl Operand {
    /// Its value.
    ///
    /// # Errors
    /// A capture that never matched, or a wrong expression, in words.
    pub fn value(&self, captures: &Captures) -> Result<Value, String> {
        match self {
            Operand::Value(value) => Ok(value.clone()),
            Operand::Later(later) => later.value(captures),
        }
    }
}

impl Later {
    /// Its value.
    ///
    /// # Errors
    /// A capture that never matched, or a wrong expression, in words.
    pub fn value(&self, captures: &Captures) -> Result<Value, String> {
        captures.needed(template::expressions(&self.text))?;
        let mut context = Value::clone(&self.context);
        context[NAME] = captures.value();
        template::value(&self.text, &context)
    }
}

impl Captures {
    /// What `checks` captured.
    pub fn collect(checks: &[OutputCheck], observation: &Observation) -> Captures {
        let mut captures = Captures::default();
        for check in checks {
            let OutputWant::Matches(regex) = &check.want else { continue };
            for name in &check.capture {
                let of_one = |text: &Text<'_>| {
                    let found = text.first_captures(regex)?;
                    Some(parsed(&String::from_utf8_lossy(found.name(name)?.as_bytes())))
                };
                captures.values.insert(name.clone(), check.captured(observation, of_one));
            }
        }
        captures
    }

    /// The captures that matched, as expressions see them.
    pub fn value(&self) -> Value {
        let matched = self.values.iter().filter_map(|(name, value)| Some((name.clone(), value.clone().ok()?)));
        Value::Object(matched.collect::<Map<String, Value>>())
    }

    /// Whether every capture that `expressions` use has matched.
    ///
    /// # Errors
    /// The first that never matched, in words.
    pub fn needed<'a>(&self, expressions: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
        for expression in expressions {
            for name in expression::attributes(expression, NAME).unwrap_or_default() {
                if let Some(Err(why)) = self.values.get(&name) {
                    return Err(format!("the capture `{name}` {why}"));
                }
            }
        }
        Ok(())
    }
}

/// A number if the text is one; otherwise the text.
fn parsed(text: &str) -> Value {
    if let Ok(number) = text.parse::<i64>() {
        return json!(number);
    }
    if let Ok(number) = text.parse::<u64>() {
        return json!(number);
    }
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => json!(number),
        _ => json!(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_numbers() {
        for (text, expected) in [
            ("12", json!(12)),
            ("-3", json!(-3)),
            ("18446744073709551615", json!(u64::MAX)),
            ("0.25", json!(0.25)),
            ("1e-3", json!(1e-3)),
            ("nan", json!("nan")),
            ("-inf", json!("-inf")),
            ("12ms", json!("12ms")),
            ("", json!("")),
        ] {
            assert_eq!(parsed(text), expected, "{text}");
        }
    }
}
