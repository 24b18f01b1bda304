//! This process's part in the run, which begins at the first communicator and ends when the process exits. Also its ranks as the
//! others know them, with what the process's CUDA says about their devices.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use abi::nccl;
use dataplane::lock::{Condvar, Mutex};
use dataplane::process::{Participant, Process};
use dataplane::settings::Settings;
use protocol::ids::SiteId;
use protocol::launcher::Launcher;

use crate::trouble;

/// How long an exit waits for the books of operations that other ranks may still join.
const EXIT_PATIENCE: Duration = Duration::from_secs(5);

static PROCESS: OnceLock<Result<Arc<Process>, String>> = OnceLock::new();

/// This process among the others; connects on the first call.
///
/// # Errors
/// An `ncclResult_t`; the last error says why.
pub(crate) fn process() -> Result<&'static Arc<Process>, u32> {
    let joined = PROCESS.get_or_init(|| {
        let settings = Settings::of_proxy(|name| std::env::var(name).ok()).map_err(|error| error.to_string())?;
        let process = Process::join(settings).map_err(|failure| failure.detail)?;
        // SAFETY: the function lives as long as the library, which is never unloaded.
        unsafe { libc::atexit(goodbye) };
        Ok(process)
    });
    joined.as_ref().map_err(|detail| trouble::refuse(nccl::INVALID_USAGE, detail))
}

extern "C" fn goodbye() {
    let Some(Ok(process)) = PROCESS.get() else { return };
    let deadline = Instant::now() + EXIT_PATIENCE;
    let mut open = OPEN.lock();
    while *open > 0 {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        open = CLOSED.wait_timeout(open, left);
    }
    drop(open);
    process.goodbye();
}

/// Pieces of bookkeeping that are not done yet.
static OPEN: Mutex<u64> = Mutex::new(0);
static CLOSED: Condvar = Condvar::new();

/// A piece of bookkeeping: the exit waits for it until it is dropped.
pub(crate) struct Open(());

impl Open {
    pub(crate) fn begin() -> Self {
        *OPEN.lock() += 1;
        Self(())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        *OPEN.lock() -= 1;
        CLOSED.notify_all();
    }
}

/// The function of that name in any library of the process; the CUDA runtime is the program's.
///
/// # Safety
/// `F` is the type of the function.
unsafe fn of_program<F: Copy>(name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: a lookup by name.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    // SAFETY: not null, and of that type by the caller's promise.
    (!address.is_null()).then(|| unsafe { std::mem::transmute_copy(&address) })
}

/// The device that the calling thread uses, if the process has the CUDA runtime as a library.
fn device() -> Option<c_int> {
    let mut device = -1;
    // SAFETY: the signature is CUDA's; `device` outlives the call.
    let code = unsafe { of_program::<unsafe extern "C" fn(*mut c_int) -> c_int>(c"cudaGetDevice")?(&raw mut device) };
    (code == 0).then_some(device)
}

/// PCI address of `device`, as [`Participant::gpu`].
fn address(device: c_int) -> Option<u64> {
    type Ask = unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int;
    let mut text = [0 as c_char; 32];
    // SAFETY: the signature is CUDA's, which writes no more than the length it is given and ends with NUL.
    let code = unsafe { of_program::<Ask>(c"cudaDeviceGetPCIBusId")?(text.as_mut_ptr(), 32, device) };
    // SAFETY: as above.
    (code == 0).then(|| parse(unsafe { CStr::from_ptr(text.as_ptr()) }.to_str().ok()?)).flatten()
}

/// `0000:3B:00.0`, domain, bus, device and function.
fn parse(text: &str) -> Option<u64> {
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let (front, function) = text.split_once('.')?;
    let mut parts = front.split(':');
    let (domain, bus, device) = (hex(parts.next()?)?, hex(parts.next()?)?, hex(parts.next()?)?);
    Some(domain << 20 | bus << 12 | device << 4 | hex(function)?)
}

/// The rank of the calling thread, which is `rank` in a communicator. `ordinal` is its device if the call names one.
pub(crate) fn participant(rank: u32, ordinal: Option<c_int>) -> Participant {
    static UNKNOWN: AtomicU64 = AtomicU64::new(0);
    let launcher = Launcher::read_or_task(|name| std::env::var(name).ok());
    let device = ordinal.or_else(device).or(launcher.local_rank.map(|rank| rank as c_int)).unwrap_or(0);
    // Two ranks with unknown GPUs must not seem to share one.
    let gpu = address(device)
        .unwrap_or_else(|| u64::MAX - (u64::from(std::process::id()) << 16 | UNKNOWN.fetch_add(1, Ordering::Relaxed)));
    let global_rank = launcher.rank.filter(|_| ordinal.is_none()).map_or(rank, |rank| rank.0);
    // What else the program does in a group, or in other threads, is the real NCCL's matter.
    let is_only = false;
    Participant { global_rank, device: device as u32, gpu, arena: None, site: SiteId::default(), is_only }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_what_nccl_prints() {
        assert_eq!(parse("0000:3B:00.0"), Some(0x3b000));
        assert_eq!(parse("0001:07:1f.2"), Some(0x10_71f2));
        assert_eq!(parse("3B"), None);
    }
}
