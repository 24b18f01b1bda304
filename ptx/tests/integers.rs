//! Integer instructions against plain Rust in wide integers, on special and random operands.

use crate::forms::{self, Form, check, exact};

type Binary = fn(i128, i128) -> i128;
type Test = fn(i128, i128) -> bool;

fn sign(value: u64, bits: u32) -> i128 {
    i128::from((value << (64 - bits)) as i64 >> (64 - bits))
}

/// The number that bits mean in a type like `s32`.
fn number(kind: &str, value: u64) -> i128 {
    let bits = forms::bits_of(kind);
    if kind.starts_with('s') { sign(value, bits) } else { i128::from(value) & ((1 << bits) - 1) }
}

fn range(kind: &str) -> (i128, i128) {
    let bits = forms::bits_of(kind);
    if kind.starts_with('s') { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

fn untyped(kind: &str) -> &'static str {
    match forms::bits_of(kind) {
        16 => "b16",
        32 => "b32",
        _ => "b64",
    }
}

const ALL: [&str; 6] = ["u16", "s16", "u32", "s32", "u64", "s64"];

/// d = f(a, b), in the type of the instruction.
fn binary(op: &str, kind: &'static str, f: impl Fn(i128, i128) -> i128 + 'static) -> Form {
    let raw = untyped(kind);
    exact(&format!("{op}.{kind} %d, %a, %b;"), raw, &[raw, raw], move |[a, b, _]| {
        f(number(kind, a), number(kind, b)) as u64
    })
}

fn ternary(op: &str, kind: &'static str, f: impl Fn(i128, i128, i128) -> i128 + 'static) -> Form {
    let raw = untyped(kind);
    exact(&format!("{op}.{kind} %d, %a, %b, %c;"), raw, &[raw, raw, raw], move |[a, b, c]| {
        f(number(kind, a), number(kind, b), number(kind, c)) as u64
    })
}

#[test]
fn arithmetic() {
    let mut forms = Vec::new();
    for kind in ALL {
        let bits = forms::bits_of(kind);
        forms.push(binary("add", kind, |a, b| a + b));
        forms.push(binary("sub", kind, |a, b| a - b));
        forms.push(binary("mul.lo", kind, i128::wrapping_mul));
        forms.push(binary("mul.hi", kind, move |a, b| {
            // Unsigned products of 64 bits need all 128.
            if kind == "u64" { ((a as u128 * b as u128) >> 64) as i128 } else { (a * b) >> bits }
        }));
        forms.push(ternary("mad.lo", kind, |a, b, c| a.wrapping_mul(b).wrapping_add(c)));
        forms.push(ternary("mad.hi", kind, move |a, b, c| {
            (if kind == "u64" { ((a as u128 * b as u128) >> 64) as i128 } else { (a * b) >> bits }) + c
        }));
        forms.push(binary("min", kind, i128::min));
        forms.push(binary("max", kind, i128::max));
        forms.push(ternary("sad", kind, |a, b, c| c + (a - b).abs()));
        // By zero the result is not defined; here it is all ones and the dividend.
        forms.push(binary("div", kind, |a, b| if b == 0 { -1 } else { a / b }));
        forms.push(binary("rem", kind, |a, b| if b == 0 { a } else { a % b }));
        if bits < 64 {
            let (raw, wide) = (untyped(kind), if bits == 16 { "b32" } else { "b64" });
            forms.push(exact(&format!("mul.wide.{kind} %d, %a, %b;"), wide, &[raw, raw], move |[a, b, _]| {
                (number(kind, a) * number(kind, b)) as u64
            }));
            forms.push(exact(
                &format!("mad.wide.{kind} %d, %a, %b, %c;"),
                wide,
                &[raw, raw, wide],
                move |[a, b, c]| ((number(kind, a) * number(kind, b)) as u64).wrapping_add(c),
            ));
        }
        if kind.starts_with('s') {
            let raw = untyped(kind);
            forms.push(exact(&format!("neg.{kind} %d, %a;"), raw, &[raw], move |[a, ..]| -number(kind, a) as u64));
            forms.push(exact(&format!("abs.{kind} %d, %a;"), raw, &[raw], move |[a, ..]| {
                number(kind, a).unsigned_abs() as u64
            }));
        }
    }
    let clamp = |value: i128| value.clamp(range("s32").0, range("s32").1);
    forms.push(binary("add.sat", "s32", move |a, b| clamp(a + b)));
    forms.push(binary("sub.sat", "s32", move |a, b| clamp(a - b)));
    forms.push(ternary("mad.hi.sat", "s32", move |a, b, c| clamp(((a * b) >> 32) + c)));
    forms.push(binary("min.relu", "s32", |a, b| a.min(b).max(0)));
    forms.push(binary("max.relu", "s32", |a, b| a.max(b).max(0)));
    for kind in ["u32", "s32"] {
        let low = move |value: i128| if kind == "s32" { sign(value as u64 & 0xff_ffff, 24) } else { value & 0xff_ffff };
        forms.push(binary("mul24.lo", kind, move |a, b| low(a) * low(b)));
        forms.push(binary("mul24.hi", kind, move |a, b| (low(a) * low(b)) >> 16));
        forms.push(ternary("mad24.lo", kind, move |a, b, c| low(a) * low(b) + c));
        forms.push(ternary("mad24.hi", kind, move |a, b, c| ((low(a) * low(b)) >> 16) + c));
    }
    forms.push(ternary("mad24.hi.sat", "s32", move |a, b, c| {
        let product = sign(a as u64 & 0xff_ffff, 24) * sign(b as u64 & 0xff_ffff, 24);
        clamp(sign((product >> 16) as u64, 32) + c)
    }));
    check(&forms, 1024);
}

#[test]
fn carries() {
    let mut forms = Vec::new();
    // A carry is made visible by adding zeros behind it; behind a subtraction it is one where nothing was borrowed.
    forms.push(exact(
        "{ .reg .b32 %x; add.cc.u32 %x, %a, %b; addc.u32 %d, 0, 0; }",
        "b32",
        &["b32", "b32"],
        |[a, b, _]| (a + b) >> 32,
    ));
    forms.push(exact(
        "{ .reg .b32 %x; sub.cc.u32 %x, %a, %b; subc.u32 %d, 0, 0; }",
        "b32",
        &["b32", "b32"],
        |[a, b, _]| {
            if a < b { u64::from(u32::MAX) } else { 0 }
        },
    ));
    forms.push(exact(
        "{ .reg .b32 %l, %h, %m, %n; mov.b64 {%l, %h}, %a; mov.b64 {%m, %n}, %b; add.cc.u32 %l, %l, %m; addc.u32 %h, %h, %n; mov.b64 %d, {%l, %h}; }",
        "b64",
        &["b64", "b64"],
        |[a, b, _]| a.wrapping_add(b),
    ));
    forms.push(exact(
        "{ .reg .b32 %l, %h, %m, %n; mov.b64 {%l, %h}, %a; mov.b64 {%m, %n}, %b; sub.cc.u32 %l, %l, %m; subc.u32 %h, %h, %n; mov.b64 %d, {%l, %h}; }",
        "b64",
        &["b64", "b64"],
        |[a, b, _]| a.wrapping_sub(b),
    ));
    forms.push(exact(
        "{ .reg .b64 %x; add.cc.u64 %x, %a, %b; addc.cc.u64 %d, %a, %c; }",
        "b64",
        &["b64", "b64", "b64"],
        |[a, b, c]| a.wrapping_add(c).wrapping_add(u64::from(a.checked_add(b).is_none())),
    ));
    forms.push(exact(
        "{ .reg .b32 %x; mad.lo.cc.u32 %x, %a, %b, %c; madc.hi.u32 %d, %a, %b, %c; }",
        "b32",
        &["b32", "b32", "b32"],
        |[a, b, c]| {
            let carry = (((a * b) & 0xffff_ffff) + c) >> 32;
            ((a * b) >> 32) + c + carry
        },
    ));
    check(&forms, 1024);
}

#[test]
fn bits() {
    let mut forms = Vec::new();
    for (raw, bits) in [("b16", 16u32), ("b32", 32), ("b64", 64)] {
        let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        forms.push(exact(&format!("and.{raw} %d, %a, %b;"), raw, &[raw, raw], |[a, b, _]| a & b));
        forms.push(exact(&format!("or.{raw} %d, %a, %b;"), raw, &[raw, raw], |[a, b, _]| a | b));
        forms.push(exact(&format!("xor.{raw} %d, %a, %b;"), raw, &[raw, raw], |[a, b, _]| a ^ b));
        forms.push(exact(&format!("not.{raw} %d, %a;"), raw, &[raw], |[a, ..]| !a));
        forms.push(exact(&format!("cnot.{raw} %d, %a;"), raw, &[raw], |[a, ..]| u64::from(a == 0)));
        forms.push(exact(&format!("shl.{raw} %d, %a, %b;"), raw, &[raw, "b32"], move |[a, b, _]| {
            if b >= u64::from(bits) { 0 } else { a << b & mask }
        }));
        for kind in [format!("b{bits}"), format!("u{bits}")] {
            forms.push(exact(&format!("shr.{kind} %d, %a, %b;"), raw, &[raw, "b32"], move |[a, b, _]| {
                if b >= u64::from(bits) { 0 } else { a >> b }
            }));
        }
        forms.push(exact(&format!("shr.s{bits} %d, %a, %b;"), raw, &[raw, "b32"], move |[a, b, _]| {
            (sign(a, bits) >> b.min(127)) as u64
        }));
        for amount in [0, 1, bits - 1, bits, bits + 9] {
            forms.push(exact(&format!("shr.s{bits} %d, %a, {amount};"), raw, &[raw], move |[a, ..]| {
                (sign(a, bits) >> amount) as u64
            }));
            forms.push(exact(&format!("shl.b{bits} %d, %a, {amount};"), raw, &[raw], move |[a, ..]| {
                if amount >= bits { 0 } else { a << amount }
            }));
        }
        forms.push(exact(
            &format!("selp.{raw} %d, %a, %b, %c;"),
            raw,
            &[raw, raw, "pred"],
            |[a, b, c]| if c != 0 { a } else { b },
        ));
        if bits > 16 {
            forms.push(exact(&format!("popc.{raw} %d, %a;"), "b32", &[raw], |[a, ..]| u64::from(a.count_ones())));
            forms.push(exact(&format!("clz.{raw} %d, %a;"), "b32", &[raw], move |[a, ..]| {
                u64::from(a.leading_zeros() + bits - 64)
            }));
            forms.push(exact(&format!("brev.{raw} %d, %a;"), raw, &[raw], move |[a, ..]| {
                a.reverse_bits() >> (64 - bits)
            }));
            forms.push(exact(&format!("bfi.{raw} %d, %a, %b, %c, 9;"), raw, &[raw, raw, "b32"], move |[a, b, c]| {
                let at = c & 0xff;
                (0..9)
                    .filter(|i| at + i < u64::from(bits))
                    .fold(b, |d, i| d & !(1 << (at + i)) | (a >> i & 1) << (at + i))
            }));
            for signed in [false, true] {
                let kind = format!("{}{bits}", if signed { 's' } else { 'u' });
                let highest = move |a: u64| {
                    let a = if signed && sign(a, bits) < 0 { !a & mask } else { a };
                    if a == 0 { 0xffff_ffff } else { 63 - u64::from(a.leading_zeros()) }
                };
                forms.push(exact(&format!("bfind.{kind} %d, %a;"), "b32", &[raw], move |[a, ..]| highest(a)));
                forms.push(exact(
                    &format!("bfind.shiftamt.{kind} %d, %a;"),
                    "b32",
                    &[raw],
                    move |[a, ..]| match highest(a) {
                        0xffff_ffff => 0xffff_ffff,
                        at => u64::from(bits) - 1 - at,
                    },
                ));
                let field = move |a: u64, position: u64, length: u64| {
                    // The ISA's own pseudo-code, bit by bit.
                    let highest = u64::from(bits) - 1;
                    let fill = if !signed || length == 0 { 0 } else { a >> (position + length - 1).min(highest) & 1 };
                    (0..=highest).fold(0, |d, i| {
                        let bit = if i < length && position + i <= highest { a >> (position + i) & 1 } else { fill };
                        d | bit << i
                    })
                };
                forms.push(exact(
                    &format!("bfe.{kind} %d, %a, %b, %c;"),
                    raw,
                    &[raw, "b32", "b32"],
                    move |[a, b, c]| field(a, b & 0xff, c & 0xff),
                ));
                forms.push(exact(&format!("bfe.{kind} %d, %a, 5, 11;"), raw, &[raw], move |[a, ..]| field(a, 5, 11)));
            }
        }
    }
    for table in [0x00u8, 0x1b, 0x3c, 0x80, 0x96, 0xca, 0xe8, 0xf8, 0xff, 0x6a, 0x01, 0x7f] {
        forms.push(exact(
            &format!("lop3.b32 %d, %a, %b, %c, {table};"),
            "b32",
            &["b32", "b32", "b32"],
            move |[a, b, c]| {
                (0..32).fold(0, |d, i| {
                    d | u64::from(table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | c >> i & 1) & 1) << i
                })
            },
        ));
    }
    for (name, left, wrap) in
        [("l.wrap", true, true), ("l.clamp", true, false), ("r.wrap", false, true), ("r.clamp", false, false)]
    {
        forms.push(exact(
            &format!("shf.{name}.b32 %d, %a, %b, %c;"),
            "b32",
            &["b32", "b32", "b32"],
            move |[a, b, c]| {
                let n = if wrap { c & 31 } else { c.min(32) };
                let both = u128::from(b << 32 | a);
                (if left { both << n >> 32 } else { both >> n }) as u64
            },
        ));
    }
    for selector in [0x3210u64, 0x7770, 0x0123, 0x5410, 0x7632, 0x4321, 0xba98, 0x8f3c, 0x0000, 0x6424] {
        forms.push(exact(&format!("prmt.b32 %d, %a, %b, {selector};"), "b32", &["b32", "b32"], move |[a, b, _]| {
            (0..4).fold(0, |d, i| {
                let select = selector >> (i * 4) & 15;
                let byte = (b << 32 | a) >> ((select & 7) * 8) & 0xff;
                let byte = if select & 8 == 0 { byte } else { (byte >> 7) * 0xff };
                d | byte << (i * 8)
            })
        }));
    }
    for (mode, name) in ["", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"].into_iter().enumerate() {
        forms.push(exact(
            &format!("prmt.b32{name} %d, %a, %b, %c;"),
            "b32",
            &["b32", "b32", "b32"],
            move |[a, b, c]| {
                let byte = |at: u64| (b << 32 | a) >> (at * 8) & 0xff;
                // The ISA's table of selectors, by mode and the two lowest bits.
                let rows: [[[u64; 4]; 4]; 6] = [
                    [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5], [3, 4, 5, 6]],
                    [[0, 7, 6, 5], [1, 0, 7, 6], [2, 1, 0, 7], [3, 2, 1, 0]],
                    [[0, 0, 0, 0], [1, 1, 1, 1], [2, 2, 2, 2], [3, 3, 3, 3]],
                    [[0, 1, 2, 3], [1, 1, 2, 3], [2, 2, 2, 3], [3, 3, 3, 3]],
                    [[0, 0, 0, 0], [0, 1, 1, 1], [0, 1, 2, 2], [0, 1, 2, 3]],
                    [[0, 1, 0, 1], [2, 3, 2, 3], [0, 1, 0, 1], [2, 3, 2, 3]],
                ];
                (0..4).fold(0, |d, i| {
                    let value = if mode == 0 {
                        let select = c >> (i * 4) & 15;
                        let value = byte(select & 7);
                        if select & 8 == 0 {
                            value
                        } else if value & 0x80 != 0 {
                            0xff
                        } else {
                            0
                        }
                    } else {
                        byte(rows[mode - 1][(c & 3) as usize][i as usize])
                    };
                    d | value << (i * 8)
                })
            },
        ));
    }
    forms.push(exact("fns.b32 %d, %a, %b, %c;", "b32", &["b32", "b32", "b32"], |[mask, base, offset]| {
        let (base, offset) = (base as i64, i64::from(offset as u32 as i32));
        if base > 31 {
            return 0xffff_ffff;
        }
        let set: Vec<i64> = (0..32).filter(|i| mask >> i & 1 != 0).collect();
        let found = match offset {
            0 => set.iter().find(|i| **i == base).copied(),
            1.. => set.iter().filter(|i| **i >= base).nth(offset as usize - 1).copied(),
            _ => set.iter().rev().filter(|i| **i <= base).nth((-offset) as usize - 1).copied(),
        };
        found.map_or(0xffff_ffff, |i| i as u64)
    }));
    for wrap in [false, true] {
        let name = if wrap { "wrap" } else { "clamp" };
        forms.push(exact(&format!("bmsk.{name}.b32 %d, %a, %b;"), "b32", &["b32", "b32"], move |[a, b, _]| {
            let (start, width) = if wrap { (a & 31, b & 31) } else { (a.min(32), b.min(32)) };
            (0..32).filter(|i| *i >= start && *i < start + width).fold(0, |d, i| d | 1 << i)
        }));
        for signed in [false, true] {
            let kind = if signed { "s32" } else { "u32" };
            forms.push(exact(&format!("szext.{name}.{kind} %d, %a, %b;"), "b32", &["b32", "b32"], move |[a, b, _]| {
                let width = if wrap { b & 31 } else { b.min(32) } as u32;
                if width == 0 {
                    return 0;
                }
                let low = a & ((1u64 << width) - 1);
                if signed { sign(low, width) as u64 } else { low }
            }));
        }
    }
    check(&forms, 2048);
}

#[test]
fn packed_and_dot_products() {
    let mut forms = Vec::new();
    let byte =
        |v: u64, i: u32, signed: bool| if signed { sign(v >> (8 * i), 8) } else { i128::from(v >> (8 * i) & 0xff) };
    let word = |v: u64, i: u32, signed: bool| {
        if signed { sign(v >> (16 * i), 16) } else { i128::from(v >> (16 * i) & 0xffff) }
    };
    for (a_kind, x) in [("u32", false), ("s32", true)] {
        for (b_kind, y) in [("u32", false), ("s32", true)] {
            forms.push(exact(
                &format!("dp4a.{a_kind}.{b_kind} %d, %a, %b, %c;"),
                "b32",
                &["b32"; 3],
                move |[a, b, c]| {
                    (0..4).map(|i| byte(a, i, x) * byte(b, i, y)).sum::<i128>().wrapping_add(i128::from(c)) as u64
                },
            ));
            for (part, from) in [("lo", 0), ("hi", 2)] {
                forms.push(exact(
                    &format!("dp2a.{part}.{a_kind}.{b_kind} %d, %a, %b, %c;"),
                    "b32",
                    &["b32"; 3],
                    move |[a, b, c]| {
                        (0..2).map(|i| word(a, i, x) * byte(b, i + from, y)).sum::<i128>().wrapping_add(i128::from(c))
                            as u64
                    },
                ));
            }
        }
    }
    for (kind, signed) in [("u16x2", false), ("s16x2", true)] {
        let pack = |low: i128, high: i128| (low as u64 & 0xffff) | (high as u64 & 0xffff) << 16;
        let operations: [(&str, Binary); 3] = [("add", |a, b| a + b), ("min", i128::min), ("max", i128::max)];
        for (name, f) in operations {
            forms.push(exact(&format!("{name}.{kind} %d, %a, %b;"), "b32", &["b32", "b32"], move |[a, b, _]| {
                pack(f(word(a, 0, signed), word(b, 0, signed)), f(word(a, 1, signed), word(b, 1, signed)))
            }));
        }
        if signed {
            forms.push(exact("max.relu.s16x2 %d, %a, %b;", "b32", &["b32", "b32"], move |[a, b, _]| {
                let f = |i| word(a, i, true).max(word(b, i, true)).max(0);
                pack(f(0), f(1))
            }));
        }
    }
    for (kind, bits) in [("s16", 16u32), ("u16", 16)] {
        forms.push(exact(&format!("cvt.pack.sat.{kind}.s32 %d, %a, %b;"), "b32", &["b32", "b32"], move |[a, b, _]| {
            let (low, high) = range(kind);
            let cut = |v: u64| sign(v, 32).clamp(low, high) as u64 & ((1 << bits) - 1);
            cut(a) << bits | cut(b)
        }));
    }
    for (kind, bits) in [("s8", 8u32), ("u8", 8), ("s4", 4), ("u4", 4), ("s2", 2)].into_iter().filter(|k| k.1 > 2) {
        forms.push(exact(
            &format!("cvt.pack.sat.{kind}.s32.b32 %d, %a, %b, %c;"),
            "b32",
            &["b32"; 3],
            move |[a, b, c]| {
                let (low, high) = range(kind);
                let cut = |v: u64| sign(v, 32).clamp(low, high) as u64 & ((1 << bits) - 1);
                c << (2 * bits) & 0xffff_ffff | cut(a) << bits | cut(b)
            },
        ));
    }
    check(&forms, 1024);
}

#[test]
fn comparisons_and_conversions() {
    let mut forms = Vec::new();
    let tests: [(&str, Test); 6] = [
        ("eq", |a, b| a == b),
        ("ne", |a, b| a != b),
        ("lt", |a, b| a < b),
        ("le", |a, b| a <= b),
        ("gt", |a, b| a > b),
        ("ge", |a, b| a >= b),
    ];
    for kind in ALL {
        let raw = untyped(kind);
        for (name, f) in tests {
            forms.push(exact(&format!("setp.{name}.{kind} %d, %a, %b;"), "pred", &[raw, raw], move |[a, b, _]| {
                u64::from(f(number(kind, a), number(kind, b)))
            }));
            forms.push(exact(&format!("set.{name}.u32.{kind} %d, %a, %b;"), "b32", &[raw, raw], move |[a, b, _]| {
                if f(number(kind, a), number(kind, b)) { 0xffff_ffff } else { 0 }
            }));
            forms.push(exact(&format!("set.{name}.f32.{kind} %d, %a, %b;"), "b32", &[raw, raw], move |[a, b, _]| {
                if f(number(kind, a), number(kind, b)) { 0x3f80_0000 } else { 0 }
            }));
        }
        for (logic, f) in
            [("and", (|a, b| a && b) as fn(bool, bool) -> bool), ("or", |a, b| a || b), ("xor", |a, b| a ^ b)]
        {
            forms.push(exact(
                &format!("setp.lt.{logic}.{kind} %d, %a, %b, %c;"),
                "pred",
                &[raw, raw, "pred"],
                move |[a, b, c]| u64::from(f(number(kind, a) < number(kind, b), c != 0)),
            ));
            let text = format!("{{ .reg .pred %p; setp.lt.{logic}.{kind} %p|%d, %a, %b, !%c; }}");
            forms.push(exact(&text, "pred", &[raw, raw, "pred"], move |[a, b, c]| {
                u64::from(f(number(kind, a) >= number(kind, b), c == 0))
            }));
        }
        forms.push(exact(&format!("slct.{kind}.s32 %d, %a, %b, %c;"), raw, &[raw, raw, "b32"], |[a, b, c]| {
            if (c as u32 as i32) >= 0 { a } else { b }
        }));
        for to in ALL {
            let wide = untyped(to);
            forms.push(exact(&format!("cvt.{to}.{kind} %d, %a;"), wide, &[raw], move |[a, ..]| number(kind, a) as u64));
            let narrower = range(to).0 > range(kind).0 || range(to).1 < range(kind).1;
            if narrower {
                forms.push(exact(&format!("cvt.sat.{to}.{kind} %d, %a;"), wide, &[raw], move |[a, ..]| {
                    number(kind, a).clamp(range(to).0, range(to).1) as u64
                }));
            }
        }
        for (to, wide) in [("u8", "b32"), ("s8", "b32")] {
            forms.push(exact(&format!("cvt.{to}.{kind} %d, %a;"), wide, &[raw], move |[a, ..]| {
                number(to, a & 0xff) as u64
            }));
        }
    }
    forms.push(exact("slct.b32.f32 %d, %a, %b, %c;", "b32", &["b32", "b32", "f32"], |[a, b, c]| {
        if f32::from_bits(c as u32) >= 0.0 { a } else { b }
    }));
    for (op, f) in [("and", (|a, b| a & b) as fn(u64, u64) -> u64), ("or", |a, b| a | b), ("xor", |a, b| a ^ b)] {
        forms.push(exact(&format!("{op}.pred %d, %a, %b;"), "pred", &["pred", "pred"], move |[a, b, _]| f(a, b)));
    }
    forms.push(exact("not.pred %d, %a;", "pred", &["pred"], |[a, ..]| a ^ 1));
    check(&forms, 512);
}

#[test]
fn scalar_video() {
    let mut forms = Vec::new();
    for d in ["u32", "s32"] {
        for a in ["u32", "s32"] {
            for b in ["u32", "s32"] {
                let operations: [(&str, Binary); 5] = [
                    ("vadd", |x, y| x + y),
                    ("vsub", |x, y| x - y),
                    ("vabsdiff", |x, y| (x - y).abs()),
                    ("vmin", i128::min),
                    ("vmax", i128::max),
                ];
                for (name, f) in operations {
                    forms.push(exact(
                        &format!("{name}.{d}.{a}.{b} %d, %a, %b;"),
                        "b32",
                        &["b32", "b32"],
                        move |[x, y, _]| f(number(a, x), number(b, y)) as u64,
                    ));
                    forms.push(exact(
                        &format!("{name}.{d}.{a}.{b}.sat %d, %a, %b;"),
                        "b32",
                        &["b32", "b32"],
                        move |[x, y, _]| f(number(a, x), number(b, y)).clamp(range(d).0, range(d).1) as u64,
                    ));
                }
            }
        }
    }
    check(&forms, 256);
}
