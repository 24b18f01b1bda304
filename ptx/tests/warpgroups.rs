//! `wgmma`: every type, order in memory, swizzle and source of A, against a model that places each element by the canonical
//! layouts as shapes and strides.

use crate::device::{Device, image, trap};
use crate::forms::{HEADER, Random};

/// How a factor is kept in shared memory.
#[derive(Clone, Copy, Debug)]
struct Kept {
    /// What is summed over is not contiguous.
    transposed: bool,
    /// Bits that a swizzle exchanges: 0 to 3.
    swizzle: u32,
    /// Elements from one part of the layout to the next, as its canonical form names them.
    leading: usize,
    stride: usize,
}

#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    bits: usize,
    encode: fn(f64) -> u64,
}

const F16: Kind = Kind { name: "f16", bits: 16, encode: |value| u64::from(half::f16::from_f64(value).to_bits()) };
const BF16: Kind = Kind { name: "bf16", bits: 16, encode: |value| u64::from(half::bf16::from_f64(value).to_bits()) };
const TF32: Kind = Kind { name: "tf32", bits: 32, encode: |value| u64::from((value as f32).to_bits()) };
const S8: Kind = Kind { name: "s8", bits: 8, encode: |value| value as i8 as u8 as u64 };
const U8: Kind = Kind { name: "u8", bits: 8, encode: |value| value as u8 as u64 };
/// Of a whole number up to 7: sign, exponent and what is below its first bit.
fn small_float(value: f64, fraction: u32, bias: u64) -> u64 {
    let magnitude = value.abs() as u64;
    let sign = u64::from(value < 0.0) << 7;
    let Some(exponent) = magnitude.checked_ilog2() else { return sign };
    sign | (u64::from(exponent) + bias) << fraction | (magnitude - (1 << exponent)) << fraction >> exponent
}
const E4M3: Kind = Kind { name: "e4m3", bits: 8, encode: |value| small_float(value, 3, 7) };
const E5M2: Kind = Kind { name: "e5m2", bits: 8, encode: |value| small_float(value, 2, 15) };

/// The index of a coordinate in a layout: its parts, the first the fastest, each times its stride.
fn index(coordinate: usize, shape: &[usize], strides: &[usize]) -> usize {
    let mut left = coordinate;
    let mut sum = 0;
    for (at, stride) in strides.iter().enumerate() {
        let size = shape.get(at).copied().unwrap_or(usize::MAX);
        sum += left % size * stride;
        left /= size;
    }
    sum
}

impl Kept {
    /// One without holes for a factor of `lines` rows of A or columns of B.
    fn dense(transposed: bool, swizzle: u32, kind: Kind, lines: usize) -> Kept {
        let t = 128 / kind.bits;
        let width = t << swizzle;
        let (leading, stride) = match (transposed, swizzle) {
            (false, 0) => (8 * t, 16 * t),
            (true, 0) => (8 * t * (lines / t), 8 * t),
            // Not used.
            (false, _) => (t, 8 * width),
            (true, _) => (8 * width, 8 * width * (lines / width)),
        };
        Kept { transposed, swizzle, leading, stride }
    }

    fn byte(&self, kind: Kind, line: usize, step: usize) -> usize {
        let t = 128 / kind.bits;
        let width = t << self.swizzle;
        let element = match (self.transposed, self.swizzle) {
            (false, 0) => index(line, &[8], &[t, self.stride]) + index(step, &[t], &[1, self.leading]),
            (false, _) => index(line, &[8], &[width, self.stride]) + index(step, &[t], &[1, t]),
            (true, 0) => index(line, &[t], &[1, self.stride]) + index(step, &[8], &[t, self.leading]),
            (true, _) => index(line, &[width], &[1, self.leading]) + index(step, &[8], &[width, self.stride]),
        };
        let byte = element * kind.bits / 8;
        let mask = ((1usize << self.swizzle) - 1) << 7;
        byte ^ (byte & mask) >> 3
    }

    fn descriptor(&self, kind: Kind, at: usize) -> u64 {
        let field = |elements: usize| (elements * kind.bits / 8) as u64 >> 4;
        let mode = [0, 3, 2, 1][self.swizzle as usize];
        at as u64 >> 4 | field(self.leading) << 16 | field(self.stride) << 32 | mode << 62
    }
}

struct Case {
    a: Kind,
    b: Kind,
    d: &'static str,
    n: usize,
    /// None: in registers.
    a_kept: Option<Kept>,
    b_kept: Kept,
    signs: [i64; 2],
    add: bool,
}

fn list(prefix: &str, count: usize) -> String {
    let all: Vec<String> = (0..count).map(|i| format!("%{prefix}{i}")).collect();
    format!("{{{}}}", all.join(", "))
}

/// 128 threads fill shared memory, multiply once, and write their results.
fn kernel(case: &Case, bytes: usize) -> String {
    let k = 256 / case.a.bits;
    let results = if case.d == "f16" { case.n / 4 } else { case.n / 2 };
    let register = if case.d == "f16" { "b32" } else { case.d };
    let mut numbers = String::new();
    if case.d != "s32" {
        numbers += &format!(", {}, {}", case.signs[0], case.signs[1]);
    }
    if case.a.bits == 16 {
        if let Some(kept) = case.a_kept {
            numbers += &format!(", {}", u8::from(kept.transposed));
        }
        numbers += &format!(", {}", u8::from(case.b_kept.transposed));
    }
    let mut text = format!(
        "{}.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3, .param .u64 p4, .param .u32 p5)\n{{\n\
         .shared .align 1024 .b8 s[{bytes}];\n.reg .b64 %image, %in, %out, %a, %b, %at, %w;\n.reg .b32 %t, %s, %i, %v, %x<4>;\n\
         .reg .{register} %d<{results}>;\n.reg .pred %p, %more;\n\
         ld.param.u64 %image, [p0];\nld.param.u64 %in, [p1];\nld.param.u64 %out, [p2];\nld.param.u64 %a, [p3];\nld.param.u64 %b, [p4];\nld.param.u32 %v, [p5];\n\
         setp.ne.u32 %p, %v, 0;\nmov.u32 %t, %tid.x;\nmov.u32 %s, s;\n\
         shr.u32 %i, %s, 4;\ncvt.u64.u32 %w, %i;\nadd.u64 %a, %a, %w;\nadd.u64 %b, %b, %w;\nmov.u32 %i, %t;\n\
         FILL:\nmul.wide.u32 %at, %i, 4;\nadd.u64 %at, %at, %image;\nld.global.b32 %v, [%at];\nshl.b32 %x0, %i, 2;\nadd.u32 %x0, %x0, %s;\nst.shared.b32 [%x0], %v;\n\
         add.u32 %i, %i, 128;\nsetp.lt.u32 %more, %i, {};\n@%more bra FILL;\n\
         mul.wide.u32 %at, %t, {};\nadd.u64 %in, %in, %at;\nmul.wide.u32 %at, %t, {};\nadd.u64 %out, %out, %at;\n",
        HEADER.replace("sm_100a", "sm_90a"),
        bytes / 4,
        (4 + results) * 4,
        results * 4,
    );
    for i in 0..4 {
        text += &format!("ld.global.b32 %x{i}, [%in+{}];\n", i * 4);
    }
    for i in 0..results {
        text += &format!("ld.global.{register} %d{i}, [%in+{}];\n", 16 + i * 4);
    }
    let first = if case.a_kept.is_some() { "%a".to_owned() } else { list("x", 4) };
    text += &format!(
        "bar.sync 0;\nfence.proxy.async;\nwgmma.fence.sync.aligned;\n\
         wgmma.mma_async.sync.aligned.m64n{}k{k}.{}.{}.{} {}, {first}, %b, %p{numbers};\n\
         wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n",
        case.n,
        case.d,
        case.a.name,
        case.b.name,
        list("d", results)
    );
    for i in 0..results {
        text += &format!("st.global.{register} [%out+{}], %d{i};\n", i * 4);
    }
    text + "ret;\n}\n"
}

fn run(number: usize, case: &Case) {
    let (k, n) = (256 / case.a.bits, case.n);
    let mut random = Random(number as u64 * 13 + 5);
    let unsigned = |kind: Kind| kind.name == "u8";
    let mut draw = |kind: Kind, count: usize| -> Vec<f64> {
        (0..count).map(|_| (random.next() % 15) as f64 - if unsigned(kind) { 0.0 } else { 7.0 }).collect()
    };
    let (a, b) = (draw(case.a, 64 * k), draw(case.b, n * k));
    let c = draw(S8, 64 * n);
    let second = 32768;
    let mut memory = vec![0u8; 65536 + 8192];
    let mut put = |kept: Kept, kind: Kind, start: usize, lines: usize, values: &[f64]| {
        for line in 0..lines {
            for step in 0..k {
                let at = start + kept.byte(kind, line, step);
                let bits = (kind.encode)(values[line * k + step]).to_le_bytes();
                memory[at..at + kind.bits / 8].copy_from_slice(&bits[..kind.bits / 8]);
            }
        }
    };
    if let Some(kept) = case.a_kept {
        put(kept, case.a, 0, 64, &a);
    }
    put(case.b_kept, case.b, second, n, &b);
    let half = case.d == "f16";
    let results = if half { n / 4 } else { n / 2 };
    // What the ISA's figures show for thread t: rows of its warp, two columns side by side, then eight rows below.
    let place = |thread: usize, element: usize| {
        let (warp, lane) = (thread / 32, thread % 32);
        (warp * 16 + lane / 4 + element / 2 % 2 * 8, element / 4 * 8 + lane % 4 * 2 + element % 2)
    };
    let encode = |value: f64| match case.d {
        "f16" => u64::from(half::f16::from_f64(value).to_bits()),
        "s32" => u64::from(value as i32 as u32),
        _ => u64::from((value as f32).to_bits()),
    };
    let per_word = 32 / case.a.bits;
    let mut input = Vec::new();
    for thread in 0..128 {
        for register in 0..4 {
            let mut word = 0;
            for part in 0..per_word {
                let row = thread / 32 * 16 + thread % 32 / 4 + register % 2 * 8;
                let step = thread % 4 * per_word + register / 2 * 4 * per_word + part;
                word |= (case.a.encode)(a[row * k + step]) << (part * case.a.bits);
            }
            input.push(word as u32);
        }
        for register in 0..results {
            let parts = if half { 2 } else { 1 };
            let word = (0..parts).map(|part| {
                let (row, column) = place(thread, register * parts + part);
                encode(c[row * n + column]) << (16 * part)
            });
            input.push(word.sum::<u64>() as u32);
        }
    }
    let text = kernel(case, memory.len());
    let mut device = Device::new();
    let (image_at, input) = (device.put(&memory), device.put(&input));
    let output = device.put(&vec![0u32; 128 * results]);
    let descriptors = [
        case.a_kept.map_or(0, |kept| kept.descriptor(case.a, 0)),
        case.b_kept.descriptor(case.b, second),
        u64::from(case.add),
    ];
    let parameters = [&[image_at, input, output][..], &descriptors].concat();
    device.run(&image(&text), "k", 1, 128, &parameters).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let got = device.get::<u32>(output, 128 * results);
    for thread in 0..128 {
        for element in 0..n / 2 {
            let (row, column) = place(thread, element);
            let products: f64 = (0..k).map(|step| a[row * k + step] * b[column * k + step]).sum();
            let sign = if case.d == "s32" { 1.0 } else { (case.signs[0] * case.signs[1]) as f64 };
            let expected = sign * products + if case.add { c[row * n + column] } else { 0.0 };
            let word = got[thread * results + if half { element / 2 } else { element }];
            let value = match case.d {
                "f16" => half::f16::from_bits((word >> (element % 2 * 16)) as u16).to_f64(),
                "s32" => f64::from(word as i32),
                _ => f64::from(f32::from_bits(word)),
            };
            let expected = if half { half::f16::from_f64(expected).to_f64() } else { expected };
            let (a, b) = (case.a.name, case.b.name);
            let what = format!("{a} {b} {} n {n} {:?} {:?} {:?}", case.d, case.a_kept, case.b_kept, case.signs);
            assert_eq!(value, expected, "{what} ({row}, {column})");
        }
    }
    if let Ok(path) = std::env::var("PTX_DUMP") {
        std::fs::write(format!("{path}/wgmma{number}.ptx"), text).unwrap();
    }
}

#[test]
fn every_form_of_wgmma() {
    let types = [
        (F16, F16, "f32"),
        (F16, F16, "f16"),
        (BF16, BF16, "f32"),
        (TF32, TF32, "f32"),
        (E4M3, E5M2, "f32"),
        (E5M2, E4M3, "f16"),
        (S8, U8, "s32"),
        (U8, S8, "s32"),
    ];
    let mut number = 0;
    for (a, b, d) in types {
        for n in [8, 64, 256] {
            for swizzle in 0..4 {
                for transposed in [false, true] {
                    // Only 16-bit factors can be kept in the other order, and in whole widths of the swizzle.
                    if transposed && (a.bits != 16 || n < 8 << swizzle) || n == 256 && swizzle != 3 {
                        continue;
                    }
                    number += 1;
                    let b_kept = Kept::dense(transposed, swizzle, b, n);
                    let a_kept = match number % 3 {
                        0 => None,
                        1 => Some(Kept::dense(false, (swizzle + 1) % 4, a, 64)),
                        _ => Some(Kept::dense(a.bits == 16, (swizzle + 3) % 4, a, 64)),
                    };
                    let signs = [[1, 1], [-1, 1], [1, -1], [-1, -1]][number % 4];
                    run(number, &Case { a, b, d, n, a_kept, b_kept, signs, add: !number.is_multiple_of(5) });
                }
            }
        }
    }
    assert_eq!(number, 3 * (8 + 5 + 2) + 5 * (8 + 1));
}

#[test]
fn a_warpgroup_commits_together_and_a_block_that_cannot_hangs() {
    // Three of the four warps commit; the last one waits for them at a barrier of the block.
    let text = format!(
        "{}.visible .entry k()\n{{\n.reg .b32 %t;\n.reg .pred %p;\nmov.u32 %t, %tid.x;\nsetp.ge.u32 %p, %t, 96;\n@%p bra LAST;\n\
         wgmma.commit_group.sync.aligned;\nLAST:\nbar.sync 0;\nret;\n}}\n",
        HEADER.replace("sm_100a", "sm_90a")
    );
    let found = trap(Device::new().run(&image(&text), "k", 1, 128, &[]));
    assert_eq!(found.kind, ptx::TrapKind::Deadlock);
    let whole = text.replace("@%p bra LAST;\n", "");
    Device::new().run(&image(&whole), "k", 1, 256, &[]).unwrap();
}

#[test]
fn a_factor_outside_of_shared_memory_is_an_illegal_address() {
    let kept = Kept::dense(false, 3, F16, 64);
    let case = Case { a: F16, b: F16, d: "f32", n: 8, a_kept: Some(kept), b_kept: kept, signs: [1, 1], add: false };
    let mut device = Device::new();
    let words = vec![0u32; 1 << 12];
    let (image_at, input, output) = (device.put(&words), device.put(&words), device.put(&words));
    let outside = kept.descriptor(F16, 1 << 17);
    let parameters = [image_at, input, output, kept.descriptor(F16, 0), outside, 0];
    let found = trap(device.run(&image(&kernel(&case, 8192)), "k", 1, 128, &parameters));
    assert_eq!(found.kind, ptx::TrapKind::IllegalAddress, "{found}");
    assert!(found.spot.ptx.starts_with("wgmma.mma_async"), "{found}");
}
