//! Length-prefixed framing over a byte buffer: four bytes little-endian length, then one postcard-encoded message.

use serde::{Serialize, de::DeserializeOwned};

/// The longest token of a run, in bytes.
pub const MAX_TOKEN: usize = 1024;
/// The largest hello, in bytes without the prefix: a token and the sender. Until it is checked, a connection may send no more.
pub const MAX_HELLO: usize = 4096;
/// The largest frame that a rank may send to the coordinator, in bytes without the prefix.
pub const MAX_TO_COORDINATOR: usize = 1 << 20;
/// The largest frame that the coordinator sends, in bytes without the prefix (a status or a world of members).
pub const MAX_TO_RANK: usize = 16 << 20;

/// Why bytes are not a frame.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FrameError {
    /// The length prefix promises more than the limit.
    #[error("frame of {length} bytes exceeds the limit of {limit}")]
    TooLarge {
        /// Bytes promised by the prefix.
        length: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// The bytes do not decode as the expected message.
    #[error("frame does not decode: {0}")]
    Malformed(String),
}

/// One message as a frame: prefix and body.
///
/// # Panics
/// Never for the message types of this crate: all of them are serializable by construction.
pub fn encode<M: Serialize>(message: &M) -> Vec<u8> {
    let body = postcard::to_stdvec(message).expect("protocol messages always serialize");
    let length = u32::try_from(body.len()).expect("a message is shorter than 4 GiB");
    let mut frame = Vec::with_capacity(4 + body.len());
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(&body);
    frame
}

/// Takes the first whole frame from `buffer`; `None` if more bytes are needed.
///
/// # Errors
/// [`FrameError`] when the prefix exceeds `limit` or the body does not decode; the connection is then unusable.
pub fn decode<M: DeserializeOwned>(buffer: &mut Vec<u8>, limit: usize) -> Result<Option<M>, FrameError> {
    let Some(prefix) = buffer.first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*prefix) as usize;
    if length > limit {
        return Err(FrameError::TooLarge { length, limit });
    }
    if buffer.len() < 4 + length {
        return Ok(None);
    }
    let (message, rest) =
        postcard::take_from_bytes(&buffer[4..4 + length]).map_err(|error| FrameError::Malformed(error.to_string()))?;
    if !rest.is_empty() {
        return Err(FrameError::Malformed(format!("{} bytes left over", rest.len())));
    }
    buffer.drain(..4 + length);
    Ok(Some(message))
}

/// The version in the frame of a hello, even if another version encoded the rest differently: the kind of message and the version
/// come first in every version.
pub fn version_of_hello(frame: &[u8]) -> Option<u32> {
    let (kind, version) = postcard::take_from_bytes::<(u32, u32)>(frame.get(4..)?).ok()?.0;
    (kind == 0).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Role, ToCoordinator};

    #[test]
    fn the_version_is_read_from_a_hello_of_which_nothing_else_is_understood() {
        let hello = ToCoordinator::Hello { version: 4711, token: "secret".to_owned(), role: Role::Control };
        let mut frame = encode(&hello);
        assert_eq!(version_of_hello(&frame), Some(4711));
        frame.truncate(8);
        frame.extend([0xff; 9]);
        assert_eq!(version_of_hello(&frame), Some(4711));
        assert_eq!(version_of_hello(&encode(&ToCoordinator::Goodbye)), None);
        assert_eq!(version_of_hello(&[1, 0]), None);
    }
}
