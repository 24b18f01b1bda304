//! The repository's crates in the order that ARCHITECTURE.md lists.

use std::path::Path;

use xtask::architecture::{Crate, Stages};

#[test]
fn every_stage_uses_only_those_listed_before_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let lists = Stages::of_page(&page);
    assert!(
        lists.iter().any(|stages| stages.directory == "runner/src"),
        "ARCHITECTURE.md lists no stages of the runner"
    );
    let mut violations = Vec::new();
    for stages in lists {
        let krate = Crate::read(&root.join(&stages.directory).join("lib.rs")).unwrap();
        violations.extend(stages.check(&krate).iter().map(|violation| format!("{}: {violation}", stages.directory)));
    }
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}
