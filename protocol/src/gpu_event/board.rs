//! The part of the machine's file (`FTEST_GPUS`) in which processes note what happened and when: words in this machine's byte
//! order, at the start of the file.

/// Bytes that are reserved for it.
pub const BYTES: usize = 4096;
/// The most events of a case.
pub const SLOTS: usize = 256;
/// Offset of the 64-bit time from which the times of events count: the first call of a process, us by the machine's monotonic
/// clock; 0 before that.
pub const START: usize = 0;
/// Offset of the 64-bit times at which events that wait for a collective happened; 0 before that.
pub const HAPPENED: usize = 16;

const _: () = assert!(HAPPENED + 8 * SLOTS <= BYTES);

/// When a process of the machine made its first call, and when each event at a collective happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// As [`START`].
    pub start: u64,
    /// The times at which events happened, by slot.
    pub happened: Vec<u64>,
}

impl Times {
    /// Reads it from the bytes of the file; missing bytes count as 0.
    pub fn read(bytes: &[u8]) -> Self {
        let word = |at: usize| {
            let word = bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
            word.map_or(0, u64::from_ne_bytes)
        };
        Self { start: word(START), happened: (0..SLOTS).map(|slot| word(HAPPENED + 8 * slot)).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_says_when_what_happened() {
        let mut bytes = vec![0; BYTES];
        bytes[START..START + 8].copy_from_slice(&7u64.to_ne_bytes());
        bytes[HAPPENED + 8..HAPPENED + 16].copy_from_slice(&9u64.to_ne_bytes());
        let times = Times::read(&bytes);
        assert_eq!((times.start, &times.happened[..3]), (7, &[0, 9, 0][..]));
        assert_eq!(Times::read(&[]).start, 0, "a file that nobody wrote yet");
    }
}
