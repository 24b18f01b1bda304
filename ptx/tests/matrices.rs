//! Matrix instructions: every shape of `mma` by the layouts that the ISA states for it, `wmma` through memory, `ldmatrix`, `stmatrix` and
//! `movmatrix` by what they move.

use crate::device::{Device, image};
use crate::forms::{HEADER, Random};

/// How an element is stored, and small numbers of it that are exact in every sum.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Element {
    F16,
    Bf16,
    Tf32,
    F32,
    F64,
    Int(u32, bool),
    Bit,
    E4m3,
    E5m2,
}

use Element::*;

impl Element {
    fn bits(self) -> u32 {
        match self {
            F16 | Bf16 => 16,
            Tf32 | F32 => 32,
            F64 => 64,
            Int(bits, _) => bits,
            Bit => 1,
            E4m3 | E5m2 => 8,
        }
    }

    fn random(self, random: &mut Random) -> (f64, u64) {
        let n = (random.next() % 15) as i64 - 7;
        match self {
            F16 => (n as f64 / 4.0, u64::from(half::f16::from_f64(n as f64 / 4.0).to_bits())),
            Bf16 => (n as f64 / 4.0, u64::from(half::bf16::from_f64(n as f64 / 4.0).to_bits())),
            Tf32 | F32 => (n as f64 / 8.0, u64::from((n as f32 / 8.0).to_bits())),
            F64 => (n as f64 / 8.0, (n as f64 / 8.0).to_bits()),
            Int(bits, signed) => {
                let raw = random.next() & ((1 << bits) - 1);
                let value = if signed { (raw << (64 - bits)) as i64 >> (64 - bits) } else { raw as i64 };
                (value as f64, raw)
            }
            Bit => {
                let raw = random.next() & 1;
                (raw as f64, raw)
            }
            // Sign, then a code of the exponent and fraction for 1, 1.5, 2 or 3.
            E4m3 | E5m2 => {
                let (one, fraction) = if self == E4m3 { (0x38, 3) } else { (0x3c, 2) };
                let code = random.next() & 3;
                let value = [1.0, 1.5, 2.0, 3.0][code as usize];
                let magnitude = one + ((code >> 1) << fraction) + ((code & 1) << (fraction - 1));
                let negative = random.next() & 1;
                (if negative != 0 { -value } else { value }, magnitude | negative << 7)
            }
        }
    }

    fn value(self, bits: u64) -> f64 {
        match self {
            F16 => half::f16::from_bits(bits as u16).to_f64(),
            F64 => f64::from_bits(bits),
            Int(..) => f64::from(bits as u32 as i32),
            _ => f64::from(f32::from_bits(bits as u32)),
        }
    }
}

struct Case {
    name: &'static str,
    shape: (usize, usize, usize),
    a: Element,
    b: Element,
    c: Element,
}

/// Row and column of element i of a thread's A fragment, as the ISA writes it for each shape.
fn place_a(case: &Case, lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = (lane >> 2, lane % 4);
    let (m, _, k) = case.shape;
    match (case.a.bits(), m, k) {
        (16, 16, 8) => (if i < 2 { group } else { group + 8 }, thread * 2 + (i & 1)),
        (16, 16, 16) => {
            let row = if i < 2 || (4..6).contains(&i) { group } else { group + 8 };
            (row, thread * 2 + (i & 1) + if i >= 4 { 8 } else { 0 })
        }
        (32, 16, 4) => (if i == 0 { group } else { group + 8 }, thread),
        (32, 16, 8) => (if i == 0 || i == 2 { group } else { group + 8 }, if i < 2 { thread } else { thread + 4 }),
        (64, 8, 4) => (group, thread),
        (64, 16, 4) => (if i == 0 { group } else { group + 8 }, thread),
        (64, 16, 8) => (if i == 0 || i == 2 { group } else { group + 8 }, if i < 2 { thread } else { thread + 4 }),
        (64, 16, 16) => (
            if i.is_multiple_of(2) { group } else { group + 8 },
            if i.is_multiple_of(2) { i * 2 + thread } else { i * 2 - 2 + thread },
        ),
        (8, 8, 16) => (group, thread * 4 + i),
        (8, 16, 16) => (if i < 4 { group } else { group + 8 }, thread * 4 + (i & 3)),
        (8, 16, 32) => {
            let row = if i < 4 || (8..12).contains(&i) { group } else { group + 8 };
            (row, thread * 4 + (i & 3) + if i < 8 { 0 } else { 16 })
        }
        (4, 8, 32) => (group, thread * 8 + i),
        (4, 16, 32) => (if i < 8 { group } else { group + 8 }, thread * 8 + (i & 7)),
        (4, 16, 64) => {
            let row = if i < 8 || (16..24).contains(&i) { group } else { group + 8 };
            (row, thread * 8 + (i & 7) + if i < 16 { 0 } else { 32 })
        }
        (1, 8, 128) => (group, thread * 32 + i),
        (1, 16, 128) => (if i < 32 { group } else { group + 8 }, thread * 32 + (i & 31)),
        (1, 16, 256) => {
            let row = if i < 32 || (64..96).contains(&i) { group } else { group + 8 };
            (row, thread * 32 + (i & 31) + if i < 64 { 0 } else { 128 })
        }
        other => panic!("{other:?}"),
    }
}

fn place_b(case: &Case, lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = (lane >> 2, lane % 4);
    let row = match (case.b.bits(), case.shape.2) {
        (16, 8) => thread * 2 + i,
        (16, 16) => thread * 2 + (i & 1) + if i < 2 { 0 } else { 8 },
        (32, 4) | (64, 4) => thread,
        (32, 8) | (64, 8) => {
            if i == 0 {
                thread
            } else {
                thread + 4
            }
        }
        (64, 16) => thread + i * 4,
        (8, 16) => thread * 4 + i,
        (8, 32) => thread * 4 + (i & 3) + if i < 4 { 0 } else { 16 },
        (4, 32) => thread * 8 + i,
        (4, 64) => thread * 8 + (i & 7) + if i < 8 { 0 } else { 32 },
        (1, 128) => thread * 32 + i,
        (1, 256) => thread * 32 + (i & 31) + if i < 32 { 0 } else { 128 },
        other => panic!("{other:?}"),
    };
    (row, group)
}

fn place_c(case: &Case, lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = (lane >> 2, lane % 4);
    (if case.shape.0 == 8 || i < 2 { group } else { group + 8 }, thread * 2 + (i & 1))
}

type Place = fn(&Case, usize, usize) -> (usize, usize);

/// A matrix in fragments: for each lane its registers as bytes.
fn fragments(case: &Case, element: Element, rows: usize, columns: usize, place: Place, codes: &[u64]) -> Vec<Vec<u64>> {
    let register = if element == F64 { 64 } else { 32 };
    let each = element.bits();
    let per = (register / each) as usize;
    let count = rows * columns / 32;
    (0..32)
        .map(|lane| {
            let mut registers = vec![0u64; count / per];
            for i in 0..count {
                let (row, column) = place(case, lane, i);
                registers[i / per] |= codes[row * columns + column] << ((i % per) as u32 * each);
            }
            registers
        })
        .collect()
}

fn list(prefix: &str, count: usize) -> String {
    let all: Vec<String> = (0..count).map(|i| format!("%{prefix}{i}")).collect();
    format!("{{{}}}", all.join(", "))
}

fn kernel(case: &Case, counts: [usize; 4]) -> String {
    let kinds = [case.a, case.b, case.c, case.c];
    let reg = |e: Element, role: usize| match (e, role) {
        (F64, _) => "f64",
        (F32, 2 | 3) => "f32",
        _ => "b32",
    };
    let mut text = format!(
        "{HEADER}.visible .entry k(.param .u64 p0, .param .u64 p1)\n{{\n.reg .b64 %in, %out, %at;\n.reg .b32 %t;\n"
    );
    for (role, prefix) in ["a", "b", "c", "d"].into_iter().enumerate() {
        text += &format!(".reg .{} %{prefix}<{}>;\n", reg(kinds[role], role), counts[role]);
    }
    let words: usize = counts[..3].iter().sum();
    text += &format!(
        "ld.param.u64 %in, [p0];\nld.param.u64 %out, [p1];\nmov.u32 %t, %tid.x;\nmul.wide.u32 %at, %t, {};\nadd.u64 %in, %in, %at;\n",
        words * 8
    );
    text += &format!("mul.wide.u32 %at, %t, {};\nadd.u64 %out, %out, %at;\n", counts[3] * 8);
    let mut at = 0;
    for (role, prefix) in ["a", "b", "c"].into_iter().enumerate() {
        for i in 0..counts[role] {
            let kind = if kinds[role] == F64 { "b64" } else { "b32" };
            text += &format!("ld.global.{kind} %{prefix}{i}, [%in+{at}];\n");
            at += 8;
        }
    }
    text += &format!(
        "{} {}, {}, {}, {};\n",
        case.name,
        list("d", counts[3]),
        list("a", counts[0]),
        list("b", counts[1]),
        list("c", counts[2])
    );
    for i in 0..counts[3] {
        let kind = if case.c == F64 { "b64" } else { "b32" };
        text += &format!("st.global.{kind} [%out+{}], %d{i};\n", i * 8);
    }
    text + "ret;\n}\n"
}

#[test]
fn every_shape_of_mma() {
    let case = |name, shape, a, b, c| Case { name, shape, a, b, c };
    let (s8, u8, s4, u4, s32) = (Int(8, true), Int(8, false), Int(4, true), Int(4, false), Int(32, true));
    let cases = [
        case("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", (16, 8, 8), F16, F16, F32),
        case("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", (16, 8, 16), F16, F16, F32),
        case("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16", (16, 8, 8), F16, F16, F16),
        case("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", (16, 8, 16), F16, F16, F16),
        case("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32", (16, 8, 8), Bf16, Bf16, F32),
        case("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", (16, 8, 16), Bf16, Bf16, F32),
        case("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32", (16, 8, 4), Tf32, Tf32, F32),
        case("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", (16, 8, 8), Tf32, Tf32, F32),
        case("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", (8, 8, 4), F64, F64, F64),
        case("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64", (16, 8, 4), F64, F64, F64),
        case("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64", (16, 8, 8), F64, F64, F64),
        case("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64", (16, 8, 16), F64, F64, F64),
        case("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32", (8, 8, 16), s8, s8, s32),
        case("mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32", (16, 8, 16), u8, s8, s32),
        case("mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.u8.s32", (16, 8, 32), s8, u8, s32),
        case("mma.sync.aligned.m8n8k32.row.col.s32.s4.s4.s32", (8, 8, 32), s4, s4, s32),
        case("mma.sync.aligned.m16n8k32.row.col.s32.u4.s4.s32", (16, 8, 32), u4, s4, s32),
        case("mma.sync.aligned.m16n8k64.row.col.s32.s4.u4.s32", (16, 8, 64), s4, u4, s32),
        case("mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc", (8, 8, 128), Bit, Bit, s32),
        case("mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.and.popc", (16, 8, 128), Bit, Bit, s32),
        case("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc", (16, 8, 256), Bit, Bit, s32),
        case("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32", (16, 8, 32), E4m3, E5m2, F32),
        case("mma.sync.aligned.m16n8k16.row.col.f32.e5m2.e4m3.f32", (16, 8, 16), E5m2, E4m3, F32),
        case("mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16", (16, 8, 32), E4m3, E4m3, F16),
    ];
    let mut dump = String::new();
    for (number, case) in cases.iter().enumerate() {
        let (m, n, k) = case.shape;
        let mut random = Random(number as u64 * 7 + 1);
        let mut matrix = |element: Element, size: usize| -> (Vec<f64>, Vec<u64>) {
            let small = if element == Int(32, true) { Int(8, true) } else { element };
            (0..size)
                .map(|_| {
                    let (value, code) = small.random(&mut random);
                    (value, if element == Int(32, true) { value as i32 as u32 as u64 } else { code })
                })
                .unzip()
        };
        let ((a, a_codes), (b, b_codes), (c, c_codes)) =
            (matrix(case.a, m * k), matrix(case.b, k * n), matrix(case.c, m * n));
        let a_parts = fragments(case, case.a, m, k, place_a, &a_codes);
        let b_parts = fragments(case, case.b, k, n, place_b, &b_codes);
        let c_parts = fragments(case, case.c, m, n, place_c, &c_codes);
        let counts = [a_parts[0].len(), b_parts[0].len(), c_parts[0].len(), c_parts[0].len()];
        let input: Vec<u64> = (0..32).flat_map(|l| [&a_parts[l][..], &b_parts[l], &c_parts[l]].concat()).collect();
        let text = kernel(case, counts);
        dump += &text.replace(HEADER, "").replace("entry k(", &format!("entry k{number}("));
        let mut device = Device::new();
        let (input, output) = (device.put(&input), device.put(&vec![0u64; 32 * counts[3]]));
        device.run(&image(&text), "k", 1, 32, &[input, output]).unwrap_or_else(|error| panic!("{error}"));
        let got = device.get::<u64>(output, 32 * counts[3]);
        let per = if case.c == F16 { 2 } else { 1 };
        for lane in 0..32 {
            for i in 0..counts[3] * per {
                let (row, column) = place_c(case, lane, i);
                let product = |x: f64, y: f64| match case.a {
                    Bit if case.name.contains("xor") => f64::from(x != y),
                    _ => x * y,
                };
                let expected =
                    c[row * n + column] + (0..k).map(|t| product(a[row * k + t], b[t * n + column])).sum::<f64>();
                let raw = got[lane * counts[3] + i / per] >> (16 * (i % per));
                let value = case.c.value(raw);
                // Half precision rounds once at the end.
                let near = if case.c == F16 { expected.abs() / 1024.0 } else { 0.0 };
                assert!((value - expected).abs() <= near, "{} ({row},{column}): {value} for {expected}", case.name);
            }
        }
    }
    if let Ok(path) = std::env::var("PTX_DUMP") {
        std::fs::write(format!("{path}/mma.ptx"), format!("{}{dump}", HEADER.replace("sm_100a", "sm_90a"))).unwrap();
    }
}

#[test]
fn wmma_goes_through_memory_in_every_layout() {
    for (shape, element, kind, registers) in [
        ((16usize, 16usize, 16usize), F16, "f16", [8usize, 8]),
        ((8, 32, 16), F16, "f16", [8, 8]),
        ((32, 8, 16), F16, "f16", [8, 8]),
        ((16, 16, 16), Bf16, "bf16", [4, 4]),
        ((32, 8, 16), Bf16, "bf16", [8, 2]),
        ((16, 16, 8), Tf32, "tf32", [4, 4]),
        ((16, 16, 16), Int(8, true), "s8", [2, 2]),
        ((8, 8, 4), F64, "f64", [1, 1]),
    ] {
        for (a_layout, b_layout, d_layout) in [("row", "col", "row"), ("col", "row", "col"), ("row", "row", "row")] {
            let (m, n, k) = shape;
            let (acc, raw) = match element {
                Int(..) => ("s32", "b32"),
                F64 => ("f64", "f64"),
                _ => ("f32", "f32"),
            };
            let bytes = element.bits() as usize / 8;
            let accumulators = if element == F64 { 2 } else { 8 };
            let name = format!("m{m}n{n}k{k}");
            let reg = if element == F64 { "f64" } else { "b32" };
            let strides = [
                if a_layout == "row" { k } else { m },
                if b_layout == "row" { n } else { k },
                if d_layout == "row" { n } else { m },
            ];
            let types = if element == F16 { "f32.f32".to_string() } else { format!("{acc}.{kind}.{kind}.{acc}") };
            let zero = if acc == "s32" {
                "mov.b32"
            } else if acc == "f64" {
                "mov.f64"
            } else {
                "mov.f32"
            };
            let zeros: String = (0..accumulators)
                .map(|i| {
                    format!(
                        "{zero} %c{i}, {};\n",
                        if acc == "f64" {
                            "0d0000000000000000"
                        } else if acc == "f32" {
                            "0f00000000"
                        } else {
                            "0"
                        }
                    )
                })
                .collect();
            let text = format!(
                "{HEADER}.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2)\n{{\n.reg .b64 %a, %b, %o;\n.reg .{reg} %x<8>, %y<8>;\n.reg .{raw} %c<8>, %d<8>;\n\
                 ld.param.u64 %a, [p0];\nld.param.u64 %b, [p1];\nld.param.u64 %o, [p2];\n{zeros}\
                 wmma.load.a.sync.aligned.{a_layout}.{name}.global.{kind} {}, [%a], {};\nwmma.load.b.sync.aligned.{b_layout}.{name}.{kind} {}, [%b], {};\n\
                 wmma.mma.sync.aligned.{a_layout}.{b_layout}.{name}.{types} {}, {}, {}, {};\nwmma.store.d.sync.aligned.{d_layout}.{name}.global.{acc} [%o], {}, {};\nret;\n}}\n",
                list("x", registers[0]),
                strides[0],
                list("y", registers[1]),
                strides[1],
                list("d", accumulators),
                list("x", registers[0]),
                list("y", registers[1]),
                list("c", accumulators),
                list("d", accumulators),
                strides[2]
            );
            let mut random = Random(m as u64 * 31 + n as u64);
            let (a, a_codes): (Vec<f64>, Vec<u64>) = (0..m * k).map(|_| element.random(&mut random)).unzip();
            let (b, b_codes): (Vec<f64>, Vec<u64>) = (0..k * n).map(|_| element.random(&mut random)).unzip();
            let store = |codes: &[u64], rows: usize, columns: usize, layout: &str| -> Vec<u8> {
                let mut all = vec![0u8; codes.len() * bytes];
                for row in 0..rows {
                    for column in 0..columns {
                        let at = if layout == "row" { row * columns + column } else { column * rows + row };
                        all[at * bytes..(at + 1) * bytes]
                            .copy_from_slice(&codes[row * columns + column].to_le_bytes()[..bytes]);
                    }
                }
                all
            };
            let mut device = Device::new();
            let (a_at, b_at) =
                (device.put(&store(&a_codes, m, k, a_layout)), device.put(&store(&b_codes, k, n, b_layout)));
            let size = if acc == "f64" { 8 } else { 4 };
            let out = device.put(&vec![0u8; m * n * size]);
            device.run(&image(&text), "k", 1, 32, &[a_at, b_at, out]).unwrap_or_else(|error| panic!("{error}"));
            for row in 0..m {
                for column in 0..n {
                    let at = if d_layout == "row" { row * n + column } else { column * m + row };
                    let value = match acc {
                        "f64" => device.get::<f64>(out, m * n)[at],
                        "s32" => f64::from(device.get::<i32>(out, m * n)[at]),
                        _ => f64::from(device.get::<f32>(out, m * n)[at]),
                    };
                    let expected: f64 = (0..k).map(|t| a[row * k + t] * b[t * n + column]).sum();
                    assert_eq!(value, expected, "{name} {kind} {a_layout} {b_layout} ({row},{column})");
                }
            }
        }
    }
}

#[test]
fn matrices_of_eight_by_eight_move_between_memory_and_lanes() {
    // Element (r, c) of matrix j is 1000 j + 10 r + c. Lane l holds (l / 4, 2 (l % 4)) and its right neighbor.
    let values: Vec<u16> = (0..4).flat_map(|j| (0..64).map(move |i| j * 1000 + i / 8 * 10 + i % 8)).collect();
    for (count, name) in [(1usize, "x1"), (2, "x2"), (4, "x4")] {
        for transposed in [false, true] {
            let trans = if transposed { ".trans" } else { "" };
            let text = format!(
                "{HEADER}.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2)\n{{\n.shared .align 16 .b8 s[512];\n.shared .align 16 .b8 u[512];\n.reg .b64 %a, %b, %c, %at, %x;\n\
                 .reg .b32 %t, %r<4>, %s, %u, %v;\nld.param.u64 %a, [p0];\nld.param.u64 %b, [p1];\nld.param.u64 %c, [p2];\nmov.u32 %t, %tid.x;\nmul.wide.u32 %at, %t, 16;\n\
                 add.u64 %a, %a, %at;\nadd.u64 %c, %c, %at;\nmov.u32 %s, s;\nmov.u32 %u, u;\nshl.b32 %v, %t, 4;\nadd.u32 %s, %s, %v;\nadd.u32 %u, %u, %v;\n\
                 .reg .b64 %q<2>;\nld.global.v2.b64 {{%q0, %q1}}, [%a];\nst.shared.v2.b64 [%s], {{%q0, %q1}};\nbar.warp.sync -1;\nmov.b32 %r0, 0;\nmov.b32 %r1, 0;\nmov.b32 %r2, 0;\nmov.b32 %r3, 0;\n\
                 ldmatrix.sync.aligned.m8n8.{name}{trans}.shared.b16 {list}, [%s];\nadd.u64 %b, %b, %at;\nst.global.v4.b32 [%b], {{%r0, %r1, %r2, %r3}};\n\
                 stmatrix.sync.aligned.m8n8.{name}{trans}.shared.b16 [%u], {list};\nbar.warp.sync -1;\nld.shared.v2.b64 {{%q0, %q1}}, [%u];\nst.global.v2.b64 [%c], {{%q0, %q1}};\nret;\n}}\n",
                list = list("r", count)
            );
            let mut device = Device::new();
            let (a, b, c) = (device.put(&values), device.put(&[[0u16; 8]; 32]), device.put(&[0u16; 256]));
            device.run(&image(&text), "k", 1, 32, &[a, b, c]).unwrap();
            let got = device.get::<[u16; 8]>(b, 32);
            for lane in 0..32u16 {
                for j in 0..count as u16 {
                    for part in 0..2u16 {
                        let (row, column) = (lane / 4, lane % 4 * 2 + part);
                        let (row, column) = if transposed { (column, row) } else { (row, column) };
                        assert_eq!(
                            got[lane as usize][usize::from(j * 2 + part)],
                            j * 1000 + row * 10 + column,
                            "{name}{trans} {lane}"
                        );
                    }
                }
            }
            // Stored in the same way the matrices are as they were.
            assert_eq!(device.get::<u16>(c, count * 64), values[..count * 64]);
        }
    }
    let text = format!(
        "{HEADER}.visible .entry k(.param .u64 p0)\n{{\n.reg .b64 %a, %at;\n.reg .b32 %t, %r;\nld.param.u64 %a, [p0];\nmov.u32 %t, %tid.x;\nmul.wide.u32 %at, %t, 4;\n\
         add.u64 %a, %a, %at;\nld.global.b32 %r, [%a];\nmovmatrix.sync.aligned.m8n8.trans.b16 %r, %r;\nst.global.b32 [%a], %r;\nret;\n}}\n"
    );
    let mut device = Device::new();
    let a = device.put(&values[..64]);
    device.run(&image(&text), "k", 1, 32, &[a]).unwrap();
    let expected: Vec<u16> = (0..64).map(|i| i % 8 * 10 + i / 8).collect();
    assert_eq!(device.get::<u16>(a, 64), expected);
}
