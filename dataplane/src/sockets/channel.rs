//! A data connection between two ranks: a plain socket, or TLS over it. Calls do not wait unless they say so, and may come from
//! several threads.

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustls::Connection;

use super::socket::{self, progress, set_nonblocking};
use crate::lock::Mutex;

/// At most this much encrypted data waits for room in the socket, bytes.
const BUFFER: usize = 256 << 10;

/// A connection whose hello was sent.
pub(crate) struct Channel {
    socket: OwnedFd,
    tls: Option<Mutex<Connection>>,
}

/// A part of the data to send: its address and its length in bytes.
pub(crate) type Part = (*const u8, usize);

impl Channel {
    pub(crate) fn plain(socket: OwnedFd) -> io::Result<Self> {
        set_nonblocking(&socket)?;
        Ok(Self { socket, tls: None })
    }

    /// `tls` has shaken hands over `socket`.
    pub(crate) fn secured(socket: OwnedFd, mut tls: Connection) -> io::Result<Self> {
        set_nonblocking(&socket)?;
        tls.set_buffer_limit(Some(BUFFER));
        Ok(Self { socket, tls: Some(Mutex::new(tls)) })
    }

    pub(crate) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Takes what has come, and returns its length in bytes: 0 at the end, None if there is nothing yet.
    ///
    /// # Safety
    /// `target` is writable for `room` bytes, which nobody else touches meanwhile.
    pub(crate) unsafe fn receive(&self, target: *mut u8, room: usize) -> io::Result<Option<usize>> {
        let Some(tls) = &self.tls else {
            // SAFETY: the caller's promise.
            return progress(unsafe { libc::recv(self.fd(), target.cast(), room, 0) });
        };
        // SAFETY: the caller's promise.
        let target = unsafe { std::slice::from_raw_parts_mut(target, room) };
        let mut tls = tls.lock();
        loop {
            match tls.reader().read(target) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // A rank that ends does not say goodbye. The protocol above tells whether what it sent is complete.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Some(0)),
                read => return read.map(Some),
            }
            match tls.read_tls(&mut Raw(self.fd())) {
                Err(error) if is_later(&error) => return Ok(None),
                read => drop(read?),
            }
            tls.process_new_packets().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
    }

    /// Sends as much of `parts` as there is room for; None if there is none. What was taken may still have to be
    /// [flushed](Self::flush).
    ///
    /// # Safety
    /// Both parts are readable.
    pub(crate) unsafe fn send(&self, parts: [Part; 2]) -> io::Result<Option<usize>> {
        let Some(tls) = &self.tls else {
            let parts = parts.map(|(base, bytes)| libc::iovec { iov_base: base.cast_mut().cast(), iov_len: bytes });
            // SAFETY: the caller's promise.
            return progress(unsafe { send_parts(self.fd(), &parts) });
        };
        let mut tls = tls.lock();
        if !drain(&mut tls, self.fd())? {
            return Ok(None);
        }
        let slices = parts.map(|(base, bytes)| match bytes {
            // An empty part's address need not be valid.
            0 => IoSlice::new(&[]),
            // SAFETY: the caller's promise.
            bytes => IoSlice::new(unsafe { std::slice::from_raw_parts(base, bytes) }),
        });
        let taken = tls.writer().write_vectored(&slices)?;
        drain(&mut tls, self.fd())?;
        Ok(Some(taken))
    }

    /// Gives the socket what [`Self::send`] took. False if it does not have room for all of it.
    pub(crate) fn flush(&self) -> io::Result<bool> {
        match &self.tls {
            Some(tls) => drain(&mut tls.lock(), self.fd()),
            None => Ok(true),
        }
    }

    /// Whether something is waiting to be flushed.
    pub(crate) fn wants_room(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.lock().wants_write())
    }

    /// Sends `bytes`, all of them or with an error.
    ///
    /// # Errors
    /// The socket's errors; `WouldBlock` even if it took a part.
    pub(crate) fn at_once(&self, bytes: &[u8]) -> io::Result<()> {
        let Some(tls) = &self.tls else { return socket::at_once(&self.socket, bytes) };
        let mut tls = tls.lock();
        tls.writer().write_all(bytes)?;
        match drain(&mut tls, self.fd())? {
            true => Ok(()),
            false => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Sends `bytes`. Nothing is lost if the socket does not take all of it at once: the peer sees it close.
    pub(crate) fn last_words(&self, bytes: &[u8]) {
        let _ = self.at_once(bytes);
    }

    /// Fills `target`, waiting until it is full.
    ///
    /// # Safety
    /// As for [`Self::receive`].
    pub(crate) unsafe fn receive_all(&self, target: *mut u8, bytes: usize) -> io::Result<()> {
        let mut position = 0;
        while position < bytes {
            // SAFETY: the rest of the caller's range.
            match unsafe { self.receive(target.add(position), bytes - position) }? {
                Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Some(got) => position += got,
                None => self.wait(libc::POLLIN),
            }
        }
        Ok(())
    }

    /// Sends all of `bytes`, and waits until the socket has them.
    pub(crate) fn send_all(&self, bytes: &[u8]) -> io::Result<()> {
        let mut position = 0;
        while position < bytes.len() || !self.flush()? {
            let rest = &bytes[position..];
            // SAFETY: live slices.
            match unsafe { self.send([(rest.as_ptr(), rest.len()), (std::ptr::null(), 0)]) }? {
                Some(sent) => position += sent,
                None => self.wait(libc::POLLOUT),
            }
        }
        Ok(())
    }

    /// Ends both directions: whoever is waiting for the other end returns.
    pub(crate) fn shut_down(&self) {
        // SAFETY: plain system call on an open socket.
        unsafe { libc::shutdown(self.fd(), libc::SHUT_RDWR) };
    }

    fn wait(&self, events: i16) {
        let mut polled = libc::pollfd { fd: self.fd(), events, revents: 0 };
        // SAFETY: one live entry.
        unsafe { libc::poll(&raw mut polled, 1, -1) };
    }
}

/// Gives the socket the encrypted data. False if it does not have room for all of it.
fn drain(tls: &mut Connection, fd: RawFd) -> io::Result<bool> {
    while tls.wants_write() {
        match tls.write_tls(&mut Raw(fd)) {
            Err(error) if is_later(&error) => return Ok(false),
            written => drop(written?),
        }
    }
    Ok(true)
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// # Safety
/// The parts are readable.
unsafe fn send_parts(fd: RawFd, parts: &[libc::iovec]) -> isize {
    // SAFETY: all-zero is a value of this plain C struct.
    let mut envelope: libc::msghdr = unsafe { std::mem::zeroed() };
    envelope.msg_iov = parts.as_ptr().cast_mut();
    envelope.msg_iovlen = parts.len() as _;
    // SAFETY: the caller's promise.
    unsafe { libc::sendmsg(fd, &raw const envelope, libc::MSG_NOSIGNAL) }
}

/// A socket for the TLS library, which raises no signal.
pub(crate) struct Raw(pub(crate) RawFd);

impl Read for Raw {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // SAFETY: a live buffer of that length.
        let got = unsafe { libc::recv(self.0, buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_DONTWAIT) };
        usize::try_from(got).map_err(|_| io::Error::last_os_error())
    }
}

impl Write for Raw {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(buffer)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        // SAFETY: a slice for I/O has the layout of an iovec, as its documentation says, and is live.
        let sent = unsafe { send_parts(self.0, std::slice::from_raw_parts(parts.as_ptr().cast(), parts.len())) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
