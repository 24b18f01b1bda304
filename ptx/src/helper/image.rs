//! Fetches from textures, and queries of textures and surfaces, by the objects that the caller's memory knows.

use super::thread::{fail, noted};
use crate::memory_ops::Access;
use crate::state::{Context, Images, TRAP_ILLEGAL, TrapAccess, Warp};
use crate::texture::{Texels, Texture, face};

/// What can be asked of an image: of a surface the first five, of a texture all but `memory_layout`, of its levels the first three.
pub(crate) const QUERIES: [&str; 7] =
    ["width", "height", "depth", "array_size", "memory_layout", "normalized_coords", "num_mipmap_levels"];
/// In the mode of a query: of a surface.
pub(crate) const OF_SURFACE: u64 = 1 << 3;

/// In the mode of an access: the image has layers, is a cube.
pub(crate) const LAYERS: u64 = 1 << 20;
pub(crate) const CUBE: u64 = 1 << 21;
/// In the mode of a fetch: coordinates are integers, or four texels are gathered (of a component, from bit 8 on).
pub(crate) const INTEGERS: u64 = 1 << 4;
pub(crate) const GATHER: u64 = 1 << 5;

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

pub(super) fn surface(context: &mut Context, handle: u64) -> Option<Texels> {
    if let Some((_, known)) = context.images.surfaces.iter().find(|(known, _)| *known == handle) {
        return Some(*known);
    }
    // SAFETY: as above.
    let found = unsafe { &*context.memory }.surface(handle).filter(|found| is_valid(context, found))?;
    Images::keep(&mut context.images.surfaces, handle, found);
    Some(found)
}

/// The handle is of no image, or of one with other dimensions.
pub(super) fn no_image(context: &mut Context, handle: u64) {
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

/// `txq` and `suq`: the object, and a level, to a number. The mode: the place in [`QUERIES`], and whether it is of a surface.
pub(super) extern "C" fn query(context: &mut Context, warp: &mut Warp, mode: u64) {
    context.warp = warp;
    let handle = context.args[0] as u64;
    let (found, is_normalized) = if mode & OF_SURFACE != 0 {
        (surface(context, handle), false)
    } else {
        let found = texture(context, handle);
        (found.map(|found| found.texels), found.is_some_and(|found| found.is_normalized))
    };
    // There is one level.
    let found = found.filter(|_| context.args[1] as u32 == 0);
    let answer = found.and_then(|texels| match QUERIES[(mode & 7) as usize] {
        "width" => Some(texels.sizes[0]),
        "height" => (texels.dimensions > 1).then_some(texels.sizes[1]),
        "depth" => (texels.dimensions > 2).then_some(texels.sizes[2]),
        // Whether the faces of cubes count is not documented.
        "array_size" => (!texels.is_cube).then_some(texels.layers),
        "normalized_coords" => Some(u32::from(is_normalized)),
        // No mipmaps; arrays are not linear.
        _ => Some(0),
    });
    match answer {
        Some(answer) => context.result = u128::from(answer),
        None => no_image(context, handle),
    }
}
