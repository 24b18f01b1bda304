//! Settings from the environment for moving bytes: deadlines, sockets, chunks, injected faults, and where the coordinator is.

use std::time::Duration;

use protocol::datatype::Operation;
use protocol::env::{self, BadValue, Variable};
use protocol::fault::{self, Action, Fault, Trigger};
use protocol::frame;
use protocol::ids::{Rank, Sequence};
use protocol::skip;

/// How long a rank waits for the others, unless the environment sets another time.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

/// Where the coordinator listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A socket file.
    Unix(String),
    /// `host:port`.
    Tcp(String),
}

/// All settings from the environment.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Where the coordinator listens; `None` if only ranks of one process can meet.
    pub coordinator: Option<Address>,
    /// The run's token.
    pub token: String,
    /// How long to wait for others, in a rendezvous or an operation.
    pub timeout: Duration,
    /// Move bytes over sockets even if the ranks share a host.
    pub force_sockets: bool,
    /// Whether what ranks on different hosts exchange is under TLS.
    pub encrypts: bool,
    /// Size of the pieces of a socket payload, bytes.
    pub chunk_bytes: usize,
    /// Largest piece allowed, bytes.
    pub max_bytes: Option<usize>,
    /// Whether the other ranks do not exist.
    pub is_alone: bool,
    /// The real NCCL moves the bytes (`FAKEGPU_DIST_MODE=proxy`): ranks only report their calls to each other and to the
    /// coordinator.
    pub keeps_books: bool,
    /// Maximum number of bytes of a block that are moved; operations are recorded at their full size.
    pub most_moved: Option<usize>,
    /// The faults of the case, and the one that `FAKEGPU_NCCL_FAULT_*` asks for.
    pub faults: Vec<Fault>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            coordinator: None,
            token: String::new(),
            timeout: DEFAULT_TIMEOUT,
            force_sockets: false,
            encrypts: true,
            chunk_bytes: 1 << 20,
            max_bytes: None,
            is_alone: false,
            keeps_books: false,
            most_moved: None,
            faults: Vec::new(),
        }
    }
}

impl Settings {
    /// Reads the process's environment.
    ///
    /// # Errors
    /// [`BadValue`] naming the variable, its value and the allowed values.
    pub fn from_environment() -> Result<Self, BadValue> {
        Self::read(|name| std::env::var(name).ok())
    }

    /// Settings of a process in which the real NCCL moves the bytes.
    ///
    /// # Errors
    /// As [`Self::from_environment`]; also a mode other than `proxy`, a missing coordinator, and settings that only make sense if
    /// we move the bytes.
    pub fn of_proxy(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, BadValue> {
        let mode = lookup(env::DIST_MODE.name).unwrap_or_default();
        let bad = |variable: &Variable, value: &str, expected: &str| BadValue {
            expected: expected.to_owned(),
            ..variable.bad(value)
        };
        if !mode.eq_ignore_ascii_case("proxy") {
            return Err(bad(&env::DIST_MODE, &mode, "proxy: all that this library does is wrap the real NCCL"));
        }
        let settings = Self::read(|name| if name == env::DIST_MODE.name { None } else { lookup(name) })?;
        if settings.coordinator.is_none() {
            return Err(bad(&env::COORDINATOR_ADDR, "", "the address of a coordinator, which mode proxy needs"));
        }
        if !settings.faults.is_empty() {
            let text = lookup(env::FAULTS.name).or_else(|| lookup(env::NCCL_FAULT_RANK.name)).unwrap_or_default();
            let variable = if lookup(env::FAULTS.name).is_some() { &env::FAULTS } else { &env::NCCL_FAULT_RANK };
            return Err(bad(
                variable,
                &text,
                "no faults: FAKEGPU_DIST_MODE=proxy cannot inject them into the real NCCL",
            ));
        }
        Ok(Self { keeps_books: true, most_moved: None, ..settings })
    }

    /// Reads the variables through `lookup`.
    ///
    /// # Errors
    /// As [`Self::from_environment`].
    pub fn read(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, BadValue> {
        let text = |variable: &Variable| lookup(variable.name).filter(|value| !value.is_empty());
        let number = |variable: &Variable, min: u64| {
            text(variable).map(|value| variable.integer(&value, min, i64::MAX as u64)).transpose()
        };
        let mut settings = Self { token: text(&env::COORDINATOR_TOKEN).unwrap_or_default(), ..Self::default() };
        if settings.token.len() > frame::MAX_TOKEN {
            // The token itself is nothing to print.
            return Err(env::COORDINATOR_TOKEN.bad(&format!("({} bytes)", settings.token.len())));
        }
        let playing = match text(&env::DIST_MODE) {
            None => true,
            Some(mode) => match env::DIST_MODE.choose(&mode, &["disabled", "simulate", "proxy", "passthrough"])? {
                0 => false,
                1 => true,
                // These need NVIDIA's own NCCL and GPUs, which is not us.
                _ => {
                    let expected = "simulate or disabled on simulated GPUs: proxy and passthrough need the real ones, \
                                    FAKEGPU_MODE=passthrough"
                        .to_owned();
                    return Err(BadValue { expected, ..env::DIST_MODE.bad(&mode) });
                }
            },
        };
        settings.coordinator = coordinator(text(&env::COORDINATOR_ADDR), text(&env::COORDINATOR_TRANSPORT))?;
        if !playing {
            settings.coordinator = None;
        }
        if text(&env::AS_RANK).is_some() {
            settings.is_alone = true;
            settings.coordinator = None;
        }
        if let Some(milliseconds) = number(&env::COORDINATOR_TIMEOUT_MS, 1)? {
            settings.timeout = Duration::from_millis(milliseconds);
        }
        if let Some(value) = text(&env::STAGING_FORCE_SOCKET) {
            settings.force_sockets = env::STAGING_FORCE_SOCKET.switch(&value)?;
        }
        if let Some(value) = text(&env::STAGING_TLS) {
            settings.encrypts = env::STAGING_TLS.switch(&value)?;
        }
        if let Some(bytes) = number(&env::STAGING_CHUNK_BYTES, 1)? {
            settings.chunk_bytes = bytes as usize;
        }
        settings.max_bytes = number(&env::STAGING_MAX_BYTES, 1)?.map(|bytes| bytes as usize);
        if let Some(value) = text(&env::COMPUTE) {
            settings.most_moved = [None, Some(skip::MOVED)][env::COMPUTE.choose(&value, &["cpu", "skip"])?];
        }
        let operations = [
            Operation::AllReduce,
            Operation::Reduce,
            Operation::Broadcast,
            Operation::AllGather,
            Operation::ReduceScatter,
            Operation::AllToAll,
        ];
        let operation = match text(&env::NCCL_FAULT_OPERATION) {
            None => Operation::AllReduce,
            Some(value) => operations[env::NCCL_FAULT_OPERATION.choose(&value, &operations.map(Operation::name))?],
        };
        if let Some(json) = text(&env::FAULTS) {
            settings.faults = fault::from_json(&json).map_err(|_| env::FAULTS.bad(&json))?;
        }
        if let (Some(rank), Some(sequence)) = (number(&env::NCCL_FAULT_RANK, 0)?, number(&env::NCCL_FAULT_SEQNO, 1)?) {
            let at = Trigger::Collective {
                rank: Rank(rank as u32),
                communicator: None,
                operation,
                sequence: Some(Sequence(sequence)),
            };
            let origin = format!("{}={rank} {}={sequence}", env::NCCL_FAULT_RANK.name, env::NCCL_FAULT_SEQNO.name);
            settings.faults.push(Fault { number: 0, origin, at, action: Action::NcclError });
        }
        Ok(settings)
    }
}

fn coordinator(address: Option<String>, transport: Option<String>) -> Result<Option<Address>, BadValue> {
    let Some(address) = address else { return Ok(None) };
    let tcp = match transport {
        Some(value) => env::COORDINATOR_TRANSPORT.choose(&value, &["unix", "tcp"])? == 1,
        None => !address.starts_with('/'),
    };
    if tcp {
        let port =
            address.rsplit_once(':').and_then(|(host, port)| (!host.is_empty()).then(|| port.parse::<u16>().ok()));
        if port.flatten().is_none() {
            return Err(env::COORDINATOR_ADDR.bad(&address));
        }
        return Ok(Some(Address::Tcp(address)));
    }
    if !address.starts_with('/') {
        return Err(env::COORDINATOR_ADDR.bad(&address));
    }
    Ok(Some(Address::Unix(address)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Settings, BadValue> {
        Settings::read(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn the_address_decides_the_transport() {
        assert_eq!(read(&[]).unwrap(), Settings::default());
        assert_eq!(read(&[("FAKEGPU_COMPUTE", "skip")]).unwrap().most_moved, Some(1 << 20));
        assert_eq!(read(&[("FAKEGPU_COMPUTE", "cpu")]).unwrap().most_moved, None);
        let alone = read(&[("FTEST_AS_RANK", "3/8"), ("FAKEGPU_COORDINATOR_ADDR", "/tmp/c")]).unwrap();
        assert!(alone.is_alone && alone.coordinator.is_none());
        let unix = read(&[("FAKEGPU_COORDINATOR_ADDR", "/tmp/c.sock")]).unwrap();
        assert_eq!(unix.coordinator, Some(Address::Unix("/tmp/c.sock".to_owned())));
        let tcp = read(&[("FAKEGPU_COORDINATOR_ADDR", "127.0.0.1:4000")]).unwrap();
        assert_eq!(tcp.coordinator, Some(Address::Tcp("127.0.0.1:4000".to_owned())));
    }

    #[test]
    fn bad_values_name_their_variable() {
        for (name, value) in [
            ("FAKEGPU_COORDINATOR_TIMEOUT_MS", "soon"),
            ("FAKEGPU_STAGING_CHUNK_BYTES", "0"),
            ("FAKEGPU_COORDINATOR_ADDR", "nowhere"),
            ("FAKEGPU_NCCL_FAULT_OPERATION", "all_reduction"),
            ("FAKEGPU_COORDINATOR_TOKEN", &"x".repeat(1025)),
            ("FAKEGPU_DIST_MODE", "simulated"),
            ("FAKEGPU_DIST_MODE", "passthrough"),
            ("FTEST_FAULTS", "[{}]"),
        ] {
            assert_eq!(read(&[(name, value)]).unwrap_err().variable, name);
        }
    }

    #[test]
    fn a_proxy_has_a_coordinator_and_no_faults() {
        let of_proxy = |pairs: &[(&str, &str)]| {
            Settings::of_proxy(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
        };
        let proxy = ("FAKEGPU_DIST_MODE", "proxy");
        let address = ("FAKEGPU_COORDINATOR_ADDR", "/tmp/c.sock");
        assert!(of_proxy(&[proxy, address]).unwrap().keeps_books);
        assert!(!read(&[address]).unwrap().keeps_books);
        assert_eq!(of_proxy(&[address]).unwrap_err().variable, "FAKEGPU_DIST_MODE");
        assert_eq!(of_proxy(&[proxy]).unwrap_err().variable, "FAKEGPU_COORDINATOR_ADDR");
        let fault = [("FAKEGPU_NCCL_FAULT_RANK", "1"), ("FAKEGPU_NCCL_FAULT_SEQNO", "1")];
        let error = of_proxy(&[proxy, address, fault[0], fault[1]]).unwrap_err();
        assert_eq!(error.variable, "FAKEGPU_NCCL_FAULT_RANK");
    }

    #[test]
    fn a_disabled_mode_meets_nobody_outside() {
        let pairs = [("FAKEGPU_COORDINATOR_ADDR", "/tmp/c.sock"), ("FAKEGPU_DIST_MODE", "disabled")];
        assert_eq!(read(&pairs).unwrap().coordinator, None);
    }

    #[test]
    fn a_fault_needs_rank_and_sequence() {
        assert_eq!(read(&[("FAKEGPU_NCCL_FAULT_RANK", "2")]).unwrap().faults, []);
        let both = read(&[("FAKEGPU_NCCL_FAULT_RANK", "2"), ("FAKEGPU_NCCL_FAULT_SEQNO", "3")]).unwrap();
        let at = Trigger::Collective {
            rank: Rank(2),
            communicator: None,
            operation: Operation::AllReduce,
            sequence: Some(Sequence(3)),
        };
        let origin = "FAKEGPU_NCCL_FAULT_RANK=2 FAKEGPU_NCCL_FAULT_SEQNO=3".to_owned();
        let fakegpu = Fault { number: 0, origin, at, action: Action::NcclError };
        assert_eq!(both.faults, std::slice::from_ref(&fakegpu));
        let of_the_case = Fault { number: 1, origin: "s.yaml:1:1".to_owned(), ..fakegpu.clone() };
        let json = fault::to_json(std::slice::from_ref(&of_the_case));
        let pairs = [("FTEST_FAULTS", &*json), ("FAKEGPU_NCCL_FAULT_RANK", "2"), ("FAKEGPU_NCCL_FAULT_SEQNO", "3")];
        assert_eq!(read(&pairs).unwrap().faults, [of_the_case, fakegpu]);
    }
}
