//! The keys of the suite language, once: the reader knows no other, and the JSON Schema and docs/suites-reference.md are made from here.
//!
//! To add a key: one [`Key`] in its [`Section`] (`keys.rs`, or the file of its name) with what it [`Needs`], its reading
//! (`mapping.get("key")`), a use of it in `WHOLE` or `REST` (the tests of `suite`), and `cargo xtask regen docs`.
//! Tests fail for a key of a table that is never read, a key that is read without a table, and for outdated texts.

pub(crate) mod cluster;
pub(crate) mod expect;
pub(crate) mod fixture;
pub(crate) mod gpu;
pub(crate) mod keys;
pub(crate) mod launch;
pub mod needs;
pub(crate) mod network;
mod reference;
pub(crate) mod relation;
mod schema;
pub(crate) mod when;

pub use needs::Needs;
pub use reference::page as reference_page;
pub use schema::{json_schema, text as schema_text};

/// A mapping with fixed keys.
#[derive(Debug)]
pub struct Section {
    /// One word: the name of its definition in the schema and of its table in the documentation.
    pub name: &'static str,
    /// How messages call it: "a case".
    pub what: &'static str,
    /// One sentence of what it is.
    pub about: &'static str,
    /// Its keys. Sections share groups.
    pub keys: &'static [&'static [Key]],
    /// How its keys depend on each other, for editors. The reader checks the same.
    pub rules: &'static [Rule],
}

/// Most ranks of a launch.
pub(crate) const MAX_RANKS: u32 = 1024;

/// One key of a section.
#[derive(Debug)]
pub struct Key {
    /// As written.
    pub name: &'static str,
    /// What its value is.
    pub shape: Shape,
    /// What happens when it is left out.
    pub unless: Unless,
    /// One sentence of what it does, in Markdown.
    pub about: &'static str,
    /// What a case must have for it to be honored.
    pub needs: Needs,
}

impl Key {
    /// The key, with what it needs.
    const fn needs(self, needs: Needs) -> Key {
        Key { needs, ..self }
    }

    /// The key, which every case honors.
    const fn everywhere(self) -> Key {
        self.needs(Needs::Nothing)
    }
}

/// What happens when a key is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unless {
    /// That is a mistake.
    Required,
    /// Nothing.
    Nothing,
    /// This value, or what this text describes.
    Default(&'static str),
}

/// How keys of a section depend on each other.
#[derive(Debug)]
pub enum Rule {
    /// Exactly one of them is there.
    OneOf(&'static [&'static str]),
    /// At least one of them is there.
    AnyOf(&'static [&'static str]),
    /// The first only with the second.
    With(&'static str, &'static str),
}

/// What a value is. Any but [`Shape::Literal`] may be an expression in `${{ }}`.
#[derive(Debug)]
pub enum Shape {
    /// Text that is not empty.
    Text,
    /// A name: letters, digits, `-`, `_` and `.`.
    Name,
    /// A scalar, taken as the text it is written as.
    Word,
    /// `true` or `false`.
    Bool,
    /// A whole number between both.
    Integer(u32, u32),
    /// A finite number.
    Number,
    /// A number above 0.
    Positive,
    /// A number of at least 0.
    NotNegative,
    /// A number, also `nan` or `inf`.
    AnyNumber,
    /// A number with a unit of time.
    Duration,
    /// A number, or a size with its unit.
    Size,
    /// A number, or a percentage with its sign.
    Bound,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Exactly this whole number.
    Exactly(u32),
    /// Nothing: `~` or `null`.
    Null,
    /// Any value.
    Any,
    /// An RFC 9535 JSONPath.
    Path,
    /// An expression of Rust's regex crate.
    Regex,
    /// An expression without `${{ }}` around it.
    Expression,
    /// That many items or more.
    List(u32, &'static Shape),
    /// Names that the suite chooses, each with such a value.
    Names(&'static Shape),
    /// Fixed keys.
    Section(&'static Section),
    /// One of several.
    Either(&'static [Shape]),
    /// Such a value, in which no expression is replaced.
    Literal(&'static Shape),
}

impl Section {
    /// Its keys in the order of the documentation.
    pub fn keys(&self) -> impl Iterator<Item = &'static Key> + use<> {
        self.keys.iter().flat_map(|group| group.iter())
    }

    /// Whether it may have keys of the user's own, `x-...`, which are ignored.
    pub(crate) fn is_open(&self) -> bool {
        ["suite", "defaults", "case"].contains(&self.name)
    }

    /// The key with this name.
    pub fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys().find(|key| key.name == name)
    }

    /// What the sections directly below it that have this key are called: there it may belong.
    pub(crate) fn homes_of(&self, name: &str) -> Vec<&'static str> {
        let mut inner = std::collections::VecDeque::new();
        self.keys().for_each(|key| below(&key.shape, &mut inner));
        inner.into_iter().filter(|section| section.key(name).is_some()).map(|section| section.what).collect()
    }
}

/// A key that may be left out.
pub(crate) const fn optional(name: &'static str, shape: Shape, about: &'static str) -> Key {
    Key { name, shape, unless: Unless::Nothing, about, needs: Needs::Section }
}

/// A key that must be there.
pub(crate) const fn required(name: &'static str, shape: Shape, about: &'static str) -> Key {
    Key { name, shape, unless: Unless::Required, about, needs: Needs::Section }
}

/// A key with a default.
pub(crate) const fn or(name: &'static str, shape: Shape, default: &'static str, about: &'static str) -> Key {
    Key { name, shape, unless: Unless::Default(default), about, needs: Needs::Section }
}

/// Every section, each once, those above before those below.
pub fn all() -> Vec<&'static Section> {
    let mut found: Vec<&'static Section> = Vec::new();
    let mut next: std::collections::VecDeque<&'static Section> = [&keys::SUITE].into();
    while let Some(section) = next.pop_front() {
        if found.iter().any(|known| known.name == section.name) {
            continue;
        }
        found.push(section);
        section.keys().for_each(|key| below(&key.shape, &mut next));
    }
    found
}

fn below(shape: &'static Shape, next: &mut std::collections::VecDeque<&'static Section>) {
    match shape {
        Shape::Section(section) => next.push_back(section),
        Shape::List(_, inner) | Shape::Names(inner) | Shape::Literal(inner) => below(inner, next),
        Shape::Either(choices) => choices.iter().for_each(|choice| below(choice, next)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let sections = all();
        assert!(sections.len() > 20);
        for section in &sections {
            let mut names: Vec<&str> = section.keys().map(|key| key.name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), section.keys().count(), "a key of `{}` is there twice", section.name);
            for rule in section.rules {
                let named = match rule {
                    Rule::OneOf(keys) | Rule::AnyOf(keys) => keys.to_vec(),
                    Rule::With(key, other) => vec![*key, *other],
                };
                assert!(named.iter().all(|key| section.key(key).is_some()), "{}: {rule:?}", section.name);
            }
        }
    }
}
