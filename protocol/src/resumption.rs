//! Keeps a connection complete when it breaks and is made again. Each side counts the messages it takes, keeps those it sent
//! until the other side has confirmed them, and resends what did not arrive. Both sides count, so numbers do not travel with the
//! messages: the first message after the hello, or after its acceptance, is number 1.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// A random key that a process chooses, and shows when it reconnects.
pub type SessionKey = [u8; 16];

/// How long a reset connection may stay away. After that, its process counts as gone, or, from the other side, the coordinator
/// does.
pub const RETURN_WITHIN: Duration = Duration::from_secs(10);

/// A confirmation is due after this many messages.
const CONFIRM_EVERY: u64 = 16;

/// Whether the other end may still be there after `error`. A process that ends closes its connection in an orderly way; the
/// connection is reset only if the process had not read everything.
pub fn is_reset(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted)
}

/// A message count that cannot be right: more than were sent, or fewer than were confirmed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it confirms {confirmed} messages, but only {sent} were sent")]
pub struct WrongCount {
    /// How many the other side claims to have.
    pub confirmed: u64,
    /// How many this side has sent.
    pub sent: u64,
}

/// Messages that were sent and that the other side may not have, as frames.
#[derive(Debug, Default)]
pub struct Kept {
    confirmed: u64,
    frames: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Kept {
    /// One more message is sent.
    pub fn push(&mut self, frame: Vec<u8>) {
        self.bytes += frame.len();
        self.frames.push_back(frame);
    }

    /// The other side has this many messages in all.
    ///
    /// # Errors
    /// [`WrongCount`]; nothing is forgotten then.
    pub fn confirm(&mut self, confirmed: u64) -> Result<(), WrongCount> {
        let sent = self.confirmed + self.frames.len() as u64;
        if confirmed < self.confirmed || confirmed > sent {
            return Err(WrongCount { confirmed, sent });
        }
        for frame in self.frames.drain(..(confirmed - self.confirmed) as usize) {
            self.bytes -= frame.len();
        }
        self.confirmed = confirmed;
        Ok(())
    }

    /// The messages that are not confirmed, in order.
    pub fn frames(&self) -> impl Iterator<Item = &[u8]> {
        self.frames.iter().map(Vec::as_slice)
    }

    /// How many messages are not confirmed.
    pub fn count(&self) -> usize {
        self.frames.len()
    }

    /// Their total length, bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Messages that arrived.
#[derive(Debug, Default)]
pub struct Taken {
    count: u64,
    confirmed: u64,
}

impl Taken {
    /// One more message arrived and was acted upon.
    pub fn take(&mut self) {
        self.count += 1;
    }

    /// How many arrived in all.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How many to confirm, if a confirmation is due. Returns each count only once.
    pub fn due(&mut self) -> Option<u64> {
        if self.count - self.confirmed < CONFIRM_EVERY {
            return None;
        }
        self.confirmed = self.count;
        Some(self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_confirmed_is_not_sent_again() {
        let mut kept = Kept::default();
        (1..=5).for_each(|number| kept.push(vec![number; 10]));
        kept.confirm(2).unwrap();
        kept.confirm(2).unwrap();
        assert_eq!(kept.frames().map(|frame| frame[0]).collect::<Vec<u8>>(), [3, 4, 5]);
        assert_eq!((kept.count(), kept.bytes()), (3, 30));
        assert_eq!(kept.confirm(6), Err(WrongCount { confirmed: 6, sent: 5 }));
        assert_eq!(kept.confirm(1), Err(WrongCount { confirmed: 1, sent: 5 }));
        kept.confirm(5).unwrap();
        assert_eq!((kept.count(), kept.bytes()), (0, 0));
    }

    #[test]
    fn each_sixteenth_message_confirms_those_before_it() {
        let mut taken = Taken::default();
        let confirmed: Vec<u64> = (0..40)
            .filter_map(|_| {
                taken.take();
                taken.due()
            })
            .collect();
        assert_eq!((confirmed, taken.count()), (vec![16, 32], 40));
    }
}
