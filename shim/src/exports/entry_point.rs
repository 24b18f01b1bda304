//! Driver functions by name and version: `cudaGetDriverEntryPoint*` and `cuGetProcAddress*`.

use std::ffi::{c_int, c_uint, c_ulonglong};

use abi::argument::{Out, Text};
use abi::cuda::{CudaError, CudaResult};
use abi::library::Library;
use abi::table::Export;
use protocol::cuda_history;

use super::find as find_export;
use crate::device::state::version;

/// `CU_GET_PROC_ADDRESS_SUCCESS`, `_SYMBOL_NOT_FOUND`, `_VERSION_NOT_SUFFICIENT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Found = 0,
    NotFound = 1,
    TooOld = 2,
}

pub(crate) fn entry_point(symbol: Text, out: Out<usize>, flags: c_ulonglong, status: Out<c_uint>) -> CudaResult {
    answer(symbol, out, version::runtime().min(version::driver()), flags, status)
}

pub(crate) fn entry_point_by_version(
    symbol: Text,
    out: Out<usize>,
    wanted: c_uint,
    flags: c_ulonglong,
    status: Out<c_uint>,
) -> CudaResult {
    answer(symbol, out, wanted as c_int, flags, status)
}

/// `cuGetProcAddress_v2`
pub(crate) fn proc_address(
    symbol: Text,
    out: Out<usize>,
    wanted: c_int,
    flags: c_ulonglong,
    status: Out<c_uint>,
) -> CudaResult {
    answer(symbol, out, wanted, flags, status)
}

/// `cuGetProcAddress` of CUDA 11.3, which had no status output and returned an error instead.
pub(crate) fn proc_address_v1(symbol: Text, out: Out<usize>, wanted: c_int, flags: c_ulonglong) -> CudaResult {
    answer(symbol, out, wanted, flags, Out(std::ptr::null_mut()))?;
    if out.get()? == 0 { Err(CudaError::NOT_FOUND) } else { Ok(()) }
}

fn answer(symbol: Text, out: Out<usize>, wanted: c_int, flags: c_ulonglong, status: Out<c_uint>) -> CudaResult {
    let (symbol, out) = (symbol.get()?, out.required()?);
    if wanted > version::driver() || flags > 2 {
        return Err(CudaError::INVALID_VALUE);
    }
    let (found, said) = find(&symbol, wanted, flags == 2);
    out.set(found.map_or(0, |export| export.address.0 as usize))?;
    status.set_if_wanted(said as c_uint);
    Ok(())
}

/// The function that `symbol` named in CUDA version `wanted`: NVIDIA gives a function a new version number when its
/// interface changes.
fn find(symbol: &str, wanted: i32, per_thread: bool) -> (Option<&'static Export>, Status) {
    let driver = |name: &str| find_export(name).filter(|export| export.library == Library::CudaDriver);
    let Some(name) = cuda_history::name_in(symbol, wanted) else { return (None, Status::TooOld) };
    let own =
        if per_thread { driver(&format!("{name}_ptsz")).or_else(|| driver(&format!("{name}_ptds"))) } else { None };
    match own.or_else(|| driver(&name)) {
        Some(export) => (Some(export), Status::Found),
        None => (None, Status::NotFound),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_what_it_meant_in_the_version_asked_for() {
        let name = |symbol, wanted| find(symbol, wanted, false).0.map(|export| export.name);
        assert_eq!(name("cuMemAlloc", 12000), Some("cuMemAlloc_v2"));
        assert_eq!(name("cuInit", 2000), Some("cuInit"));
        assert_eq!(name("cuCtxCreate", 11040), Some("cuCtxCreate_v3"));
        assert_eq!(name("cuCtxCreate", 13000), Some("cuCtxCreate_v4"));
        assert_eq!(find("cuMemCreate", 9000, false).1, Status::TooOld);
        assert_eq!(find("cuNoSuchThing", 13000, false).1, Status::NotFound);
        assert_eq!(name("cudaMalloc", 13000), None, "a function of the runtime");
    }
}
