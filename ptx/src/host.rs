//! What a kernel needs from its caller: memory to touch, and a host that prints, reports assertions and allocates.

use std::ops::Range;

use crate::mistake::Mistake;
use crate::texture::{Texels, Texture};

/// Which global memory a kernel may touch. Addresses are the process's own.
pub trait Memory: Sync {
    /// The allocation that holds an address, or `None`. What is inside is read and written without further questions until the
    /// launch ends, so an allocation must not go away meanwhile.
    fn range(&self, address: u64) -> Option<Range<u64>>;

    /// The texture object behind a handle, or `None`.
    fn texture(&self, _handle: u64) -> Option<Texture> {
        None
    }

    /// The texels of the surface object behind a handle, or `None`.
    fn surface(&self, _handle: u64) -> Option<Texels> {
        None
    }
}

/// A failed `assert` of device code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assertion {
    /// The condition.
    pub message: String,
    /// Source file.
    pub file: String,
    /// Its line.
    pub line: u32,
    /// The function.
    pub function: String,
    /// Block index.
    pub block: [u32; 3],
    /// Thread index.
    pub thread: [u32; 3],
}

/// What kernels ask of their host. Called from all workers.
pub trait Host: Sync {
    /// `printf`: the formatted text.
    fn print(&self, text: &[u8]);
    /// A failed `assert`; the launch stops behind it.
    fn assertion(&self, assertion: &Assertion);
    /// Memory of the device's heap, in reach of [`Memory::range`] at once; 0 where there is none left.
    fn malloc(&self, bytes: u64) -> u64;
    /// Gives it back.
    fn free(&self, address: u64);
    /// What the checks of the kernel found: told when the launch is over, in the order of its blocks, by the caller's thread.
    fn mistake(&self, _mistake: &Mistake) {}
}
