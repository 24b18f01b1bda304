//! Lines of output that something waits for, and the regular expressions that find them.

use model::node::Node;

use crate::suite::language::when;
use crate::suite::rank::read_rank;
use crate::suite::reader::Reader;

/// A line to wait for, and the rank that writes it.
pub(super) fn read_when(
    reader: &Reader<'_>,
    node: &Node,
    world: Option<u32>,
) -> Option<(regex::bytes::Regex, Option<u32>)> {
    let when = reader.section(&when::WHEN, node)?;
    let output = when.required("output", "output: REGEX").and_then(|node| {
        let text = reader.string("output", node)?;
        regex(reader, node, &text)
    });
    let of = when.get("rank").and_then(|node| read_rank(reader, node, world));
    when.finish();
    Some((output?, of))
}

/// A regular expression over bytes in which `^` and `$` match at line ends.
pub(super) fn regex(reader: &Reader<'_>, node: &Node, text: &str) -> Option<regex::bytes::Regex> {
    regex::bytes::RegexBuilder::new(text)
        .multi_line(true)
        .build()
        .map_err(|error| {
            let reason = error.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            reader.mistake(
                &node.span,
                format!("invalid regular expression: {reason}"),
                "its syntax is that of Rust's regex crate",
            );
        })
        .ok()
}
