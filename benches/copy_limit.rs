//! What memory allows: processes that do nothing but the copy that an all_gather or an all_to_all is, between two futex
//! barriers, through one memory file. No collective among separate buffers of these processes can be faster.
//!
//! `fixture-copy-limit all_gather|all_to_all RANKS BYTES ROUNDS`: bytes of a rank's larger buffer. Copies with memcpy and with
//! streaming stores in turn, and prints the faster: median ms of rank 0, and median ms of processor time of all ranks together.
#![expect(unsafe_code, reason = "shares memory between processes")]

mod barrier;

use std::env;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use barrier::barrier;

/// Bytes before the buffers: the barrier, then a word of processor time for each rank.
const HEAD: usize = 4096;
const MOST_RANKS: usize = 64;
const PAGE: usize = 4096;
/// Pages read side by side and bytes of each read at a time, as found best for streaming.
const PAGES: usize = 8;
const ROW: usize = 256;
/// Bytes that stay in the first-level cache while they are copied to several places.
const PIECE: usize = PAGES * PAGE;

#[derive(Clone, Copy)]
struct Job {
    gather: bool,
    ranks: usize,
    bytes: usize,
    rounds: usize,
}

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<usize>().ok()).filter(|number| *number > 0);
    let gather = words.first().map(String::as_str) == Some("all_gather");
    let (Some(ranks), Some(bytes), Some(rounds)) = (number(1), number(2), number(3)) else {
        eprintln!("usage: fixture-copy-limit all_gather|all_to_all RANKS BYTES ROUNDS");
        return ExitCode::from(2);
    };
    if (!gather && words[0] != "all_to_all") || ranks > MOST_RANKS || !bytes.is_multiple_of(ranks * ROW) {
        eprintln!("all_gather or all_to_all, at most {MOST_RANKS} ranks, bytes a multiple of {ROW} for each rank");
        return ExitCode::from(2);
    }
    let job = Job { gather, ranks, bytes, rounds };
    match (env::var("FTEST_COPY_RANK"), env::var("FTEST_COPY_FD")) {
        (Ok(rank), Ok(fd)) => play(job, rank.parse().expect("a rank"), fd.parse().expect("a descriptor")),
        _ => lead(job, &words),
    }
    ExitCode::SUCCESS
}

/// Starts the ranks, which inherit the memory file, and prints what rank 0 says.
fn lead(job: Job, words: &[String]) {
    // SAFETY: a fresh descriptor, inherited by the ranks on purpose.
    let file = unsafe { File::from_raw_fd(libc::memfd_create(c"copy limit".as_ptr(), 0)) };
    file.set_len((HEAD + 2 * job.ranks * job.bytes) as u64).expect("the memory file grows");
    let start = |rank: usize| -> Child {
        let mut command = Command::new(env::current_exe().expect("this program has a path"));
        command.args(words).env("FTEST_COPY_RANK", rank.to_string());
        command.env("FTEST_COPY_FD", file.as_raw_fd().to_string());
        command.stdout(Stdio::piped()).spawn().expect("a rank starts")
    };
    for (rank, mut child) in (0..job.ranks).map(start).collect::<Vec<_>>().into_iter().enumerate() {
        let mut said = String::new();
        child.stdout.take().expect("is piped").read_to_string(&mut said).expect("a rank's output is text");
        let status = child.wait().expect("a rank ends");
        assert!(status.success(), "rank {rank} ended with {status}");
        print!("{said}");
    }
}

fn play(job: Job, rank: usize, fd: i32) {
    let Job { gather, ranks, bytes, rounds } = job;
    let length = HEAD + 2 * ranks * bytes;
    // SAFETY: maps the parent's memory file, which is that long.
    let base = unsafe {
        let flags = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(std::ptr::null_mut(), length, flags, libc::MAP_SHARED, fd, 0).cast::<u8>()
    };
    assert_ne!(base.cast(), libc::MAP_FAILED);
    // SAFETY: the first page holds atomic words only, zero at first.
    let words = unsafe { &*base.cast::<[AtomicU32; 32]>() };
    // SAFETY: as above, behind those words.
    let spent = unsafe { &*base.add(size_of::<[AtomicU32; 32]>()).cast::<[AtomicU64; MOST_RANKS]>() };
    // SAFETY: both buffers of each rank lie within the mapping.
    let (sends, receives): (Vec<*mut u8>, Vec<*mut u8>) = (0..ranks)
        .map(|of| unsafe { (base.add(HEAD + 2 * of * bytes), base.add(HEAD + (2 * of + 1) * bytes)) })
        .unzip();
    // SAFETY: a rank's own buffers.
    unsafe {
        std::ptr::write_bytes(sends[rank], rank as u8, bytes);
        std::ptr::write_bytes(receives[rank], 0, bytes);
    }
    let block = bytes / ranks;
    let everybody = || barrier(&words[0], &words[16], ranks as u32);
    let (mut times, mut processor) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for round in 0..2 * (rounds + 1) {
        let streams = round % 2 == 1;
        everybody();
        let (start, before) = (Instant::now(), processor_time());
        // SAFETY: blocks lie within the buffers; between barriers each block is written by one rank, and none is read and written.
        unsafe {
            if gather {
                let targets: Vec<*mut u8> = receives.iter().map(|receive| receive.add(rank * block)).collect();
                copy(sends[rank], &targets, block, streams);
            } else {
                for from in (rank..rank + ranks).map(|from| from % ranks) {
                    copy(sends[from].add(rank * block), &[receives[rank].add(from * block)], block, streams);
                }
            }
        }
        spent[rank].store(processor_time() - before, Ordering::Relaxed);
        everybody();
        if round > 1 {
            times[usize::from(streams)].push(start.elapsed().as_nanos() as u64);
            processor[usize::from(streams)].push(spent[..ranks].iter().map(|word| word.load(Ordering::Relaxed)).sum());
        }
    }
    if rank == 0 {
        let fastest = |ways: [Vec<u64>; 2]| ways.map(median).into_iter().fold(f64::INFINITY, f64::min);
        println!("{:.4} {:.4}", fastest(times), fastest(processor));
    }
}

fn median(mut nanoseconds: Vec<u64>) -> f64 {
    nanoseconds.sort_unstable();
    nanoseconds[nanoseconds.len() / 2] as f64 / 1e6
}

/// Nanoseconds that this process computed.
fn processor_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is live.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// # Safety
/// All pointers are valid for `bytes`, a multiple of a row, and aligned to cache lines.
unsafe fn copy(from: *const u8, targets: &[*mut u8], bytes: usize, streams: bool) {
    let mut at = 0;
    while at < bytes {
        let length = PIECE.min(bytes - at);
        // SAFETY: within `bytes`.
        unsafe {
            if streams && length == PIECE {
                for offset in (at..at + PAGE).step_by(ROW) {
                    (0..PAGES).for_each(|page| stream_row(from, targets, offset + page * PAGE));
                }
            } else if streams {
                (at..at + length).step_by(ROW).for_each(|row| stream_row(from, targets, row));
            } else {
                for target in targets {
                    std::ptr::copy_nonoverlapping(from.add(at), target.add(at), length);
                }
            }
        }
        at += length;
    }
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of every x86-64.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// # Safety
/// As for [`copy`]; a row lies behind `at`.
#[inline(always)]
unsafe fn stream_row(from: *const u8, targets: &[*mut u8], at: usize) {
    for target in targets {
        // SAFETY: the caller's promise.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            for part in (at..at + ROW).step_by(16) {
                use std::arch::x86_64::{_mm_loadu_si128, _mm_stream_si128};
                _mm_stream_si128(target.add(part).cast(), _mm_loadu_si128(from.add(part).cast()));
            }
            #[cfg(not(target_arch = "x86_64"))]
            std::ptr::copy_nonoverlapping(from.add(at), target.add(at), ROW);
        }
    }
}
