//! CUDA arrays: memory with a shape and a texel format. Copies fill it, and textures and surfaces read it.

use std::sync::Arc;

use abi::cuda::{CudaError, CudaResult};
use abi::handle::Handles;
use abi::library::Library;
use ptx::{Component, Texels};

use super::copy::{Extent, Layout};
use crate::boundary::gap;
use crate::device::Device;
use crate::device::memory::{self, Kind};
use crate::device::state::attribute;
use crate::device::work::stream;

/// `cudaArrayLayered`, `CUDA_ARRAY3D_LAYERED`: the depth counts layers.
pub(super) const LAYERED: u32 = 1;
/// `cudaArrayCubemap`, `CUDA_ARRAY3D_CUBEMAP`: the depth counts faces, six for each cube.
pub(super) const CUBE: u32 = 4;
/// `cudaArraySurfaceLoadStore`, `CUDA_ARRAY3D_SURFACE_LDST`
pub(crate) const SURFACE: u32 = 2;
/// `cudaArrayTextureGather`, `CUDA_ARRAY3D_TEXTURE_GATHER`
const GATHER: u32 = 8;

/// The format of a texel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) component: Component,
    /// 1, 2 or 4.
    pub(crate) channels: u8,
}

/// Each component with its `cudaChannelFormatKind`, its bits and its `CUarray_format`.
const COMPONENTS: [(Component, u32, u32, u32); 8] = [
    (Component::U8, 1, 8, 0x01),
    (Component::U16, 1, 16, 0x02),
    (Component::U32, 1, 32, 0x03),
    (Component::S8, 0, 8, 0x08),
    (Component::S16, 0, 16, 0x09),
    (Component::S32, 0, 32, 0x0a),
    (Component::F16, 2, 16, 0x10),
    (Component::F32, 2, 32, 0x20),
];

impl Format {
    fn new(component: Option<Component>, channels: u32) -> Option<Self> {
        matches!(channels, 1 | 2 | 4).then_some(Self { component: component?, channels: channels as u8 })
    }

    /// From the runtime's description: the bits of each channel, and their kind.
    pub(crate) fn of_channels(bits: [i32; 4], kind: u32) -> Option<Self> {
        let channels = bits.iter().take_while(|bits| **bits != 0).count();
        let alike = bits[..channels].iter().all(|each| *each == bits[0]) && bits[channels..] == [0; 4][channels..];
        let found = COMPONENTS.iter().find(|(_, k, b, _)| alike && *k == kind && *b as i32 == bits[0]);
        Self::new(found.map(|found| found.0), channels as u32)
    }

    /// The runtime's description.
    pub(crate) fn channels(self) -> ([i32; 4], u32) {
        let found = COMPONENTS.iter().find(|found| found.0 == self.component);
        let (kind, bits) = found.map_or((3, 0), |(_, kind, bits, _)| (*kind, *bits as i32));
        (std::array::from_fn(|index| if index < usize::from(self.channels) { bits } else { 0 }), kind)
    }

    /// From a `CUarray_format` and a number of channels.
    pub(crate) fn of_driver(format: u32, channels: u32) -> Option<Self> {
        Self::new(COMPONENTS.iter().find(|found| found.3 == format).map(|found| found.0), channels)
    }

    /// The driver's description.
    pub(crate) fn driver(self) -> (u32, u32) {
        let found = COMPONENTS.iter().find(|found| found.0 == self.component);
        (found.map_or(0, |found| found.3), u32::from(self.channels))
    }

    /// Bytes of a texel.
    pub(crate) fn bytes(self) -> usize {
        usize::from(self.channels) * self.component.bytes() as usize
    }
}

/// Memory of one array, or of all levels of a mipmapped one.
#[derive(Debug)]
pub(super) struct Block(usize);

impl Block {
    /// # Errors
    /// `MEMORY_ALLOCATION`
    pub(super) fn new(device: &'static Device, bytes: usize) -> CudaResult<Arc<Self>> {
        Ok(Arc::new(Self(memory::allocate(device, bytes, Kind::Internal)?)))
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        memory::free_internal(self.0);
    }
}

/// One array, or a level of a mipmapped one.
#[derive(Debug)]
pub(crate) struct Array {
    pub(crate) device: &'static Device,
    address: usize,
    _block: Arc<Block>,
    pub(crate) is_level: bool,
    /// Texels by dimension; 0 for dimensions that it does not have.
    pub(crate) sizes: [usize; 3],
    pub(crate) format: Format,
    pub(crate) flags: u32,
}

static ARRAYS: Handles<Array> = Handles::new(17);

impl Array {
    fn row_bytes(&self) -> usize {
        self.sizes[0] * self.format.bytes()
    }

    /// The layout of a box that begins at these bytes into a row, row and slice. Rows follow each other without gaps.
    ///
    /// # Errors
    /// `INVALID_VALUE` for a box that does not fit into the array.
    pub(crate) fn layout(&self, at: [usize; 3], extent: Extent) -> CudaResult<Layout> {
        let limits = [self.row_bytes(), self.sizes[1].max(1), self.sizes[2].max(1)];
        let lengths = [extent.width, extent.height, extent.depth];
        let fits = |axis: usize| at[axis].checked_add(lengths[axis]).is_some_and(|end| end <= limits[axis]);
        if !(0..3).all(fits) {
            return Err(CudaError::INVALID_VALUE);
        }
        let pitch = limits[0];
        let slice = pitch * limits[1];
        Ok(Layout { address: self.address + at[2] * slice + at[1] * pitch + at[0], pitch, slice })
    }

    /// The layout of consecutive `bytes` that begin here and may span rows.
    ///
    /// # Errors
    /// `INVALID_VALUE` if they do not fit into the array.
    pub(crate) fn line(&self, x: usize, y: usize, bytes: usize) -> CudaResult<Layout> {
        let pitch = self.row_bytes();
        let start = y.checked_mul(pitch).and_then(|start| start.checked_add(x));
        let whole = pitch * self.sizes[1].max(1) * self.sizes[2].max(1);
        match start {
            Some(start) if start.checked_add(bytes).is_some_and(|end| end <= whole) => {
                Ok(Layout::line(self.address + start))
            }
            _ => Err(CudaError::INVALID_VALUE),
        }
    }

    /// The array as kernels see it.
    pub(crate) fn texels(&self) -> Texels {
        let [width, height, depth] = self.sizes;
        let (depth, layers) = if self.flags & (LAYERED | CUBE) == 0 { (depth, 0) } else { (0, depth) };
        Texels {
            address: self.address as u64,
            dimensions: 1 + u8::from(height > 0) + u8::from(depth > 0),
            sizes: [width, height.max(1), depth.max(1)].map(|size| size as u32),
            layers: layers as u32,
            is_cube: self.flags & CUBE != 0,
            pitch: self.row_bytes() as u64,
            slice: (self.row_bytes() * height.max(1)) as u64,
            component: self.format.component,
            channels: self.format.channels,
        }
    }
}

/// Bytes of an array of these sizes.
pub(super) fn bytes(sizes: [usize; 3], format: Format) -> usize {
    sizes.iter().map(|size| (*size).max(1)).product::<usize>() * format.bytes()
}

/// Checks that the device supports arrays of these sizes: in one, two or three dimensions, with layers or with the faces of
/// cubes.
///
/// # Errors
/// `INVALID_VALUE` for sizes that the device does not support. Sparse arrays and other special kinds are gaps of `name`.
pub(super) fn check(
    device: &'static Device,
    sizes: [usize; 3],
    flags: u32,
    is_mipmapped: bool,
    library: Library,
    name: &'static str,
) -> CudaResult {
    if flags & !(LAYERED | SURFACE | CUBE | GATHER) != 0 {
        gap::record(library, name, "of a sparse or another special kind of array");
        return Err(CudaError::NOT_SUPPORTED);
    }
    let [width, height, depth] = sizes;
    let limit = |number: i32| attribute::get(device, number).unwrap_or(0) as usize;
    let is_layered = flags & LAYERED != 0;
    let has_layers = is_layered || flags & CUBE != 0;
    let limits = match (height, depth) {
        _ if flags & CUBE != 0 && is_layered => [limit(53), limit(53), limit(54)],
        _ if flags & CUBE != 0 => [limit(52), limit(52), 6],
        (0, _) if is_layered => [limit(42), 0, limit(43)],
        _ if is_layered => [limit(27), limit(28), limit(29)],
        (0, 0) => [limit(if is_mipmapped { 77 } else { 21 }), 0, 0],
        (_, 0) if is_mipmapped => [limit(73), limit(74), 0],
        (_, 0) => [limit(22), limit(23), 0],
        _ => [limit(24), limit(25), limit(26)],
    };
    let is_hollow = width == 0 || (height == 0 && depth > 0 && !has_layers) || (has_layers && depth == 0);
    let is_no_cube = flags & CUBE != 0 && (width != height || !depth.is_multiple_of(6));
    if is_hollow
        || is_no_cube
        || sizes.iter().zip(limits).any(|(size, limit)| *size > limit)
        || (flags & GATHER != 0 && depth > 0 && !is_layered)
    {
        return Err(CudaError::INVALID_VALUE);
    }
    Ok(())
}

/// Makes an array.
///
/// # Errors
/// As [`check`]; `MEMORY_ALLOCATION`.
pub(crate) fn create(
    device: &'static Device,
    sizes: [usize; 3],
    format: Format,
    flags: u32,
    library: Library,
    name: &'static str,
) -> CudaResult<usize> {
    check(device, sizes, flags, false, library, name)?;
    let block = Block::new(device, bytes(sizes, format))?;
    Ok(ARRAYS.insert(Arc::new(Array {
        device,
        address: block.0,
        _block: block,
        is_level: false,
        sizes,
        format,
        flags,
    })))
}

/// Adds a level, which begins `offset` bytes into the block. It exists until [`forget_level`].
pub(super) fn insert_level(
    device: &'static Device,
    block: &Arc<Block>,
    offset: usize,
    sizes: [usize; 3],
    format: Format,
    flags: u32,
) -> usize {
    let address = block.0 + offset;
    ARRAYS.insert(Arc::new(Array { device, address, _block: block.clone(), is_level: true, sizes, format, flags }))
}

/// Removes a level.
pub(super) fn forget_level(handle: usize) {
    drop(ARRAYS.remove(handle));
}

/// The array behind a handle.
///
/// # Errors
/// `INVALID_HANDLE`.
pub(crate) fn find(handle: usize) -> CudaResult<Arc<Array>> {
    ARRAYS.get(handle).ok_or(CudaError::INVALID_HANDLE)
}

/// Frees an array once the device is done with it.
///
/// # Errors
/// `INVALID_HANDLE`; `INVALID_VALUE` for a level, which is freed with its mipmapped array.
pub(crate) fn destroy(handle: usize) -> CudaResult {
    let array = find(handle)?;
    if array.is_level {
        return Err(CudaError::INVALID_VALUE);
    }
    stream::synchronize_device(array.device);
    ARRAYS.remove(handle).map(drop).ok_or(CudaError::INVALID_HANDLE)
}

/// Frees all arrays of a device, as `cudaDeviceReset` does.
pub(crate) fn reset(device: &Device) {
    ARRAYS.remove_all(|array| array.device.ordinal == device.ordinal);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_has_one_two_or_four_channels_that_are_alike() {
        let of = Format::of_channels;
        assert_eq!(of([8, 8, 8, 8], 1), Some(Format { component: Component::U8, channels: 4 }));
        assert_eq!(of([16, 0, 0, 0], 2), Some(Format { component: Component::F16, channels: 1 }));
        for (bits, kind) in
            [([32, 32, 32, 0], 2), ([32, 0, 32, 0], 2), ([8, 16, 0, 0], 1), ([8, 0, 0, 0], 2), ([0; 4], 1)]
        {
            assert_eq!(of(bits, kind), None, "{bits:?} {kind}");
        }
        for (component, ..) in COMPONENTS {
            let format = Format { component, channels: 2 };
            let (bits, kind) = format.channels();
            assert_eq!(of(bits, kind), Some(format));
            let (number, channels) = format.driver();
            assert_eq!(Format::of_driver(number, channels), Some(format));
        }
    }
}
