//! No two files of these crates import each other, however far around; a module and its own children may.

use std::path::Path;

use xtask::architecture::{Crate, circles};

/// The crates that must be free of import circles.
const CRATES: [&str; 12] = [
    "coordinator",
    "dataplane",
    "fixtures",
    "hybrid",
    "model",
    "protocol",
    "proxy",
    "ptx",
    "runner",
    "shim",
    "smi",
    "xtask",
];

#[test]
fn no_files_import_each_other_in_a_circle() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    for name in CRATES {
        let krate = Crate::read(&repository.join(name).join("src/lib.rs")).unwrap();
        // A reader that sees nothing finds no circle.
        assert!(krate.files().count() >= 8 && krate.imports().len() >= 15, "{name} was not read");
        found.extend(circles(&krate).iter().map(|circle| format!("{name}: {circle}")));
    }
    assert!(found.is_empty(), "\n{}\nMove what both files need into a file of its own.", found.join("\n"));
}
