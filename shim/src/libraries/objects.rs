//! The objects that NVIDIA's libraries create and destroy: a library handle with its stream, and opaque descriptors.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use abi::argument::{Null, Out};
use abi::handle::Handles;

/// Kinds of handle tables, which distinguish the handles of one from those of another; `device` and `nccl` use those below
/// 0x40.
pub(super) mod kind {
    pub(crate) const CUBLAS: u8 = 0x40;
    pub(crate) const CUBLASLT: u8 = 0x41;
    pub(crate) const CUBLASLT_OBJECT: u8 = 0x42;
    pub(crate) const CUDNN: u8 = 0x43;
    pub(crate) const CUDNN_TENSOR: u8 = 0x4a;
    pub(crate) const CUSOLVER: u8 = 0x44;
    pub(crate) const CUSOLVER_OBJECT: u8 = 0x45;
    pub(crate) const CUSPARSE: u8 = 0x46;
    pub(crate) const CUSPARSE_OBJECT: u8 = 0x47;
    pub(crate) const NVRTC: u8 = 0x48;
    pub(crate) const NVJITLINK: u8 = 0x49;
    pub(crate) const CURAND: u8 = 0x4b;
    pub(crate) const CUDNN_DESCRIPTOR: u8 = 0x4c;
    pub(crate) const CUSPARSE_SPARSE: u8 = 0x4d;
    pub(crate) const CUSPARSE_DENSE: u8 = 0x4e;
    pub(crate) const CUSPARSE_VECTOR: u8 = 0x4f;
    pub(crate) const CUSPARSE_SPARSE_VECTOR: u8 = 0x50;
    pub(crate) const CUSPARSE_PRODUCT: u8 = 0x51;
}

/// A code of one of these libraries, returned to C unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Code(pub(super) u32);

impl From<Code> for u32 {
    fn from(code: Code) -> Self {
        code.0
    }
}

/// The result of a body.
pub(super) type Answer<T = ()> = Result<T, Code>;

/// A library's codes for an invalid handle or argument.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refusals {
    /// The code for a handle that is not alive.
    pub(super) handle: u32,
    /// The code for any other bad argument.
    pub(super) value: u32,
}

impl Refusals {
    /// The result for a null pointer.
    pub(super) fn null(self) -> impl Fn(Null) -> Code {
        move |Null| Code(self.value)
    }

    /// The result for an undocumented value.
    pub(super) fn value<T>(self) -> Answer<T> {
        Err(Code(self.value))
    }
}

/// A library's live objects of one kind, with the codes for errors.
pub(super) struct Objects<T> {
    table: Handles<T>,
    refusals: Refusals,
}

impl<T> Objects<T> {
    /// An empty table.
    pub(super) const fn new(kind: u8, refusals: Refusals) -> Self {
        Self { table: Handles::new(kind), refusals }
    }

    /// Stores `object` and returns its handle to C.
    pub(super) fn create(&self, out: Out<usize>, object: T) -> Answer {
        // Asked for first, so that a null pointer leaves nothing behind.
        let out = out.required().map_err(self.refusals.null())?;
        out.set(self.table.insert(Arc::new(object))).map_err(self.refusals.null())
    }

    /// The object behind a handle.
    pub(super) fn get(&self, handle: usize) -> Answer<Arc<T>> {
        self.table.get(handle).ok_or(Code(self.refusals.handle))
    }

    /// Ends an object.
    pub(super) fn destroy(&self, handle: usize) -> Answer {
        self.table.remove(handle).map(drop).ok_or(Code(self.refusals.handle))
    }
}

/// The stream that a library handle works in; 0 is the default stream.
#[derive(Debug, Default)]
pub(super) struct Stream(AtomicUsize);

impl Stream {
    /// Chooses the stream.
    pub(super) fn set(&self, stream: usize) {
        self.0.store(stream, Ordering::Relaxed);
    }

    /// The stream chosen last.
    pub(super) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}
