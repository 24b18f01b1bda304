//! A descriptor that becomes readable when rung, so that a thread polling sockets notices a lost rank.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// An eventfd.
#[derive(Debug)]
pub(crate) struct Wake {
    file: OwnedFd,
}

impl Wake {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no preconditions.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: fresh from the kernel, with no other owner.
        Ok(Self { file: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Makes the descriptor readable.
    pub(crate) fn ring(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: eight readable bytes; a full counter is readable already, so the error is none.
        unsafe { libc::write(self.fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Sleeps until someone rings, or for `time`.
    pub(crate) fn wait(&self, time: Duration) {
        let milliseconds = time.as_micros().div_ceil(1000).try_into().unwrap_or(i32::MAX);
        let mut polled = libc::pollfd { fd: self.fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one live entry.
        unsafe { libc::poll(&raw mut polled, 1, milliseconds) };
    }

    /// Makes the descriptor unreadable again.
    pub(crate) fn clear(&self) {
        let mut counter = [0u8; 8];
        // SAFETY: eight writable bytes; an error means that it was clear.
        unsafe { libc::read(self.fd(), counter.as_mut_ptr().cast(), counter.len()) };
    }
}
