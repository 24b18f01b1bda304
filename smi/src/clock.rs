//! Local time, as nvidia-smi prints it.
#![expect(unsafe_code, reason = "libc knows the time zone")]

use std::time::{SystemTime, UNIX_EPOCH};

/// The current time in a format of strftime(3).
fn format(format: &std::ffi::CStr) -> String {
    let mut buffer = [0u8; 64];
    // SAFETY: all structures outlive the calls, and strftime writes at most the given length.
    let length = unsafe {
        let now = libc::time(std::ptr::null_mut());
        let mut broken: libc::tm = std::mem::zeroed();
        libc::localtime_r(&raw const now, &raw mut broken);
        libc::strftime(buffer.as_mut_ptr().cast(), buffer.len(), format.as_ptr(), &raw const broken)
    };
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

/// "Mon Jun 22 04:00:43 2026"
pub(crate) fn long() -> String {
    format(c"%a %b %e %H:%M:%S %Y")
}

/// "2026/06/22 04:00:43.123"
pub(crate) fn short() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}.{:03}", format(c"%Y/%m/%d %H:%M:%S"), since.subsec_millis())
}

/// Date and time in separate columns: "20260622", "04:00:43".
pub(crate) fn columns() -> [String; 2] {
    [format(c"%Y%m%d"), format(c"%H:%M:%S")]
}
