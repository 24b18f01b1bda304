//! Values that must not reach a terminal, a log, a report or a kept file: those of variables whose names end in `_TOKEN`,
//! `KEY`, `SECRET` or `PASSWORD`, in ftest's environment, in a case's `env`, or among what a fixture provides.

use std::sync::Arc;

use parking_lot::RwLock;
use regex::Regex;

/// Replaces a secret.
pub(crate) const MASK: &str = "***";
/// Endings of names, in capitals.
const NAMES: [&str; 4] = ["_TOKEN", "KEY", "SECRET", "PASSWORD"];
/// A shorter value would occur in too many harmless words.
const SHORTEST: usize = 6;

/// The values to look for. Clones share them: a value that one learns is known to all.
#[derive(Clone, Debug, Default)]
pub struct Secrets(Arc<RwLock<Known>>);

#[derive(Debug, Default)]
struct Known {
    /// Longest first, because one may be the beginning of another.
    values: Vec<String>,
    pattern: Option<Regex>,
    /// The same for bytes that are not text.
    bytes: Option<regex::bytes::Regex>,
}

impl Secrets {
    /// The secrets in this process's environment.
    pub fn of_environment() -> Secrets {
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        Secrets::from_variables(std::env::vars_os().map(|(name, value)| (text(name), text(value))))
    }

    /// The secrets among these variables.
    pub fn from_variables(variables: impl IntoIterator<Item = (String, String)>) -> Secrets {
        let secrets = Secrets::default();
        secrets.learn(variables);
        secrets
    }

    /// From now on, also looks for the secrets among these variables.
    pub fn learn(&self, variables: impl IntoIterator<Item = (String, String)>) {
        let secret = |(name, value): &(String, String)| {
            let name = name.to_ascii_uppercase();
            value.len() >= SHORTEST && NAMES.iter().any(|ending| name.ends_with(ending))
        };
        let values: Vec<String> = variables.into_iter().filter(secret).map(|(_, value)| value).collect();
        let mut known = self.0.write();
        let before = known.values.len();
        for value in values {
            if !known.values.contains(&value) {
                known.values.push(value);
            }
        }
        if known.values.len() > before {
            known.values.sort_by_key(|value| std::cmp::Reverse(value.len()));
            let pattern = known.values.iter().map(|value| regex::escape(value)).collect::<Vec<_>>().join("|");
            known.pattern = Regex::new(&pattern).ok();
            known.bytes = regex::bytes::Regex::new(&pattern).ok();
        }
    }

    /// `bytes` with the secrets masked; `None` if there were none.
    pub fn mask_bytes(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let known = self.0.read();
        let values = known.bytes.as_ref().filter(|values| values.is_match(bytes))?;
        Some(values.replace_all(bytes, MASK.as_bytes()).into_owned())
    }

    /// Whether there is nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.0.read().values.is_empty()
    }

    /// A pattern that matches them in a text. `None`: there are none; `Some(None)`: no pattern could be built from
    /// them.
    pub(crate) fn pattern(&self) -> Option<Option<Regex>> {
        let known = self.0.read();
        (!known.values.is_empty()).then(|| known.pattern.clone())
    }
}
