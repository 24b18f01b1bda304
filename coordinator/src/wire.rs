//! A connection as frames in and bytes out, whatever it is made of.

use std::io;

use protocol::frame::{self, FrameError};
use protocol::message::ToCoordinator;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

/// How many bytes one read may return.
const READ_BYTES: usize = 16 << 10;

/// The half that is read.
pub(crate) type Reader = Box<dyn AsyncRead + Send + Unpin>;
/// The half that is written.
pub(crate) type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// Both halves.
pub(crate) struct Wire {
    pub(crate) frames: Frames,
    pub(crate) writer: Writer,
}

/// Why there is no further message.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("the connection ended within a frame")]
    Cut,
}

/// Extracts frames from a byte stream. Buffers at most one frame and one read.
pub(crate) struct Frames {
    reader: Reader,
    buffer: Vec<u8>,
}

impl Frames {
    pub(crate) fn new(reader: Reader) -> Self {
        Self { reader, buffer: Vec::new() }
    }

    /// The next message, of at most `limit` bytes; `None` at an orderly end. Cancel safe.
    pub(crate) async fn next(&mut self, limit: usize) -> Result<Option<ToCoordinator>, ReadError> {
        loop {
            if let Some(message) = frame::decode(&mut self.buffer, limit)? {
                return Ok(Some(message));
            }
            self.buffer.reserve(READ_BYTES.min(limit));
            if self.reader.read_buf(&mut self.buffer).await? == 0 {
                return if self.buffer.is_empty() { Ok(None) } else { Err(ReadError::Cut) };
            }
        }
    }

    /// Bytes that arrived after the last whole message.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.buffer
    }
}
