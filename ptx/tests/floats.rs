//! Floating-point instructions against models that share nothing with the machine: sums and products with their errors in f64.

use crate::forms::{Expected, Form, check, exact, form};
use crate::rounding::*;

type Singles = fn(f32, f32) -> f32;
type ClassTest = fn(f64, bool) -> bool;
type Test = fn(f64, f64) -> bool;

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
