//! Conversions between formats and arithmetic in the small ones, against tables of all their numbers.

use crate::forms::{self, Expected, Form, check, exact, form};
use crate::rounding::*;

type Unary = fn(f64) -> f64;
type Signs = fn(u64) -> u64;

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
