//! Texels in the memory of tests.

use ptx::{Addressing, Component, Texels, Texture};

use super::device::Device;

pub(crate) const SIZES: [u32; 3] = [7, 5, 3];

/// Rows and slices with gaps between them, of texels that `value` makes.
pub(crate) fn texels(
    device: &mut Device,
    dimensions: u8,
    component: Component,
    channels: u8,
    mut value: impl FnMut() -> Vec<u8>,
) -> Texels {
    let mut sizes = [1; 3];
    sizes[..usize::from(dimensions)].copy_from_slice(&SIZES[..usize::from(dimensions)]);
    let bytes = usize::from(channels) * component.bytes() as usize;
    let pitch = sizes[0] as usize * bytes + 16;
    let slice = pitch * sizes[1] as usize + 32;
    let mut memory = vec![0xee_u8; slice * sizes[2] as usize];
    for z in 0..sizes[2] as usize {
        for y in 0..sizes[1] as usize {
            for x in 0..sizes[0] as usize {
                let at = z * slice + y * pitch + x * bytes;
                memory[at..at + bytes].copy_from_slice(&value());
            }
        }
    }
    let address = device.put(&memory);
    let (pitch, slice) = (pitch as u64, slice as u64);
    Texels { address, dimensions, sizes, pitch, slice, layers: 0, is_cube: false, component, channels }
}

pub(crate) fn bytes_of(device: &Device, texels: &Texels, [x, y, z]: [i64; 3]) -> Vec<u8> {
    let bytes = texels.texel_bytes() as usize;
    let offset = z as u64 * texels.slice + y as u64 * texels.pitch + x as u64 * bytes as u64;
    device.get::<u8>(texels.address + offset, bytes)
}

pub(crate) fn plain(texels: Texels) -> Texture {
    let border = [0.0; 4];
    Texture {
        texels,
        addressing: [Addressing::Clamp; 3],
        is_filtered: false,
        is_normalized: false,
        promotes: false,
        border,
        mipmap: None,
    }
}

/// The texel of one dimension at an index, `None` for the border: clamp is [0, N-1], wrap and mirror repeat the texture.
pub(crate) fn index(addressing: Addressing, index: i64, size: i64) -> Option<i64> {
    match addressing {
        Addressing::Clamp => Some(index.max(0).min(size - 1)),
        Addressing::Border => (index >= 0 && index < size).then_some(index),
        Addressing::Wrap => Some(((index % size) + size) % size),
        Addressing::Mirror => {
            let mut folded = index;
            while folded < 0 || folded >= size {
                folded = if folded < 0 { -1 - folded } else { 2 * size - 1 - folded };
            }
            Some(folded)
        }
    }
}

/// One coordinate in texels, as the guide normalizes and folds it.
pub(crate) fn folded(addressing: Addressing, is_normalized: bool, x: f32, size: u32) -> f64 {
    if !is_normalized {
        return f64::from(x);
    }
    let fraction = x - x.floor();
    let x = match addressing {
        Addressing::Wrap => fraction,
        Addressing::Mirror if x.floor() as i64 % 2 == 0 => fraction,
        Addressing::Mirror => 1.0 - fraction,
        _ => x,
    };
    f64::from(x * size as f32)
}

/// tex(x, y, z) of the guide, by one dimension after the other.
pub(crate) fn blended(
    table: &dyn Fn([i64; 3]) -> [f64; 4],
    at: &[f64],
    is_filtered: bool,
    fixed: [i64; 3],
) -> [f64; 4] {
    let Some((x, rest)) = at.split_last() else { return table(fixed) };
    let axis = rest.len();
    let with = |i: i64| {
        let mut fixed = fixed;
        fixed[axis] = i;
        blended(table, rest, is_filtered, fixed)
    };
    if !is_filtered {
        return with(x.floor() as i64);
    }
    let moved = x - 0.5;
    let alpha = ((moved - moved.floor()) * 256.0).round() / 256.0;
    let (low, high) = (with(moved.floor() as i64), with(moved.floor() as i64 + 1));
    std::array::from_fn(|k| (1.0 - alpha) * low[k] + alpha * high[k])
}
