//! `multimem` at memory of three devices: what it stores, adds and reads there by types, and where it may not.

use half::{bf16, f16};
use ptx::TrapKind;

use crate::device::{Device, MULTICAST, image, trap};
use crate::forms::HEADER;

/// A kernel of one thread with the multicast address `%m` and an output `%o`.
fn one(body: &str) -> String {
    format!(
        "{HEADER}.visible .entry k(.param .u64 p0, .param .u64 p1)\n{{\n.reg .b64 %m, %o, %x<2>;\n.reg .b32 %r<4>;\n.reg .b16 %h<8>;\n\
         .reg .f32 %f<4>;\n.reg .f64 %d;\nld.param.u64 %m, [p0];\nld.param.u64 %o, [p1];\n{body}\nret;\n}}\n"
    )
}

/// The memory of the three devices and the output after a run of `body`.
fn run<T: Copy>(body: &str, devices: [&[T]; 3], count: usize) -> ([Vec<T>; 3], Vec<T>) {
    let mut device = Device::new();
    let places = devices.map(|values| device.put(values));
    device.multicast = places.to_vec();
    let out = device.alloc(64);
    device.run(&image(&one(body)), "k", 1, 1, &[MULTICAST, out]).unwrap_or_else(|error| panic!("{body}: {error}"));
    (places.map(|place| device.get(place, devices[0].len())), device.get(out, count))
}

#[test]
fn a_store_reaches_every_device() {
    let zeros = [0u32; 4];
    for order in [".weak", ".relaxed.sys", ".release.gpu", ""] {
        let body = format!("mov.b32 %r0, 7;\nmultimem.st{order}.global.u32 [%m+8], %r0;");
        let (devices, _) = run(&body, [&zeros; 3], 1);
        assert_eq!(devices, [(); 3].map(|()| vec![0, 0, 7, 0]), "{order}");
    }
    let body = "mov.b32 %r0, 1;\nmov.b32 %r1, 2;\nmov.b32 %r2, 3;\nmov.b32 %r3, 4;\nmultimem.st.relaxed.sys.global.v4.f32 [%m], {%r0, %r1, %r2, %r3};";
    assert_eq!(run(body, [&zeros; 3], 1).0, [(); 3].map(|()| vec![1, 2, 3, 4]));
    let body = "mov.b64 %x0, 0x100000002;\nmultimem.st.global.b64 [%m+8], %x0;";
    assert_eq!(run(body, [&zeros; 3], 1).0, [(); 3].map(|()| vec![0, 0, 2, 1]));
}

#[test]
fn a_reduction_is_made_at_every_device() {
    let body = "mov.b32 %r0, 5;\nmultimem.red.release.sys.global.add.u32 [%m], %r0;\nmultimem.red.relaxed.gpu.global.max.s32 [%m+4], %r0;\n\
                multimem.red.global.xor.b32 [%m+8], %r0;";
    let (devices, _) = run(body, [&[1u32, 9, 3, 0], &[2, 4, 4, 0], &[3, u32::MAX, 5, 0]], 1);
    assert_eq!(devices, [vec![6, 9, 6, 0], vec![7, 5, 1, 0], vec![8, 5, 0, 0]]);
    let body = "mov.f32 %f0, 0f3F800000;\nmov.f32 %f1, 0f40000000;\nmultimem.red.relaxed.sys.global.add.v2.f32 [%m], {%f0, %f1};";
    let (devices, _) = run(body, [&[0.5f32, 1.5], &[10.0, 20.0], &[-1.0, -2.0]], 1);
    assert_eq!(devices, [vec![1.5, 3.5], vec![11.0, 22.0], vec![0.0, 0.0]]);
}

#[test]
fn a_load_gives_one_number_of_all() {
    for (kind, values, expected) in [
        ("add.u32", [1u32, 2, u32::MAX], 2u32),
        ("min.s32", [1, 2, u32::MAX], u32::MAX),
        ("min.u32", [1, 2, u32::MAX], 1),
        ("max.s32", [1, 2, u32::MAX], 2),
        ("and.b32", [7, 6, 12], 4),
        ("or.b32", [1, 2, 8], 11),
        ("xor.b32", [1, 3, 8], 10),
    ] {
        for order in [".weak", ".acquire.sys", ""] {
            let body = format!("multimem.ld_reduce{order}.global.{kind} %r0, [%m];\nst.global.u32 [%o], %r0;");
            assert_eq!(run(&body, [&values[..1], &values[1..2], &values[2..]], 1).1, [expected], "{kind}");
        }
    }
    let body = "multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%f0, %f1, %f2, %f3}, [%m];\nst.global.v4.f32 [%o], {%f0, %f1, %f2, %f3};";
    let devices: [&[f32]; 3] = [&[1.0, -0.0, 3.0, 4.0], &[10.0, -0.0, 30.0, 40.0], &[100.0, -0.0, 300.0, 400.0]];
    let sums: Vec<u32> = run(body, devices, 4).1.into_iter().map(f32::to_bits).collect();
    assert_eq!(sums, [111.0, -0.0, 333.0, 444.0].map(f32::to_bits));
    let body = "multimem.ld_reduce.relaxed.sys.global.add.f64 %d, [%m];\nst.global.f64 [%o], %d;";
    assert_eq!(run(body, [&[0.1f64], &[0.2], &[0.3]], 1).1, [0.1 + 0.2 + 0.3]);
}

#[test]
fn halves_are_summed_in_their_own_type_or_in_32_bits() {
    // In bfloat16, 256 + 1 is 256; in float32 the sum of three is 258, which bfloat16 has.
    let values = [256.0, 1.0, 1.0];
    let [a, b, c] = values.map(|value| [bf16::from_f32(value), bf16::from_f32(-value)]);
    for (kind, expected) in [("add.acc::f32", 258.0), ("add", 256.0)] {
        let body = format!("multimem.ld_reduce.relaxed.sys.global.{kind}.bf16x2 %r0, [%m];\nst.global.b32 [%o], %r0;");
        assert_eq!(run(&body, [&a, &b, &c], 2).1, [expected, -expected].map(bf16::from_f32), "{kind}");
        let body = format!("multimem.ld_reduce.global.{kind}.bf16 %h0, [%m+2];\nst.global.b16 [%o], %h0;");
        assert_eq!(run(&body, [&a, &b, &c], 1).1, [bf16::from_f32(-expected)], "{kind}");
    }
    // In half precision, 2048 + 1 is 2048.
    let [a, b, c] = [2048.0, 1.0, 1.0].map(|value| [f16::from_f32(value), f16::from_f32(-0.0)]);
    for (kind, expected) in [("add.acc::f32", 2050.0), ("add", 2048.0), ("min", 1.0), ("max.acc::f32", 2048.0)] {
        let body = format!(
            "multimem.ld_reduce.global.{kind}.v2.f16 {{%h0, %h1}}, [%m];\nst.global.v2.b16 [%o], {{%h0, %h1}};"
        );
        let found: Vec<u16> = run(&body, [&a, &b, &c], 2).1.into_iter().map(f16::to_bits).collect();
        assert_eq!(found, [expected, -0.0].map(|value| f16::from_f32(value).to_bits()), "{kind}");
    }
    let body = "mov.b32 %r0, 0x40003F80;\nmultimem.red.global.add.bf16x2 [%m], %r0;";
    let (devices, _) = run(body, [&[bf16::ZERO; 2], &[bf16::ONE; 2], &[bf16::NEG_ONE; 2]], 1);
    assert_eq!(devices, [[1.0, 2.0], [2.0, 3.0], [0.0, 1.0]].map(|pair| pair.map(bf16::from_f32).to_vec()));
}

#[test]
fn only_a_multicast_address_is_one() {
    let launch = |body: &str, at: u64| {
        let mut device = Device::new();
        device.multicast = vec![device.put(&[0u32; 4]), device.put(&[0u32; 4])];
        let out = device.alloc(64);
        let at = if at == 0 { out } else { at };
        trap(device.run(&image(&one(body)), "k", 1, 1, &[at, out]))
    };
    let store = "multimem.st.global.v4.f32 [%m], {%f0, %f1, %f2, %f3};";
    assert_eq!(launch(store, 0).kind, TrapKind::IllegalAddress, "memory of one device");
    assert_eq!(launch(store, MULTICAST + 4).kind, TrapKind::MisalignedAddress);
    let found = launch("multimem.red.global.add.u32 [%m], %r0;", MULTICAST + 4096);
    assert_eq!((found.kind, found.address), (TrapKind::IllegalAddress, MULTICAST + 4096), "behind the last byte");
    assert!(found.touched.is_some_and(|touched| touched.writes && touched.bytes == 4));
    // Other instructions have nothing to access there.
    assert_eq!(launch("ld.global.u32 %r0, [%m];", MULTICAST).kind, TrapKind::IllegalAddress);
}
