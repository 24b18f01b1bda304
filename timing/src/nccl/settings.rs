//! The variables by which a user changes NCCL's choice, read as NCCL reads them.

use protocol::datatype::Operation;

use crate::machine::{Machine, Shape, Transport};
use crate::nccl::tuner::{Algorithm, Protocol};

/// What the program's environment says. The default says nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Minor version of NCCL 2; the newest that is known if not given.
    pub minor: Option<u32>,
    /// `NCCL_ALGO`.
    algorithms: Vec<Rule>,
    /// `NCCL_PROTO`.
    protocols: Vec<Rule>,
    /// `NCCL_NVLS_ENABLE=0`.
    pub nvls_off: bool,
    /// `NCCL_MIN_NCHANNELS` or `NCCL_MIN_CTAS`.
    pub min_channels: Option<u32>,
    /// `NCCL_MAX_NCHANNELS` or `NCCL_MAX_CTAS`.
    pub max_channels: Option<u32>,
    /// `NCCL_P2P_DISABLE=1` or `NCCL_P2P_LEVEL=LOC`: GPUs of a node do not reach each other's memory, by NVLink or PCIe.
    peers_off: bool,
    /// `NCCL_NET_GDR_LEVEL=LOC`: NICs do not reach the memory of GPUs.
    gpudirect_off: bool,
    /// `NCCL_NET=Socket` or `NCCL_IB_DISABLE=1`: TCP carries what InfiniBand or RoCE would.
    sockets: Option<Sockets>,
    /// Variables of NCCL that were given and change nothing here, though they may change NCCL.
    pub unread: Vec<String>,
}

/// What gives way to sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sockets {
    /// NCCL's own verbs transport: plugins stay.
    ForVerbs,
    /// Whatever there is.
    ForAll,
}

/// One part of a list such as `allreduce:tree,ring;broadcast:^ring`.
#[derive(Clone, Debug, PartialEq)]
struct Rule {
    /// For one operation, or for all.
    operation: Option<Operation>,
    /// Whether the names are those left out.
    not: bool,
    /// Lower case.
    names: Vec<String>,
}

impl Settings {
    /// The settings in `variables`, of which only NCCL's count.
    ///
    /// # Errors
    /// The variable and what is wrong with it.
    pub fn read<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, String> {
        let mut settings = Self::default();
        let number = |name: &str, value: &str| {
            value.trim().parse::<u32>().map_err(|_| format!("{name}: `{value}` is not a number"))
        };
        for (name, value) in variables {
            match name {
                "NCCL_ALGO" => settings.algorithms = rules(name, value, &Algorithm::NAMES)?,
                "NCCL_PROTO" => settings.protocols = rules(name, value, &Protocol::NAMES)?,
                // Until 2.4, where `NCCL_ALGO` came.
                "NCCL_TREE_THRESHOLD" if number(name, value)? == 0 => {
                    settings.algorithms = rules(name, "^tree", &Algorithm::NAMES)?;
                }
                "NCCL_NVLS_ENABLE" => settings.nvls_off = number(name, value)? == 0,
                "NCCL_MIN_NCHANNELS" | "NCCL_MIN_CTAS" => settings.min_channels = Some(number(name, value)?),
                "NCCL_MAX_NCHANNELS" | "NCCL_MAX_CTAS" => settings.max_channels = Some(number(name, value)?),
                "NCCL_P2P_DISABLE" => settings.peers_off |= number(name, value)? != 0,
                // Of the other levels some leave NVLink and take PCIe, which one rate stands for here.
                "NCCL_P2P_LEVEL" if is_local(value) => settings.peers_off = true,
                "NCCL_NET_GDR_LEVEL" if is_local(value) => settings.gpudirect_off = true,
                "NCCL_NET" if value.trim().eq_ignore_ascii_case("socket") => settings.sockets = Some(Sockets::ForAll),
                "NCCL_IB_DISABLE" => {
                    let instead = (number(name, value)? != 0).then_some(Sockets::ForVerbs);
                    settings.sockets = settings.sockets.or(instead);
                }
                // What is logged changes no time.
                _ if name.starts_with("NCCL_") && !name.starts_with("NCCL_DEBUG") => {
                    settings.unread.push(name.to_owned())
                }
                _ => {}
            }
        }
        Ok(settings)
    }

    /// The same for NCCL 2.`minor`.
    #[must_use]
    pub fn with_version(mut self, minor: Option<u32>) -> Self {
        self.minor = minor;
        self
    }

    /// The part of a machine that NCCL uses with these variables.
    #[must_use]
    pub fn used(&self, mut machine: Machine) -> Machine {
        if self.peers_off {
            // Through the host's memory, at the rate of PCIe.
            machine.shape = Shape::None;
        }
        machine.gpudirect &= !self.gpudirect_off;
        let is_verbs = matches!(machine.transport, Transport::InfiniBand | Transport::Roce);
        if self.sockets.is_some_and(|sockets| is_verbs || sockets == Sockets::ForAll) {
            machine.transport = Transport::Sockets;
        }
        machine
    }

    /// Whether an algorithm may be chosen for an operation.
    pub fn allows_algorithm(&self, operation: Operation, algorithm: Algorithm) -> bool {
        let nvls = matches!(algorithm, Algorithm::Nvls | Algorithm::NvlsTree);
        !(nvls && self.nvls_off) && allows(&self.algorithms, operation, algorithm.name())
    }

    /// Whether a protocol may be chosen for an operation.
    pub fn allows_protocol(&self, operation: Operation, protocol: Protocol) -> bool {
        allows(&self.protocols, operation, protocol.name())
    }
}

/// Whether a level of NCCL's topology is the nearest, which no pair of devices is at: by its name, or by its number before 2.5.
fn is_local(level: &str) -> bool {
    matches!(level.trim(), "LOC" | "loc" | "0")
}

fn allows(rules: &[Rule], operation: Operation, name: &str) -> bool {
    let name = name.to_lowercase();
    // The last one that concerns the operation counts.
    let rule = rules.iter().rev().find(|rule| rule.operation.is_none_or(|of_rule| of_rule == operation));
    rule.is_none_or(|rule| rule.names.contains(&name) != rule.not)
}

fn rules(variable: &str, value: &str, known: &[&str]) -> Result<Vec<Rule>, String> {
    let parts = value.split(';').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| rule(part, known).map_err(|mistake| format!("{variable}: {mistake}"))).collect()
}

fn rule(part: &str, known: &[&str]) -> Result<Rule, String> {
    let (operation, list) = match part.split_once(':') {
        Some((operation, list)) => (Some(collective(operation)?), list),
        None => (None, part),
    };
    let (not, list) = match list.trim().strip_prefix('^') {
        Some(list) => (true, list),
        None => (false, list),
    };
    let names: Vec<String> = list.split(',').map(|name| name.trim().to_lowercase()).collect();
    match names.iter().find(|name| !known.iter().any(|known| known.eq_ignore_ascii_case(name))) {
        Some(unknown) => Err(format!("`{unknown}` is none of {}", known.join(", "))),
        None => Ok(Rule { operation, not, names }),
    }
}

fn collective(name: &str) -> Result<Operation, String> {
    match name.trim().to_lowercase().as_str() {
        "allreduce" => Ok(Operation::AllReduce),
        "allgather" => Ok(Operation::AllGather),
        "reducescatter" => Ok(Operation::ReduceScatter),
        "broadcast" => Ok(Operation::Broadcast),
        "reduce" => Ok(Operation::Reduce),
        other => Err(format!("`{other}` is none of allreduce, allgather, reducescatter, broadcast, reduce")),
    }
}
