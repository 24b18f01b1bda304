use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::*;
use crate::device::memory;
use crate::device::work::stream::{self, Kind};

const DEADLINE: Duration = Duration::from_secs(30);

#[test]
fn a_box_touches_one_range_or_its_rows() {
    let of = |layout: Layout, width, height, depth| {
        let mut accesses = Vec::new();
        add_accesses(&mut accesses, layout, Extent { width, height, depth }, true);
        accesses.iter().map(|access| (access.address, access.bytes)).collect::<Vec<_>>()
    };
    assert_eq!(of(Layout::line(100), 64, 1, 1), [(100, 64)]);
    assert_eq!(of(Layout::rows(100, 64), 64, 4, 1), [(100, 256)], "rows without gaps");
    assert_eq!(of(Layout::rows(100, 80), 64, 3, 1), [(100, 64), (180, 64), (260, 64)]);
    let slices = Layout { address: 0, pitch: 8, slice: 32 };
    assert_eq!(of(slices, 8, 4, 2), [(0, 64)], "slices without gaps");
    assert_eq!(of(slices, 8, 2, 2), [(0, 8), (8, 8), (32, 8), (40, 8)]);
    assert_eq!(of(Layout::rows(0, 80), 64, MOST_ROWS, 1).len(), MOST_ROWS);
    assert_eq!(of(Layout::rows(0, 80), 64, MOST_ROWS + 1, 1), []);
}

#[test]
fn a_pageable_source_may_be_reused_while_another_thread_uses_the_stream() {
    let device = crate::device::get(6).unwrap();
    let stream = stream::legacy(device);
    // With many streams that are busy, it takes a while to find out whether this one is.
    let busy: Vec<_> = (0..40).map(|_| stream::create(device, Kind::NonBlocking, 0)).collect();
    let (open, gate) = mpsc::channel::<()>();
    let first = stream::resolve(busy[0]).unwrap();
    stream::enqueue(&first, Box::new(move || gate.recv_timeout(DEADLINE).unwrap()));
    busy[1..].iter().for_each(|other| stream::hold_up(&stream::resolve(*other).unwrap(), first.tail()));
    let target = memory::allocate(device, 8, memory::Kind::Plain).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let deadline = Instant::now() + DEADLINE;
            while !is_over.load(Ordering::Relaxed) && Instant::now() < deadline {
                stream::enqueue(&stream, Box::new(|| (0..1000).for_each(|_| std::hint::spin_loop())));
                stream.synchronize();
            }
        });
        let wrong = (0..20_000u64).find(|round| {
            let mut word = *round;
            let from = &raw mut word;
            let (to, from_layout) = (Layout::line(target), Layout::line(from as usize));
            let copy = BoxCopy { to, from: from_layout, extent: Extent::line(8), direction: Direction::ANY };
            copy.issue(&stream).unwrap();
            // SAFETY: a live local; the copy that may still be to come must not read it.
            unsafe { from.write_volatile(u64::MAX) };
            stream.synchronize();
            // SAFETY: memory of the arena, which nothing writes after the copy.
            unsafe { (target as *const u64).read_volatile() != *round }
        });
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(wrong, None, "the first copy that took what came later");
    });
    open.send(()).unwrap();
    stream::synchronize_device(device);
    busy.into_iter().for_each(|other| stream::destroy(other).unwrap());
    memory::free(target).unwrap();
}
