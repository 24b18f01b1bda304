//! What a running kernel can access: the memory that its device may touch, the device's heap, and its output.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::Ordering;

use abi::cuda::CudaError;
use dataplane::lock::Mutex;
use protocol::ids::SiteId;
use ptx::{Assertion, Caller, Child, Host, Memory, Mistake, Multicast, Texels, Texture};

use super::children::{self, Children};
use super::condition;
use crate::device::Device;
use crate::device::memory::{self, Kind, Location, address, mapping, misuse, multicast, pool, texture};
use crate::sanitizer::owner::Blocks;

/// A kernel's view of its device.
pub(super) struct Grid<'a> {
    pub(super) device: &'static Device,
    /// Where the kernel was launched, if that is not the call under way.
    pub(super) site: Option<SiteId>,
    /// Blocks that the program's allocator had handed out at the launch, if checked.
    pub(super) blocks: Option<&'a Blocks>,
    /// Uninitialized memory, and where it was allocated.
    pub(super) unwritten: &'a [(Range<usize>, SiteId)],
    /// What it launches.
    pub(super) children: Children<'a>,
}

impl Grid<'_> {
    /// Whether a kernel may touch memory: its device's own, or that of a peer for which the program enabled it, in the way that
    /// belongs to that kind of memory.
    fn reaches(&self, location: &Location) -> bool {
        let own = self.device.ordinal;
        match location.kind {
            Kind::Mapped => mapping::access(location.base, (mapping::ON_DEVICE, own as i32)).is_none_or(|may| may > 0),
            _ if location.device.ordinal == own => true,
            Kind::Plain | Kind::Internal => self.device.peers.has(location.device.ordinal),
            // Memory outlives its pool.
            Kind::Pool(pool) => pool::resolve(pool).map_or(true, |pool| pool.access(own) > 0),
            Kind::Graph(_) | Kind::Managed | Kind::Imported => true,
        }
    }
}

impl Memory for Grid<'_> {
    fn range(&self, address: u64) -> Option<Range<u64>> {
        let address = usize::try_from(address).ok()?;
        let range = |base: usize, size: usize| base as u64..(base + size) as u64;
        if let Some(location) = address::locate(address) {
            if !self.reaches(&location) {
                return None;
            }
            let whole = location.base..location.base + location.size;
            let part = match self.blocks {
                Some(blocks) if location.kind == Kind::Plain => blocks.part(address, whole)?,
                _ => whole,
            };
            return Some(part.start as u64..part.end as u64);
        }
        // Host memory that CUDA knows has one address for all (unified addressing).
        memory::locate_host(address).map(|host| range(host.base, host.size))
    }

    fn multicast(&self, address: u64) -> Option<Multicast> {
        let address = usize::try_from(address).ok()?;
        let own = (mapping::ON_DEVICE, self.device.ordinal as i32);
        let (range, copies) = multicast::copies(address).filter(|_| mapping::access(address, own) != Some(0))?;
        let copies = copies.into_iter().map(|copy| copy as u64).collect();
        Some(Multicast { range: range.start as u64..range.end as u64, copies })
    }

    fn texture(&self, handle: u64) -> Option<Texture> {
        texture::seen(handle)
    }

    fn surface(&self, handle: u64) -> Option<Texels> {
        texture::seen_surface(handle)
    }
}

impl Host for Grid<'_> {
    fn mistake(&self, mistake: &Mistake) {
        misuse::noticed(mistake, self.site, |address| {
            let found = self.unwritten.iter().find(|(range, _)| range.end as u64 > address);
            found.map(|(_, site)| *site)
        });
    }

    fn print(&self, text: &[u8]) {
        self.device.output.print(text);
    }

    fn assertion(&self, assertion: &Assertion) {
        let Assertion { message, file, line, function, block: [bx, by, bz], thread: [x, y, z] } = assertion;
        self.device.output.assert(&format!(
            "{file}:{line}: {function}: block: [{bx},{by},{bz}], thread: [{x},{y},{z}] Assertion `{message}` failed.\n"
        ));
    }

    fn parameters(&self, child: &Child) -> u64 {
        self.children.parameters(child)
    }

    fn launch(&self, from: &Caller, parameters: u64, stream: u64) -> u32 {
        self.children.launch(from, parameters, stream)
    }

    fn copy(&self, from: &Caller, to: u64, source: u64, bytes: u64, stream: u64) -> u32 {
        self.children.copy(from, to, source, bytes, stream)
    }

    fn stream(&self) -> u64 {
        children::stream()
    }

    fn last_error(&self, from: &Caller, forget: bool) -> u32 {
        self.children.last_error(from, forget)
    }

    fn error_text(&self, code: u32) -> u64 {
        children::error_text(self.device, code)
    }

    fn set_conditional(&self, handle: u64, value: u32) {
        if condition::set(handle, value).is_err() {
            eprintln!(
                "fakegpu: device {}: cudaGraphSetConditional: {handle:#x} is not a condition of a graph",
                self.device.ordinal
            );
            self.device.fail(CudaError::LAUNCH_FAILURE);
        }
    }

    fn malloc(&self, bytes: u64) -> u64 {
        let limit = self.device.limits[2].load(Ordering::Relaxed);
        let Some(bytes) = usize::try_from(bytes).ok().filter(|bytes| (1..=limit).contains(bytes)) else { return 0 };
        let mut heaps = HEAPS.lock();
        let heap = heaps.entry(self.device.ordinal).or_default();
        let held: usize = heap.iter().map(|block| block.1).sum();
        if held + bytes > limit {
            return 0;
        }
        let Ok(address) = memory::allocate(self.device, bytes, Kind::Internal) else { return 0 };
        heap.push((address, bytes));
        address as u64
    }

    fn free(&self, address: u64) {
        let mut heaps = HEAPS.lock();
        let heap = heaps.entry(self.device.ordinal).or_default();
        if let Some(index) = heap.iter().position(|block| block.0 as u64 == address) {
            let (address, _) = heap.swap_remove(index);
            memory::free_internal(address);
        }
    }
}

/// Memory that kernels allocated and did not free (address and bytes), by device: it persists between launches.
static HEAPS: Mutex<BTreeMap<u32, Vec<(usize, usize)>>> = Mutex::new(BTreeMap::new());
