//! Invariants: expressions over report, matrix, cluster and ranks that must be true.

use crate::check::capture::{self, Captures};
use crate::check::{Failure, FailureKind};
use crate::expression::{self, Context, Truth};
use crate::source::SourceLocation;

/// The names that an invariant may use.
pub const NAMES: [&str; 7] = ["report", "devices", "matrix", "cluster", "ranks", "world_size", capture::NAME];

/// One invariant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Invariant {
    /// A name for messages; if absent, the expression itself is shown.
    pub id: Option<String>,
    /// The expression.
    pub that: String,
    /// If it fails, the checks after it are skipped.
    pub fatal: bool,
    /// The reason given in the suite.
    pub because: Option<String>,
    /// Where the suite defines it.
    pub place: SourceLocation,
}

impl Invariant {
    /// The failure if it does not hold in `context`.
    pub fn check(&self, context: &Context, captures: &Captures) -> Option<Failure> {
        let got = match captures.needed([self.that.as_str()]) {
            Err(error) => error,
            Ok(()) => match context.truth(&self.that) {
                Ok(Truth::True) => return None,
                Ok(Truth::False) => self.parts("false", context),
                Ok(Truth::Neither(value)) => self.parts(&format!("{value}, which is neither true nor false"), context),
                Err(error) => self.parts(&error.to_string(), context),
            },
        };
        let name = self.id.as_ref().map(|id| format!("{id}: ")).unwrap_or_default();
        Some(Failure {
            place: Some(self.place.clone()),
            kind: FailureKind::Invariant,
            expected: format!("{name}{}", self.that),
            got,
            next: self.because.clone().unwrap_or_default(),
        })
    }

    /// The result and the value of each part. For a comparison, its own line already shows that it is false.
    fn parts(&self, what: &str, context: &Context) -> String {
        let mut lines = expression::explain(&self.that, context);
        if what != "false" || lines.is_empty() {
            lines.insert(0, what.to_owned());
        }
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(that: &str, context: &Value) -> Option<String> {
        let invariant = Invariant { that: that.to_owned(), ..Invariant::default() };
        invariant.check(&Context::new(context), &Captures::default()).map(|failure| failure.got)
    }

    #[test]
    fn shows_the_values_of_both_sides() {
        let context = json!({"report": {"sent": 12, "received": 16}, "matrix": {"world": 4}});
        assert_eq!(check("report.sent < report.received", &context), None);
        let got = check("matrix.world == 4 and (report.sent == report.received)", &context).unwrap();
        assert_eq!(got, "matrix.world == 4: true\n12 == 16\nreport.sent = 12\nreport.received = 16");
        assert_eq!(check("report.sent >= 13", &context).unwrap(), "12 >= 13\nreport.sent = 12");
        let got = check("report.sent + report.typo == 1", &context).unwrap();
        assert!(got.contains("report.sent = 12\nreport.typo: "), "{got}");
    }

    #[test]
    fn only_true_is_true() {
        let context = json!({"report": {"n": 1}});
        assert!(check("report.n", &context).unwrap().contains("neither"));
        assert!(check("report.typo == 1", &context).is_some());
        assert!(check("report.typo | length == 0", &context).is_some());
        assert!(check("not report.typo", &context).is_some());
    }
}
