//! What NCCL says about itself: `NCCL_DEBUG`, `NCCL_DEBUG_SUBSYS` and `NCCL_DEBUG_FILE`, in the format of NCCL 2.27's lines.
//!
//! <https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html>. What a line tells is the simulated cluster's: its nodes,
//! its fabric, the ring that the time model works with.

use std::fs::File;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use dataplane::call::Call;
use dataplane::communicator::Communicator as Ranks;
use protocol::datatype::Operation;
use protocol::plan::ClusterPlan;

use super::communicator::Communicator;
use crate::device::version;

/// How much is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    None,
    Version,
    Warn,
    Info,
}

/// What a line is about; each is a bit. Names and the default as NCCL's documentation has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Subsystem {
    Init = 1,
    Collective = 2,
    PointToPoint = 4,
    Graph = 32,
    Tuning = 64,
    Environment = 128,
    Bootstrap = 4096,
}

const NAMES: [(&str, u32); 18] = [
    ("INIT", 1),
    ("COLL", 2),
    ("P2P", 4),
    ("SHM", 8),
    ("NET", 16),
    ("GRAPH", 32),
    ("TUNING", 64),
    ("ENV", 128),
    ("ALLOC", 256),
    ("CALL", 512),
    ("PROXY", 1024),
    ("NVLS", 2048),
    ("BOOTSTRAP", 4096),
    ("REG", 8192),
    ("PROFILE", 16384),
    ("RAS", 32768),
    ("COLLNET", 8),
    ("ALL", u32::MAX),
];
const DEFAULT: u32 = Subsystem::Init as u32 | Subsystem::Environment as u32 | Subsystem::Bootstrap as u32;

/// Protocols by the bytes up to which the ring uses them, as NCCL's tuning does without NVLS: LL, then LL128 where it has NVLink.
const LL_BYTES: usize = 64 << 10;
const LL128_BYTES: usize = 4 << 20;

struct Settings {
    level: Level,
    subsystems: u32,
    /// `None` is stdout.
    file: Option<Mutex<File>>,
    host: String,
}

static SETTINGS: RwLock<Option<Arc<Settings>>> = RwLock::new(None);

/// `ncclResetDebugInit`: the variables are read anew when something is to be said next.
pub(crate) fn reset() {
    *SETTINGS.write().unwrap_or_else(PoisonError::into_inner) = None;
}

fn settings() -> Arc<Settings> {
    if let Some(known) = &*SETTINGS.read().unwrap_or_else(PoisonError::into_inner) {
        return Arc::clone(known);
    }
    let mut known = SETTINGS.write().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(known.get_or_insert_with(|| {
        let get = |name: &str| std::env::var(name).ok();
        let level = get("NCCL_DEBUG").map_or(Level::None, |text| level(&text));
        let subsystems = get("NCCL_DEBUG_SUBSYS").map_or(DEFAULT, |text| subsystems(&text));
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = host.trim().split('.').next().unwrap_or_default().to_owned();
        let file = get("NCCL_DEBUG_FILE").filter(|_| level > Level::Version).and_then(|pattern| {
            let path = pattern.replace("%h", &host).replace("%p", &std::process::id().to_string());
            File::create(path).ok().map(Mutex::new)
        });
        Arc::new(Settings { level, subsystems, file, host })
    }))
}

fn level(text: &str) -> Level {
    match text.trim().to_ascii_uppercase().as_str() {
        "VERSION" => Level::Version,
        "WARN" => Level::Warn,
        // ABORT is INFO that ends the process at an error, which NCCL's documentation no longer has.
        "INFO" | "ABORT" | "TRACE" => Level::Info,
        _ => Level::None,
    }
}

/// `COLL,P2P`, or with `^` in front: all but these.
fn subsystems(text: &str) -> u32 {
    let (inverted, text) = text.strip_prefix('^').map_or((false, text), |rest| (true, rest));
    let named =
        |name: &str| NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map_or(0, |(_, bit)| *bit);
    let mask = text.split(',').fold(0, |mask, name| mask | named(name.trim()));
    if inverted { !mask } else { mask }
}

/// Says `text` if `NCCL_DEBUG=INFO` and the subsystem is wanted. `device` is the CUDA ordinal.
pub(crate) fn info(subsystem: Subsystem, device: u32, text: impl FnOnce() -> String) {
    let settings = settings();
    if settings.level >= Level::Info && settings.subsystems & subsystem as u32 != 0 {
        say(&settings, device, &format!("NCCL INFO {}", text()));
    }
}

/// Says `text` from `NCCL_DEBUG=WARN` on.
pub(crate) fn warn(device: u32, text: &str) {
    let settings = settings();
    if settings.level >= Level::Warn {
        say(&settings, device, &format!("NCCL WARN {text}"));
    }
}

fn say(settings: &Settings, device: u32, text: &str) {
    // SAFETY: no preconditions.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) };
    write(settings, &format!("{}:{}:{thread} [{device}] {text}\n", settings.host, std::process::id()));
}

/// In one piece: other ranks write to the same stream.
fn write(settings: &Settings, line: &str) {
    let written = match &settings.file {
        Some(file) => file.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes()),
        None => {
            let mut stdout = std::io::stdout().lock();
            stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush())
        }
    };
    // Nobody reading is no reason to stop.
    let _ = written;
}

/// A rank begins to form a communicator.
pub(crate) fn begins(call: &str, communicator: &Communicator, rank: u32, size: u32, id: &[u8]) {
    static ONCE: std::sync::Once = std::sync::Once::new();
    let settings = settings();
    let device = communicator.device.ordinal;
    ONCE.call_once(|| {
        if settings.level >= Level::Version && (rank == 0 || settings.level >= Level::Info) {
            write(&settings, &format!("NCCL version {}\n", release()));
        }
        for name in ["NCCL_DEBUG_SUBSYS", "NCCL_ALGO", "NCCL_PROTO", "NCCL_SOCKET_IFNAME", "NCCL_P2P_DISABLE"] {
            if let Ok(value) = std::env::var(name) {
                info(Subsystem::Environment, device, || format!("{name} set by environment to {value}."));
            }
        }
        info(Subsystem::Bootstrap, device, || "Bootstrap: Using lo:127.0.0.1<0>".to_owned());
        info(Subsystem::Init, device, || format!("cudaDriverVersion {}", version::driver()));
        info(Subsystem::Init, device, || {
            "NCCL is played by libfakegpu: no GPU computes and no NVLink carries".to_owned()
        });
    });
    info(Subsystem::Init, device, || format!("{call} {} - Init START", about(communicator, rank, size, id)));
}

/// The communicator stands.
pub(crate) fn stands(call: &str, communicator: &Communicator, ranks: &Ranks, plan: Option<&ClusterPlan>, id: &[u8]) {
    let (device, rank, size) = (communicator.device.ordinal, ranks.rank(), ranks.size());
    let place = |rank: u32| {
        let global = ranks.members()[rank as usize].global_rank;
        plan.and_then(|plan| plan.node_of(global)).map_or(0, |(node, _)| node)
    };
    let nodes: Vec<usize> = (0..size).map(place).collect();
    info(Subsystem::Init, device, || {
        let mut different = nodes.clone();
        different.sort_unstable();
        different.dedup();
        let local = nodes.iter().filter(|node| **node == nodes[rank as usize]).count();
        let local_rank = nodes[..rank as usize].iter().filter(|node| **node == nodes[rank as usize]).count();
        let count = different.len();
        let comm = handle(communicator);
        format!(
            "comm {comm} rank {rank} nRanks {size} nNodes {count} localRanks {local} localRank {local_rank} MNNVL 0"
        )
    });
    if rank == 0 {
        info(Subsystem::Init, device, || {
            let ring: Vec<String> = (0..size).map(|rank| format!("{rank:4}")).collect();
            format!("Channel 00/01 : {}", ring.join(""))
        });
    }
    if size > 1 {
        let (previous, next) = ((rank + size - 1) % size, (rank + 1) % size);
        info(Subsystem::Graph, device, || format!("Ring 00 : {previous} -> {rank} -> {next}"));
        info(Subsystem::Init, device, || {
            let ordinal = |rank: u32| ranks.members()[rank as usize].device;
            let via = way(plan, nodes[rank as usize] == nodes[next as usize]);
            format!("Channel 00/0 : {rank}[{}] -> {next}[{}] via {via}", ordinal(rank), ordinal(next))
        });
        info(Subsystem::Init, device, || "Connected all rings, use ring PXN 0 GDR 1".to_owned());
    }
    info(Subsystem::Init, device, || "1 coll channels, 1 collnet channels, 0 nvls channels, 1 p2p channels".to_owned());
    info(Subsystem::Init, device, || format!("{call} {} - Init COMPLETE", about(communicator, rank, size, id)));
}

/// A communicator ends: `what` is "Destroy COMPLETE" or "Abort COMPLETE".
pub(crate) fn ends(communicator: &Communicator, ranks: &Ranks, what: &str) {
    let device = communicator.device.ordinal;
    info(Subsystem::Init, device, || {
        let (rank, size) = (ranks.rank(), ranks.size());
        let bus = bus(communicator);
        format!("comm {} rank {rank} nranks {size} cudaDev {device} busId {bus} - {what}", handle(communicator))
    });
}

/// An operation is given to a stream as number `count` of its communicator.
pub(crate) fn operates(communicator: &Communicator, ranks: &Ranks, call: &Call, stream: usize, count: u64) {
    let device = communicator.device.ordinal;
    let subsystem = match call.operation {
        operation if operation.is_for_two() => Subsystem::PointToPoint,
        _ => Subsystem::Collective,
    };
    info(subsystem, device, || {
        format!(
            "{}: opCount {count:x} sendbuff {:p} recvbuff {:p} acc (nil) count {} datatype {} op {} root {} comm {} [nranks={}] \
             stream {stream:#x}",
            name(call.operation),
            call.send.address,
            call.receive.address,
            call.count,
            call.datatype.code(),
            call.reduction.map_or(0, |op| op.code()),
            call.root.or(call.peer).unwrap_or(0),
            handle(communicator),
            ranks.size()
        )
    });
    if ranks.size() > 1 {
        info(Subsystem::Tuning, device, || {
            let bytes = call.send_bytes(ranks.rank(), ranks.size()).max(call.receive_bytes(ranks.rank(), ranks.size()));
            let protocol = protocol(bytes, communicator.device.gpu.profile.nvlink.is_some());
            format!("{}: {bytes} Bytes -> Algo RING proto {protocol} channel{{Lo..Hi}}={{0..0}}", name(call.operation))
        });
    }
}

fn protocol(bytes: usize, nvlink: bool) -> &'static str {
    match bytes {
        0..=LL_BYTES => "LL",
        bytes if nvlink && bytes <= LL128_BYTES => "LL128",
        _ => "SIMPLE",
    }
}

/// How the fabric of the cluster is called where NCCL names its transports.
fn way(plan: Option<&ClusterPlan>, within_node: bool) -> &'static str {
    let kind = plan.map(|plan| if within_node { &plan.intra_node.kind } else { &plan.inter_node.kind });
    match (within_node, kind.map(String::as_str)) {
        (true, Some("pcie" | "shared_memory" | "shm")) => "SHM/direct/direct",
        (true, _) => "P2P/CUMEM",
        (false, Some("infiniband" | "roce" | "rdma")) => "NET/IB/0/GDRDMA",
        (false, _) => "NET/Socket/0",
    }
}

fn name(operation: Operation) -> &'static str {
    match operation {
        Operation::AllReduce => "AllReduce",
        Operation::Reduce => "Reduce",
        Operation::Broadcast => "Broadcast",
        Operation::AllGather => "AllGather",
        Operation::ReduceScatter => "ReduceScatter",
        Operation::AllToAll => "AlltoAll",
        Operation::Gather => "Gather",
        Operation::Scatter => "Scatter",
        Operation::Send => "Send",
        Operation::Recv => "Recv",
        Operation::Barrier => "Barrier",
        Operation::Split => "Split",
        Operation::Shrink => "Shrink",
        Operation::Grow => "Grow",
        Operation::PutSignal => "PutSignal",
        Operation::Signal => "Signal",
        Operation::WaitSignal => "WaitSignal",
    }
}

/// NCCL's version and the CUDA that NVIDIA's package of it is built with, "2.30.7+cuda13.3".
fn release() -> String {
    let nccl = super::info::version_number();
    let cuda = if version::is_twelve() { "12.9" } else { "13.3" };
    format!("{}.{}.{}+cuda{cuda}", nccl / 10000, nccl / 100 % 100, nccl % 100)
}

fn about(communicator: &Communicator, rank: u32, size: u32, id: &[u8]) -> String {
    let (device, bus) = (communicator.device.ordinal, bus(communicator));
    let id = id.iter().take(8).fold(0u64, |id, byte| id << 8 | u64::from(*byte));
    format!(
        "comm {} rank {rank} nranks {size} cudaDev {device} nvmlDev {device} busId {bus} commId {id:#x}",
        handle(communicator)
    )
}

fn bus(communicator: &Communicator) -> String {
    let (domain, bus) = communicator.device.gpu.pci();
    format!("{:x}", u64::from(domain) << 20 | u64::from(bus) << 12)
}

fn handle(communicator: &Communicator) -> String {
    format!("{:#x}", communicator.handle())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_subsystems_are_nccls() {
        assert_eq!(level("info"), Level::Info);
        assert_eq!(level("WARN"), Level::Warn);
        assert_eq!(level("nonsense"), Level::None);
        assert_eq!(subsystems("COLL,tuning"), 2 | 64);
        assert_eq!(subsystems("^INIT") & 1, 0);
        assert_ne!(subsystems("^INIT") & 2, 0);
        assert_eq!(subsystems("ALL"), u32::MAX);
    }

    #[test]
    fn small_messages_take_the_protocols_of_low_latency() {
        assert_eq!(protocol(4, true), "LL");
        assert_eq!(protocol(1 << 20, true), "LL128");
        assert_eq!(protocol(1 << 20, false), "SIMPLE");
        assert_eq!(protocol(128 << 20, true), "SIMPLE");
    }
}
