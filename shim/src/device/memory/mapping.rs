//! Virtual memory management (`cuMemCreate`, `cuMemMap`, ...): parts of a device's memory file, or files of their own (host memory,
//! and what processes share), mapped where the program wants them.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, Weak};

use abi::cuda::{CudaError, CudaResult};
use abi::handle::Handles;
use dataplane::arena::Arena;
use dataplane::lock::Mutex;
use dataplane::refusal;

use super::allocator::PAGE;
use super::shareable::{self, Shareable};
use super::team::{Part, Team};
use crate::device::memory::{self, HostKind, Kind, Location};
use crate::device::work::stream;
use crate::device::{Device, all};

/// Where physical memory is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Residence {
    /// The memory is on this GPU.
    Device(&'static Device),
    /// The memory is on the host.
    Host,
    /// The memory is on the host's one NUMA node.
    HostNode,
    /// A multicast object, which has no memory of its own.
    Team,
}

/// Physical memory created by `cuMemCreate`; released when its handle and its last mapping are gone.
#[derive(Debug)]
pub(crate) struct Physical {
    pub(crate) residence: Residence,
    backing: Mutex<Backing>,
    pub(super) is_shareable: bool,
    /// Bytes.
    pub(crate) size: usize,
}

#[derive(Debug)]
enum Backing {
    /// This address in the memory of a device.
    Device(&'static Device, usize),
    /// A file of its own.
    Host(Arena),
    /// Memory of a device that was exported, in a file of its own: it lives for as long as any process has it.
    Shared(&'static Device, Shareable),
    /// None: what the team of a multicast object has bound.
    Team(Arc<Team<Arc<Physical>>>),
}

impl Physical {
    /// The team of a multicast object.
    ///
    /// # Errors
    /// `INVALID_VALUE` for anything else.
    pub(super) fn team(&self) -> CudaResult<Arc<Team<Arc<Self>>>> {
        match &*self.backing.lock() {
            Backing::Team(team) => Ok(Arc::clone(team)),
            _ => Err(CudaError::INVALID_VALUE),
        }
    }

    /// A range of its file, after it got one of its own if it can be exported.
    ///
    /// # Errors
    /// `INVALID_VALUE` for a range that it does not have, and for memory that is on no device.
    pub(super) fn part(self: &Arc<Self>, at: usize, size: usize) -> CudaResult<Part> {
        if at.checked_add(size).is_none_or(|end| end > self.size) {
            return Err(CudaError::INVALID_VALUE);
        }
        if self.is_shareable {
            share(self)?;
        }
        let whole = self.whole()?;
        Ok(Part { at: whole.at + at, size, ..whole })
    }

    fn whole(&self) -> CudaResult<Part> {
        let size = self.size;
        match &*self.backing.lock() {
            Backing::Device(device, start) => {
                let arena = memory::arena_of(device)?;
                Ok(Part { fd: arena.fd(), file: arena.file_id(), at: start - arena.base() as usize, size })
            }
            Backing::Shared(_, shareable) => Ok(Part { fd: shareable.fd(), file: shareable.file_id()?, at: 0, size }),
            Backing::Host(_) | Backing::Team(_) => Err(CudaError::INVALID_VALUE),
        }
    }
}

impl Drop for Physical {
    fn drop(&mut self) {
        if let Backing::Device(_, address) | Backing::Shared(_, Shareable { counted: Some(address), .. }) =
            &*self.backing.lock()
        {
            memory::free_internal(*address);
        }
    }
}

struct Mapping {
    size: usize,
    physical: Arc<Physical>,
    /// Offset of the mapping's first byte in the physical memory.
    offset: usize,
    /// `CUmemAccess_flags` by location (its type and id).
    access: BTreeMap<(u32, i32), u32>,
}

struct Space {
    reserved: BTreeMap<usize, usize>,
    mapped: BTreeMap<usize, Mapping>,
}

static SPACE: Mutex<Space> = Mutex::new(Space { reserved: BTreeMap::new(), mapped: BTreeMap::new() });
static PHYSICAL: Handles<Physical> = Handles::new(7);
static TEAMS: Mutex<Vec<Weak<Team<Arc<Physical>>>>> = Mutex::new(Vec::new());

fn space() -> MutexGuard<'static, Space> {
    SPACE.lock()
}

/// `CU_MEM_LOCATION_TYPE_DEVICE`
pub(crate) const ON_DEVICE: u32 = 1;

/// What sizes and offsets must be multiples of, bytes.
pub(crate) const GRANULARITY: usize = PAGE;

/// Makes physical memory, which can be exported if it `is_shareable`, and returns its handle.
///
/// # Errors
/// `INVALID_VALUE` for a size that is 0 or not a multiple of the granularity, `MEMORY_ALLOCATION`.
pub(crate) fn create(residence: Residence, size: usize, is_shareable: bool) -> CudaResult<usize> {
    if size == 0 || !size.is_multiple_of(GRANULARITY) {
        return Err(CudaError::INVALID_VALUE);
    }
    let backing = match residence {
        Residence::Device(device) => Backing::Device(device, memory::allocate(device, size, Kind::Internal)?),
        Residence::Team => return Err(CudaError::INVALID_VALUE),
        Residence::Host | Residence::HostNode => {
            Backing::Host(Arena::create("fakegpu-host", size).map_err(|error| {
                refusal::explain("host memory cannot be created", &error);
                CudaError::MEMORY_ALLOCATION
            })?)
        }
    };
    let backing = Mutex::new(backing);
    Ok(PHYSICAL.insert(Arc::new(Physical { residence, backing, is_shareable, size })))
}

/// A descriptor for the memory behind a handle, which the program closes. The first call moves the memory to a file of its own:
/// each has a descriptor, too many for all that could be exported.
///
/// # Errors
/// `INVALID_VALUE` for memory that was not made to be shared.
pub(crate) fn export(handle: usize) -> CudaResult<i32> {
    let physical = physical(handle)?;
    if !physical.is_shareable {
        return Err(CudaError::INVALID_VALUE);
    }
    share(&physical)?;
    match &*physical.backing.lock() {
        Backing::Shared(_, shareable) => shareable.export(),
        Backing::Team(team) => shareable::export(team.fd()),
        Backing::Device(..) | Backing::Host(_) => Err(CudaError::INVALID_VALUE),
    }
}

/// Moves memory of a device to a file of its own, unless it has one.
fn share(physical: &Arc<Physical>) -> CudaResult {
    if !matches!(*physical.backing.lock(), Backing::Device(..)) {
        return Ok(());
    }
    // Nothing may write to it meanwhile.
    all().iter().for_each(stream::synchronize_device);
    let space = space();
    let mut backing = physical.backing.lock();
    if let Backing::Device(device, address) = *backing {
        let shareable = Shareable::from_memory(device, address, physical.size)?;
        for (at, mapping) in space.mapped.iter().filter(|(_, mapping)| Arc::ptr_eq(&mapping.physical, physical)) {
            place(*at, mapping.size, shareable.fd(), mapping.offset)?;
        }
        *backing = Backing::Shared(device, shareable);
    }
    Ok(())
}

/// A handle for the memory or multicast object that a process exported as a descriptor, which stays the program's.
///
/// # Errors
/// `INVALID_VALUE` for any other descriptor.
pub(crate) fn import(fd: i32) -> CudaResult<usize> {
    if let Some(team) = Team::import(fd) {
        return Ok(insert_team(team, true));
    }
    let (device, size, shareable) = Shareable::import(fd)?;
    let (residence, backing) = (Residence::Device(device), Mutex::new(Backing::Shared(device, shareable)));
    Ok(PHYSICAL.insert(Arc::new(Physical { residence, backing, is_shareable: true, size })))
}

/// What is mapped around `address`: where that begins, how many bytes, the memory, and the offset there.
pub(super) fn mapped(address: usize) -> Option<(usize, usize, Arc<Physical>, usize)> {
    let space = space();
    let (base, mapping) = space.mapped.range(..=address).next_back()?;
    let found = (*base, mapping.size, Arc::clone(&mapping.physical), mapping.offset);
    (address - base < mapping.size).then_some(found)
}

/// Where the program has mapped a part of physical memory.
pub(super) fn address(physical: &Arc<Physical>, part: &Part) -> Option<usize> {
    let start = part.at - physical.whole().ok()?.at;
    space().mapped.iter().find_map(|(at, mapping)| {
        let is_there = Arc::ptr_eq(&mapping.physical, physical)
            && mapping.offset <= start
            && start + part.size <= mapping.offset + mapping.size;
        is_there.then(|| at + (start - mapping.offset))
    })
}

/// A handle for a multicast object.
pub(super) fn insert_team(team: Team<Arc<Physical>>, is_shareable: bool) -> usize {
    let (residence, size) = (Residence::Team, team.size());
    let mut teams = TEAMS.lock();
    teams.retain(|known| known.strong_count() > 0);
    // Handles for one object share what is bound to it.
    let known = teams.iter().filter_map(Weak::upgrade).find(|known| known.file_id() == team.file_id());
    let team = known.unwrap_or_else(|| Arc::new(team));
    teams.push(Arc::downgrade(&team));
    let backing = Mutex::new(Backing::Team(team));
    PHYSICAL.insert(Arc::new(Physical { residence, backing, is_shareable, size }))
}

/// The memory behind a handle.
///
/// # Errors
/// `INVALID_VALUE`.
pub(crate) fn physical(handle: usize) -> CudaResult<Arc<Physical>> {
    PHYSICAL.get(handle).ok_or(CudaError::INVALID_VALUE)
}

/// Releases a handle.
///
/// # Errors
/// `INVALID_VALUE`.
pub(crate) fn release(handle: usize) -> CudaResult {
    PHYSICAL.remove(handle).map(drop).ok_or(CudaError::INVALID_VALUE)
}

/// A new handle for the memory mapped at `address`.
///
/// # Errors
/// `INVALID_VALUE` if none is mapped there.
pub(crate) fn retain(address: usize) -> CudaResult<usize> {
    let (.., physical, _) = mapped(address).ok_or(CudaError::INVALID_VALUE)?;
    Ok(PHYSICAL.insert(physical))
}

/// Reserves `size` bytes of addresses.
///
/// # Errors
/// `INVALID_VALUE` for a bad size or alignment, `MEMORY_ALLOCATION`.
pub(crate) fn reserve(size: usize, alignment: usize) -> CudaResult<usize> {
    if size == 0 || !size.is_multiple_of(GRANULARITY) || (alignment != 0 && !alignment.is_power_of_two()) {
        return Err(CudaError::INVALID_VALUE);
    }
    let alignment = alignment.max(GRANULARITY);
    let whole = size.checked_add(alignment).ok_or(CudaError::MEMORY_ALLOCATION)?;
    let start = map(0, whole, libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1, 0)?;
    let base = start.next_multiple_of(alignment);
    // SAFETY: the parts before and after the aligned range belong to the mapping just made.
    unsafe {
        if base > start {
            libc::munmap(start as *mut libc::c_void, base - start);
        }
        if start + whole > base + size {
            libc::munmap((base + size) as *mut libc::c_void, start + whole - base - size);
        }
    }
    space().reserved.insert(base, size);
    Ok(base)
}

/// Releases a reservation.
///
/// # Errors
/// `INVALID_VALUE` if there is none of this size, or something is still mapped in it.
pub(crate) fn unreserve(base: usize, size: usize) -> CudaResult {
    let mut space = space();
    if space.reserved.get(&base) != Some(&size) || space.mapped.range(base..base + size).next().is_some() {
        return Err(CudaError::INVALID_VALUE);
    }
    space.reserved.remove(&base);
    // SAFETY: the range is a reservation of ours in which nothing is mapped.
    unsafe { libc::munmap(base as *mut libc::c_void, size) };
    Ok(())
}

/// True inside a reservation.
pub(crate) fn is_reserved(address: usize) -> bool {
    let space = space();
    space.reserved.range(..=address).next_back().is_some_and(|(base, size)| address - base < *size)
}

/// Maps `size` bytes of physical memory at `address`.
///
/// # Errors
/// `INVALID_VALUE` if sizes do not fit, or the addresses are not reserved or already mapped.
pub(crate) fn map_at(address: usize, size: usize, offset: usize, handle: usize) -> CudaResult {
    let physical = physical(handle)?;
    let fits = size > 0 && [address, size, offset].iter().all(|number| number.is_multiple_of(GRANULARITY));
    if !fits || offset.checked_add(size).is_none_or(|end| end > physical.size) {
        return Err(CudaError::INVALID_VALUE);
    }
    if let Ok(team) = physical.team() {
        team.complete()?;
    }
    let mut space = space();
    let inside =
        space.reserved.range(..=address).next_back().is_some_and(|(base, length)| address + size <= base + length);
    let taken = space.mapped.range(..address + size).next_back().is_some_and(|(at, old)| at + old.size > address);
    if !inside || taken {
        return Err(CudaError::INVALID_VALUE);
    }
    match &*physical.backing.lock() {
        Backing::Device(device, start) => {
            let arena = memory::arena_of(device)?;
            place(address, size, arena.fd(), start - arena.base() as usize + offset)?;
        }
        Backing::Shared(_, shareable) => place(address, size, shareable.fd(), offset)?,
        // The addresses stay without memory, so that only what knows of them gets anywhere.
        Backing::Team(_) => {}
        Backing::Host(file) => {
            place(address, size, file.fd(), offset)?;
            memory::host_mapped(address, size);
        }
    }
    space.mapped.insert(address, Mapping { size, physical, offset, access: BTreeMap::new() });
    Ok(())
}

/// Unmaps the mappings that make up the range, after the device's work is done.
///
/// # Errors
/// `INVALID_VALUE` if the range does not consist of whole mappings.
pub(crate) fn unmap(address: usize, size: usize) -> CudaResult {
    let parts: Vec<(usize, usize, Residence)> = {
        let space = space();
        space
            .mapped
            .range(address..address + size)
            .map(|(at, part)| (*at, part.size, part.physical.residence))
            .collect()
    };
    let mut next = address;
    for (at, size, _) in &parts {
        if *at != next {
            return Err(CudaError::INVALID_VALUE);
        }
        next += size;
    }
    if size == 0 || next != address + size {
        return Err(CudaError::INVALID_VALUE);
    }
    for (at, _, residence) in &parts {
        match residence {
            Residence::Device(device) => stream::synchronize_device(device),
            Residence::Team => all().iter().for_each(stream::synchronize_device),
            // Any device may be using it.
            Residence::Host | Residence::HostNode => {
                all().iter().for_each(stream::synchronize_device);
                memory::forget_host(*at, HostKind::Mapped)?;
            }
        }
    }
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    map(address, size, libc::PROT_NONE, flags, -1, 0)?;
    let gone: Vec<Mapping> = {
        let mut space = space();
        parts.iter().filter_map(|(at, _, _)| space.mapped.remove(at)).collect()
    };
    drop(gone);
    Ok(())
}

/// The device's memory mapped at `address`.
pub(crate) fn locate(address: usize) -> Option<Location> {
    let space = space();
    let (base, mapping) = space.mapped.range(..=address).next_back()?;
    let within = address - base;
    let (device, start) = match *mapping.physical.backing.lock() {
        Backing::Device(device, start) => (device, Some(start - memory::arena_of(device).ok()?.base() as usize)),
        Backing::Shared(device, _) => (device, None),
        Backing::Host(_) | Backing::Team(_) => return None,
    };
    (within < mapping.size).then(|| Location {
        device,
        offset: start.map(|start| start + mapping.offset + within),
        base: *base,
        size: mapping.size,
        bytes_left: mapping.size - within,
        kind: Kind::Mapped,
    })
}

/// Says what locations (type and id) may do with the mappings that make up a range.
///
/// # Errors
/// `INVALID_VALUE` if a part of it is not mapped.
pub(crate) fn set_access(address: usize, size: usize, allowed: &[((u32, i32), u32)]) -> CudaResult {
    let mut space = space();
    let (mut next, mut starts) = (address, Vec::new());
    while next < address + size {
        match space.mapped.range(..=next).next_back() {
            Some((at, mapping)) if next - at < mapping.size => {
                next = at + mapping.size;
                starts.push(*at);
            }
            _ => return Err(CudaError::INVALID_VALUE),
        }
    }
    if starts.is_empty() {
        return Err(CudaError::INVALID_VALUE);
    }
    for at in starts {
        if let Some(mapping) = space.mapped.get_mut(&at) {
            mapping.access.extend(allowed.iter().copied());
        }
    }
    Ok(())
}

/// What a location (type and id) may do with the memory mapped at `address` (`CUmemAccess_flags`); `None` if none is.
pub(crate) fn access(address: usize, location: (u32, i32)) -> Option<u32> {
    let space = space();
    let (base, mapping) = space.mapped.range(..=address).next_back()?;
    (address - base < mapping.size).then(|| mapping.access.get(&location).copied().unwrap_or(0))
}

/// Maps part of a file inside a reservation of ours.
fn place(address: usize, size: usize, fd: i32, offset: usize) -> CudaResult {
    let flags = libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_NORESERVE;
    map(address, size, libc::PROT_READ | libc::PROT_WRITE, flags, fd, offset).map(drop)
}

fn map(address: usize, size: usize, protection: i32, flags: i32, fd: i32, offset: usize) -> CudaResult<usize> {
    // SAFETY: a fresh mapping, or a fixed one inside a reservation of ours, as the callers check.
    let base = unsafe { libc::mmap(address as *mut libc::c_void, size, protection, flags, fd, offset as libc::off_t) };
    if base == libc::MAP_FAILED {
        refusal::explain("addresses for physical memory cannot be mapped", &std::io::Error::last_os_error());
        return Err(CudaError::MEMORY_ALLOCATION);
    }
    Ok(base as usize)
}
