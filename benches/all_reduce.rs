//! all_reduce between processes, through the whole path (ncclAllReduce and cudaStreamSynchronize of the shim, with the real
//! coordinator), next to the bare limit (one shared memory file, a futex barrier, a loop) and to FakeGPU's
//! figures as we measured them. Prints medians; asserts nothing. `cargo build --release -p coordinator && cargo bench
//! -p shim --bench all_reduce`.
#![expect(unsafe_code, reason = "calls a C interface and shares memory")]

mod barrier;

use std::env;
use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use barrier::barrier;
use fakegpu as _;

unsafe extern "C" {
    fn cudaSetDevice(device: c_int) -> c_int;
    fn cudaMalloc(out: *mut *mut c_void, size: usize) -> c_int;
    fn cudaMemset(address: *mut c_void, value: c_int, size: usize) -> c_int;
    fn cudaStreamCreate(out: *mut usize) -> c_int;
    fn cudaStreamSynchronize(stream: usize) -> c_int;
    fn ncclCommInitRank(out: *mut usize, size: c_int, id: UniqueId, rank: c_int) -> c_int;
    fn ncclCommDestroy(communicator: usize) -> c_int;
    fn ncclAllReduce(
        send: *const c_void,
        receive: *mut c_void,
        count: usize,
        datatype: c_int,
        op: c_int,
        communicator: usize,
        stream: usize,
    ) -> c_int;
}

#[repr(C)]
#[derive(Clone, Copy)]
struct UniqueId([u8; 128]);

const FLOAT: c_int = 7;
const SUM: c_int = 0;
const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// (bytes, iterations, FakeGPU with 2 ranks, with 4 ranks; ms). FakeGPU's figures: our measurement of its Release build over
/// its unix transport on a machine with 2 cores, f32 sum; blank where not measured.
const SIZES: [(usize, usize, Option<f64>, Option<f64>); 6] = [
    (4, 2000, Some(0.202), Some(2.49)),
    (64 * KIB, 500, Some(0.489), None),
    (MIB, 200, Some(7.8), Some(16.0)),
    (16 * MIB, 30, Some(189.0), None),
    (64 * MIB, 12, Some(526.0), Some(703.0)),
    (128 * MIB, 8, None, None),
];

fn main() {
    match env::var("FTEST_BENCH_PART").as_deref() {
        Ok("full") => return full_rank(),
        Ok("bare") => return bare_rank(),
        _ => {}
    }
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("all_reduce, f32 sum, in place, processes of one host, {cores} cores; median ms of rank 0");
    println!(
        "{:>6} {:>12} {:>10} {:>10} {:>8} {:>10} {:>9}",
        "ranks", "bytes", "full", "bare", "ratio", "FakeGPU", "speed-up"
    );
    for ranks in [2, 4] {
        let full = full(ranks);
        let bare = bare(ranks);
        for (index, (bytes, _, two, four)) in SIZES.iter().enumerate() {
            let reference = if ranks == 2 { two } else { four };
            let shown = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
            println!(
                "{ranks:>6} {bytes:>12} {:>10.4} {:>10.4} {:>8.2} {:>10} {:>9}",
                full[index],
                bare[index],
                full[index] / bare[index],
                shown(*reference),
                reference.map_or("-".to_owned(), |reference| format!("{:.0}x", reference / full[index])),
            );
        }
    }
}

/// Starts `ranks` copies of this program and returns the medians that rank 0 prints.
fn play(part: &str, ranks: usize, environment: &[(&str, String)]) -> Vec<f64> {
    let start = |rank: usize| -> Child {
        let mut command = Command::new(env::current_exe().expect("this program has a path"));
        command.env("FTEST_BENCH_PART", part).env("RANK", rank.to_string()).env("WORLD_SIZE", ranks.to_string());
        command.envs(environment.iter().map(|(name, value)| (*name, value.as_str())));
        command.stdout(if rank == 0 { Stdio::piped() } else { Stdio::null() });
        command.spawn().expect("a rank starts")
    };
    let mut children: Vec<Child> = (0..ranks).map(start).collect();
    let output = children[0].stdout.take().expect("the output of rank 0 is piped");
    let medians = BufReader::new(output).lines().map_while(Result::ok).filter_map(|line| line.parse().ok()).collect();
    for (rank, child) in children.iter_mut().enumerate() {
        let status = child.wait().expect("a rank ends");
        assert!(status.success(), "rank {rank} of part {part} ended with {status}");
    }
    medians
}

fn number(name: &str) -> usize {
    env::var(name).ok().and_then(|value| value.parse().ok()).expect("the bench sets its variables")
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e3
}

// ---- the whole path

fn full(ranks: usize) -> Vec<f64> {
    let release = env::current_exe().ok().and_then(|path| Some(path.parent()?.parent()?.to_owned()));
    let program: PathBuf = release.expect("this program lies in target/release/deps").join("fakegpu-coordinator");
    assert!(program.exists(), "{} is missing: cargo build --release -p coordinator", program.display());
    let socket = env::temp_dir().join(format!("ftest-bench-{}.sock", std::process::id()));
    let mut coordinator = Command::new(&program)
        .args(["--transport", "unix", "--address"])
        .arg(&socket)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the coordinator starts");
    let mut ready = String::new();
    let output = coordinator.stdout.take().expect("its output is piped");
    BufReader::new(output).read_line(&mut ready).expect("the coordinator says that it is ready");
    let environment = [
        ("FAKEGPU_COORDINATOR_ADDR", socket.display().to_string()),
        ("FAKEGPU_DEVICE_COUNT", ranks.to_string()),
        ("FAKEGPU_REPORT_PATH", "/dev/null".to_owned()),
        ("FTEST_BENCH_ID", ranks.to_string()),
    ];
    let medians = play("full", ranks, &environment);
    // SAFETY: our own child.
    unsafe { libc::kill(coordinator.id() as i32, libc::SIGTERM) };
    let _ = coordinator.wait();
    medians
}

fn ok(code: c_int) {
    assert_eq!(code, 0, "a CUDA or NCCL call failed");
}

fn full_rank() {
    let (rank, ranks) = (number("RANK"), number("WORLD_SIZE"));
    let largest = SIZES[SIZES.len() - 1].0;
    let mut id = UniqueId([7; 128]);
    id.0[0] = number("FTEST_BENCH_ID") as u8;
    let (mut communicator, mut stream, mut buffer) = (0, 0, std::ptr::null_mut());
    // SAFETY: the calls are used as CUDA and NCCL document them; the buffer holds the largest size.
    unsafe {
        ok(cudaSetDevice(rank as c_int));
        ok(cudaStreamCreate(&raw mut stream));
        ok(cudaMalloc(&raw mut buffer, largest));
        ok(cudaMemset(buffer, 0, largest));
        ok(ncclCommInitRank(&raw mut communicator, ranks as c_int, id, rank as c_int));
        for (bytes, iterations, ..) in SIZES {
            let once = || {
                ok(ncclAllReduce(buffer, buffer, bytes / 4, FLOAT, SUM, communicator, stream));
                ok(cudaStreamSynchronize(stream));
            };
            measure(iterations, once);
        }
        ok(ncclCommDestroy(communicator));
    }
}

fn measure(iterations: usize, mut once: impl FnMut()) {
    (0..2 + iterations / 20).for_each(|_| once());
    let times = (0..iterations)
        .map(|_| {
            let start = Instant::now();
            once();
            start.elapsed()
        })
        .collect();
    println!("{}", median(times));
}

// ---- the bare limit

const HEAD: usize = 4096;

fn bare(ranks: usize) -> Vec<f64> {
    let largest = SIZES[SIZES.len() - 1].0;
    // SAFETY: a fresh descriptor, inherited by the ranks on purpose.
    let file = unsafe { File::from_raw_fd(libc::memfd_create(c"bench".as_ptr(), 0)) };
    file.set_len((HEAD + ranks * largest) as u64).expect("the memory file grows");
    play("bare", ranks, &[("FTEST_BENCH_FD", file.as_raw_fd().to_string())])
}

fn bare_rank() {
    let (rank, ranks) = (number("RANK"), number("WORLD_SIZE"));
    let largest = SIZES[SIZES.len() - 1].0;
    let length = HEAD + ranks * largest;
    // SAFETY: maps the parent's memory file, which is that long; ranks write disjoint slices between barriers.
    unsafe {
        let flags = libc::PROT_READ | libc::PROT_WRITE;
        let base =
            libc::mmap(std::ptr::null_mut(), length, flags, libc::MAP_SHARED, number("FTEST_BENCH_FD") as i32, 0);
        assert_ne!(base, libc::MAP_FAILED);
        let words = base.cast::<AtomicU32>();
        let (count, generation) = (&*words, &*words.add(16));
        let buffers: Vec<*mut f32> =
            (0..ranks).map(|of| base.cast::<u8>().add(HEAD + of * largest).cast::<f32>()).collect();
        std::ptr::write_bytes(buffers[rank].cast::<u8>(), 0, largest);
        for (bytes, iterations, ..) in SIZES {
            let elements = bytes / 4;
            let each = elements.div_ceil(ranks).next_multiple_of(16);
            let (first, last) = ((each * rank).min(elements), (each * (rank + 1)).min(elements));
            measure(iterations, || {
                barrier(count, generation, ranks as u32);
                let mut at = first;
                while at < last {
                    let block = (last - at).min(2048);
                    let mut sum = [0f32; 2048];
                    for buffer in &buffers {
                        let source = std::slice::from_raw_parts(buffer.add(at), block);
                        sum.iter_mut().zip(source).for_each(|(sum, value)| *sum += value);
                    }
                    for buffer in &buffers {
                        std::ptr::copy_nonoverlapping(sum.as_ptr(), buffer.add(at), block);
                    }
                    at += block;
                }
                barrier(count, generation, ranks as u32);
            });
        }
    }
}
