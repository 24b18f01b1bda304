//! `cudaGetDeviceProperties`: the structure's fields are attributes at offsets that differ between CUDA 12 and 13.

use std::ffi::c_int;

use abi::argument::Out;
use abi::cuda::CudaResult;

use crate::device::state::{attribute, version};
use crate::device::{self, Device};

/// Size of the structure in CUDA 12 and in CUDA 13.
const SIZE_12: usize = 1032;
const SIZE_13: usize = 1008;
const NONE: usize = usize::MAX;

/// (offset in CUDA 12, offset in CUDA 13, bytes, attribute). The fields before these are the same in both: name, uuid,
/// luid, memory.
#[rustfmt::skip]
const FIELDS: &[(usize, usize, usize, i32)] = &[
    (296, 296, 8, 8), // sharedMemPerBlock
    (304, 304, 4, 12), // regsPerBlock
    (308, 308, 4, 10), // warpSize
    (312, 312, 8, 11), // memPitch
    (320, 320, 4, 1), // maxThreadsPerBlock
    (324, 324, 4, 2), // maxThreadsDim[0]
    (328, 328, 4, 3), // maxThreadsDim[1]
    (332, 332, 4, 4), // maxThreadsDim[2]
    (336, 336, 4, 5), // maxGridSize[0]
    (340, 340, 4, 6), // maxGridSize[1]
    (344, 344, 4, 7), // maxGridSize[2]
    (348, NONE, 4, 13), // clockRate
    (352, 352, 8, 9), // totalConstMem
    (360, 360, 4, 75), // major
    (364, 364, 4, 76), // minor
    (368, 368, 8, 14), // textureAlignment
    (376, 376, 8, 51), // texturePitchAlignment
    (384, NONE, 4, 15), // deviceOverlap
    (388, 384, 4, 16), // multiProcessorCount
    (392, NONE, 4, 17), // kernelExecTimeoutEnabled
    (396, 388, 4, 18), // integrated
    (400, 392, 4, 19), // canMapHostMemory
    (404, NONE, 4, 20), // computeMode
    (408, 396, 4, 21), // maxTexture1D
    (412, 400, 4, 77), // maxTexture1DMipmap
    (416, NONE, 4, 69), // maxTexture1DLinear
    (420, 404, 4, 22), // maxTexture2D[0]
    (424, 408, 4, 23), // maxTexture2D[1]
    (428, 412, 4, 73), // maxTexture2DMipmap[0]
    (432, 416, 4, 74), // maxTexture2DMipmap[1]
    (436, 420, 4, 70), // maxTexture2DLinear[0]
    (440, 424, 4, 71), // maxTexture2DLinear[1]
    (444, 428, 4, 72), // maxTexture2DLinear[2]
    (448, 432, 4, 45), // maxTexture2DGather[0]
    (452, 436, 4, 46), // maxTexture2DGather[1]
    (456, 440, 4, 24), // maxTexture3D[0]
    (460, 444, 4, 25), // maxTexture3D[1]
    (464, 448, 4, 26), // maxTexture3D[2]
    (468, 452, 4, 47), // maxTexture3DAlt[0]
    (472, 456, 4, 48), // maxTexture3DAlt[1]
    (476, 460, 4, 49), // maxTexture3DAlt[2]
    (480, 464, 4, 52), // maxTextureCubemap
    (484, 468, 4, 42), // maxTexture1DLayered[0]
    (488, 472, 4, 43), // maxTexture1DLayered[1]
    (492, 476, 4, 27), // maxTexture2DLayered[0]
    (496, 480, 4, 28), // maxTexture2DLayered[1]
    (500, 484, 4, 29), // maxTexture2DLayered[2]
    (504, 488, 4, 53), // maxTextureCubemapLayered[0]
    (508, 492, 4, 54), // maxTextureCubemapLayered[1]
    (512, 496, 4, 55), // maxSurface1D
    (516, 500, 4, 56), // maxSurface2D[0]
    (520, 504, 4, 57), // maxSurface2D[1]
    (524, 508, 4, 58), // maxSurface3D[0]
    (528, 512, 4, 59), // maxSurface3D[1]
    (532, 516, 4, 60), // maxSurface3D[2]
    (536, 520, 4, 61), // maxSurface1DLayered[0]
    (540, 524, 4, 62), // maxSurface1DLayered[1]
    (544, 528, 4, 63), // maxSurface2DLayered[0]
    (548, 532, 4, 64), // maxSurface2DLayered[1]
    (552, 536, 4, 65), // maxSurface2DLayered[2]
    (556, 540, 4, 66), // maxSurfaceCubemap
    (560, 544, 4, 67), // maxSurfaceCubemapLayered[0]
    (564, 548, 4, 68), // maxSurfaceCubemapLayered[1]
    (568, 552, 8, 30), // surfaceAlignment
    (576, 560, 4, 31), // concurrentKernels
    (580, 564, 4, 32), // ECCEnabled
    (584, 568, 4, 33), // pciBusID
    (588, 572, 4, 34), // pciDeviceID
    (592, 576, 4, 50), // pciDomainID
    (596, 580, 4, 35), // tccDriver
    (600, 584, 4, 40), // asyncEngineCount
    (604, 588, 4, 41), // unifiedAddressing
    (608, NONE, 4, 36), // memoryClockRate
    (612, 592, 4, 37), // memoryBusWidth
    (616, 596, 4, 38), // l2CacheSize
    (620, 600, 4, 108), // persistingL2CacheMaxSize
    (624, 604, 4, 39), // maxThreadsPerMultiProcessor
    (628, 608, 4, 78), // streamPrioritiesSupported
    (632, 612, 4, 79), // globalL1CacheSupported
    (636, 616, 4, 80), // localL1CacheSupported
    (640, 624, 8, 81), // sharedMemPerMultiprocessor
    (648, 632, 4, 82), // regsPerMultiprocessor
    (652, 636, 4, 83), // managedMemory
    (656, 640, 4, 84), // isMultiGpuBoard
    (660, 644, 4, 85), // multiGpuBoardGroupID
    (664, 648, 4, 86), // hostNativeAtomicSupported
    (668, NONE, 4, 87), // singleToDoublePrecisionPerfRatio
    (672, 652, 4, 88), // pageableMemoryAccess
    (676, 656, 4, 89), // concurrentManagedAccess
    (680, 660, 4, 90), // computePreemptionSupported
    (684, 664, 4, 91), // canUseHostPointerForRegisteredMem
    (688, 668, 4, 95), // cooperativeLaunch
    (692, NONE, 4, 96), // cooperativeMultiDeviceLaunch
    (696, 672, 8, 97), // sharedMemPerBlockOptin
    (704, 680, 4, 100), // pageableMemoryAccessUsesHostPageTables
    (708, 684, 4, 101), // directManagedMemAccessFromHost
    (712, 688, 4, 106), // maxBlocksPerMultiProcessor
    (716, 692, 4, 109), // accessPolicyMaxWindowSize
    (720, 696, 8, 111), // reservedSharedMemPerBlock
    (728, 704, 4, 99), // hostRegisterSupported
    (732, 708, 4, 112), // sparseCudaArraySupported
    (736, 712, 4, 113), // hostRegisterReadOnlySupported
    (740, 716, 4, 114), // timelineSemaphoreInteropSupported
    (744, 720, 4, 115), // memoryPoolsSupported
    (748, 724, 4, 116), // gpuDirectRDMASupported
    (752, 728, 4, 117), // gpuDirectRDMAFlushWritesOptions
    (756, 732, 4, 118), // gpuDirectRDMAWritesOrdering
    (760, 736, 4, 119), // memoryPoolSupportedHandleTypes
    (764, 740, 4, 121), // deferredMappingCudaArraySupported
    (768, 744, 4, 125), // ipcEventSupported
    (772, 748, 4, 120), // clusterLaunch
    (776, 752, 4, 129), // unifiedFunctionPointers
    (NONE, 756, 4, 130), // deviceNumaConfig
    (NONE, 760, 4, 131), // deviceNumaId
    (NONE, 764, 4, 133), // mpsEnabled
    (NONE, 768, 4, 134), // hostNumaId
    (NONE, 772, 4, 139), // gpuPciDeviceID
    (NONE, 776, 4, 140), // gpuPciSubsystemID
    (NONE, 780, 4, 143), // hostNumaMultinodeIpcSupported
];

/// `cudaGetDeviceProperties_v2`, which only CUDA 12 has, and `cudaGetDeviceProperties` of the loaded major. The old
/// CUDA 11 layout is a prefix of CUDA 12's, 728 bytes long.
pub(crate) unsafe fn get_v2(out: Out<u8>, ordinal: c_int) -> CudaResult {
    let bytes = fill(device::get(ordinal)?, true);
    write(out, &bytes[..SIZE_12])
}

/// `cudaGetDeviceProperties`
pub(crate) unsafe fn get(out: Out<u8>, ordinal: c_int) -> CudaResult {
    let device = device::get(ordinal)?;
    if version::is_twelve() {
        write(out, &fill(device, true)[..728])
    } else {
        write(out, &fill(device, false)[..SIZE_13])
    }
}

fn write(out: Out<u8>, bytes: &[u8]) -> CudaResult {
    let target = out.required()?;
    // SAFETY: C passed a structure of the size that its CUDA major declares.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target.0, bytes.len()) };
    Ok(())
}

fn fill(device: &Device, is_twelve: bool) -> [u8; SIZE_12] {
    let mut bytes = [0; SIZE_12];
    let name = device.gpu.profile.name.as_bytes();
    let length = name.len().min(255);
    bytes[..length].copy_from_slice(&name[..length]);
    bytes[256..272].copy_from_slice(&device.gpu.uuid());
    bytes[288..296].copy_from_slice(&device.gpu.profile.memory.bytes.to_le_bytes());
    for (twelve, thirteen, width, number) in FIELDS {
        let offset = if is_twelve { *twelve } else { *thirteen };
        if offset != NONE {
            let value = i64::from(attribute::get(device, *number).unwrap_or(0));
            bytes[offset..offset + width].copy_from_slice(&value.to_le_bytes()[..*width]);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offsets according to `offsetof` with NVIDIA's headers of CUDA 12.8 and 13.2.
    #[test]
    fn a_few_fields_stand_where_the_headers_put_them() {
        let device = device::get(0).unwrap();
        let at = |bytes: &[u8], offset: usize| i32::from_le_bytes(bytes[offset..offset + 4].try_into().unwrap());
        let (twelve, thirteen) = (fill(device, true), fill(device, false));
        assert!(twelve.starts_with(b"NVIDIA A100-SXM4-80GB\0"));
        assert_eq!((at(&twelve, 388), at(&thirteen, 384)), (108, 108), "multiProcessorCount");
        assert_eq!((at(&twelve, 360), at(&twelve, 364)), (8, 0), "major, minor");
        assert_eq!((at(&twelve, 348), at(&twelve, 608)), (1_410_000, 1_593_000), "clockRate, memoryClockRate");
        assert_eq!((at(&twelve, 640), at(&thirteen, 624)), (167_936, 167_936), "sharedMemPerMultiprocessor");
        assert_eq!((at(&twelve, 624), at(&thirteen, 604)), (2048, 2048), "maxThreadsPerMultiProcessor");
    }
}
