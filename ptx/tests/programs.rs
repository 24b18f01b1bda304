//! Whole kernels, from nvcc's output and by hand: control flow, memory, calls, barriers, and what goes wrong.

use ptx::{LaunchError, TrapKind};

use crate::device::{Device, image, trap, words};

const COMPILED: &str = include_str!("ptx/programs.ptx");

#[test]
fn vector_addition_stops_at_its_end() {
    let image = image(COMPILED);
    let mut device = Device::new();
    let a: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    let b: Vec<f32> = (0..1000).map(|i| (i * 3) as f32).collect();
    let (a_at, b_at, c_at) = (device.put(&a), device.put(&b), device.put(&[-1f32; 1024]));
    device.run(&image, "vadd", 4, 256, &[a_at, b_at, c_at, 1000]).unwrap();
    let c = device.get::<f32>(c_at, 1024);
    for i in 0..1000 {
        assert_eq!(c[i], a[i] + b[i] * [1.0, 2.0, 3.0, 4.0][i & 3], "{i}");
    }
    assert!(c[1000..].iter().all(|x| *x == -1.0));
}

#[test]
fn a_tree_of_barriers_reduces() {
    let image = image(COMPILED);
    let mut device = Device::new();
    let a: Vec<f32> = (0..10000).map(|i| (i % 17) as f32).collect();
    let (a_at, out) = (device.put(&a), device.put(&[0f32]));
    device.run(&image, "reduce", 7, 256, &[a_at, out, 10000]).unwrap();
    assert_eq!(device.get::<f32>(out, 1)[0], a.iter().sum::<f32>());
}

#[test]
fn shuffles_and_ballots_cross_lanes() {
    let image = image(COMPILED);
    let mut device = Device::new();
    let a: Vec<i32> = (0..32).map(|i| i * i - 5).collect();
    let at = device.put(&a);
    device.run(&image, "warpsum", 1, 32, &[at]).unwrap();
    let sum: i32 = a.iter().sum();
    let ballot = if sum & 1 != 0 { 32 } else { 0 };
    assert_eq!(device.get::<i32>(at, 32), vec![sum + ballot; 32]);
}

#[test]
fn printf_formats_as_c_does() {
    let image = image(COMPILED);
    let mut device = Device::new();
    let mut params = 5u32.to_le_bytes().to_vec();
    params.extend([0; 4]);
    params.extend(2.5f64.to_le_bytes());
    device.launch(&image, "pr", [1; 3], [2, 1, 1], &params, |_| {}).unwrap();
    assert_eq!(device.text(), "hello 5 2.500000 str\nhello 6 2.500000 str\n");
    let mut params = 0u32.to_le_bytes().to_vec();
    params.extend([0; 12]);
    let trap = trap(device.launch(&image, "pr", [1; 3], [2, 1, 1], &params, |_| {}));
    assert_eq!((trap.kind, trap.thread), (TrapKind::Assert, [0, 0, 0]));
    let said = device.assertions.lock().unwrap()[0].clone();
    assert_eq!((said.message.as_str(), said.line > 0), ("x>0", true));
}

#[test]
fn recursion_keeps_each_activation() {
    let image = image(COMPILED);
    let mut device = Device::new();
    let out = device.put(&[0i32; 20]);
    device.run(&image, "fibk", 1, 20, &[out]).unwrap();
    let mut expected = vec![0, 1];
    for i in 2..20 {
        expected.push(expected[i - 1] + expected[i - 2]);
    }
    assert_eq!(device.get::<i32>(out, 20), expected);
    // A GPU keeps 20 activations in less than its default of 1024 bytes.
    device.launch(&image, "fibk", [1; 3], [20, 1, 1], &words(&[out]), |l| l.stack = 640).unwrap();
    let trap = trap(device.launch(&image, "fibk", [1; 3], [20, 1, 1], &words(&[out]), |l| l.stack = 64));
    assert_eq!(trap.kind, TrapKind::StackOverflow);
}

#[test]
fn a_thread_that_waits_before_its_first_call_keeps_its_stack() {
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n\
        .func (.param .b32 sum) upto(.param .b32 n) {\n\
        .reg .b32 %r<4>; .reg .pred %p;\n\
        ld.param.b32 %r0, [n]; setp.eq.u32 %p, %r0, 0; mov.u32 %r2, 0; @%p bra END; sub.u32 %r1, %r0, 1;\n\
        { .param .b32 a; .param .b32 r; st.param.b32 [a], %r1; call.uni (r), upto, (a); ld.param.b32 %r2, [r]; }\n\
        add.u32 %r2, %r2, %r0;\n\
        END: st.param.b32 [sum], %r2; ret; }\n\
        .visible .entry k(.param .u64 out) {\n\
        .reg .b32 %r<3>; .reg .u64 %d<3>; .local .align 4 .b32 own[4];\n\
        mov.u32 %r0, %tid.x; bar.sync 0; st.local.b32 [own+8], %r0;\n\
        { .param .b32 a; .param .b32 r; st.param.b32 [a], %r0; call.uni (r), upto, (a); ld.param.b32 %r1, [r]; }\n\
        ld.local.b32 %r2, [own+8]; shl.b32 %r2, %r2, 16; add.u32 %r1, %r1, %r2;\n\
        ld.param.u64 %d0, [out]; mul.wide.u32 %d1, %r0, 4; add.u64 %d2, %d0, %d1; st.global.u32 [%d2], %r1; ret; }";
    let mut device = Device::new();
    let out = device.put(&[0u32; 40]);
    device.launch(&image(text), "k", [1; 3], [40, 1, 1], &words(&[out]), |l| l.stack = 1 << 14).unwrap();
    let expected: Vec<u32> = (0..40).map(|thread| (0..=thread).sum::<u32>() + (thread << 16)).collect();
    assert_eq!(device.get::<u32>(out, 40), expected);
}

#[test]
fn function_pointers_from_memory_are_called() {
    let image = image(COMPILED);
    let mut device = Device::new();
    let out = device.put(&[0f32; 6]);
    device.run(&image, "ind", 1, 6, &[out]).unwrap();
    assert_eq!(device.get::<f32>(out, 6), [0.0, 101.0, 4.0, 103.0, 8.0, 105.0]);
}

#[test]
fn wmma_multiplies_matrices() {
    let image = image(COMPILED);
    let mut device = Device::new();
    let value = |i: usize, k: usize| ((i * 7 + k * 3) % 11) as f32 - 5.0;
    let a: Vec<u16> = (0..256).map(|i| half::f16::from_f32(value(i / 16, i % 16)).to_bits()).collect();
    // b is column-major: element (k, n) is at n * 16 + k.
    let b: Vec<u16> = (0..256).map(|i| half::f16::from_f32(value(i % 16, i / 16) * 0.5).to_bits()).collect();
    let (a_at, b_at, c_at) = (device.put(&a), device.put(&b), device.put(&[0f32; 256]));
    device.run(&image, "wm", 1, 32, &[a_at, b_at, c_at]).unwrap();
    let c = device.get::<f32>(c_at, 256);
    for m in 0..16 {
        for n in 0..16 {
            let expected: f32 = (0..16).map(|k| value(m, k) * value(k, n) * 0.5).sum();
            assert_eq!(c[m * 16 + n], expected, "{m} {n}");
        }
    }
}

#[test]
fn a_grid_waits_for_all_its_blocks() {
    let image = image(COMPILED);
    for threads in [1, 2] {
        let mut device = Device::new();
        let at = device.put(&[0i32; 2]);
        let result = device.launch(&image, "sync_grid", [40, 1, 1], [64, 1, 1], &words(&[at, at + 4]), |l| {
            l.cooperative = true;
            l.threads = threads;
        });
        result.unwrap();
        assert_eq!(device.get::<i32>(at, 1)[0], 40 * 64 * 2);
    }
}

#[test]
fn a_cooperative_grid_finds_its_workspace() {
    let image = image(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry find(.param .u64 out) {\n\
         .reg .u32 %r<3>; .reg .u64 %d<2>;\n\
         mov.u32 %r0, %envreg1; mov.u32 %r1, %envreg2; mov.b64 %d0, {%r1, %r0}; ld.param.u64 %d1, [out];\n\
         st.global.u64 [%d1], %d0; ld.global.u32 %r2, [%d0+4]; st.global.u32 [%d1+8], %r2; ret; }",
    );
    let mut device = Device::new();
    let workspace = device.put(&[0u32, 77]);
    let out = device.put(&[0u64; 2]);
    device.launch(&image, "find", [1; 3], [1; 3], &words(&[out]), |l| l.workspace = workspace).unwrap();
    assert_eq!(device.get::<u64>(out, 2), [workspace, 77]);
}

#[test]
fn the_heap_gives_and_takes() {
    let image = image(COMPILED);
    let mut device = Device::new();
    device.only_compiled = true;
    let out = device.put(&[0u64; 4]);
    device.run(&image, "mal", 1, 4, &[out]).unwrap();
    let addresses = device.get::<u64>(out, 4);
    for (index, address) in addresses.iter().enumerate() {
        assert_eq!(device.get::<i32>(*address, 1)[0], index as i32);
    }
}

#[test]
fn mathematics_of_nvccs_library_is_accurate() {
    let image = image(COMPILED);
    let mut device = Device::new();
    let f: Vec<f32> = (1..33).map(|i| i as f32 * 0.07).collect();
    let d: Vec<f64> = (1..33).map(|i| f64::from(i) * 0.13).collect();
    let (f_at, d_at) = (device.put(&f), device.put(&d));
    device.run(&image, "mathk", 1, 32, &[f_at, d_at]).unwrap();
    for (x, got) in f.iter().zip(device.get::<f32>(f_at, 32)) {
        let x = f64::from(*x);
        let expected = x.sin() + x.exp() + x.powf(1.5) + x.ln() + x.tanh();
        assert!((f64::from(got) - expected).abs() < 1e-5 * expected.abs().max(1.0), "{x}: {got} for {expected}");
    }
    for (x, got) in d.iter().zip(device.get::<f64>(d_at, 32)) {
        let expected = x.sin() + x.exp() + x.powf(0.3) / x + x.sqrt();
        assert!((got - expected).abs() < 1e-13 * expected.abs().max(1.0), "{x}: {got} for {expected}");
    }
}

#[test]
fn wide_integers_by_carries() {
    let image = image(COMPILED);
    let mut device = Device::new();
    let a: Vec<i128> = (0..33).map(|i| i * 0x1234_5678_9abc_def0_1111 - 77).collect();
    let at = device.put(&a);
    device.run(&image, "i128", 1, 32, &[at]).unwrap();
    let got = device.get::<i128>(at, 32);
    for i in 0..32 {
        assert_eq!(got[i], a[i].wrapping_mul(a[i + 1]).wrapping_add(a[i] / 3), "{i}");
    }
}

#[test]
fn an_access_outside_names_thread_and_line() {
    let image = image(COMPILED);
    let mut device = Device::new();
    let (a, b, c) = (device.put(&[0f32; 100]), device.put(&[0f32; 100]), device.put(&[0f32; 100]));
    let trap = trap(device.run(&image, "vadd", 1, 128, &[a, b, c, 128]));
    assert_eq!((trap.kind, trap.block, trap.thread), (TrapKind::IllegalAddress, [0; 3], [100, 0, 0]));
    assert!([a + 400, b + 400].contains(&trap.address), "{trap}");
    assert!(trap.spot.ptx.starts_with("ld.global.f32"), "{trap}");
    assert_eq!(
        COMPILED.lines().nth(trap.spot.line as usize - 1).map(|l| l.trim().starts_with("ld.global.f32")),
        Some(true)
    );
    let trap = super_misaligned(&image, a + 2, b, c);
    assert_eq!((trap.kind, trap.address), (TrapKind::MisalignedAddress, a + 2));
}

fn super_misaligned(image: &ptx::Image, a: u64, b: u64, c: u64) -> ptx::Trap {
    let mut other = Device::new();
    let (own_b, own_c) = (other.put(&[0f32; 100]), other.put(&[0f32; 100]));
    let own_a = other.put(&[0f32; 100]);
    let mut trap = trap(other.run(image, "vadd", 1, 10, &[own_a + 2, own_b, own_c, 10]));
    trap.address = trap.address - own_a + (a - 2);
    let _ = (b, c);
    trap
}

#[test]
fn launches_that_no_device_takes_are_refused() {
    let image = image(COMPILED);
    let mut device = Device::new();
    for (grid, block) in [([1, 1, 1], [2048, 1, 1]), ([0, 1, 1], [1, 1, 1]), ([1, 70000, 1], [1, 1, 1])] {
        let result = device.launch(&image, "fibk", grid, block, &words(&[0]), |_| {});
        assert!(matches!(result, Err(LaunchError::Invalid { .. })), "{result:?}");
    }
}
