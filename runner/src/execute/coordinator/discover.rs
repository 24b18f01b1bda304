//! Finds coordinators running on this machine through the environment of their ranks.

use std::collections::BTreeMap;

use protocol::env;

use crate::execute::launch::environment::Endpoint;
use crate::host::variable;

/// Every coordinator that a process of this user was pointed to, by address. It may have ended in the meantime.
pub fn coordinators() -> Vec<Endpoint> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().parse::<u32>().is_err() {
            continue;
        }
        // Other users' processes cannot be read, and they are not ours.
        let Ok(environ) = std::fs::read(entry.path().join("environ")) else { continue };
        if let Some(endpoint) = endpoint(&environ) {
            found.entry(endpoint.address.clone()).or_insert(endpoint);
        }
    }
    found.into_values().collect()
}

/// The coordinator that a process's environment names.
fn endpoint(environ: &[u8]) -> Option<Endpoint> {
    let get = |name: &str| variable::in_environ(environ, name).filter(|value| !value.is_empty()).map(str::to_owned);
    let address = get(env::COORDINATOR_ADDR.name)?;
    Some(endpoint_at(address, get(env::COORDINATOR_TOKEN.name).unwrap_or_default()))
}

/// The coordinator at `address`: an absolute path, or host:port.
pub fn endpoint_at(address: String, token: String) -> Endpoint {
    let transport = if address.starts_with('/') { "unix" } else { "tcp" };
    Endpoint { transport, address, token, from: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_names_its_coordinator() {
        let environ = b"A=1\0FAKEGPU_COORDINATOR_ADDR=127.0.0.1:4711\0FAKEGPU_COORDINATOR_TOKEN=secret\0";
        let found = endpoint(environ).unwrap();
        assert_eq!(
            (found.transport, found.address.as_str(), found.token.as_str()),
            ("tcp", "127.0.0.1:4711", "secret")
        );
        assert!(endpoint(b"FAKEGPU_COORDINATOR_ADDR=\0PATH=/bin\0").is_none());
        assert_eq!(endpoint_at("/tmp/c.sock".to_owned(), String::new()).transport, "unix");
    }
}
