//! A rank's request to a communicator: the operation, its arguments and the location of its buffers.

use protocol::datatype::{Datatype, Operation, ReductionOp};
use protocol::ids::SiteId;
use protocol::ready::Ready;
use protocol::record::{ErrorCode, Issue};

use crate::failure::Failure;

/// The location of a buffer in a memory file, so that ranks in other processes can map it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Place {
    /// Identity of the file (inode number): a descriptor number may be reused, but this is not.
    pub file_id: u64,
    /// Length of the file, bytes.
    pub length: u64,
    /// Offset of the buffer in the file, bytes.
    pub offset: u64,
    /// Descriptor in the owner's process.
    pub fd: i32,
    /// 1 if the fields above are valid.
    pub valid: u32,
}

/// A buffer of the caller: its address here and, if it is in an arena, its place there.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    /// First byte in this process; null if the operation does not use the buffer.
    pub address: *mut u8,
    /// `None` for memory outside the arenas (pinned or ordinary host memory): it travels through a bounce file.
    pub place: Option<Place>,
}

// SAFETY: the address is only followed while an operation runs, when the caller has promised that the buffer is live.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// No buffer.
    pub const NONE: Self = Self { address: std::ptr::null_mut(), place: None };

    /// Ordinary memory of this process.
    pub fn host(address: *mut u8) -> Self {
        Self { address, place: None }
    }
}

/// The factor of a pre-multiplied sum.
#[derive(Clone, Copy, Debug)]
pub enum Scalar {
    /// The factor's bytes, as one element of the operation's datatype.
    Immediate([u8; 8]),
    /// The factor's address, which is read when the operation runs.
    Memory(*const u8),
}

// SAFETY: the address is read while an operation runs, when the caller has promised that it is live.
unsafe impl Send for Scalar {}
// SAFETY: as above.
unsafe impl Sync for Scalar {}

/// Where in another rank's memory a one-sided put goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Number of the window: the n-th that every rank of the communicator registered.
    pub window: u64,
    /// Offset of the first byte in it.
    pub offset: u64,
}

/// One operation, as called by one rank.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The operation.
    pub operation: Operation,
    /// Number of elements, counted as in NCCL's argument for that operation.
    pub count: u64,
    /// Element type.
    pub datatype: Datatype,
    /// The operator of a reduction.
    pub reduction: Option<ReductionOp>,
    /// The factor of `PreMulSum`.
    pub scalar: Option<Scalar>,
    /// The root, if the operation has one.
    pub root: Option<u32>,
    /// The other rank of a send, a recv or a one-sided operation.
    pub peer: Option<u32>,
    /// Where a put writes.
    pub remote: Option<Remote>,
    /// The buffer that the operation reads.
    pub send: Buffer,
    /// The buffer that the operation writes.
    pub receive: Buffer,
    /// Where the program called it.
    pub site: SiteId,
    /// When the program issued it.
    pub issue: Issue,
    /// When this rank is ready for it on the modeled clock, ns; 0 without one.
    pub ready_ns: u64,
    /// The program's operation, if this call only carries a description of it.
    pub carries: Option<Operation>,
}

impl Call {
    /// When this rank, of this number in the communicator, is ready for it.
    pub(crate) fn ready(&self, rank: u32) -> Ready {
        Ready { ns: self.ready_ns, rank }
    }

    /// A call without buffers, reduction, root or peer, to be filled in.
    pub fn new(operation: Operation, count: u64, datatype: Datatype) -> Self {
        Self {
            operation,
            count,
            datatype,
            reduction: None,
            scalar: None,
            root: None,
            peer: None,
            remote: None,
            send: Buffer::NONE,
            receive: Buffer::NONE,
            site: SiteId::default(),
            issue: Issue::default(),
            ready_ns: 0,
            carries: None,
        }
    }

    /// The operation that the program called, for messages.
    pub(crate) fn called(&self) -> Operation {
        self.carries.unwrap_or(self.operation)
    }

    /// Bytes of `count` elements.
    pub fn block_bytes(&self) -> usize {
        self.count as usize * self.datatype.size()
    }

    /// Bytes that `rank` of `size` contributes.
    pub fn send_bytes(&self, rank: u32, size: u32) -> usize {
        let (block, all) = (self.block_bytes(), self.block_bytes() * size as usize);
        let at_root = |bytes| if self.root == Some(rank) { bytes } else { 0 };
        match self.operation {
            Operation::AllReduce
            | Operation::Reduce
            | Operation::AllGather
            | Operation::Gather
            | Operation::Send
            | Operation::PutSignal => block,
            Operation::ReduceScatter | Operation::AllToAll => all,
            Operation::Broadcast => at_root(block),
            Operation::Scatter => at_root(all),
            Operation::Barrier
            | Operation::Recv
            | Operation::Split
            | Operation::Shrink
            | Operation::Grow
            | Operation::Signal
            | Operation::WaitSignal => 0,
        }
    }

    /// Bytes that `rank` of `size` receives.
    pub fn receive_bytes(&self, rank: u32, size: u32) -> usize {
        let (block, all) = (self.block_bytes(), self.block_bytes() * size as usize);
        let at_root = |bytes| if self.root == Some(rank) { bytes } else { 0 };
        match self.operation {
            Operation::AllReduce
            | Operation::Broadcast
            | Operation::ReduceScatter
            | Operation::Scatter
            | Operation::Recv => block,
            Operation::AllGather | Operation::AllToAll => all,
            Operation::Reduce => at_root(block),
            Operation::Gather => at_root(all),
            Operation::Barrier
            | Operation::Send
            | Operation::Split
            | Operation::Shrink
            | Operation::Grow
            | Operation::PutSignal
            | Operation::Signal
            | Operation::WaitSignal => 0,
        }
    }

    /// The most bytes that any rank contributes. Decides, identically on all ranks, whether the payload travels in the
    /// descriptor.
    pub(crate) fn largest_contribution(&self, size: u32) -> usize {
        let root = self.root.unwrap_or(0);
        self.send_bytes(root, size)
    }

    /// The bytes of the factor, read now.
    pub(crate) fn scalar_bytes(&self) -> [u8; 8] {
        match self.scalar {
            None => [0; 8],
            Some(Scalar::Immediate(bytes)) => bytes,
            Some(Scalar::Memory(address)) => {
                let mut bytes = [0; 8];
                // SAFETY: the caller promised an element of the datatype there while the operation runs.
                unsafe { std::ptr::copy_nonoverlapping(address, bytes.as_mut_ptr(), self.datatype.size()) };
                bytes
            }
        }
    }

    /// Checks for arguments that no communicator accepts.
    ///
    /// # Errors
    /// `InvalidArgument` with a sentence.
    pub(crate) fn check(&self, rank: u32, size: u32) -> Result<(), Failure> {
        let refuse = |detail: String| Err(Failure::new(ErrorCode::InvalidArgument, detail));
        let name = self.operation;
        let total = (self.count as u128) * (self.datatype.size() as u128) * u128::from(size);
        if total > isize::MAX as u128 {
            return refuse(format!(
                "{name}: {} elements of {} are more than an address space",
                self.count, self.datatype
            ));
        }
        for (what, other) in [("root", self.root), ("peer", self.peer)] {
            if let Some(other) = other.filter(|other| *other >= size) {
                return refuse(format!("{name}: {what} {other} is not a rank of a communicator of {size}"));
            }
        }
        if self.send_bytes(rank, size) > 0 && self.send.address.is_null() {
            return refuse(format!("{name}: the send buffer is null"));
        }
        if self.receive_bytes(rank, size) > 0 && self.receive.address.is_null() {
            return refuse(format!("{name}: the receive buffer is null"));
        }
        Ok(())
    }

    /// The call in human-readable form: "all_reduce(count 4, float32, sum)".
    pub fn describe(&self) -> String {
        let mut text = format!("{}(count {}, {}", self.operation, self.count, self.datatype);
        if let Some(op) = self.reduction {
            text.push_str(&format!(", {op}"));
        }
        if let Some(root) = self.root {
            text.push_str(&format!(", root {root}"));
        }
        if let Some(peer) = self.peer {
            text.push_str(&format!(", peer {peer}"));
        }
        text.push(')');
        text
    }
}
