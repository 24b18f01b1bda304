//! Texture and surface objects: `cudaCreateTextureObject` and kin.

use std::ffi::{c_uint, c_ulonglong};

use abi::argument::Out;
use abi::cuda::{CudaError, CudaResult};
use abi::library::Library;

use super::array::{description, format};
use super::header::ChannelFormat;
use crate::device::memory::texture::{self, Resource, Sampling};
use crate::device::memory::view::View;
use crate::device::state::context;

/// The first 64 bytes of `cudaResourceDesc`, which is all of it in CUDA 12; the rest in 13 is reserved.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResourceDescription {
    kind: c_uint,
    /// The address, or the handle of an array.
    address: usize,
    format: ChannelFormat,
    /// Bytes of linear memory, or texels of a row.
    width: usize,
    height: usize,
    pitch: usize,
}

const _: () = assert!(
    size_of::<ResourceDescription>() == 64
        && std::mem::offset_of!(ResourceDescription, format) == 16
        && std::mem::offset_of!(ResourceDescription, width) == 40
);

const ARRAY: c_uint = 0;
const MIPMAPPED: c_uint = 1;
const LINEAR: c_uint = 2;
const PITCHED: c_uint = 3;

/// The resource in a description. An array has only a handle: a program leaves the rest of the union unset.
fn resource(description: Out<ResourceDescription>, name: &'static str) -> CudaResult<Resource> {
    let ResourceDescription { kind, address, format: channels, width, height, pitch } = description.get()?;
    match kind {
        ARRAY => Ok(Resource::Array(address)),
        MIPMAPPED => Ok(Resource::Mipmapped(address)),
        LINEAR => Ok(Resource::Linear { address, format: format(channels, name)?, bytes: width }),
        PITCHED => Ok(Resource::Pitched { address, format: format(channels, name)?, width, height, pitch }),
        _ => Err(CudaError::INVALID_VALUE),
    }
}

pub(crate) fn create(
    out: Out<c_ulonglong>,
    what: Out<ResourceDescription>,
    sampling: Out<Sampling>,
    view: Out<View>,
) -> CudaResult {
    const NAME: &str = "cudaCreateTextureObject";
    let (device, out) = (context::enter()?, out.required()?);
    let resource = resource(what, NAME)?;
    let view = view.get().ok();
    let handle = texture::create(device, resource, sampling.get()?, view, Library::CudaRuntime, NAME)?;
    Ok(out.set(handle as c_ulonglong)?)
}

pub(crate) fn create_surface(out: Out<c_ulonglong>, what: Out<ResourceDescription>) -> CudaResult {
    let (device, out) = (context::enter()?, out.required()?);
    let resource = resource(what, "cudaCreateSurfaceObject")?;
    Ok(out.set(texture::create_surface(device, resource)? as c_ulonglong)?)
}

pub(crate) fn destroy(handle: c_ulonglong) -> CudaResult {
    texture::destroy(false, handle as usize)
}

pub(crate) fn destroy_surface(handle: c_ulonglong) -> CudaResult {
    texture::destroy(true, handle as usize)
}

fn described(resource: Resource) -> ResourceDescription {
    let none = ChannelFormat::default();
    let (kind, address, format, [width, height, pitch]) = match resource {
        Resource::Array(handle) => (ARRAY, handle, none, [0; 3]),
        Resource::Mipmapped(handle) => (MIPMAPPED, handle, none, [0; 3]),
        Resource::Linear { address, format, bytes } => (LINEAR, address, description(format), [bytes, 0, 0]),
        Resource::Pitched { address, format, width, height, pitch } => {
            (PITCHED, address, description(format), [width, height, pitch])
        }
    };
    ResourceDescription { kind, address, format, width, height, pitch }
}

pub(crate) fn resource_of(out: Out<ResourceDescription>, handle: c_ulonglong) -> CudaResult {
    Ok(out.set(described(texture::find(false, handle as usize)?.resource))?)
}

pub(crate) fn resource_of_surface(out: Out<ResourceDescription>, handle: c_ulonglong) -> CudaResult {
    Ok(out.set(described(texture::find(true, handle as usize)?.resource))?)
}

pub(crate) fn sampling_of(out: Out<Sampling>, handle: c_ulonglong) -> CudaResult {
    Ok(out.set(texture::find(false, handle as usize)?.sampling.ok_or(CudaError::INVALID_VALUE)?)?)
}

pub(crate) fn view_of(out: Out<View>, handle: c_ulonglong) -> CudaResult {
    Ok(out.set(texture::find(false, handle as usize)?.view.ok_or(CudaError::INVALID_VALUE)?)?)
}
