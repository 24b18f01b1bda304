//! The time model keeps the errors that docs/time.md states, and the page shows those of today.

use timing::machine::{self, Transport};
use xtask::times;

use crate::root;

/// Targets of the model: median of the absolute error over the rows of all healthy tables, in percent.
const TARGETS: [f64; 4] = [20.0, 20.0, 12.0, 8.0];
/// Bounds of the same for tables that were left out of the calibration: where a parameter begins to fit tables and not machines.
const LEFT_OUT: [f64; 4] = [25.0, 25.0, 15.0, 8.0];
/// Where the page's table begins and ends.
const MARKS: [&str; 2] = ["<!-- errors: written by `cargo xtask regen time` -->\n", "<!-- end of errors -->\n"];

#[test]
fn the_model_is_as_right_as_it_says() {
    let table = times::pictures(&root()).unwrap().table;
    let lines: Vec<&str> = table.lines().collect();
    for (line, bounds) in lines[lines.len() - 2..].iter().zip([TARGETS, LEFT_OUT]) {
        let errors: Vec<f64> =
            line.split("**").filter_map(|cell| cell.strip_suffix(" %")?.trim().parse().ok()).collect();
        assert_eq!(errors.len(), bounds.len(), "{line}");
        for (error, bound) in errors.iter().zip(bounds) {
            assert!(*error <= bound, "{error} % is above {bound} %: {line}");
        }
    }
}

/// The page and the suite language list what the model has.
#[test]
fn every_machine_and_transport_is_on_the_page_and_in_the_language() {
    let read = |file: &str| std::fs::read_to_string(root().join(file)).unwrap();
    let (page, keys) = (read("docs/time.md"), read("docs/suites-reference.md"));
    let transports = Transport::ALL.iter().map(|transport| transport.name());
    for name in machine::presets().chain(transports) {
        let word = format!("`{name}`");
        assert!(page.contains(&word), "docs/time.md lacks {word}");
        assert!(keys.contains(&word), "the key `machine` of the suite language lacks {word}");
    }
}

#[test]
fn the_page_is_current() {
    let pictures = times::pictures(&root()).unwrap();
    let (page, plot) = (root().join("docs/time.md"), root().join("docs/time.svg"));
    let text = std::fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once(MARKS[0]).expect("the page has its first mark");
    let (_, after) = rest.split_once(MARKS[1]).expect("the page has its second mark");
    let current = format!("{before}{}{}{}{after}", MARKS[0], pictures.table, MARKS[1]);
    if std::env::var_os("FTEST_REGEN").is_some() {
        std::fs::write(&page, &current).unwrap();
        std::fs::write(&plot, &pictures.plot).unwrap();
    }
    let advice = "run `cargo xtask regen time`";
    assert!(std::fs::read_to_string(&page).unwrap() == current, "docs/time.md is stale: {advice}");
    assert!(std::fs::read_to_string(&plot).unwrap_or_default() == pictures.plot, "docs/time.svg is stale: {advice}");
}
