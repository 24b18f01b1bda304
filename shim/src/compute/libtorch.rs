//! The libtorch of this process: its symbols, and where its objects keep what the bridge reads.

use std::sync::OnceLock;

use super::layout::Layout;
use super::symbols::{Allocator, Symbols};

/// libtorch in this process.
#[derive(Debug)]
pub(super) struct Torch {
    pub(super) symbols: Symbols,
    pub(super) layout: Layout,
    /// The allocator of CPU memory that was there before ours.
    pub(super) cpu_allocator: Allocator,
}

// SAFETY: addresses of objects that live as long as the process and lock for themselves.
unsafe impl Send for Torch {}
// SAFETY: as above.
unsafe impl Sync for Torch {}

impl Torch {
    /// PyTorch's CUDA caching allocator, or the program's replacement.
    pub(super) fn cuda_allocator(&self) -> Allocator {
        // SAFETY: a `std::atomic` of a pointer; loaded as one.
        unsafe { std::sync::atomic::AtomicPtr::from_ptr(self.symbols.cuda_allocator.cast_mut()) }
            .load(std::sync::atomic::Ordering::Acquire)
    }
}

/// Set once by `install`.
pub(super) static TORCH: OnceLock<Torch> = OnceLock::new();

/// libtorch, which `install` found before any code that asks for it can run.
#[expect(clippy::expect_used, reason = "see above: the bridge's kernels are registered after TORCH is set")]
pub(super) fn torch() -> &'static Torch {
    TORCH.get().expect("the bridge is installed")
}
