//! What encryption costs the data of collectives between hosts: `cargo bench -p dataplane --bench tls`. One thread sends to another over
//! loopback, with and without TLS as ranks use it, alternating; medians in GB/s. A network is slower than loopback, so this is the most
//! that encryption can cost.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use protocol::secrecy::{BetweenRanks, server_name};
use rustls::{ClientConnection, ServerConnection, StreamOwned};

/// Bytes of a message.
const BYTES: usize = 64 << 20;
const ROUNDS: usize = 9;

fn main() {
    let keys = BetweenRanks::from_secret("the token").expect("ring has the suites");
    let (mut plain, mut encrypted) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (sender, receiver) = connected();
        plain.push(rate(sender, receiver));
        let (sender, receiver) = connected();
        let client = ClientConnection::new(Arc::clone(&keys.client), server_name()).expect("a client of these keys");
        let server = ServerConnection::new(Arc::clone(&keys.server)).expect("a server of these keys");
        encrypted.push(rate(StreamOwned::new(client, sender), StreamOwned::new(server, receiver)));
    }
    let (plain, encrypted) = (median(plain), median(encrypted));
    println!("plain {plain:.2} GB/s, TLS {encrypted:.2} GB/s, {:.1} times slower", plain / encrypted);
}

fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let sender = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
    let (receiver, _) = listener.accept().expect("the connection that was just made");
    (sender, receiver)
}

/// GB/s of a message, after one that makes the handshake and warms up.
fn rate(mut sender: impl Write + Send, mut receiver: impl Read) -> f64 {
    let sent = vec![7u8; BYTES];
    let mut received = vec![0u8; BYTES];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..2 {
                sender.write_all(&sent).expect("the receiver reads");
                sender.flush().expect("the receiver reads");
            }
        });
        receiver.read_exact(&mut received).expect("the sender sends this much");
        let start = Instant::now();
        receiver.read_exact(&mut received).expect("the sender sends this much");
        BYTES as f64 / 1e9 / start.elapsed().as_secs_f64()
    })
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}
