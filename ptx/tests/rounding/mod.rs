//! Models of rounding that share nothing with the machine: errors of sums in f64, small formats by search in the table of all their numbers.

pub(crate) fn f(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

pub(crate) fn d(bits: u64) -> f64 {
    f64::from_bits(bits)
}

/// f32 results: NaN is the one that PTX has.
pub(crate) fn single(value: f32) -> u64 {
    if value.is_nan() { 0x7fff_ffff } else { u64::from(value.to_bits()) }
}

pub(crate) fn flush(value: f32) -> f32 {
    if value.is_subnormal() { 0f32.copysign(value) } else { value }
}

/// A number that f64 holds except for an error whose sign is known.
#[derive(Clone, Copy)]
pub(crate) struct Exact(pub(crate) f64, pub(crate) f64);

pub(crate) fn sum(a: f64, b: f64) -> Exact {
    let s = a + b;
    let t = s - a;
    let error = (a - (s - t)) + (b - t);
    Exact(s, if error.is_nan() { 0.0 } else { error })
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Round {
    Near,
    Zero,
    Down,
    Up,
}

pub(crate) const ROUNDS: [(&str, Round); 4] =
    [("rn", Round::Near), ("rz", Round::Zero), ("rm", Round::Down), ("rp", Round::Up)];

/// To f32 in a direction: the neighbors of the number are tried.
pub(crate) fn to_single(exact: Exact, round: Round) -> f32 {
    let Exact(value, error) = exact;
    if !value.is_finite() || (value == 0.0 && error == 0.0) {
        return value as f32;
    }
    // By magnitude: the largest number that is not above, and the one after it.
    let negative = value < 0.0;
    let (value, error) = if negative { (-value, -error) } else { (value, error) };
    let mut below = (value as f32).min(f32::MAX);
    while f64::from(below) > value || (f64::from(below) == value && error < 0.0) {
        below = below.next_down();
    }
    let above = if f64::from(below) == value && error == 0.0 { below } else { below.next_up() };
    let result = match (round, negative) {
        (Round::Near, _) => near_even(below, above, value, error),
        (Round::Up, false) | (Round::Down, true) => above,
        _ => below,
    };
    if negative { -result } else { result }
}

pub(crate) fn near_even(below: f32, above: f32, value: f64, error: f64) -> f32 {
    if below == above {
        return below;
    }
    let top = |x: f32| if x.is_infinite() { 2f64.powi(128).copysign(f64::from(x)) } else { f64::from(x) };
    let (low, high) = (value - top(below), top(above) - value);
    let side = if low != high { low - high } else { error * 2.0 };
    if side < 0.0 {
        below
    } else if side > 0.0 || below.to_bits() & 1 != 0 {
        above
    } else {
        below
    }
}

/// A double's operation in a direction, from the one to nearest and the sign of its error.
pub(crate) fn directed(near: f64, error: f64, round: Round) -> f64 {
    if round == Round::Near || !near.is_finite() || error == 0.0 {
        return near;
    }
    match round {
        Round::Down if error < 0.0 => near.next_down(),
        Round::Up if error > 0.0 => near.next_up(),
        Round::Zero if error < 0.0 && near > 0.0 => near.next_down(),
        Round::Zero if error > 0.0 && near < 0.0 => near.next_up(),
        _ => near,
    }
}

/// All numbers of a format of one sign, by code, and the code that follows the last.
pub(crate) struct Table {
    pub(crate) numbers: Vec<f64>,
    pub(crate) sign: u64,
    pub(crate) nan: u64,
    /// What too large numbers become to nearest: infinity's code or the largest number's.
    pub(crate) overflow: u64,
    pub(crate) bits: u32,
}

pub(crate) fn table(exponent: u32, fraction: u32, last: u64, nan: u64, infinite: bool) -> Table {
    let bias = (1i32 << (exponent - 1)) - 1;
    let numbers = (0..=last)
        .map(|code| {
            let (e, m) = ((code >> fraction) as i32, (code & ((1 << fraction) - 1)) as f64);
            let unit = 2f64.powi(-(fraction as i32));
            if e == 0 { m * unit * 2f64.powi(1 - bias) } else { (1.0 + m * unit) * 2f64.powi(e - bias) }
        })
        .collect();
    let overflow = if infinite { last + 1 } else { last };
    Table { numbers, sign: 1 << (exponent + fraction), nan, overflow, bits: 1 + exponent + fraction }
}

impl Table {
    /// The code of a number that f64 holds except for an error.
    pub(crate) fn code(&self, exact: Exact, round: Round, saturate: bool) -> u64 {
        let Exact(value, error) = exact;
        if value.is_nan() {
            return self.nan;
        }
        let sign = if value.is_sign_negative() { self.sign } else { 0 };
        let (value, error) = (value.abs(), if value < 0.0 { -error } else { error });
        let last = self.numbers.len() as u64 - 1;
        let overflow = if saturate { last } else { self.overflow };
        if value.is_infinite() {
            return sign | overflow;
        }
        let at = self.numbers.partition_point(|n| *n < value || (*n == value && error >= 0.0));
        // `at` is the first number above.
        let below = at as u64 - 1;
        if self.numbers[below as usize] == value && error == 0.0 {
            return sign | below;
        }
        let step = self.numbers[last as usize] - self.numbers[last as usize - 1];
        let above = self.numbers.get(at).copied().unwrap_or(self.numbers[last as usize] + step);
        let away = match round {
            Round::Zero => false,
            Round::Down => sign != 0,
            Round::Up => sign == 0,
            Round::Near => {
                let (low, high) = (value - self.numbers[below as usize], above - value);
                low > high || (low == high && (error > 0.0 || (error == 0.0 && below & 1 != 0)))
            }
        };
        let code = if away { below + 1 } else { below };
        sign | if code > last { overflow } else { code }
    }

    pub(crate) fn value(&self, code: u64) -> f64 {
        let magnitude = code & (self.sign - 1);
        let value = match self.numbers.get(magnitude as usize) {
            Some(value) => *value,
            None if magnitude == self.overflow => f64::INFINITY,
            None => f64::NAN,
        };
        if code & self.sign != 0 { -value } else { value }
    }
}

pub(crate) fn f16() -> Table {
    table(5, 10, 0x7bff, 0x7fff, true)
}

pub(crate) fn bf16() -> Table {
    table(8, 7, 0x7f7f, 0x7fff, true)
}
