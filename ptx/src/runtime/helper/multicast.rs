//! Accesses at a multicast address: each is made at the memory of every device of the team.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::thread::{combine, fail, noted, scalar_of, update};
use crate::host::memory_ops::{Access, AddressSpace};
use crate::number::Scalar;
use crate::runtime::state::{Context, TRAP_ILLEGAL, TRAP_MISALIGNED, TrapAccess, Warp};

/// What an instruction does at every device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Loads, and reduces what was loaded to one number.
    LoadReduce,
    Store,
    /// Reduces a number into the memory, atomically at each device.
    Reduce,
}

impl From<&str> for Action {
    fn from(name: &str) -> Self {
        match name {
            "ld_reduce" => Self::LoadReduce,
            "st" => Self::Store,
            _ => Self::Reduce,
        }
    }
}

/// An instruction, as one number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MulticastMode {
    pub(crate) action: Action,
    /// The operation, by its number among those of atomics.
    pub(crate) op: u64,
    pub(crate) scalar: Scalar,
    /// Logarithm of how many elements the alignment is.
    pub(crate) alignment: u32,
    /// Halves are summed in 32 bits.
    pub(crate) wide_sum: bool,
}

impl MulticastMode {
    pub(crate) fn encode(self) -> u64 {
        let Self { action, op, scalar, alignment, wide_sum } = self;
        op | (scalar as u64) << 8 | (action as u64) << 16 | u64::from(alignment) << 24 | u64::from(wide_sum) << 32
    }

    fn decode(mode: u64) -> Self {
        let action = [Action::LoadReduce, Action::Store, Action::Reduce][(mode >> 16 & 0xff).min(2) as usize];
        let (scalar, alignment) = (scalar_of(mode >> 8 & 0xff), (mode >> 24 & 0xff) as u32);
        Self { action, op: mode & 0xff, scalar, alignment, wide_sum: mode >> 32 != 0 }
    }
}

pub(super) extern "C" fn access(context: &mut Context, warp: &mut Warp, mode: u64) {
    context.warp = warp;
    let mode = MulticastMode::decode(mode);
    let (address, bytes) = (context.args[0] as u64, u64::from(mode.scalar.bytes()));
    let access = match mode.action {
        Action::LoadReduce => Access::StrongRead,
        Action::Store => Access::StrongWrite,
        Action::Reduce => Access::Atomic,
    };
    let is_aligned = address.is_multiple_of(bytes << mode.alignment);
    let Some(places) = is_aligned.then(|| places(context, address, bytes)).flatten() else {
        fail(context, if is_aligned { TRAP_ILLEGAL } else { TRAP_MISALIGNED }, address);
        context.trap_access = TrapAccess::new(AddressSpace::Global, access, bytes);
        return;
    };
    for place in &places {
        noted(context, *place, bytes, access);
    }
    let value = context.args[1] as u64;
    // SAFETY: the caller's memory has these bytes at every device, aligned as the address is, and others access them atomically.
    unsafe {
        match mode.action {
            Action::LoadReduce => {
                let found = places.iter().map(|place| load(*place as *const u8, bytes));
                context.result = u128::from(reduced(&mode, found));
            }
            Action::Store => places.iter().for_each(|place| store(*place as *mut u8, bytes, value)),
            Action::Reduce => places.iter().for_each(|place| {
                update(*place as *mut u8, bytes, |old| Some(combine(mode.op, mode.scalar, old, value)));
            }),
        }
    }
}

/// Where an address is at each device; `None` if it is no multicast address.
fn places(context: &mut Context, address: u64, bytes: u64) -> Option<Vec<u64>> {
    let known = context.multicast.as_ref().filter(|known| known.contains(address, bytes));
    if known.is_none() {
        // SAFETY: the launch holds the map as long as it runs.
        context.multicast = unsafe { &*context.memory }.multicast(address);
    }
    let known = context.multicast.as_ref().filter(|known| known.contains(address, bytes))?;
    Some(known.copies.iter().map(|copy| copy + (address - known.range.start)).collect())
}

/// One number of those that the devices have.
fn reduced(mode: &MulticastMode, found: impl Iterator<Item = u64>) -> u64 {
    const ADD: u64 = 0;
    let MulticastMode { op, scalar, .. } = *mode;
    if !mode.wide_sum || op != ADD {
        return found.reduce(|sum, next| combine(op, scalar, sum, next)).unwrap_or_default();
    }
    // Negative zero is neutral, also for itself.
    let sums = found.fold([-0.0; 2], |sums: [f32; 2], next| {
        let halves = [next as u16, (next >> 16) as u16];
        std::array::from_fn(|half| sums[half] + widened(scalar, halves[half]))
    });
    let [low, high] = sums.map(|sum| u64::from(narrowed(scalar, sum)));
    if scalar.bytes() == 2 { low } else { low | high << 16 }
}

fn is_bfloat(scalar: Scalar) -> bool {
    matches!(scalar, Scalar::Bf16 | Scalar::Bf16x2)
}

fn widened(scalar: Scalar, half: u16) -> f32 {
    if is_bfloat(scalar) { half::bf16::from_bits(half).to_f32() } else { half::f16::from_bits(half).to_f32() }
}

fn narrowed(scalar: Scalar, sum: f32) -> u16 {
    match is_bfloat(scalar) {
        _ if sum.is_nan() => 0x7fff,
        true => half::bf16::from_f32(sum).to_bits(),
        false => half::f16::from_f32(sum).to_bits(),
    }
}

/// # Safety
/// The place is valid for 2, 4 or 8 bytes and aligned to them, and others access it atomically.
unsafe fn load(place: *const u8, bytes: u64) -> u64 {
    // SAFETY: by the contract of the function.
    unsafe {
        match bytes {
            2 => u64::from((*place.cast::<AtomicU16>()).load(Ordering::SeqCst)),
            4 => u64::from((*place.cast::<AtomicU32>()).load(Ordering::SeqCst)),
            _ => (*place.cast::<AtomicU64>()).load(Ordering::SeqCst),
        }
    }
}

/// # Safety
/// As for [`load`].
unsafe fn store(place: *mut u8, bytes: u64, value: u64) {
    // SAFETY: by the contract of the function.
    unsafe {
        match bytes {
            2 => (*place.cast::<AtomicU16>()).store(value as u16, Ordering::SeqCst),
            4 => (*place.cast::<AtomicU32>()).store(value as u32, Ordering::SeqCst),
            _ => (*place.cast::<AtomicU64>()).store(value, Ordering::SeqCst),
        }
    }
}
