//! What ranks show each other before they exchange anything: the run's token, or what was made of it, and on a network keys.

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
    /// A token; nothing is encrypted.
    pub(crate) fn by(token: String) -> Self {
        Self { token, keys: None }
    }

    /// What was made of the run's token, and keys made of that: connections to other hosts are under TLS.
    ///
    /// # Errors
    /// The library refuses the keys.
    pub(crate) fn with_keys(token: String) -> Result<Self, Failure> {
        let keys = BetweenRanks::of(&token);
        let keys = keys.map_err(|error| Failure::new(ErrorCode::System, format!("TLS between ranks: {error}")))?;
        Ok(Self { token, keys: Some(Arc::new(keys)) })
    }

    /// What the proof of a hello is made of.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// For connections to other hosts.
    pub(crate) fn keys(&self) -> Option<&BetweenRanks> {
        self.keys.as_deref()
    }
}
