use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Instant;

use std::net::TcpStream;
use std::time::Duration;

use super::*;
use crate::sockets::connect::connect;
use crate::sockets::greeter::{CROWD, Host};
use crate::sockets::hello::hello;
use crate::sockets::socket::tests::raises_sigpipe;

/// Longer than anything here takes, even on a loaded machine.
const DEADLINE: Duration = Duration::from_secs(30);
const SCOPES: [Scope; 2] = [Scope::Host, Scope::Network(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST))];

fn route(from: u32) -> Route {
    Route { communicator: 7, to: 9, from, channel: 0 }
}

/// A stranger's connection, on which nothing has been sent.
fn stranger(listener: &Listener) -> UnixStream {
    let address = &listener.address;
    let stream: OwnedFd = match address.strip_prefix("unix:@") {
        Some(name) => UnixStream::connect_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap().into(),
        None => TcpStream::connect(address.strip_prefix("tcp:").unwrap()).unwrap().into(),
    };
    let stream = UnixStream::from(stream);
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream
}

/// The socket of a connection, for calls that wait.
fn blocking(channel: &Channel) -> UnixStream {
    let stream = UnixStream::from(channel.socket().try_clone().unwrap());
    stream.set_nonblocking(false).unwrap();
    stream
}

/// What the other end sends until it hangs up.
fn last_words(mut stream: UnixStream) -> Vec<u8> {
    let mut received = Vec::new();
    match stream.read_to_end(&mut received) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "it does not hang up"),
    }
    received
}

/// A rank's connection, once it is welcomed.
fn welcomed(listener: &Listener, from: u32) -> UnixStream {
    let mut stream = blocking(&connect(&listener.address, &listener.trust, route(from), DEADLINE).unwrap());
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut welcome = [0; HEADER];
    stream.read_exact(&mut welcome).unwrap();
    assert_eq!(welcome[..4], WELCOME.to_le_bytes());
    stream
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn a_client_that_connected_and_hung_up_does_no_harm() {
    let listener = Listener::open(Scope::Host, Trust::by("token".to_owned())).unwrap();
    let wake = Arc::new(Wake::new().unwrap());
    listener.watch(7, 9, &wake);
    wake.clear();
    drop(connect(&listener.address, &listener.trust, route(0), DEADLINE).unwrap());
    wake.wait(DEADLINE);
    assert!(listener.lock().arrived.contains_key(&route(0)), "it came");
    assert!(!raises_sigpipe(|| listener.close(7, 9, b"gone".to_vec())));
    // A later connection gets the reason as well.
    let (ours, theirs) = UnixStream::pair().unwrap();
    drop(theirs);
    assert!(!raises_sigpipe(|| listener.admit(Channel::plain(ours.into()).unwrap(), route(1))));
}

#[test]
fn a_connection_has_its_place_before_it_is_welcomed() {
    for scope in SCOPES {
        let listener = Listener::open(scope, Trust::by("token".to_owned())).unwrap();
        for from in 0..20 {
            let mut stream = welcomed(&listener, from);
            stream.write_all(b"a small message").unwrap();
            drop(stream);
            let mut arrived = blocking(&listener.claim(route(from)).expect("no moment later"));
            let mut message = [0; 15];
            arrived.read_exact(&mut message).unwrap();
            assert_eq!(&message, b"a small message");
        }
        listener.close(7, 9, b"gone".to_vec());
        for _ in 0..2 {
            let late = blocking(&connect(&listener.address, &listener.trust, route(0), DEADLINE).unwrap());
            assert_eq!(last_words(late), b"gone", "every later connection gets the reason");
        }
    }
}

#[test]
fn strangers_cost_neither_threads_nor_more_than_a_crowd_of_descriptors() {
    for scope in SCOPES {
        let listener = Listener::open(scope, Trust::by("token".to_owned())).unwrap();
        let before = threads();
        let crowd: Vec<UnixStream> = (0..4 * CROWD).map(|_| stranger(&listener)).collect();
        // Ranks get in even while the strangers stay.
        let ranks: Vec<UnixStream> = (0..10).map(|from| welcomed(&listener, from)).collect();
        assert!(threads() < before + CROWD, "a thread for each of {} strangers", crowd.len());
        // Only the last of the strangers may still be there; the others were dropped before their deadline.
        for stranger in &crowd[..crowd.len() - CROWD] {
            stranger.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
            assert_eq!(last_words(stranger.try_clone().unwrap()), b"");
        }
        drop(ranks);
    }
}

#[test]
fn whatever_is_no_hello_of_this_run_is_refused_at_once() {
    let listener = Listener::open(Scope::Host, Trust::by("token".to_owned())).unwrap();
    let right = hello(&listener.address, "token", route(0), false);
    let mut long = right.clone();
    long[4..6].copy_from_slice(&u16::MAX.to_le_bytes());
    let wrong: [(&str, Vec<u8>); 7] = [
        ("a handshake that is not wanted", hello(&listener.address, "token", route(0), true)),
        ("text", b"GET / HTTP/1.1\r\n\r\n".to_vec()),
        ("another token", hello(&listener.address, "tokem", route(0), false)),
        ("a longer token", hello(&listener.address, "token2", route(0), false)),
        ("no token", hello(&listener.address, "", route(0), false)),
        ("another listener's", hello("tcp:127.0.0.1:1", "token", route(0), false)),
        ("a token of 64 KiB", long),
    ];
    for (what, bytes) in wrong {
        let mut stream = stranger(&listener);
        // The other end may hang up before it has everything.
        let _ = stream.write_all(&bytes);
        assert_eq!(last_words(stream), b"", "{what}");
    }
    for cut in [1, 5, 6, 8, right.len() - 1] {
        let mut stream = stranger(&listener);
        stream.write_all(&right[..cut]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(last_words(stream), b"", "{cut} bytes of a hello");
    }
    // A hello may also come byte by byte.
    let mut slow = stranger(&listener);
    for byte in right {
        slow.write_all(&[byte]).unwrap();
    }
    let mut welcome = [0; HEADER];
    slow.read_exact(&mut welcome).unwrap();
}

#[test]
fn a_trickle_does_not_stay() {
    let listener = Listener::open(Scope::Host, Trust::by("token".to_owned())).unwrap();
    let mut trickle = stranger(&listener);
    let started = Instant::now();
    let hello = hello(&listener.address, "token", route(0), false);
    // One byte a second, each well within any timeout: the hello as a whole has a deadline.
    for byte in &hello[..hello.len() - 1] {
        if trickle.write_all(&[*byte]).is_err() {
            break;
        }
        trickle.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        match trickle.read(&mut [0; 1]) {
            Ok(_) => break,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
        assert!(started.elapsed() < DEADLINE, "it is read from for ever");
    }
    assert!(trickle.write_all(b"x").and_then(|()| trickle.write_all(b"x")).is_err(), "it hung up");
}

/// An address of this host at which connections from 127.0.0.1 look as if they came from another host.
const AFAR: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2));

/// All that has come over a channel until its end.
fn received(channel: &Channel) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    let mut byte = [0];
    // SAFETY: the array has the given length.
    while unsafe { channel.receive_all(byte.as_mut_ptr(), 1) }.is_ok() {
        all.push(byte[0]);
    }
    Ok(all)
}

#[test]
fn what_comes_from_another_host_is_under_tls_alone() {
    let trust = Trust::with_keys("secret".to_owned()).unwrap();
    let listener = Listener::open(Scope::Network(AFAR), trust).unwrap();
    let ours = connect(&listener.address, &listener.trust, route(0), DEADLINE).unwrap();
    let mut welcome = [0; HEADER];
    // SAFETY: the array has the given length.
    unsafe { ours.receive_all(welcome.as_mut_ptr(), HEADER) }.unwrap();
    assert_eq!(welcome[..4], WELCOME.to_le_bytes());
    let theirs = listener.claim(route(0)).unwrap();
    // Right after the handshake, which might have swallowed it.
    ours.send_all(b"hear, hear").unwrap();
    // What crosses the network is a TLS record that contains the message, not the message itself.
    let mut crossed = [0; 64];
    let peeked = loop {
        // SAFETY: the array has the given length.
        let got = unsafe { libc::recv(theirs.fd(), crossed.as_mut_ptr().cast(), 64, libc::MSG_PEEK) };
        if got > 0 {
            break &crossed[..got as usize];
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    assert_eq!(peeked[..3], [23, 3, 3], "application data of TLS");
    assert!(!peeked.windows(4).any(|four| four == b"hear"));
    drop(ours);
    assert_eq!(received(&theirs).unwrap(), b"hear, hear");

    // Nobody gets in without encryption or with other keys.
    let mut plain = stranger(&listener);
    plain.write_all(&hello(&listener.address, "secret", route(1), false)).unwrap();
    assert_eq!(last_words(plain), b"");
    let mut stranger = stranger(&listener);
    stranger.write_all(&hello(&listener.address, "secret", route(1), true)).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert!(!last_words(stranger).windows(4).any(|four| four == WELCOME.to_le_bytes()));
    let other = Trust::with_keys("other".to_owned()).unwrap();
    let refused = connect(&listener.address, &other, route(1), DEADLINE).err().expect("another secret");
    // Whichever end says so first; the other one's last bytes can make of that a reset.
    let is_end = matches!(refused.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset);
    assert!(refused.to_string().contains("invalid peer certificate") || is_end, "{refused}");
    assert!(listener.claim(route(1)).is_none());
}
