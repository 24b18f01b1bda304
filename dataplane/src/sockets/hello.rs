//! The first message on a data connection: what the connection is for, and a proof that its sender has the run's token.

use protocol::secrecy;

const MAGIC: u32 = 0x6674_6461;
/// Magic and length of the proof.
pub(crate) const HEAD: usize = 6;
/// What follows the proof.
const BODY: usize = 18;
/// Longest proof, bytes; a run without a token has none.
const MAX_PROOF: usize = 32;
/// Longest hello, bytes.
pub(crate) const MOST: usize = HEAD + MAX_PROOF + BODY;

/// What a data connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Route {
    pub(crate) communicator: u64,
    /// Rank of the listening side.
    pub(crate) to: u32,
    /// Rank of the connecting side.
    pub(crate) from: u32,
    pub(crate) channel: u8,
}

/// What a connecting side sends first to the rank that listens at `address`. The proof is for that address and route alone.
/// `is_secured` is whether a TLS handshake follows.
pub(crate) fn hello(address: &str, token: &str, route: Route, is_secured: bool) -> Vec<u8> {
    let body = body(route, is_secured);
    let proof = secrecy::proof(token, &[address.as_bytes(), &body]);
    let mut hello = Vec::with_capacity(HEAD + proof.len() + BODY);
    hello.extend_from_slice(&MAGIC.to_le_bytes());
    hello.extend_from_slice(&(proof.len() as u16).to_le_bytes());
    hello.extend_from_slice(&proof);
    hello.extend_from_slice(&body);
    hello
}

fn body(route: Route, is_secured: bool) -> [u8; BODY] {
    let mut body = [0; BODY];
    body[..8].copy_from_slice(&route.communicator.to_le_bytes());
    body[8..12].copy_from_slice(&route.to.to_le_bytes());
    body[12..16].copy_from_slice(&route.from.to_le_bytes());
    body[16] = route.channel;
    body[17] = is_secured.into();
    body
}

/// Length of the hello that begins with these bytes, or of its head until all of that has arrived. `None` if it cannot be a
/// hello.
pub(crate) fn length_of(hello: &[u8]) -> Option<usize> {
    let Some(head) = hello.first_chunk::<HEAD>() else { return Some(HEAD) };
    let magic = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
    let proof = usize::from(u16::from_le_bytes([head[4], head[5]]));
    (magic == MAGIC && proof <= MAX_PROOF).then_some(HEAD + proof + BODY)
}

/// Reads a whole hello to the rank that listens at `address`. Returns the route and whether a handshake follows; `None` if its
/// sender does not have `token`, in a time that does not depend on where its proof differs.
pub(crate) fn read(hello: &[u8], address: &str, token: &str) -> Option<(Route, bool)> {
    let (given, body) = hello[HEAD..].split_at(hello.len() - HEAD - BODY);
    let expected = secrecy::proof(token, &[address.as_bytes(), body]);
    let differences = given.iter().zip(&expected).fold(0, |sum, (a, b)| sum | (a ^ b));
    if given.len() != expected.len() || differences != 0 {
        return None;
    }
    let word = |at: usize| u32::from_le_bytes(body[at..at + 4].try_into().expect("four bytes"));
    let route = Route {
        communicator: u64::from_le_bytes(body[..8].try_into().expect("eight bytes")),
        to: word(8),
        from: word(12),
        channel: body[16],
    };
    Some((route, body[17] != 0))
}
