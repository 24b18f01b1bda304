//! What a kernel needs from its caller: memory to touch, and a host that prints, reports assertions and allocates.

use std::ops::Range;

use crate::host::mistake::Mistake;
use crate::host::texture::{Texels, Texture};

/// Which global memory a kernel may touch. Addresses are the process's own.
pub trait Memory: Sync {
    /// The allocation that holds an address, or `None`. What is inside is read and written without further questions until the
    /// launch ends, so an allocation must not go away meanwhile.
    fn range(&self, address: u64) -> Option<Range<u64>>;

    /// What the multicast address stands for, or `None`. As with a range, it must not go away until the launch ends.
    fn multicast(&self, _address: u64) -> Option<Multicast> {
        None
    }

    /// The texture object with this handle, or `None`.
    fn texture(&self, _handle: u64) -> Option<Texture> {
        None
    }

    /// The texels of the surface object with this handle, or `None`.
    fn surface(&self, _handle: u64) -> Option<Texels> {
        None
    }
}

/// Multicast addresses, and the memory of every device of their team.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Multicast {
    /// The addresses.
    pub range: Range<u64>,
    /// Where the first of them is at each device, in memory of as many bytes.
    pub copies: Vec<u64>,
}

impl Multicast {
    pub(crate) fn contains(&self, address: u64, bytes: u64) -> bool {
        self.range.contains(&address) && bytes <= self.range.end - address
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

/// The thread that makes a request of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Caller {
    /// Block index.
    pub block: [u32; 3],
    /// Thread index.
    pub thread: [u32; 3],
    /// The block's place in the grid, with x running fastest.
    pub number: u64,
}

/// A kernel that a kernel is about to launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child {
    /// Its address as the program knows it: [`crate::Image::kernel_at`].
    pub function: u64,
    /// Blocks by dimension.
    pub grid: [u32; 3],
    /// Threads of a block by dimension.
    pub block: [u32; 3],
    /// Bytes of shared memory beyond the kernel's own.
    pub shared_bytes: u32,
}

/// What kernels ask of their host. Called from all workers.
pub trait Host: Sync {
    /// `printf`: the formatted text.
    fn print(&self, text: &[u8]);
    /// A failed `assert`; the launch stops after it.
    fn assertion(&self, assertion: &Assertion);
    /// Memory from the device's heap, immediately visible to [`Memory::range`]; 0 if there is none left.
    fn malloc(&self, bytes: u64) -> u64;
    /// Frees memory that came from `malloc`.
    fn free(&self, address: u64);
    /// Memory for the parameters of a kernel that a thread is about to launch; 0 if there is none.
    fn parameters(&self, _child: &Child) -> u64 {
        0
    }
    /// Launches the kernel whose parameters were written there; returns a `cudaError_t`. It may begin when the grid has ended.
    fn launch(&self, _from: &Caller, _parameters: u64, _stream: u64) -> u32 {
        NOT_SUPPORTED
    }
    /// Copies, like a launched kernel; returns a `cudaError_t`.
    fn copy(&self, _from: &Caller, _to: u64, _source: u64, _bytes: u64, _stream: u64) -> u32 {
        NOT_SUPPORTED
    }
    /// Handle of a new stream for launches.
    fn stream(&self) -> u64 {
        0
    }
    /// The last error that a thread got from launches and copies; clears it if asked to.
    fn last_error(&self, _from: &Caller, _forget: bool) -> u32 {
        0
    }
    /// Address of an error's zero-terminated description; 0 if there is no memory left.
    fn error_text(&self, _code: u32) -> u64 {
        0
    }
    /// Sets the value of a conditional node of the running graph.
    fn set_conditional(&self, _handle: u64, _value: u32) {}
    /// A mistake that the checks of the kernel found. All are reported when the launch is over, in the order of its blocks, by the
    /// caller's thread.
    fn mistake(&self, _mistake: &Mistake) {}
}

/// `cudaErrorNotSupported`
const NOT_SUPPORTED: u32 = 801;
