//! Sums of products that take turns, and loads from shared memory whose places are checked together: what comes out is what the
//! processor's own arithmetic gives in the order of the program, and what goes wrong has its thread and line.

use std::fmt::Write as _;

use ptx::TrapKind;

use crate::device::{Device, image, trap, words};
use crate::forms::{HEADER, Random};

/// Registers of the sums' kernels.
const REGISTERS: usize = 20;

/// A product and a sum: `r[to] = r[a] * r[b] + r[c]`.
struct Product {
    to: usize,
    a: usize,
    b: usize,
    c: usize,
}

fn below(random: &mut Random, count: usize) -> usize {
    (random.next() >> 20) as usize % count
}

/// Mostly sums one after the other, as compilers write them; sometimes a product of what another sum is about to read or has written.
fn products(random: &mut Random) -> Vec<Product> {
    let mut list = Vec::new();
    let mut pick = |count: usize| below(random, count);
    for _ in 0..8 {
        let mut sum = pick(REGISTERS);
        for _ in 0..1 + pick(6) {
            let to = if pick(3) == 0 { pick(REGISTERS) } else { sum };
            let c = if pick(8) == 0 { pick(REGISTERS) } else { sum };
            list.push(Product { to, a: pick(REGISTERS), b: pick(REGISTERS), c });
            sum = to;
        }
    }
    list
}

#[test]
fn sums_that_take_turns_are_those_of_the_program() {
    for seed in 1..=100u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let list = products(&mut random);
        let mut text = format!(
            "{HEADER}.visible .entry k(.param .u64 p0)\n{{\n.reg .b64 %a, %b;\n.reg .b32 %t;\n.reg .f32 %f<{REGISTERS}>;\n\
             ld.param.u64 %a, [p0];\nmov.u32 %t, %tid.x;\nmul.wide.u32 %b, %t, {};\nadd.u64 %a, %a, %b;\n",
            REGISTERS * 4
        );
        for register in 0..REGISTERS {
            writeln!(text, "ld.global.f32 %f{register}, [%a+{}];", register * 4).unwrap();
        }
        for Product { to, a, b, c } in &list {
            writeln!(text, "fma.rn.f32 %f{to}, %f{a}, %f{b}, %f{c};").unwrap();
        }
        for register in 0..REGISTERS {
            writeln!(text, "st.global.f32 [%a+{}], %f{register};", register * 4).unwrap();
        }
        text += "ret;\n}\n";
        // Four threads at once, and one after the other.
        for threads in [32usize, 3] {
            let before: Vec<f32> =
                (0..threads * REGISTERS).map(|_| below(&mut random, 2001) as f32 / 1000.0 - 1.0).collect();
            let mut device = Device::new();
            let at = device.put(&before);
            device.run(&image(&text), "k", 1, threads as u32, &[at]).unwrap();
            let after = device.get::<f32>(at, threads * REGISTERS);
            for thread in 0..threads {
                let mut own: [f32; REGISTERS] = std::array::from_fn(|register| before[thread * REGISTERS + register]);
                for Product { to, a, b, c } in &list {
                    own[*to] = own[*a].mul_add(own[*b], own[*c]);
                }
                let got = &after[thread * REGISTERS..][..REGISTERS];
                assert!(
                    got.iter().zip(&own).all(|(got, own)| got.to_bits() == own.to_bits()),
                    "program {seed}, thread {thread} of {threads}: {got:?} for {own:?}\n{text}"
                );
            }
        }
    }
}

/// Threads load from shared memory, at `address` (`%b`) and these distances; the word at each place is its number.
fn loading(address: &str, distances: &[i64]) -> String {
    let mut text = format!(
        "{HEADER}.extern .shared .align 16 .b8 s[];\n.visible .entry k(.param .u64 p0, .param .u32 p1)\n{{\n\
         .reg .b64 %out, %a;\n.reg .b32 %t, %n, %b, %i;\n.reg .pred %p;\n.reg .b32 %r<{}>;\n\
         ld.param.u64 %out, [p0];\nld.param.u32 %n, [p1];\nmov.u32 %t, %tid.x;\n\
         mov.u32 %i, %t;\nL: setp.ge.u32 %p, %i, %n;\n@%p bra M;\nshl.b32 %b, %i, 2;\nst.shared.u32 [%b], %i;\n\
         mov.u32 %b, %ntid.x;\nadd.u32 %i, %i, %b;\nbra L;\nM: bar.sync 0;\n{address}\n",
        distances.len() * 4
    );
    for (index, distance) in distances.iter().enumerate() {
        let [a, b, c, d] = [0, 1, 2, 3].map(|word| index * 4 + word);
        writeln!(text, "ld.shared.v4.b32 {{%r{a}, %r{b}, %r{c}, %r{d}}}, [%b+{distance}];").unwrap();
    }
    writeln!(text, "mul.wide.u32 %a, %t, {};\nadd.u64 %a, %a, %out;", distances.len() * 16).unwrap();
    for word in 0..distances.len() * 4 {
        writeln!(text, "st.global.b32 [%a+{}], %r{word};", word * 4).unwrap();
    }
    text + "ret;\n}\n"
}

/// An address in PTX, and what it is for a thread.
type Way = (&'static str, fn(i64) -> i64);

/// One for all threads, each thread's own behind its neighbor's, and in other steps.
const WAYS: [Way; 3] = [
    ("mov.u32 %b, 64;", |_| 64),
    ("shl.b32 %b, %t, 4;\nadd.u32 %b, %b, 64;", |thread| thread * 16 + 64),
    ("mul.lo.u32 %b, %t, 48;\nadd.u32 %b, %b, 64;", |thread| thread * 48 + 64),
];

#[test]
fn loads_that_are_checked_together_give_what_is_there() {
    let distances = [0, 16, 512, -48, 128, -64];
    for (address, place) in WAYS {
        let image = image(&loading(address, &distances));
        for threads in [32i64, 64, 30] {
            let bytes = place(threads - 1) + 512 + 16;
            let mut device = Device::new();
            let out = device.alloc(threads as usize * distances.len() * 16);
            let mut params = words(&[out]);
            params.extend((bytes as u32 / 4).to_le_bytes());
            device
                .launch(&image, "k", [1; 3], [threads as u32, 1, 1], &params, |l| l.dynamic_shared = bytes as u32)
                .unwrap();
            let got = device.get::<u32>(out, threads as usize * distances.len() * 4);
            let expected = (0..threads).flat_map(|thread| {
                distances
                    .iter()
                    .flat_map(move |distance| (0..4).map(move |word| ((place(thread) + distance) / 4 + word) as u32))
            });
            assert!(got.iter().copied().eq(expected), "{address} of {threads}: {got:?}");
        }
    }
}

#[test]
fn the_load_that_goes_astray_is_named_among_those_checked_together() {
    // The third one leaves the memory, for all threads or the last ones; the second one is not aligned.
    let distances = [0, 16, 512, 32];
    for (address, place) in WAYS {
        let text = loading(address, &distances);
        let line_of = |distance: i64| {
            let found = text.lines().position(|line| line.contains(&format!("[%b+{distance}]")));
            found.unwrap() as u32 + 1
        };
        let image = image(&text);
        for threads in [32i64, 30] {
            let bytes = place(threads - 1) + 512;
            let mut device = Device::new();
            let out = device.alloc(threads as usize * distances.len() * 16);
            let mut params = words(&[out]);
            params.extend((bytes as u32 / 4).to_le_bytes());
            let result = device
                .launch(&image, "k", [1; 3], [threads as u32, 1, 1], &params, |l| l.dynamic_shared = bytes as u32);
            let trap = trap(result);
            let first = (0..threads).find(|thread| place(*thread) + 512 + 16 > bytes).unwrap();
            assert_eq!((trap.kind, trap.spot.line), (TrapKind::IllegalAddress, line_of(512)), "{address}: {trap}");
            assert_eq!(i64::from(trap.thread[0]), first, "{address} of {threads}: {trap}");
            assert_eq!(trap.address as i64, place(first) + 512, "{address} of {threads}: {trap}");
        }
    }
    let text = loading("mov.u32 %b, 72;", &distances);
    let mut device = Device::new();
    let out = device.alloc(32 * distances.len() * 16);
    let mut params = words(&[out]);
    params.extend(256u32.to_le_bytes());
    let result = device.launch(&image(&text), "k", [1; 3], [32, 1, 1], &params, |l| l.dynamic_shared = 1024);
    let trap = trap(result);
    assert_eq!((trap.kind, trap.thread[0], trap.address), (TrapKind::MisalignedAddress, 0, 72), "{trap}");
}
