//! Video instructions: on parts of words, with a second operation, and on two halves or four bytes, against a model that works
//! on lists of lanes.

use crate::device;
use crate::forms::{self, Form, check, exact};

/// The lanes of a word as numbers, the lowest first.
fn lanes(word: u64, bits: u32, signed: bool) -> Vec<i128> {
    let bytes = (word as u32).to_le_bytes();
    match (bits, signed) {
        (8, false) => bytes.iter().map(|byte| i128::from(*byte)).collect(),
        (8, true) => bytes.iter().map(|byte| i128::from(*byte as i8)).collect(),
        (16, false) => bytes.chunks(2).map(|two| i128::from(u16::from_le_bytes([two[0], two[1]]))).collect(),
        (16, true) => bytes.chunks(2).map(|two| i128::from(i16::from_le_bytes([two[0], two[1]]))).collect(),
        (_, false) => vec![i128::from(word as u32)],
        (_, true) => vec![i128::from(word as u32 as i32)],
    }
}

fn range(bits: u32, signed: bool) -> (i128, i128) {
    match (bits, signed) {
        (8, false) => (0, 255),
        (8, true) => (-128, 127),
        (16, false) => (0, 65535),
        (16, true) => (-32768, 32767),
        (_, false) => (0, i128::from(u32::MAX)),
        (_, true) => (i128::from(i32::MIN), i128::from(i32::MAX)),
    }
}

/// One operation, as the ISA defines it.
fn one(name: &str, x: i128, y: i128) -> i128 {
    match name {
        "vadd" => x + y,
        "vsub" => x - y,
        "vabsdiff" => (x - y).abs(),
        "vmin" => x.min(y),
        "vmax" => x.max(y),
        // Half of the sum; what is exactly between goes up, for negative sums down.
        "vavrg" => {
            let sum = x + y;
            if sum >= 0 { (sum + 1) / 2 } else { sum.div_euclid(2) }
        }
        "eq" => i128::from(x == y),
        "ne" => i128::from(x != y),
        "lt" => i128::from(x < y),
        "le" => i128::from(x <= y),
        "gt" => i128::from(x > y),
        "ge" => i128::from(x >= y),
        other => panic!("{other}"),
    }
}

fn signed(kind: &str) -> bool {
    kind == "s32"
}

const ARITHMETIC: [&str; 6] = ["vadd", "vsub", "vabsdiff", "vmin", "vmax", "vavrg"];
const COMPARISONS: [&str; 6] = ["eq", "ne", "lt", "le", "gt", "ge"];
const KINDS: [&str; 2] = ["u32", "s32"];

/// `d = name(a, b)` in lanes, with the lanes' choices from both words, the mask, and whether lanes are added.
struct Packed {
    name: &'static str,
    bits: u32,
    kinds: [&'static str; 3],
    saturate: bool,
    add: bool,
    mask: Vec<usize>,
    from: [Vec<usize>; 2],
}

impl Packed {
    fn model(&self, [a, b, c]: [u64; 3]) -> u64 {
        let [result, left, right] = self.kinds.map(signed);
        let both = |sign: bool| [lanes(a, self.bits, sign), lanes(b, self.bits, sign)].concat();
        let (lefts, rights) = (both(left), both(right));
        let count = (32 / self.bits) as usize;
        let mut parts = lanes(c, self.bits, false);
        let mut sum = i128::from(c as u32);
        for lane in (0..count).filter(|lane| self.mask.contains(lane)) {
            let mut value = one(self.name, lefts[self.from[0][lane]], rights[self.from[1][lane]]);
            if self.saturate {
                let (low, high) = range(self.bits, result);
                value = value.clamp(low, high);
            }
            sum += value;
            parts[lane] = value.rem_euclid(1 << self.bits);
        }
        if self.add {
            return sum.rem_euclid(1 << 32) as u64;
        }
        parts.iter().rev().fold(0, |all, part| all << self.bits | *part as u64)
    }
}

/// The digits of a selector: the highest lane first.
fn digits(from: &[usize]) -> String {
    from.iter().rev().map(ToString::to_string).collect()
}

#[test]
fn packed_video() {
    let mut forms: Vec<Form> = Vec::new();
    for bits in [8, 16] {
        let count = (32 / bits) as usize;
        let kind = if bits == 8 { 'b' } else { 'h' };
        let plain = [(0..count).collect::<Vec<_>>(), (count..2 * count).collect()];
        let mixed = [(0..count).map(|lane| 2 * count - 1 - lane).collect::<Vec<_>>(), vec![count - 1; count]];
        let suffix = if bits == 8 { 4 } else { 2 };
        let mut put = |text: String, packed: Packed| {
            forms.push(exact(&text, "b32", &["b32", "b32", "b32"], move |args| packed.model(args)));
        };
        for (d, a, b) in [("u32", "u32", "u32"), ("s32", "s32", "s32"), ("u32", "s32", "u32"), ("s32", "u32", "s32")] {
            for name in ARITHMETIC {
                for (saturate, add) in [(false, false), (true, false), (false, true), (true, true)] {
                    let modifiers = format!("{}{}", if saturate { ".sat" } else { "" }, if add { ".add" } else { "" });
                    let head = format!("{name}{suffix}.{d}.{a}.{b}{modifiers}");
                    let packed = |mask: Vec<usize>, from: &[Vec<usize>; 2]| Packed {
                        name,
                        bits,
                        kinds: [d, a, b],
                        saturate,
                        add,
                        mask,
                        from: from.clone(),
                    };
                    put(format!("{head} %d, %a, %b, %c;"), packed((0..count).collect(), &plain));
                    let (left, right) = (digits(&mixed[0]), digits(&mixed[1]));
                    put(
                        format!("{head} %d.{kind}{}, %a.{kind}{left}, %b.{kind}{right}, %c;", count - 1),
                        packed(vec![count - 1], &mixed),
                    );
                }
            }
        }
        for a in KINDS {
            for b in KINDS {
                for name in COMPARISONS {
                    for add in [false, true] {
                        let tail = if add { ".add" } else { "" };
                        let packed = Packed {
                            name,
                            bits,
                            kinds: ["u32", a, b],
                            saturate: false,
                            add,
                            mask: (0..count).collect(),
                            from: plain.clone(),
                        };
                        put(format!("vset{suffix}.{a}.{b}.{name}{tail} %d, %a, %b, %c;"), packed);
                    }
                }
            }
        }
    }
    check(&forms, 256);
}

/// The parts of a word by name: bits, and which lane.
const PARTS: [(&str, u32, usize); 7] =
    [("", 32, 0), (".b0", 8, 0), (".b1", 8, 1), (".b2", 8, 2), (".b3", 8, 3), (".h0", 16, 0), (".h1", 16, 1)];

#[test]
fn parts_of_words() {
    let mut forms: Vec<Form> = Vec::new();
    for d in KINDS {
        for (at, (part_a, bits_a, lane_a)) in PARTS.into_iter().enumerate() {
            let (part_b, bits_b, lane_b) = PARTS[(at * 3 + 1) % PARTS.len()];
            let (part_d, bits_d, lane_d) = PARTS[(at + 2) % PARTS.len()];
            for name in ["vadd", "vsub", "vabsdiff", "vmin", "vmax"] {
                let (a, b) = (KINDS[at % 2], KINDS[at / 2 % 2]);
                let value = move |x: u64, y: u64, bits: u32| {
                    let result = one(name, lanes(x, bits_a, signed(a))[lane_a], lanes(y, bits_b, signed(b))[lane_b]);
                    let (low, high) = range(bits, signed(d));
                    result.clamp(low, high)
                };
                let sources = ["b32", "b32", "b32"];
                for (second, f) in [
                    ("add", (|x, y| x + y) as fn(i128, i128) -> i128),
                    ("min", |x: i128, y: i128| x.min(y)),
                    ("max", |x: i128, y: i128| x.max(y)),
                ] {
                    let text = format!("{name}.{d}.{a}.{b}.sat.{second} %d, %a{part_a}, %b{part_b}, %c;");
                    forms.push(exact(&text, "b32", &sources, move |[x, y, z]| {
                        f(value(x, y, 32), lanes(z, 32, signed(d))[0]).rem_euclid(1 << 32) as u64
                    }));
                }
                if bits_d == 32 {
                    continue;
                }
                let text =
                    format!("{{ mov.b32 %d, %b; {name}.{d}.{a}.{b}.sat %d{part_d}, %a{part_a}, %b{part_b}, %c; }}");
                forms.push(exact(&text, "b32", &sources, move |[x, y, z]| {
                    let mut parts = lanes(z, bits_d, false);
                    parts[lane_d] = value(x, y, bits_d).rem_euclid(1 << bits_d);
                    parts.iter().rev().fold(0, |all, part| all << bits_d | *part as u64)
                }));
            }
            for name in COMPARISONS {
                let text = format!("vset.{d}.u32.{name}.add %d, %a{part_a}, %b{part_b}, %c;");
                forms.push(exact(&text, "b32", &["b32", "b32", "b32"], move |[x, y, z]| {
                    let truth = one(name, lanes(x, bits_a, signed(d))[lane_a], lanes(y, bits_b, false)[lane_b]);
                    (truth + i128::from(z as u32)).rem_euclid(1 << 32) as u64
                }));
            }
        }
    }
    check(&forms, 256);
}

/// The code of the ISA for `vmad`, on numbers of 128 bits.
fn multiplied(modifiers: &str, [a, b]: [i128; 2], mut c: u32, negated: [bool; 3], is_signed: bool) -> u64 {
    let [minus_a, minus_b, minus_c] = negated;
    let mut temporary = a * b;
    let mut lowest = 0;
    if modifiers.contains(".po") {
        lowest = 1;
    } else if minus_a ^ minus_b {
        temporary = !temporary;
        lowest = 1;
    } else if minus_c {
        c = !c;
        lowest = 1;
    }
    temporary += if is_signed { i128::from(c as i32) } else { i128::from(c) };
    temporary += lowest;
    let mut result = temporary;
    if modifiers.contains(".shr7") {
        result = temporary >> 7;
    }
    if modifiers.contains(".shr15") {
        result = temporary >> 15;
    }
    if modifiers.contains(".sat") {
        let (low, high) = range(32, is_signed);
        result = result.clamp(low, high);
    }
    result.rem_euclid(1 << 32) as u64
}

#[test]
fn products_and_sums() {
    let mut forms: Vec<Form> = Vec::new();
    for a in KINDS {
        for b in KINDS {
            for modifiers in [
                "",
                ".po",
                ".sat",
                ".shr7",
                ".shr15",
                ".sat.shr7",
                ".sat.shr15",
                ".po.sat",
                ".po.shr7",
                ".po.sat.shr15",
            ] {
                for negated in [
                    [false; 3],
                    [true, false, false],
                    [false, true, false],
                    [true, true, false],
                    [false, false, true],
                    [true, true, true],
                ] {
                    if modifiers.contains(".po") && negated.contains(&true) {
                        continue;
                    }
                    // Other parts for each form.
                    let at = forms.len();
                    let (part_a, bits_a, lane_a) = PARTS[at % PARTS.len()];
                    let (part_b, bits_b, lane_b) = PARTS[(at * 3 + 2) % PARTS.len()];
                    let mixes = signed(a) || signed(b) || negated[0] != negated[1];
                    // Here words and code of the ISA differ: gaps.
                    if negated[2] && !mixes && modifiers.len() > 1 {
                        continue;
                    }
                    let is_signed = mixes || negated[2];
                    let d = if is_signed { "s32" } else { "u32" };
                    let [minus_a, minus_b, minus_c] = negated.map(|minus| if minus { "-" } else { "" });
                    let text = format!(
                        "vmad.{d}.{a}.{b}{modifiers} %d, {minus_a}%a{part_a}, {minus_b}%b{part_b}, {minus_c}%c;"
                    );
                    forms.push(exact(&text, "b32", &["b32", "b32", "b32"], move |[x, y, z]| {
                        let factors = [lanes(x, bits_a, signed(a))[lane_a], lanes(y, bits_b, signed(b))[lane_b]];
                        multiplied(modifiers, factors, z as u32, negated, is_signed)
                    }));
                }
            }
        }
    }
    check(&forms, 256);
}

#[test]
fn mistakes_are_named() {
    for (instruction, what) in [
        ("vadd4.u32.u32.u32 %r0.b00, %r1, %r2, %r3;", "the lanes of a mask fall, each named once"),
        ("vadd4.u32.u32.u32 %r0, %r1.b321, %r2, %r3;", "a selector chooses 4 parts"),
        ("vadd2.u32.u32.u32 %r0, %r1.h04, %r2, %r3;", ".h04 is not a choice of .h parts"),
        ("vadd.u32.u32.u32 %r0, %r1.h2, %r2;", ".h2 is not a byte or half of a word"),
        ("vadd.u32.u32.u32 %r0.h0, %r1, %r2;", "a part as result has a third source, and no second operation"),
        (
            "vmad.s32.u32.u32 %r0, -%r1.h0, %r2, -%r3;",
            "one of the product and the third source may be negated, with .po neither",
        ),
        ("vmad.u32.u32.u32 %r0, %r1, %r2, %r3.h0;", "the third source is a whole word"),
        ("add.u32 %r0, %r1.h0, %r2;", "a part of a register where all of it is expected"),
    ] {
        let text = format!("{}.visible .entry k()\n{{\n.reg .b32 %r<4>;\n{instruction}\nret;\n}}\n", forms::HEADER);
        match device::image(&text).kernel("k") {
            Err(ptx::KernelError::Refused(refusal)) => assert_eq!(refusal.message, what, "{instruction}"),
            other => panic!("{instruction}: {:?}", other.map(|_| ())),
        }
    }
}
