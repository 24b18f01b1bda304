//! The C functions, with the signatures of NCCL's header (2.27 to 2.30). Calls are forwarded, and those that move bytes or make
//! communicators are noted. Calls that would move bytes that the books cannot follow are refused.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use abi::nccl;
use protocol::datatype::Operation;

use crate::books::Books;
use crate::guard::Forwarding;
use crate::operations::Arguments;
use crate::trouble;
use crate::{group, handles, part, real};

/// `real` recognizes this library by this symbol.
#[unsafe(no_mangle)]
static fakegpu_nccl_proxy: u8 = 1;

/// `ncclUniqueId`.
#[repr(C)]
#[derive(Clone, Copy)]
struct UniqueId([u8; 128]);

/// The real function of that name, looked up once.
macro_rules! real {
    ($name:expr, fn($($type:ty),*) -> $result:ty) => {{
        type Function = unsafe extern "C" fn($($type),*) -> $result;
        static FOUND: OnceLock<Function> = OnceLock::new();
        match FOUND.get() {
            Some(found) => Ok(*found),
            // SAFETY: the signature is the one in NCCL's header.
            None => unsafe { real::function::<Function>($name) }.map(|found| *FOUND.get_or_init(|| found)),
        }
    }};
}

macro_rules! forwarded {
    ($(fn $name:ident($($argument:ident: $type:ty),*);)*) => {
        abi::functions! {
            guarded by Forwarding;
            real {$(
                fn $name($($argument: $type),*) = |$($argument),*| {
                    let real = real!(stringify!($name), fn($($type),*) -> c_uint)?;
                    // SAFETY: the caller's promises are NCCL's.
                    trouble::theirs(unsafe { real($($argument),*) })
                };
            )*}
        }
    };
}

forwarded! {
    fn ncclGetVersion(out: *mut c_int);
    fn ncclGetUniqueId(out: *mut UniqueId);
    fn ncclCommCount(communicator: usize, out: *mut c_int);
    fn ncclCommCuDevice(communicator: usize, out: *mut c_int);
    fn ncclCommUserRank(communicator: usize, out: *mut c_int);
    fn ncclCommFinalize(communicator: usize);
    fn ncclCommRegister(communicator: usize, base: *mut c_void, size: usize, out: *mut usize);
    fn ncclCommDeregister(communicator: usize, handle: usize);
    fn ncclCommWindowRegister(communicator: usize, base: *mut c_void, size: usize, out: *mut usize, flags: c_int);
    fn ncclCommWindowDeregister(communicator: usize, window: usize);
    fn ncclMemAlloc(out: *mut usize, size: usize);
    fn ncclMemFree(address: usize);
    fn ncclRedOpCreatePreMulSum(out: *mut c_int, scalar: *mut c_void, datatype: c_int, residence: c_uint, communicator: usize);
    fn ncclRedOpDestroy(op: c_int, communicator: usize);
    fn ncclGroupSimulateEnd(out: *mut c_void);
    fn ncclCommSuspend(communicator: usize, flags: c_int);
    fn ncclCommResume(communicator: usize);
    fn ncclCommMemStats(communicator: usize, statistic: c_int, out: *mut u64);
    fn ncclCommQueryProperties(communicator: usize, properties: *mut c_void);
}

abi::functions! {
    guarded by Forwarding;
    refused {
        ncclCommShrink ncclCommGrow ncclCommRevoke ncclCommGetUniqueId ncclPutSignal ncclSignal ncclWaitSignal
        ncclWinGetUserPtr ncclDevCommCreate ncclDevCommDestroy ncclGetLsaDevicePointer ncclGetPeerDevicePointer
        ncclGetLsaMultimemDevicePointer ncclGetMultimemDevicePointer
    }
}

macro_rules! operations {
    ($(fn $name:ident($($argument:ident: $type:ty),*) = $operation:ident { $($field:ident: $value:expr),* };)*) => {
        abi::functions! {
            guarded by Forwarding;
            real {$(
                fn $name($($argument: $type,)* communicator: usize, stream: usize) = |$($argument,)* communicator, stream| {
                    let real = real!(stringify!($name), fn($($type,)* usize, usize) -> c_uint)?;
                    let call = Arguments { $($field: $value,)* ..Arguments::default() }.call(Operation::$operation)?;
                    // SAFETY: the caller's promises are NCCL's.
                    group::operate(&handles::books(communicator)?, call, || unsafe { real($($argument,)* communicator, stream) })
                };
            )*}
        }
    };
}

operations! {
    fn ncclAllReduce(send: *const c_void, receive: *mut c_void, count: usize, datatype: c_int, op: c_int)
        = AllReduce { count: count, datatype: datatype, send: send, receive: receive, op: Some(op) };
    fn ncclReduce(send: *const c_void, receive: *mut c_void, count: usize, datatype: c_int, op: c_int, root: c_int)
        = Reduce { count: count, datatype: datatype, send: send, receive: receive, op: Some(op), root: Some(root) };
    fn ncclBroadcast(send: *const c_void, receive: *mut c_void, count: usize, datatype: c_int, root: c_int)
        = Broadcast { count: count, datatype: datatype, send: send, receive: receive, root: Some(root) };
    fn ncclBcast(buffer: *mut c_void, count: usize, datatype: c_int, root: c_int)
        = Broadcast { count: count, datatype: datatype, send: buffer.cast_const(), receive: buffer, root: Some(root) };
    fn ncclAllGather(send: *const c_void, receive: *mut c_void, count: usize, datatype: c_int)
        = AllGather { count: count, datatype: datatype, send: send, receive: receive };
    fn ncclReduceScatter(send: *const c_void, receive: *mut c_void, count: usize, datatype: c_int, op: c_int)
        = ReduceScatter { count: count, datatype: datatype, send: send, receive: receive, op: Some(op) };
    fn ncclAlltoAll(send: *const c_void, receive: *mut c_void, count: usize, datatype: c_int)
        = AllToAll { count: count, datatype: datatype, send: send, receive: receive };
    fn ncclAllToAll(send: *const c_void, receive: *mut c_void, count: usize, datatype: c_int)
        = AllToAll { count: count, datatype: datatype, send: send, receive: receive };
    fn ncclGather(send: *const c_void, receive: *mut c_void, count: usize, datatype: c_int, root: c_int)
        = Gather { count: count, datatype: datatype, send: send, receive: receive, root: Some(root) };
    fn ncclScatter(send: *const c_void, receive: *mut c_void, count: usize, datatype: c_int, root: c_int)
        = Scatter { count: count, datatype: datatype, send: send, receive: receive, root: Some(root) };
    fn ncclSend(send: *const c_void, count: usize, datatype: c_int, peer: c_int)
        = Send { count: count, datatype: datatype, send: send, peer: Some(peer) };
    fn ncclRecv(receive: *mut c_void, count: usize, datatype: c_int, peer: c_int)
        = Recv { count: count, datatype: datatype, receive: receive, peer: Some(peer) };
}

abi::functions! {
    guarded by Forwarding;
    real {
        fn ncclGroupStart() = group_start;
        fn ncclGroupEnd() = group_end;
        fn ncclCommInitRank(out: *mut usize, size: c_int, id: UniqueId, rank: c_int) = init_rank;
        fn ncclCommInitRankConfig(out: *mut usize, size: c_int, id: UniqueId, rank: c_int, config: *mut c_void)
            = init_rank_config;
        fn ncclCommInitRankScalable(out: *mut usize, size: c_int, rank: c_int, id_count: c_int, ids: *mut UniqueId, config: *mut c_void)
            = init_rank_scalable;
        fn ncclCommInitAll(out: *mut usize, count: c_int, devices: *const c_int) = init_all;
        fn ncclCommSplit(parent: usize, color: c_int, key: c_int, out: *mut usize, config: *mut c_void) = split;
        fn ncclCommDestroy(communicator: usize) = destroy;
        fn ncclCommAbort(communicator: usize) = abort;
        fn ncclCommGetAsyncError(communicator: usize, out: *mut c_uint) = async_error;
    }
    raw {
        fn ncclGetLastError(communicator: usize) -> *const c_char = last_error;
        fn ncclGetErrorString(result: c_uint) -> *const c_char = error_string;
    }
}

unsafe fn group_start() -> Result<u32, u32> {
    let real = real!("ncclGroupStart", fn() -> c_uint)?;
    // SAFETY: it takes nothing.
    trouble::theirs(unsafe { real() }).inspect(|_| group::starts())
}

unsafe fn group_end() -> Result<u32, u32> {
    let real = real!("ncclGroupEnd", fn() -> c_uint)?;
    // SAFETY: the callers of the grouped functions promise that what NCCL writes to when the group ends is valid.
    unsafe { group::ends(|| real()) }
}

/// The books of rank `rank` of `size`; the real NCCL refuses arguments that are not ranks.
fn begin(id: UniqueId, size: c_int, rank: c_int, ordinal: Option<c_int>) -> Result<std::sync::Arc<Books>, u32> {
    let process = part::process()?;
    match (u32::try_from(size), u32::try_from(rank)) {
        (Ok(size), Ok(rank)) if rank < size => Books::init(process, id.0, size, rank, part::participant(rank, ordinal)),
        _ => Err(trouble::refuse(nccl::INVALID_ARGUMENT, &format!("rank {rank} of {size} ranks"))),
    }
}

unsafe fn init_rank(out: *mut usize, size: c_int, id: UniqueId, rank: c_int) -> Result<u32, u32> {
    let real = real!("ncclCommInitRank", fn(*mut usize, c_int, UniqueId, c_int) -> c_uint)?;
    let books = begin(id, size, rank, None)?;
    // SAFETY: the caller's promises are NCCL's.
    unsafe { group::make(out, books, None, || real(out, size, id, rank)) }
}

unsafe fn init_rank_config(
    out: *mut usize,
    size: c_int,
    id: UniqueId,
    rank: c_int,
    config: *mut c_void,
) -> Result<u32, u32> {
    type Config = *mut c_void;
    let real = real!("ncclCommInitRankConfig", fn(*mut usize, c_int, UniqueId, c_int, Config) -> c_uint)?;
    let books = begin(id, size, rank, None)?;
    // SAFETY: the caller's promises are NCCL's.
    unsafe { group::make(out, books, None, || real(out, size, id, rank, config)) }
}

unsafe fn init_rank_scalable(
    out: *mut usize,
    size: c_int,
    rank: c_int,
    id_count: c_int,
    ids: *mut UniqueId,
    config: *mut c_void,
) -> Result<u32, u32> {
    type Config = *mut c_void;
    let real = real!("ncclCommInitRankScalable", fn(*mut usize, c_int, c_int, c_int, *mut UniqueId, Config) -> c_uint)?;
    if ids.is_null() || id_count < 1 {
        return Err(trouble::refuse(nccl::INVALID_ARGUMENT, "no unique id"));
    }
    // All the ids belong to one rendezvous, and the first one names it.
    // SAFETY: there is at least one.
    let books = begin(unsafe { ids.read_unaligned() }, size, rank, None)?;
    // SAFETY: the caller's promises are NCCL's.
    unsafe { group::make(out, books, None, || real(out, size, rank, id_count, ids, config)) }
}

unsafe fn init_all(out: *mut usize, count: c_int, devices: *const c_int) -> Result<u32, u32> {
    let real = real!("ncclCommInitAll", fn(*mut usize, c_int, *const c_int) -> c_uint)?;
    part::process()?;
    // SAFETY: the caller's promises are NCCL's.
    let code = trouble::theirs(unsafe { real(out, count, devices) })?;
    let mut id = [0; 128];
    dataplane::unique::fill(&mut id).map_err(|error| trouble::refuse(nccl::SYSTEM, &error.to_string()))?;
    for rank in 0..count {
        // SAFETY: the real NCCL took `count` devices and made `count` communicators.
        let (device, handle) = unsafe {
            let device = if devices.is_null() { rank } else { devices.add(rank as usize).read_unaligned() };
            (device, out.add(rank as usize).read_unaligned())
        };
        handles::hold(handle, begin(UniqueId(id), count, rank, Some(device))?);
    }
    Ok(code)
}

unsafe fn split(parent: usize, color: c_int, key: c_int, out: *mut usize, config: *mut c_void) -> Result<u32, u32> {
    let real = real!("ncclCommSplit", fn(usize, c_int, c_int, *mut usize, *mut c_void) -> c_uint)?;
    let books = handles::books(parent)?;
    books.usable()?;
    // NCCL_SPLIT_NOCOLOR is -1.
    let color_or_none = u32::try_from(color).ok();
    let child = books.split(part::process()?, color_or_none, key)?;
    // A rank without a color gets no handle.
    let expects_from = color_or_none.map(|_| books);
    // SAFETY: the caller's promises are NCCL's.
    unsafe { group::make(out, child, expects_from, || real(parent, color, key, out, config)) }
}

unsafe fn destroy(communicator: usize) -> Result<u32, u32> {
    let real = real!("ncclCommDestroy", fn(usize) -> c_uint)?;
    let books = handles::release(communicator);
    // SAFETY: the caller's promises are NCCL's.
    let result = trouble::theirs(unsafe { real(communicator) });
    books.inspect(|books| books.leave());
    result
}

unsafe fn abort(communicator: usize) -> Result<u32, u32> {
    let real = real!("ncclCommAbort", fn(usize) -> c_uint)?;
    handles::release(communicator).inspect(|books| books.abort());
    // SAFETY: the caller's promises are NCCL's.
    trouble::theirs(unsafe { real(communicator) })
}

unsafe fn async_error(communicator: usize, out: *mut c_uint) -> Result<u32, u32> {
    let real = real!("ncclCommGetAsyncError", fn(usize, *mut c_uint) -> c_uint)?;
    // SAFETY: the caller's promises are NCCL's.
    let code = trouble::theirs(unsafe { real(communicator, out) })?;
    let books = handles::books(communicator)?;
    // SAFETY: NCCL wrote there.
    let state = unsafe { out.read_unaligned() };
    if ![nccl::SUCCESS, nccl::IN_PROGRESS].contains(&state) {
        books.real_failed();
    }
    if state != nccl::IN_PROGRESS {
        handles::settled(&books, state != nccl::SUCCESS);
    }
    // Whatever the real NCCL reports after that is a consequence: a peer that gave up.
    if let Some(failure) = books.failure() {
        // If ranks disagree, the real NCCL waits forever; this tells a watchdog.
        // SAFETY: NCCL wrote there.
        unsafe { out.write_unaligned(trouble::keep(&failure)) };
    }
    Ok(code)
}

unsafe fn last_error(communicator: usize) -> *const c_char {
    let ours = std::panic::catch_unwind(trouble::last).ok().flatten();
    if let Some(text) = ours {
        return text.as_ptr();
    }
    match real!("ncclGetLastError", fn(usize) -> *const c_char) {
        // SAFETY: the caller's promises are NCCL's.
        Ok(real) => unsafe { real(communicator) },
        Err(_) => UNKNOWN.as_ptr(),
    }
}

/// Returned if the real NCCL cannot be asked; the reason is on stderr.
const UNKNOWN: &CStr = c"the real NCCL is missing";

unsafe fn error_string(result: c_uint) -> *const c_char {
    match real!("ncclGetErrorString", fn(c_uint) -> *const c_char) {
        // SAFETY: it takes any number.
        Ok(real) => unsafe { real(result) },
        Err(_) => UNKNOWN.as_ptr(),
    }
}
