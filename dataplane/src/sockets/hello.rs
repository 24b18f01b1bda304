//! The first message on a data connection: the run's token and what the connection is for.

use protocol::frame::MAX_TOKEN;

const MAGIC: u32 = 0x6674_6461;
/// Magic and length of the token.
pub(crate) const HEAD: usize = 6;
/// What follows the token.
const BODY: usize = 17;
/// Longest hello, bytes.
pub(crate) const MOST: usize = HEAD + MAX_TOKEN + BODY;

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

/// What a connecting side sends first.
pub(crate) fn hello(token: &str, route: Route) -> Vec<u8> {
    let mut hello = Vec::with_capacity(HEAD + token.len() + BODY);
    hello.extend_from_slice(&MAGIC.to_le_bytes());
    hello.extend_from_slice(&(token.len() as u16).to_le_bytes());
    hello.extend_from_slice(token.as_bytes());
    hello.extend_from_slice(&route.communicator.to_le_bytes());
    hello.extend_from_slice(&route.to.to_le_bytes());
    hello.extend_from_slice(&route.from.to_le_bytes());
    hello.push(route.channel);
    hello
}

/// Length of the hello that begins with these bytes; of its head until that has come. `None` when it cannot be a hello.
pub(crate) fn length_of(hello: &[u8]) -> Option<usize> {
    let Some(head) = hello.first_chunk::<HEAD>() else { return Some(HEAD) };
    let magic = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
    let token = usize::from(u16::from_le_bytes([head[4], head[5]]));
    (magic == MAGIC && token <= MAX_TOKEN).then_some(HEAD + token + BODY)
}

/// Reads a whole hello; `None` when its token differs from `token`, in a time that does not depend on where.
pub(crate) fn read(hello: &[u8], token: &str) -> Option<Route> {
    let (given, body) = hello[HEAD..].split_at(hello.len() - HEAD - BODY);
    let differences = given.iter().zip(token.as_bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
    if given.len() != token.len() || differences != 0 {
        return None;
    }
    let word = |at: usize| u32::from_le_bytes(body[at..at + 4].try_into().expect("four bytes"));
    Some(Route {
        communicator: u64::from_le_bytes(body[..8].try_into().expect("eight bytes")),
        to: word(8),
        from: word(12),
        channel: body[16],
    })
}
