//! NCCL's log lines about communicators and their operations: the nodes and fabric of the simulated cluster, and the ring used by
//! the time model.

use dataplane::call::Call;
use dataplane::communicator::Communicator as Ranks;
use protocol::datatype::Operation;
use protocol::plan::ClusterPlan;

use super::communicator::Communicator;
use super::estimate;
use super::log::{self, Subsystem, info};
use crate::device::state::version;

/// Logs that a rank begins to form a communicator.
pub(crate) fn begins(call: &str, communicator: &Communicator, rank: u32, size: u32, id: &[u8]) {
    static ONCE: std::sync::Once = std::sync::Once::new();
    let device = communicator.device.ordinal;
    ONCE.call_once(|| {
        log::release(rank, &release());
        for name in ["NCCL_DEBUG_SUBSYS", "NCCL_ALGO", "NCCL_PROTO", "NCCL_SOCKET_IFNAME", "NCCL_P2P_DISABLE"] {
            if let Ok(value) = std::env::var(name) {
                info(Subsystem::Environment, device, || format!("{name} set by environment to {value}."));
            }
        }
        info(Subsystem::Bootstrap, device, || "Bootstrap: Using lo:127.0.0.1<0>".to_owned());
        info(Subsystem::Init, device, || format!("cudaDriverVersion {}", version::driver()));
        info(Subsystem::Init, device, || "NCCL is simulated by libfakegpu: there is no GPU and no NVLink".to_owned());
    });
    info(Subsystem::Init, device, || format!("{call} {} - Init START", about(communicator, rank, size, id)));
}

/// Logs that the communicator is formed.
pub(crate) fn formed(call: &str, communicator: &Communicator, ranks: &Ranks, plan: Option<&ClusterPlan>, id: &[u8]) {
    // Who is where takes a search for each rank.
    if !log::is_on(Subsystem::Init) && !log::is_on(Subsystem::Graph) {
        return;
    }
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
            let via = transport(plan, nodes[rank as usize] == nodes[next as usize]);
            format!("Channel 00/0 : {rank}[{}] -> {next}[{}] via {via}", ordinal(rank), ordinal(next))
        });
        info(Subsystem::Init, device, || "Connected all rings, use ring PXN 0 GDR 1".to_owned());
    }
    if rank == 0 && size > 1 && log::is_on(Subsystem::Tuning) {
        for line in estimate::table(ranks).unwrap_or_default() {
            info(Subsystem::Tuning, device, || line);
        }
    }
    info(Subsystem::Init, device, || "1 coll channels, 1 collnet channels, 0 nvls channels, 1 p2p channels".to_owned());
    info(Subsystem::Init, device, || format!("{call} {} - Init COMPLETE", about(communicator, rank, size, id)));
}

/// Logs that a communicator ends: `what` is "Destroy COMPLETE" or "Abort COMPLETE".
pub(crate) fn ends(communicator: &Communicator, ranks: &Ranks, what: &str) {
    let device = communicator.device.ordinal;
    info(Subsystem::Init, device, || {
        let (rank, size) = (ranks.rank(), ranks.size());
        let bus = bus(communicator);
        format!("comm {} rank {rank} nranks {size} cudaDev {device} busId {bus} - {what}", handle(communicator))
    });
}

/// Logs that an operation is submitted to a stream as number `count` of its communicator.
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
    // What cannot be known is not logged.
    if log::is_on(Subsystem::Tuning)
        && let Some((bytes, choice, channels)) = estimate::choice(communicator, call)
    {
        info(Subsystem::Tuning, device, || {
            let (algorithm, protocol) = (choice.algorithm.name().to_uppercase(), choice.protocol.name().to_uppercase());
            let last = channels.saturating_sub(1);
            format!(
                "{}: {bytes} Bytes -> Algo {algorithm} proto {protocol} channel{{Lo..Hi}}={{0..{last}}}",
                name(call.operation)
            )
        });
    }
}

/// The name of the cluster's fabric in NCCL's list of transports.
fn transport(plan: Option<&ClusterPlan>, within_node: bool) -> &'static str {
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

/// NCCL's version and the CUDA version that NVIDIA's package is built with, "2.30.7+cuda13.3".
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
