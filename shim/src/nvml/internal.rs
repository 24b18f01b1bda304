//! The table that NVIDIA's own nvidia-smi gets from NVML in addition to the documented functions. NVIDIA documents neither the
//! table nor its entries. This was observed from outside: how nvidia-smi 535.261.03 and 550.163.01 call it, and what they print
//! for which result. All entries except three return "not supported", as hardware without the feature does.

use std::ffi::{c_uint, c_void};
use std::ptr;

use abi::argument::Out;
use abi::table::Address;

use super::device::Handle;
use super::error::{NvmlError, NvmlResult};

/// The id that nvidia-smi requests.
const TABLE: [u8; 16] =
    [0xc4, 0xfe, 0x3e, 0x6c, 0xc9, 0x8f, 0x6c, 0x4e, 0xa3, 0x27, 0xee, 0x69, 0x6e, 0x12, 0xf7, 0xc4];

/// Words of the table. nvidia-smi treats anything past the end as an error, so there are more than it uses (some 230).
const WORDS: usize = 512;

/// Other adapters in the topology: counts them, for `topo -m`.
const ADAPTERS: usize = 23;
/// Receives lines for a log that NVIDIA can read.
const LOG: usize = 26;
/// Whether `dmon` and `pmon` can watch the GPU.
const IS_MONITORED: usize = 72;

/// The size in bytes, then the functions.
static ENTRIES: [Address; WORDS] = {
    let mut entries = [Address(not_supported as *const ()); WORDS];
    entries[0] = Address(ptr::without_provenance(size_of::<[Address; WORDS]>()));
    entries[ADAPTERS] = Address(adapters as *const ());
    entries[LOG] = Address(log as *const ());
    entries[IS_MONITORED] = Address(is_monitored as *const ());
    entries
};

extern "C" fn not_supported() -> c_uint {
    NvmlError::NOT_SUPPORTED.into()
}

extern "C" fn log() {}

extern "C" fn adapters(_: *const c_void, count: Out<c_uint>) -> c_uint {
    count.set_if_wanted(0);
    0
}

extern "C" fn is_monitored(_: Handle, answer: Out<c_uint>) -> c_uint {
    answer.set_if_wanted(1);
    0
}

/// Returns the table.
///
/// # Errors
/// `NOT_FOUND` for any other table.
#[doc(alias = "nvmlInternalGetExportTable")]
pub(crate) fn export_table(table: Out<*const c_void>, id: Out<[u8; 16]>) -> NvmlResult {
    if id.get()? != TABLE {
        return Err(NvmlError::NOT_FOUND);
    }
    Ok(table.set(ENTRIES.as_ptr().cast())?)
}
