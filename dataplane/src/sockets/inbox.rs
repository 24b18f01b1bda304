//! What a rank keeps for the others' one-sided operations: its windows, the signals it got over sockets, and the threads that
//! take what comes.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use protocol::record::ErrorCode;

use super::channel::Channel;
use super::request::{DONE, REFUSED, Request};
use super::wire::{HEADER, notice};
use crate::lock::{Condvar, Mutex};
use crate::operation::one_sided::within;
use crate::wake::Wake;

/// A rank's inbox.
pub(crate) struct Inbox {
    state: Mutex<State>,
    changed: Condvar,
    /// Rings when a signal has come.
    wake: Arc<Wake>,
    /// How long a put may wait for its window.
    timeout: Duration,
}

#[derive(Default)]
struct State {
    registered: u64,
    /// (address, bytes) by window number.
    windows: BTreeMap<u64, (usize, u64)>,
    /// Signals by sender.
    received: BTreeMap<u32, u64>,
    /// Why nothing is taken any more, in the form in which it is sent.
    over: Option<Vec<u8>>,
    /// The threads' connections, to end them.
    serving: BTreeMap<u64, Arc<Channel>>,
    served: u64,
    /// The window that a thread writes into, by the number of its connection.
    writing: BTreeMap<u64, u64>,
}

impl Inbox {
    pub(crate) fn new(wake: Arc<Wake>, timeout: Duration) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), changed: Condvar::new(), wake, timeout })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
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

    /// Forgets a window. Writes in progress end, and their senders get the reason. When this returns, the memory is the program's
    /// again.
    pub(crate) fn deregister(&self, number: u64) {
        let mut state = self.lock();
        state.windows.remove(&number);
        let detail = format!("window {number} was deregistered while bytes for it were on their way");
        let notice_bytes = refusal(ErrorCode::InvalidArgument, &detail);
        for (writer, _) in state.writing.iter().filter(|(_, window)| **window == number) {
            if let Some(connection) = state.serving.get(writer) {
                hang_up(connection, &notice_bytes);
            }
        }
        self.written(state, |window| window == number);
    }

    /// Waits until no thread is writing into `windows`. Connections that were shut down let go at once.
    fn written(&self, state: MutexGuard<'_, State>, windows: impl Fn(u64) -> bool) {
        let busy = |state: &mut State| state.writing.values().any(|window| windows(*window));
        drop(self.changed.wait_while(state, busy));
    }

    /// The address of the `bytes` at `offset` in window `number`.
    ///
    /// # Errors
    /// One sentence, if the window does not exist or is too short.
    pub(crate) fn place(&self, number: u64, offset: u64, bytes: u64) -> Result<usize, String> {
        self.lock().place(number, offset, bytes)
    }

    /// Signals from `from` so far, over sockets.
    pub(crate) fn received(&self, from: u32) -> u64 {
        self.lock().received.get(&from).copied().unwrap_or(0)
    }

    /// One more signal from this rank itself.
    pub(crate) fn signal(&self, from: u32) {
        *self.lock().received.entry(from).or_default() += 1;
        self.wake.ring();
    }

    /// Takes nothing more and sends later connections the reason. When this returns, nobody is writing into a window.
    pub(crate) fn close(&self, code: ErrorCode, detail: &str) {
        let notice_bytes = notice(code, detail);
        let mut state = self.lock();
        if state.over.is_some() {
            return;
        }
        state.serving.values().for_each(|connection| hang_up(connection, &notice_bytes));
        state.over = Some(notice_bytes);
        self.changed.notify_all();
        self.written(state, |_| true);
    }

    /// Takes what rank `from` sends until it hangs up or the inbox closes. Needs a separate thread.
    pub(crate) fn serve(&self, stream: Channel, from: u32) {
        let stream = Arc::new(stream);
        let number = {
            let mut state = self.lock();
            if let Some(notice_bytes) = &state.over {
                stream.last_words(notice_bytes);
                return;
            }
            state.served += 1;
            let number = state.served;
            state.serving.insert(number, Arc::clone(&stream));
            number
        };
        while self.take(&stream, number, from).is_ok() {}
        self.lock().serving.remove(&number);
        stream.shut_down();
    }

    fn take(&self, stream: &Channel, number: u64, from: u32) -> io::Result<()> {
        let mut bytes = [0; Request::BYTES];
        // SAFETY: the array has the given length.
        unsafe { stream.receive_all(bytes.as_mut_ptr(), bytes.len()) }?;
        let request = Request::from_bytes(&bytes).ok_or(io::ErrorKind::InvalidData)?;
        if let Some(window) = request.window {
            match self.awaited(number, window, request.offset, request.bytes) {
                Ok(address) => {
                    // SAFETY: the range is in a registered window, which the program keeps alive. Before a window is given up, we
                    // wait until nobody is writing into it.
                    let read = unsafe { stream.receive_all(address as *mut u8, request.bytes as usize) };
                    self.lock().writing.remove(&number);
                    self.changed.notify_all();
                    read?;
                }
                Err((code, detail)) => {
                    // Its sender reads the answer only after it has sent the rest.
                    ignore(stream, request.bytes)?;
                    stream.send_all(&refusal(code, &detail))?;
                    return Err(io::ErrorKind::InvalidInput.into());
                }
            }
        }
        self.acknowledge(stream, from)
    }

    /// Counts one more signal from `from` and confirms it unless `from` is gone. Both happen in one step, before anything that a
    /// rank sends when it leaves because it has all its signals.
    fn acknowledge(&self, stream: &Channel, from: u32) -> io::Result<()> {
        let mut answer = [0; HEADER];
        answer[..4].copy_from_slice(&DONE.to_le_bytes());
        let mut state = self.lock();
        if state.over.is_some() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let received = stream.at_once(&answer);
        // A sender reads each answer before its next request, so there is room.
        if received.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            return received;
        }
        *state.received.entry(from).or_default() += 1;
        drop(state);
        self.wake.ring();
        received
    }

    /// As [`Self::place`], but waits until the window is registered. Connection `number` writes into it from then on.
    fn awaited(&self, number: u64, window: u64, offset: u64, bytes: u64) -> Result<usize, (ErrorCode, String)> {
        let deadline = Instant::now() + self.timeout;
        let mut state = self.lock();
        while window > state.registered && state.over.is_none() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let detail = format!("window {window} was not registered within {} ms", self.timeout.as_millis());
                return Err((ErrorCode::TimeoutWaitingForP2p, detail));
            }
            state = self.changed.wait_timeout(state, left);
        }
        if state.over.is_some() {
            return Err((ErrorCode::RankLost, "its rank no longer accepts data".to_owned()));
        }
        let address = state.place(window, offset, bytes).map_err(|detail| (ErrorCode::InvalidArgument, detail))?;
        state.writing.insert(number, window);
        Ok(address)
    }
}

impl State {
    /// See [`Inbox::place`].
    fn place(&self, window: u64, offset: u64, bytes: u64) -> Result<usize, String> {
        let (address, length) = self.windows.get(&window).copied().ok_or(format!("window {window} does not exist"))?;
        within(offset, bytes, length)?;
        Ok(address + offset as usize)
    }
}

/// Why a request cannot be done, in the form in which it is sent.
fn refusal(code: ErrorCode, detail: &str) -> Vec<u8> {
    let mut refusal = notice(code, detail);
    refusal[..4].copy_from_slice(&REFUSED.to_le_bytes());
    refusal
}

fn hang_up(connection: &Channel, notice_bytes: &[u8]) {
    connection.last_words(notice_bytes);
    connection.shut_down();
}

/// Reads and discards `bytes` that nobody wants.
fn ignore(stream: &Channel, bytes: u64) -> io::Result<()> {
    let mut room = vec![0; 64 << 10];
    let mut left = bytes;
    while left > 0 {
        let next = left.min(room.len() as u64);
        // SAFETY: within the buffer.
        unsafe { stream.receive_all(room.as_mut_ptr(), next as usize) }?;
        left -= next;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::sockets::socket::tests::raises_sigpipe;

    fn channel(stream: UnixStream) -> Channel {
        Channel::plain(stream.into()).unwrap()
    }

    #[test]
    fn a_client_that_hung_up_before_the_answer_does_no_harm() {
        let inbox = Inbox::new(Arc::new(Wake::new().unwrap()), Duration::from_secs(10));
        inbox.register(0x1000, 0);
        let signal = Request { window: None, offset: 0, bytes: 0 };
        let beyond = Request { window: Some(1), offset: 8, bytes: 0 };
        let serve = |request: Request| {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            theirs.write_all(&request.to_bytes()).unwrap();
            drop(theirs);
            raises_sigpipe(|| inbox.serve(channel(ours), 3))
        };
        assert!(!serve(signal), "the answer that it is done");
        assert_eq!(inbox.received(3), 1);
        assert!(!serve(beyond), "the refusal");
        inbox.close(ErrorCode::Aborted, "over");
        assert!(!serve(signal), "the reason why nothing is taken any more");
        assert_eq!(inbox.received(3), 1);
    }

    /// How often `tag` occurs in what the other end of a connection has received.
    fn answers(stream: &mut UnixStream) -> usize {
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        received.windows(4).filter(|four| *four == DONE.to_le_bytes()).count()
    }

    /// Whoever waits for a signal may leave as soon as it is counted, and its sender must still get the confirmation.
    #[test]
    fn a_signal_counts_only_if_its_sender_hears_of_it() {
        for deaf in [false, true] {
            let inbox = Inbox::new(Arc::new(Wake::new().unwrap()), Duration::from_secs(10));
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            if deaf {
                // An answer cannot be written: there is no room for it.
                ours.set_nonblocking(true).unwrap();
                while (&ours).write(&[0; 4096]).is_ok() {}
                ours.set_nonblocking(false).unwrap();
            }
            theirs.write_all(&Request { window: None, offset: 0, bytes: 0 }.to_bytes()).unwrap();
            std::thread::scope(|scope| {
                let serving = scope.spawn(|| inbox.serve(channel(ours), 3));
                inbox.wake.wait(Duration::from_millis(if deaf { 300 } else { 10_000 }));
                inbox.close(ErrorCode::RankLost, "rank 0 left the communicator");
                serving.join().unwrap();
            });
            assert_eq!(inbox.received(3), answers(&mut theirs) as u64, "no room for an answer: {deaf}");
        }
    }

    /// A program may use the memory of a window for something else once it has deregistered it.
    #[test]
    fn nobody_writes_into_a_window_that_is_deregistered() {
        const BYTES: usize = 1 << 20;
        let inbox = Inbox::new(Arc::new(Wake::new().unwrap()), Duration::from_secs(10));
        let mut memory = vec![0u8; BYTES];
        let window = inbox.register(memory.as_mut_ptr() as usize, BYTES as u64);
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        std::thread::scope(|scope| {
            let serving = scope.spawn(|| inbox.serve(channel(ours), 3));
            let put = Request { window: Some(window), offset: 0, bytes: BYTES as u64 };
            theirs.write_all(&put.to_bytes()).unwrap();
            theirs.write_all(&vec![1; BYTES / 2]).unwrap();
            inbox.deregister(window);
            memory.fill(7);
            // Nobody takes it any more.
            let _ = theirs.write_all(&vec![1; BYTES / 2]);
            let _ = theirs.shutdown(Shutdown::Write);
            serving.join().unwrap();
        });
        assert!(memory.iter().all(|byte| *byte == 7), "the rest of the put came");
        let mut notice_bytes = Vec::new();
        let _ = theirs.read_to_end(&mut notice_bytes);
        assert!(notice_bytes.starts_with(&REFUSED.to_le_bytes()), "{}", String::from_utf8_lossy(&notice_bytes));
        assert_eq!(inbox.received(3), 0);
    }
}
