//! A network namespace with one interface, whose other side is one of our descriptors. Both disappear with the processes that
//! hold them: nothing has a name that could be left behind.
#![expect(
    unsafe_code,
    reason = "a namespace of one thread and the requests that configure an interface have no safe wrapper"
)]

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The name of the interface that programs see.
pub(in crate::execute) const INTERFACE: &str = "eth0";
/// Largest packet, bytes: as on Ethernet with jumbo frames.
pub(super) const MTU: libc::c_int = 9000;

/// A network namespace, held by its descriptor.
#[derive(Clone, Debug)]
pub struct Namespace(Arc<OwnedFd>);

/// Equal if both are handles of the same namespace.
impl PartialEq for Namespace {
    fn eq(&self, other: &Namespace) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Namespace {}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Namespace {
    /// Runs `work` in this namespace, in a thread that ends with it.
    ///
    /// # Errors
    /// Those of `work`, and a failure to enter the namespace.
    pub(in crate::execute) fn inside<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        apart(|| {
            move_into_link_name_space(self.as_fd(), Some(LinkNameSpaceType::Network))?;
            work()
        })
    }
}

/// An end of the network: its namespace, and our side of its interface.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) namespace: Namespace,
    /// Reads packets that programs there send, one at a time, and takes packets for them to receive. Never blocks.
    pub(super) packets: File,
}

impl Port {
    /// Makes a namespace with a loopback interface and one with address `address`, in the network given by its first
    /// three bytes.
    ///
    /// # Errors
    /// The system error, with the failed operation.
    pub(super) fn make(address: Ipv4Addr) -> Result<Port, (&'static str, io::Error)> {
        apart(|| {
            // SAFETY: affects only this thread, which has no other use.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                return Ok(Err(("a network namespace", io::Error::last_os_error())));
            }
            Ok(furnish(address))
        })
        .unwrap_or_else(|error| Err(("a thread", error)))
    }
}

/// Runs `work` in its own thread: namespaces belong to threads, and ours must stay where it is.
fn apart<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("ftest-network".to_owned()).spawn_scoped(scope, work)?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
    })
}

/// Sets up the interfaces in this thread's namespace.
fn furnish(address: Ipv4Addr) -> Result<Port, (&'static str, io::Error)> {
    let of = |what| move |error: io::Error| (what, error);
    let namespace = File::open("/proc/thread-self/ns/net").map_err(of("/proc/thread-self/ns/net"))?;
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
        .map_err(|error| ("a socket", error.into()))?;
    let running = Value::Flags((libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short);
    request(&socket, libc::SIOCSIFFLAGS, "lo", running).map_err(of("the loopback interface"))?;
    let mut options = File::options();
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    let packets = options.read(true).write(true).open("/dev/net/tun").map_err(of("/dev/net/tun"))?;
    let kind = Value::Flags((libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short);
    for (on, code, value) in [
        (packets.as_fd(), libc::TUNSETIFF, kind),
        (socket.as_fd(), libc::SIOCSIFADDR, Value::Address(address)),
        (socket.as_fd(), libc::SIOCSIFNETMASK, Value::Address(Ipv4Addr::new(255, 255, 255, 0))),
        (socket.as_fd(), libc::SIOCSIFMTU, Value::Number(MTU)),
        (socket.as_fd(), libc::SIOCSIFFLAGS, running),
    ] {
        request(&on, code, INTERFACE, value).map_err(of("a TUN interface"))?;
    }
    Ok(Port { namespace: Namespace(Arc::new(namespace.into())), packets })
}

/// What a request sets.
#[derive(Clone, Copy)]
enum Value {
    Flags(libc::c_short),
    Number(libc::c_int),
    Address(Ipv4Addr),
}

/// Configures the interface `name` (netdevice(7)).
fn request(on: &impl AsFd, code: libc::c_ulong, name: &str, value: Value) -> io::Result<()> {
    // SAFETY: all-zero is a value of this plain C struct.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    match value {
        Value::Flags(flags) => request.ifr_ifru.ifru_flags = flags,
        Value::Number(number) => request.ifr_ifru.ifru_mtu = number,
        Value::Address(address) => {
            let mut bytes = [0; 14];
            // After the port, as in `sockaddr_in`.
            bytes[2..6].copy_from_slice(&address.octets().map(|byte| byte as libc::c_char));
            request.ifr_ifru.ifru_addr =
                libc::sockaddr { sa_family: libc::AF_INET as libc::sa_family_t, sa_data: bytes };
        }
    }
    // SAFETY: every code used here takes a live `ifreq`, whose name ends with a zero and whose member it reads was written.
    let done = unsafe { libc::ioctl(on.as_fd().as_raw_fd(), code, &raw mut request) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
