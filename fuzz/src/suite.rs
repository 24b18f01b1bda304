//! The reader of suites.

use std::collections::BTreeSet;
use std::path::Path;

use runner::suite::{self, SuiteError};

/// A suite is read, or refused with a place: never a panic, never two cases of one id, never a mistake without a line.
pub fn suite(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match suite::parse(Path::new("fuzz.yaml"), text, Path::new("/nonexistent")) {
        Ok(suite) => {
            let ids: BTreeSet<String> = suite.cases.iter().map(|case| case.full_id()).collect();
            assert_eq!(ids.len(), suite.cases.len(), "two cases have one id");
            assert!(ids.iter().all(|id| !id.contains(['\n', '\r'])), "an id of several lines: {ids:?}");
        }
        Err(SuiteError::Mistakes(mistakes)) => {
            let shown = mistakes.to_string();
            assert!(mistakes.count() > 0 && shown.contains(":"), "refused without a mistake: {shown}");
            assert!(!mistakes.styled().is_empty());
        }
        Err(SuiteError::Read { error, .. }) => panic!("a text was not read: {error}"),
    }
}
