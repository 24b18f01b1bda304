//! Which clients may connect: by the version and token of a hello, and by the peer's user if there is no token.

use protocol::message::VERSION;

/// Whether `given` equals `expected`, in a time that depends only on the lengths.
fn same(given: &[u8], expected: &[u8]) -> bool {
    given.len() == expected.len()
        && given.iter().zip(expected).fold(0, |differ, (left, right)| differ | (left ^ right)) == 0
}

/// Why a peer with this version is refused, if it is.
pub(crate) fn other_version(version: u32) -> Option<String> {
    (version != VERSION).then(|| {
        format!("the peer speaks protocol version {version}, this coordinator {VERSION}; use binaries of one release")
    })
}

/// Why a hello is refused, or `None`. `same_user` is what the socket knows about the peer, if anything. `is_exposed`
/// says whether the peer's bytes cross a network in the clear.
pub(crate) fn refusal(
    version: u32,
    token: &str,
    expected: Option<&str>,
    same_user: Option<bool>,
    is_exposed: bool,
) -> Option<String> {
    if let Some(other) = other_version(version) {
        return Some(other);
    }
    match expected {
        Some(expected) if !same(token.as_bytes(), expected.as_bytes()) => {
            Some("wrong token; FAKEGPU_COORDINATOR_TOKEN must be the one the coordinator was started with".to_owned())
        }
        Some(_) if is_exposed => Some(
            "the connection comes from another host without TLS; use the coordinator's own address, not one that is forwarded from 127.0.0.1"
                .to_owned(),
        ),
        Some(_) => None,
        None if same_user == Some(false) => Some("the peer runs as another user and the run has no token".to_owned()),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_token_and_user() {
        assert_eq!(refusal(VERSION, "", None, Some(true), false), None);
        assert_eq!(refusal(VERSION, "surplus", None, None, false), None);
        assert_eq!(refusal(VERSION, "secret", Some("secret"), Some(false), false), None);
        assert!(refusal(VERSION, "secre", Some("secret"), None, false).unwrap().contains("token"));
        assert!(refusal(VERSION, "", Some("secret"), Some(true), false).unwrap().contains("token"));
        assert!(refusal(VERSION, "", None, Some(false), false).unwrap().contains("another user"));
        assert!(refusal(VERSION, "secret", Some("secret"), None, true).unwrap().contains("TLS"));
        assert!(refusal(VERSION + 1, "", None, None, false).unwrap().contains("version"));
    }
}
