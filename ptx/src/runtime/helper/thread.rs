//! Helpers that see the thread: addresses, atomics, barriers in memory, asynchronous copies, the heap and clocks.

use std::ops::Range;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use crate::host::memory_ops as mem;
use crate::host::memory_ops::{Access, AddressSpace};
use crate::host::mistake::{MistakeKind, Note};
use crate::number::Scalar;
use crate::number::{self, Format};
use crate::runtime::shared_memory::Seen;
use crate::runtime::state::LANES;
use crate::runtime::state::{Context, SiteCache, TRAP_ILLEGAL, TRAP_MISALIGNED, TRAP_STACK, TrapAccess, Warp};

pub(crate) fn fail(context: &mut Context, kind: u64, address: u64) {
    if context.trap == 0 {
        context.trap = kind;
        context.trap_address = address;
    }
}

/// The host address for an address in a space, or `None` with the trap set. The checks see the access.
pub(crate) fn resolve_any(
    context: &mut Context,
    address: u64,
    bytes: u64,
    align: u64,
    space: AddressSpace,
    access: Access,
) -> Option<*mut u8> {
    let place = locate(context, address, bytes, align, space, access)?;
    if is_global(space, address) {
        sample(context, address, bytes, access);
    }
    if context.watched != 0 {
        show(context, place as u64, bytes, access, false, false);
    }
    Some(place)
}

/// Shows an access to global memory that was found to be allowed to the sampler and to the checks.
pub(super) fn noted(context: &mut Context, address: u64, bytes: u64, access: Access) {
    sample(context, address, bytes, access);
    if context.watched != 0 {
        show(context, address, bytes, access, false, false);
    }
}

fn locate(
    context: &mut Context,
    address: u64,
    bytes: u64,
    align: u64,
    space: AddressSpace,
    access: Access,
) -> Option<*mut u8> {
    let inside = |at: u64, limit: u64| at <= limit && bytes <= limit - at;
    if align > 1 && !address.is_multiple_of(align) {
        fail(context, TRAP_MISALIGNED, address);
        context.trap_access = TrapAccess::new(space, access, bytes);
        return None;
    }
    let found = match space {
        AddressSpace::Shared => shared_place(context, address, bytes),
        AddressSpace::KernelParam => {
            inside(address, context.param_bytes).then(|| context.params.wrapping_add(address as usize).cast_mut())
        }
        AddressSpace::Local => local_place(context, address, bytes),
        AddressSpace::Global | AddressSpace::Generic => match address >> 56 {
            1 => shared_place(context, address - mem::SHARED_WINDOW, bytes),
            2 => local_place(context, address - mem::LOCAL_WINDOW, bytes),
            _ => global_place(context, address, bytes),
        },
    };
    if found.is_none() {
        fail(context, TRAP_ILLEGAL, address);
        context.trap_access = TrapAccess::new(space, access, bytes);
    }
    found
}

/// Whether an address in one of the spaces is in global memory.
fn is_global(space: AddressSpace, address: u64) -> bool {
    matches!(space, AddressSpace::Generic | AddressSpace::Global) && address >> 56 == 0
}

/// Shows an access to global memory to the sampler. Returns the addresses at which its site need not be shown again.
fn sample(context: &mut Context, address: u64, bytes: u64, access: Access) -> Range<u64> {
    let Context { sampler, params, param_bytes, site, .. } = context;
    let is_parameter = address.wrapping_sub(*params as u64) < *param_bytes;
    match sampler {
        Some(sampler) if !is_parameter => sampler.sees(*site, address, bytes, access),
        _ => 0..u64::MAX,
    }
}

/// Shows an access at a resolved place to the checks.
fn show(context: &mut Context, place: u64, bytes: u64, access: Access, volatile: bool, same: bool) {
    // SAFETY: `warp` is the warp that runs; the watch is that of its block, and what is unwritten outlives the launch.
    unsafe {
        let thread = (*context.warp).index * 32 + context.lane as u32;
        let offset = place.wrapping_sub(context.shared as u64);
        if offset < context.shared_bytes {
            if let Some(watch) = context.watch.as_mut() {
                watch.touch(offset, bytes, Seen { thread, site: context.site as u32, access, volatile, same });
            }
            return;
        }
        if let Some(unwritten) = context.unwritten.as_ref() {
            if access.writes() && access != Access::Atomic {
                unwritten.is_written(place, bytes);
            } else if unwritten.is_read(place, bytes) {
                let site = context.site as u32;
                if let Some(watch) = context.watch.as_mut() {
                    let (kind, bytes) = (MistakeKind::UnwrittenGlobal, bytes as u32);
                    watch.note(Note { kind, site, thread, other: None, address: place, bytes });
                }
            }
            if access == Access::Atomic {
                unwritten.is_written(place, bytes);
            }
        }
        if context.cluster_size > 1 && access.writes() {
            for rank in 0..context.cluster_size as usize {
                let block = &mut *context.blocks.add(rank);
                let offset = place.wrapping_sub(block.shared.as_ptr() as u64);
                if let Some(watch) = block.watch.as_mut().filter(|_| offset < block.shared_bytes) {
                    watch.written_by_others(offset, bytes);
                }
            }
        }
    }
}

/// A load or store that compiled code is about to make at a resolved place.
pub(super) extern "C" fn track(context: &mut Context, place: u64, mode: u64, site: u64) -> u64 {
    context.site = site;
    let bytes = mode & 0xffff;
    let same = mode >> 25 & 1 != 0 && {
        // SAFETY: the place was resolved for these bytes, at most 32; the values are in the arguments.
        let (old, new) = unsafe {
            let new = context.args.as_ptr().cast::<u8>();
            (
                std::slice::from_raw_parts(place as *const u8, bytes as usize),
                std::slice::from_raw_parts(new, bytes as usize),
            )
        };
        old == new
    };
    show(context, place, bytes, Access::from_number(mode >> 16 & 0xff), mode >> 24 & 1 != 0, same);
    0
}

fn shared_place(context: &Context, address: u64, bytes: u64) -> Option<*mut u8> {
    let (rank, offset) = (address >> 24, address & 0xff_ffff);
    let (start, limit) = if rank == 0 {
        (context.shared, context.shared_bytes)
    } else {
        if rank > u64::from(context.cluster_size) {
            return None;
        }
        // SAFETY: the unit that runs has `cluster_size` blocks, which outlive the call.
        let block = unsafe { &mut *context.blocks.add(rank as usize - 1) };
        (block.shared.as_mut_ptr().cast(), block.shared_bytes)
    };
    (offset <= limit && bytes <= limit - offset).then(|| start.wrapping_add(offset as usize))
}

fn local_place(context: &Context, address: u64, bytes: u64) -> Option<*mut u8> {
    let limit = context.local_bytes;
    if address > limit || bytes > limit - address {
        return None;
    }
    // SAFETY: `warp` is the warp that runs.
    let base = unsafe { (*context.warp).local };
    Some(base.wrapping_add((context.lane * limit + address) as usize))
}

fn global_place(context: &mut Context, address: u64, bytes: u64) -> Option<*mut u8> {
    let params = context.params as u64;
    if address >= params && address - params <= context.param_bytes && bytes <= context.param_bytes - (address - params)
    {
        return Some(address as *mut u8);
    }
    let fits = |range: &Range<u64>| range.start <= address && address < range.end && bytes <= range.end - address;
    let known = &mut context.ranges[context.site as usize];
    if !fits(known) {
        // SAFETY: the launch holds the map as long as it runs.
        *known = unsafe { &*context.memory }.range(address).filter(fits)?;
    }
    Some(address as *mut u8)
}

/// The slow path of a load or store; remembers the range for the next time.
pub(super) extern "C" fn resolve(context: &mut Context, address: u64, mode: u64, site: u64) -> u64 {
    let (bytes, space) = (mode & 0xffff, AddressSpace::from_number(mode >> 16 & 0xff));
    let access = Access::from_number(mode >> 24 & 0xff);
    context.site = site;
    let Some(place) = locate(context, address, bytes, bytes, space, access) else { return 0 };
    if is_global(space, address) {
        let piece = sample(context, address, bytes, access);
        // SAFETY: as in `global_place`; there is a cache for every site.
        unsafe {
            let whole = &context.ranges[site as usize];
            if whole.contains(&address) {
                let range = whole.start.max(piece.start)..whole.end.min(piece.end);
                let low = range.start.next_multiple_of(bytes);
                let count = if range.end >= low + bytes { (range.end - low - bytes) / bytes + 1 } else { 0 };
                *context.sites.add(site as usize) =
                    SiteCache { low, count, rows: count.saturating_sub(u64::from(LANES) - 1) };
            }
        }
    }
    place as u64
}

/// As [`resolve`], for lanes whose accesses follow each other, from the context's lane on. Returns the first one's place.
pub(super) extern "C" fn resolve_row(context: &mut Context, address: u64, mode: u64, site: u64) -> u64 {
    let first = context.lane;
    let mut places = [0; LANES as usize];
    for (index, place) in places.iter_mut().enumerate() {
        context.lane = first + index as u64;
        *place = resolve(context, address.wrapping_add(index as u64 * (mode & 0xffff)), mode, site);
        if *place == 0 {
            return 0;
        }
    }
    places[0]
}

pub(super) fn space_of(mode: u64) -> AddressSpace {
    AddressSpace::from_number(mode >> 16 & 0xff)
}

const ADD: u64 = 0;
const MIN: u64 = 1;
const MAX: u64 = 2;

/// What an operation stores, made of what was there and its operand.
pub(super) fn combine(op: u64, scalar: Scalar, old: u64, b: u64) -> u64 {
    let signed = scalar.signed();
    let wide = scalar.bits() == 64;
    let float = |op: u64, format: Format, packed: bool| {
        let op = [number::ADD, number::MIN, number::MAX][op as usize];
        number::arithmetic(old, b, 0, number::Mode { op, packed, ..number::Mode::from_format(format) }.encode())
    };
    match (op, scalar) {
        (ADD, Scalar::F32) => {
            let sum = f32::from_bits(old as u32) + f32::from_bits(b as u32);
            u64::from(if sum.is_nan() { 0x7fff_ffff } else { sum.to_bits() })
        }
        (ADD, Scalar::F64) => (f64::from_bits(old) + f64::from_bits(b)).to_bits(),
        (ADD..=MAX, Scalar::F16) => float(op, Format::F16, false),
        (ADD..=MAX, Scalar::Bf16) => float(op, Format::Bf16, false),
        (ADD..=MAX, Scalar::F16x2) => float(op, Format::F16, true),
        (ADD..=MAX, Scalar::Bf16x2) => float(op, Format::Bf16, true),
        (ADD, _) => old.wrapping_add(b),
        (MIN, _) if signed && wide => (old as i64).min(b as i64) as u64,
        (MIN, _) if signed => (old as i32).min(b as i32) as u32 as u64,
        (MIN, _) => old.min(b),
        (MAX, _) if signed && wide => (old as i64).max(b as i64) as u64,
        (MAX, _) if signed => (old as i32).max(b as i32) as u32 as u64,
        (MAX, _) => old.max(b),
        (3, _) => {
            if old >= b {
                0
            } else {
                old + 1
            }
        }
        (4, _) => {
            if old == 0 || old > b {
                b
            } else {
                old - 1
            }
        }
        (5, _) => old & b,
        (6, _) => old | b,
        (7, _) => old ^ b,
        _ => b,
    }
}

pub(super) fn scalar_of(index: u64) -> Scalar {
    const ALL: [Scalar; 17] = [
        Scalar::B16,
        Scalar::B32,
        Scalar::B64,
        Scalar::B128,
        Scalar::U32,
        Scalar::S32,
        Scalar::U64,
        Scalar::S64,
        Scalar::F16,
        Scalar::F16x2,
        Scalar::Bf16,
        Scalar::Bf16x2,
        Scalar::F32,
        Scalar::F64,
        Scalar::U16,
        Scalar::S16,
        Scalar::U8,
    ];
    ALL.into_iter().find(|scalar| *scalar as u64 == index).unwrap_or(Scalar::B32)
}

const CAS: u64 = 9;

pub(super) extern "C" fn atomic(context: &mut Context, warp: &mut Warp, mode: u64) {
    context.warp = warp;
    let (op, scalar) = (mode & 0xff, scalar_of(mode >> 8 & 0xff));
    let bytes = u64::from(scalar.bytes());
    let address = context.args[0] as u64;
    // The first element of a vector has the alignment of the whole.
    let align = bytes << (mode >> 24 & 0xff);
    let Some(place) = resolve_any(context, address, bytes, align, space_of(mode), Access::Atomic) else { return };
    let (b, c) = (context.args[1], context.args[2]);
    let cut = if bytes >= 8 { u64::MAX } else { (1 << (bytes * 8)) - 1 };
    let next = |old: u64| {
        if op == CAS {
            (old == b as u64 & cut).then_some(c as u64 & cut)
        } else {
            Some(combine(op, scalar, old, b as u64 & cut) & cut)
        }
    };
    // SAFETY: the place was resolved for this many bytes and is aligned to them.
    context.result = unsafe {
        if bytes < 16 {
            u128::from(update(place, bytes, next))
        } else {
            // The language has no 16-byte atomics, so one lock serves all of them.
            let _guard = WIDE.lock();
            let cell = place.cast::<u128>();
            let old = *cell;
            if op != CAS || old == b {
                *cell = if op == CAS { c } else { b };
            }
            old
        }
    };
}

/// Atomically replaces 2, 4 or 8 bytes with what `next` makes of them; returns the old value.
///
/// # Safety
/// The place is valid for these bytes and aligned to them, and others access it atomically.
pub(super) unsafe fn update(place: *mut u8, bytes: u64, next: impl Fn(u64) -> Option<u64>) -> u64 {
    macro_rules! update {
        ($atomic:ty, $int:ty) => {{
            // SAFETY: by the contract of the function.
            let cell = unsafe { &*place.cast::<$atomic>() };
            let swap = |old: $int| next(u64::from(old)).map(|new| new as $int);
            match cell.fetch_update(Ordering::SeqCst, Ordering::SeqCst, swap) {
                Ok(old) | Err(old) => u64::from(old),
            }
        }};
    }
    match bytes {
        2 => update!(AtomicU16, u16),
        4 => update!(AtomicU32, u32),
        _ => update!(AtomicU64, u64),
    }
}

/// The bytes of an element of a reduction, and what is done with it.
pub(super) fn reduction(op: u64, scalar: u64) -> Option<(u64, impl Fn(u64, u64) -> u64)> {
    // Names of bulk reductions: add, min, max, inc, dec, and, or, xor.
    let scalar = scalar_of(scalar);
    let bytes = u64::from(scalar.bytes());
    (matches!(bytes, 2 | 4 | 8)).then_some((bytes, move |old, b| combine(op, scalar, old, b)))
}

/// The type of a reduction for a `CUtensorMapDataType`, if there is one.
pub(super) fn tensor_scalar(data_type: u8) -> Option<u64> {
    Some(match data_type {
        2 => Scalar::U32,
        3 => Scalar::S32,
        4 => Scalar::U64,
        5 => Scalar::S64,
        6 => Scalar::F16,
        7 => Scalar::F32,
        8 => Scalar::F64,
        9 => Scalar::Bf16,
        _ => return None,
    } as u64)
}

static WIDE: parking_lot::Mutex<()> = parking_lot::Mutex::new(());

pub(super) extern "C" fn is_space(context: &mut Context, _warp: &mut Warp, mode: u64) {
    let address = context.args[0] as u64;
    let window = address >> 56;
    context.result = u128::from(match mode {
        mem::IS_GLOBAL => window == 0,
        mem::IS_SHARED => {
            let rank = address >> 24 & 0xffff;
            window == 1 && (rank == 0 || rank == u64::from(context.cluster_rank) + 1)
        }
        mem::IS_SHARED_CLUSTER => window == 1,
        mem::IS_LOCAL => window == 2,
        _ => false,
    });
}

pub(super) extern "C" fn map_address(context: &mut Context, _warp: &mut Warp, window: u64) {
    let (address, rank) = (context.args[0] as u64, context.args[1] as u64);
    let base = if window != 0 { 0 } else { mem::SHARED_WINDOW };
    context.result = u128::from(base | (rank + 1) << 24 | address & 0xff_ffff);
}

pub(super) extern "C" fn cta_rank(context: &mut Context, _warp: &mut Warp, _mode: u64) {
    let rank = context.args[0] as u64 >> 24 & 0xffff;
    context.result = u128::from(if rank == 0 { u64::from(context.cluster_rank) } else { rank - 1 });
}

// An mbarrier, as this machine lays its 64 bits out: pending arrivals (20 bits), arrivals of a phase (20), phase (1), transactions (23, signed).
const COUNT: u64 = (1 << 20) - 1;

fn settle(state: u64) -> u64 {
    let (pending, expected, phase, bytes) = (state & COUNT, state >> 20 & COUNT, state >> 40 & 1, state >> 41);
    if pending == 0 && bytes == 0 {
        expected | expected << 20 | (phase ^ 1) << 40
    } else {
        state_of(pending, expected, phase, bytes)
    }
}

fn state_of(pending: u64, expected: u64, phase: u64, bytes: u64) -> u64 {
    pending | expected << 20 | phase << 40 | (bytes & 0x7f_ffff) << 41
}

/// Changes an mbarrier; false, with the trap set, if there is none at this address.
pub(super) fn change(context: &mut Context, address: u64, space: AddressSpace, by: impl Fn(u64) -> u64) -> Option<u64> {
    let place = resolve_any(context, address, 8, 8, space, Access::Object)?;
    let place = place.cast::<u64>();
    // SAFETY: resolved and aligned; the blocks of a cluster run on one worker, so nobody else is here.
    unsafe {
        let old = *place;
        *place = by(old);
        Some(old)
    }
}

pub(super) fn complete(context: &mut Context, address: u64, bytes: u64) {
    change(context, address, AddressSpace::Shared, |state| {
        let left = (state >> 41).wrapping_sub(bytes);
        settle(state_of(state & COUNT, state >> 20 & COUNT, state >> 40 & 1, left))
    });
    release(context, address);
}

/// Orders what the thread has done so far before whoever finds that a phase of the mbarrier is over.
fn release(context: &mut Context, address: u64) {
    // SAFETY: as in `show`.
    unsafe {
        if let Some(watch) = context.watch.as_mut() {
            watch.release((*context.warp).index * 32 + context.lane as u32, address & 0xff_ffff);
        }
    }
}

/// The thread has seen that a phase of the mbarrier is over.
fn acquire(context: &mut Context, address: u64) {
    // SAFETY: as in `show`.
    unsafe {
        if let Some(watch) = context.watch.as_mut() {
            if context.cluster_size > 1 {
                // Which threads took part is not tracked across blocks, so this counts all of them.
                watch.everyone();
            }
            watch.acquire((*context.warp).index * 32 + context.lane as u32, address & 0xff_ffff);
        }
    }
}

pub(super) extern "C" fn mbarrier(context: &mut Context, warp: &mut Warp, mode: u64) {
    context.warp = warp;
    let (op, space) = (mode & 0xff, space_of(mode));
    let (address, count, bytes) =
        (context.args[0] as u64, context.args[1] as u64 & 0xffff_ffff, context.args[2] as u64 & 0xffff_ffff);
    let space = if matches!(op, mem::MBARRIER_COMPLETE_TX) && mode >> 16 == 0 { AddressSpace::Shared } else { space };
    match op {
        mem::MBARRIER_INIT => {
            change(context, address, space, |_| state_of(count & COUNT, count & COUNT, 0, 0));
        }
        mem::MBARRIER_INVAL => {
            change(context, address, space, |_| 0);
        }
        mem::MBARRIER_EXPECT_TX => {
            let add = |state: u64| state_of(state & COUNT, state >> 20 & COUNT, state >> 40 & 1, (state >> 41) + count);
            change(context, address, space, add);
        }
        mem::MBARRIER_COMPLETE_TX => {
            let take = |state: u64| {
                let left = (state >> 41).wrapping_sub(count);
                settle(state_of(state & COUNT, state >> 20 & COUNT, state >> 40 & 1, left))
            };
            change(context, address, space, take);
            release(context, address);
        }
        mem::MBARRIER_ARRIVE | mem::MBARRIER_DROP => {
            let arrive = |state: u64| {
                let dropped = if op == mem::MBARRIER_DROP { count } else { 0 };
                let pending = (state & COUNT).saturating_sub(count);
                let expected = (state >> 20 & COUNT).saturating_sub(dropped);
                settle(state_of(pending, expected, state >> 40 & 1, (state >> 41) + bytes))
            };
            if let Some(old) = change(context, address, space, arrive) {
                context.result = u128::from(old);
            }
            release(context, address);
        }
        mem::MBARRIER_TEST | mem::MBARRIER_TEST_PARITY => {
            let wanted = context.args[1] as u64;
            let wanted = if op == mem::MBARRIER_TEST { wanted >> 40 & 1 } else { wanted & 1 };
            if let Some(state) = change(context, address, space, |state| state) {
                let is_over = state >> 40 & 1 != wanted;
                context.result = u128::from(is_over);
                if is_over {
                    acquire(context, address);
                }
            }
        }
        _ => context.result = u128::from(address & COUNT),
    }
}

pub(super) extern "C" fn copy_async(context: &mut Context, warp: &mut Warp, size: u64) {
    context.warp = warp;
    let (to, from, valid) =
        (context.args[0] as u64, context.args[1] as u64, (context.args[2] as u64 & 0xffff_ffff).min(size));
    let Some(target) = resolve_any(context, to, size, size, AddressSpace::Shared, Access::Write) else { return };
    // If nothing is copied, the source need not exist.
    let source = if valid > 0 {
        let found = resolve_any(context, from, valid, size, AddressSpace::Generic, Access::Read);
        let Some(source) = found else { return };
        source
    } else {
        target
    };
    // SAFETY: both were resolved for these sizes; shared memory does not overlap what the program allocated.
    unsafe {
        if valid > 0 {
            std::ptr::copy(source, target, valid as usize);
        }
        std::ptr::write_bytes(target.add(valid as usize), 0, (size - valid) as usize);
    }
}

/// Whoever sleeps waits for another, often a process that has no core of its own.
pub(super) extern "C" fn nanosleep(_context: &mut Context, _warp: &mut Warp, _mode: u64) {
    std::thread::yield_now();
}

pub(super) extern "C" fn stack_check(context: &mut Context, _warp: &mut Warp, _mode: u64) {
    if context.args[0] as u64 > context.local_bytes {
        let address = context.args[0] as u64;
        fail(context, TRAP_STACK, address);
    }
}

pub(super) extern "C" fn malloc(context: &mut Context, _warp: &mut Warp, _mode: u64) {
    let size = context.args[0] as u64;
    // SAFETY: the launch holds the host's side as long as it runs.
    context.result = u128::from(unsafe { &*context.host }.malloc(size));
}

pub(super) extern "C" fn free(context: &mut Context, _warp: &mut Warp, _mode: u64) {
    let address = context.args[0] as u64;
    if address != 0 {
        // SAFETY: as in `malloc`.
        unsafe { &*context.host }.free(address);
    }
}

/// Nanoseconds of the monotonic clock, in the parts that the special registers show.
pub(super) extern "C" fn clock(which: u64, _: u64, _: u64, _: u64) -> u64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    let elapsed = START.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64;
    match which {
        0 | 4 => elapsed & 0xffff_ffff,
        1 | 5 => elapsed >> 32,
        _ => elapsed,
    }
}
