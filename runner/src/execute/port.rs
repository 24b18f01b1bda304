//! A port reserved until its user takes it.

use tokio::net::TcpSocket;

/// A socket that is bound but not listening. The kernel does not give its port to a process that asks for any port, only to one
/// that asks for this port with `SO_REUSEADDR`, as torch's store does.
#[derive(Debug)]
pub(super) struct HeldPort {
    _socket: TcpSocket,
    /// Its number.
    pub(super) number: u16,
}

impl HeldPort {
    /// Takes a free port on all addresses.
    ///
    /// # Errors
    /// The kernel's error.
    pub(super) fn take() -> std::io::Result<HeldPort> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind(([0, 0, 0, 0], 0).into())?;
        let number = socket.local_addr()?.port();
        Ok(HeldPort { _socket: socket, number })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_held_port_goes_to_one_listener_and_to_no_other() {
        let held = HeldPort::take().unwrap();
        let listen = || {
            let socket = TcpSocket::new_v4().unwrap();
            socket.set_reuseaddr(true).unwrap();
            socket.bind(([0, 0, 0, 0], held.number).into()).and_then(|()| socket.listen(1))
        };
        let first = listen().unwrap();
        assert!(listen().is_err());
        drop(first);
    }
}
