//! Texture fetches, and surface loads and stores, through the objects that the caller's memory knows.

use super::thread::{fail, noted};
use crate::memory_ops::Access;
use crate::state::{Context, Images, TRAP_ILLEGAL, TRAP_MISALIGNED, TrapAccess, Warp};
use crate::texture::{Texels, Texture, face};

/// Outside the surface: the kernel stops, the nearest bytes inside are taken, or reads give 0 and writes are dropped.
pub(crate) const OUTSIDE: [&str; 3] = ["trap", "clamp", "zero"];

/// In the mode of an access: the image has layers, is a cube.
pub(crate) const LAYERS: u64 = 1 << 20;
pub(crate) const CUBE: u64 = 1 << 21;
/// In the mode of a fetch: coordinates are integers, or four texels are gathered (of a component, from bit 8 on).
pub(crate) const INTEGERS: u64 = 1 << 4;
pub(crate) const GATHER: u64 = 1 << 5;

const CLAMP: u64 = 1;
const ZERO: u64 = 2;

/// Whether all texels are in memory that the kernel may touch.
fn is_valid(context: &Context, texels: &Texels) -> bool {
    // SAFETY: the launch holds the map as long as it runs.
    let range = unsafe { &*context.memory }.range(texels.address);
    range.is_some_and(|range| range.start <= texels.address && texels.span() <= range.end - texels.address)
}

fn texture(context: &mut Context, handle: u64) -> Option<Texture> {
    if let Some((_, known)) = context.images.textures.iter().find(|(known, _)| *known == handle) {
        return Some(*known);
    }
    // SAFETY: as above.
    let found = unsafe { &*context.memory }.texture(handle).filter(|found| is_valid(context, &found.texels))?;
    Images::keep(&mut context.images.textures, handle, found);
    Some(found)
}

fn surface(context: &mut Context, handle: u64) -> Option<Texels> {
    if let Some((_, known)) = context.images.surfaces.iter().find(|(known, _)| *known == handle) {
        return Some(*known);
    }
    // SAFETY: as above.
    let found = unsafe { &*context.memory }.surface(handle).filter(|found| is_valid(context, found))?;
    Images::keep(&mut context.images.surfaces, handle, found);
    Some(found)
}

/// The handle is of no image, or of one with other dimensions.
fn no_image(context: &mut Context, handle: u64) {
    fail(context, TRAP_ILLEGAL, handle);
    context.trap_access = TrapAccess::of_image("image", Access::Read, 0);
}

/// `tex` and `tld4`: the object, three coordinates and a layer to four numbers of 32 bits. The mode has the dimensions.
pub(super) extern "C" fn fetch(context: &mut Context, warp: &mut Warp, mode: u64) {
    context.warp = warp;
    let handle = context.args[0] as u64;
    let coordinates: [u32; 3] = std::array::from_fn(|axis| context.args[1 + axis] as u32);
    let has_layers = mode & (LAYERS | CUBE) != 0;
    let fits = |texels: &Texels| {
        u64::from(texels.dimensions) == mode & 3
            && (texels.layers > 0) == has_layers
            && texels.is_cube == (mode & CUBE != 0)
    };
    let as_asked = |mut found: Texture| {
        // NVIDIA's samples make arrays with a height of 1 and fetch from them with `tex1D`.
        if mode & 3 == 1 && found.texels.dimensions == 2 && found.texels.sizes[1] == 1 {
            found.texels.dimensions = 1;
        }
        found
    };
    let found = texture(context, handle).map(as_asked);
    let Some(mut texture) = found.filter(|found| fits(&found.texels)) else {
        return no_image(context, handle);
    };
    let mut texels = texture.texels;
    let mut floats = coordinates.map(f32::from_bits);
    if has_layers {
        // A layer that there is not is the last one.
        let mut layer = context.args[4] as u32;
        if texels.is_cube {
            let (face, [s, t]) = face(floats);
            floats = [s, t, 0.0];
            texture.is_normalized = true;
            layer = layer.min(texels.layers / 6 - 1) * 6 + face;
        }
        texels.address += u64::from(layer.min(texels.layers - 1)) * texels.slice;
    }
    let bytes = u64::from(texels.texel_bytes());
    let mut read = |[x, y, z]: [u32; 3]| {
        let offset = u64::from(z) * texels.slice + u64::from(y) * texels.pitch + u64::from(x) * bytes;
        let address = texels.address + offset;
        noted(context, address, bytes, Access::Read);
        let mut all = [0; 16];
        // SAFETY: the texels were found to be in memory that the kernel may touch, and this is one of them.
        unsafe { std::ptr::copy_nonoverlapping(address as *const u8, all.as_mut_ptr(), bytes as usize) };
        Some(all)
    };
    let found = if mode & GATHER != 0 {
        texture.gather([floats[0], floats[1]], (mode >> 8 & 3) as usize, &mut read)
    } else if mode & INTEGERS != 0 {
        texture.at(coordinates.map(|word| word as i32), &mut read)
    } else {
        texture.fetch(floats, &mut read)
    };
    let words = found.unwrap_or_default();
    context.result = words.iter().rev().fold(0, |all, word| all << 32 | u128::from(*word));
}

/// `suld.b` and `sust.b`. The mode: dimensions, logarithm of an element's bytes, elements, what is done outside, whether it stores.
/// The first coordinate is in bytes. Elements of one byte are in words of two.
pub(super) extern "C" fn access(context: &mut Context, warp: &mut Warp, mode: u64) {
    context.warp = warp;
    let (dimensions, element, count) = (mode & 3, 1u64 << (mode >> 4 & 7), mode >> 8 & 7);
    let (outside, stores) = (mode >> 12 & 3, mode >> 16 & 1 != 0);
    let bytes = element * count;
    context.result = 0;
    let handle = context.args[0] as u64;
    // Faces of cubes are layers.
    let has_layers = mode & LAYERS != 0;
    let fits = |texels: &Texels| u64::from(texels.dimensions) == dimensions && (texels.layers > 0) == has_layers;
    let Some(texels) = surface(context, handle).filter(fits) else {
        return no_image(context, handle);
    };
    let mut at: [i64; 3] = std::array::from_fn(|axis| i64::from(context.args[1 + axis] as u32 as i32));
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
        if axis as u64 >= dimensions && !(axis == 2 && has_layers) {
            at[axis] = 0;
        } else if outside == CLAMP {
            at[axis] = at[axis].clamp(0, limit);
        }
        inside &= (0..=limit).contains(&at[axis]);
    }
    let offset = at[2] * texels.slice as i64 + at[1] * texels.pitch as i64 + at[0];
    let address = texels.address.wrapping_add_signed(offset);
    let access = if stores { Access::Write } else { Access::Read };
    if !inside {
        if outside != ZERO {
            fail(context, TRAP_ILLEGAL, at[0] as u64);
            context.trap_access = TrapAccess::of_image("surface", access, bytes);
        }
        return;
    }
    if !(at[0] as u64).is_multiple_of(bytes) {
        fail(context, TRAP_MISALIGNED, at[0] as u64);
        context.trap_access = TrapAccess::of_image("surface", access, bytes);
        return;
    }
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
