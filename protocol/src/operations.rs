//! The operations that one process submitted under the modeled clock, in the order in which its host did: enough to compute their
//! times again for other GPUs and links. `ftest what-if` reads them. Strings, shapes and groups are in tables; an operation has
//! their positions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::datatype::{Datatype, Operation};
use crate::ids::{CommunicatorId, Rank};
use crate::plan::ClusterPlan;
use crate::report::{StepMark, report, words};

/// Version of this format.
pub const OPERATIONS_VERSION: &str = "operations.v1";

/// How the files of a directory begin; they end in `.json`.
pub const FILE_PREFIX: &str = "operations-";

/// A send of at most so many bytes does not wait for its receiver.
pub const EAGER_BYTES: u64 = 32 << 10;

report! {
    /// The operations of one process.
    OperationLog {
        /// [`OPERATIONS_VERSION`].
        version: String,
        /// The global rank; 0 for a process without one.
        rank: Rank,
        /// Whether the other ranks did not exist: nobody waited for them.
        is_alone: bool,
        /// The cluster, as `FTEST_CLUSTER` has it.
        #[cfg_attr(feature = "schema", schemars(with = "serde_json::Map<String, serde_json::Value>"))]
        cluster: ClusterPlan,
        /// The process's variables whose names begin with `NCCL_`.
        nccl_variables: BTreeMap<String, String>,
        /// The version of NCCL that it saw: 27 is 2.27.
        nccl_minor: u32,
        /// Its devices, by ordinal.
        devices: Vec<LoggedDevice>,
        /// Names of kernels and copies.
        names: Vec<String>,
        /// Lines of the program, from 1; 0 is none.
        lines: Vec<LoggedLine>,
        /// Its streams.
        streams: Vec<LoggedStream>,
        /// What decides how long work takes.
        works: Vec<LoggedWork>,
        /// Its communicators.
        communicators: Vec<LoggedCommunicator>,
        /// What NCCL launched together.
        groups: Vec<LoggedGroup>,
        /// The operations, in the order of the host.
        operations: Vec<LoggedOperation>,
        /// More operations, for which there was no room.
        dropped: u64,
    }

    /// A device of the process.
    LoggedDevice {
        /// Id of its profile.
        profile: String,
        /// Its NVLinks in one direction, GB/s; 0 without.
        nvlink_gbytes: f64,
    }

    /// A line of the program.
    LoggedLine {
        /// The name of the file, without directories.
        file: String,
        /// The line.
        line: u32,
    }

    /// A stream.
    LoggedStream {
        /// Ordinal of its device.
        device: u32,
        /// How it is ordered with others.
        order: StreamOrder,
    }

    /// A communicator.
    LoggedCommunicator {
        /// The same on all its ranks.
        id: CommunicatorId,
        /// The global ranks of its members.
        ranks: Vec<Rank>,
        /// The position of this process among them.
        rank: u32,
    }

    /// The operations of one NCCL kernel, of this rank.
    LoggedGroup {
        /// Position of the communicator.
        communicator: u32,
        /// The operations.
        parts: Vec<GroupPart>,
    }
}

words! {
    /// How a stream is ordered against the legacy default stream of its device.
    StreamOrder {
        /// It is that one.
        Legacy = "legacy",
        /// It waits for that one, and that one for it.
        Blocking = "blocking",
        /// Not at all.
        NonBlocking = "non_blocking",
    }

    /// Types that decide the speed of arithmetic.
    Element {
        /// 64-bit floating point.
        Fp64 = "fp64",
        /// 32-bit floating point, and integers.
        Fp32 = "fp32",
        /// 32-bit storage through the tensor cores.
        Tf32 = "tf32",
        /// 16 bits with 10 of mantissa.
        Fp16 = "fp16",
        /// 16 bits with 7 of mantissa.
        Bf16 = "bf16",
        /// Both kinds of fp8.
        Fp8 = "fp8",
        /// 8-bit integers.
        Int8 = "int8",
    }
}

/// One operation of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct GroupPart {
    /// Which.
    pub operation: Operation,
    /// Type of the elements.
    pub datatype: Datatype,
    /// Elements, as NCCL's function has them.
    pub count: u64,
    /// The other rank of a transfer, in the communicator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<u32>,
}

/// What decides how long work takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LoggedWork {
    /// Position of its name.
    pub name: u32,
    /// What it is.
    pub kind: WorkKind,
    /// The type that it computes with, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub element: Option<Element>,
    /// Operations of products, convolutions and attention, where a multiply-add is two; 0 for all other work.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub flops: u64,
    /// What else decides how long it takes.
    #[serde(default, skip_serializing_if = "Form::is_other")]
    pub form: Form,
    /// Bytes read and written; 0 if not known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bytes: u64,
    /// Whether it is a node of a graph.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_node: bool,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The kinds of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WorkKind {
    /// A kernel of the program, with its number of blocks.
    Kernel(u64),
    /// The kernels of an operator or of a library.
    Operator,
    /// A copy of so many bytes, from and to.
    Copy(Place, Place, u64),
    /// A memset.
    Fill,
    /// Operations of NCCL.
    Collective,
    /// A function of the program in stream order.
    HostFunction,
}

/// Where memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Host memory that CUDA does not know.
    Pageable,
    /// Host memory that CUDA allocated or registered.
    Pinned,
    /// Memory of the device with this ordinal.
    Device(u32),
}

impl Place {
    /// The device that has it.
    pub fn device(self) -> Option<u32> {
        match self {
            Self::Device(device) => Some(device),
            Self::Pageable | Self::Pinned => None,
        }
    }
}

/// What decides how long a kernel takes, besides bytes and operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// Nothing that is known.
    #[default]
    Other,
    /// Products of `m` x `k` and `k` x `n`.
    Product {
        /// How many.
        batch: u64,
        /// Rows of the result.
        m: u64,
        /// Columns of the result.
        n: u64,
        /// Length of the sums.
        k: u64,
    },
    /// Attention.
    Attention {
        /// Over so many keys.
        sequence: u64,
        /// Width of a head.
        head: u64,
        /// Whether it is the backward pass.
        is_backward: bool,
    },
    /// A convolution.
    Convolution,
    /// A kernel of the program.
    Instructions {
        /// What the busiest scheduler of the GPU issues.
        per_scheduler: u64,
    },
}

impl Form {
    fn is_other(&self) -> bool {
        *self == Self::Other
    }
}

/// The host's time since the operation before, ns, and what it did then. Waits are not part of that time: they are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoggedOperation(pub u64, pub Act);

/// What the host did. Streams, works, lines and groups by their positions; records of events by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// Submitted to a stream: work, at a line.
    Work(u32, u32, u32),
    /// Submitted to a stream: work of NCCL, at a line, in a group.
    Group(u32, u32, u32, u32),
    /// Recorded an event in a stream: the record.
    Record(u32, u64),
    /// Let a stream wait for a record.
    Wait(u32, u64),
    /// Let a stream wait for all that was submitted to another.
    After(u32, u32),
    /// Waited for a stream.
    Stream(u32),
    /// Waited for a record.
    Event(u64),
    /// Waited for a device.
    Device(u32),
    /// Asked about a stream until it had ended.
    SawStream(u32),
    /// Asked about a record until it was reached.
    SawEvent(u64),
    /// Came to a mark of steps, which begins one if it says so.
    Mark(StepMark, bool),
    /// Ended.
    End,
}
