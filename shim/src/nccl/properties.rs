//! `ncclCommQueryProperties`: what a communicator can do.

use std::ffi::{c_int, c_uint};

use abi::argument::Null;

use super::communicator::resolve;
use super::error::{NcclError, NcclResult};
use super::header::CONFIG_MAGIC;
use super::info::version_number;
use super::team;

/// `ncclCommProperties_t` of NCCL 2.30.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Properties {
    size: usize,
    magic: c_uint,
    version: c_uint,
    rank: c_int,
    ranks: c_int,
    cuda_device: c_int,
    nvml_device: c_int,
    device_api: bool,
    multicast: bool,
    gin_kind: c_int,
    lsa_teams: c_int,
    host_rma: bool,
    railed_gin_kind: c_int,
}

const _: () = assert!(size_of::<Properties>() == 56 && std::mem::offset_of!(Properties, gin_kind) == 36);

/// Body of `ncclCommQueryProperties`.
///
/// # Safety
/// `properties` is null or was made with NCCL's initializer, which writes the struct's own size into it.
pub(crate) unsafe fn query(communicator: usize, properties: *mut Properties) -> NcclResult {
    let communicator = resolve(communicator)?;
    if properties.is_null() {
        return Err(Null.into());
    }
    let ranks = communicator.usable()?;
    // SAFETY: the caller's promise; size, magic number and version are in every version of the struct.
    let (size, magic, version) = unsafe { ((*properties).size, (*properties).magic, (*properties).version) };
    if magic != CONFIG_MAGIC {
        return Err(NcclError::INVALID_USAGE
            .because("the properties were not initialized with NCCL_COMM_PROPERTIES_INITIALIZER"));
    }
    let own = version_number() as c_uint;
    if version > own {
        let detail = format!("the program was compiled with NCCL {version}, this library is {own}");
        return Err(NcclError::INVALID_USAGE.because(detail));
    }
    let lsa = team::from_communicator(&communicator)?;
    let known = Properties {
        size,
        magic,
        version,
        rank: ranks.rank() as c_int,
        ranks: ranks.size() as c_int,
        cuda_device: communicator.device.ordinal as c_int,
        nvml_device: communicator.device.gpu.local as c_int,
        device_api: true,
        multicast: false,
        gin_kind: 0,
        lsa_teams: ranks.size() as c_int / lsa.ranks,
        host_rma: true,
        railed_gin_kind: 0,
    };
    // SAFETY: no more than the caller's struct has, and no more than `known` has.
    unsafe {
        let bytes = size.min(size_of::<Properties>());
        std::ptr::copy_nonoverlapping((&raw const known).cast::<u8>(), properties.cast::<u8>(), bytes);
    }
    Ok(())
}
