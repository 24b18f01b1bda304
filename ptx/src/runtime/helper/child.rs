//! Calls of device code to the device runtime: kernel launches, copies, streams, memory, errors, graph conditions.

use super::thread::resolve_any;
use crate::host::memory_ops::{Access, AddressSpace};
use crate::host::{Caller, Child, Host};
use crate::runtime::state::{Context, Warp};

/// `cudaErrorInvalidValue`, `cudaErrorMemoryAllocation`
const INVALID_VALUE: u32 = 1;
const OUT_OF_MEMORY: u32 = 2;

fn host(context: &Context) -> &dyn Host {
    // SAFETY: the launch holds the host's side as long as it runs.
    unsafe { &*context.host }
}

/// The calling thread.
fn caller(context: &Context, warp: &Warp) -> Caller {
    // SAFETY: `warp` is the warp that runs; its table has 32 lanes for each axis.
    let thread = [0, 1, 2].map(|axis| unsafe { *warp.threads.add(axis * 32 + context.lane as usize) });
    let block @ [x, y, z] = [context.ctaid[0], context.ctaid[1], context.ctaid[2]];
    let [width, height] = [context.nctaid[0], context.nctaid[1]].map(u64::from);
    Caller { block, thread, number: u64::from(x) + width * (u64::from(y) + height * u64::from(z)) }
}

fn words(context: &Context, from: usize) -> [u32; 3] {
    [0, 1, 2].map(|at| context.args[from + at] as u32)
}

/// Writes eight bytes where device code wants them; false, with the trap set, if it may not write there.
fn give(context: &mut Context, address: u64, value: u64) -> bool {
    let Some(place) = resolve_any(context, address, 8, 8, AddressSpace::Generic, Access::Write) else { return false };
    // SAFETY: resolved for eight bytes.
    unsafe { place.cast::<u64>().write(value) };
    true
}

pub(super) extern "C" fn parameters(context: &mut Context, _warp: &mut Warp, _mode: u64) {
    let child = Child {
        function: context.args[0] as u64,
        grid: words(context, 1),
        block: words(context, 4),
        shared_bytes: context.args[7] as u32,
    };
    context.result = u128::from(host(context).parameters(&child));
}

pub(super) extern "C" fn launch(context: &mut Context, warp: &mut Warp, _mode: u64) {
    let (parameters, stream) = (context.args[0] as u64, context.args[1] as u64);
    context.result = u128::from(host(context).launch(&caller(context, warp), parameters, stream));
}

pub(super) extern "C" fn copy(context: &mut Context, warp: &mut Warp, _mode: u64) {
    let [to, source, bytes, _kind, stream] = [0, 1, 2, 3, 4].map(|at| context.args[at] as u64);
    context.result = u128::from(host(context).copy(&caller(context, warp), to, source, bytes, stream));
}

pub(super) extern "C" fn stream(context: &mut Context, warp: &mut Warp, _mode: u64) {
    context.warp = warp;
    let (out, flags) = (context.args[0] as u64, context.args[1] as u32);
    // The device runtime only has streams that do not synchronize with the block's own.
    const NON_BLOCKING: u32 = 1;
    if flags != NON_BLOCKING {
        context.result = u128::from(INVALID_VALUE);
        return;
    }
    let stream = host(context).stream();
    if give(context, out, stream) {
        context.result = 0;
    }
}

/// Destroys a stream; the kernels that were launched in it still run.
pub(super) extern "C" fn end_stream(context: &mut Context, _warp: &mut Warp, _mode: u64) {
    context.result = 0;
}

pub(super) extern "C" fn malloc(context: &mut Context, warp: &mut Warp, _mode: u64) {
    context.warp = warp;
    let (out, bytes) = (context.args[0] as u64, context.args[1] as u64);
    let address = host(context).malloc(bytes);
    if give(context, out, address) {
        context.result = u128::from(if address == 0 { OUT_OF_MEMORY } else { 0 });
    }
}

pub(super) extern "C" fn free(context: &mut Context, _warp: &mut Warp, _mode: u64) {
    let address = context.args[0] as u64;
    if address != 0 {
        host(context).free(address);
    }
    context.result = 0;
}

pub(super) extern "C" fn error(context: &mut Context, warp: &mut Warp, _mode: u64) {
    context.result = u128::from(host(context).last_error(&caller(context, warp), true));
}

pub(super) extern "C" fn peek_error(context: &mut Context, warp: &mut Warp, _mode: u64) {
    context.result = u128::from(host(context).last_error(&caller(context, warp), false));
}

pub(super) extern "C" fn error_text(context: &mut Context, _warp: &mut Warp, _mode: u64) {
    context.result = u128::from(host(context).error_text(context.args[0] as u32));
}

pub(super) extern "C" fn set_conditional(context: &mut Context, _warp: &mut Warp, _mode: u64) {
    host(context).set_conditional(context.args[0] as u64, context.args[1] as u32);
}
