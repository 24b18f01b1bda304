//! Delivery: records go into the program's buffers when it flushes, with times of the clock that it chose.

use std::ffi::{c_uint, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use dataplane::lock::Mutex;

use super::error;
use super::record::{self, Record};
use crate::device::work::timeline;
use crate::libraries::objects::Answer;
use crate::libraries::release;

/// `CUpti_BuffersCallbackRequestFunc`
pub(super) type Request = Option<unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize)>;
/// `CUpti_BuffersCallbackCompleteFunc`
pub(super) type Complete = Option<unsafe extern "C" fn(*mut c_void, c_uint, *mut u8, usize, usize)>;
/// `CUpti_TimestampCallbackFunc`
pub(super) type Timestamp = Option<unsafe extern "C" fn() -> u64>;

/// The program's functions.
struct Program {
    buffers: Option<(RequestFunction, CompleteFunction)>,
    clock: Option<Clock>,
    dropped: usize,
}

type RequestFunction = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
type CompleteFunction = unsafe extern "C" fn(*mut c_void, c_uint, *mut u8, usize, usize);

static PROGRAM: Mutex<Program> = Mutex::new(Program { buffers: None, clock: None, dropped: 0 });

/// A buffer of the program that waits for records.
#[derive(Clone, Copy)]
struct Buffer {
    address: usize,
    size: usize,
    /// How many records it may have; 0 for no limit.
    most: usize,
}

static RECORDS: Mutex<Vec<Record>> = Mutex::new(Vec::new());
/// Set with the first record: profilers take it as the sign that there are records, and flush only then.
static RESERVED: Mutex<Option<Buffer>> = Mutex::new(None);
static HAS_RESERVED: AtomicBool = AtomicBool::new(false);

/// Whether CUPTI is that of CUDA 13.
pub(super) fn is_13() -> bool {
    release::current().cupti >= 130_000
}

/// Adds a record.
pub(super) fn push(record: Record) {
    RECORDS.lock().push(record);
    if !HAS_RESERVED.swap(true, Ordering::AcqRel) {
        let buffers = PROGRAM.lock().buffers;
        // SAFETY: the program registered it to be called when a buffer is needed.
        *RESERVED.lock() = buffers.and_then(|(request, _)| unsafe { ask(request) });
    }
}

/// Drops what was not delivered.
pub(super) fn forget() {
    RECORDS.lock().clear();
}

/// A buffer of the program, if it has one.
///
/// # Safety
/// `request` is the program's function.
unsafe fn ask(request: RequestFunction) -> Option<Buffer> {
    let (mut buffer, mut size, mut most) = (std::ptr::null_mut(), 0, 0);
    // SAFETY: three places to write to.
    unsafe { request(&raw mut buffer, &raw mut size, &raw mut most) };
    (!buffer.is_null()).then_some(Buffer { address: buffer as usize, size, most })
}

/// The program's clock beside ours.
#[derive(Clone, Copy)]
struct Clock {
    read: unsafe extern "C" fn() -> u64,
    /// Both at one moment, when the program registered it.
    ours: u64,
    theirs: u64,
}

impl Clock {
    fn new(read: unsafe extern "C" fn() -> u64) -> Self {
        let (ours, theirs) = both(read);
        Self { read, ours, theirs }
    }

    /// From our times to the program's, which run evenly from its registration until now.
    fn conversion(self) -> impl Fn(u64) -> u64 {
        let (ours, theirs) = both(self.read);
        between([self.ours, self.theirs], [ours, theirs])
    }
}

/// Both clocks at one moment.
fn both(read: unsafe extern "C" fn() -> u64) -> (u64, u64) {
    let before = timeline::now();
    // SAFETY: the program registered it to be called at any time.
    let theirs = unsafe { read() };
    (before.midpoint(timeline::now()), theirs)
}

/// From the first clock to the second, of which two moments are known.
fn between(start: [u64; 2], now: [u64; 2]) -> impl Fn(u64) -> u64 {
    let passed = now[0].saturating_sub(start[0]).max(1);
    let rate = now[1].saturating_sub(start[1]) as f64 / passed as f64;
    move |time| {
        let since = time as i128 - i128::from(start[0]);
        (i128::from(start[1]) + (since as f64 * rate) as i128) as u64
    }
}

pub(super) fn register(request: Request, complete: Complete) -> Answer {
    let (Some(request), Some(complete)) = (request, complete) else { return Err(error::INVALID_PARAMETER) };
    PROGRAM.lock().buffers = Some((request, complete));
    Ok(())
}

pub(super) fn register_clock(read: Timestamp) -> Answer {
    let read = read.ok_or(error::INVALID_PARAMETER)?;
    let clock = Clock::new(read);
    PROGRAM.lock().clock = Some(clock);
    Ok(())
}

/// The time of records now.
pub(super) fn now() -> u64 {
    let clock = PROGRAM.lock().clock;
    // SAFETY: the program registered it to be called at any time.
    clock.map_or_else(timeline::now, |clock| unsafe { (clock.read)() })
}

/// How many records found no buffer since the last time.
pub(super) fn take_dropped() -> usize {
    std::mem::take(&mut PROGRAM.lock().dropped)
}

/// Puts all records of completed work into buffers of the program. They are complete when this returns.
pub(super) fn flush() -> Answer {
    let (buffers, clock) = {
        let program = PROGRAM.lock();
        (program.buffers, program.clock)
    };
    let Some((request, complete)) = buffers else { return Err(error::INVALID_OPERATION) };
    let mut records = std::mem::take(&mut *RECORDS.lock());
    if let Some(clock) = clock {
        let convert = clock.conversion();
        records.iter_mut().for_each(|record| record.convert(&convert));
    }
    let mut reserved = RESERVED.lock().take();
    HAS_RESERVED.store(false, Ordering::Release);
    let is_13 = is_13();
    let mut left = records.as_slice();
    while !left.is_empty() || reserved.is_some() {
        // SAFETY: the program's function.
        let Some(buffer) = reserved.take().or_else(|| unsafe { ask(request) }) else {
            PROGRAM.lock().dropped += left.len();
            break;
        };
        let address = buffer.address as *mut u8;
        // SAFETY: the program's buffer of so many bytes.
        let (count, used) = unsafe { fill(address, buffer, left, is_13) };
        // SAFETY: the program's function gets back its buffer.
        unsafe { complete(std::ptr::null_mut(), 0, address, buffer.size, used) };
        if count == 0 {
            PROGRAM.lock().dropped += left.len();
            break;
        }
        left = &left[count..];
    }
    Ok(())
}

/// Copies as many records as the buffer may have; returns how many, and their bytes.
///
/// # Safety
/// `buffer` is at `to`.
unsafe fn fill(to: *mut u8, buffer: Buffer, records: &[Record], is_13: bool) -> (usize, usize) {
    let Buffer { size, most, .. } = buffer;
    let (mut count, mut used) = (0, 0);
    for record in records {
        let (kind, from) = record.place();
        let bytes = record::size(kind, is_13).unwrap_or(0);
        if used + bytes > size || (most > 0 && count == most) {
            break;
        }
        // SAFETY: the record is at least so large, and the buffer has room for it.
        unsafe { std::ptr::copy_nonoverlapping(from, to.add(used), bytes) };
        (count, used) = (count + 1, used + bytes);
    }
    (count, used)
}

/// The record behind `*record` in a buffer, or the first one if that is null.
///
/// # Errors
/// MAX_LIMIT_REACHED at the end; INVALID_KIND for a record that is not CUPTI's.
///
/// # Safety
/// The buffer has `valid` bytes of records, and `record` is null or points to null or to one of them.
pub(super) unsafe fn next(buffer: *mut u8, valid: usize, record: *mut *mut u8) -> Answer {
    if buffer.is_null() || record.is_null() {
        return Err(error::INVALID_PARAMETER);
    }
    // SAFETY: by the caller.
    let before = unsafe { record.read() };
    let offset = if before.is_null() {
        0
    } else {
        // SAFETY: by the caller: each record begins with its kind.
        let kind = unsafe { before.cast::<u32>().read_unaligned() };
        before as usize - buffer as usize + record::size(kind, is_13()).ok_or(error::INVALID_KIND)?
    };
    if offset >= valid {
        return Err(error::MAX_LIMIT_REACHED);
    }
    // SAFETY: within the buffer.
    unsafe { record.write(buffer.add(offset)) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_run_evenly_between_two_moments() {
        let convert = between([1_000_000, 5000], [1_001_000, 8000]);
        assert_eq!([999_000, 1_000_000, 1_000_500, 1_001_000].map(convert), [2000, 5000, 6500, 8000]);
    }
}
