//! The module tree of a crate and the imports between its files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::{Attribute, Item, UseTree, Visibility};

use super::paths;

/// One file of a crate and what it uses from the others.
#[derive(Debug)]
struct File {
    /// Path from the crate's `src`.
    path: PathBuf,
    /// Names that the file defines at its top level.
    defines: BTreeSet<String>,
    /// Child modules in separate files, by name.
    children: BTreeMap<String, String>,
    /// The names that its `use` items bring in.
    bindings: Vec<Binding>,
    /// Every other path in its code.
    paths: Vec<Vec<String>>,
}

/// One leaf of a `use` item.
#[derive(Clone, Debug)]
struct Binding {
    /// The name that it has in this file; `*` for a glob.
    name: String,
    path: Vec<String>,
    public: bool,
}

/// One file uses another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Import {
    /// The file that uses, from the crate's `src`.
    pub from: PathBuf,
    /// The file that defines what is used.
    pub to: PathBuf,
    /// The path as written, resolved to `crate::...`.
    pub name: String,
}

/// A crate's files and imports.
#[derive(Debug)]
pub struct Crate {
    files: BTreeMap<String, File>,
}

/// A source that could not be read.
#[derive(Debug)]
pub struct ReadError {
    file: PathBuf,
    reason: String,
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.reason)
    }
}

impl std::error::Error for ReadError {}

impl Crate {
    /// Reads the crate whose root module is `root` (`src/lib.rs`), following `mod` declarations. Code under `#[cfg(test)]` is left out.
    ///
    /// # Errors
    /// A file is missing or does not parse.
    pub fn read(root: &Path) -> Result<Crate, ReadError> {
        let source = root.parent().unwrap_or(Path::new(".")).to_owned();
        let mut krate = Crate { files: BTreeMap::new() };
        krate.read_file(&source, root, "crate")?;
        Ok(krate)
    }

    /// The files, from the crate's `src`.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.values().map(|file| file.path.as_path())
    }

    /// Every import between two files of the crate, once per name.
    pub fn imports(&self) -> BTreeSet<Import> {
        let mut imports = BTreeSet::new();
        for (module, file) in &self.files {
            let used = file.bindings.iter().map(|binding| &binding.path).chain(&file.paths);
            for path in used {
                let Some((target, name)) = self.resolve(module, path, 0) else { continue };
                if target != module {
                    let (from, to) = (file.path.clone(), self.files[target].path.clone());
                    imports.insert(Import { from, to, name });
                }
            }
        }
        imports
    }

    /// Whether one of two files is the module that contains the other.
    pub fn related(&self, one: &Path, other: &Path) -> bool {
        let module = |path: &Path| self.files.iter().find(|(_, file)| file.path == path).map(|(module, _)| module);
        let (Some(one), Some(other)) = (module(one), module(other)) else { return false };
        let above = |parent: &str, child: &str| child.strip_prefix(parent).is_some_and(|rest| rest.starts_with("::"));
        above(one, other) || above(other, one)
    }

    fn read_file(&mut self, source: &Path, path: &Path, module: &str) -> Result<(), ReadError> {
        let fail = |reason: String| ReadError { file: path.to_owned(), reason };
        let text = std::fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
        let tree = syn::parse_file(&text).map_err(|error| fail(error.to_string()))?;
        let directory = children_of(path, module);
        let mut file = File {
            path: path.strip_prefix(source).unwrap_or(path).to_owned(),
            defines: BTreeSet::new(),
            children: BTreeMap::new(),
            bindings: Vec::new(),
            paths: Vec::new(),
        };
        read_items(&tree.items, &[], &mut file);
        let children: Vec<String> = file.children.keys().cloned().collect();
        for child in &children {
            let name = format!("{module}::{child}");
            file.children.insert(child.clone(), name.clone());
            let plain = directory.join(format!("{child}.rs"));
            let nested = directory.join(child).join("mod.rs");
            self.read_file(source, if plain.exists() { &plain } else { &nested }, &name)?;
        }
        self.files.insert(module.to_owned(), file);
        Ok(())
    }

    /// The module whose file defines what `path`, written in `module`, names; and the path from the crate's root.
    fn resolve<'a>(&'a self, module: &'a str, path: &[String], depth: usize) -> Option<(&'a str, String)> {
        // A circle of re-exports does not compile; the limit only keeps a mistake here from hanging.
        if depth > 16 {
            return None;
        }
        let (first, rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" => "crate",
            "self" => module,
            "super" => parent(module)?,
            name => {
                let file = &self.files[module];
                if file.children.contains_key(name) {
                    return self.descend(module, path, depth);
                }
                let binding = file.bindings.iter().find(|binding| binding.name == name && binding.path != path)?;
                let whole: Vec<String> = binding.path.iter().chain(rest).cloned().collect();
                return self.resolve(module, &whole, depth + 1);
            }
        };
        let mut rest = rest;
        while let Some((first, others)) = rest.split_first()
            && first == "super"
        {
            at = parent(at)?;
            rest = others;
        }
        self.descend(at, rest, depth)
    }

    fn descend<'a>(&'a self, mut at: &'a str, path: &[String], depth: usize) -> Option<(&'a str, String)> {
        for (index, segment) in path.iter().enumerate() {
            let file = &self.files[at];
            if let Some(child) = file.children.get(segment) {
                at = child;
                continue;
            }
            if segment == "*" || file.defines.contains(segment) {
                break;
            }
            let again = |binding: &Binding, from: &[String]| {
                let whole: Vec<String> = binding.path.iter().chain(from).cloned().collect();
                self.resolve(at, &whole, depth + 1)
            };
            if let Some(named) = file.bindings.iter().find(|binding| binding.name == *segment) {
                return again(named, &path[index + 1..]);
            }
            // A glob passes on everything that its module defines.
            for glob in file.bindings.iter().filter(|binding| binding.name == "*" && binding.public) {
                let module = &glob.path[..glob.path.len() - 1];
                if let Some((target, _)) = self.resolve(at, module, depth + 1)
                    && self.files[target].defines.contains(segment)
                {
                    return Some((target, format!("{target}::{segment}")));
                }
            }
            break;
        }
        let last = path.last().filter(|last| !at.ends_with(&format!("::{last}")));
        Some((at, last.map_or_else(|| at.to_owned(), |last| format!("{at}::{last}"))))
    }
}

/// Where the child modules of the module in `path` are.
fn children_of(path: &Path, module: &str) -> PathBuf {
    let directory = path.parent().unwrap_or(Path::new("."));
    let stem = path.file_stem().unwrap_or_default();
    if module == "crate" || stem == "mod" { directory.to_owned() } else { directory.join(stem) }
}

fn parent(module: &str) -> Option<&str> {
    module.rsplit_once("::").map(|(parent, _)| parent)
}

/// `inside` are the inline modules around the items: their `super` is this file.
fn read_items(items: &[Item], inside: &[String], file: &mut File) {
    for item in items {
        if paths::attributes(item).iter().any(is_test) {
            continue;
        }
        if let Item::Mod(module) = item {
            match &module.content {
                None => {
                    file.children.insert(module.ident.to_string(), String::new());
                }
                Some((_, items)) => {
                    file.defines.insert(module.ident.to_string());
                    let inside: Vec<String> = inside.iter().cloned().chain([module.ident.to_string()]).collect();
                    read_items(items, &inside, file);
                }
            }
        } else if let Item::Use(item) = item {
            let public = !matches!(item.vis, Visibility::Inherited);
            let mut leaves = Vec::new();
            read_use(&item.tree, &mut Vec::new(), &mut leaves);
            for (name, path) in leaves {
                if let Some(path) = from_file(path, inside) {
                    file.bindings.push(Binding { name, path, public });
                }
            }
        } else {
            file.defines.extend(paths::defined(item));
            let found = paths::in_tokens(quote::ToTokens::to_token_stream(item));
            file.paths.extend(found.into_iter().filter_map(|path| from_file(path, inside)));
        }
    }
}

/// A path written in an inline module, as the file around it would write it.
fn from_file(mut path: Vec<String>, inside: &[String]) -> Option<Vec<String>> {
    let mut depth = inside.len();
    while depth > 0 && path.first().is_some_and(|first| first == "super") {
        path.remove(0);
        depth -= 1;
        if depth == 0 {
            path.insert(0, "self".to_owned());
        }
    }
    (depth == inside.len() || depth == 0).then_some(path)
}

fn read_use(tree: &UseTree, prefix: &mut Vec<String>, leaves: &mut Vec<(String, Vec<String>)>) {
    let whole = |prefix: &[String], last: String| prefix.iter().cloned().chain([last]).collect::<Vec<_>>();
    match tree {
        UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            read_use(&path.tree, prefix, leaves);
            prefix.pop();
        }
        UseTree::Name(name) if name.ident == "self" => {
            leaves.push((prefix.last().cloned().unwrap_or_default(), prefix.clone()));
        }
        UseTree::Name(name) => leaves.push((name.ident.to_string(), whole(prefix, name.ident.to_string()))),
        UseTree::Rename(rename) if rename.ident == "self" => leaves.push((rename.rename.to_string(), prefix.clone())),
        UseTree::Rename(rename) => leaves.push((rename.rename.to_string(), whole(prefix, rename.ident.to_string()))),
        UseTree::Glob(_) => leaves.push(("*".to_owned(), whole(prefix, "*".to_owned()))),
        UseTree::Group(group) => group.items.iter().for_each(|tree| read_use(tree, prefix, leaves)),
    }
}

fn is_test(attribute: &Attribute) -> bool {
    let text = quote::ToTokens::to_token_stream(&attribute.meta).to_string();
    attribute.path().is_ident("cfg") && text.contains("test") && !text.contains("not (test")
        || attribute.path().is_ident("test")
}
