//! Windows: memory that the ranks of a communicator registered in the same order, so that each can refer to the
//! others'.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Weak};

use abi::argument::Out;
use abi::handle::Handles;
use abi::library::Library;
use dataplane::call::Buffer;
use dataplane::lock::Mutex;

use super::buffer::place_in_arena;
use super::communicator::{Communicator, process, resolve};
use super::error::{NcclError, NcclResult};
use super::{memory, team};
use crate::boundary::gap;
use crate::device;
use crate::device::memory::ipc;
use crate::sanitizer::init;

static WINDOWS: Handles<Window> = Handles::new(15);
/// `NCCL_WIN_COLL_SYMMETRIC`.
pub(super) const SYMMETRIC: c_int = 1;
/// `NCCL_WIN_COLL_SYMMETRIC | NCCL_WIN_STRICT_ORDERING`.
const FLAGS: c_int = 3;

/// An `ncclWindow_t`.
pub(super) struct Window {
    serial: u64,
    communicator: Weak<Communicator>,
    pub(super) base: usize,
    /// Bytes.
    pub(super) size: usize,
    /// Number among the communicator's windows, from 1; the same on all ranks.
    pub(super) number: u64,
    pub(super) symmetric: bool,
    /// Whether it is in device memory, in one piece.
    pub(super) is_placed: bool,
    /// Other ranks' windows mapped here.
    peers: Mutex<BTreeMap<u32, usize>>,
    /// Device memory owned by the window.
    owned: Option<usize>,
}

impl Drop for Window {
    fn drop(&mut self) {
        for address in self.peers.lock().values() {
            let _ = ipc::close(*address);
        }
        if let Some(address) = self.owned {
            device::memory::free_internal(address);
        }
    }
}

impl Window {
    /// Whether the `bytes` at `address` are within it.
    pub(super) fn has(&self, address: usize, bytes: usize) -> bool {
        let end = address.checked_add(bytes);
        address >= self.base && address < self.base + self.size && end.is_some_and(|end| end <= self.base + self.size)
    }

    /// Where the window of `peer` starts in this process.
    fn peer_base(&self, communicator: &Communicator, peer: u32) -> NcclResult<usize> {
        let ranks = communicator.ranks()?;
        if peer == ranks.rank() {
            return Ok(self.base);
        }
        let known = self.peers.lock().get(&peer).copied();
        if let Some(address) = known {
            return Ok(address);
        }
        let Some(window) = ranks.peer_window(self.number, peer)? else { return Ok(0) };
        let pid = ranks.members()[peer as usize].pid;
        if pid == std::process::id() {
            return Ok(window.address as usize);
        }
        if window.place.valid == 0 {
            gap::record(Library::Nccl, "ncclGetPeerDevicePointer", "a window of host memory in another process");
            return Err(NcclError::INVALID_USAGE.because(format!("the window of rank {peer} is host memory")));
        }
        let address = ipc::open_range(&window.place, pid, window.bytes as usize, communicator.device)?;
        let mut peers = self.peers.lock();
        if let Some(earlier) = peers.insert(peer, address) {
            // Another thread was quicker; both got one mapping, which counts its users.
            let _ = ipc::close(earlier);
        }
        Ok(address)
    }
}

/// Body of `ncclCommWindowRegister`.
pub(crate) fn register(
    communicator: usize,
    base: *mut c_void,
    size: usize,
    out: Out<usize>,
    flags: c_int,
) -> NcclResult {
    let (out, communicator) = (out.required()?, memory::registers(communicator, base, size)?);
    if flags & !FLAGS != 0 {
        return Err(NcclError::INVALID_ARGUMENT.because(format!("window flags {flags:#x} are not known")));
    }
    Ok(out.set(insert(&communicator, base as usize, size, flags & SYMMETRIC != 0, None)?)?)
}

/// A new window's handle. `owned` is its memory, if it owns it.
pub(super) fn insert(
    communicator: &Arc<Communicator>,
    base: usize,
    size: usize,
    symmetric: bool,
    owned: Option<usize>,
) -> NcclResult<usize> {
    let buffer = Buffer { address: base as *mut u8, place: place_in_arena(base, size) };
    // Other ranks may put something into all of it.
    init::shared(base, size);
    let number = communicator.ranks()?.register_window(buffer, size as u64)?;
    Ok(WINDOWS.insert(Arc::new(Window {
        serial: communicator.serial,
        communicator: Arc::downgrade(communicator),
        base,
        size,
        number,
        symmetric,
        is_placed: buffer.place.is_some(),
        peers: Mutex::default(),
        owned,
    })))
}

/// Body of `ncclCommWindowDeregister`. Does nothing for null.
pub(crate) fn deregister(communicator: usize, handle: usize) -> NcclResult {
    let communicator = resolve(communicator)?;
    if handle == 0 {
        return Ok(());
    }
    let window = find(&communicator, handle)?;
    WINDOWS.remove(handle);
    communicator.ranks()?.deregister_window(window.number);
    Ok(())
}

/// Called when the communicator is gone: removes its windows.
pub(super) fn forget_all(communicator: &Communicator) {
    let windows = WINDOWS.remove_all(|window| window.serial == communicator.serial);
    if let Ok(ranks) = communicator.ranks() {
        windows.iter().for_each(|window| ranks.deregister_window(window.number));
    }
}

/// A window of `communicator`.
///
/// # Errors
/// `ncclInvalidArgument`.
pub(super) fn find(communicator: &Communicator, handle: usize) -> NcclResult<Arc<Window>> {
    WINDOWS.get(handle).filter(|window| window.serial == communicator.serial).ok_or_else(|| {
        let what = if handle == 0 {
            "the window is null".to_owned()
        } else {
            format!("{handle:#x} is not a window of this communicator")
        };
        NcclError::INVALID_ARGUMENT.because(what)
    })
}

/// The symmetric window of `communicator` that has the `bytes` at `address`.
pub(super) fn around(communicator: &Communicator, address: usize, bytes: usize) -> Option<Arc<Window>> {
    WINDOWS.find(|window| window.serial == communicator.serial && window.symmetric && window.has(address, bytes))
}

/// Body of `ncclWinGetUserPtr`.
pub(crate) fn user_pointer(communicator: usize, window: usize, out: Out<usize>) -> NcclResult {
    let communicator = resolve(communicator)?;
    let base = find(&communicator, window)?.base;
    Ok(out.set(base)?)
}

/// A window and its communicator.
fn found(handle: usize) -> NcclResult<(Arc<Window>, Arc<Communicator>)> {
    let window = WINDOWS.get(handle);
    let found = window.and_then(|window| window.communicator.upgrade().map(|communicator| (window, communicator)));
    found.ok_or_else(|| NcclError::INVALID_ARGUMENT.because(format!("{handle:#x} is not a window")))
}

/// Body of `ncclGetPeerDevicePointer`: null for a rank that is not accessible by load and store.
pub(crate) fn peer_pointer(handle: usize, offset: usize, peer: c_int, out: Out<usize>) -> NcclResult {
    let out = out.required()?;
    let (window, communicator) = found(handle)?;
    let ranks = communicator.ranks()?;
    let Some(peer) = u32::try_from(peer).ok().filter(|peer| *peer < ranks.size()) else {
        return Err(NcclError::INVALID_ARGUMENT
            .because(format!("peer {peer} is not a rank of a communicator of {}", ranks.size())));
    };
    let process = process()?;
    if !team::together(team::lsa_size(&ranks, process.cluster()), ranks.rank(), peer) {
        return Ok(out.set(0)?);
    }
    if offset >= window.size {
        return Err(NcclError::INVALID_ARGUMENT
            .because(format!("offset {offset} is beyond the window of {} bytes", window.size)));
    }
    let base = window.peer_base(&communicator, peer)?;
    Ok(out.set(if base == 0 { 0 } else { base + offset })?)
}

/// Body of `ncclGetLsaDevicePointer`: the peer is given by its rank in the team.
pub(crate) fn lsa_pointer(handle: usize, offset: usize, rank: c_int, out: Out<usize>) -> NcclResult {
    let out = out.required()?;
    let (_, communicator) = found(handle)?;
    let team = team::from_communicator(&communicator)?;
    if !(0..team.ranks).contains(&rank) {
        return Err(NcclError::INVALID_ARGUMENT.because(format!("rank {rank} is not in an LSA team of {}", team.ranks)));
    }
    let peer = communicator.ranks()?.rank() as c_int - team.rank + rank;
    peer_pointer(handle, offset, peer, out)
}

/// Body of `ncclGetMultimemDevicePointer`: as below, for the multicast handle of a team.
pub(crate) fn multicast_pointer(handle: usize, offset: usize, multicast: usize, out: Out<usize>) -> NcclResult {
    if multicast == 0 {
        return Err(NcclError::INVALID_ARGUMENT.because("the multicast handle is null"));
    }
    multimem_pointer(handle, offset, out)
}

/// Body of `ncclGetLsaMultimemDevicePointer`: null, as NCCL returns without multicast over NVLink.
pub(crate) fn multimem_pointer(handle: usize, _offset: usize, out: Out<usize>) -> NcclResult {
    let out = out.required()?;
    found(handle)?;
    Ok(out.set(0)?)
}
