//! The compute bridge: PyTorch's CUDA operators compute on the CPU over the same memory.
//!
//! Device memory is host memory, so a CUDA tensor can be read as a CPU tensor at no cost. For every operator that has a CUDA
//! kernel, `install` registers [`kernel::compute`] in its place: it gives the CPU's kernel of the same operator views of the
//! arguments (`view`), lets it allocate from PyTorch's CUDA caching allocator (`allocator`), and returns its results as CUDA
//! tensors. Everything above the kernels (autograd, autocast, checks, caching, streams) is PyTorch's own. An operator
//! without a CPU kernel of the same name is composed from others (`mapping`), or is a gap.

mod accesses;
mod allocator;
mod bytes;
mod current;
mod cxx;
mod exception;
mod forward;
mod generator;
mod graphed;
mod host;
mod install;
mod kernel;
mod late;
mod layout;
mod mapping;
mod mersenne;
mod method;
mod numbers;
mod object;
mod operator;
mod returned;
mod sums;
mod symbols;
mod unwritten;
mod value;
mod view;
mod views;

use std::sync::OnceLock;

use symbols::{Allocator, Symbols};

pub(crate) use install::{before_call, library_loaded};

/// libtorch in this process.
#[derive(Debug)]
struct Torch {
    symbols: Symbols,
    layout: layout::Layout,
    /// The allocator of CPU memory that was there before ours.
    cpu_allocator: Allocator,
}

// SAFETY: addresses of objects that live as long as the process and lock for themselves.
unsafe impl Send for Torch {}
// SAFETY: as above.
unsafe impl Sync for Torch {}

impl Torch {
    /// PyTorch's CUDA caching allocator, or the program's replacement.
    fn cuda_allocator(&self) -> Allocator {
        // SAFETY: a `std::atomic` of a pointer; loaded as one.
        unsafe { std::sync::atomic::AtomicPtr::from_ptr(self.symbols.cuda_allocator.cast_mut()) }
            .load(std::sync::atomic::Ordering::Acquire)
    }
}

static TORCH: OnceLock<Torch> = OnceLock::new();

/// libtorch, which `install` found before any code that asks for it can run.
#[expect(clippy::expect_used, reason = "see above: the bridge's kernels are registered after TORCH is set")]
fn torch() -> &'static Torch {
    TORCH.get().expect("the bridge is installed")
}
