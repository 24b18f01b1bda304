//! The tuner's table as `NCCL_DEBUG_SUBSYS=TUNING` prints it when a communicator is formed.

use protocol::datatype::Operation;

use crate::machine::Machine;
use crate::nccl::settings::Settings;
use crate::nccl::tuner::{self, Algorithm, Protocol};

/// Side by side, as NCCL has them; its columns of what is not modeled (CollNet, PAT) are left out.
const BLOCKS: [&[Algorithm]; 2] = [&[Algorithm::Tree, Algorithm::Ring, Algorithm::Nvls], &[Algorithm::NvlsTree]];

const OPERATIONS: [(Operation, &str); 5] = [
    (Operation::Broadcast, "Broadcast"),
    (Operation::Reduce, "Reduce"),
    (Operation::AllGather, "AllGather"),
    (Operation::ReduceScatter, "ReduceScatter"),
    (Operation::AllReduce, "AllReduce"),
];

/// The lines for a communicator of all ranks of `machine`, in the format of NCCL 2.29: for each operation, algorithm and protocol the
/// latency in us and the rate in GB/s, of bytes of the operation over its time. Both are 0 for what NCCL would not consider.
pub fn lines(machine: &Machine, settings: &Settings) -> Vec<String> {
    let tables = OPERATIONS.map(|(operation, name)| (name, tuner::table(machine, settings, operation)));
    let mut lines = Vec::new();
    for algorithms in BLOCKS {
        let mut line = |title: &str, cell: &dyn Fn(Algorithm) -> String| {
            lines.push(format!("{title}|{}", algorithms.iter().map(|algorithm| cell(*algorithm)).collect::<String>()));
        };
        line("  Algorithm   ", &|algorithm| format!("{:>32}{:18}|", algorithm.name(), ""));
        line("  Protocol    ", &|_| {
            Protocol::ALL.iter().map(|protocol| format!(" {:>14} |", protocol.name())).collect()
        });
        for (name, table) in &tables {
            line(&format!("{name:>13} "), &|algorithm| {
                let cell = |protocol: &Protocol| {
                    let found =
                        table.iter().find(|choice| (choice.algorithm, choice.protocol) == (algorithm, *protocol));
                    let (latency, rate) = found.map_or((0.0, 0.0), |choice| (choice.latency_us, choice.gbytes));
                    format!("{latency:8.1}/{rate:6.1} |")
                };
                Protocol::ALL.iter().map(cell).collect()
            });
        }
    }
    lines
}
