//! Texels in the memory of tests.
#![allow(dead_code, reason = "each test uses a part")]
#![allow(clippy::allow_attributes, reason = "whether something is dead differs from test to test")]

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
    }
}
