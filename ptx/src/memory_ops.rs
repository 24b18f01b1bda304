//! Numbers that code and helpers share about memory.

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

/// The address space of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressSpace {
    Generic,
    Global,
    Shared,
    Local,
    KernelParam,
}
