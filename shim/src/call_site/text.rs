//! Python's strings, copied without Python.

use super::layout::{LENGTH, Layout, STATE};
use super::memory;

/// A longer string is no name of a file or function.
const LONGEST: usize = 16 * 1024;

/// The text of the `str` at `address`, whose type was checked.
pub(super) fn read(layout: &Layout, address: usize) -> Option<String> {
    let mut head = [0; STATE + 4];
    if !memory::copy(address, &mut head) {
        return None;
    }
    let length = usize::from_ne_bytes(head[LENGTH..LENGTH + 8].try_into().ok()?);
    let state = u32::from_ne_bytes(head[STATE..].try_into().ok()?);
    // The bits of `PyASCIIObject.state`: two (interned), three (bytes of a character), compact, ASCII.
    let (width, is_compact, is_ascii) = ((state >> 2 & 7) as usize, state >> 5 & 1 == 1, state >> 6 & 1 == 1);
    if !is_compact || !matches!(width, 1 | 2 | 4) || length > LONGEST {
        return None;
    }
    let mut bytes = vec![0; length * width];
    let data = address + if is_ascii { layout.ascii } else { layout.compact };
    if !memory::copy(data, &mut bytes) {
        return None;
    }
    let number = |piece: &[u8]| piece.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte));
    // Lone surrogates, by which Python keeps bytes that are not UTF-8, are not characters.
    let character = |piece: &[u8]| char::from_u32(number(piece)).unwrap_or(char::REPLACEMENT_CHARACTER);
    Some(bytes.chunks(width).map(character).collect())
}
