//! Loads and stores of every width, generic addresses, atomics, asynchronous copies and their barriers, initial values.

use ptx::{Module, TensorMap, TrapKind};

use crate::device::{self, Device, image, trap};
use crate::forms::{HEADER, Random};

/// A kernel of one thread with pointers p0 to p2.
fn one(declarations: &str, body: &str) -> String {
    format!(
        "{HEADER}{declarations}.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2)\n{{\n.reg .b64 %a, %b, %c, %x, %y, %z, %w;\n\
         .reg .b32 %r<20>;\n.reg .b16 %h<20>;\n.reg .f32 %f<4>;\n.reg .b128 %q<4>;\n.reg .pred %p, %s;\nld.param.u64 %a, [p0];\nld.param.u64 %b, [p1];\nld.param.u64 %c, [p2];\n{body}\nret;\n}}\n"
    )
}

#[test]
fn loads_extend_and_stores_cut() {
    let bytes: [u8; 32] = std::array::from_fn(|i| (i as u8).wrapping_mul(37) ^ 0x95);
    for (kind, size, signed) in [
        ("u8", 1, false),
        ("s8", 1, true),
        ("u16", 2, false),
        ("s16", 2, true),
        ("u32", 4, false),
        ("s32", 4, true),
        ("b64", 8, false),
    ] {
        for modifier in ["", ".volatile", ".relaxed.gpu", ".acquire.sys"] {
            let text = one("", &format!("ld{modifier}.global.{kind} %x, [%a+8];\nst.global.b64 [%b], %x;"));
            let mut device = Device::new();
            let (a, b) = (device.put(&bytes), device.put(&[0u64]));
            device.run(&image(&text), "k", 1, 1, &[a, b, 0]).unwrap();
            let raw = u64::from_le_bytes(bytes[8..16].try_into().unwrap())
                & if size == 8 { u64::MAX } else { (1 << (size * 8)) - 1 };
            let expected = if signed { ((raw << (64 - size * 8)) as i64 >> (64 - size * 8)) as u64 } else { raw };
            assert_eq!(device.get::<u64>(b, 1)[0], expected, "{kind}{modifier}");
        }
    }
    for (text, count) in [
        ("ld.global.v2.u8 {%h0, %h1}, [%a];\nst.global.v2.u8 [%b], {%h0, %h1};", 2),
        ("ld.global.v4.u8 {%h0, %h1, %h2, %h3}, [%a];\nst.global.v4.u8 [%b], {%h0, %h1, %h2, %h3};", 4),
        ("ld.global.v4.u16 {%h0, %h1, %h2, %h3}, [%a];\nst.global.v4.u16 [%b], {%h0, %h1, %h2, %h3};", 8),
        ("ld.global.nc.v4.u32 {%r0, %r1, %r2, %r3}, [%a];\nst.global.v4.u32 [%b], {%r0, %r1, %r2, %r3};", 16),
        ("ld.global.v2.b64 {%x, %y}, [%a];\nst.global.v2.b64 [%b], {%x, %y};", 16),
        (
            "ld.global.v8.b32 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, [%a];\nst.global.v8.b32 [%b], {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7};",
            32,
        ),
        ("ld.global.v4.b64 {%x, %y, %z, %w}, [%a];\nst.global.v4.b64 [%b], {%x, %y, %z, %w};", 32),
        ("ld.global.b128 %q0, [%a];\nst.global.b128 [%b], %q0;", 16),
    ] {
        let mut device = Device::new();
        // 32-byte accesses want addresses of that alignment.
        let room = device.put(&[0u8; 128]);
        let (a, b) = (room.next_multiple_of(32), room.next_multiple_of(32) + 32);
        let image = image(&one("", text));
        let fill = one(
            "",
            &(0..32).map(|i| format!("mov.u16 %h0, {};\nst.global.u8 [%a+{i}], %h0;\n", bytes[i])).collect::<String>(),
        );
        device.run(&device::image(&fill), "k", 1, 1, &[a, 0, 0]).unwrap();
        device.run(&image, "k", 1, 1, &[a, b, 0]).unwrap();
        let got = device.get::<u8>(b, 32);
        assert_eq!(got[..count], bytes[..count], "{text}");
        assert!(got[count..].iter().all(|x| *x == 0), "{text}");
    }
}

#[test]
fn generic_addresses_reach_every_space() {
    let text = one(
        ".global .u32 g = 7;\n.const .u32 m[3] = {10, 20, 30};\n",
        ".shared .align 4 .b32 s[4];\n.local .align 4 .b32 l[4];\nmov.u64 %x, s;\ncvta.shared.u64 %x, %x;\nmov.u32 %r0, 5;\nst.u32 [%x+4], %r0;\n\
         ld.shared.u32 %r1, [s+4];\nmov.u64 %y, l;\ncvta.local.u64 %z, %y;\nmov.u32 %r0, 6;\nst.u32 [%z+8], %r0;\nld.local.u32 %r2, [%y+8];\n\
         mov.u64 %w, g;\ncvta.global.u64 %w, %w;\nld.u32 %r3, [%w];\nmov.u64 %w, m;\ncvta.const.u64 %w, %w;\nld.u32 %r4, [%w+8];\nld.const.u32 %r5, [m+4];\n\
         isspacep.shared %p, %x;\nselp.u32 %r6, 1, 0, %p;\nisspacep.local %p, %z;\nselp.u32 %r7, 1, 0, %p;\nisspacep.global %p, %x;\nselp.u32 %r8, 1, 0, %p;\n\
         isspacep.global %p, %a;\nselp.u32 %r9, 1, 0, %p;\ncvta.to.shared.u64 %x, %x;\ncvt.u32.u64 %r10, %x;\nld.shared.u32 %r10, [%r10+4];\n\
         st.global.v4.u32 [%a], {%r1, %r2, %r3, %r4};\nst.global.v4.u32 [%a+16], {%r5, %r6, %r7, %r8};\nst.global.v2.u32 [%a+32], {%r9, %r10};",
    );
    let mut device = Device::new();
    let a = device.put(&[0u32; 12]);
    device.run(&image(&text), "k", 1, 1, &[a, 0, 0]).unwrap();
    assert_eq!(device.get::<u32>(a, 10), [5, 6, 7, 30, 20, 1, 1, 0, 1, 5]);
}

/// `tile[7 - x]`, as NVRTC compiles it: -4x + 28.
#[test]
fn addresses_of_32_bits_wrap() {
    let body = ".shared .align 4 .b32 s[8];\n.reg .b32 %t, %n, %v, %u;\nmov.u32 %t, %tid.x;\nmov.u32 %n, s;\nshl.b32 %v, %t, 2;\n\
                add.u32 %u, %n, %v;\nst.shared.u32 [%u], %t;\nbar.sync 0;\nsub.u32 %n, %n, %v;\nLOAD\nmul.wide.u32 %x, %t, 8;\n\
                add.u64 %a, %a, %x;\nst.global.v2.u32 [%a], {%r0, %r1};";
    let reversed: Vec<u32> = (0..8).flat_map(|x| [7 - x, 7 - x / 2]).collect();
    for load in [
        "ld.shared.u32 %r0, [%n+28];\nshr.u32 %v, %t, 1;\nsub.u32 %r1, 7, %v;",
        // Two loads whose places are checked at once.
        "shr.u32 %v, %t, 1;\nshl.b32 %v, %v, 2;\nneg.s32 %u, %v;\nshl.b32 %v, %t, 2;\nneg.s32 %n, %v;\n\
         ld.shared.u32 %r0, [%n+28];\nld.shared.u32 %v, [%n+28];\nld.shared.u32 %r1, [%u+28];",
        "atom.shared.add.u32 %r0, [%n+28], 0;\nshr.u32 %v, %t, 1;\nsub.u32 %r1, 7, %v;",
    ] {
        let mut device = Device::new();
        let a = device.put(&[0u32; 16]);
        device.run(&image(&one("", &body.replace("LOAD", load))), "k", 1, 8, &[a, 0, 0]).unwrap();
        assert_eq!(device.get::<u32>(a, 16), reversed, "{load}");
    }
    let outside = ".shared .align 4 .b32 s[8];\nmov.u32 %r0, -64;\nld.shared.u32 %r0, [%r0+28];";
    let result = Device::new().run(&image(&one("", outside)), "k", 1, 1, &[0, 0, 0]);
    assert_eq!(trap(result).kind, TrapKind::IllegalAddress);
}

#[test]
fn accesses_outside_any_space_stop_the_launch() {
    for (body, kind) in [
        (".shared .b32 s[4];\nld.shared.u32 %r0, [s+16];", TrapKind::IllegalAddress),
        (".shared .b32 s[4];\nld.shared.u32 %r0, [s+2];", TrapKind::MisalignedAddress),
        (".local .b32 l[4];\nmov.u64 %x, 0x4000;\nst.local.u32 [%x], %r0;", TrapKind::IllegalAddress),
        ("ld.global.u32 %r0, [%b];", TrapKind::IllegalAddress),
        ("ld.u64 %x, [%a+4];", TrapKind::MisalignedAddress),
        ("ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%a+8];", TrapKind::MisalignedAddress),
        ("ld.global.u64 %x, [%a+16];", TrapKind::IllegalAddress),
        ("atom.global.add.u32 %r0, [%a+16], 1;", TrapKind::IllegalAddress),
        ("red.global.add.f32 [%a+2], %f0;", TrapKind::MisalignedAddress),
        ("trap;", TrapKind::Trap),
        ("brkpt;", TrapKind::Breakpoint),
        ("bar.sync 17;", TrapKind::InvalidBarrier),
    ] {
        let mut device = Device::new();
        let a = device.put(&[0u32; 4]);
        let trap = trap(device.run(
            &image(&one("", &format!("mov.u32 %r0, 0;\nmov.f32 %f0, 0f00000000;\n{body}"))),
            "k",
            1,
            1,
            &[a, 0, 0],
        ));
        assert_eq!(trap.kind, kind, "{body}: {trap}");
        assert!(body.contains(&trap.spot.ptx), "{trap}");
    }
}

#[test]
fn atomics_give_the_old_value_and_keep_the_new() {
    let single = |x: f32| u64::from(x.to_bits());
    type Model = fn(u64, u64, u64) -> u64;
    let cases: Vec<(&str, u32, Model)> = vec![
        ("add.u32", 4, |o, b, _| o + b),
        ("add.s32", 4, |o, b, _| o + b),
        ("add.u64", 8, |o, b, _| o.wrapping_add(b)),
        ("min.u32", 4, |o, b, _| o.min(b)),
        ("max.u32", 4, |o, b, _| o.max(b)),
        ("min.s32", 4, |o, b, _| (o as i32).min(b as i32) as u64),
        ("max.s32", 4, |o, b, _| (o as i32).max(b as i32) as u64),
        ("min.u64", 8, |o, b, _| o.min(b)),
        ("max.s64", 8, |o, b, _| (o as i64).max(b as i64) as u64),
        ("inc.u32", 4, |o, b, _| if o >= b { 0 } else { o + 1 }),
        ("dec.u32", 4, |o, b, _| if o == 0 || o > b { b } else { o - 1 }),
        ("and.b32", 4, |o, b, _| o & b),
        ("or.b64", 8, |o, b, _| o | b),
        ("xor.b32", 4, |o, b, _| o ^ b),
        ("exch.b32", 4, |_, b, _| b),
        ("exch.b64", 8, |_, b, _| b),
        ("cas.b16", 2, |o, b, c| if o == b { c } else { o }),
        ("cas.b32", 4, |o, b, c| if o == b { c } else { o }),
        ("cas.b64", 8, |o, b, c| if o == b { c } else { o }),
    ];
    let mut random = Random(12345);
    for space in ["global", "shared", ""] {
        for (name, bytes, model) in &cases {
            for _ in 0..4 {
                let mask = if *bytes == 8 { u64::MAX } else { (1u64 << (bytes * 8)) - 1 };
                let old = random.next() & mask;
                let b = if random.next() & 1 == 0 { old } else { random.next() & mask };
                let c = random.next() & mask;
                let (raw, reg) = (format!("b{}", bytes * 8), ["", "", "%h", "", "%r", "", "", "", ""][*bytes as usize]);
                let reg =
                    |n: u32| if *bytes == 8 { ["%x", "%y", "%z"][n as usize].to_string() } else { format!("{reg}{n}") };
                let third = if name.starts_with("cas") { format!(", {}", reg(2)) } else { String::new() };
                let (place, space_name) = match space {
                    "shared" => ("[s]", ".shared"),
                    "global" => ("[%b]", ".global"),
                    _ => ("[%b]", ""),
                };
                let text = one(
                    "",
                    &format!(
                        ".shared .align 16 .b8 s[16];\nld.global.{raw} {}, [%a];\nld.global.{raw} {}, [%a+8];\nld.global.{raw} {}, [%a+16];\n\
                         st{}.{raw} {place}, {};\natom.relaxed.gpu{space_name}.{name} {}, {place}, {}{third};\nst.global.{raw} [%c], {};\nld{}.{raw} {}, {place};\nst.global.{raw} [%c+8], {};",
                        reg(0),
                        reg(1),
                        reg(2),
                        if space == "shared" { ".shared" } else { "" },
                        reg(0),
                        reg(0),
                        reg(1),
                        reg(0),
                        if space == "shared" { ".shared" } else { "" },
                        reg(0),
                        reg(0)
                    ),
                );
                let mut device = Device::new();
                let (a, at, out) = (device.put(&[old, b, c]), device.put(&[0u64; 2]), device.put(&[0u64; 2]));
                device.run(&image(&text), "k", 1, 1, &[a, at, out]).unwrap_or_else(|error| panic!("{text}\n{error}"));
                assert_eq!(
                    device.get::<u64>(out, 2),
                    [old, model(old, b, c) & mask],
                    "{name} {space} {old:x} {b:x} {c:x}"
                );
            }
        }
    }
    // Sums of floats, alone and in vectors.
    for (text, start, expected) in [
        ("red.global.add.f32 [%a], 0f40200000;", [single(1.5), 0], [single(4.0), 0]),
        ("red.global.add.f64 [%a], 0d4004000000000000;", [1.5f64.to_bits(), 0], [4f64.to_bits(), 0]),
        ("mov.b32 %r0, 0x40003c00;\nred.global.add.noftz.f16x2 [%a], %r0;", [0x3c00_3c00, 0], [0x4200_4000, 0]),
        ("mov.b32 %r0, 0x40003f80;\nred.global.add.noftz.bf16x2 [%a], %r0;", [0x3f80_3f80, 0], [0x4040_4000, 0]),
        (
            "mov.f32 %f0, 0f3F800000;\nred.global.add.v2.f32 [%a], {%f0, %f0};",
            [single(1.0), 0],
            [single(2.0) | single(1.0) << 32, 0],
        ),
    ] {
        let mut device = Device::new();
        let a = device.put(&start);
        device.run(&image(&one("", text)), "k", 1, 1, &[a, 0, 0]).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(device.get::<u64>(a, 2), expected, "{text}");
    }
    let text = one(
        "",
        "ld.global.b128 %q0, [%a];\nld.global.b128 %q1, [%a+16];\natom.global.cas.b128 %q2, [%b], %q0, %q1;\nst.global.b128 [%c], %q2;",
    );
    let mut device = Device::new();
    let (a, b, c) = (device.put(&[1u64, 2, 3, 4]), device.put(&[1u64, 2]), device.put(&[0u64; 2]));
    device.run(&image(&text), "k", 1, 1, &[a, b, c]).unwrap();
    assert_eq!((device.get::<u64>(b, 2), device.get::<u64>(c, 2)), (vec![3, 4], vec![1, 2]));
}

#[test]
fn atomics_from_all_workers_add_up() {
    let text = format!(
        "{HEADER}.visible .entry k(.param .u64 p0)\n{{\n.reg .b64 %p;\n.reg .b32 %r;\n.reg .f32 %f;\nld.param.u64 %p, [p0];\natom.global.add.u32 %r, [%p], 1;\n\
         red.global.add.f32 [%p+4], 0f3F800000;\nret;\n}}\n"
    );
    let mut device = Device::new();
    let at = device.put(&[0u32; 2]);
    device.run(&image(&text), "k", 2000, 256, &[at]).unwrap();
    assert_eq!(device.get::<u32>(at, 2), [512_000, 512_000f32.to_bits()]);
}

#[test]
fn asynchronous_copies_fill_with_zeros() {
    let text = one(
        "",
        ".shared .align 16 .b8 s[64];\ncp.async.ca.shared.global [s], [%a], 4;\ncp.async.ca.shared.global [s+8], [%a+8], 8, 5;\n\
         cp.async.cg.shared.global [s+16], [%a+16], 16, 0;\ncp.async.commit_group;\ncp.async.wait_group 0;\ncp.async.cg.shared.global.L2::128B [s+32], [%a], 16;\ncp.async.wait_all;\n\
         ld.shared.b64 %x, [s+8];\nst.global.b64 [%b], %x;\nld.shared.b64 %x, [s+16];\nst.global.b64 [%b+8], %x;\nld.shared.b64 %x, [s+32];\nst.global.b64 [%b+16], %x;\nld.shared.u32 %r0, [s];\nst.global.u32 [%b+24], %r0;",
    );
    let bytes: [u8; 32] = std::array::from_fn(|i| i as u8 + 1);
    let mut device = Device::new();
    let (a, b) = (device.put(&bytes), device.put(&[0u64; 4]));
    device.run(&image(&text), "k", 1, 1, &[a, b, 0]).unwrap();
    let got = device.get::<u64>(b, 4);
    assert_eq!(got, [0x0d_0c0b_0a09, 0, 0x0807_0605_0403_0201, 0x0403_0201]);
}

#[test]
fn an_mbarrier_counts_arrivals_and_bytes() {
    // 31 threads arrive, one brings 64 bytes by a bulk copy; all wait for the phase.
    let text = format!(
        "{HEADER}.visible .entry k(.param .u64 p0, .param .u64 p1)\n{{\n.shared .align 16 .b8 s[64];\n.shared .align 8 .b64 m;\n.reg .b64 %a, %b, %x, %at;\n\
         .reg .b32 %t, %v, %s;\n.reg .pred %p, %q;\nld.param.u64 %a, [p0];\nld.param.u64 %b, [p1];\nmov.u32 %t, %tid.x;\nsetp.ne.u32 %p, %t, 0;\n\
         @%p bra WAIT;\nmbarrier.init.shared::cta.b64 [m], 32;\nfence.mbarrier_init.release.cluster;\nWAIT:\nbar.sync 0;\n@%p bra OTHERS;\n\
         mbarrier.arrive.expect_tx.shared::cta.b64 %x, [m], 64;\ncp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%a], 64, [m];\n\
         bra LOOP;\nOTHERS:\nmbarrier.arrive.shared::cta.b64 %x, [m];\nLOOP:\nmbarrier.try_wait.parity.shared::cta.b64 %q, [m], 0;\n@!%q bra LOOP;\n\
         shl.b32 %v, %t, 1;\nmov.u32 %s, s;\nadd.u32 %s, %s, %v;\n.reg .b16 %h;\nld.shared.u16 %h, [%s];\nmul.wide.u32 %at, %t, 2;\nadd.u64 %b, %b, %at;\n\
         st.global.u16 [%b], %h;\nret;\n}}\n"
    );
    let values: Vec<u16> = (0..32).map(|i| i * 77 + 3).collect();
    let mut device = Device::new();
    let (a, b) = (device.put(&values), device.put(&[0u16; 32]));
    device.run(&image(&text), "k", 2, 32, &[a, b]).unwrap();
    assert_eq!(device.get::<u16>(b, 32), values);
}

#[test]
fn asynchronous_stores_reach_the_other_block_and_its_barrier() {
    // Each block of a cluster stores pairs of words into the other's memory, whose barrier waits for all of their bytes.
    let text = format!(
        "{HEADER}.visible .entry k(.param .u64 p0)\n{{\n.shared .align 16 .b8 s[256];\n.shared .align 8 .b64 m;\n.reg .b64 %b, %x, %at;\n\
         .reg .b32 %t, %k, %o, %s, %d, %e, %v, %w;\n.reg .pred %p, %q;\nld.param.u64 %b, [p0];\nmov.u32 %t, %tid.x;\nmov.u32 %k, %cluster_ctarank;\n\
         setp.ne.u32 %p, %t, 0;\n@%p bra WAIT;\nmbarrier.init.shared::cta.b64 [m], 1;\nmbarrier.arrive.expect_tx.shared::cta.b64 %x, [m], 256;\nWAIT:\n\
         barrier.cluster.arrive;\nbarrier.cluster.wait;\nxor.b32 %o, %k, 1;\nmov.u32 %s, s;\nmapa.shared::cluster.u32 %d, %s, %o;\nmov.u32 %s, m;\n\
         mapa.shared::cluster.u32 %e, %s, %o;\nshl.b32 %s, %t, 3;\nadd.u32 %d, %d, %s;\nmad.lo.u32 %v, %k, 1000, %t;\nmul.lo.u32 %w, %t, %t;\n\
         st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.u32 [%d], {{%v, %w}}, [%e];\n\
         LOOP:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %q, [m], 0;\n@!%q bra LOOP;\n\
         mov.u32 %d, s;\nadd.u32 %d, %d, %s;\nld.shared.b64 %x, [%d];\nmad.lo.u32 %s, %k, 256, %s;\ncvt.u64.u32 %at, %s;\nadd.u64 %b, %b, %at;\n\
         st.global.b64 [%b], %x;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\nret;\n}}\n"
    );
    let mut device = Device::new();
    let b = device.put(&[0u32; 128]);
    device
        .launch(&image(&text), "k", [2, 1, 1], [32, 1, 1], &b.to_le_bytes(), |launch| launch.cluster = [2, 1, 1])
        .unwrap();
    let expected: Vec<u32> =
        [1, 0].iter().flat_map(|other| (0..32).flat_map(move |t| [other * 1000 + t, t * t])).collect();
    assert_eq!(device.get::<u32>(b, 128), expected);
}

#[test]
fn a_kernel_makes_a_tensor_map() {
    // One thread writes the fields into zeros in shared memory, the warp publishes them.
    let field = |name: &str, kind: &str, rest: &str| {
        format!("@%p tensormap.replace.tile.{name}.shared::cta.b1024.{kind} [s], {rest};\n")
    };
    let mut fields = field("global_address", "b64", "%a") + &field("rank", "b32", "2");
    for (axis, (size, edge)) in [(100, 32), (20, 4), (3, 1)].into_iter().enumerate() {
        fields += &field("global_dim", "b32", &format!("{axis}, {size}"));
        fields += &field("box_dim", "b32", &format!("{axis}, {edge}"));
    }
    for (axis, stride) in [400, 8000].into_iter().enumerate() {
        fields += &field("global_stride", "b64", &format!("{axis}, {stride}"));
    }
    for axis in 0..5 {
        fields += &field("element_stride", "b32", &format!("{axis}, {}", 1 + axis % 2));
    }
    fields += &field("elemtype", "b32", "10");
    fields += &field("interleave_layout", "b32", "0");
    fields += &field("swizzle_mode", "b32", "3");
    fields += &field("fill_mode", "b32", "1");
    let text = format!(
        "{}.visible .entry k(.param .u64 out, .param .u64 to)\n{{\n.shared .align 128 .b8 s[128];\n.reg .b64 %a, %o;\n.reg .b32 %t, %z;\n.reg .pred %p;\n\
         ld.param.u64 %o, [out];\nld.param.u64 %a, [to];\nmov.u32 %t, %tid.x;\nshl.b32 %z, %t, 2;\nmov.u32 %t, s;\nadd.u32 %z, %z, %t;\nst.shared.b32 [%z], 0;\nbar.warp.sync -1;\n\
         mov.u32 %t, %tid.x;\nsetp.eq.u32 %p, %t, 9;\n{fields}\
         tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%o], [s], 0x80;\n\
         fence.proxy.tensormap::generic.acquire.gpu [%o], 0x80;\nret;\n}}\n",
        HEADER.replace("sm_100a", "sm_90a")
    );
    let mut device = Device::new();
    // CUDA aligns a map to 64 bytes, and so does its memory.
    let room = device.alloc(192);
    let out = room.next_multiple_of(64);
    device.run(&image(&text), "k", 1, 32, &[out, 0x7000_1234_5678]).unwrap();
    let bytes: [u8; 128] = device.get::<u8>(out, 128).try_into().unwrap();
    let expected = TensorMap {
        address: 0x7000_1234_5678,
        rank: 3,
        sizes: [100, 20, 3, 0, 0],
        strides: [400, 8000, 0, 0],
        box_sizes: [32, 4, 1, 0, 0],
        element_strides: [1, 2, 1, 2, 1],
        // .bf16, which the driver's numbers have elsewhere.
        element_bytes: 2,
        data_type: 9,
        swizzle: 3,
        fill_nan: true,
    };
    assert_eq!(TensorMap::decode(&bytes), Some(expected));
    let wrong = text.replace("rank.shared::cta.b1024.b32 [s], 2", "rank.shared::cta.b1024.b32 [s], 5");
    let found = trap(device.run(&image(&wrong), "k", 1, 32, &[out, 0]));
    assert_eq!(found.kind, TrapKind::IllegalAddress, "{found}");
}

#[test]
fn tensor_copies_move_boxes() {
    // A 3 x 10 box at (x, y) of a 7 x 13 matrix of floats, partly outside, comes in, is doubled and goes out.
    let text = format!(
        "{HEADER}.visible .entry k(.param .align 64 .b8 map[128], .param .align 64 .b8 out[128], .param .u32 x, .param .u32 y)\n{{\n\
         .shared .align 128 .b8 s[160];\n.shared .align 8 .b64 m;\n.reg .b64 %a, %b, %x;\n.reg .b32 %r, %c, %d;\n.reg .f32 %f;\n.reg .pred %q;\n\
         mov.b64 %a, map;\ncvta.param.u64 %a, %a;\nmov.b64 %b, out;\ncvta.param.u64 %b, %b;\nld.param.u32 %c, [x];\nld.param.u32 %d, [y];\n\
         mbarrier.init.shared::cta.b64 [m], 1;\nmbarrier.arrive.expect_tx.shared::cta.b64 %x, [m], 120;\n\
         cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [s], [%a, {{%c, %d}}], [m];\n\
         L:\nmbarrier.try_wait.parity.shared::cta.b64 %q, [m], 0;\n@!%q bra L;\nmov.u32 %r, 0;\nM:\n.reg .b32 %z;\nmov.u32 %z, s;\nadd.u32 %z, %z, %r;\nld.shared.f32 %f, [%z];\nadd.f32 %f, %f, %f;\nst.shared.f32 [%z], %f;\n\
         add.u32 %r, %r, 4;\nsetp.lt.u32 %q, %r, 120;\n@%q bra M;\nfence.proxy.async.shared::cta;\n\
         cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%b, {{%c, %d}}], [s];\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nret;\n}}\n"
    );
    let values: Vec<f32> = (0..8 * 13).map(|i| i as f32 + 1.0).collect();
    for (x, y) in [(2i32, 3i32), (-1, -2), (5, 9)] {
        let mut device = Device::new();
        let (source, target) = (device.put(&values), device.put(&[0f32; 8 * 13]));
        let map = |address| TensorMap {
            address,
            rank: 2,
            sizes: [7, 13, 0, 0, 0],
            strides: [32, 0, 0, 0],
            box_sizes: [3, 10, 0, 0, 0],
            element_strides: [1; 5],
            element_bytes: 4,
            data_type: 7,
            swizzle: 0,
            fill_nan: false,
        };
        let mut params = map(source).encode().to_vec();
        params.extend(map(target).encode());
        params.extend(x.to_le_bytes());
        params.extend(y.to_le_bytes());
        device.launch(&image(&text), "k", [1; 3], [1; 3], &params, |_| {}).unwrap();
        let got = device.get::<f32>(target, 8 * 13);
        for row in 0..13i32 {
            for column in 0..8i32 {
                let inside = (x..x + 3).contains(&column) && (y..y + 10).contains(&row) && column < 7;
                let at = (row * 8 + column) as usize;
                assert_eq!(got[at], if inside { values[at] * 2.0 } else { 0.0 }, "({x},{y}): {row} {column}");
            }
        }
    }
}

#[test]
fn initial_values_hold_addresses_and_modules_link() {
    let first = format!(
        "{HEADER}.visible .global .align 8 .u64 pointers[2] = {{second+4, third}};\n.extern .global .u32 second[2];\n.global .u32 third = 9;\n\
         .extern .func (.param .b32 r) helper(.param .b32 a);\n\
         .visible .entry k(.param .u64 p0)\n{{\n.reg .b64 %a, %x;\n.reg .b32 %r, %s;\nld.param.u64 %a, [p0];\nld.global.u64 %x, [pointers];\nld.global.u32 %r, [%x];\n\
         ld.global.u64 %x, [pointers+8];\nld.global.u32 %s, [%x];\nadd.u32 %r, %r, %s;\n{{ .param .b32 i; .param .b32 o; st.param.b32 [i], %r; call (o), helper, (i); ld.param.b32 %r, [o]; }}\nst.global.u32 [%a], %r;\nret;\n}}\n"
    );
    let second = format!(
        "{HEADER}.visible .global .u32 second[2] = {{1, 100}};\n.visible .func (.param .b32 r) helper(.param .b32 a)\n{{\n.reg .b32 %x;\nld.param.b32 %x, [a];\n\
         mul.lo.u32 %x, %x, 2;\nst.param.b32 [r], %x;\nret;\n}}\n"
    );
    let modules = [Module::parse(&first).unwrap(), Module::parse(&second).unwrap()];
    let image = ptx::Image::link(&modules).unwrap();
    let mut device = Device::new();
    let a = device.put(&[0u32]);
    device.run(&image, "k", 1, 1, &[a]).unwrap();
    assert_eq!(device.get::<u32>(a, 1)[0], 218);
    let error = ptx::Image::link(&modules[..1]).unwrap_err();
    assert_eq!(error.to_string(), "undefined symbol second");
    let twice = [Module::parse(&second).unwrap(), Module::parse(&second).unwrap()];
    assert_eq!(ptx::Image::link(&twice).unwrap_err().to_string(), "symbol second is defined by more than one module");
}
