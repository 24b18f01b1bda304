//! The element types of matrices and vectors, by `cudaDataType`: their layout in memory, and their values.

use dataplane::kernels::float8;
use half::{bf16, f16};
use num_complex::Complex;
use protocol::profile::{Architecture, GpuProfile};

use crate::device::work::timeline::Element as Arithmetic;

/// Any element as a number: exact for all types but 64-bit integers.
pub(crate) type Wide = Complex<f64>;

/// Type of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    F32,
    F64,
    F16,
    Bf16,
    /// Two `F32`.
    C32,
    /// Two `F64`.
    C64,
    I8,
    /// Sums of products of `I8`, pivots and indices.
    I32,
    /// Indices of the calls with 64-bit sizes.
    I64,
    /// OCP FP8 E4M3.
    E4m3,
    /// OCP FP8 E5M2.
    E5m2,
}

impl Element {
    /// Whether cuBLAS multiplies it on this GPU: where tensor cores or arithmetic have it, and bfloat16 without them on Volta and
    /// Turing (PyTorch multiplies it on V100 and T4, and on P100 gets NOT_SUPPORTED: pytorch/pytorch#124996, #57773).
    pub(crate) fn is_multiplied(self, profile: &GpuProfile) -> bool {
        let is_emulated =
            matches!(profile.architecture, Architecture::Volta | Architecture::Turing) && self == Self::Bf16;
        is_emulated || profile.supported_types.iter().any(|name| name == self.profile_word())
    }

    /// Its name in a profile's `supported_types`.
    fn profile_word(self) -> &'static str {
        match self {
            Self::F32 | Self::C32 => "fp32",
            Self::F64 | Self::C64 => "fp64",
            Self::F16 => "fp16",
            Self::Bf16 => "bf16",
            Self::I8 | Self::I32 | Self::I64 => "int8",
            Self::E4m3 | Self::E5m2 => "fp8",
        }
    }

    /// By `cudaDataType`; `None` for types not supported here (unsigned, 4 bits, complex numbers of less than 32 bits).
    pub(crate) fn from_code(code: i32) -> Option<Self> {
        match code {
            0 => Some(Self::F32),
            1 => Some(Self::F64),
            2 => Some(Self::F16),
            3 => Some(Self::I8),
            4 => Some(Self::C32),
            5 => Some(Self::C64),
            10 => Some(Self::I32),
            14 => Some(Self::Bf16),
            28 => Some(Self::E4m3),
            29 => Some(Self::E5m2),
            _ => None,
        }
    }

    /// Bytes.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::C64 => 16,
            Self::F64 | Self::C32 | Self::I64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::I8 | Self::E4m3 | Self::E5m2 => 1,
        }
    }

    /// Whether it is an integer.
    pub(crate) fn is_integer(self) -> bool {
        matches!(self, Self::I8 | Self::I32 | Self::I64)
    }

    /// The arithmetic of its products; `None` for indices.
    pub(crate) fn arithmetic(self) -> Option<Arithmetic> {
        Some(match self {
            Self::F32 | Self::C32 => Arithmetic::Fp32,
            Self::F64 | Self::C64 => Arithmetic::Fp64,
            Self::F16 => Arithmetic::Fp16,
            Self::Bf16 => Arithmetic::Bf16,
            Self::I8 => Arithmetic::Int8,
            Self::E4m3 | Self::E5m2 => Arithmetic::Fp8,
            Self::I32 | Self::I64 => return None,
        })
    }

    /// Whether it has an imaginary part.
    pub(crate) fn is_complex(self) -> bool {
        matches!(self, Self::C32 | Self::C64)
    }

    /// Whether it is a float of 8 bits.
    pub(crate) fn is_float8(self) -> bool {
        matches!(self, Self::E4m3 | Self::E5m2)
    }

    /// # Safety
    /// An element of this type is at `address`.
    #[inline]
    pub(crate) unsafe fn read(self, address: usize) -> Wide {
        let real = |value: f64| Wide::new(value, 0.0);
        // SAFETY: as promised by the caller; alignment is not needed.
        unsafe {
            match self {
                Self::F32 => real(f64::from((address as *const f32).read_unaligned())),
                Self::F64 => real((address as *const f64).read_unaligned()),
                Self::F16 => real(f16::from_bits((address as *const u16).read_unaligned()).to_f64()),
                Self::Bf16 => real(bf16::from_bits((address as *const u16).read_unaligned()).to_f64()),
                Self::C32 => {
                    let [re, im] = (address as *const [f32; 2]).read_unaligned();
                    Wide::new(re.into(), im.into())
                }
                Self::C64 => {
                    let [re, im] = (address as *const [f64; 2]).read_unaligned();
                    Wide::new(re, im)
                }
                Self::I8 => real(f64::from((address as *const i8).read())),
                Self::I32 => real(f64::from((address as *const i32).read_unaligned())),
                Self::I64 => real((address as *const i64).read_unaligned() as f64),
                Self::E4m3 => real(float8::e4m3_to_f32((address as *const u8).read()).into()),
                Self::E5m2 => real(float8::e5m2_to_f32((address as *const u8).read()).into()),
            }
        }
    }

    /// # Safety
    /// An element of this type may be written at `address`.
    #[inline]
    pub(crate) unsafe fn write(self, address: usize, value: Wide) {
        let real = value.re;
        // SAFETY: as promised by the caller; alignment is not needed.
        unsafe {
            match self {
                Self::F32 => (address as *mut f32).write_unaligned(real as f32),
                Self::F64 => (address as *mut f64).write_unaligned(real),
                // By way of f32, in which the sum was made.
                Self::F16 => (address as *mut u16).write_unaligned(f16::from_f32(real as f32).to_bits()),
                Self::Bf16 => (address as *mut u16).write_unaligned(bf16::from_f32(real as f32).to_bits()),
                Self::C32 => (address as *mut [f32; 2]).write_unaligned([real as f32, value.im as f32]),
                Self::C64 => (address as *mut [f64; 2]).write_unaligned([real, value.im]),
                // To the nearest, ties to even, and no further than the ends of the range.
                Self::I8 => (address as *mut i8).write(real.round_ties_even() as i8),
                Self::I32 => (address as *mut i32).write_unaligned(real as i32),
                Self::I64 => (address as *mut i64).write_unaligned(real as i64),
                Self::E4m3 => (address as *mut u8).write(float8::f32_to_e4m3(real as f32)),
                Self::E5m2 => (address as *mut u8).write(float8::f32_to_e5m2(real as f32)),
            }
        }
    }
}
