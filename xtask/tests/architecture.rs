//! What the readers of the import structure find in small crates made for the purpose.

use std::fs;
use std::path::Path;

use xtask::architecture::{Crate, Stages, Violation, circles};

/// A crate of these files below `src`.
fn read(files: &[(&str, &str)]) -> (tempfile::TempDir, Crate) {
    let directory = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let krate = Crate::read(&directory.path().join("lib.rs")).unwrap();
    (directory, krate)
}

fn edges(krate: &Crate) -> Vec<String> {
    let mut edges: Vec<String> =
        krate.imports().iter().map(|import| format!("{} {}", import.from.display(), import.to.display())).collect();
    edges.dedup();
    edges
}

#[test]
fn imports_are_found_however_they_are_written() {
    let (_directory, krate) = read(&[
        ("lib.rs", "pub mod a; pub mod b; pub mod c; pub mod d; pub mod e;"),
        ("a.rs", "use crate::b::{One, Two as Other};"),
        ("b.rs", "pub struct One; pub struct Two; fn f() { super::c::g() }"),
        ("c.rs", "use crate::d; pub fn g() { d::h(); println!(\"{}\", crate::e::K) }"),
        ("d.rs", "pub fn h() {} mod inner { use super::super::e::K; }"),
        ("e.rs", "pub const K: u8 = 1; #[cfg(test)] mod tests { use crate::a; }"),
    ]);
    assert_eq!(edges(&krate), ["a.rs b.rs", "b.rs c.rs", "c.rs d.rs", "c.rs e.rs", "d.rs e.rs"]);
    assert!(circles(&krate).is_empty());
}

#[test]
fn a_re_export_leads_to_where_the_name_is_defined() {
    let (_directory, krate) = read(&[
        ("lib.rs", "mod a; mod b;"),
        ("a/mod.rs", "mod deep; mod wide; pub use deep::Deep; pub use wide::*;"),
        ("a/deep.rs", "pub struct Deep;"),
        ("a/wide.rs", "pub struct Wide;"),
        ("b.rs", "use crate::a::{Deep, Wide};"),
    ]);
    let edges = edges(&krate);
    assert!(edges.contains(&"b.rs a/deep.rs".to_owned()) && edges.contains(&"b.rs a/wide.rs".to_owned()), "{edges:?}");
}

#[test]
fn a_circle_is_found_and_named() {
    let (_directory, krate) = read(&[
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "use crate::b::B; pub struct A;"),
        ("b.rs", "use crate::c::C; pub struct B;"),
        ("c.rs", "fn f(_: crate::a::A) {} pub struct C;"),
    ]);
    let found = circles(&krate);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].files.len(), found[0].is_of_others), (3, true));
    assert!(found[0].to_string().contains("c.rs uses a.rs (crate::a::A)"), "{}", found[0]);
}

#[test]
fn a_module_and_its_own_children_are_no_circle() {
    let (_directory, krate) = read(&[
        ("lib.rs", "mod a;"),
        ("a.rs", "mod child; use child::Child; pub struct A;"),
        ("a/child.rs", "use super::A; pub struct Child;"),
    ]);
    assert_eq!(edges(&krate).len(), 2);
    assert!(circles(&krate).is_empty());
}

#[test]
fn a_circle_that_a_module_closes_through_its_child_counts() {
    let (_directory, krate) = read(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "mod child; use child::Child; pub struct A;"),
        ("a/child.rs", "use crate::b::B; pub struct Child;"),
        ("b.rs", "use crate::a::A; pub struct B;"),
    ]);
    let found = circles(&krate);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].files.len(), found[0].imports.len()), (3, 3), "{}", found[0]);
    assert!(!found[0].is_of_others);
}

#[test]
fn an_import_against_the_order_of_the_stages_is_a_violation() {
    let page = "text\n```stages runner\nlow   the first\nhigh  the second\n```\n";
    let stages = Stages::of_page(page);
    assert_eq!(stages.len(), 1);
    assert_eq!(stages[0].directory, "runner");
    let (_directory, right) = read(&[
        ("lib.rs", "mod low; mod high;"),
        ("low.rs", "pub struct Low;"),
        ("high/mod.rs", "use crate::low::Low; pub struct High;"),
    ]);
    assert_eq!(stages[0].check(&right), []);
    let (_directory, wrong) = read(&[
        ("lib.rs", "mod low; mod high; mod other;"),
        ("low.rs", "use crate::high::High;"),
        ("high/mod.rs", "pub struct High;"),
        ("other.rs", ""),
    ]);
    let found = stages[0].check(&wrong);
    assert!(
        matches!(&found[..], [Violation::Unlisted(file), Violation::Upward(import)]
            if file == "other.rs" && import.from == Path::new("low.rs")),
        "{found:?}"
    );
    let (_directory, gone) = read(&[("lib.rs", "mod low;"), ("low.rs", "")]);
    assert_eq!(stages[0].check(&gone), [Violation::Empty("high".to_owned())]);
}

#[test]
fn the_rooms_of_a_directory_have_an_order_too() {
    let stages = &Stages::of_page("```stages house/src/hall\nlow   the first\nhigh  the second\n```\n")[0];
    assert_eq!(stages.source(), "house/src");
    let (_directory, right) = read(&[
        ("lib.rs", "mod hall; mod low;"),
        ("low.rs", "use crate::hall::high::High;"),
        ("hall/mod.rs", "mod low; mod high; pub use high::High;"),
        ("hall/low.rs", "pub struct Low;"),
        ("hall/high.rs", "use super::low::Low; pub struct High;"),
    ]);
    assert_eq!(stages.check(&right), [], "a file elsewhere may have the name of a room");
    let (_directory, wrong) = read(&[
        ("lib.rs", "mod hall;"),
        ("hall/mod.rs", "mod low; mod other;"),
        ("hall/low.rs", "use crate::hall::other::Other;"),
        ("hall/other.rs", "pub struct Other;"),
    ]);
    let found = stages.check(&wrong);
    assert_eq!(found, [Violation::Unlisted("hall/other.rs".to_owned()), Violation::Empty("high".to_owned())]);
    let (_directory, upward) = read(&[
        ("lib.rs", "mod hall;"),
        ("hall/mod.rs", "mod low; mod high;"),
        ("hall/low.rs", "use super::high::High;"),
        ("hall/high.rs", "pub struct High;"),
    ]);
    let found = stages.check(&upward);
    assert!(matches!(&found[..], [Violation::Upward(import)] if import.from == Path::new("hall/low.rs")), "{found:?}");
}

#[test]
fn a_missing_file_is_named() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("lib.rs"), "mod gone;").unwrap();
    let error = Crate::read(&directory.path().join("lib.rs")).unwrap_err().to_string();
    assert!(error.contains("gone"), "{error}");
}
