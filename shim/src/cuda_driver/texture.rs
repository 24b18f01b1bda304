//! Texture and surface objects: `cuTexObject*`, `cuSurfObject*`.

use std::ffi::{c_uint, c_ulonglong};

use abi::argument::Out;
use abi::cuda::{CudaError, CudaResult};
use abi::library::Library;

use super::array::format;
use crate::device::memory::texture::{self, Resource, Sampling};
use crate::device::memory::view::View;
use crate::device::state::context;

/// `CUDA_RESOURCE_DESC`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResourceDescription {
    kind: c_uint,
    /// The address, or the handle of an array.
    address: usize,
    format: c_uint,
    channels: c_uint,
    /// Bytes of linear memory, or texels of a row.
    width: usize,
    height: usize,
    pitch: usize,
    reserved: [usize; 11],
    flags: c_uint,
}

/// `CUDA_TEXTURE_DESC`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextureDescription {
    addressing: [c_uint; 3],
    filter: c_uint,
    flags: c_uint,
    max_anisotropy: c_uint,
    mipmap_filter: c_uint,
    mipmap_bias: f32,
    mipmap_clamp: [f32; 2],
    border: [f32; 4],
    reserved: [c_uint; 12],
}

const _: () = {
    assert!(size_of::<ResourceDescription>() == 144 && std::mem::offset_of!(ResourceDescription, flags) == 136);
    assert!(size_of::<TextureDescription>() == 104 && std::mem::offset_of!(TextureDescription, border) == 40);
};

const AS_INTEGER: c_uint = 1;
const NORMALIZED: c_uint = 2;
const SRGB: c_uint = 0x10;
const NO_TRILINEAR: c_uint = 0x20;
const SEAMLESS: c_uint = 0x40;

fn resource(description: Out<ResourceDescription>, name: &'static str) -> CudaResult<Resource> {
    let d = description.get()?;
    if d.flags != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    let ResourceDescription { kind, address, width, height, pitch, .. } = d;
    match kind {
        0 => Ok(Resource::Array(address)),
        1 => Ok(Resource::Mipmapped(address)),
        2 => Ok(Resource::Linear { address, format: format(d.format, d.channels, name)?, bytes: width }),
        3 => Ok(Resource::Pitched { address, format: format(d.format, d.channels, name)?, width, height, pitch }),
        _ => Err(CudaError::INVALID_VALUE),
    }
}

/// The sampling in the runtime's form.
fn sampling(d: TextureDescription) -> Sampling {
    let flag = |bit: c_uint| u32::from(d.flags & bit != 0);
    Sampling {
        addressing: d.addressing,
        filter: d.filter,
        read_mode: 1 - flag(AS_INTEGER),
        srgb: flag(SRGB),
        border: d.border,
        is_normalized: flag(NORMALIZED),
        max_anisotropy: d.max_anisotropy,
        mipmap_filter: d.mipmap_filter,
        mipmap_bias: d.mipmap_bias,
        mipmap_clamp: d.mipmap_clamp,
        no_trilinear: flag(NO_TRILINEAR),
        seamless_cube: flag(SEAMLESS),
    }
}

pub(crate) fn create(
    out: Out<c_ulonglong>,
    what: Out<ResourceDescription>,
    how: Out<TextureDescription>,
    view: Out<View>,
) -> CudaResult {
    const NAME: &str = "cuTexObjectCreate";
    let (device, out) = (context::required()?, out.required()?);
    let (resource, how) = (resource(what, NAME)?, how.get()?);
    if how.flags & !(AS_INTEGER | NORMALIZED | SRGB | NO_TRILINEAR | SEAMLESS) != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    let view = view.get().ok();
    Ok(out.set(texture::create(device, resource, sampling(how), view, Library::CudaDriver, NAME)? as c_ulonglong)?)
}

pub(crate) fn create_surface(out: Out<c_ulonglong>, what: Out<ResourceDescription>) -> CudaResult {
    let (device, out) = (context::required()?, out.required()?);
    let resource = resource(what, "cuSurfObjectCreate")?;
    Ok(out.set(texture::create_surface(device, resource)? as c_ulonglong)?)
}

pub(crate) fn destroy(is_surface: bool, handle: c_ulonglong) -> CudaResult {
    context::required()?;
    texture::destroy(is_surface, handle as usize)
}

pub(crate) fn resource_of(is_surface: bool, out: Out<ResourceDescription>, handle: c_ulonglong) -> CudaResult {
    context::required()?;
    let (kind, address, (format, channels), [width, height, pitch]) =
        match texture::find(is_surface, handle as usize)?.resource {
            Resource::Array(handle) => (0, handle, (0, 0), [0; 3]),
            Resource::Mipmapped(handle) => (1, handle, (0, 0), [0; 3]),
            Resource::Linear { address, format, bytes } => (2, address, format.driver(), [bytes, 0, 0]),
            Resource::Pitched { address, format, width, height, pitch } => {
                (3, address, format.driver(), [width, height, pitch])
            }
        };
    let reserved = [0; 11];
    Ok(out.set(ResourceDescription { kind, address, format, channels, width, height, pitch, reserved, flags: 0 })?)
}

pub(crate) fn sampling_of(out: Out<TextureDescription>, handle: c_ulonglong) -> CudaResult {
    context::required()?;
    let s = texture::find(false, handle as usize)?.sampling.ok_or(CudaError::INVALID_VALUE)?;
    let flag = |is_set: bool, bit: c_uint| if is_set { bit } else { 0 };
    Ok(out.set(TextureDescription {
        addressing: s.addressing,
        filter: s.filter,
        flags: flag(s.read_mode == 0, AS_INTEGER)
            | flag(s.is_normalized != 0, NORMALIZED)
            | flag(s.srgb != 0, SRGB)
            | flag(s.no_trilinear != 0, NO_TRILINEAR)
            | flag(s.seamless_cube != 0, SEAMLESS),
        max_anisotropy: s.max_anisotropy,
        mipmap_filter: s.mipmap_filter,
        mipmap_bias: s.mipmap_bias,
        mipmap_clamp: s.mipmap_clamp,
        border: s.border,
        reserved: [0; 12],
    })?)
}

pub(crate) fn view_of(out: Out<View>, handle: c_ulonglong) -> CudaResult {
    context::required()?;
    Ok(out.set(texture::find(false, handle as usize)?.view.ok_or(CudaError::INVALID_VALUE)?)?)
}
