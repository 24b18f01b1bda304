//! Bulk and tensor copies: done when they are issued, then counted at their mbarrier.

use super::thread::{complete, fail, resolve_any, space_of};
use crate::host::memory_ops::{Access, AddressSpace};
use crate::host::tensor_map::{FIELDS, Field, TensorMap};
use crate::runtime::state::{Context, TRAP_ILLEGAL, Warp};

/// The blocks that a multicast writes to, as the bits that their shared addresses carry; without a multicast 0, which is this block.
fn targets(context: &Context, mode: u64, mask: u64) -> Vec<u64> {
    if mode >> 3 & 1 == 0 {
        return vec![0];
    }
    (0..u64::from(context.cluster_size)).filter(|rank| mask >> rank & 1 != 0).map(|rank| (rank + 1) << 24).collect()
}

fn plain(address: u64) -> u64 {
    address & 0xff_ffff
}

/// The address in the block that `target` names; unchanged if there is no multicast.
fn in_block(address: u64, target: u64) -> u64 {
    if target == 0 { address } else { target | plain(address) }
}

pub(super) extern "C" fn copy(context: &mut Context, warp: &mut Warp, mode: u64) {
    context.warp = warp;
    let args = context.args;
    let (to, from, size) = (args[0] as u64, args[1] as u64, args[2] as u64 & 0xffff_ffff);
    let (barrier, mask) = (args[3] as u64, args[4] as u64 & 0xffff);
    let (to_shared, global, reduce) = (mode & 1 != 0, mode & 2 != 0, mode >> 7 & 1 != 0);
    let from_space = if to_shared && global { AddressSpace::Global } else { AddressSpace::Shared };
    let to_space = if to_shared { AddressSpace::Shared } else { AddressSpace::Global };
    if !size.is_multiple_of(16) {
        return fail(context, crate::runtime::state::TRAP_MISALIGNED, size);
    }
    let Some(source) = resolve_any(context, from, size, 16, from_space, Access::Read) else { return };
    for target in targets(context, mode, mask) {
        let address = if to_shared { in_block(to, target) } else { to };
        let Some(place) = resolve_any(context, address, size, 16, to_space, Access::Write) else { return };
        if reduce {
            let scalar = mode >> 12 & 0xff;
            reduce_into(place, source, size, mode >> 8 & 15, scalar);
        } else {
            // SAFETY: both were resolved for `size` bytes.
            unsafe { std::ptr::copy(source, place, size as usize) };
        }
        if mode >> 2 & 1 != 0 {
            complete(context, in_block(barrier, target), size);
        }
    }
}

fn reduce_into(place: *mut u8, source: *const u8, size: u64, op: u64, scalar: u64) {
    let Some((bytes, each)) = super::thread::reduction(op, scalar) else { return };
    for at in (0..size).step_by(bytes as usize) {
        // SAFETY: both were resolved for `size` bytes, aligned to 16.
        unsafe {
            let mut raw = [0u8; 8];
            std::ptr::copy_nonoverlapping(source.add(at as usize), raw.as_mut_ptr(), bytes as usize);
            super::thread::update(place.add(at as usize), bytes, |old| Some(each(old, u64::from_le_bytes(raw))));
        }
    }
}

pub(super) extern "C" fn replace(context: &mut Context, warp: &mut Warp, mode: u64) {
    context.warp = warp;
    let (map, ordinal, value) = (context.args[0] as u64, context.args[1] as usize, context.args[2] as u64);
    let Some((_, field)) = FIELDS.iter().find(|(_, field)| *field as u64 == mode & 0xff) else { return };
    let Some(place) = resolve_any(context, map, 128, 64, space_of(mode), Access::Write) else { return };
    let value = if matches!(field, Field::GlobalAddress | Field::GlobalStride) { value } else { value & 0xffff_ffff };
    // SAFETY: resolved for 128 bytes, aligned.
    let fits = TensorMap::replace(unsafe { &mut *place.cast::<[u8; 128]>() }, *field, ordinal, value);
    if !fits {
        fail(context, TRAP_ILLEGAL, map);
    }
}

pub(super) extern "C" fn publish(context: &mut Context, warp: &mut Warp, _mode: u64) {
    context.warp = warp;
    let (to, from) = (context.args[0] as u64, context.args[1] as u64);
    let Some(source) = resolve_any(context, from, 128, 64, AddressSpace::Shared, Access::Read) else { return };
    let Some(target) = resolve_any(context, to, 128, 64, AddressSpace::Global, Access::Write) else { return };
    // SAFETY: both were resolved for 128 bytes.
    unsafe { std::ptr::copy(source, target, 128) };
}

pub(super) extern "C" fn tensor(context: &mut Context, warp: &mut Warp, mode: u64) {
    context.warp = warp;
    let args = context.args;
    let (shared, map) = (args[0] as u64, args[1] as u64);
    let coordinates: [i64; 5] = std::array::from_fn(|index| i64::from(args[2 + index] as u32 as i32));
    let (barrier, mask) = (args[7] as u64, args[8] as u64 & 0xffff);
    let (load, reduce, dims) = (mode & 1 != 0, mode >> 7 & 1 != 0, (mode >> 4 & 7) as usize);
    let Some(place) = resolve_any(context, map, 128, 64, AddressSpace::Generic, Access::Read) else { return };
    // SAFETY: resolved for 128 bytes.
    let bytes = unsafe { place.cast::<[u8; 128]>().read() };
    let Some(tensor) = TensorMap::decode(&bytes).filter(|tensor| tensor.rank as usize == dims) else {
        return fail(context, TRAP_ILLEGAL, map);
    };
    let size = u64::from(tensor.element_bytes);
    let total: u64 = tensor.box_sizes[..dims].iter().map(|n| u64::from(*n)).product();
    for target in if load { targets(context, mode, mask) } else { vec![0] } {
        for element in 0..total {
            let mut left = element;
            let (mut address, mut inside) = (tensor.address, true);
            for (axis, start) in coordinates[..dims].iter().enumerate() {
                let length = u64::from(tensor.box_sizes[axis]);
                let at = start + (left % length) as i64 * i64::from(tensor.element_strides[axis]);
                left /= length;
                inside &= at >= 0 && (at as u64) < tensor.sizes[axis];
                let stride = if axis == 0 { size } else { tensor.strides[axis - 1] };
                address = address.wrapping_add((at as u64).wrapping_mul(stride));
            }
            let base = in_block(shared, target);
            let at = base & !0xff_ffff | tensor.swizzled(plain(base), element * size);
            let (here, there) = if load { (Access::Write, Access::Read) } else { (Access::Read, Access::Write) };
            let Some(near) = resolve_any(context, at, size, size, AddressSpace::Shared, here) else { return };
            if !inside {
                if load {
                    let fill = if tensor.fill_nan { u64::MAX >> 1 >> (64 - 8 * size) } else { 0 };
                    // SAFETY: resolved for `size` bytes.
                    unsafe { std::ptr::copy_nonoverlapping(fill.to_le_bytes().as_ptr(), near, size as usize) };
                }
                continue;
            }
            let Some(far) = resolve_any(context, address, size, size, AddressSpace::Global, there) else { return };
            // SAFETY: both were resolved for `size` bytes.
            unsafe {
                if load {
                    std::ptr::copy_nonoverlapping(far, near, size as usize);
                } else if reduce {
                    // The map has a CUtensorMapDataType, the instructions have types of their own.
                    let Some(scalar) = super::thread::tensor_scalar(tensor.data_type) else {
                        return fail(context, TRAP_ILLEGAL, map);
                    };
                    reduce_into(far, near, size, mode >> 8 & 15, scalar);
                } else {
                    std::ptr::copy_nonoverlapping(near, far, size as usize);
                }
            }
        }
        if load && mode >> 2 & 1 != 0 {
            complete(context, in_block(barrier, target), total * size);
        }
    }
}
