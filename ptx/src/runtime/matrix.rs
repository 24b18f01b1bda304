//! Matrix fragments: where each element is, and products of fragments.

use crate::number::Scalar;
use crate::runtime::home::{Slot, Source};
use crate::runtime::state::Warp;

use Scalar::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    A,
    B,
    C,
    D,
}

/// `mma` and `wmma.mma`: d = a b + c.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mma {
    pub(crate) m: u32,
    pub(crate) n: u32,
    pub(crate) k: u32,
    pub(crate) a: Scalar,
    pub(crate) b: Scalar,
    pub(crate) c: Scalar,
    pub(crate) d: Scalar,
    /// Whether bits are multiplied by exclusive or, else by and.
    pub(crate) xor: bool,
    pub(crate) saturate: bool,
    pub(crate) wmma: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MatrixAccess {
    pub(crate) count: u32,
    pub(crate) transposed: bool,
    pub(crate) shared: bool,
}

/// A `wmma` fragment in memory and in registers. Its layout in registers is this machine's own, as the ISA leaves it open:
/// element e of lane l is number l + 32 e of the matrix in row order, starting over if registers hold more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fragment {
    pub(crate) m: u32,
    pub(crate) n: u32,
    pub(crate) k: u32,
    pub(crate) role: Role,
    pub(crate) scalar: Scalar,
    pub(crate) row: bool,
}

fn register(scalar: Scalar) -> Scalar {
    match scalar {
        F64 => F64,
        F32 => F32,
        S32 => S32,
        _ => B32,
    }
}

impl Fragment {
    /// How many rows and columns it has.
    pub(crate) fn size(&self) -> (u32, u32) {
        match self.role {
            Role::A => (self.m, self.k),
            Role::B => (self.k, self.n),
            Role::C | Role::D => (self.m, self.n),
        }
    }

    pub(crate) fn per_register(&self) -> u32 {
        register(self.scalar).bits() / self.scalar.bits().min(register(self.scalar).bits())
    }

    /// The stride of an access that gives none.
    pub(crate) fn leading(&self) -> u32 {
        let (rows, columns) = self.size();
        if self.row { columns } else { rows }
    }

    /// How many registers hold it, and of what type.
    pub(crate) fn registers(&self) -> Option<(u32, Scalar)> {
        let accumulator = matches!(self.role, Role::C | Role::D);
        let shape = (self.m, self.n, self.k);
        let large = matches!(shape, (16, 16, 16) | (8, 32, 16) | (32, 8, 16));
        let legal = match self.scalar {
            F16 => large,
            Bf16 | U8 | S8 => large && !accumulator,
            F32 => accumulator && (large || shape == (16, 16, 8)),
            S32 => accumulator && (large || matches!(shape, (8, 8, 32) | (8, 8, 128))),
            F64 => shape == (8, 8, 4),
            Tf32 => shape == (16, 16, 8) && !accumulator,
            U4 | S4 => shape == (8, 8, 32) && !accumulator,
            B1 => shape == (8, 8, 128) && !accumulator,
            _ => false,
        };
        if !legal {
            return None;
        }
        let (rows, columns) = self.size();
        let kind = register(self.scalar);
        // Half-precision factors have eight registers whatever their shape.
        let count = if self.scalar == F16 && !accumulator { 8 } else { rows * columns / 32 / self.per_register() };
        Some((count.max(1), kind))
    }
}

impl Mma {
    fn scalar(&self, role: Role) -> Scalar {
        match role {
            Role::A => self.a,
            Role::B => self.b,
            Role::C => self.c,
            Role::D => self.d,
        }
    }

    fn fragment(&self, role: Role) -> Fragment {
        Fragment { m: self.m, n: self.n, k: self.k, role, scalar: self.scalar(role), row: true }
    }

    pub(crate) fn wmma_shape(&self) -> bool {
        let types = match self.a {
            F16 => self.b == F16 && matches!(self.c, F16 | F32) && matches!(self.d, F16 | F32),
            Bf16 | Tf32 => self.b == self.a && self.c == F32 && self.d == F32,
            F64 => self.b == F64 && self.c == F64 && self.d == F64,
            U8 | S8 | U4 | S4 | B1 => self.b == self.a && self.c == S32 && self.d == S32,
            _ => false,
        };
        types && [Role::A, Role::B, Role::C, Role::D].iter().all(|role| self.fragment(*role).registers().is_some())
    }

    /// How many registers an operand has, and of what type.
    pub(crate) fn registers(&self, role: Role) -> (u32, Scalar) {
        if self.wmma {
            return self.fragment(role).registers().unwrap_or((0, B32));
        }
        let (rows, columns) = self.fragment(role).size();
        let scalar = self.scalar(role);
        let kind = register(scalar);
        let kind = if matches!(role, Role::A | Role::B) && kind != F64 { B32 } else { kind };
        (rows * columns * scalar.bits() / 32 / kind.bits(), kind)
    }

    /// Row and column of part `part` of register `register` of `lane`.
    fn place(&self, role: Role, lane: u32, register_index: u32, part: u32, per: u32) -> (u32, u32) {
        if self.wmma {
            let (rows, columns) = self.fragment(role).size();
            let element = (lane + 32 * (register_index * per + part)) % (rows * columns);
            return (element / columns, element % columns);
        }
        let (group, inner) = (lane / 4, lane % 4);
        match role {
            Role::A if self.m == 16 => {
                (group + 8 * (register_index & 1), inner * per + (register_index >> 1) * 4 * per + part)
            }
            Role::A => (group, inner * per + register_index * 4 * per + part),
            Role::B => (inner * per + register_index * 4 * per + part, group),
            Role::C | Role::D => {
                let element = register_index * per + part;
                (group + 8 * (element >> 1), inner * 2 + (element & 1))
            }
        }
    }
}

fn half_to_single(bits: u16) -> f32 {
    half::f16::from_bits(bits).to_f32()
}

/// One element as the widest type of its kind.
pub(crate) fn float_of(bits: u64, scalar: Scalar) -> f64 {
    match scalar {
        F16 => f64::from(half_to_single(bits as u16)),
        Bf16 => f64::from(f32::from_bits((bits as u32) << 16)),
        // Hardware reads the upper 19 bits of a tf32.
        Tf32 => f64::from(f32::from_bits(bits as u32 & 0xffff_e000)),
        F32 => f64::from(f32::from_bits(bits as u32)),
        F64 => f64::from_bits(bits),
        E4m3 | E5m2 => {
            let exponent = if scalar == E4m3 { 4 } else { 5 };
            let fraction = 7 - exponent;
            let (e, f) = (bits >> fraction & ((1 << exponent) - 1), bits & ((1 << fraction) - 1));
            let bias = (1 << (exponent - 1)) - 1;
            let sign = if bits & 0x80 != 0 { -1.0 } else { 1.0 };
            let nan = if scalar == E4m3 { bits & 0x7f == 0x7f } else { e == 31 && f != 0 };
            if nan {
                f64::NAN
            } else if scalar == E5m2 && e == 31 {
                sign * f64::INFINITY
            } else if e == 0 {
                sign * f as f64 * 2f64.powi(1 - bias - fraction)
            } else {
                sign * (f + (1 << fraction)) as f64 * 2f64.powi(e as i32 - bias - fraction)
            }
        }
        _ => 0.0,
    }
}

pub(crate) fn int_of(bits: u64, scalar: Scalar) -> i32 {
    match scalar {
        S8 => i32::from(bits as i8),
        U8 => i32::from(bits as u8),
        S4 => (bits as i32) << 28 >> 28,
        _ => bits as i32,
    }
}

/// A factor of at most 32 bits in single precision, exactly.
pub(crate) fn single_of(bits: u32, scalar: Scalar) -> f32 {
    match scalar {
        F16 => convert_half(bits),
        Bf16 => f32::from_bits(bits << 16),
        _ => float_of(u64::from(bits), scalar) as f32,
    }
}

/// A whole register for the fast path: 32 lanes of 32 bits side by side.
pub(crate) fn lanes_of(warp: &Warp, source: Source) -> [u32; 32] {
    match source {
        Source::Imm(value) => [value as u32; 32],
        Source::Slot(slot) => {
            // SAFETY: a home of 32-bit lanes, aligned to them.
            unsafe { warp.slots.add(slot.offset as usize).cast::<[u32; 32]>().read() }
        }
    }
}

pub(crate) fn set_lanes(warp: &Warp, slot: Option<Slot>, values: &[u32; 32]) {
    if let Some(slot) = slot {
        // SAFETY: as in `lanes_of`.
        unsafe { warp.slots.add(slot.offset as usize).cast::<[u32; 32]>().write(*values) }
    }
}

pub(crate) fn multiply(mma: &Mma, warp: &Warp, src: &[Source], dst: &[Option<Slot>]) {
    let half = matches!(mma.a, F16 | Bf16) && !mma.wmma;
    if half && (mma.m, mma.n, mma.k) == (16, 8, 16) && mma.c == F32 && mma.d == F32 {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c") {
            // SAFETY: the processor has what the function is compiled for.
            return unsafe { m16n8k16_wide(mma.a == Bf16, warp, src, dst) };
        }
        return m16n8k16(mma.a == Bf16, warp, src, dst);
    }
    general(mma, warp, src, dst);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn m16n8k16_wide(bf16: bool, warp: &Warp, src: &[Source], dst: &[Option<Slot>]) {
    m16n8k16(bf16, warp, src, dst);
}

#[inline(always)]
fn m16n8k16(bf16: bool, warp: &Warp, src: &[Source], dst: &[Option<Slot>]) {
    let mut a = [[0f32; 16]; 16];
    let mut b = [[0f32; 8]; 16];
    let mut c = [[0f32; 8]; 16];
    let split = |values: &[u32; 32]| {
        let mut low = [0f32; 32];
        let mut high = [0f32; 32];
        if bf16 {
            for lane in 0..32 {
                low[lane] = f32::from_bits(values[lane] << 16);
                high[lane] = f32::from_bits(values[lane] & 0xffff_0000);
            }
        } else {
            for lane in 0..32 {
                low[lane] = convert_half(values[lane] & 0xffff);
                high[lane] = convert_half(values[lane] >> 16);
            }
        }
        (low, high)
    };
    for (register, source) in src[..4].iter().enumerate() {
        let (low, high) = split(&lanes_of(warp, *source));
        let (up, right) = (8 * (register & 1), 8 * (register >> 1));
        for group in 0..8 {
            for inner in 0..4 {
                a[group + up][inner * 2 + right] = low[group * 4 + inner];
                a[group + up][inner * 2 + right + 1] = high[group * 4 + inner];
            }
        }
    }
    for (register, source) in src[4..6].iter().enumerate() {
        let (low, high) = split(&lanes_of(warp, *source));
        for group in 0..8 {
            for inner in 0..4 {
                b[inner * 2 + 8 * register][group] = low[group * 4 + inner];
                b[inner * 2 + 8 * register + 1][group] = high[group * 4 + inner];
            }
        }
    }
    for (register, source) in src[6..10].iter().enumerate() {
        let values = lanes_of(warp, *source);
        for lane in 0..32 {
            c[lane / 4 + 8 * (register >> 1)][lane % 4 * 2 + (register & 1)] = f32::from_bits(values[lane]);
        }
    }
    for row in 0..16 {
        let mut sum = c[row];
        for k in 0..16 {
            let factor = a[row][k];
            for column in 0..8 {
                sum[column] = factor.mul_add(b[k][column], sum[column]);
            }
        }
        c[row] = sum;
    }
    for (register, slot) in dst.iter().enumerate() {
        let mut values = [0u32; 32];
        for lane in 0..32 {
            let value = c[lane / 4 + 8 * (register >> 1)][lane % 4 * 2 + (register & 1)];
            values[lane] = if value.is_nan() { 0x7fff_ffff } else { value.to_bits() };
        }
        set_lanes(warp, *slot, &values);
    }
}

/// An f16 as f32, by operations on integers, which compilers turn into vectors.
#[inline(always)]
fn convert_half(bits: u32) -> f32 {
    let sign = (bits & 0x8000) << 16;
    let magnitude = bits & 0x7fff;
    // The exponent is moved by a multiplication, which also makes subnormal numbers right.
    let scaled = f32::from_bits(magnitude << 13) * f32::from_bits(0x7780_0000);
    let special = f32::from_bits(magnitude << 13 | 0x7f80_0000);
    let value = if magnitude >= 0x7c00 { special } else { scaled };
    f32::from_bits(value.to_bits() | sign)
}

fn general(mma: &Mma, warp: &Warp, src: &[Source], dst: &[Option<Slot>]) {
    let (m, n, k) = (mma.m as usize, mma.n as usize, mma.k as usize);
    let read = |role: Role, from: usize| -> Vec<u64> {
        let (count, kind) = mma.registers(role);
        let scalar = mma.scalar(role);
        let (_, columns) = mma.fragment(role).size();
        let (rows, _) = mma.fragment(role).size();
        let mut all = vec![0u64; (rows * columns) as usize];
        let per = kind.bits() / scalar.bits().min(kind.bits());
        for register in 0..count {
            for lane in 0..32 {
                let value = src[from + register as usize].read(warp, lane);
                for part in 0..per {
                    let (row, column) = mma.place(role, lane, register, part, per);
                    let bits = if scalar.bits() == 64 {
                        value
                    } else {
                        value >> (part * scalar.bits()) & ((1 << scalar.bits()) - 1)
                    };
                    all[(row * columns + column) as usize] = bits;
                }
            }
        }
        all
    };
    let (a_count, b_count) = (mma.registers(Role::A).0 as usize, mma.registers(Role::B).0 as usize);
    let (a, b, c) = (read(Role::A, 0), read(Role::B, a_count), read(Role::C, a_count + b_count));
    let mut d = vec![0u64; m * n];
    let floating = matches!(mma.a, F16 | Bf16 | Tf32 | F64 | E4m3 | E5m2);
    for row in 0..m {
        for column in 0..n {
            let start = c[row * n + column];
            let at = row * n + column;
            if mma.a == F64 {
                let mut sum = f64::from_bits(start);
                for inner in 0..k {
                    sum = f64::from_bits(a[row * k + inner]).mul_add(f64::from_bits(b[inner * n + column]), sum);
                }
                d[at] = sum.to_bits();
            } else if floating {
                let mut sum = float_of(start, mma.c) as f32;
                for inner in 0..k {
                    let (x, y) = (float_of(a[row * k + inner], mma.a), float_of(b[inner * n + column], mma.b));
                    sum = (x as f32).mul_add(y as f32, sum);
                }
                if mma.saturate && sum.is_infinite() {
                    sum = f32::MAX.copysign(sum);
                }
                d[at] = match mma.d {
                    F16 if sum.is_nan() => 0x7fff,
                    F16 => {
                        let value = half::f16::from_f32(sum);
                        let value =
                            if mma.saturate && value.is_infinite() { half::f16::MAX.copysign(value) } else { value };
                        u64::from(value.to_bits())
                    }
                    _ if sum.is_nan() => 0x7fff_ffff,
                    _ => u64::from(sum.to_bits()),
                };
            } else {
                let mut sum = i64::from(start as i32);
                for inner in 0..k {
                    let (x, y) = (a[row * k + inner], b[inner * n + column]);
                    sum += if mma.a == B1 {
                        i64::from(if mma.xor { x ^ y } else { x & y } as u8)
                    } else {
                        i64::from(int_of(x, mma.a)) * i64::from(int_of(y, mma.b))
                    };
                }
                let value = if mma.saturate { sum.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) } else { sum };
                d[at] = u64::from(value as u32);
            }
        }
    }
    let (count, kind) = mma.registers(Role::D);
    let scalar = mma.d;
    let per = kind.bits() / scalar.bits();
    for register in 0..count {
        for lane in 0..32 {
            let mut value = 0;
            for part in 0..per {
                let (row, column) = mma.place(Role::D, lane, register, part, per);
                value |= d[row as usize * n + column as usize] << ((part * scalar.bits()) % 64);
            }
            if let Some(Some(slot)) = dst.get(register as usize) {
                slot.write(warp, lane, value);
            }
        }
    }
}
