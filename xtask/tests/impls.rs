//! The methods of a type of `ptx` stand in one file, but for the exceptions listed here with their reasons. What a type can do is
//! read in one place, and a second type does not get its name.

use std::collections::{BTreeMap, BTreeSet};

use quote::ToTokens;
use syn::{Attribute, GenericArgument, Item, ItemImpl, PathArguments, Type};

use crate::{root, rust_files};

/// Types whose methods stand in several files, and why.
const EXCEPTIONS: [(&str, &str); 6] = [
    ("Decoder", "one file for each section of the PTX ISA"),
    ("Image", "linked in text, compiled in kernel, which is a later stage"),
    ("Kernel", "compiled in kernel, launched in launch, which is a later stage"),
    ("Lowering<B>", "the operations of all bodies, one file for each kind of operation"),
    ("Lowering<FourLanes>", "the operations of four lanes, one file for each kind of operation"),
    ("Parser", "one file for each part of the grammar"),
];

/// A type with its arguments, but without lifetimes: `Lowering<FourLanes>`.
fn name(item: &ItemImpl) -> Option<String> {
    let Type::Path(path) = &*item.self_ty else { return None };
    let last = path.path.segments.last()?;
    let mut types = Vec::new();
    if let PathArguments::AngleBracketed(list) = &last.arguments {
        let list = list.args.iter().filter(|argument| !matches!(argument, GenericArgument::Lifetime(_)));
        types.extend(list.map(|argument| argument.to_token_stream().to_string()));
    }
    Some(if types.is_empty() { last.ident.to_string() } else { format!("{}<{}>", last.ident, types.join(", ")) })
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| attribute.meta.to_token_stream().to_string() == "cfg (test)")
}

/// The types with methods in these items, those of traits aside.
fn types(items: &[Item]) -> BTreeSet<String> {
    let of_item = |item: &Item| match item {
        Item::Impl(item) if item.trait_.is_none() => name(item).into_iter().collect(),
        Item::Mod(module) if !is_test(&module.attrs) => {
            module.content.as_ref().map(|(_, items)| types(items)).unwrap_or_default()
        }
        _ => BTreeSet::new(),
    };
    items.iter().flat_map(of_item).collect()
}

#[test]
fn the_methods_of_a_type_stand_in_one_file() {
    let mut files: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in rust_files().into_iter().filter(|file| file.starts_with("ptx/src/")) {
        let text = std::fs::read_to_string(root().join(&file)).unwrap();
        for name in types(&syn::parse_file(&text).unwrap().items) {
            files.entry(name).or_default().push(file.clone());
        }
    }
    assert!(files.len() > 50, "only {} types were found", files.len());
    let is_exception = |name: &str| EXCEPTIONS.iter().any(|(exception, _)| *exception == name);
    let found: Vec<String> = files
        .iter()
        .filter(|(name, files)| files.len() > 1 && !is_exception(name))
        .map(|(name, files)| format!("{name}: {}", files.join(", ")))
        .collect();
    assert!(
        found.is_empty(),
        "the methods of these types stand in several files, or several types have one name:\n{}\nGather them, make some of them \
         functions or a smaller type of their own, or rename a type.",
        found.join("\n")
    );
    for (name, reason) in EXCEPTIONS {
        assert!(files.get(name).is_some_and(|files| files.len() > 1), "{name} is no exception any more ({reason})");
    }
}

#[test]
fn types_are_told_apart_by_their_arguments() {
    let text = "impl A {} impl<'a> B<'a, C> {} mod inner { impl<T> D<T> {} } impl E for F {} \
                #[cfg(test)] mod tests { impl G {} }";
    assert_eq!(types(&syn::parse_file(text).unwrap().items), ["A", "B<C>", "D<T>"].map(str::to_owned).into());
}
