//! Python's strings, copied without Python.

use super::layout::{LENGTH, Layout, STATE};
use super::peek;

/// Maximum length: a longer string is not the name of a file or function.
const LONGEST: usize = 16 * 1024;

/// The text of the `str` at `address`, whose type was checked.
pub(super) fn read(layout: &Layout, address: usize) -> Option<String> {
    let mut head = [0; STATE + 4];
    if !peek::copy(address, &mut head) {
        return None;
    }
    let length = usize::from_ne_bytes(head[LENGTH..LENGTH + 8].try_into().ok()?);
    let state = u32::from_ne_bytes(head[STATE..].try_into().ok()?);
    let State { width, is_compact, is_ascii } = State::from_bits(state);
    if !is_compact || !matches!(width, 1 | 2 | 4) || length > LONGEST {
        return None;
    }
    let mut bytes = vec![0; length * width];
    let data = address + if is_ascii { layout.ascii } else { layout.compact };
    if !peek::copy(data, &mut bytes) {
        return None;
    }
    let number = |piece: &[u8]| piece.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte));
    // Lone surrogates, by which Python keeps bytes that are not UTF-8, are not characters.
    let character = |piece: &[u8]| char::from_u32(number(piece)).unwrap_or(char::REPLACEMENT_CHARACTER);
    Some(bytes.chunks(width).map(character).collect())
}

/// What `PyASCIIObject.state` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    /// Bytes of a character.
    width: usize,
    is_compact: bool,
    is_ascii: bool,
}

impl State {
    /// Its bits are: whether it is interned, three for the bytes of a character, compact, ASCII. The first takes two bits or, in some
    /// releases of 3.14, sixteen. Its number is at most 3, and no string has characters of 0 bytes, so the two cannot be confused.
    fn from_bits(state: u32) -> Self {
        let rest = if state & 0xffff < 4 { state >> 16 } else { state >> 2 };
        Self { width: (rest & 7) as usize, is_compact: rest >> 3 & 1 == 1, is_ascii: rest >> 4 & 1 == 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_the_state_say_the_same() {
        for interned in 0..4 {
            // One byte per character, compact, ASCII; then two bytes, compact.
            for (rest, width, is_ascii) in [(0b1_1001u32, 1, true), (0b0_1010, 2, false)] {
                let expected = State { width, is_compact: true, is_ascii };
                assert_eq!(State::from_bits(rest << 2 | interned), expected);
                assert_eq!(State::from_bits(rest << 16 | interned), expected);
            }
        }
    }
}
