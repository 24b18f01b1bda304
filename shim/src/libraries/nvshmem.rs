//! libnvshmem_host: correctly reports "not initialized"; everything else is a stub.

use std::ffi::c_int;
use std::sync::atomic::AtomicI32;

use abi::library::Library;

use crate::boundary::table::exports;
use abi::table::{Address, Export, Status};

/// The transport that device code would use; 0 if none is chosen. PyTorch links this variable.
#[unsafe(no_mangle)]
pub(crate) static nvshmem_selected_device_transport: AtomicI32 = AtomicI32::new(0);

/// Exported variables.
pub(crate) const DATA: &[Export] = &[Export {
    name: "nvshmem_selected_device_transport",
    library: Library::Nvshmem,
    status: Status::Real,
    address: Address(&raw const nvshmem_selected_device_transport as *const ()),
}];

exports! {
    library Nvshmem;
    raw {
        fn nvshmemid_init_status() -> c_int = || 0;
    }
    stub {
        nvshmem_team_n_pes nvshmem_team_split_strided nvshmemid_hostlib_init_attr nvshmemx_alltoallmem_on_stream
        nvshmemx_broadcastmem_on_stream nvshmemx_cumodule_init nvshmemx_get_uniqueid nvshmemx_getmem_on_stream
        nvshmemx_putmem_on_stream nvshmemx_putmem_signal_on_stream nvshmemx_set_attr_uniqueid_args
        nvshmemx_signal_wait_until_on_stream
    }
    empty {
        nvshmem_barrier_all nvshmem_free nvshmem_info_get_version nvshmem_malloc nvshmem_ptr nvshmemid_hostlib_finalize
        nvshmemx_mc_ptr
    }
}
