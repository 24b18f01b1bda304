//! Number formats, and an operation's modes encoded as one 64-bit number.

use Format::*;

/// A number format, by the index that `Mode` and `Convert` carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Format {
    F16,
    Bf16,
    F32,
    F64,
    Tf32,
    E4m3,
    E5m2,
    E2m1,
    E2m3,
    E3m2,
    Ue8m0,
    U8,
    S8,
    U16,
    S16,
    U32,
    S32,
    U64,
    S64,
}

const FORMATS: [Format; 19] =
    [F16, Bf16, F32, F64, Tf32, E4m3, E5m2, E2m1, E2m3, E3m2, Ue8m0, U8, S8, U16, S16, U32, S32, U64, S64];

impl Format {
    fn by_index(index: u64) -> Self {
        FORMATS[(index as usize).min(FORMATS.len() - 1)]
    }

    /// How many bits the exponent and the fraction have, and how many zero bits are below them.
    pub(super) fn layout(self) -> (u32, u32, u32) {
        match self {
            F16 => (5, 10, 0),
            Bf16 => (8, 7, 0),
            F64 => (11, 52, 0),
            Tf32 => (8, 10, 13),
            E4m3 => (4, 3, 0),
            E5m2 => (5, 2, 0),
            E2m1 => (2, 1, 0),
            E2m3 => (2, 3, 0),
            E3m2 => (3, 2, 0),
            _ => (8, 23, 0),
        }
    }

    pub(super) fn integer(self) -> Option<(u32, bool)> {
        Some(match self {
            U8 => (8, false),
            S8 => (8, true),
            U16 => (16, false),
            S16 => (16, true),
            U32 => (32, false),
            S32 => (32, true),
            U64 => (64, false),
            S64 => (64, true),
            _ => return None,
        })
    }

    /// The only NaN that operations return.
    pub(super) fn nan(self) -> u64 {
        match self {
            F16 | Bf16 => 0x7fff,
            F64 => 0xfff8_0000_0000_0000,
            E4m3 | E5m2 => 0x7f,
            // This format has no NaN; the largest number takes its place.
            E2m1 => 0x7,
            E2m3 | E3m2 => 0x1f,
            Ue8m0 => 0xff,
            _ => 0x7fff_ffff,
        }
    }

    /// The code after the largest finite number, without zero bits below.
    pub(super) fn limit(self) -> u64 {
        let (exponent, fraction, _) = self.layout();
        match self {
            E4m3 => 0x7f,
            E2m1 | E2m3 | E3m2 => 1 << (exponent + fraction),
            _ => ((1 << exponent) - 1) << fraction,
        }
    }
}

pub(crate) const ADD: u64 = 0;

pub(crate) const SUB: u64 = 1;

pub(crate) const MUL: u64 = 2;

pub(crate) const FMA: u64 = 3;

pub(crate) const DIV: u64 = 4;

pub(crate) const SQRT: u64 = 5;

pub(crate) const MIN: u64 = 6;

pub(crate) const MAX: u64 = 7;

/// The value itself, flushed.
pub(crate) const ABS_NEG_FLUSH: u64 = 8;

/// What `arithmetic` does; one 64-bit number for the code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mode {
    pub(crate) op: u64,
    pub(crate) format: Format,
    pub(crate) round: u64,
    pub(crate) ftz: bool,
    pub(crate) sat: bool,
    pub(crate) relu: bool,
    pub(crate) nan: bool,
    pub(crate) xorsign: bool,
    pub(crate) absolute: bool,
    pub(crate) packed: bool,
}

impl Mode {
    pub(crate) fn from_format(format: Format) -> Self {
        Self {
            op: ADD,
            format,
            round: 0,
            ftz: false,
            sat: false,
            relu: false,
            nan: false,
            xorsign: false,
            absolute: false,
            packed: false,
        }
    }

    pub(crate) fn encode(self) -> u64 {
        let flags = [self.ftz, self.sat, self.relu, self.nan, self.xorsign, self.absolute, self.packed];
        let flags = flags.iter().enumerate().fold(0, |all, (at, flag)| all | u64::from(*flag) << (at + 16));
        self.op | (self.format as u64) << 4 | self.round << 12 | flags
    }

    pub(super) fn decode(bits: u64) -> Self {
        let flag = |at: u32| bits >> (at + 16) & 1 != 0;
        Self {
            op: bits & 15,
            format: Format::by_index(bits >> 4 & 0xff),
            round: bits >> 12 & 7,
            ftz: flag(0),
            sat: flag(1),
            relu: flag(2),
            nan: flag(3),
            xorsign: flag(4),
            absolute: flag(5),
            packed: flag(6),
        }
    }
}

/// A conversion; one 64-bit number for the code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Convert {
    pub(crate) from: Format,
    pub(crate) to: Format,
    /// How the result is rounded: 0 to nearest even, 1 to zero, 2 down, 3 up, 4 to nearest away from zero.
    pub(crate) round: u64,
    /// Whether floats become integral floats.
    pub(crate) integral: bool,
    pub(crate) ftz: bool,
    pub(crate) sat: bool,
    pub(crate) satfinite: bool,
    pub(crate) relu: bool,
}

impl Convert {
    pub(crate) fn encode(self) -> u64 {
        let flags = [self.integral, self.ftz, self.sat, self.satfinite, self.relu];
        let flags = flags.iter().enumerate().fold(0, |all, (at, flag)| all | u64::from(*flag) << (at + 24));
        self.from as u64 | (self.to as u64) << 8 | self.round << 16 | flags
    }

    pub(crate) fn decode(bits: u64) -> Self {
        let flag = |at: u32| bits >> (at + 24) & 1 != 0;
        Self {
            from: Format::by_index(bits & 0xff),
            to: Format::by_index(bits >> 8 & 0xff),
            round: bits >> 16 & 7,
            integral: flag(0),
            ftz: flag(1),
            sat: flag(2),
            satfinite: flag(3),
            relu: flag(4),
        }
    }
}
