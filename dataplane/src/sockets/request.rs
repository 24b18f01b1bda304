//! What a rank asks of another in a one-sided operation, and the two answers.

const PUT: u32 = 0x2174_7570;
const SIGNAL: u32 = 0x6769_7321;
/// Answers a request that is done.
pub(crate) const DONE: u32 = 0x656e_6f64;
/// Answers a request that cannot be done; otherwise like a notice.
pub(crate) const REFUSED: u32 = 0x2165_6f6e;

/// What a rank asks of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// `None` for a signal alone.
    pub(crate) window: Option<u64>,
    pub(crate) offset: u64,
    /// Bytes of the payload, which follows.
    pub(crate) bytes: u64,
}

impl Request {
    pub(crate) const BYTES: usize = 32;

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let tag = if self.window.is_some() { PUT } else { SIGNAL };
        bytes[..4].copy_from_slice(&tag.to_le_bytes());
        for (at, number) in [(8, self.window.unwrap_or(0)), (16, self.offset), (24, self.bytes)] {
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// Reads what [`Self::to_bytes`] wrote; None if it is something else.
    pub(crate) fn from_bytes(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let tag = u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"));
        match tag {
            PUT => Some(Self { window: Some(number(8)), offset: number(16), bytes: number(24) }),
            SIGNAL => Some(Self { window: None, offset: 0, bytes: 0 }),
            _ => None,
        }
    }
}
