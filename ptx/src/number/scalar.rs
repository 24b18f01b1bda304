//! The fundamental types of PTX.

/// A type as an instruction or a declaration names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[rustfmt::skip]
pub(crate) enum Scalar {
    Pred,
    B1, U4, S4,
    B8, U8, S8, B16, U16, S16, B32, U32, S32, B64, U64, S64, B128, U128, S128,
    F16, F16x2, Bf16, Bf16x2, Tf32, F32, F32x2, F64,
    E4m3, E5m2, E4m3x2, E5m2x2, E4m3x4, E5m2x4, E2m1, E2m3, E3m2, E2m1x2, E2m3x2, E3m2x2, E2m1x4, E2m3x4, E3m2x4, Ue8m0, Ue8m0x2, Ue4m3, S2f6, S2f6x2,
    U16x2, S16x2, U8x4, S8x4,
}

use Scalar::*;

const NAMES: &[(&str, Scalar)] = &[
    ("pred", Pred),
    ("b1", B1),
    ("u4", U4),
    ("s4", S4),
    ("b8", B8),
    ("u8", U8),
    ("s8", S8),
    ("b16", B16),
    ("u16", U16),
    ("s16", S16),
    ("b32", B32),
    ("u32", U32),
    ("s32", S32),
    ("b64", B64),
    ("u64", U64),
    ("s64", S64),
    ("b128", B128),
    ("u128", U128),
    ("s128", S128),
    ("f16", F16),
    ("f16x2", F16x2),
    ("bf16", Bf16),
    ("bf16x2", Bf16x2),
    ("tf32", Tf32),
    ("f32", F32),
    ("f32x2", F32x2),
    ("f64", F64),
    ("e4m3", E4m3),
    ("e5m2", E5m2),
    ("e4m3x2", E4m3x2),
    ("e5m2x2", E5m2x2),
    ("e4m3x4", E4m3x4),
    ("e5m2x4", E5m2x4),
    ("e2m1", E2m1),
    ("e2m3", E2m3),
    ("e3m2", E3m2),
    ("e2m1x2", E2m1x2),
    ("e2m3x2", E2m3x2),
    ("e3m2x2", E3m2x2),
    ("e2m1x4", E2m1x4),
    ("e2m3x4", E2m3x4),
    ("e3m2x4", E3m2x4),
    ("ue8m0", Ue8m0),
    ("ue8m0x2", Ue8m0x2),
    ("ue4m3", Ue4m3),
    ("s2f6", S2f6),
    ("s2f6x2", S2f6x2),
    ("u16x2", U16x2),
    ("s16x2", S16x2),
    ("u8x4", U8x4),
    ("s8x4", S8x4),
];

impl Scalar {
    pub(crate) fn named(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, scalar)| *scalar)
    }

    pub(crate) fn name(self) -> &'static str {
        NAMES.iter().find(|(_, scalar)| *scalar == self).map_or("?", |(name, _)| name)
    }

    pub(crate) fn bits(self) -> u32 {
        match self {
            Pred | B1 => 1,
            U4 | S4 => 4,
            B8 | U8 | S8 | E4m3 | E5m2 | E2m1 | E2m3 | E3m2 | E2m1x2 | Ue8m0 | Ue4m3 | S2f6 => 8,
            B16 | U16 | S16 | F16 | Bf16 | E4m3x2 | E5m2x2 | E2m3x2 | E3m2x2 | Ue8m0x2 | E2m1x4 | S2f6x2 => 16,
            B32 | U32 | S32 | F16x2 | Bf16x2 | Tf32 | F32 | E4m3x4 | E5m2x4 | E2m3x4 | E3m2x4 => 32,
            U16x2 | S16x2 | U8x4 | S8x4 => 32,
            B64 | U64 | S64 | F64 | F32x2 => 64,
            B128 | U128 | S128 => 128,
        }
    }

    pub(crate) fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }

    pub(crate) fn signed(self) -> bool {
        matches!(self, S4 | S8 | S16 | S32 | S64 | S128 | S16x2 | S8x4)
    }

    /// Whether it is a signed or unsigned integer (not `.bN`).
    pub(crate) fn integer(self) -> bool {
        matches!(self, U8 | S8 | U16 | S16 | U32 | S32 | U64 | S64)
    }

    /// Whether it is a `.bN`.
    pub(crate) fn untyped(self) -> bool {
        matches!(self, B8 | B16 | B32 | B64 | B128)
    }

    /// Whether it is a float that a register of the processor can hold as it is.
    pub(crate) fn float(self) -> bool {
        matches!(self, F16 | Bf16 | F32 | F64)
    }
}

/// The lowest `bits` bits.
pub(crate) fn truncate(value: u64, bits: u32) -> u64 {
    if bits >= 64 { value } else { value & ((1 << bits) - 1) }
}
