//! Calls on a connection that neither wait nor raise SIGPIPE: this code runs inside other people's programs, which may not ignore
//! that signal as Rust programs do.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// Sends `bytes` on a socket without waiting.
///
/// # Errors
/// The socket's errors; `WouldBlock` even if it took a part.
pub(crate) fn at_once(socket: impl AsFd, bytes: &[u8]) -> io::Result<()> {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: the bytes are live for the given length, and the descriptor is open.
    let sent = unsafe { libc::send(socket.as_fd().as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
    match usize::try_from(sent) {
        Ok(sent) if sent == bytes.len() => Ok(()),
        Ok(_) => Err(io::ErrorKind::WouldBlock.into()),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// What a nonblocking call did: `None` if it would have to wait.
pub(crate) fn progress(result: isize) -> io::Result<Option<usize>> {
    if result >= 0 {
        return Ok(Some(result as usize));
    }
    let error = io::Error::last_os_error();
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
        _ => Err(error),
    }
}

/// Makes calls on a connection return instead of waiting.
pub(crate) fn set_nonblocking(stream: &OwnedFd) -> io::Result<()> {
    // SAFETY: plain system calls on a descriptor we own.
    let result = unsafe {
        let flags = libc::fcntl(stream.as_raw_fd(), libc::F_GETFL);
        libc::fcntl(stream.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Whether `body` raises SIGPIPE in this thread.
    pub(crate) fn raises_sigpipe(body: impl FnOnce()) -> bool {
        // SAFETY: the sets are initialized by the calls before they are read. A blocked signal stays pending even where it
        // is ignored; it is taken before the mask is put back.
        unsafe {
            let (mut pipe, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigemptyset(&mut pipe);
            libc::sigaddset(&mut pipe, libc::SIGPIPE);
            libc::pthread_sigmask(libc::SIG_BLOCK, &pipe, &mut before);
            body();
            let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            let raised = libc::sigtimedwait(&pipe, std::ptr::null_mut(), &now) == libc::SIGPIPE;
            libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
            raised
        }
    }

    #[test]
    fn what_is_said_at_once_arrives_or_does_no_harm() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        at_once(&ours, b"gone").unwrap();
        let mut received = [0; 4];
        theirs.read_exact(&mut received).unwrap();
        assert_eq!(&received, b"gone");
        drop(theirs);
        assert!(!raises_sigpipe(|| drop(at_once(&ours, b"gone").unwrap_err())));
        let mut file = File::from(OwnedFd::from(ours));
        assert!(raises_sigpipe(|| drop(file.write_all(b"gone").unwrap_err())), "what a file's write does");
    }
}
