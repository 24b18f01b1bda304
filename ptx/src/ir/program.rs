//! A checked kernel: registers, blocks and fully resolved operations, with the functions that it reaches, in one graph.

use crate::host::memory_ops::{Access, AddressSpace};
use crate::number::Scalar;
use crate::runtime::helper::Helper;
use crate::text::ast::Origin;
use crate::text::error::{Place, Span};

pub(crate) type Reg = u32;

/// A destination that nobody reads (`_`).
pub(crate) const SINK: Reg = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    ClusterId(u8),
    NclusterId(u8),
    ClusterCtaid(u8),
    ClusterNctaid(u8),
    ClusterCtarank,
    ClusterNctarank,
    IsExplicitCluster,
    Lane,
    Warp,
    Nwarp,
    Sm,
    Nsm,
    Grid,
    LaneMask(Mask),
    DynamicShared,
    TotalShared,
    AggrShared,
    /// A clock; the number says which one, as `helper::clock` has them.
    Clock(u8),
    Zero,
    /// A half of the address of the grid's workspace: 0 is the lower one.
    Workspace(u8),
    CurrentGraphExec,
    /// The host address of the parameters.
    ParamBase,
    ReservedShared(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mask {
    Eq,
    Lt,
    Le,
    Gt,
    Ge,
}

/// Something an operation reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Val {
    Reg(Reg),
    Imm(u64),
    /// Address of a device variable of the image, by index, plus bytes.
    Global(u32, i64),
    /// Offset of a shared variable of the kernel.
    Shared(u32, i64),
    /// Offset in the thread's local memory, relative to the frame of the function where it has one.
    Local(i64),
    /// Offset in the kernel's parameters.
    Param(i64),
    /// Handle of a function of the image.
    Function(u32),
    Special(Special),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[rustfmt::skip]
pub(crate) enum IntOp {
    Add, Sub, Mul, MulHi, MulWide, Div, Rem, Min, Max, And, Or, Xor, Not, Cnot, Neg, Abs, Shl, Shr, Popc, Clz, Brev, AddSat, SubSat,
    /// Three-input logic by its table.
    Lop3(u8),
    /// Funnel shifts with a constant or variable amount.
    Funnel { left: bool, wrap: bool },
    /// d, cc = a + b + c; with `sub`: a + !b + c.
    Carry { sub: bool },
    /// Sign or zero extension to the destination.
    Extend,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FloatOp {
    Add,
    Sub,
    Mul,
    Fma,
    Div,
    Sqrt,
    Neg,
    Abs,
    Min { nan: bool },
    Max { nan: bool },
    Round(Rounding),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    Nearest,
    Zero,
    Down,
    Up,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// The unordered comparisons, from here to `Geu`, also hold if an operand is NaN.
    Equ,
    Neu,
    Ltu,
    Leu,
    Gtu,
    Geu,
    Num,
    Nan,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Logic {
    And,
    Or,
    Xor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) space: AddressSpace,
    pub(crate) scalar: Scalar,
    pub(crate) offset: i64,
    /// Whether the access is not weak: it is neither removed nor merged, and ordered as its scope wants.
    pub(crate) strong: bool,
    /// Whether it is strong by `volatile` alone.
    pub(crate) volatile: bool,
    /// Whether it is a store that only the last thread of a block makes, as `pass::last_thread_stores` marks them.
    pub(crate) once: bool,
}

impl Program {
    /// The synchronization of a yield that resumes in this block.
    pub(crate) fn sync_of_yield(&self, resume: u32) -> u32 {
        self.syncs.iter().position(|sync| sync.resume == resume).unwrap_or(0) as u32
    }

    /// The line of a site in its text, 0 if it has none.
    pub(crate) fn line(&self, site: u32) -> u32 {
        self.sites.get(site as usize).map_or(0, |site| site.place.line)
    }
}

impl Memory {
    /// A weak access at an address itself.
    pub(crate) fn weak(space: AddressSpace, scalar: Scalar) -> Self {
        Self { space, scalar, offset: 0, strong: false, volatile: false, once: false }
    }

    /// Whether others see it in the order that its scope wants, so that it is made by atomic accesses.
    pub(crate) fn is_ordered(&self) -> bool {
        self.strong && !matches!(self.space, AddressSpace::Shared | AddressSpace::Local) && self.scalar.bits() <= 64
    }

    /// What a load or store is.
    pub(crate) fn access(&self, writes: bool) -> Access {
        match (self.strong, writes) {
            (false, false) => Access::Read,
            (false, true) => Access::Write,
            (true, false) => Access::StrongRead,
            (true, true) => Access::StrongWrite,
        }
    }
}

/// How a group of threads comes together for a `Sync` operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Convergence {
    /// All threads of the warp that have not exited.
    Warp,
    /// The lanes that the member mask names (the source with this index).
    Mask(u8),
    /// Whichever threads are there.
    Arrived,
    /// Threads of a block at a barrier.
    Block,
    /// Threads of a cluster.
    Cluster,
    /// A single thread, which only lets others go first.
    Alone,
    /// All threads of the warp that have not exited, or those that are there once no other one can go on.
    Pace,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Op {
    /// d0 = a0
    Mov,
    Int(IntOp, Scalar),
    Float {
        op: FloatOp,
        double: bool,
        ftz: bool,
        sat: bool,
    },
    /// d0 = compare (and d1 = its negation), with c0 combined.
    Setp {
        compare: Compare,
        scalar: Scalar,
        ftz: bool,
        logic: Option<Logic>,
    },
    /// d0 = p ? a : b
    Select,
    /// Float from integer, `scalar` being the integer's type, to nearest.
    FromInt {
        scalar: Scalar,
        double: bool,
    },
    /// Integer from float with saturation; `double` names the source.
    ToInt {
        scalar: Scalar,
        double: bool,
        ftz: bool,
    },
    /// f32 to f64 or back, to nearest.
    Promote {
        ftz: bool,
    },
    Demote {
        ftz: bool,
    },
    /// bf16 bits to f32.
    FromBf16,
    /// One or two f32 to bf16 to nearest; the first source is the upper half.
    ToBf16 {
        pair: bool,
    },
    Pack,
    Unpack,
    Load(Memory),
    Store(Memory),
    /// d0 = helper(s0, s1, s2, s3), no effect but its result.
    Pure(Helper),
    /// A helper that sees the thread and may trap; all operands are passed in the context.
    System(Helper, u64),
    /// Orders the thread's accesses before it with those after it.
    Fence,
}

#[derive(Clone, Debug)]
pub(crate) struct Inst {
    pub(crate) op: Op,
    pub(crate) dst: Vec<Reg>,
    pub(crate) src: Vec<Val>,
    pub(crate) site: u32,
}

/// A `Sync` operation: what the machine does with the threads that came to it.
#[derive(Clone, Debug)]
pub(crate) struct SyncPoint {
    pub(crate) op: crate::runtime::sync::SyncOp,
    pub(crate) convergence: Convergence,
    pub(crate) dst: Vec<Reg>,
    pub(crate) src: Vec<Val>,
    pub(crate) site: u32,
    /// The block that continues after it.
    pub(crate) resume: u32,
}

#[derive(Clone, Debug)]
pub(crate) enum Terminator {
    /// The end is not known yet.
    Open,
    Jump(u32),
    /// Leads to `then` if the register is true (or false with `negated`), else to `other`.
    Branch {
        reg: Reg,
        negated: bool,
        then: u32,
        other: u32,
    },
    Table {
        index: Val,
        targets: Vec<u32>,
    },
    /// The thread arrives at a synchronization point.
    Sync(u32),
    /// Counts down; at zero, the thread yields and resumes in `resume`.
    Yield {
        next: u32,
        resume: u32,
    },
    Call {
        callee: u32,
        back: u32,
    },
    CallIndirect {
        pointer: Val,
        callees: Vec<u32>,
        back: u32,
    },
    Return,
    Exit,
    Trap(u64),
}

#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) insts: Vec<Inst>,
    pub(crate) end: Terminator,
    pub(crate) function: u32,
    pub(crate) site: u32,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct FunctionInfo {
    /// Index in the image.
    pub(crate) image: u32,
    pub(crate) name: String,
    pub(crate) entry: u32,
    /// Whether each activation has a frame of its own.
    pub(crate) recursive: bool,
    /// Blocks after its calls, where its callers continue.
    pub(crate) returns: Vec<u32>,
    /// Where its variables are in local memory, if it is not recursive.
    pub(crate) base: u64,
    /// Functions that it calls and that call it, itself among them.
    pub(crate) component: Vec<u32>,
    /// Bytes of the frame, if it is recursive.
    pub(crate) frame: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct RegInfo {
    pub(crate) scalar: Scalar,
}

/// A place in the source that an error can name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site {
    pub(crate) module: u32,
    pub(crate) span: Span,
    pub(crate) place: Place,
    pub(crate) origin: Option<Origin>,
}

#[derive(Clone, Debug)]
pub(crate) struct SharedVariable {
    pub(crate) size: u64,
    pub(crate) align: u64,
    /// Whether the launch gives its size.
    pub(crate) dynamic: bool,
    /// Its offset in shared memory, set when all variables are known.
    pub(crate) offset: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    pub(crate) regs: Vec<RegInfo>,
    pub(crate) blocks: Vec<Block>,
    pub(crate) syncs: Vec<SyncPoint>,
    pub(crate) functions: Vec<FunctionInfo>,
    pub(crate) sites: Vec<Site>,
    pub(crate) shared: Vec<SharedVariable>,
    pub(crate) static_shared: u64,
    /// Where shared memory sized at launch begins.
    pub(crate) dynamic_shared: u64,
    /// Bytes of local memory that do not depend on recursion.
    pub(crate) local: u64,
    /// Whether the thread has a stack in local memory, because of recursive functions or `alloca`.
    pub(crate) stack: bool,
    /// Whether there are fences, or accesses that acquire or release, so that threads can order each other by strong accesses.
    pub(crate) ordered: bool,
}

/// Registers that every program has: where the current frame begins, and where the next one will.
pub(crate) const FRAME: Reg = 0;
pub(crate) const STACK: Reg = 1;
