//! The kernel of a launch on the timeline, under NCCL's own name.

use dataplane::call::Call;
use dataplane::communicator::Communicator as Ranks;
use protocol::datatype::{Datatype, Operation};
use timing::nccl::tuner::Algorithm;

use super::communicator::Communicator;
use super::estimate;
use crate::device::work::stream::Stream;
use crate::device::work::timeline::{self, Element, Kind, Part, Place, Submitted, Work};

/// Submits the kernel of a launch. A communicator of one rank copies, and does nothing in place.
pub(super) fn submit(
    stream: Option<&Stream>,
    communicator: &Communicator,
    ranks: &Ranks,
    calls: &[Call],
) -> Option<Submitted> {
    let (rank, size) = (ranks.rank(), ranks.size());
    let is_in_place = |call: &Call| call.send.address == call.receive.address;
    let stream = stream.filter(|_| size > 1 || !calls.iter().all(is_in_place))?;
    timeline::submit(stream, || {
        if size == 1 {
            let place = Place::Device(stream.device);
            return Work::copy(place, place, calls.iter().map(|call| call.receive_bytes(rank, size) as u64).sum());
        }
        let part = |call: &Call| Part { operation: call.operation, datatype: call.datatype, count: call.count };
        let bytes = |call: &Call| (call.send_bytes(rank, size) + call.receive_bytes(rank, size)) as u64;
        Work {
            kind: Kind::Collective { parts: calls.iter().map(part).collect(), ranks: size },
            element: calls.first().and_then(|call| element(call.datatype)),
            bytes: calls.iter().map(bytes).sum(),
            ..Work::library(name(communicator, calls))
        }
    })
}

/// The name of the kernel: NCCL has one for each collective, type, and either rings or trees, and runs other reductions,
/// protocols and algorithms from within these (`best_kernel` in its generate.py).
fn name(communicator: &Communicator, calls: &[Call]) -> String {
    let Some(first) = calls.first() else { return String::new() };
    let family = |call: &Call| match call.operation {
        Operation::AllReduce => "AllReduce",
        Operation::Reduce => "Reduce",
        Operation::ReduceScatter => "ReduceScatter",
        Operation::Broadcast => "Broadcast",
        Operation::AllGather => "AllGather",
        _ => "SendRecv",
    };
    let kernel = match family(first) {
        family_of_first if calls.iter().any(|call| family(call) != family_of_first) => "Generic".to_owned(),
        "SendRecv" => "SendRecv".to_owned(),
        moves @ ("AllGather" | "Broadcast") => format!("{moves}_RING_LL"),
        reduces => {
            let is_tree = || estimate::choice(communicator, first).map(|(_, choice, _)| choice.algorithm);
            let shape = if is_tree() == Some(Algorithm::Tree) { "TREE" } else { "RING" };
            format!("{reduces}_Sum_{}_{shape}_LL", suffix(first.datatype))
        }
    };
    format!("ncclDevKernel_{kernel}(ncclDevKernelArgsStorage<4096ul>)")
}

/// A type in the names of NCCL's sums, which are the same for signed and unsigned integers.
fn suffix(datatype: Datatype) -> &'static str {
    match datatype {
        Datatype::Int8 | Datatype::Uint8 => "u8",
        Datatype::Int32 | Datatype::Uint32 => "u32",
        Datatype::Int64 | Datatype::Uint64 => "u64",
        Datatype::Float16 => "f16",
        Datatype::Float32 => "f32",
        Datatype::Float64 => "f64",
        Datatype::Bfloat16 => "bf16",
        Datatype::Float8E4M3 => "f8e4m3",
        Datatype::Float8E5M2 => "f8e5m2",
    }
}

fn element(datatype: Datatype) -> Option<Element> {
    Some(match datatype {
        Datatype::Int8 | Datatype::Uint8 => Element::Int8,
        Datatype::Float16 => Element::Fp16,
        Datatype::Float32 => Element::Fp32,
        Datatype::Float64 => Element::Fp64,
        Datatype::Bfloat16 => Element::Bf16,
        Datatype::Float8E4M3 | Datatype::Float8E5M2 => Element::Fp8,
        Datatype::Int32 | Datatype::Uint32 | Datatype::Int64 | Datatype::Uint64 => return None,
    })
}
