//! Filters of the command line.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use runner::case::Case;
use runner::filter::{self, Filter};
use runner::suite;

static CASE: LazyLock<Arc<Case>> = LazyLock::new(|| {
    let text = "ftest: 1\nsuite: s\ncases: [{id: two, tags: [x], launch: {argv: [x], ranks: 4}}]\n";
    let suite = suite::parse(Path::new("s.yaml"), text, Path::new("/nonexistent"));
    suite.unwrap_or_else(|error| panic!("{error}")).cases.remove(0)
});

/// Any text is a filter, which accepts a case or not, or is refused on a page that can be read. A filter made for a name
/// means it.
pub fn filter(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Filter::parse(text) {
        Ok(filter) => {
            let accepted = filter.accepts(&CASE);
            assert_eq!(filter.settled(&|_| false).accepts(&CASE), accepted);
        }
        Err(error) => assert!(error.to_string().len() < 4096, "a page of {} bytes", error.to_string().len()),
    }
    let line: String = text.chars().filter(|character| !character.is_control()).take(100).collect();
    if !line.is_empty() {
        assert!(Filter::parse(&filter::exactly(&line)).is_ok(), "{line}");
    }
}
