//! Constants about memory shared by compiled code and helpers.

/// Where generic addresses of shared memory begin; bits 24 and up of the offset are a block of the cluster plus one.
pub const SHARED_WINDOW: u64 = 0x0100_0000_0000_0000;
/// Where generic addresses of the thread's own local memory begin.
pub const LOCAL_WINDOW: u64 = 0x0200_0000_0000_0000;

pub(crate) const IS_GLOBAL: u64 = 0;
pub(crate) const IS_SHARED: u64 = 1;
pub(crate) const IS_SHARED_CLUSTER: u64 = 2;
pub(crate) const IS_LOCAL: u64 = 3;
pub(crate) const IS_NONE: u64 = 4;

pub(crate) const MBARRIER_INIT: u64 = 0;
pub(crate) const MBARRIER_INVAL: u64 = 1;
pub(crate) const MBARRIER_EXPECT_TX: u64 = 2;
pub(crate) const MBARRIER_COMPLETE_TX: u64 = 3;
pub(crate) const MBARRIER_ARRIVE: u64 = 4;
pub(crate) const MBARRIER_DROP: u64 = 5;
pub(crate) const MBARRIER_TEST: u64 = 6;
pub(crate) const MBARRIER_TEST_PARITY: u64 = 7;
pub(crate) const MBARRIER_PENDING: u64 = 8;

/// What an access does to its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
    StrongRead,
    StrongWrite,
    Atomic,
    /// Reads and writes an object that the machine keeps in the program's memory: an mbarrier.
    Object,
}

impl Access {
    const ALL: [Self; 6] = [Self::Read, Self::Write, Self::StrongRead, Self::StrongWrite, Self::Atomic, Self::Object];

    /// The one with this number, as compiled code passes it.
    pub(crate) fn from_number(number: u64) -> Self {
        Self::ALL.get(number as usize).copied().unwrap_or(Self::Object)
    }

    pub(crate) fn writes(self) -> bool {
        !matches!(self, Self::Read | Self::StrongRead)
    }
}

/// The address space of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressSpace {
    Generic,
    Global,
    Shared,
    Local,
    KernelParam,
}

impl AddressSpace {
    const ALL: [Self; 5] = [Self::Generic, Self::Global, Self::Shared, Self::Local, Self::KernelParam];

    /// The one with this number, as compiled code passes it.
    pub(crate) fn from_number(number: u64) -> Self {
        Self::ALL.get(number as usize).copied().unwrap_or(Self::KernelParam)
    }
}
