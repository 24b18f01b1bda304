//! Element types and reduction operators, with NCCL's numbers for them.

use serde::{Deserialize, Serialize};

macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $code:literal, $text:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum $name { $(#[doc = $text] #[serde(rename = $text)] $variant,)* }

        impl $name {
            /// Every value, in code order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The value that NCCL's `nccl.h` numbers `code`.
            pub fn from_code(code: i32) -> Option<Self> {
                match code { $($code => Some(Self::$variant),)* _ => None }
            }

            /// NCCL's number for it.
            pub fn code(self) -> i32 {
                match self { $(Self::$variant => $code),* }
            }

            /// The word used in reports and suites.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

named!(
    /// Element type of a buffer. Codes are `ncclDataType_t` of NCCL 2.27 and later.
    Datatype {
        Int8 = 0, "int8";
        Uint8 = 1, "uint8";
        Int32 = 2, "int32";
        Uint32 = 3, "uint32";
        Int64 = 4, "int64";
        Uint64 = 5, "uint64";
        Float16 = 6, "float16";
        Float32 = 7, "float32";
        Float64 = 8, "float64";
        Bfloat16 = 9, "bfloat16";
        Float8E4M3 = 10, "float8_e4m3";
        Float8E5M2 = 11, "float8_e5m2";
    }
);

impl Datatype {
    /// Size of one element in bytes.
    pub fn size(self) -> usize {
        match self {
            Self::Int8 | Self::Uint8 | Self::Float8E4M3 | Self::Float8E5M2 => 1,
            Self::Float16 | Self::Bfloat16 => 2,
            Self::Int32 | Self::Uint32 | Self::Float32 => 4,
            Self::Int64 | Self::Uint64 | Self::Float64 => 8,
        }
    }
}

named!(
    /// Reduction operator. Codes are `ncclRedOp_t`; a pre-multiplied sum has a per-communicator code above these.
    ReductionOp {
        Sum = 0, "sum";
        Prod = 1, "prod";
        Max = 2, "max";
        Min = 3, "min";
        Avg = 4, "avg";
        PreMulSum = 5, "premulsum";
    }
);

named!(
    /// What a communicator is asked to do. The codes are ours; they travel in shared memory.
    Operation {
        AllReduce = 0, "all_reduce";
        Reduce = 1, "reduce";
        Broadcast = 2, "broadcast";
        AllGather = 3, "all_gather";
        ReduceScatter = 4, "reduce_scatter";
        AllToAll = 5, "all_to_all";
        Gather = 6, "gather";
        Scatter = 7, "scatter";
        Barrier = 8, "barrier";
        Send = 9, "send";
        Recv = 10, "recv";
        Split = 11, "split";
        Shrink = 12, "shrink";
        Grow = 13, "grow";
        PutSignal = 14, "put_signal";
        Signal = 15, "signal";
        WaitSignal = 16, "wait_signal";
    }
);

impl Operation {
    /// Whether it concerns two ranks: a send, a recv, or one side of a one-sided operation. All others are for every
    /// rank.
    pub fn is_for_two(self) -> bool {
        matches!(self, Self::Send | Self::Recv) || self.is_one_sided()
    }

    /// Whether it is a put, a signal or a wait for signals: the other rank makes no matching call.
    pub fn is_one_sided(self) -> bool {
        matches!(self, Self::PutSignal | Self::Signal | Self::WaitSignal)
    }
}
