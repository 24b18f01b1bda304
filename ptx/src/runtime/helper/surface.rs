//! Loads, stores and reductions of surfaces: where they go, and how converting stores convert.

use super::image::{LAYERS, no_image, surface};
use super::thread::{fail, noted, reduction, update};
use crate::host::memory_ops::Access;
use crate::host::texture::{Component, Texels};
use crate::number::Scalar;
use crate::runtime::state::{Context, TRAP_ILLEGAL, TRAP_MISALIGNED, TrapAccess, Warp};

/// What happens outside the surface: the kernel stops, the nearest bytes inside are taken, or reads give 0 and writes are dropped.
pub(crate) const OUTSIDE: [&str; 3] = ["trap", "clamp", "zero"];

const CLAMP: u64 = 1;
const ZERO: u64 = 2;

/// An access to a surface; compiled code passes its bits.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SurfaceMode {
    /// The dimensions and whether there are layers, as for textures.
    pub(crate) geometry: u64,
    /// Bytes of an element: 1, 2, 4 or 8.
    pub(crate) element: u64,
    /// How many elements: 1, 2 or 4.
    pub(crate) count: u64,
    /// The place in [`OUTSIDE`].
    pub(crate) outside: u64,
    pub(crate) stores: bool,
    /// Whether the first coordinate counts texels, not bytes, and what is stored is converted.
    pub(crate) by_texels: bool,
    /// The operation and type of a reduction, numbered as those of atomics.
    pub(crate) op: u64,
    pub(crate) scalar: u64,
}

impl SurfaceMode {
    pub(crate) fn encode(self) -> u64 {
        self.geometry
            | u64::from(self.element.trailing_zeros()) << 4
            | self.count << 8
            | self.outside << 12
            | u64::from(self.stores) << 16
            | u64::from(self.by_texels) << 17
            | self.op << 24
            | self.scalar << 32
    }

    fn decode(mode: u64) -> Self {
        Self {
            geometry: mode & (LAYERS | 3),
            element: 1 << (mode >> 4 & 7),
            count: mode >> 8 & 7,
            outside: mode >> 12 & 3,
            stores: mode >> 16 & 1 != 0,
            by_texels: mode >> 17 & 1 != 0,
            op: mode >> 24 & 0xff,
            scalar: mode >> 32 & 0xff,
        }
    }
}

/// Where an access of some bytes to a surface goes; none if it is outside and dropped, or if the kernel stops.
fn place(context: &mut Context, mode: SurfaceMode, texels: &Texels, bytes: u64, access: Access) -> Option<u64> {
    let dimensions = (mode.geometry & 3) as usize;
    let has_layers = mode.geometry & LAYERS != 0;
    let mut at: [i64; 3] = std::array::from_fn(|axis| i64::from(context.args[1 + axis] as u32 as i32));
    if mode.by_texels {
        at[0] *= i64::from(texels.texel_bytes());
    }
    if has_layers {
        at[2] = i64::from(context.args[4] as u32 as i32);
    }
    let limits = [
        texels.row_bytes().saturating_sub(bytes) as i64,
        i64::from(texels.sizes[1]) - 1,
        i64::from(texels.sizes[2].max(texels.layers)) - 1,
    ];
    let mut inside = texels.row_bytes() >= bytes;
    for (axis, limit) in limits.into_iter().enumerate() {
        if axis >= dimensions && !(axis == 2 && has_layers) {
            at[axis] = 0;
        } else if mode.outside == CLAMP {
            at[axis] = at[axis].clamp(0, limit);
        }
        inside &= (0..=limit).contains(&at[axis]);
    }
    let offset = at[2] * texels.slice as i64 + at[1] * texels.pitch as i64 + at[0];
    let wrong = match inside {
        false if mode.outside == ZERO => return None,
        false => Some(TRAP_ILLEGAL),
        true => (!(at[0] as u64).is_multiple_of(bytes)).then_some(TRAP_MISALIGNED),
    };
    if let Some(kind) = wrong {
        fail(context, kind, at[0] as u64);
        context.trap_access = TrapAccess::of_image("surface", access, bytes);
        return None;
    }
    Some(texels.address.wrapping_add_signed(offset))
}

/// The surface of an access, if it has the instruction's dimensions; else the kernel stops.
fn texels_of(context: &mut Context, mode: SurfaceMode) -> Option<Texels> {
    let handle = context.args[0] as u64;
    // The faces of cubes count as layers.
    let has_layers = mode.geometry & LAYERS != 0;
    let found = surface(context, handle).filter(|texels: &Texels| {
        u64::from(texels.dimensions) == mode.geometry & 3 && (texels.layers > 0) == has_layers
    });
    if found.is_none() {
        no_image(context, handle);
    }
    found
}

/// `suld.b`, `sust.b` and `sust.p`: takes the object, three coordinates, a layer, and the values to store. One-byte elements are in
/// two-byte words.
pub(super) extern "C" fn access(context: &mut Context, warp: &mut Warp, mode: u64) {
    context.warp = warp;
    context.result = 0;
    let mode = SurfaceMode::decode(mode);
    let Some(texels) = texels_of(context, mode) else { return };
    if mode.by_texels {
        return store_texel(context, mode, &texels);
    }
    let SurfaceMode { element, count, stores, .. } = mode;
    let bytes = element * count;
    let access = if stores { Access::Write } else { Access::Read };
    let Some(address) = place(context, mode, &texels, bytes, access) else { return };
    noted(context, address, bytes, access);
    let place = element.max(2) as usize;
    let mut packed = [0u8; 16];
    for index in 0..count as usize {
        let (near, far) = (index * place, address + index as u64 * element);
        // SAFETY: all of the surface is in memory that the kernel may touch, and `bytes` from here on are inside of it.
        unsafe {
            if stores {
                let value = context.args[5 + index].to_le_bytes();
                std::ptr::copy_nonoverlapping(value.as_ptr(), far as *mut u8, element as usize);
            } else {
                std::ptr::copy_nonoverlapping(far as *const u8, packed[near..].as_mut_ptr(), element as usize);
            }
        }
    }
    context.result = u128::from_le_bytes(packed);
}

/// The stored form of a surface's component; none for an integer that does not fit.
fn converted(component: Component, word: u32) -> Option<[u8; 4]> {
    let signed = word as i32;
    let word = match component {
        Component::U8 => u32::from(u8::try_from(word).ok()?),
        Component::S8 => i8::try_from(signed).ok()? as u32,
        Component::U16 => u32::from(u16::try_from(word).ok()?),
        Component::S16 => i16::try_from(signed).ok()? as u32,
        Component::F16 => u32::from(half::f16::from_f32(f32::from_bits(word)).to_bits()),
        Component::U32 | Component::S32 | Component::F32 => word,
    };
    Some(word.to_le_bytes())
}

/// `sust.p`: stores words as the components of a texel.
fn store_texel(context: &mut Context, mode: SurfaceMode, texels: &Texels) {
    let size = texels.component.bytes() as usize;
    let bytes = u64::from(texels.texel_bytes());
    let Some(address) = place(context, mode, texels, bytes, Access::Write) else { return };
    // The ISA calls components that are not given unpredictable.
    let mut texel = [0xff; 16];
    for index in 0..mode.count.min(u64::from(texels.channels)) as usize {
        let Some(value) = converted(texels.component, context.args[5 + index] as u32) else {
            fail(context, TRAP_ILLEGAL, address);
            context.trap_access = TrapAccess::of_image("texel", Access::Write, bytes);
            return;
        };
        texel[index * size..][..size].copy_from_slice(&value[..size]);
    }
    noted(context, address, bytes, Access::Write);
    // SAFETY: as in `access`; the texel has at most 16 bytes.
    unsafe { std::ptr::copy_nonoverlapping(texel.as_ptr(), address as *mut u8, bytes as usize) };
}

/// `sured`: takes the object, three coordinates, no layer, and the value.
pub(super) extern "C" fn reduce(context: &mut Context, warp: &mut Warp, mode: u64) {
    context.warp = warp;
    let mode = SurfaceMode::decode(mode);
    let Some(texels) = texels_of(context, mode) else { return };
    let scalar = match (mode.by_texels, texels.component, texels.channels) {
        (false, ..) => mode.scalar,
        (true, Component::U32, 1) => Scalar::U32 as u64,
        (true, Component::S32, 1) => Scalar::S32 as u64,
        // The ISA does not say anything about texels of other formats.
        _ => return no_image(context, context.args[0] as u64),
    };
    let Some((bytes, combine)) = reduction(mode.op, scalar) else { return };
    let Some(address) = place(context, mode, &texels, bytes, Access::Atomic) else { return };
    if !address.is_multiple_of(bytes) {
        // Rows of words begin at multiples of them, rows of bytes anywhere.
        fail(context, TRAP_MISALIGNED, address);
        context.trap_access = TrapAccess::of_image("surface", Access::Atomic, bytes);
        return;
    }
    noted(context, address, bytes, Access::Atomic);
    let value = context.args[5] as u64 & (u64::MAX >> (64 - 8 * bytes));
    // SAFETY: all of the surface is in memory that the kernel may touch, this is a place in it, and it is aligned.
    unsafe { update(address as *mut u8, bytes, |old| Some(combine(old, value))) };
}
