//! Contexts: the calling thread's, a device's primary context, and which devices may access each other.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use abi::cuda::{CudaError, CudaResult};
use abi::handle::Handles;

use super::device::{self, Device, all, make_current};

static WATCH: OnceLock<fn(usize, bool)> = OnceLock::new();

/// From now on, `told` gets the handle of each context that is made, with true, and of each that ends, with false.
pub(crate) fn watch(told: fn(usize, bool)) {
    let _ = WATCH.set(told);
}

fn tell(handle: impl FnOnce() -> usize, is_new: bool) {
    if let Some(told) = WATCH.get() {
        told(handle(), is_new);
    }
}

/// Makes the device's primary context, which the runtime keeps.
pub(crate) fn activate_primary(device: &Device) {
    let is_new = !device.primary.is_active();
    if device.primary.activate() {
        device.share.publish(device.taken());
        if is_new {
            tell(|| primary_of(device), true);
        }
    }
}

/// One more user of the device's primary context.
pub(crate) fn retain_primary(device: &Device) {
    let is_new = !device.primary.is_active();
    if device.primary.retain() {
        device.share.publish(device.taken());
        if is_new {
            tell(|| primary_of(device), true);
        }
    }
}

/// One user less.
///
/// # Errors
/// `INVALID_CONTEXT` if it is not retained.
pub(crate) fn release_primary(device: &Device) -> CudaResult {
    device.primary.release()?;
    if !device.primary.is_active() {
        tell(|| primary_of(device), false);
        device.share.withdraw();
    }
    Ok(())
}

/// As after `cudaDeviceReset`.
pub(crate) fn reset_primary(device: &Device) {
    let was_active = device.primary.is_active();
    device.primary.deactivate();
    if !device.primary.is_active() {
        if was_active {
            tell(|| primary_of(device), false);
        }
        device.share.withdraw();
    }
}

/// Lets the device access `peer`.
///
/// # Errors
/// `INVALID_DEVICE` for the device itself, `PEER_ACCESS_ALREADY_ENABLED`, `PEER_ACCESS_UNSUPPORTED`.
pub(crate) fn enable_peer(device: &Device, peer: &Device) -> CudaResult {
    if device.ordinal == peer.ordinal {
        return Err(CudaError::INVALID_DEVICE);
    }
    if !can_reach(device, peer) {
        return Err(CudaError::PEER_ACCESS_UNSUPPORTED);
    }
    device.peers.enable(peer.ordinal)
}

/// True if one device can read another's memory: two devices of one node.
pub(crate) fn can_reach(device: &Device, peer: &Device) -> bool {
    device.ordinal != peer.ordinal && device.gpu.node == peer.gpu.node
}

/// A driver context.
#[derive(Debug)]
pub(crate) struct Context {
    /// Its device.
    pub(crate) device: u32,
    /// Whether it is the primary context, which the runtime uses.
    pub(crate) is_primary: bool,
}

static CONTEXTS: Handles<Context> = Handles::new(3);

thread_local! {
    // Never dropped: exit handlers of the program still call in after a thread's values were destroyed.
    static STACK: RefCell<ManuallyDrop<Vec<usize>>> = const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

/// Handle of the device's primary context.
pub(crate) fn primary_of(device: &Device) -> usize {
    static PRIMARY: OnceLock<Vec<usize>> = OnceLock::new();
    let handles = PRIMARY.get_or_init(|| {
        let context = |device: &Device| Arc::new(Context { device: device.ordinal, is_primary: true });
        all().iter().map(|device| CONTEXTS.insert(context(device))).collect()
    });
    handles[device.ordinal as usize]
}

/// The context behind a handle.
///
/// # Errors
/// `INVALID_CONTEXT`.
pub(crate) fn resolve(handle: usize) -> CudaResult<Arc<Context>> {
    CONTEXTS.get(handle).ok_or(CudaError::INVALID_CONTEXT)
}

/// `CU_CTX_FLAGS_MASK`: how the host waits (three bits, one at a time), mapped host memory, local memory, core dumps, memory
/// operations that wait.
const FLAGS: u32 = 0xff;

/// Whether a context can be made with these flags (CUDA Driver API, `CUctx_flags`).
///
/// # Errors
/// `INVALID_VALUE` for unknown flags and for two ways of waiting.
pub(crate) fn check_flags(flags: u32) -> CudaResult {
    if flags & !FLAGS != 0 || (flags & 7).count_ones() > 1 { Err(CudaError::INVALID_VALUE) } else { Ok(()) }
}

/// Creates a separate context on `device`, current in the calling thread.
pub(crate) fn create(device: &Device) -> usize {
    let handle = CONTEXTS.insert(Arc::new(Context { device: device.ordinal, is_primary: false }));
    STACK.with_borrow_mut(|stack| stack.push(handle));
    make_current(device);
    tell(|| handle, true);
    handle
}

/// Ends a context made by [`create`].
///
/// # Errors
/// `INVALID_CONTEXT`, including for a primary context.
pub(crate) fn destroy(handle: usize) -> CudaResult {
    if resolve(handle)?.is_primary {
        return Err(CudaError::INVALID_CONTEXT);
    }
    tell(|| handle, false);
    CONTEXTS.remove(handle);
    STACK.with_borrow_mut(|stack| stack.retain(|known| *known != handle));
    follow();
    Ok(())
}

/// The calling thread's context; 0 for none.
pub(crate) fn current() -> usize {
    STACK.with_borrow(|stack| stack.last().copied().unwrap_or(0))
}

/// Replaces the calling thread's context; 0 removes it.
///
/// # Errors
/// `INVALID_CONTEXT`.
pub(crate) fn set_current(handle: usize) -> CudaResult {
    if handle != 0 {
        resolve(handle)?;
    }
    STACK.with_borrow_mut(|stack| {
        stack.pop();
        if handle != 0 {
            stack.push(handle);
        }
    });
    follow();
    Ok(())
}

/// Puts a context on the calling thread's stack.
///
/// # Errors
/// `INVALID_CONTEXT`.
pub(crate) fn push(handle: usize) -> CudaResult {
    resolve(handle)?;
    STACK.with_borrow_mut(|stack| stack.push(handle));
    follow();
    Ok(())
}

/// Takes the top context off the calling thread's stack.
///
/// # Errors
/// `INVALID_CONTEXT` if there is none.
pub(crate) fn pop() -> CudaResult<usize> {
    let handle = STACK.with_borrow_mut(|stack| stack.pop()).ok_or(CudaError::INVALID_CONTEXT)?;
    follow();
    Ok(handle)
}

/// The current device is that of the top context.
fn follow() {
    if let Ok(context) = resolve(current()) {
        make_current(&all()[context.device as usize]);
    }
}

static INITIALIZED: AtomicBool = AtomicBool::new(false);

/// From now on, the driver's calls work (`cuInit`; the runtime's first call).
pub(crate) fn initialize() {
    // Looked at first: a store by every call would be felt by all threads.
    if !is_initialized() {
        INITIALIZED.store(true, Ordering::Relaxed);
    }
}

/// Whether they are.
pub(crate) fn is_initialized() -> bool {
    INITIALIZED.load(Ordering::Relaxed)
}

/// What the runtime does before its work: takes the current device, and makes its primary context exist and be current.
///
/// # Errors
/// `NO_DEVICE`.
pub(crate) fn enter() -> CudaResult<&'static Device> {
    let device = device::current()?;
    activate_primary(device);
    if current() == 0 {
        STACK.with_borrow_mut(|stack| stack.push(primary_of(device)));
    }
    crate::report::used();
    Ok(device)
}

/// The driver's functions need a current context.
///
/// # Errors
/// `INVALID_CONTEXT`.
pub(crate) fn required() -> CudaResult<&'static Device> {
    let context = resolve(current())?;
    let device = &all()[context.device as usize];
    if context.is_primary && !device.primary.is_active() {
        return Err(CudaError::INVALID_CONTEXT);
    }
    crate::report::used();
    Ok(device)
}

/// `cudaSetDevice`: the device's primary context replaces the current one.
pub(crate) fn select(device: &'static Device) {
    make_current(device);
    activate_primary(device);
    let primary = primary_of(device);
    STACK.with_borrow_mut(|stack| {
        stack.pop();
        stack.push(primary);
    });
}
