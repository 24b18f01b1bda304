//! Where the coordinator listens, as it is written on the command line.

use std::path::PathBuf;

/// The longest path of a unix socket on Linux, without the terminating zero.
const MAX_UNIX_PATH: usize = 107;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A socket file.
    Unix(PathBuf),
    /// `HOST:PORT`.
    Tcp(String),
}

impl Address {
    /// Reads an address. `unix` decides which kind it has to be; without it, an absolute path is a socket file.
    ///
    /// # Errors
    /// One sentence that says what to write.
    pub fn parse(text: &str, unix: Option<bool>) -> Result<Self, String> {
        if unix.unwrap_or_else(|| text.starts_with('/')) {
            if !text.starts_with('/') {
                return Err(format!(
                    "a unix address must be an absolute path, for example /tmp/{}",
                    text.replace('/', "-")
                ));
            }
            if text.len() > MAX_UNIX_PATH {
                let length = text.len();
                return Err(format!(
                    "the path has {length} bytes, a unix socket's at most {MAX_UNIX_PATH}; use a shorter directory"
                ));
            }
            return Ok(Self::Unix(text.into()));
        }
        let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port.parse::<u16>());
        match port {
            Some(Ok(_)) => Ok(Self::Tcp(text.to_owned())),
            _ if text.starts_with('/') => Err("a path is a unix address; write HOST:PORT for tcp".to_owned()),
            _ => Err("a tcp address is HOST:PORT, for example 127.0.0.1:0".to_owned()),
        }
    }

    /// "unix" or "tcp".
    pub fn transport(&self) -> &'static str {
        match self {
            Self::Unix(_) => "unix",
            Self::Tcp(_) => "tcp",
        }
    }
}
