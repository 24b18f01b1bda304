//! Floating-point instructions against models that share nothing with the machine: sums and products with their errors in f64, small formats
//! by search in the table of all their numbers.

mod device;
mod forms;

use forms::{Expected, Form, check, exact, form};

type Unary = fn(f64) -> f64;
type Signs = fn(u64) -> u64;
type Singles = fn(f32, f32) -> f32;
type ClassTest = fn(f64, bool) -> bool;
type Test = fn(f64, f64) -> bool;

fn f(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn d(bits: u64) -> f64 {
    f64::from_bits(bits)
}

/// f32 results: NaN is the one that PTX has.
fn single(value: f32) -> u64 {
    if value.is_nan() { 0x7fff_ffff } else { u64::from(value.to_bits()) }
}

fn flush(value: f32) -> f32 {
    if value.is_subnormal() { 0f32.copysign(value) } else { value }
}

/// A number that f64 holds but for an error whose sign is known.
#[derive(Clone, Copy)]
struct Exact(f64, f64);

fn sum(a: f64, b: f64) -> Exact {
    let s = a + b;
    let t = s - a;
    let error = (a - (s - t)) + (b - t);
    Exact(s, if error.is_nan() { 0.0 } else { error })
}

#[derive(Clone, Copy, PartialEq)]
enum Round {
    Near,
    Zero,
    Down,
    Up,
}

const ROUNDS: [(&str, Round); 4] = [("rn", Round::Near), ("rz", Round::Zero), ("rm", Round::Down), ("rp", Round::Up)];

/// To f32 in a direction: the neighbors of the number are tried.
fn to_single(exact: Exact, round: Round) -> f32 {
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

fn near_even(below: f32, above: f32, value: f64, error: f64) -> f32 {
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

#[test]
fn single_arithmetic_rounds_in_every_direction() {
    let mut forms: Vec<Form> = Vec::new();
    let model = |op: &'static str, a: f32, b: f32, c: f32, round: Round| -> f32 {
        let (x, y, z) = (f64::from(a), f64::from(b), f64::from(c));
        let zero_sum = |s: f64, negative_both: bool| {
            if s == 0.0 && !negative_both && round == Round::Down { -0.0 } else { s }
        };
        match op {
            "add" => {
                let Exact(s, e) = sum(x, y);
                if s == 0.0 && e == 0.0 {
                    // Zeros of one sign keep it; else it is by the direction.
                    let both = x == 0.0 && y == 0.0 && x.is_sign_negative() == y.is_sign_negative();
                    return if both { a } else { zero_sum(0.0, false) as f32 };
                }
                to_single(Exact(s, e), round)
            }
            "mul" => to_single(Exact(x * y, 0.0), round),
            "fma" => {
                let p = x * y;
                let Exact(s, e) = sum(p, z);
                if s == 0.0 && e == 0.0 && !p.is_nan() {
                    let both = p == 0.0 && z == 0.0 && p.is_sign_negative() == z.is_sign_negative();
                    return if both { c } else { zero_sum(0.0, false) as f32 };
                }
                to_single(Exact(s, e), round)
            }
            "div" => {
                let q = x / y;
                let error =
                    if q.is_finite() && y.is_finite() && q != 0.0 { (-q).mul_add(y, x) * y.signum() } else { 0.0 };
                to_single(Exact(q, error), round)
            }
            _ => {
                let q = x.sqrt();
                let error = if q.is_finite() && q != 0.0 { (-q).mul_add(q, x) } else { 0.0 };
                to_single(Exact(q, error), round)
            }
        }
    };
    for (name, round) in ROUNDS {
        for op in ["add", "mul", "div"] {
            forms.push(exact(&format!("{op}.{name}.f32 %d, %a, %b;"), "f32", &["f32", "f32"], move |[a, b, _]| {
                single(model(op, f(a), f(b), 0.0, round))
            }));
            forms.push(exact(&format!("{op}.{name}.ftz.f32 %d, %a, %b;"), "f32", &["f32", "f32"], move |[a, b, _]| {
                single(flush(model(op, flush(f(a)), flush(f(b)), 0.0, round)))
            }));
        }
        forms.push(exact(&format!("sub.{name}.f32 %d, %a, %b;"), "f32", &["f32", "f32"], move |[a, b, _]| {
            single(model("add", f(a), -f(b), 0.0, round))
        }));
        forms.push(exact(&format!("fma.{name}.f32 %d, %a, %b, %c;"), "f32", &["f32"; 3], move |[a, b, c]| {
            single(model("fma", f(a), f(b), f(c), round))
        }));
        forms.push(exact(&format!("fma.{name}.ftz.sat.f32 %d, %a, %b, %c;"), "f32", &["f32"; 3], move |[a, b, c]| {
            let value = flush(model("fma", flush(f(a)), flush(f(b)), flush(f(c)), round));
            single(if value > 0.0 { value.min(1.0) } else { 0.0 })
        }));
        forms.push(exact(&format!("sqrt.{name}.f32 %d, %a;"), "f32", &["f32"], move |[a, ..]| {
            single(model("sqrt", f(a), 0.0, 0.0, round))
        }));
        forms.push(exact(&format!("rcp.{name}.f32 %d, %a;"), "f32", &["f32"], move |[a, ..]| {
            single(model("div", 1.0, f(a), 0.0, round))
        }));
    }
    forms.push(exact("add.sat.f32 %d, %a, %b;", "f32", &["f32", "f32"], |[a, b, _]| {
        let value = f(a) + f(b);
        single(if value > 0.0 { value.min(1.0) } else { 0.0 })
    }));
    check(&forms, 2048);
}

/// A double's operation in a direction, from the one to nearest and the sign of its error.
fn directed(near: f64, error: f64, round: Round) -> f64 {
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

#[test]
fn double_arithmetic_rounds_in_every_direction() {
    let mut forms: Vec<Form> = Vec::new();
    let double =
        |value: f64| if value.is_nan() { Expected::Near(f64::NAN, 0.0, 0.0) } else { Expected::Bits(value.to_bits()) };
    // Where errors are not numbers themselves (near the ends of the range) the model says nothing.
    let middling = |x: f64| x == 0.0 || (x.is_finite() && (1e-100..1e100).contains(&x.abs()));
    for (name, round) in ROUNDS {
        forms.push(form(&format!("add.{name}.f64 %d, %a, %b;"), "f64", &["f64", "f64"], move |[a, b, _]| {
            let (x, y) = (d(a), d(b));
            if round != Round::Near && !(middling(x) && middling(y)) || (x + y == 0.0) {
                return if round == Round::Near { double(x + y) } else { Expected::Anything };
            }
            double(directed(x + y, sum(x, y).1, round))
        }));
        forms.push(form(&format!("mul.{name}.f64 %d, %a, %b;"), "f64", &["f64", "f64"], move |[a, b, _]| {
            let (x, y) = (d(a), d(b));
            if round != Round::Near && !(middling(x) && middling(y)) {
                return Expected::Anything;
            }
            double(directed(x * y, x.mul_add(y, -(x * y)), round))
        }));
        forms.push(form(&format!("div.{name}.f64 %d, %a, %b;"), "f64", &["f64", "f64"], move |[a, b, _]| {
            let (x, y) = (d(a), d(b));
            if round != Round::Near && !(middling(x) && middling(y)) {
                return Expected::Anything;
            }
            let q = x / y;
            double(directed(q, if q.is_finite() { (-q).mul_add(y, x) * y.signum() } else { 0.0 }, round))
        }));
        forms.push(form(&format!("sqrt.{name}.f64 %d, %a;"), "f64", &["f64"], move |[a, ..]| {
            let x = d(a);
            if round != Round::Near && !middling(x) {
                return Expected::Anything;
            }
            let q = x.sqrt();
            double(directed(q, (-q).mul_add(q, x), round))
        }));
    }
    forms.push(form("fma.rn.f64 %d, %a, %b, %c;", "f64", &["f64"; 3], move |[a, b, c]| {
        double(d(a).mul_add(d(b), d(c)))
    }));
    forms.push(form("sub.f64 %d, %a, %b;", "f64", &["f64", "f64"], move |[a, b, _]| double(d(a) - d(b))));
    forms.push(exact("neg.f64 %d, %a;", "f64", &["f64"], |[a, ..]| a ^ 1 << 63));
    forms.push(exact("abs.f64 %d, %a;", "f64", &["f64"], |[a, ..]| a & !(1 << 63)));
    check(&forms, 2048);
}

fn least(a: f64, b: f64) -> f64 {
    let first = b.is_nan() || a < b || (a == b && a.is_sign_negative());
    if first && !a.is_nan() { a } else { b }
}

fn most(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { least(a, b) } else { -least(-a, -b) }
}

#[test]
fn extremes_signs_and_classes() {
    let mut forms: Vec<Form> = Vec::new();
    let number = |kind: &str, bits: u64| match kind {
        "f64" => d(bits),
        "f16" => half::f16::from_bits(bits as u16).to_f64(),
        "bf16" => f64::from(f32::from_bits((bits as u32) << 16)),
        _ => f64::from(f(bits)),
    };
    for kind in ["f32", "f64", "f16", "bf16"] {
        let raw = match kind {
            "f32" => "f32",
            "f64" => "f64",
            _ => "b16",
        };
        let bits = move |value: f64| match kind {
            "f64" => value.to_bits(),
            "f16" => {
                if value.is_nan() {
                    0x7fff
                } else {
                    u64::from(half::f16::from_f64(value).to_bits())
                }
            }
            "bf16" => {
                if value.is_nan() {
                    0x7fff
                } else {
                    u64::from((value as f32).to_bits() >> 16)
                }
            }
            _ => single(value as f32),
        };
        for (name, pick) in [("min", least as fn(f64, f64) -> f64), ("max", most)] {
            forms.push(form(&format!("{name}.{kind} %d, %a, %b;"), raw, &[raw, raw], move |[a, b, _]| {
                let value = pick(number(kind, a), number(kind, b));
                if value.is_nan() && kind == "f64" {
                    Expected::Near(f64::NAN, 0.0, 0.0)
                } else {
                    Expected::Bits(bits(value))
                }
            }));
            if kind != "f64" {
                forms.push(exact(&format!("{name}.NaN.{kind} %d, %a, %b;"), raw, &[raw, raw], move |[a, b, _]| {
                    let (x, y) = (number(kind, a), number(kind, b));
                    bits(if x.is_nan() || y.is_nan() { f64::NAN } else { pick(x, y) })
                }));
                forms.push(exact(
                    &format!("{name}.NaN.xorsign.abs.{kind} %d, %a, %b;"),
                    raw,
                    &[raw, raw],
                    move |[a, b, _]| {
                        let (x, y) = (number(kind, a), number(kind, b));
                        if x.is_nan() || y.is_nan() {
                            return bits(f64::NAN);
                        }
                        let value = pick(x.abs(), y.abs());
                        bits(if x.is_sign_negative() != y.is_sign_negative() { -value } else { value })
                    },
                ));
            }
        }
        if matches!(kind, "f32" | "f64") {
            let top = if kind == "f64" { 63 } else { 31 };
            forms.push(exact(&format!("copysign.{kind} %d, %a, %b;"), raw, &[raw, raw], move |[a, b, _]| {
                b & !(1 << top) | a & 1 << top
            }));
            let tests: [(&str, ClassTest); 6] = [
                ("finite", |x, _| x.is_finite()),
                ("infinite", |x, _| x.is_infinite()),
                ("number", |x, _| !x.is_nan()),
                ("notanumber", |x, _| x.is_nan()),
                ("normal", |x, subnormal| x.is_finite() && x != 0.0 && !subnormal),
                ("subnormal", |x, subnormal| subnormal && x != 0.0),
            ];
            for (name, test) in tests {
                forms.push(exact(&format!("testp.{name}.{kind} %d, %a;"), "pred", &[raw], move |[a, ..]| {
                    let subnormal = if kind == "f64" { d(a).is_subnormal() } else { f(a).is_subnormal() };
                    u64::from(test(number(kind, a), subnormal))
                }));
            }
        }
        let comparisons: [(&str, Test); 14] = [
            ("eq", |a, b| a == b),
            ("ne", |a, b| a.partial_cmp(&b).is_some_and(std::cmp::Ordering::is_ne)),
            ("lt", |a, b| a < b),
            ("le", |a, b| a <= b),
            ("gt", |a, b| a > b),
            ("ge", |a, b| a >= b),
            ("equ", |a, b| a.is_nan() || b.is_nan() || a == b),
            ("neu", |a, b| a != b),
            ("ltu", |a, b| a.is_nan() || b.is_nan() || a < b),
            ("leu", |a, b| a.is_nan() || b.is_nan() || a <= b),
            ("gtu", |a, b| a.is_nan() || b.is_nan() || a > b),
            ("geu", |a, b| a.is_nan() || b.is_nan() || a >= b),
            ("num", |a, b| !a.is_nan() && !b.is_nan()),
            ("nan", |a, b| a.is_nan() || b.is_nan()),
        ];
        for (name, test) in comparisons {
            forms.push(exact(&format!("setp.{name}.{kind} %d, %a, %b;"), "pred", &[raw, raw], move |[a, b, _]| {
                u64::from(test(number(kind, a), number(kind, b)))
            }));
        }
    }
    forms.push(exact("setp.lt.ftz.f32 %d, %a, %b;", "pred", &["f32", "f32"], |[a, b, _]| {
        u64::from(flush(f(a)) < flush(f(b)))
    }));
    forms.push(exact("min.ftz.f32 %d, %a, %b;", "f32", &["f32", "f32"], |[a, b, _]| {
        single(least(f64::from(flush(f(a))), f64::from(flush(f(b)))) as f32)
    }));
    forms.push(exact("max.f32 %d, %a, %b, %c;", "f32", &["f32"; 3], |[a, b, c]| {
        single(most(most(f64::from(f(a)), f64::from(f(b))), f64::from(f(c))) as f32)
    }));
    check(&forms, 1024);
}

/// All numbers of a format of one sign, by code, and the code that follows the last.
struct Table {
    numbers: Vec<f64>,
    sign: u64,
    nan: u64,
    /// What too large numbers become to nearest: infinity's code or the largest number's.
    overflow: u64,
    bits: u32,
}

fn table(exponent: u32, fraction: u32, last: u64, nan: u64, infinite: bool) -> Table {
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
    /// The code of a number that f64 holds but for an error.
    fn code(&self, exact: Exact, round: Round, saturate: bool) -> u64 {
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

    fn value(&self, code: u64) -> f64 {
        let magnitude = code & (self.sign - 1);
        let value = match self.numbers.get(magnitude as usize) {
            Some(value) => *value,
            None if magnitude == self.overflow => f64::INFINITY,
            None => f64::NAN,
        };
        if code & self.sign != 0 { -value } else { value }
    }
}

fn f16() -> Table {
    table(5, 10, 0x7bff, 0x7fff, true)
}

fn bf16() -> Table {
    table(8, 7, 0x7f7f, 0x7fff, true)
}

#[test]
fn conversions_between_floats() {
    let mut forms: Vec<Form> = Vec::new();
    for (name, round) in ROUNDS {
        let (half, brain) = (f16(), bf16());
        if matches!(round, Round::Near | Round::Zero) {
            forms.push(exact(&format!("cvt.{name}.f16.f32 %d, %a;"), "b16", &["f32"], move |[a, ..]| {
                half.code(Exact(f64::from(f(a)), 0.0), round, false)
            }));
            forms.push(exact(&format!("cvt.{name}.bf16.f32 %d, %a;"), "b16", &["f32"], move |[a, ..]| {
                brain.code(Exact(f64::from(f(a)), 0.0), round, false)
            }));
            let (half, brain) = (f16(), bf16());
            forms.push(exact(
                &format!("cvt.{name}.f16x2.f32 %d, %a, %b;"),
                "b32",
                &["f32", "f32"],
                move |[a, b, _]| {
                    let code = |x| half.code(Exact(f64::from(f(x)), 0.0), round, false);
                    code(a) << 16 | code(b)
                },
            ));
            forms.push(exact(
                &format!("cvt.{name}.bf16x2.f32 %d, %a, %b;"),
                "b32",
                &["f32", "f32"],
                move |[a, b, _]| {
                    let code = |x| brain.code(Exact(f64::from(f(x)), 0.0), round, false);
                    code(a) << 16 | code(b)
                },
            ));
            let brain = bf16();
            forms.push(exact(
                &format!("cvt.{name}.relu.bf16x2.f32 %d, %a, %b;"),
                "b32",
                &["f32", "f32"],
                move |[a, b, _]| {
                    let relu = |x: f32| if x.is_nan() || x > 0.0 { x } else { 0.0 };
                    let code = |x| brain.code(Exact(f64::from(relu(f(x))), 0.0), round, false);
                    code(a) << 16 | code(b)
                },
            ));
        }
        let half = f16();
        forms.push(exact(&format!("cvt.{name}.f16.f64 %d, %a;"), "b16", &["f64"], move |[a, ..]| {
            half.code(Exact(d(a), 0.0), round, false)
        }));
        forms.push(exact(&format!("cvt.{name}.f32.f64 %d, %a;"), "f32", &["f64"], move |[a, ..]| {
            single(to_single(Exact(d(a), 0.0), round))
        }));
    }
    let half = f16();
    forms.push(exact("cvt.f32.f16 %d, %a;", "f32", &["b16"], move |[a, ..]| {
        let value = half.value(a);
        if value.is_nan() { u64::from(half::f16::from_bits(a as u16).to_f32().to_bits()) } else { single(value as f32) }
    }));
    forms.push(exact("cvt.f32.bf16 %d, %a;", "f32", &["b16"], |[a, ..]| a << 16));
    forms.push(form("cvt.f64.f32 %d, %a;", "f64", &["f32"], |[a, ..]| {
        if f(a).is_nan() { Expected::Near(f64::NAN, 0.0, 0.0) } else { Expected::Bits(f64::from(f(a)).to_bits()) }
    }));
    forms.push(exact("cvt.ftz.f64.f32 %d, %a;", "f64", &["f32"], |[a, ..]| {
        let x = flush(f(a));
        f64::from(x).to_bits()
    }));
    forms.push(exact("cvt.sat.f32.f32 %d, %a;", "f32", &["f32"], |[a, ..]| {
        single(if f(a) > 0.0 { f(a).min(1.0) } else { 0.0 })
    }));
    let integral: [(&str, Unary); 4] =
        [("rni", f64::round_ties_even), ("rzi", f64::trunc), ("rmi", f64::floor), ("rpi", f64::ceil)];
    for (name, to) in integral {
        forms.push(exact(&format!("cvt.{name}.f32.f32 %d, %a;"), "f32", &["f32"], move |[a, ..]| {
            single(to(f64::from(f(a))) as f32)
        }));
        forms.push(form(&format!("cvt.{name}.f64.f64 %d, %a;"), "f64", &["f64"], move |[a, ..]| {
            if d(a).is_nan() { Expected::Near(f64::NAN, 0.0, 0.0) } else { Expected::Bits(to(d(a)).to_bits()) }
        }));
        for (kind, low, high, raw) in [
            ("s32", -(2f64.powi(31)), 2f64.powi(31) - 1.0, "b32"),
            ("u32", 0.0, 2f64.powi(32) - 1.0, "b32"),
            ("s16", -32768.0, 32767.0, "b16"),
            ("u16", 0.0, 65535.0, "b16"),
            ("s64", -(2f64.powi(63)), 2f64.powi(63), "b64"),
            ("u64", 0.0, 2f64.powi(64), "b64"),
        ] {
            for source in ["f32", "f64"] {
                forms.push(exact(&format!("cvt.{name}.{kind}.{source} %d, %a;"), raw, &[source], move |[a, ..]| {
                    let x = if source == "f32" { f64::from(f(a)) } else { d(a) };
                    let bits = forms::bits_of(raw);
                    if x.is_nan() {
                        return if source == "f64" || bits == 64 { 1 << (bits - 1) } else { 0 };
                    }
                    let value = to(x).clamp(low, high);
                    if kind == "u64" { value as u64 } else { value as i64 as u64 }
                }));
            }
        }
    }
    for kind in ["u16", "s16", "u32", "s32", "u64", "s64"] {
        let raw = match kind {
            "u16" | "s16" => "b16",
            "u32" | "s32" => "b32",
            _ => "b64",
        };
        let number = move |a: u64| {
            let bits = forms::bits_of(raw);
            if kind.starts_with('s') { i128::from((a << (64 - bits)) as i64 >> (64 - bits)) } else { i128::from(a) }
        };
        for (name, round) in ROUNDS {
            forms.push(exact(&format!("cvt.{name}.f32.{kind} %d, %a;"), "f32", &[raw], move |[a, ..]| {
                let n = number(a);
                // What f64 cannot hold is its error.
                single(to_single(Exact(n as f64, (n - n as f64 as i128) as f64), round))
            }));
            forms.push(exact(&format!("cvt.{name}.f64.{kind} %d, %a;"), "f64", &[raw], move |[a, ..]| {
                let n = number(a);
                directed(n as f64, (n - n as f64 as i128) as f64, round).to_bits()
            }));
        }
    }
    check(&forms, 1024);
}

#[test]
fn eight_and_fewer_bits() {
    let mut forms: Vec<Form> = Vec::new();
    let e4m3 = || table(4, 3, 0x7e, 0x7f, false);
    let e5m2 = || table(5, 2, 0x7b, 0x7f, true);
    for (name, make) in [("e4m3x2", &e4m3 as &dyn Fn() -> Table), ("e5m2x2", &e5m2)] {
        let format = make();
        forms.push(exact(
            &format!("cvt.rn.satfinite.{name}.f32 %d, %a, %b;"),
            "b16",
            &["f32", "f32"],
            move |[a, b, _]| {
                let code = |x| format.code(Exact(f64::from(f(x)), 0.0), Round::Near, true);
                code(a) << 8 | code(b)
            },
        ));
        let format = make();
        forms.push(exact(
            &format!("cvt.rn.satfinite.relu.{name}.f32 %d, %a, %b;"),
            "b16",
            &["f32", "f32"],
            move |[a, b, _]| {
                let relu = |x: f32| if x.is_nan() || x > 0.0 { x } else { 0.0 };
                let code = |x| format.code(Exact(f64::from(relu(f(x))), 0.0), Round::Near, true);
                code(a) << 8 | code(b)
            },
        ));
        let (format, half) = (make(), f16());
        forms.push(exact(&format!("cvt.rn.satfinite.{name}.f16x2 %d, %a;"), "b16", &["b32"], move |[a, ..]| {
            let code = |x| format.code(Exact(half.value(x), 0.0), Round::Near, true);
            code(a >> 16) << 8 | code(a & 0xffff)
        }));
        let (format, half) = (make(), f16());
        forms.push(exact(&format!("cvt.rn.f16x2.{name} %d, %a;"), "b32", &["b16"], move |[a, ..]| {
            let code = |x| half.code(Exact(format.value(x), 0.0), Round::Near, false);
            code(a >> 8) << 16 | code(a & 0xff)
        }));
    }
    for (name, exponent, fraction, bits) in [("e2m1x2", 2, 1, 4u32), ("e2m3x2", 2, 3, 8), ("e3m2x2", 3, 2, 8)] {
        let last = (1u64 << (exponent + fraction)) - 1;
        let format = table(exponent, fraction, last, last, false);
        let (raw, text) = if bits == 4 {
            ("b16", format!("{{ .reg .b8 %x; cvt.rn.satfinite.{name}.f32 %x, %a, %b; mov.b16 %d, {{%x, 0}}; }}"))
        } else {
            ("b16", format!("cvt.rn.satfinite.{name}.f32 %d, %a, %b;"))
        };
        forms.push(exact(&text, raw, &["f32", "f32"], move |[a, b, _]| {
            let code = |x| format.code(Exact(f64::from(f(x)), 0.0), Round::Near, true);
            code(a) << bits | code(b)
        }));
    }
    for (name, up) in [("rz", false), ("rp", true)] {
        forms.push(form(
            &format!("cvt.{name}.satfinite.ue8m0x2.f32 %d, %a, %b;"),
            "b16",
            &["f32", "f32"],
            move |[a, b, _]| {
                let code = |x: f32| -> Option<u64> {
                    if x.is_nan() {
                        return Some(0xff);
                    }
                    // What negative numbers become is not stated for all; zero and less stay out.
                    if x <= 0.0 {
                        return None;
                    }
                    let x = f64::from(x).min(f64::from(f32::MAX));
                    let mut power = -127;
                    while 2f64.powi(power + 1) <= x && power < 127 {
                        power += 1;
                    }
                    let above = 2f64.powi(power) < x && up;
                    Some(((power + i32::from(above)).clamp(-127, 127) + 127) as u64)
                };
                match (code(f(a)), code(f(b))) {
                    (Some(x), Some(y)) => Expected::Bits(x << 8 | y),
                    _ => Expected::Anything,
                }
            },
        ));
    }
    let half_up = |a: u64| {
        // To nearest, ties away from zero, at bit 13.
        if f(a).is_nan() {
            0x7fff_ffff & !0x1fff | 0x1fff
        } else {
            ((a & 0x7fff_ffff) + 0x1000) & !0x1fff | a & 0x8000_0000
        }
    };
    forms.push(form("cvt.rna.tf32.f32 %d, %a;", "b32", &["f32"], move |[a, ..]| {
        if f(a).is_nan() {
            Expected::Near(f64::NAN, 0.0, 0.0)
        } else if f(a).is_infinite() {
            Expected::Bits(a)
        } else {
            Expected::Bits(half_up(a))
        }
    }));
    check(&forms, 2048);
}

#[test]
fn half_precision_arithmetic() {
    let mut forms: Vec<Form> = Vec::new();
    for (kind, make) in [("f16", f16 as fn() -> Table), ("bf16", bf16)] {
        let value = move |op: &str, format: &Table, a: u64, b: u64, c: u64| {
            let (x, y, z) = (format.value(a), format.value(b), format.value(c));
            let exact = match op {
                "add" => sum(x, y),
                "sub" => sum(x, -y),
                "mul" => Exact(x * y, 0.0),
                _ => sum(x * y, z),
            };
            format.code(exact, Round::Near, false)
        };
        for op in ["add", "sub", "mul"] {
            let format = make();
            let name = if op == "mul" { "mul.rn" } else { op };
            forms.push(exact(&format!("{name}.{kind} %d, %a, %b;"), "b16", &["b16", "b16"], move |[a, b, _]| {
                value(op, &format, a, b, 0)
            }));
            let format = make();
            forms.push(exact(&format!("{name}.{kind}x2 %d, %a, %b;"), "b32", &["b32", "b32"], move |[a, b, _]| {
                value(op, &format, a & 0xffff, b & 0xffff, 0) | value(op, &format, a >> 16, b >> 16, 0) << 16
            }));
        }
        let format = make();
        forms.push(exact(&format!("fma.rn.{kind} %d, %a, %b, %c;"), "b16", &["b16"; 3], move |[a, b, c]| {
            value("fma", &format, a, b, c)
        }));
        let format = make();
        forms.push(exact(&format!("fma.rn.relu.{kind}x2 %d, %a, %b, %c;"), "b32", &["b32"; 3], move |[a, b, c]| {
            let one = |at: u32| {
                let code = value("fma", &format, a >> at & 0xffff, b >> at & 0xffff, c >> at & 0xffff);
                if format.value(code) < 0.0 || code == 0x8000 { 0 } else { code }
            };
            one(0) | one(16) << 16
        }));
        let signs: [(&str, Signs); 2] = [("neg", |a| a ^ 0x8000_8000), ("abs", |a| a & 0x7fff_7fff)];
        for (name, f) in signs {
            forms.push(exact(&format!("{name}.{kind}x2 %d, %a;"), "b32", &["b32"], move |[a, ..]| f(a)));
        }
    }
    let format = f16();
    forms.push(exact("add.ftz.sat.f16 %d, %a, %b;", "b16", &["b16", "b16"], move |[a, b, _]| {
        let flush = |code: u64| if code & 0x7c00 == 0 { code & 0x8000 } else { code };
        let code = flush(format.code(sum(format.value(flush(a)), format.value(flush(b))), Round::Near, false));
        let value = format.value(code);
        if value > 1.0 {
            0x3c00
        } else if value > 0.0 {
            code
        } else {
            0
        }
    }));
    check(&forms, 4096);
}

#[test]
fn approximations_are_as_near_as_the_isa_says() {
    let mut forms: Vec<Form> = Vec::new();
    let ulp = 2f64.powi(-23);
    let mut add = |text: &str, absolute: f64, relative: f64, model: fn(f64) -> f64| {
        let ftz = text.contains("ftz");
        forms.push(form(text, "f32", &["f32"], move |[a, ..]| {
            let x = if ftz { flush(f(a)) } else { f(a) };
            let value = model(f64::from(x));
            // Results below the smallest normal number can be flushed or not exact.
            let tiny = value.abs() < f64::from(f32::MIN_POSITIVE) && value != 0.0;
            if value.abs() > f64::from(f32::MAX) && value.is_finite() {
                return Expected::Near(f64::INFINITY.copysign(value), 0.0, 0.0);
            }
            Expected::Near(value, if tiny { f64::from(f32::MIN_POSITIVE) } else { absolute }, relative)
        }));
    };
    add("rcp.approx.f32 %d, %a;", 0.0, ulp, |x| 1.0 / x);
    add("rcp.approx.ftz.f32 %d, %a;", 0.0, ulp, |x| 1.0 / x);
    add("sqrt.approx.f32 %d, %a;", 0.0, ulp, f64::sqrt);
    add("rsqrt.approx.f32 %d, %a;", 0.0, 2f64.powf(-22.9), |x| 1.0 / x.sqrt());
    add("ex2.approx.f32 %d, %a;", 0.0, 2f64.powi(-22), f64::exp2);
    add("ex2.approx.ftz.f32 %d, %a;", 0.0, 2f64.powi(-22), f64::exp2);
    add("lg2.approx.f32 %d, %a;", 2f64.powi(-22), 2f64.powi(-22), f64::log2);
    add("tanh.approx.f32 %d, %a;", 0.0, 2f64.powi(-11), f64::tanh);
    for (name, model) in [("sin", f64::sin as fn(f64) -> f64), ("cos", f64::cos)] {
        forms.push(form(&format!("{name}.approx.f32 %d, %a;"), "f32", &["f32"], move |[a, ..]| {
            let x = f64::from(f(a));
            if x.abs() > 100.0 && x.is_finite() {
                return Expected::Anything;
            }
            Expected::Near(model(x), 2f64.powf(-20.5), 0.0)
        }));
    }
    for (name, relative) in [("approx", 2.0 * ulp), ("full", 2.0 * ulp)] {
        forms.push(form(&format!("div.{name}.f32 %d, %a, %b;"), "f32", &["f32", "f32"], move |[a, b, _]| {
            let (x, y) = (f64::from(f(a)), f64::from(f(b)));
            let size = y.abs();
            if !(2f64.powi(-126)..=2f64.powi(126)).contains(&size) && y != 0.0 && y.is_finite() {
                return Expected::Anything;
            }
            let value = x / y;
            if value.abs() > f64::from(f32::MAX) && value.is_finite() {
                return Expected::Near(f64::INFINITY.copysign(value), 0.0, 0.0);
            }
            let tiny = value.abs() < f64::from(f32::MIN_POSITIVE);
            Expected::Near(value, if tiny { f64::from(f32::MIN_POSITIVE) } else { 0.0 }, relative)
        }));
    }
    forms.push(form("rcp.approx.ftz.f64 %d, %a;", "f64", &["f64"], |[a, ..]| {
        let x = f64::from_bits(a);
        if x.is_subnormal() || (1.0 / x).is_subnormal() {
            Expected::Anything
        } else {
            Expected::Near(1.0 / x, 0.0, 2f64.powi(-19))
        }
    }));
    for kind in ["f16", "bf16"] {
        let ftz = if kind == "bf16" { ".ftz" } else { "" };
        forms.push(form(&format!("ex2.approx{ftz}.{kind} %d, %a;"), "b16", &["b16"], move |[a, ..]| {
            let format = if kind == "f16" { f16() } else { bf16() };
            let (x, flushed) = (format.value(a), if kind == "bf16" && a & 0x7f80 == 0 { 0.0 } else { format.value(a) });
            let _ = x;
            let value = flushed.exp2();
            let code = format.code(Exact(value, 0.0), Round::Near, false);
            if kind == "bf16" && code & 0x7f80 == 0 { Expected::Bits(0) } else { Expected::Bits(code) }
        }));
    }
    check(&forms, 2048);
}

#[test]
fn two_singles_in_one_register() {
    let mut forms: Vec<Form> = Vec::new();
    let operations: [(&str, Singles); 3] = [("add", |a, b| a + b), ("sub", |a, b| a - b), ("mul", |a, b| a * b)];
    for (name, op) in operations {
        forms.push(exact(&format!("{name}.rn.f32x2 %d, %a, %b;"), "b64", &["b64", "b64"], move |[a, b, _]| {
            single(op(f(a), f(b))) | single(op(f(a >> 32), f(b >> 32))) << 32
        }));
    }
    forms.push(exact("fma.rn.f32x2 %d, %a, %b, %c;", "b64", &["b64"; 3], |[a, b, c]| {
        single(f(a).mul_add(f(b), f(c))) | single(f(a >> 32).mul_add(f(b >> 32), f(c >> 32))) << 32
    }));
    check(&forms, 1024);
}

#[test]
fn tables_of_the_models_agree_with_another_library() {
    for (format, to) in [
        (f16(), (|x| half::f16::from_f32(x).to_bits()) as fn(f32) -> u16),
        (bf16(), |x| half::bf16::from_f32(x).to_bits()),
    ] {
        assert_eq!(format.bits, 16);
        for step in 0..100_000u32 {
            let x = f32::from_bits(step.wrapping_mul(42_949));
            if !x.is_nan() {
                assert_eq!(format.code(Exact(f64::from(x), 0.0), Round::Near, false), u64::from(to(x)), "{x}");
            }
        }
    }
}
