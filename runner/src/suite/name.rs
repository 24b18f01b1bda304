//! The names of suites, cases and snapshots.

use model::node::Node;

use super::reader::Reader;

/// Whether files, XML and command lines all accept this as a name.
pub fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|character| character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.'))
}

/// A name.
pub(super) fn slug(reader: &Reader<'_>, what: &str, node: &Node) -> Option<String> {
    let text = reader.string(what, node)?;
    if is_name(&text) {
        return Some(text);
    }
    reader.mistake(
        &node.span,
        format!("`{what}: {text}` has characters other than letters, digits, `-`, `_` and `.`"),
        "free text goes into `title` or `description`",
    );
    None
}
