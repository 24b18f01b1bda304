//! Kernel output: kept until the host synchronizes, then written to the program's own stdout, as on a GPU (CUDA C++ Programming
//! Guide, "Formatted Output"). Failed assertions go to stderr in the same way.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

use dataplane::lock::Mutex;

/// One device's buffer.
#[derive(Debug, Default)]
pub(crate) struct Output {
    is_waiting: AtomicBool,
    text: Mutex<Text>,
}

#[derive(Debug, Default)]
struct Text {
    printed: Vec<u8>,
    asserted: Vec<u8>,
}

unsafe extern "C" {
    /// The program's own buffer, so that its own output stays in order.
    static stdout: *mut libc::FILE;
}

impl Output {
    /// `printf` of a kernel.
    pub(crate) fn print(&self, text: &[u8]) {
        self.text.lock().printed.extend_from_slice(text);
        self.is_waiting.store(true, Ordering::Release);
    }

    /// The line of a failed assertion.
    pub(crate) fn assert(&self, line: &str) {
        self.text.lock().asserted.extend_from_slice(line.as_bytes());
        self.is_waiting.store(true, Ordering::Release);
    }

    /// Writes the pending output, after the host synchronized.
    pub(crate) fn flush(&self) {
        if !self.is_waiting.load(Ordering::Acquire) || !self.is_waiting.swap(false, Ordering::AcqRel) {
            return;
        }
        // Written under the lock: two threads that synchronize must not change the order.
        let mut text = self.text.lock();
        let (printed, asserted) = (std::mem::take(&mut text.printed), std::mem::take(&mut text.asserted));
        if !printed.is_empty() {
            // SAFETY: libc's stream, and bytes of ours.
            unsafe { libc::fwrite(printed.as_ptr().cast(), 1, printed.len(), stdout) };
        }
        if !asserted.is_empty() {
            let _ = std::io::stderr().write_all(&asserted);
        }
    }
}
