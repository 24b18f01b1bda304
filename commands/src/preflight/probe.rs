//! Values of one variable that a preflight tries to see how memory grows.

use std::ffi::{OsStr, OsString};

/// A value that is tried.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Probe {
    /// The variable.
    pub(super) name: String,
    /// As it was written.
    pub(super) value: String,
    /// As a number.
    pub(super) number: f64,
}

impl Probe {
    fn parse(text: &str) -> Result<Probe, String> {
        let wrong = || format!("--probe {text}: write NAME=NUMBER, such as BATCH=8");
        let (name, value) = text.split_once('=').ok_or_else(wrong)?;
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let number =
            value.parse().ok().filter(|number: &f64| number.is_finite()).filter(|_| is_name).ok_or_else(wrong)?;
        Ok(Probe { name: name.to_owned(), value: value.to_owned(), number })
    }

    /// Reads the options.
    ///
    /// # Errors
    /// A text that does not give a number for a variable, or names a different variable than the first.
    pub(super) fn all(texts: &[String]) -> Result<Vec<Probe>, String> {
        let probes = texts.iter().map(|text| Probe::parse(text)).collect::<Result<Vec<_>, _>>()?;
        match probes.iter().find(|probe| probe.name != probes[0].name) {
            Some(other) => Err(format!(
                "--probe {}={}: the other probes are of {}; probe one variable at a time",
                other.name, other.value, probes[0].name
            )),
            None => Ok(probes),
        }
    }

    /// As on the command line.
    pub(super) fn words(&self) -> String {
        format!("{}={}", self.name, self.value)
    }

    /// `word` with the name in braces replaced by the value.
    pub(super) fn put_into(&self, word: &OsStr) -> OsString {
        match word.to_str() {
            Some(text) => text.replace(&format!("{{{}}}", self.name), &self.value).into(),
            None => word.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_by_table() {
        let parse = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
            Probe::all(&texts)
        };
        let probes = parse(&["BATCH=8", "BATCH=16"]).unwrap();
        assert_eq!((probes[1].number, probes[1].words()), (16.0, "BATCH=16".to_owned()));
        assert_eq!(probes[1].put_into(OsStr::new("--batch={BATCH}")), "--batch=16");
        assert_eq!(probes[1].put_into(OsStr::new("$BATCH {BATCHES}")), "$BATCH {BATCHES}");
        for (texts, says) in [
            (&["BATCH"][..], "write NAME=NUMBER"),
            (&["BATCH=eight"], "write NAME=NUMBER"),
            (&["--batch=8"], "write NAME=NUMBER"),
            (&["=8"], "write NAME=NUMBER"),
            (&["BATCH=inf"], "write NAME=NUMBER"),
            (&["BATCH=8", "LENGTH=9"], "one variable at a time"),
        ] {
            assert!(parse(texts).unwrap_err().contains(says), "{texts:?}");
        }
    }
}
