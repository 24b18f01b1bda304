//! The team of a multicast object: its devices, and the memory that each has bound. All processes of a team map one memory file that
//! says so.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use abi::cuda::{CudaError, CudaResult};
use dataplane::arena::Arena;
use dataplane::futex;
use dataplane::lock::Mutex;
use dataplane::refusal;
use dataplane::settings::Settings;

use super::ipc;
use crate::device::Device;

const MAGIC: u64 = u64::from_le_bytes(*b"ftestmc1");

/// Devices of a team at most.
const MOST_DEVICES: usize = 64;
/// Pieces of memory that are bound at one time, at most.
const MOST_BINDINGS: usize = 1024;

/// The memory file.
#[repr(C)]
struct Header {
    magic: AtomicU64,
    size: AtomicU64,
    /// How many devices the team has.
    devices: AtomicU32,
    /// How many were added.
    added: AtomicU32,
    /// The added devices: the number of the GPU in its node, plus one.
    members: [AtomicU32; MOST_DEVICES],
    bindings: [Binding; MOST_BINDINGS],
}

/// Memory of a device for a part of the object: a range of a file that a process holds.
#[repr(C)]
struct Binding {
    state: AtomicU32,
    /// The number of the GPU in its node.
    device: AtomicU32,
    process: AtomicU32,
    fd: AtomicU32,
    /// The identity of the file.
    file: AtomicU64,
    /// The offset in the file.
    at: AtomicU64,
    /// The offset in the object.
    start: AtomicU64,
    size: AtomicU64,
}

const FREE: u32 = 0;
const TAKEN: u32 = 1;
const BOUND: u32 = 2;

/// A piece of memory that is bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Bound {
    device: u32,
    slot: usize,
    process: u32,
    fd: u32,
    file: u64,
    at: usize,
    start: usize,
    size: usize,
}

impl Bound {
    fn part(&self) -> Part {
        Part { fd: self.fd as i32, file: self.file, at: self.at, size: self.size }
    }
}

impl Binding {
    fn get(&self, slot: usize) -> Option<Bound> {
        let word = |word: &AtomicU32| word.load(Ordering::Relaxed);
        let long = |long: &AtomicU64| long.load(Ordering::Relaxed);
        (self.state.load(Ordering::Acquire) == BOUND).then(|| Bound {
            device: word(&self.device),
            slot,
            process: word(&self.process),
            fd: word(&self.fd),
            file: long(&self.file),
            at: long(&self.at) as usize,
            start: long(&self.start) as usize,
            size: long(&self.size) as usize,
        })
    }

    fn set(&self, bound: &Bound) {
        let Bound { device, process, fd, file, at, start, size, .. } = *bound;
        for (word, value) in [(&self.device, device), (&self.process, process), (&self.fd, fd)] {
            word.store(value, Ordering::Relaxed);
        }
        for (long, value) in
            [(&self.file, file), (&self.at, at as u64), (&self.start, start as u64), (&self.size, size as u64)]
        {
            long.store(value, Ordering::Relaxed);
        }
        self.state.store(BOUND, Ordering::Release);
    }
}

/// Memory to bind: a range of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// A descriptor of this process.
    pub(super) fd: i32,
    /// The file's identity.
    pub(super) file: u64,
    /// The offset in the file.
    pub(super) at: usize,
    /// Bytes.
    pub(super) size: usize,
}

/// A team, and what this process has bound, as memory of type `M`.
#[derive(Debug)]
pub(super) struct Team<M> {
    file: Arena,
    /// What this process has bound, by the place in the list of bindings.
    own: Mutex<BTreeMap<usize, M>>,
    /// Memory of others, and own memory that the program has mapped nowhere: where a range of a file (its identity, an offset, bytes) is.
    views: Mutex<BTreeMap<(u64, usize, usize), usize>>,
}

impl<M> Drop for Team<M> {
    fn drop(&mut self) {
        for slot in self.own.lock().keys() {
            self.header().bindings[*slot].state.store(FREE, Ordering::Release);
        }
        for ((_, _, size), address) in &*self.views.lock() {
            // SAFETY: a mapping that only the kernels of this object's mappings accessed, and those are gone.
            unsafe { libc::munmap(*address as *mut libc::c_void, *size) };
        }
    }
}

impl<M> Team<M> {
    /// A new object of `size` bytes for as many devices.
    ///
    /// # Errors
    /// `INVALID_VALUE` for no devices or too many, `MEMORY_ALLOCATION`.
    pub(super) fn new(devices: u32, size: usize) -> CudaResult<Self> {
        if devices == 0 || devices as usize > MOST_DEVICES {
            return Err(CudaError::INVALID_VALUE);
        }
        let file = Arena::create("fakegpu-multicast", size_of::<Header>()).map_err(|error| {
            refusal::explain("a multicast object cannot be created", &error);
            CudaError::MEMORY_ALLOCATION
        })?;
        let team = Self { file, own: Mutex::new(BTreeMap::new()), views: Mutex::new(BTreeMap::new()) };
        let header = team.header();
        header.devices.store(devices, Ordering::Relaxed);
        header.size.store(size as u64, Ordering::Relaxed);
        header.magic.store(MAGIC, Ordering::Release);
        Ok(team)
    }

    /// The object behind a descriptor; `None` if it is none.
    pub(super) fn import(fd: i32) -> Option<Self> {
        let status = std::fs::metadata(format!("/proc/self/fd/{fd}")).ok()?;
        if status.len() != size_of::<Header>() as u64 {
            return None;
        }
        let file = Arena::open(std::process::id(), fd, size_of::<Header>()).ok()?;
        let team = Self { file, own: Mutex::new(BTreeMap::new()), views: Mutex::new(BTreeMap::new()) };
        (team.header().magic.load(Ordering::Acquire) == MAGIC).then_some(team)
    }

    /// The memory file.
    pub(super) fn fd(&self) -> i32 {
        self.file.fd()
    }

    /// The memory file's identity.
    pub(super) fn file_id(&self) -> u64 {
        self.file.file_id()
    }

    /// Bytes.
    pub(super) fn size(&self) -> usize {
        self.header().size.load(Ordering::Relaxed) as usize
    }

    fn header(&self) -> &Header {
        // SAFETY: the file is as long as this, zero at first, mapped for as long as the arena lives, and consists of atomics.
        unsafe { &*self.file.base().cast::<Header>() }
    }

    /// Adds a device.
    ///
    /// # Errors
    /// `INVALID_VALUE` if it was added before, or the team is complete.
    pub(super) fn add(&self, device: &Device) -> CudaResult {
        let (header, member) = (self.header(), device.gpu.local + 1);
        let devices = header.devices.load(Ordering::Relaxed) as usize;
        for place in &header.members[..devices.min(MOST_DEVICES)] {
            match place.compare_exchange(0, member, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    header.added.fetch_add(1, Ordering::AcqRel);
                    futex::wake_all(&header.added);
                    return Ok(());
                }
                Err(other) if other == member => return Err(CudaError::INVALID_VALUE),
                Err(_) => {}
            }
        }
        Err(CudaError::INVALID_VALUE)
    }

    /// Waits until all devices were added.
    ///
    /// # Errors
    /// `ILLEGAL_STATE` if that does not happen within the time that ranks wait for each other. A driver waits forever.
    pub(super) fn complete(&self) -> CudaResult {
        let header = self.header();
        let devices = header.devices.load(Ordering::Relaxed);
        let mut deadline = None;
        loop {
            let added = header.added.load(Ordering::Acquire);
            if added >= devices {
                return Ok(());
            }
            let patience = || Settings::from_environment().unwrap_or_default().timeout;
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + patience());
            if Instant::now() >= deadline {
                eprintln!(
                    "fakegpu: a multicast object has {added} of its {devices} devices: cuMulticastAddDevice was not called for the others"
                );
                return Err(CudaError::ILLEGAL_STATE);
            }
            futex::wait(&header.added, added, deadline);
        }
    }

    /// Binds a member's `memory` at offset `start` of the object: this part of it.
    ///
    /// # Errors
    /// `INVALID_VALUE` if the device is not a member, something is bound there, or it does not fit; `MEMORY_ALLOCATION`.
    pub(super) fn bind(&self, device: &Device, start: usize, memory: M, part: Part) -> CudaResult {
        let Part { fd, file, at, size } = part;
        let header = self.header();
        let is_member = header.members.iter().any(|member| member.load(Ordering::Acquire) == device.gpu.local + 1);
        let fits = start.checked_add(size).is_some_and(|end| end <= self.size());
        let overlaps = |bound: &Bound| {
            bound.device == device.gpu.local && bound.start < start + size && start < bound.start + bound.size
        };
        if !is_member || !fits || self.bound().iter().any(overlaps) {
            return Err(CudaError::INVALID_VALUE);
        }
        let claim = |binding: &Binding| {
            binding.state.compare_exchange(FREE, TAKEN, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let slot = header.bindings.iter().position(claim).ok_or(CudaError::MEMORY_ALLOCATION)?;
        let (device, process, fd) = (device.gpu.local, std::process::id(), fd as u32);
        header.bindings[slot].set(&Bound { device, slot, process, fd, file, at, start, size });
        self.own.lock().insert(slot, memory);
        Ok(())
    }

    /// Undoes [`Self::bind`] of this process for a whole range.
    ///
    /// # Errors
    /// `INVALID_VALUE` if this process bound nothing of the device there.
    pub(super) fn unbind(&self, device: &Device, start: usize, size: usize) -> CudaResult {
        let mut own = self.own.lock();
        let inside = |bound: &Bound| {
            let is_own = own.contains_key(&bound.slot) && bound.device == device.gpu.local;
            is_own && start <= bound.start && bound.start + bound.size <= start + size
        };
        let slots: Vec<usize> = self.bound().iter().filter(|bound| inside(bound)).map(|bound| bound.slot).collect();
        if slots.is_empty() {
            return Err(CudaError::INVALID_VALUE);
        }
        for slot in slots {
            self.header().bindings[slot].state.store(FREE, Ordering::Release);
            own.remove(&slot);
        }
        Ok(())
    }

    fn bound(&self) -> Vec<Bound> {
        let mut all: Vec<Bound> = (0..).zip(&self.header().bindings).filter_map(|(slot, one)| one.get(slot)).collect();
        all.sort_unstable();
        all
    }

    /// A range around `offset` for which every device of the team has memory, and its first address at each of them, in the order of
    /// the GPUs; `None` if a device has none. `mapped` says where the program has mapped memory of this process.
    pub(super) fn copies(
        &self,
        offset: usize,
        mapped: impl Fn(&M, &Part) -> Option<usize>,
    ) -> Option<(Range<usize>, Vec<usize>)> {
        let mut found = self.bound();
        found.retain(|bound| bound.start <= offset && offset - bound.start < bound.size);
        let devices = self.header().devices.load(Ordering::Relaxed) as usize;
        if found.len() != devices {
            return None;
        }
        let start = found.iter().map(|bound| bound.start).max()?;
        let end = found.iter().map(|bound| bound.start + bound.size).min()?;
        let address = |bound: &Bound| {
            let own = self.own.lock().get(&bound.slot).and_then(|memory| mapped(memory, &bound.part()));
            Some(own.or_else(|| self.view(bound))? + (start - bound.start))
        };
        Some((start..end, found.iter().map(address).collect::<Option<_>>()?))
    }

    /// Where a view of memory that is bound is in this process.
    fn view(&self, bound: &Bound) -> Option<usize> {
        let mut views = self.views.lock();
        let range = (bound.file, bound.at, bound.size);
        if let Some(address) = views.get(&range) {
            return Some(*address);
        }
        let place = format!("/proc/{}/fd/{}", bound.process, bound.fd);
        let file = OpenOptions::new().read(true).write(true).open(place).ok()?;
        // A number of a process and a descriptor may have been given out anew; the file's own number is not.
        if file.metadata().ok()?.ino() != bound.file {
            return None;
        }
        let address = ipc::map(&file, bound.at, bound.size).ok()?;
        views.insert(range, address);
        Some(address)
    }
}
