//! Layouts of libcudart's structures, for 64-bit Linux. The same in CUDA 12 and 13 unless noted otherwise.

use std::ffi::{c_int, c_uint, c_void};

use abi::guard::Nothing;

use crate::device::calls::header::Dim3;

/// `cudaChannelFormatDesc`: bits of each component, and what they mean.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ChannelFormat {
    pub(crate) bits: [c_int; 4],
    pub(crate) format: c_uint,
}

impl Nothing for ChannelFormat {
    fn nothing() -> Self {
        Self::default()
    }
}

/// `cudaPitchedPtr`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct PitchedPtr {
    pub(crate) address: usize,
    pub(crate) pitch: usize,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

/// `cudaExtent` and `cudaPos`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Three {
    pub(crate) x: usize,
    pub(crate) y: usize,
    pub(crate) z: usize,
}

/// `cudaMemcpy3DParms`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy3D {
    pub(crate) from_array: usize,
    pub(crate) from_position: Three,
    pub(crate) from: PitchedPtr,
    pub(crate) to_array: usize,
    pub(crate) to_position: Three,
    pub(crate) to: PitchedPtr,
    pub(crate) extent: Three,
    pub(crate) kind: c_uint,
}

/// `cudaMemcpy3DPeerParms`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy3DPeer {
    pub(crate) from_array: usize,
    pub(crate) from_position: Three,
    pub(crate) from: PitchedPtr,
    pub(crate) from_device: c_int,
    pub(crate) to_array: usize,
    pub(crate) to_position: Three,
    pub(crate) to: PitchedPtr,
    pub(crate) to_device: c_int,
    pub(crate) extent: Three,
}

/// The first 24 bytes of `cudaPointerAttributes`, which is all of it in CUDA 12; 13 adds 64 reserved bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct PointerAttributes {
    pub(crate) kind: c_uint,
    pub(crate) device: c_int,
    pub(crate) device_pointer: usize,
    pub(crate) host_pointer: usize,
}

/// `cudaFuncAttributes`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct FunctionAttributes {
    pub(crate) shared_bytes: usize,
    pub(crate) constant_bytes: usize,
    pub(crate) local_bytes: usize,
    pub(crate) max_threads_per_block: c_int,
    pub(crate) registers: c_int,
    pub(crate) ptx_version: c_int,
    pub(crate) binary_version: c_int,
    pub(crate) cache_mode_ca: c_int,
    pub(crate) max_dynamic_shared_bytes: c_int,
    pub(crate) preferred_carveout: c_int,
    pub(crate) rest: [c_int; 23],
}

/// `cudaLaunchConfig_t`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaunchConfig {
    pub(crate) grid: Dim3,
    pub(crate) block: Dim3,
    pub(crate) shared_bytes: usize,
    pub(crate) stream: usize,
    pub(crate) attributes: *const c_void,
    pub(crate) attribute_count: c_uint,
}

const _: () = {
    assert!(size_of::<PitchedPtr>() == 32 && size_of::<Three>() == 24);
    assert!(size_of::<Copy3D>() == 160 && std::mem::offset_of!(Copy3D, extent) == 128);
    assert!(size_of::<Copy3DPeer>() == 168 && std::mem::offset_of!(Copy3DPeer, extent) == 144);
    assert!(size_of::<PointerAttributes>() == 24 && size_of::<FunctionAttributes>() == 144);
    assert!(size_of::<LaunchConfig>() == 56 && std::mem::offset_of!(LaunchConfig, stream) == 32);
};
