//! What ranks show each other before they exchange anything: the run's token, or a secret derived from it, and keys on a network.

use std::sync::Arc;

use protocol::secrecy::BetweenRanks;

use crate::failure::Failure;
use protocol::record::ErrorCode;

/// The same on all ranks of a run.
#[derive(Clone, Default)]
pub(crate) struct Trust {
    token: String,
    keys: Option<Arc<BetweenRanks>>,
}

impl Trust {
    /// Trust based on a token; nothing is encrypted.
    pub(crate) fn by(token: String) -> Self {
        Self { token, keys: None }
    }

    /// Trust based on a secret derived from the run's token, and keys derived from that: connections to other hosts use TLS.
    ///
    /// # Errors
    /// The TLS library refuses the keys.
    pub(crate) fn with_keys(token: String) -> Result<Self, Failure> {
        let keys = BetweenRanks::from_secret(&token);
        let keys = keys.map_err(|error| Failure::new(ErrorCode::System, format!("TLS between ranks: {error}")))?;
        Ok(Self { token, keys: Some(Arc::new(keys)) })
    }

    /// What the proof in a hello is derived from.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// The keys for connections to other hosts.
    pub(crate) fn keys(&self) -> Option<&BetweenRanks> {
        self.keys.as_deref()
    }
}
