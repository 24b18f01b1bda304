//! What `libfakegpu_cuda.so` calls in mode `hybrid` (`protocol::hybrid`): it opens this library for its NVML alone.

use protocol::hybrid::Facts;

use crate::device::state::neighbors;
use crate::settings::{self, hybrid};

/// Called before any other function of this library.
///
/// # Safety
/// `facts` can be read; its functions may be called from any thread, as long as the process lives.
#[unsafe(no_mangle)]
unsafe extern "C" fn ftest_hybrid_nvml(facts: *const Facts) {
    // SAFETY: promised by the caller.
    hybrid::start(unsafe { *facts });
}

/// This process now holds `bytes` of the GPU with that index in the machine.
#[unsafe(no_mangle)]
extern "C" fn ftest_hybrid_hold(index: u32, bytes: u64) {
    let _ = std::panic::catch_unwind(|| {
        if let Some(gpu) = settings::get().ok().and_then(|settings| settings.gpus.get(index as usize)) {
            neighbors::hold(gpu, bytes);
        }
    });
}
