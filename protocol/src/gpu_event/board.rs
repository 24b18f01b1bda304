//! The part of the machine's file (`FTEST_GPUS`) in which processes note when what happened: words of this machine's byte order,
//! at the start of the file.

/// Bytes that are kept for it.
pub const BYTES: usize = 4096;
/// Events of a case, at most.
pub const SLOTS: usize = 256;
/// Where the 64-bit time is from which the times of events count: the first call of a process, us of the machine's monotonic
/// clock; 0 before.
pub const START: usize = 0;
/// Where the 64-bit times are at which events happened that wait for a collective; 0 before.
pub const HAPPENED: usize = 16;

const _: () = assert!(HAPPENED + 8 * SLOTS <= BYTES);

/// When the processes of a machine first called, and when each event at a collective happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// As [`START`].
    pub start: u64,
    /// By slot.
    pub happened: Vec<u64>,
}

impl Times {
    /// From the bytes of the file; those that are missing are 0.
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
