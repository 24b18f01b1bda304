//! Kernels as Triton writes them: asynchronous copies, ldmatrix, mma, reductions across warps.

use crate::device::{Device, image};

fn params(pointers: &[u64], numbers: &[u32]) -> Vec<u8> {
    let mut bytes: Vec<u8> = pointers.iter().flat_map(|p| p.to_le_bytes()).collect();
    bytes.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
    // Two pointers to scratch memory that these kernels do not use.
    bytes.resize(bytes.len().next_multiple_of(8) + 16, 0);
    bytes
}

#[test]
fn a_matrix_product_is_that_of_f64() {
    let image = image(include_str!("ptx/triton_matmul.ptx"));
    for (m, n, k) in [(64, 64, 32), (128, 192, 160)] {
        let mut device = Device::new();
        let value = |i: usize, j: usize| (((i * 31 + j * 17) % 64) as f32 - 31.0) / 16.0;
        let a: Vec<u16> = (0..m * k).map(|i| half::f16::from_f32(value(i / k, i % k)).to_bits()).collect();
        let b: Vec<u16> = (0..k * n).map(|i| half::f16::from_f32(value(i % n, i / n)).to_bits()).collect();
        let (a_at, b_at, c_at) = (device.put(&a), device.put(&b), device.put(&vec![0f32; m * n]));
        let params = params(&[a_at, b_at, c_at], &[m as u32, n as u32, k as u32]);
        let grid = [m as u32 / 64, n as u32 / 64, 1];
        device.launch(&image, "mm", grid, [128, 1, 1], &params, |l| l.dynamic_shared = 16384).unwrap();
        let c = device.get::<f32>(c_at, m * n);
        for row in 0..m {
            for column in 0..n {
                let expected: f64 = (0..k).map(|i| f64::from(value(row, i)) * f64::from(value(column, i))).sum();
                let got = f64::from(c[row * n + column]);
                assert!(
                    (got - expected).abs() <= 1e-5 * expected.abs().max(10.0),
                    "{row} {column}: {got} for {expected}"
                );
            }
        }
    }
}

#[test]
fn softmax_sums_to_one() {
    let image = image(include_str!("ptx/triton_softmax.ptx"));
    let mut device = Device::new();
    let (rows, n) = (3usize, 781usize);
    let x: Vec<f32> = (0..rows * n).map(|i| ((i * 7919) % 1000) as f32 / 100.0 - 5.0).collect();
    let (x_at, o_at) = (device.put(&x), device.put(&vec![0f32; rows * n]));
    let params = params(&[x_at, o_at], &[n as u32]);
    device.launch(&image, "softmax", [rows as u32, 1, 1], [128, 1, 1], &params, |l| l.dynamic_shared = 16).unwrap();
    let o = device.get::<f32>(o_at, rows * n);
    for row in 0..rows {
        let sum: f64 = x[row * n..(row + 1) * n].iter().map(|x| f64::from(*x).exp()).sum();
        for i in 0..n {
            let expected = f64::from(x[row * n + i]).exp() / sum;
            let got = f64::from(o[row * n + i]);
            assert!((got - expected).abs() <= 2e-6 * expected, "{row} {i}: {got} for {expected}");
        }
    }
}

#[test]
fn addition_with_a_mask_writes_nothing_behind_the_end() {
    let image = image(include_str!("ptx/triton_add.ptx"));
    let mut device = Device::new();
    let n = 2500usize;
    let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let (x_at, y_at, o_at) = (device.put(&x), device.put(&x), device.put(&vec![-1f32; 3072]));
    let params = params(&[x_at, y_at, o_at], &[n as u32]);
    device.launch(&image, "add", [3, 1, 1], [128, 1, 1], &params, |_| {}).unwrap();
    let o = device.get::<f32>(o_at, 3072);
    assert!((0..n).all(|i| o[i] == 2.0 * i as f32) && o[n..].iter().all(|x| *x == -1.0));
}

/// `cargo test --release -p ptx --test integration -- triton:: --ignored --nocapture` prints times.
#[test]
#[ignore = "times"]
fn speed() {
    let matmul = image(include_str!("ptx/triton_matmul.ptx"));
    let mut device = Device::new();
    let n = 512usize;
    let a = vec![0x3c00u16; n * n];
    let (a_at, b_at, c_at) = (device.put(&a), device.put(&a), device.put(&vec![0f32; n * n]));
    let params_of = params(&[a_at, b_at, c_at], &[n as u32; 3]);
    for threads in [1, 2] {
        for _ in 0..3 {
            let started = std::time::Instant::now();
            let change = |l: &mut ptx::Launch<'_>| {
                l.dynamic_shared = 16384;
                l.threads = threads;
            };
            device.launch(&matmul, "mm", [8, 8, 1], [128, 1, 1], &params_of, change).unwrap();
            println!("matmul 512, {threads} threads: {:?}", started.elapsed());
        }
    }
    let add = image(include_str!("ptx/triton_add.ptx"));
    let compiled = image(include_str!("ptx/programs.ptx"));
    let count = 1usize << 24;
    let (x, y, o) = (device.put(&vec![1f32; count]), device.put(&vec![2f32; count]), device.put(&vec![0f32; count]));
    for threads in [1, 2] {
        for _ in 0..3 {
            let started = std::time::Instant::now();
            let bytes = params(&[x, y, o], &[count as u32]);
            device
                .launch(&add, "add", [count as u32 / 1024, 1, 1], [128, 1, 1], &bytes, |l| l.threads = threads)
                .unwrap();
            let triton = started.elapsed();
            let started = std::time::Instant::now();
            let grid = [count as u32 / 256, 1, 1];
            device.launch(&compiled, "vadd", grid, [256, 1, 1], &bytes, |l| l.threads = threads).unwrap();
            let nvcc = started.elapsed();
            let source = device.get::<f32>(x, count);
            let mut target = vec![0f32; count];
            let started = std::time::Instant::now();
            target.copy_from_slice(&source);
            std::hint::black_box(&target);
            println!(
                "add of 64 MiB, {threads} threads: Triton {triton:?}, nvcc {nvcc:?}, memcpy {:?}",
                started.elapsed()
            );
        }
    }
}
