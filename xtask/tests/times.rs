//! The time model keeps the errors that docs/time.md states, and the page shows those of today.

use xtask::times;

use crate::root;

/// Targets of the model: median of the absolute error over the rows of all healthy tables, in percent.
const TARGETS: [f64; 4] = [20.0, 20.0, 12.0, 8.0];
/// Where the page's table begins and ends.
const MARKS: [&str; 2] = ["<!-- errors: written by `cargo xtask regen time` -->\n", "<!-- end of errors -->\n"];

#[test]
fn the_model_is_as_right_as_it_says() {
    let table = times::pictures(&root()).unwrap().table;
    let last = table.lines().last().unwrap();
    let errors: Vec<f64> = last.split("**").filter_map(|cell| cell.strip_suffix(" %")?.trim().parse().ok()).collect();
    assert_eq!(errors.len(), TARGETS.len(), "{last}");
    for (error, target) in errors.iter().zip(TARGETS) {
        assert!(*error <= target, "{error} % is above {target} %: {last}");
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
