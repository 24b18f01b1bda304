//! Where CPython keeps the data for a traceback, by version. From CPython's headers: `cpython/pystate.h`, `cpython/code.h`,
//! `cpython/frameobject.h` (3.10), `internal/pycore_frame.h`, `cpython/unicodeobject.h`. From 3.13 on, the interpreter itself
//! contains the offsets (`_Py_DebugOffsets`, `internal/pycore_runtime.h`).

use super::peek;

/// How to get from a thread state to its innermost frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Innermost {
    /// The state has it.
    State(usize),
    /// The state has a `_PyCFrame` that has it: the two offsets.
    CFrame(usize, usize),
}

/// Which instruction a frame is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Instruction {
    /// Its number, an `int`.
    Number(usize),
    /// Its address.
    Address(usize),
}

/// Offsets, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) innermost: Innermost,
    /// Offsets in a frame.
    pub(super) previous: usize,
    pub(super) code: usize,
    pub(super) instruction: Instruction,
    /// The owner of a frame, in versions where an interpreter entry frame cannot be recognized otherwise.
    pub(super) owner: Option<usize>,
    /// Offsets in a code object.
    pub(super) filename: usize,
    pub(super) name: usize,
    pub(super) line_table: usize,
    /// The first instruction.
    pub(super) start: usize,
    /// Length of the head of a string: in ASCII, and otherwise.
    pub(super) ascii: usize,
    pub(super) compact: usize,
}

/// Offsets in every object.
pub(super) const TYPE: usize = 8;
/// The owner of an entry of the interpreter (`FRAME_OWNED_BY_CSTACK`).
pub(super) const OWNED_BY_C: u8 = 3;
/// Bits of a reference to an object that are not part of its address (`Py_TAG_BITS` of `internal/pycore_stackref.h`, since 3.14):
/// frames refer to their code through such a reference. In earlier versions, objects are also at multiples of 8.
pub(super) const TAG_BITS: usize = 3;
/// Bytes of an instruction (`_Py_CODEUNIT`).
pub(super) const INSTRUCTION_BYTES: usize = 2;
/// Offsets in a string, in every version.
pub(super) const LENGTH: usize = 16;
pub(super) const STATE: usize = 32;

const PYTHON_3_10: Layout = Layout {
    innermost: Innermost::State(24),
    previous: 24,
    code: 32,
    instruction: Instruction::Number(96),
    owner: None,
    filename: 104,
    name: 112,
    line_table: 120,
    start: 0,
    ascii: 48,
    compact: 72,
};

const PYTHON_3_11: Layout = Layout {
    innermost: Innermost::CFrame(56, 8),
    previous: 48,
    code: 32,
    instruction: Instruction::Address(56),
    owner: None,
    filename: 112,
    name: 128,
    line_table: 136,
    start: 184,
    ascii: 48,
    compact: 72,
};

const PYTHON_3_12: Layout = Layout {
    innermost: Innermost::CFrame(56, 0),
    previous: 8,
    code: 0,
    instruction: Instruction::Address(56),
    owner: Some(70),
    filename: 112,
    name: 128,
    line_table: 136,
    start: 192,
    ascii: 40,
    compact: 56,
};

/// The layout of an interpreter that reports `version` ("3.11.7 (main, ...)") and whose `_PyRuntime` is at `runtime`, 0 if
/// it has none. `None` for an unknown version.
pub(super) fn for_version(version: &str, runtime: usize) -> Option<Layout> {
    let mut parts = version.split('.');
    let (major, minor) = (parts.next()?, parts.next()?);
    match (major, minor) {
        ("3", "10") => Some(PYTHON_3_10),
        ("3", "11") => Some(PYTHON_3_11),
        ("3", "12") => Some(PYTHON_3_12),
        ("3", "13") => from_runtime(runtime, &WORDS_3_13),
        ("3", "14") => from_runtime(runtime, &WORDS_3_14),
        _ => None,
    }
}

/// Words of `_Py_DebugOffsets` by position: where each version keeps each offset.
struct Words {
    /// The upper bytes of `PY_VERSION_HEX`.
    version: u64,
    current_frame: usize,
    previous: usize,
    executable: usize,
    instruction: usize,
    filename: usize,
    qualified_name: usize,
    line_table: usize,
    start: usize,
    kind: usize,
    state: usize,
    length: usize,
    ascii: usize,
}

/// At the same positions in every version.
mod word {
    pub(super) const COOKIE: usize = 0;
    pub(super) const VERSION: usize = 1;
    pub(super) const FREE_THREADED: usize = 2;
}

const WORDS_3_13: Words = Words {
    version: 0x030d,
    current_frame: 23,
    previous: 29,
    executable: 30,
    instruction: 31,
    filename: 35,
    qualified_name: 37,
    line_table: 38,
    start: 43,
    kind: 45,
    state: 68,
    length: 69,
    ascii: 70,
};

/// It has more fields for the interpreter, for frames and for sets.
const WORDS_3_14: Words = Words {
    version: 0x030e,
    current_frame: 26,
    previous: 32,
    executable: 33,
    instruction: 34,
    filename: 40,
    qualified_name: 42,
    line_table: 43,
    start: 48,
    kind: 51,
    state: 78,
    length: 79,
    ascii: 80,
};

/// No version that we know has more words up to the last that is read.
const MOST_WORDS: usize = WORDS_3_14.ascii + 1;

/// The interpreter's own description. `None` for a build without the GIL.
fn from_runtime(runtime: usize, words: &Words) -> Option<Layout> {
    let mut bytes = [0; MOST_WORDS * 8];
    if runtime == 0 || !peek::copy(runtime, &mut bytes) {
        return None;
    }
    let at = |word: usize| {
        let mut number = [0; 8];
        number.copy_from_slice(&bytes[word * 8..word * 8 + 8]);
        u64::from_ne_bytes(number)
    };
    // No structure is larger.
    let offset = |word: usize| usize::try_from(at(word)).ok().filter(|offset| *offset < 1 << 16);
    let known = at(word::COOKIE).to_ne_bytes() == *b"xdebugpy"
        && at(word::VERSION) >> 16 == words.version
        && at(word::FREE_THREADED) == 0
        && offset(words.kind) == Some(TYPE)
        && offset(words.length) == Some(LENGTH)
        && offset(words.state) == Some(STATE);
    if !known {
        return None;
    }
    let ascii = offset(words.ascii)?;
    Some(Layout {
        innermost: Innermost::State(offset(words.current_frame)?),
        previous: offset(words.previous)?,
        code: offset(words.executable)?,
        instruction: Instruction::Address(offset(words.instruction)?),
        owner: None,
        filename: offset(words.filename)?,
        name: offset(words.qualified_name)?,
        line_table: offset(words.line_table)?,
        start: offset(words.start)?,
        ascii,
        // The length in UTF-8 and its address follow.
        compact: ascii + 16,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_versions_have_a_layout() {
        assert_eq!(for_version("3.11.7 (main, Dec  4 2023, 18:10:11) [GCC 12.2.0]", 0), Some(PYTHON_3_11));
        assert_eq!(for_version("3.12.1", 0), Some(PYTHON_3_12));
        for version in ["3.9.18", "3.13.0", "3.14.0", "3.15.0", "3.1", "2.7.18", "", "4.11.0"] {
            assert_eq!(for_version(version, 0), None, "{version}");
        }
    }

    /// The self-descriptions of 3.13 and 3.14, on tables made by hand. Positions by name, as the headers list them.
    #[test]
    fn offsets_come_from_the_interpreter() {
        for (version, hex, words, others) in [
            ("3.13.0", 0x030d_00f0, &WORDS_3_13, ["3.14.0", "3.12.1"]),
            ("3.14.7", 0x030e_07f0, &WORDS_3_14, ["3.13.0", "3.12.1"]),
        ] {
            let mut table = [0u64; MOST_WORDS];
            table[word::COOKIE] = u64::from_ne_bytes(*b"xdebugpy");
            table[word::VERSION] = hex;
            for (at, offset) in [
                (words.current_frame, 72),
                (words.previous, 8),
                (words.instruction, 56),
                (words.filename, 112),
                (words.qualified_name, 128),
                (words.line_table, 136),
                (words.start, 200),
                (words.kind, 8),
                (words.state, 32),
                (words.length, 16),
                (words.ascii, 40),
            ] {
                table[at] = offset;
            }
            let of_table = |version: &str, table: &[u64]| for_version(version, table.as_ptr() as usize);
            let layout = of_table(version, &table).unwrap();
            assert_eq!((layout.innermost, layout.start, layout.compact), (Innermost::State(72), 200, 56), "{version}");
            assert_eq!((layout.filename, layout.name, layout.line_table), (112, 128, 136), "{version}");
            assert!(others.iter().all(|other| of_table(other, &table) != Some(layout)), "{version}");
            table[word::FREE_THREADED] = 1;
            assert_eq!(of_table(version, &table), None);
            table[word::FREE_THREADED] = 0;
            table[word::VERSION] = 0x030f_00f0;
            assert_eq!(of_table(version, &table), None);
        }
    }
}
