//! No two files of these crates import each other, however far around; a module and its own children may, if nothing else is part
//! of the circle. Some crates are not there yet: their number of files in such circles may only fall.

use std::path::Path;

use xtask::architecture::{Crate, circles};

/// By crate: the files in circles that a module closes through its own children.
const CRATES: [(&str, usize); 13] = [
    ("commands", 0),
    ("coordinator", 0),
    ("dataplane", 0),
    ("fixtures", 6),
    ("model", 0),
    ("protocol", 0),
    ("ptx", 0),
    ("real_cuda", 0),
    ("real_nccl", 0),
    ("runner", 69),
    ("shim", 17),
    ("smi", 22),
    ("xtask", 0),
];

#[test]
fn no_files_import_each_other_in_a_circle() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    for (name, most) in CRATES {
        let krate = Crate::read(&repository.join(name).join("src/lib.rs")).unwrap();
        // A reader that sees nothing finds no circle.
        assert!(krate.files().count() >= 8 && krate.imports().len() >= 15, "{name} was not read");
        let circles = circles(&krate);
        // Without the help of a module and its child, none anywhere.
        found.extend(circles.iter().filter(|circle| circle.is_of_others).map(|circle| format!("{name}: {circle}")));
        let files: usize = circles.iter().map(|circle| circle.files.len()).sum();
        if files > most {
            let list: Vec<String> = circles.iter().map(ToString::to_string).collect();
            found.push(format!("{name}: {files} files in circles, {most} are known:\n{}", list.join("\n")));
        }
    }
    assert!(found.is_empty(), "\n{}\nMove what both files need into a file of its own.", found.join("\n"));
}
