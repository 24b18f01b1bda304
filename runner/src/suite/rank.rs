//! Ranks named in a suite, checked against its launch.

use model::node::{Node, Value};

use crate::suite::reader::Reader;

/// A rank, or a list of them.
pub(super) fn read_ranks(reader: &Reader<'_>, node: &Node, world: Option<u32>) -> Vec<u32> {
    let items = if let Value::List(items) = &node.value { items.as_slice() } else { std::slice::from_ref(node) };
    if items.is_empty() {
        reader.mistake(&node.span, "`rank` is empty", "name at least one rank, or leave it out");
    }
    items.iter().filter_map(|item| read_rank(reader, item, world)).collect()
}

/// A global rank of the launch.
pub(super) fn read_rank(reader: &Reader<'_>, node: &Node, world: Option<u32>) -> Option<u32> {
    match world {
        Some(world) => {
            let rank = reader.integer("rank", node, 0, u32::MAX)?;
            if rank >= world {
                let message = format!("unknown rank {rank}: the launch has {world} ranks");
                reader.mistake(&node.span, message, format!("write a rank from 0 to {}", world - 1));
                return None;
            }
            Some(rank)
        }
        None => {
            reader.mistake(&node.span, "this launch has no ranks", "add `ranks: N` to `launch`, or name the launcher");
            None
        }
    }
}
