//! Texture fetches, and queries of textures and surfaces, through the objects that the caller's memory knows.

use super::thread::{fail, noted};
use crate::host::memory_ops::Access;
use crate::host::texture::{Texels, Texture, face};
use crate::runtime::state::{Context, Images, TRAP_ILLEGAL, TrapAccess, Warp};

/// Queries of an image: surfaces have the first five, textures all but `memory_layout`, and texture levels the first three.
pub(crate) const QUERIES: [&str; 7] =
    ["width", "height", "depth", "array_size", "memory_layout", "normalized_coords", "num_mipmap_levels"];
/// A bit in the mode of a query: it is about a surface.
pub(crate) const OF_SURFACE: u64 = 1 << 3;

/// Bits in the mode of an access: the image has layers, or is a cube.
pub(crate) const LAYERS: u64 = 1 << 20;
pub(crate) const CUBE: u64 = 1 << 21;
/// Bits in the mode of a fetch: coordinates are integers, or four texels are gathered (the component is in the bits from 8 on).
pub(crate) const INTEGERS: u64 = 1 << 4;
pub(crate) const GATHER: u64 = 1 << 5;
/// Bits in the mode of a fetch: after the layer comes a level of detail, or two gradients of three numbers.
pub(crate) const DETAIL: u64 = 1 << 6;
pub(crate) const GRADIENTS: u64 = 1 << 7;

/// Whether all of these bytes are in memory that the kernel may touch.
fn is_valid(context: &Context, address: u64, bytes: u64) -> bool {
    // SAFETY: the launch holds the map as long as it runs.
    let range = unsafe { &*context.memory }.range(address);
    range.is_some_and(|range| range.start <= address && bytes <= range.end - address)
}

fn texture(context: &mut Context, handle: u64) -> Option<Texture> {
    if let Some((_, known)) = context.images.textures.iter().find(|(known, _)| *known == handle) {
        return Some(*known);
    }
    // SAFETY: as above.
    let found = unsafe { &*context.memory }.texture(handle)?;
    if !is_valid(context, found.texels.address, found.span()) {
        return None;
    }
    Images::keep(&mut context.images.textures, handle, found);
    Some(found)
}

pub(super) fn surface(context: &mut Context, handle: u64) -> Option<Texels> {
    if let Some((_, known)) = context.images.surfaces.iter().find(|(known, _)| *known == handle) {
        return Some(*known);
    }
    // SAFETY: as above.
    let found = unsafe { &*context.memory }.surface(handle)?;
    if !is_valid(context, found.address, found.span()) {
        return None;
    }
    Images::keep(&mut context.images.surfaces, handle, found);
    Some(found)
}

/// Stops the kernel, because the handle belongs to no image, or to one with other dimensions.
pub(super) fn no_image(context: &mut Context, handle: u64) {
    fail(context, TRAP_ILLEGAL, handle);
    context.trap_access = TrapAccess::of_image("image", Access::Read, 0);
}

/// `tex` and `tld4`: takes the object, three coordinates and a layer, and gives four numbers of 32 bits. The mode has the dimensions.
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
    let float = |index: usize| f32::from_bits(context.args[index] as u32);
    let detail = if mode & DETAIL != 0 {
        Some(float(5))
    } else if mode & GRADIENTS != 0 {
        Some(texture.detail([5, 8].map(|first| std::array::from_fn(|axis| float(first + axis)))))
    } else {
        None
    };
    // Gathers read the most detailed level.
    let (level, weight) = if mode & GATHER != 0 { (0, 0.0) } else { texture.level_at(detail) };
    let mut floats = coordinates.map(f32::from_bits);
    let mut layer = context.args[4] as u32;
    if has_layers {
        // A layer that does not exist reads as the last one.
        if texture.texels.is_cube {
            let (face, [s, t]) = face(floats);
            floats = [s, t, 0.0];
            texture.is_normalized = true;
            layer = layer.min(texture.texels.layers / 6 - 1) * 6 + face;
        }
        layer = layer.min(texture.texels.layers - 1);
    }
    let bytes = u64::from(texture.texels.texel_bytes());
    let mut read_of = |texels: Texels, [x, y, z]: [u32; 3]| {
        let offset = u64::from(z) * texels.slice + u64::from(y) * texels.pitch + u64::from(x) * bytes;
        let address = texels.address + offset;
        noted(context, address, bytes, Access::Read);
        let mut all = [0; 16];
        // SAFETY: the texels of all levels were found to be in memory that the kernel may touch, and this is one of them.
        unsafe { std::ptr::copy_nonoverlapping(address as *const u8, all.as_mut_ptr(), bytes as usize) };
        Some(all)
    };
    let at_level = |level: u32| {
        let mut texels = texture.texels.level(level);
        if has_layers {
            texels.address += u64::from(layer) * texels.slice;
        }
        Texture { texels, ..texture }
    };
    let this = at_level(level);
    let found = if weight > 0.0 && mode & INTEGERS == 0 {
        let next = at_level(level + 1);
        let near = this.mean(floats, &mut |place| read_of(this.texels, place));
        let far = next.mean(floats, &mut |place| read_of(next.texels, place));
        near.zip(far).map(|(near, far)| Texture::between(near, far, weight))
    } else {
        let mut read = |place| read_of(this.texels, place);
        if mode & GATHER != 0 {
            this.gather([floats[0], floats[1]], (mode >> 8 & 3) as usize, &mut read)
        } else if mode & INTEGERS != 0 {
            this.texel_at(coordinates.map(|word| word as i32), &mut read)
        } else {
            this.fetch(floats, &mut read)
        }
    };
    let words = found.unwrap_or_default();
    context.result = words.iter().rev().fold(0, |all, word| all << 32 | u128::from(*word));
}

/// `txq` and `suq`: takes the object and a level, and gives a number. The mode has the place in [`QUERIES`], and whether it is
/// about a surface.
pub(super) extern "C" fn query(context: &mut Context, warp: &mut Warp, mode: u64) {
    context.warp = warp;
    let handle = context.args[0] as u64;
    let found = if mode & OF_SURFACE != 0 {
        surface(context, handle).map(|texels| (texels, None, false))
    } else {
        texture(context, handle).map(|found| (found.texels, found.mipmap, found.is_normalized))
    };
    let level = context.args[1] as u32;
    let answer = found.and_then(|(texels, mipmap, is_normalized)| {
        if level >= mipmap.map_or(1, |mipmap| mipmap.levels) {
            return None;
        }
        let texels = texels.level(level);
        match QUERIES[(mode & 7) as usize] {
            "width" => Some(texels.sizes[0]),
            "height" => (texels.dimensions > 1).then_some(texels.sizes[1]),
            "depth" => (texels.dimensions > 2).then_some(texels.sizes[2]),
            // Whether the faces of cubes count is not documented.
            "array_size" => (!texels.is_cube).then_some(texels.layers),
            "normalized_coords" => Some(u32::from(is_normalized)),
            "num_mipmap_levels" => Some(mipmap.map_or(0, |mipmap| mipmap.levels)),
            // Anything else is whether memory is linear, which arrays are not.
            _ => Some(0),
        }
    });
    match answer {
        Some(answer) => context.result = u128::from(answer),
        None => no_image(context, handle),
    }
}
