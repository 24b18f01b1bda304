//! How much of its memory each virtual device has in use, and what backs it. An allocation is booked before it is made, so two
//! threads cannot both get the last of it.

use std::collections::BTreeMap;
use std::ffi::c_int;

use abi::cuda::{CudaError, CudaResult};
use dataplane::lock::Mutex;
use protocol::device_report::Tally;

use crate::backing::{self, Backing};
use crate::device::{self, Device};
use crate::nvml;

/// One allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    /// Ordinal of its device.
    pub(crate) device: usize,
    /// Its bytes.
    pub(crate) bytes: u64,
    /// Bytes that are booked: less for managed memory that is not all on the device.
    pub(crate) booked: u64,
    /// What backs it.
    pub(crate) backing: Backing,
    /// The context that it ends with.
    pub(crate) context: usize,
}

/// Memory counts of one device.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Account {
    /// Bytes held.
    pub(crate) used: u64,
    /// The most bytes held at once.
    pub(crate) peak: u64,
    /// Allocations.
    pub(crate) alloc: Tally,
    /// Releases.
    pub(crate) free: Tally,
    /// Allocations that failed for lack of memory.
    pub(crate) refused: Tally,
}

#[derive(Debug)]
struct Books {
    accounts: BTreeMap<usize, Account>,
    /// What is held, by kind and address or handle.
    held: BTreeMap<(Kind, usize), Held>,
}

impl Books {
    fn freed(&mut self, held: &Held) {
        let account = self.accounts.entry(held.device).or_default();
        account.used -= held.booked;
        account.free += one(held.bytes);
        self.show(held.device);
    }

    /// Tells monitors.
    fn show(&self, ordinal: usize) {
        if let Ok(device) = device::get(ordinal as c_int) {
            nvml::hold(device, self.accounts.get(&ordinal).map_or(0, |account| account.used));
        }
    }
}

/// What identifies an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// An address.
    Address,
    /// An array's handle.
    Array,
    /// An allocation without an address (`cuMemCreate`), by our own number.
    Physical,
}

static BOOKS: Mutex<Books> = Mutex::new(Books { accounts: BTreeMap::new(), held: BTreeMap::new() });

fn one(bytes: u64) -> Tally {
    Tally { calls: 1, bytes }
}

/// Reserves `bytes` of the device.
///
/// # Errors
/// `CUDA_ERROR_OUT_OF_MEMORY` if the device does not have that much left.
pub(crate) fn reserve(device: &Device, bytes: u64) -> CudaResult {
    let mut books = BOOKS.lock();
    let account = books.accounts.entry(device.ordinal as usize).or_default();
    if account.used.saturating_add(bytes) > device.total {
        account.refused += one(bytes);
        return Err(CudaError::MEMORY_ALLOCATION);
    }
    account.used += bytes;
    Ok(())
}

/// Gives back a reservation whose allocation was not made; `refused`: for lack of memory.
pub(crate) fn cancel(device: &Device, bytes: u64, refused: bool) {
    let mut books = BOOKS.lock();
    let account = books.accounts.entry(device.ordinal as usize).or_default();
    account.used -= bytes;
    if refused {
        account.refused += one(bytes);
    }
}

/// The reserved allocation has been made.
pub(crate) fn hold(kind: Kind, key: usize, held: Held) {
    let mut books = BOOKS.lock();
    let account = books.accounts.entry(held.device).or_default();
    account.alloc += one(held.bytes);
    account.peak = account.peak.max(account.used);
    books.held.insert((kind, key), held);
    books.show(held.device);
}

/// This process uses the device.
pub(crate) fn show(device: &Device) {
    BOOKS.lock().show(device.ordinal as usize);
}

/// The allocation with that key.
pub(crate) fn get(kind: Kind, key: usize) -> Option<Held> {
    BOOKS.lock().held.get(&(kind, key)).copied()
}

/// The allocation that contains an address, and where it begins.
pub(crate) fn find(address: usize) -> Option<(usize, Held)> {
    let books = BOOKS.lock();
    let ((_, base), held) = books.held.range(..=(Kind::Address, address)).next_back()?;
    let is_inside = (address - base) < (held.bytes as usize).max(1);
    is_inside.then_some((*base, *held))
}

/// Takes an allocation out of the books.
pub(crate) fn remove(kind: Kind, key: usize) -> Option<Held> {
    let mut books = BOOKS.lock();
    let held = books.held.remove(&(kind, key))?;
    books.freed(&held);
    Some(held)
}

/// Takes an allocation out of the books while `real` frees it: the real library may give its address to another thread before
/// `real` returns. If it could not be freed, it goes back into the books.
///
/// # Errors
/// Those of `real`.
pub(crate) fn give_back(kind: Kind, key: usize, real: impl FnOnce() -> CudaResult) -> CudaResult {
    let held = BOOKS.lock().held.remove(&(kind, key));
    let answer = real();
    let Some(held) = held else { return answer };
    let mut books = BOOKS.lock();
    if answer.is_err() {
        books.held.insert((kind, key), held);
        return answer;
    }
    books.freed(&held);
    Ok(())
}

/// Everything that belonged to a context is gone with it; host memory is freed.
pub(crate) fn forget(context: usize) {
    let keys: Vec<(Kind, usize)> = {
        let books = BOOKS.lock();
        books.held.iter().filter(|(_, held)| held.context == context).map(|(key, _)| *key).collect()
    };
    for (kind, key) in keys {
        if let Some(held) = remove(kind, key) {
            backing::ended(key, held.backing);
        }
    }
}

/// Bytes that the device has left.
pub(crate) fn left(device: &Device) -> u64 {
    device.total.saturating_sub(account(device.ordinal as usize).used)
}

/// The account of a device.
pub(crate) fn account(ordinal: usize) -> Account {
    BOOKS.lock().accounts.get(&ordinal).copied().unwrap_or_default()
}

/// Bytes that devices hold in real devices' memory.
pub(crate) fn on_real_devices(ordinals: impl Fn(usize) -> bool) -> u64 {
    let books = BOOKS.lock();
    books
        .held
        .values()
        .filter(|held| held.backing == Backing::Real && ordinals(held.device))
        .map(|held| held.bytes)
        .sum()
}
