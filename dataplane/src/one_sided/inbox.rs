//! What a rank holds for the others' one-sided operations: its windows, the signals it got over sockets, and the threads that
//! take what comes.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use protocol::message::ErrorCode;

use super::link::{DONE, REFUSED, Request};
use crate::mesh::{HEADER, notice};
use crate::send;
use crate::wake::Wake;

/// A rank's inbox.
pub(crate) struct Inbox {
    state: Mutex<State>,
    changed: Condvar,
    /// Rings when a signal came.
    wake: Arc<Wake>,
    /// How long a put may wait for its window.
    timeout: Duration,
}

#[derive(Default)]
struct State {
    registered: u64,
    /// (address, bytes) by number.
    windows: BTreeMap<u64, (usize, u64)>,
    /// Signals by sender.
    received: BTreeMap<u32, u64>,
    /// Why nothing is taken any more, as it is told.
    over: Option<Vec<u8>>,
    /// Connections of the threads, to end them.
    serving: BTreeMap<u64, UnixStream>,
    served: u64,
}

impl Inbox {
    pub(crate) fn new(wake: Arc<Wake>, timeout: Duration) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), changed: Condvar::new(), wake, timeout })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a new window.
    pub(crate) fn register(&self, address: usize, bytes: u64) -> u64 {
        let mut state = self.lock();
        state.registered += 1;
        let number = state.registered;
        state.windows.insert(number, (address, bytes));
        self.changed.notify_all();
        number
    }

    pub(crate) fn deregister(&self, number: u64) {
        self.lock().windows.remove(&number);
    }

    /// Where the `bytes` at `offset` of window `number` lie.
    ///
    /// # Errors
    /// A sentence: there is no such window, or it is too short.
    pub(crate) fn place(&self, number: u64, offset: u64, bytes: u64) -> Result<usize, String> {
        let state = self.lock();
        let (address, length) = state.windows.get(&number).copied().ok_or(format!("there is no window {number}"))?;
        within(offset, bytes, length)?;
        Ok(address + offset as usize)
    }

    /// Signals from `from` so far, over sockets.
    pub(crate) fn received(&self, from: u32) -> u64 {
        self.lock().received.get(&from).copied().unwrap_or(0)
    }

    /// One more signal from `from`.
    pub(crate) fn signal(&self, from: u32) {
        *self.lock().received.entry(from).or_default() += 1;
        self.wake.ring();
    }

    /// Takes nothing any more and tells those who come why.
    pub(crate) fn close(&self, code: ErrorCode, detail: &str) {
        let told = notice(code, detail);
        let mut state = self.lock();
        if state.over.is_some() {
            return;
        }
        for connection in state.serving.values() {
            send::last_words(connection, &told);
            let _ = connection.shutdown(Shutdown::Both);
        }
        state.over = Some(told);
        self.changed.notify_all();
    }

    /// Takes what rank `from` sends until it hangs up or the inbox closes. For a thread of its own.
    pub(crate) fn serve(&self, stream: OwnedFd, from: u32) {
        // Either kind of socket reads and writes like this one.
        let mut stream = UnixStream::from(stream);
        let Ok(twin) = stream.try_clone() else { return };
        let number = {
            let mut state = self.lock();
            if let Some(told) = &state.over {
                send::last_words(&stream, told);
                return;
            }
            state.served += 1;
            let number = state.served;
            state.serving.insert(number, twin);
            number
        };
        while self.take(&mut stream, from).is_ok() {}
        self.lock().serving.remove(&number);
        let _ = stream.shutdown(Shutdown::Both);
    }

    fn take(&self, stream: &mut UnixStream, from: u32) -> io::Result<()> {
        let mut bytes = [0; Request::BYTES];
        stream.read_exact(&mut bytes)?;
        let request = Request::from_bytes(&bytes).ok_or(io::ErrorKind::InvalidData)?;
        if let Some(window) = request.window {
            match self.awaited(window, request.offset, request.bytes) {
                Ok(address) => read_to(stream, address, request.bytes)?,
                Err((code, detail)) => {
                    // Its sender hears of it only when it got rid of the rest.
                    io::copy(&mut (&mut *stream).take(request.bytes), &mut io::sink())?;
                    let mut refusal = notice(code, &detail);
                    refusal[..4].copy_from_slice(&REFUSED.to_le_bytes());
                    stream.write_all(&refusal)?;
                    return Err(io::ErrorKind::InvalidInput.into());
                }
            }
        }
        self.signal(from);
        let mut answer = [0; HEADER];
        answer[..4].copy_from_slice(&DONE.to_le_bytes());
        stream.write_all(&answer)
    }

    /// As [`Self::place`], when the window is registered.
    fn awaited(&self, number: u64, offset: u64, bytes: u64) -> Result<usize, (ErrorCode, String)> {
        let deadline = Instant::now() + self.timeout;
        let mut state = self.lock();
        while number > state.registered && state.over.is_none() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let detail = format!("window {number} was not registered within {} ms", self.timeout.as_millis());
                return Err((ErrorCode::TimeoutWaitingForP2p, detail));
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        self.place(number, offset, bytes).map_err(|detail| (ErrorCode::InvalidArgument, detail))
    }
}

/// Checks that a range lies in a window of `length` bytes.
pub(super) fn within(offset: u64, bytes: u64, length: u64) -> Result<(), String> {
    match offset.checked_add(bytes) {
        Some(end) if end <= length => Ok(()),
        _ => Err(format!("{bytes} bytes at {offset} leave the window of {length} bytes")),
    }
}

fn read_to(stream: &mut UnixStream, address: usize, bytes: u64) -> io::Result<()> {
    let mut position = 0;
    while position < bytes as usize {
        let target = (address + position) as *mut libc::c_void;
        // SAFETY: the range is in a registered window, which the program keeps alive; `recv` writes no more than it is told.
        let got = unsafe { libc::recv(stream.as_raw_fd(), target, bytes as usize - position, 0) };
        match got {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            got if got > 0 => position += got as usize,
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::send::tests::raises_sigpipe;

    #[test]
    fn who_hung_up_before_the_answer_does_no_harm() {
        let inbox = Inbox::new(Arc::new(Wake::new().unwrap()), Duration::from_secs(10));
        inbox.register(0x1000, 0);
        let signal = Request { window: None, offset: 0, bytes: 0 };
        let beyond = Request { window: Some(1), offset: 8, bytes: 0 };
        let serve = |request: Request| {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            theirs.write_all(&request.to_bytes()).unwrap();
            drop(theirs);
            raises_sigpipe(|| inbox.serve(ours.into(), 3))
        };
        assert!(!serve(signal), "the answer that it is done");
        assert_eq!(inbox.received(3), 1);
        assert!(!serve(beyond), "the refusal");
        inbox.close(ErrorCode::Aborted, "over");
        assert!(!serve(signal), "the reason why nothing is taken any more");
        assert_eq!(inbox.received(3), 1);
    }
}
