//! Texture and surface objects, by the handles that kernels get: what they read and how, checked as CUDA documents it.

use std::sync::Arc;

use abi::cuda::{CudaError, CudaResult};
use abi::handle::Handles;
use abi::library::Library;
use ptx::{Addressing, Component, Mipmap, Texels, Texture};

use super::address::{self, Known};
use super::array::{self, Format};
use super::mipmap;
use super::view::{Refusal, View};
use crate::boundary::gap;
use crate::device::Device;
use crate::device::state::attribute;
use crate::device::work::stream;

/// The memory that an object accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    /// An array, by its handle.
    Array(usize),
    /// A mipmapped array, by its handle.
    Mipmapped(usize),
    /// Memory, by address and bytes.
    Linear { address: usize, format: Format, bytes: usize },
    /// Pitched memory: texels per row, rows, bytes from row to row.
    Pitched { address: usize, format: Format, width: usize, height: usize, pitch: usize },
}

/// How a texture is read: `cudaTextureDesc`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sampling {
    /// Wrap, clamp, mirror, border.
    pub(crate) addressing: [u32; 3],
    /// Point, linear.
    pub(crate) filter: u32,
    /// Element type, normalized float.
    pub(crate) read_mode: u32,
    pub(crate) srgb: u32,
    pub(crate) border: [f32; 4],
    pub(crate) is_normalized: u32,
    pub(crate) max_anisotropy: u32,
    pub(crate) mipmap_filter: u32,
    pub(crate) mipmap_bias: f32,
    pub(crate) mipmap_clamp: [f32; 2],
    pub(crate) no_trilinear: u32,
    pub(crate) seamless_cube: u32,
}

const _: () = assert!(size_of::<Sampling>() == 72);

/// A texture or surface object.
#[derive(Debug)]
pub(crate) struct Object {
    device: &'static Device,
    pub(crate) resource: Resource,
    /// None for a surface.
    pub(crate) sampling: Option<Sampling>,
    pub(crate) view: Option<View>,
}

static TEXTURES: Handles<Object> = Handles::new(18);
static SURFACES: Handles<Object> = Handles::new(19);

impl Object {
    /// The texels, unless the array was freed.
    fn texels(&self) -> Option<Texels> {
        let of = |address: usize, format: Format, dimensions: u8, sizes: [usize; 3], pitch: usize| Texels {
            address: address as u64,
            dimensions,
            sizes: sizes.map(|size| size as u32),
            pitch: pitch as u64,
            slice: (pitch * sizes[1]) as u64,
            layers: 0,
            is_cube: false,
            component: format.component,
            channels: format.channels,
        };
        Some(match self.resource {
            Resource::Array(handle) => array::find(handle).ok()?.texels(),
            Resource::Mipmapped(handle) => array::find(mipmap::level(handle, 0).ok()?).ok()?.texels(),
            Resource::Linear { address, format, bytes } => {
                of(address, format, 1, [bytes / format.bytes(), 1, 1], bytes)
            }
            Resource::Pitched { address, format, width, height, pitch } => {
                of(address, format, 2, [width, height, 1], pitch)
            }
        })
    }

    /// What a kernel finds, through the view if there is one.
    fn texture(&self) -> Option<Texture> {
        let whole = self.whole_texture()?;
        match self.view {
            Some(view) => view.apply(whole).ok(),
            None => Some(whole),
        }
    }

    fn whole_texture(&self) -> Option<Texture> {
        let (texels, sampling) = (self.texels()?, self.sampling?);
        let promotes = sampling.read_mode != 0;
        if matches!(self.resource, Resource::Linear { .. }) {
            // Nothing else applies to linear memory, and reads outside it return zero.
            let (addressing, border) = ([Addressing::Border; 3], [0.0; 4]);
            return Some(Texture {
                texels,
                addressing,
                is_filtered: false,
                is_normalized: false,
                promotes,
                border,
                mipmap: None,
            });
        }
        let addressing = sampling.addressing.map(|mode| match mode {
            0 => Addressing::Wrap,
            1 => Addressing::Clamp,
            2 => Addressing::Mirror,
            _ => Addressing::Border,
        });
        let (is_filtered, is_normalized) = (sampling.filter != 0, sampling.is_normalized != 0);
        let mipmap = match self.resource {
            Resource::Mipmapped(handle) => Some(Mipmap {
                levels: mipmap::find(handle).ok()?.levels.len() as u32,
                is_filtered: sampling.mipmap_filter != 0,
                bias: sampling.mipmap_bias,
                clamp: sampling.mipmap_clamp,
            }),
            _ => None,
        };
        Some(Texture { texels, addressing, is_filtered, is_normalized, promotes, border: sampling.border, mipmap })
    }
}

/// Checks that the memory meets the requirements of textures.
fn check_memory(device: &Device, resource: Resource) -> CudaResult {
    let limit = |number: i32| attribute::get(device, number).unwrap_or(0) as usize;
    let (address, bytes, fits) = match resource {
        Resource::Array(handle) => return array::find(handle).map(|_| ()).map_err(|_| CudaError::INVALID_VALUE),
        Resource::Mipmapped(handle) => return mipmap::find(handle).map(|_| ()).map_err(|_| CudaError::INVALID_VALUE),
        Resource::Linear { address, format, bytes } => {
            let count = bytes / format.bytes();
            (address, bytes, (1..=limit(69)).contains(&count))
        }
        Resource::Pitched { address, format, width, height, pitch } => {
            let fits = (1..=limit(70)).contains(&width)
                && (1..=limit(71)).contains(&height)
                && pitch <= limit(72)
                && pitch.is_multiple_of(limit(51))
                && width * format.bytes() <= pitch;
            (address, if fits { (height - 1) * pitch + width * format.bytes() } else { 0 }, fits)
        }
    };
    let is_aligned = address != 0 && address.is_multiple_of(limit(14));
    if !fits || !is_aligned || address::known(address, bytes)? == Known::Unknown {
        return Err(CudaError::INVALID_VALUE);
    }
    Ok(())
}

/// Whether integer texels can hold the border color, whose bits are those of integers.
fn border_fits(texture: &Texture) -> bool {
    let fits = |bits: u32| match texture.texels.component {
        Component::U8 => u8::try_from(bits).is_ok(),
        Component::S8 => i8::try_from(bits as i32).is_ok(),
        Component::U16 => u16::try_from(bits).is_ok(),
        Component::S16 => i16::try_from(bits as i32).is_ok(),
        _ => true,
    };
    texture.border.iter().take(usize::from(texture.texels.channels)).all(|color| fits(color.to_bits()))
}

/// Makes a texture object.
///
/// # Errors
/// `INVALID_VALUE` for anything that CUDA does not allow. sRGB, compressed formats, anisotropic filtering of mipmaps and the like
/// are gaps of `name`.
pub(crate) fn create(
    device: &'static Device,
    resource: Resource,
    sampling: Sampling,
    view: Option<View>,
    library: Library,
    name: &'static str,
) -> CudaResult<usize> {
    if sampling.addressing.iter().any(|mode| *mode > 3) || sampling.filter > 1 || sampling.read_mode > 1 {
        return Err(CudaError::INVALID_VALUE);
    }
    check_memory(device, resource)?;
    let gap = |what: &str| {
        gap::record(library, name, what);
        Err(CudaError::NOT_SUPPORTED)
    };
    if sampling.srgb != 0 {
        return gap("of sRGB colors");
    }
    if let Resource::Mipmapped(_) = resource {
        // "For CUDA mipmapped array, this flag has to be set" (CU_TRSF_NORMALIZED_COORDINATES).
        if sampling.mipmap_filter > 1 || sampling.is_normalized == 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        if sampling.max_anisotropy > 1 {
            return gap("of a mipmapped array with anisotropic filtering");
        }
    }
    let object = Object { device, resource, sampling: Some(sampling), view };
    let mut texture = object.whole_texture().ok_or(CudaError::INVALID_VALUE)?;
    if let Some(view) = view {
        if matches!(resource, Resource::Linear { .. } | Resource::Pitched { .. }) {
            return Err(CudaError::INVALID_VALUE);
        }
        texture = match view.apply(texture) {
            Ok(texture) => texture,
            Err(Refusal::Invalid) => return Err(CudaError::INVALID_VALUE),
            Err(Refusal::Gap(what)) => return gap(what),
        };
    }
    if sampling.seamless_cube != 0 && texture.texels.is_cube {
        return gap("that is filtered across the edges of a cube");
    }
    if !texture.gives_floats() {
        // Integers have no mean.
        if texture.is_filtered {
            return Err(CudaError::INVALID_VALUE);
        }
        if texture.mipmap.is_some_and(|mipmap| mipmap.is_filtered) {
            return gap("that mixes levels of integers");
        }
        if texture.addressing.contains(&Addressing::Border) && !border_fits(&texture) {
            return gap("with a border color that texels do not hold");
        }
    }
    Ok(TEXTURES.insert(Arc::new(object)))
}

/// Makes a surface object. A level of a mipmapped array may have been made without the flag for surfaces, as in NVIDIA's sample
/// bindlessTexture.
///
/// # Errors
/// `INVALID_VALUE` for anything but an array that was made for surfaces.
pub(crate) fn create_surface(device: &'static Device, resource: Resource) -> CudaResult<usize> {
    let Resource::Array(handle) = resource else { return Err(CudaError::INVALID_VALUE) };
    match array::find(handle) {
        Ok(found) if found.is_level || found.flags & array::SURFACE != 0 => {
            Ok(SURFACES.insert(Arc::new(Object { device, resource, sampling: None, view: None })))
        }
        _ => Err(CudaError::INVALID_VALUE),
    }
}

fn table(is_surface: bool) -> &'static Handles<Object> {
    if is_surface { &SURFACES } else { &TEXTURES }
}

/// The object behind a handle.
///
/// # Errors
/// `INVALID_VALUE`.
pub(crate) fn find(is_surface: bool, handle: usize) -> CudaResult<Arc<Object>> {
    table(is_surface).get(handle).ok_or(CudaError::INVALID_VALUE)
}

/// Removes an object once the kernels launched before are done with it. Surface 0 is none, which NVIDIA's sample volumeFiltering
/// destroys and takes for success.
///
/// # Errors
/// `INVALID_VALUE`.
pub(crate) fn destroy(is_surface: bool, handle: usize) -> CudaResult {
    if is_surface && handle == 0 {
        return Ok(());
    }
    stream::synchronize_device(find(is_surface, handle)?.device);
    table(is_surface).remove(handle).map(drop).ok_or(CudaError::INVALID_VALUE)
}

/// What a kernel finds behind a texture's handle.
pub(crate) fn seen(handle: u64) -> Option<Texture> {
    TEXTURES.get(usize::try_from(handle).ok()?)?.texture()
}

/// What a kernel finds behind a surface's handle.
pub(crate) fn seen_surface(handle: u64) -> Option<Texels> {
    SURFACES.get(usize::try_from(handle).ok()?)?.texels()
}

/// Removes all objects of a device, as `cudaDeviceReset` does.
pub(crate) fn reset(device: &Device) {
    for table in [&TEXTURES, &SURFACES] {
        table.remove_all(|object| object.device.ordinal == device.ordinal);
    }
}
