//! The repository's crates in the order that ARCHITECTURE.md lists.

use std::path::Path;

use syn::Item;
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
        let krate = Crate::read(&root.join(stages.source()).join("lib.rs")).unwrap();
        violations.extend(stages.check(&krate).iter().map(|violation| format!("{}: {violation}", stages.directory)));
    }
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

/// What `text`, the `mod.rs` of a stage, holds beside `mod` lines and `use`, in words; none where that is all.
fn more_than_declarations(text: &str) -> Option<String> {
    let tree = syn::parse_file(text).unwrap();
    let declares = |item: &Item| match item {
        Item::Use(_) => true,
        Item::Mod(module) => module.content.is_none(),
        _ => false,
    };
    let others: Vec<&Item> = tree.items.iter().filter(|item| !declares(item)).collect();
    let name = |item: &&Item| match item {
        Item::Const(item) => item.ident.to_string(),
        Item::Enum(item) => item.ident.to_string(),
        Item::Fn(item) => item.sig.ident.to_string(),
        Item::Mod(item) => format!("mod {}", item.ident),
        Item::Static(item) => item.ident.to_string(),
        Item::Struct(item) => item.ident.to_string(),
        Item::Trait(item) => item.ident.to_string(),
        Item::Type(item) => item.ident.to_string(),
        Item::Impl(_) => "an impl".to_owned(),
        _ => "another item".to_owned(),
    };
    let names: Vec<String> = others.iter().map(name).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

#[test]
fn the_mod_rs_of_a_stage_only_declares_and_re_exports() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let lists = Stages::of_page(&page);
    let held = ["runner/src", "shim/src/device"];
    let stages = lists.iter().filter(|stages| held.contains(&stages.directory.as_str()));
    let mut read = 0;
    let mut wrong = Vec::new();
    for (directory, stage) in stages.flat_map(|list| list.names().map(|stage| (&list.directory, stage))) {
        // A stage of one file has none.
        let path = format!("{directory}/{stage}/mod.rs");
        let Ok(text) = std::fs::read_to_string(root.join(&path)) else { continue };
        read += 1;
        if let Some(items) = more_than_declarations(&text) {
            wrong.push(format!(
                "{path}: move {items} into files of the stage named by what they hold, and re-export them"
            ));
        }
    }
    assert!(read >= 16, "only {read} stages were read");
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn what_a_mod_rs_holds_beside_declarations_is_named() {
    let plain = "//! A stage.\n#[macro_use]\npub mod a;\nmod b;\npub(crate) use b::B;\n";
    assert_eq!(more_than_declarations(plain), None);
    let text = format!("{plain}pub struct S;\nimpl S {{}}\nfn f() {{}}\n#[cfg(test)]\nmod tests {{}}\n");
    assert_eq!(more_than_declarations(&text).as_deref(), Some("S, an impl, f, mod tests"));
}
