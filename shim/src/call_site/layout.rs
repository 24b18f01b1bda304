//! Where CPython keeps what a traceback needs, by version. From CPython's headers: `cpython/pystate.h`, `cpython/code.h`,
//! `cpython/frameobject.h` (3.10), `internal/pycore_frame.h`, `cpython/unicodeobject.h`. From 3.13 on the interpreter has the
//! offsets itself (`_Py_DebugOffsets`, `internal/pycore_runtime.h`).

use super::memory;

/// From the state of a thread to its innermost frame.
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
    /// In a frame.
    pub(super) previous: usize,
    pub(super) code: usize,
    pub(super) instruction: Instruction,
    /// Who owns a frame, where an entry of the interpreter cannot be told otherwise.
    pub(super) owner: Option<usize>,
    /// In a code object.
    pub(super) filename: usize,
    pub(super) name: usize,
    pub(super) line_table: usize,
    /// The first instruction.
    pub(super) start: usize,
    /// Length of the head of a string: in ASCII, and otherwise.
    pub(super) ascii: usize,
    pub(super) compact: usize,
}

/// In every object.
pub(super) const TYPE: usize = 8;
/// The owner of an entry of the interpreter (`FRAME_OWNED_BY_CSTACK`).
pub(super) const OWNED_BY_C: u8 = 3;
/// Bytes of an instruction (`_Py_CODEUNIT`).
pub(super) const INSTRUCTION_BYTES: usize = 2;
/// In a string, in every version.
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

/// The layout of an interpreter that calls itself `version` ("3.11.7 (main, ...)") and whose `_PyRuntime` is at `runtime`, 0
/// where it has none. None for a version that is not known.
pub(super) fn of(version: &str, runtime: usize) -> Option<Layout> {
    let mut parts = version.split('.');
    let (major, minor) = (parts.next()?, parts.next()?);
    match (major, minor) {
        ("3", "10") => Some(PYTHON_3_10),
        ("3", "11") => Some(PYTHON_3_11),
        ("3", "12") => Some(PYTHON_3_12),
        ("3", "13") => from_runtime(runtime),
        _ => None,
    }
}

/// Words of `_Py_DebugOffsets` of 3.13, by position.
mod word {
    pub(super) const COOKIE: usize = 0;
    pub(super) const VERSION: usize = 1;
    pub(super) const FREE_THREADED: usize = 2;
    pub(super) const CURRENT_FRAME: usize = 23;
    pub(super) const PREVIOUS: usize = 29;
    pub(super) const EXECUTABLE: usize = 30;
    pub(super) const INSTRUCTION: usize = 31;
    pub(super) const FILENAME: usize = 35;
    pub(super) const QUALIFIED_NAME: usize = 37;
    pub(super) const LINE_TABLE: usize = 38;
    pub(super) const START: usize = 43;
    pub(super) const TYPE: usize = 45;
    pub(super) const STATE: usize = 68;
    pub(super) const LENGTH: usize = 69;
    pub(super) const ASCII: usize = 70;
    pub(super) const ALL: usize = 73;
}

/// What the interpreter says of itself. None for a build without the GIL.
fn from_runtime(runtime: usize) -> Option<Layout> {
    let mut bytes = [0; word::ALL * 8];
    if runtime == 0 || !memory::copy(runtime, &mut bytes) {
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
        && at(word::VERSION) >> 16 == 0x030d
        && at(word::FREE_THREADED) == 0
        && offset(word::TYPE) == Some(TYPE)
        && offset(word::LENGTH) == Some(LENGTH)
        && offset(word::STATE) == Some(STATE);
    if !known {
        return None;
    }
    let ascii = offset(word::ASCII)?;
    Some(Layout {
        innermost: Innermost::State(offset(word::CURRENT_FRAME)?),
        previous: offset(word::PREVIOUS)?,
        code: offset(word::EXECUTABLE)?,
        instruction: Instruction::Address(offset(word::INSTRUCTION)?),
        owner: None,
        filename: offset(word::FILENAME)?,
        name: offset(word::QUALIFIED_NAME)?,
        line_table: offset(word::LINE_TABLE)?,
        start: offset(word::START)?,
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
        assert_eq!(of("3.11.7 (main, Dec  4 2023, 18:10:11) [GCC 12.2.0]", 0), Some(PYTHON_3_11));
        assert_eq!(of("3.12.1", 0), Some(PYTHON_3_12));
        for version in ["3.9.18", "3.13.0", "3.14.0", "3.1", "2.7.18", "", "4.11.0"] {
            assert_eq!(of(version, 0), None, "{version}");
        }
    }

    /// What a 3.13 says of itself, on a table made by hand.
    #[test]
    fn offsets_come_from_the_interpreter() {
        let mut table = [0u64; word::ALL];
        table[word::COOKIE] = u64::from_ne_bytes(*b"xdebugpy");
        table[word::VERSION] = 0x030d_00f0;
        for (at, offset) in [
            (word::CURRENT_FRAME, 72),
            (word::PREVIOUS, 8),
            (word::INSTRUCTION, 56),
            (word::FILENAME, 112),
            (word::QUALIFIED_NAME, 128),
            (word::LINE_TABLE, 136),
            (word::START, 200),
            (word::TYPE, 8),
            (word::STATE, 32),
            (word::LENGTH, 16),
            (word::ASCII, 40),
        ] {
            table[at] = offset;
        }
        let layout = of("3.13.0", table.as_ptr() as usize).unwrap();
        assert_eq!((layout.innermost, layout.start, layout.compact), (Innermost::State(72), 200, 56));
        table[word::FREE_THREADED] = 1;
        assert_eq!(of("3.13.0", table.as_ptr() as usize), None);
        table[word::FREE_THREADED] = 0;
        table[word::VERSION] = 0x030e_00f0;
        assert_eq!(of("3.13.0", table.as_ptr() as usize), None);
    }
}
