//! The names of operations and operands in the text of a program: one list of each kind, for the printer and for the reader.

use super::program::*;
use crate::host::memory_ops::AddressSpace;

/// A value that text names.
pub(crate) trait Named: Copy + PartialEq + 'static {
    /// All names with their values.
    const NAMES: &'static [(&'static str, Self)];

    /// The name of a value, if it has one.
    fn name(self) -> Option<&'static str> {
        Self::NAMES.iter().find(|(_, value)| *value == self).map(|(name, _)| *name)
    }

    /// The value of a name.
    fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

impl Named for IntOp {
    /// All but `lop3`, whose name includes its table.
    const NAMES: &'static [(&'static str, Self)] = &[
        ("add", Self::Add),
        ("sub", Self::Sub),
        ("mul", Self::Mul),
        ("mul.hi", Self::MulHi),
        ("mul.wide", Self::MulWide),
        ("div", Self::Div),
        ("rem", Self::Rem),
        ("min", Self::Min),
        ("max", Self::Max),
        ("and", Self::And),
        ("or", Self::Or),
        ("xor", Self::Xor),
        ("not", Self::Not),
        ("cnot", Self::Cnot),
        ("neg", Self::Neg),
        ("abs", Self::Abs),
        ("shl", Self::Shl),
        ("shr", Self::Shr),
        ("popc", Self::Popc),
        ("clz", Self::Clz),
        ("brev", Self::Brev),
        ("add.sat", Self::AddSat),
        ("sub.sat", Self::SubSat),
        ("shf.l.wrap", Self::Funnel { left: true, wrap: true }),
        ("shf.l.clamp", Self::Funnel { left: true, wrap: false }),
        ("shf.r.wrap", Self::Funnel { left: false, wrap: true }),
        ("shf.r.clamp", Self::Funnel { left: false, wrap: false }),
        ("addc", Self::Carry { sub: false }),
        ("subc", Self::Carry { sub: true }),
        ("extend", Self::Extend),
    ];
}

impl Named for FloatOp {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("add", Self::Add),
        ("sub", Self::Sub),
        ("mul", Self::Mul),
        ("fma", Self::Fma),
        ("div", Self::Div),
        ("sqrt", Self::Sqrt),
        ("neg", Self::Neg),
        ("abs", Self::Abs),
        ("min", Self::Min { nan: false }),
        ("min.nan", Self::Min { nan: true }),
        ("max", Self::Max { nan: false }),
        ("max.nan", Self::Max { nan: true }),
        ("round.nearest", Self::Round(Rounding::Nearest)),
        ("round.zero", Self::Round(Rounding::Zero)),
        ("round.down", Self::Round(Rounding::Down)),
        ("round.up", Self::Round(Rounding::Up)),
    ];
}

impl Named for Compare {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("eq", Self::Eq),
        ("ne", Self::Ne),
        ("lt", Self::Lt),
        ("le", Self::Le),
        ("gt", Self::Gt),
        ("ge", Self::Ge),
        ("equ", Self::Equ),
        ("neu", Self::Neu),
        ("ltu", Self::Ltu),
        ("leu", Self::Leu),
        ("gtu", Self::Gtu),
        ("geu", Self::Geu),
        ("num", Self::Num),
        ("nan", Self::Nan),
    ];
}

impl Named for Logic {
    const NAMES: &'static [(&'static str, Self)] = &[("and", Self::And), ("or", Self::Or), ("xor", Self::Xor)];
}

impl Named for AddressSpace {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("generic", Self::Generic),
        ("global", Self::Global),
        ("shared", Self::Shared),
        ("local", Self::Local),
        ("param", Self::KernelParam),
    ];
}

/// The names of all but `Convergence::Mask`, which names a source.
impl Named for Convergence {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("warp", Self::Warp),
        ("arrived", Self::Arrived),
        ("block", Self::Block),
        ("cluster", Self::Cluster),
        ("alone", Self::Alone),
        ("pace", Self::Pace),
    ];
}

/// The names of the special registers without a number.
impl Named for Special {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("clusterctarank", Self::ClusterCtarank),
        ("clusternctarank", Self::ClusterNctarank),
        ("isexplicitcluster", Self::IsExplicitCluster),
        ("lane", Self::Lane),
        ("warp", Self::Warp),
        ("nwarp", Self::Nwarp),
        ("sm", Self::Sm),
        ("nsm", Self::Nsm),
        ("grid", Self::Grid),
        ("lanemask.eq", Self::LaneMask(Mask::Eq)),
        ("lanemask.lt", Self::LaneMask(Mask::Lt)),
        ("lanemask.le", Self::LaneMask(Mask::Le)),
        ("lanemask.gt", Self::LaneMask(Mask::Gt)),
        ("lanemask.ge", Self::LaneMask(Mask::Ge)),
        ("dynamicshared", Self::DynamicShared),
        ("totalshared", Self::TotalShared),
        ("aggrshared", Self::AggrShared),
        ("zero", Self::Zero),
        ("currentgraphexec", Self::CurrentGraphExec),
        ("parambase", Self::ParamBase),
    ];
}

/// A kind of special register of which there are several.
pub(crate) type Numbered = (&'static str, fn(u8) -> Special);

/// The special registers of which there is one for each axis.
pub(crate) const OF_AXES: [Numbered; 8] = [
    ("tid", Special::Tid),
    ("ntid", Special::Ntid),
    ("ctaid", Special::Ctaid),
    ("nctaid", Special::Nctaid),
    ("clusterid", Special::ClusterId),
    ("nclusterid", Special::NclusterId),
    ("clusterctaid", Special::ClusterCtaid),
    ("clusternctaid", Special::ClusterNctaid),
];

/// The special registers with a number.
pub(crate) const NUMBERED: [Numbered; 3] =
    [("clock", Special::Clock), ("workspace", Special::Workspace), ("reservedshared", Special::ReservedShared)];

/// What the axes are called, by their numbers.
pub(crate) const AXES: [&str; 4] = ["x", "y", "z", "3"];
