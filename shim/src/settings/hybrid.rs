//! Mode `hybrid`: this library's NVML shows the GPUs that the program sees by the real CUDA. `libfakegpu_cuda.so` opens this
//! library for it alone, and gives it what it needs to know.

use std::ffi::{CStr, CString};
use std::sync::OnceLock;

use protocol::hybrid::Facts;

static FACTS: OnceLock<Facts> = OnceLock::new();

/// What the library in front of the real libcuda knows; `None` where the GPUs are simulated.
pub(crate) fn facts() -> Option<&'static Facts> {
    FACTS.get()
}

/// The value of an environment variable.
pub(crate) fn variable(name: &str) -> Option<String> {
    let Some(facts) = facts() else { return std::env::var(name).ok() };
    let name = CString::new(name).ok()?;
    // SAFETY: a C string, which lives for the call.
    let value = unsafe { (facts.variable)(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: the environment of the first call is kept as C strings as long as the process lives.
    Some(unsafe { CStr::from_ptr(value) }.to_str().ok()?.to_owned())
}

/// Takes them, once.
pub(crate) fn start(facts: Facts) {
    let _ = FACTS.set(facts);
}
