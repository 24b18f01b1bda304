//! Video instructions: on whole words or a part of each, and on two halves or four bytes at once.

/// What a video instruction on words does; compiled code passes its bits.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WholeMode {
    /// The place in `decode::video::NAMES`.
    pub(crate) op: u64,
    pub(crate) signed_result: bool,
    pub(crate) signed_a: bool,
    pub(crate) signed_b: bool,
    pub(crate) saturate: bool,
    pub(crate) wrap: bool,
    /// What is done with the third operand: 0 nothing, 1 add, 2 min, 3 max.
    pub(crate) second: u64,
    /// Whether the result's part goes into the third operand.
    pub(crate) merge: bool,
    /// The place in `decode::video::COMPARISONS`.
    pub(crate) compare: u64,
    /// Parts of a, b and the result: 0 is all, 1 to 4 a byte, 5 and 6 a half.
    pub(crate) parts: [u64; 3],
}

impl WholeMode {
    pub(crate) fn encode(self) -> u64 {
        let flags = [self.signed_result, self.signed_a, self.signed_b, self.saturate, self.wrap, self.merge];
        let flags = flags.iter().enumerate().fold(0, |all, (at, flag)| all | u64::from(*flag) << (4 + at));
        let parts = self.parts.iter().enumerate().fold(0, |all, (at, part)| all | part << (16 + 3 * at));
        self.op | flags | self.second << 10 | self.compare << 12 | parts
    }

    fn decode(mode: u64) -> Self {
        let flag = |at: u32| mode >> at & 1 != 0;
        Self {
            op: mode & 15,
            signed_result: flag(4),
            signed_a: flag(5),
            signed_b: flag(6),
            saturate: flag(7),
            wrap: flag(8),
            merge: flag(9),
            second: mode >> 10 & 3,
            compare: mode >> 12 & 7,
            parts: [16, 19, 22].map(|at| mode >> at & 7),
        }
    }
}

/// Where a part of a word begins, and its bits.
fn place(part: u64) -> (u32, u32) {
    match part {
        1..=4 => (8 * (part as u32 - 1), 8),
        5 | 6 => (16 * (part as u32 - 5), 16),
        _ => (0, 32),
    }
}

/// The number in some bits of a word.
fn number(word: u64, (from, bits): (u32, u32), signed: bool) -> i64 {
    let up = (word >> from) << (64 - bits);
    if signed { up as i64 >> (64 - bits) } else { (up >> (64 - bits)) as i64 }
}

fn compare(code: u64, x: i64, y: i64) -> bool {
    match code {
        0 => x == y,
        1 => x != y,
        2 => x < y,
        3 => x <= y,
        4 => x > y,
        _ => x >= y,
    }
}

fn clamp(value: i64, bits: u32, signed: bool) -> i64 {
    if signed { value.clamp(-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { value.clamp(0, (1 << bits) - 1) }
}

/// Operations in the order of `decode::video::NAMES`; `vshl` and `vshr` are not here.
fn operate(op: u64, x: i64, y: i64, comparison: u64) -> i64 {
    match op {
        0 => x + y,
        1 => x - y,
        2 => (x - y).abs(),
        3 => x.min(y),
        4 => x.max(y),
        7 => i64::from(compare(comparison, x, y)),
        // The average; halves round away from zero if it is positive.
        _ if x + y >= 0 => (x + y + 1) >> 1,
        _ => (x + y) >> 1,
    }
}

pub(super) extern "C" fn whole(a: u64, b: u64, c: u64, mode: u64) -> u64 {
    let m = WholeMode::decode(mode);
    let x = number(a, place(m.parts[0]), m.signed_a);
    let y = number(b, place(m.parts[1]), m.signed_b);
    let amount = if m.wrap { y as u64 & 31 } else { (y as u64).min(32) };
    let (from, bits) = place(m.parts[2]);
    let mut value = match m.op {
        5 => ((x as u64 & 0xffff_ffff) << amount) as i64,
        6 => x >> amount,
        op => operate(op, x, y, m.compare),
    };
    if m.saturate {
        value = clamp(value, bits, m.signed_result);
    }
    if m.merge {
        let mask = (((1u64 << bits) - 1) << from) & 0xffff_ffff;
        return (c & !mask | ((value as u64) << from) & mask) & 0xffff_ffff;
    }
    let third = number(c, (0, 32), m.signed_result);
    let value = match m.second {
        0 => value,
        1 => value + third,
        2 => value.min(third),
        _ => value.max(third),
    };
    value as u64 & 0xffff_ffff
}

/// What `vmad` does.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MadMode {
    pub(crate) signed_a: bool,
    pub(crate) signed_b: bool,
    pub(crate) signed_result: bool,
    pub(crate) minus_product: bool,
    pub(crate) minus_third: bool,
    pub(crate) plus_one: bool,
    pub(crate) saturate: bool,
    /// Bits by which the sum is shifted to the right: 0, 7 or 15.
    pub(crate) shift: u64,
    /// The parts of a and b, as in [`WholeMode`].
    pub(crate) parts: [u64; 2],
}

impl MadMode {
    pub(crate) fn encode(self) -> u64 {
        let flags = [
            self.signed_a,
            self.signed_b,
            self.signed_result,
            self.minus_product,
            self.minus_third,
            self.plus_one,
            self.saturate,
        ];
        let flags = flags.iter().enumerate().fold(0, |all, (at, flag)| all | u64::from(*flag) << at);
        flags | self.shift << 8 | self.parts[0] << 12 | self.parts[1] << 15
    }
}

pub(super) extern "C" fn multiply_add(a: u64, b: u64, c: u64, mode: u64) -> u64 {
    let flag = |at: u32| mode >> at & 1 != 0;
    let x = i128::from(number(a, place(mode >> 12 & 7), flag(0)));
    let y = i128::from(number(b, place(mode >> 15 & 7), flag(1)));
    let (product, third) = (x * y, i128::from(number(c, (0, 32), flag(2))));
    let sum = if flag(3) { third - product } else { product + if flag(4) { -third } else { third } };
    let value = (sum + i128::from(flag(5))) >> (mode >> 8 & 15);
    let value = match (flag(6), flag(2)) {
        (false, _) => value,
        (true, true) => value.clamp(i32::MIN.into(), i32::MAX.into()),
        (true, false) => value.clamp(0, u32::MAX.into()),
    };
    value as u64 & 0xffff_ffff
}

/// What a video instruction on halves or bytes does.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LanesMode {
    /// The place in `decode::video::NAMES`.
    pub(crate) op: u64,
    pub(crate) signed_result: bool,
    pub(crate) signed_a: bool,
    pub(crate) signed_b: bool,
    pub(crate) saturate: bool,
    /// Whether the lanes are added to the third operand, instead of put into it.
    pub(crate) add: bool,
    /// Whether there are four bytes instead of two halves.
    pub(crate) bytes: bool,
    /// The place in `decode::video::COMPARISONS`.
    pub(crate) compare: u64,
    /// Lanes of the result that are written or added.
    pub(crate) mask: u64,
    /// Which lane of a's and b's each lane takes; that of the lowest lane is in the lowest three bits.
    pub(crate) chosen: [u64; 2],
}

impl LanesMode {
    pub(crate) fn encode(self) -> u64 {
        let flags = [self.signed_result, self.signed_a, self.signed_b, self.saturate, self.add, self.bytes];
        let flags = flags.iter().enumerate().fold(0, |all, (at, flag)| all | u64::from(*flag) << (4 + at));
        self.op | flags | self.compare << 10 | self.mask << 13 | self.chosen[0] << 20 | self.chosen[1] << 32
    }
}

pub(super) extern "C" fn lanes(a: u64, b: u64, c: u64, mode: u64) -> u64 {
    let flag = |at: u32| mode >> at & 1 != 0;
    let (op, signed_result, saturate, add) = (mode & 15, flag(4), flag(7), flag(8));
    let (count, bits) = if flag(9) { (4, 8) } else { (2, 16) };
    let both = a & 0xffff_ffff | b << 32;
    let mut result = c;
    for lane in 0..count {
        if mode >> (13 + lane) & 1 == 0 {
            continue;
        }
        let from = |at: u32, signed: bool| {
            let chosen = (mode >> (at + 3 * lane) & 7) as u32;
            number(both, (chosen * bits, bits), signed)
        };
        let mut value = operate(op, from(20, flag(5)), from(32, flag(6)), mode >> 10 & 7);
        if saturate {
            value = clamp(value, bits, signed_result);
        }
        if add {
            result = result.wrapping_add(value as u64);
        } else {
            let mask = ((1u64 << bits) - 1) << (lane * bits);
            result = result & !mask | ((value as u64) << (lane * bits)) & mask;
        }
    }
    result & 0xffff_ffff
}
