//! The kernel's measurements of a connection over a network (`TCP_INFO`, linux/tcp.h).

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

/// Bytes of the kernel's answer that are used. Later kernels append more.
const BYTES: usize = 168;

/// Measurements of one connection, so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Path {
    /// The smoothed round-trip time, us, including queueing on the way.
    pub(crate) round_trip_us: u32,
    /// The shortest round-trip time, us.
    pub(crate) least_us: u32,
    /// The rate at which the other end has confirmed data lately.
    pub(crate) bytes_per_s: u64,
    /// Segments that were sent again.
    pub(crate) resent: u32,
    /// Segments in flight.
    flying: u32,
    /// Time since anything arrived, ms.
    silent_ms: u32,
}

impl Path {
    /// The measurements of a connection; None if it is not tcp.
    pub(crate) fn measure(stream: &OwnedFd) -> Option<Self> {
        let mut info = [0u8; BYTES];
        let mut bytes = BYTES as libc::socklen_t;
        // SAFETY: plain system call on an open socket; the kernel writes no more than the length says.
        let result = unsafe {
            let fd = stream.as_raw_fd();
            libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &raw mut bytes)
        };
        // An older kernel returns fewer bytes.
        if result != 0 || (bytes as usize) < BYTES {
            return None;
        }
        let word = |at: usize| u32::from_ne_bytes(info[at..at + 4].try_into().expect("four bytes"));
        Some(Self {
            round_trip_us: word(68),
            least_us: word(148),
            bytes_per_s: u64::from_ne_bytes(info[160..168].try_into().expect("eight bytes")),
            resent: word(100),
            flying: word(24),
            silent_ms: word(52),
        })
    }

    /// Whether the network was carrying something when the `patience` ran out: unconfirmed segments, or segments that arrived
    /// lately. If a rank takes nothing, its segments are still confirmed first.
    pub(crate) fn is_busy(&self, patience: Duration) -> bool {
        self.flying > 0 || u128::from(self.silent_ms) * 4 < patience.as_millis()
    }

    /// This connection and another to the same rank.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            round_trip_us: self.round_trip_us.max(other.round_trip_us),
            least_us: self.least_us.min(other.least_us),
            bytes_per_s: self.bytes_per_s.max(other.bytes_per_s),
            resent: self.resent.saturating_add(other.resent),
            flying: self.flying.saturating_add(other.flying),
            silent_ms: self.silent_ms.min(other.silent_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_kernel_measures_tcp_alone() {
        let (unix, _other) = UnixStream::pair().unwrap();
        assert_eq!(Path::measure(&unix.into()), None);
        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut ours = TcpStream::connect(door.local_addr().unwrap()).unwrap();
        let (mut theirs, _) = door.accept().unwrap();
        let mut echo = [0; 1000];
        for _ in 0..10 {
            ours.write_all(&[7; 1000]).unwrap();
            theirs.read_exact(&mut echo).unwrap();
            theirs.write_all(&echo).unwrap();
            ours.read_exact(&mut echo).unwrap();
        }
        let path = Path::measure(&ours.into()).unwrap();
        // Within this machine: more than nothing, and less than a second even under load.
        assert!((1..1_000_000).contains(&path.round_trip_us), "{path:?}");
        assert!(path.least_us <= path.round_trip_us && path.bytes_per_s > 0 && path.resent < 10, "{path:?}");
        assert!(path.is_busy(Duration::from_secs(60)), "something came lately: {path:?}");
        let idle = Path { flying: 0, silent_ms: 400, ..path };
        assert!(!idle.is_busy(Duration::from_secs(1)));
        assert!(Path { flying: 1, ..idle }.is_busy(Duration::from_secs(1)));
    }
}
