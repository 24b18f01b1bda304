//! A port reserved until its user takes it.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fs, io};

use tokio::net::TcpSocket;

/// The ports that the kernel gives to those who ask for any.
const GIVEN: &str = "/proc/sys/net/ipv4/ip_local_port_range";
/// Ports that few programs ask for by number; Kubernetes has those between.
const ASKED_FOR_BY_FEW: [(u16, u16); 2] = [(32768, 65535), (20000, 28999)];

/// A port that is free for any program that asks for this number, and that the kernel gives to nobody who asks for any: it is
/// not among those. No other ftest on this machine takes it, as each claims its ports by name.
#[derive(Debug)]
pub(in crate::execute) struct HeldPort {
    _claim: Claim,
    /// Its number.
    pub(in crate::execute) number: u16,
}

#[derive(Debug)]
enum Claim {
    /// The kernel drops the name with this socket, and another network has other names.
    Name { _socket: UnixDatagram },
    /// Bound but not listening. Only a program that asks for this port with `SO_REUSEADDR` gets it, as torch's store does.
    Bound { _socket: TcpSocket },
}

impl HeldPort {
    /// Takes a port that is free on all addresses; if the kernel may give every port, as [`HeldPort::given`] does.
    ///
    /// # Errors
    /// The kernel's error.
    pub(in crate::execute) fn take() -> io::Result<HeldPort> {
        static TAKEN: AtomicU32 = AtomicU32::new(0);
        let given = fs::read_to_string(GIVEN).ok().and_then(|text| range(&text));
        let ports = given.map_or_else(Vec::new, not_given);
        // Cases and runs side by side do not begin at the same one.
        let first = std::process::id().wrapping_mul(97).wrapping_add(TAKEN.fetch_add(1, Ordering::Relaxed)) as usize;
        for at in 0..ports.len() {
            let number = ports[(first + at) % ports.len()];
            if let Some(socket) = claim(number) {
                return Ok(HeldPort { _claim: Claim::Name { _socket: socket }, number });
            }
        }
        HeldPort::given()
    }

    /// Takes a port that the kernel gives. Only a program that asks for it with `SO_REUSEADDR` can have it.
    ///
    /// # Errors
    /// The kernel's error.
    pub(in crate::execute) fn given() -> io::Result<HeldPort> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind(([0, 0, 0, 0], 0).into())?;
        let number = socket.local_addr()?.port();
        Ok(HeldPort { _claim: Claim::Bound { _socket: socket }, number })
    }
}

fn range(text: &str) -> Option<(u16, u16)> {
    let mut ends = text.split_ascii_whitespace().map(|end| end.parse().ok());
    Some((ends.next()??, ends.next()??))
}

/// The ports of [`ASKED_FOR_BY_FEW`] outside of `given`.
fn not_given(given: (u16, u16)) -> Vec<u16> {
    let all = ASKED_FOR_BY_FEW.into_iter().flat_map(|(first, last)| first..=last);
    all.filter(|port| *port < given.0 || given.1 < *port).collect()
}

/// `None` if another ftest has the port, or anybody uses it.
fn claim(port: u16) -> Option<UnixDatagram> {
    let name = SocketAddr::from_abstract_name(format!("ftest-port-{port}")).ok()?;
    let socket = UnixDatagram::bind_addr(&name).ok()?;
    // As the strictest program would: without `SO_REUSEADDR`, a closed connection that lingers is in the way, too.
    TcpSocket::new_v4().and_then(|socket| socket.bind(([0, 0, 0, 0], port).into())).ok()?;
    let both = TcpSocket::new_v6().and_then(|socket| socket.bind(([0u16; 8], port).into()));
    // A machine may have no IPv6.
    let is_free = both.err().is_none_or(|error| error.kind() != io::ErrorKind::AddrInUse);
    is_free.then_some(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_held_port_is_nobodys_and_free_for_every_program() {
        let held = HeldPort::take().unwrap();
        let given = range(&fs::read_to_string(GIVEN).unwrap()).unwrap();
        let listen = |reuse| {
            let socket = TcpSocket::new_v4().unwrap();
            socket.set_reuseaddr(reuse).unwrap();
            socket.bind(([0, 0, 0, 0], held.number).into()).and_then(|()| socket.listen(1))
        };
        if not_given(given).is_empty() {
            drop(listen(true).unwrap());
            return;
        }
        assert!(held.number < given.0 || given.1 < held.number, "{held:?} among {given:?}");
        assert!(claim(held.number).is_none(), "claimed already");
        for reuse in [false, true] {
            drop(listen(reuse).unwrap());
        }
        let number = held.number;
        drop(held);
        assert!(claim(number).is_some());
        let used = TcpSocket::new_v6().unwrap();
        used.bind(([0u16; 8], number).into()).unwrap();
        assert!(claim(number).is_none(), "in use");
    }

    #[test]
    fn what_the_kernel_gives_to_anybody_is_not_taken() {
        let ends = |given| {
            let ports = not_given(given);
            (ports.first().copied(), ports.last().copied(), ports.len())
        };
        assert_eq!(range("32768\t60999\n"), Some((32768, 60999)));
        assert_eq!(ends((32768, 60999)), (Some(61000), Some(28999), 4536 + 9000));
        assert_eq!(ends((1024, 65535)), (None, None, 0));
    }
}
