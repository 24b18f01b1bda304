//! The NVIDIA libraries we implement, and the codes that each uses for our own failures.

/// One NVIDIA library.
#[expect(missing_docs, reason = "the names are NVIDIA's")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Library {
    CudaRuntime,
    CudaDriver,
    Nccl,
    Nvml,
    Cublas,
    CublasLt,
    Cudnn,
    Cufft,
    Curand,
    Cusparse,
    CusparseLt,
    Cusolver,
    Nvrtc,
    NvJitLink,
    Cupti,
    Cufile,
    Nvshmem,
    Cudss,
    Nvtx,
    /// Not NVIDIA's: PyTorch's operators, which the compute bridge implements.
    Torch,
}

impl Library {
    /// Name as it appears in reports, after the soname: "libcudart".
    #[inline]
    pub fn name(self) -> &'static str {
        match self {
            Self::CudaRuntime => "libcudart",
            Self::CudaDriver => "libcuda",
            Self::Nccl => "libnccl",
            Self::Nvml => "libnvidia-ml",
            Self::Cublas => "libcublas",
            Self::CublasLt => "libcublasLt",
            Self::Cudnn => "libcudnn",
            Self::Cufft => "libcufft",
            Self::Curand => "libcurand",
            Self::Cusparse => "libcusparse",
            Self::CusparseLt => "libcusparseLt",
            Self::Cusolver => "libcusolver",
            Self::Nvrtc => "libnvrtc",
            Self::NvJitLink => "libnvJitLink",
            Self::Cupti => "libcupti",
            Self::Cufile => "libcufile",
            Self::Nvshmem => "libnvshmem_host",
            Self::Cudss => "libcudss",
            Self::Nvtx => "libnvToolsExt",
            Self::Torch => "torch",
        }
    }

    /// The library's "not supported". If it has no such code, the closest one.
    #[inline]
    pub fn not_supported(self) -> u32 {
        match self {
            Self::CudaRuntime | Self::CudaDriver => 801,
            Self::Nccl => 5, // ncclInvalidUsage
            Self::Nvml | Self::Nvshmem => 3,
            Self::Cublas | Self::CublasLt => 15,
            Self::Cudnn => 3000,
            Self::Cufft => 16,
            Self::Curand => 204, // CURAND_STATUS_ARCH_MISMATCH
            Self::Cusparse | Self::CusparseLt => 10,
            Self::Cusolver => 9,
            Self::Nvrtc => 11,    // NVRTC_ERROR_INTERNAL_ERROR
            Self::NvJitLink => 6, // NVJITLINK_ERROR_INTERNAL
            Self::Cupti => 27,
            Self::Cufile => 5008, // CU_FILE_IO_NOT_SUPPORTED
            Self::Cudss => 5,
            Self::Nvtx | Self::Torch => 1,
        }
    }

    /// "Something broke inside": for a panic of ours.
    #[inline]
    pub fn internal(self) -> u32 {
        match self {
            Self::CudaRuntime | Self::CudaDriver | Self::Nvml | Self::Cupti | Self::Curand => 999,
            Self::Nccl => 3,
            Self::Cublas | Self::CublasLt => 14,
            Self::Cudnn => 4000,
            Self::Cufft => 5,
            Self::Cusparse | Self::CusparseLt | Self::Cusolver => 7,
            Self::Nvrtc => 11,
            Self::NvJitLink => 6,
            Self::Cufile => 5001,
            Self::Nvshmem => 7,
            Self::Cudss => 7,
            Self::Nvtx | Self::Torch => 1,
        }
    }

    /// "Not initialized": for bad settings, and for a child forked after its parent initialized.
    #[inline]
    pub fn not_initialized(self) -> u32 {
        match self {
            Self::CudaRuntime | Self::CudaDriver => 3,
            Self::Nccl => 1, // ncclUnhandledCudaError
            Self::Nvml => 1, // NVML_ERROR_UNINITIALIZED
            Self::Cublas | Self::CublasLt | Self::Cusparse | Self::CusparseLt | Self::Cusolver => 1,
            Self::Cudnn => 1001,
            Self::Cufft => 5,
            Self::Curand => 101,
            Self::Cupti => 15,
            _ => self.internal(),
        }
    }

    /// True if its calls need a CUDA context, which does not survive a fork.
    #[inline]
    pub fn is_lost_by_fork(self) -> bool {
        !matches!(self, Self::Nvml | Self::Nvrtc | Self::NvJitLink | Self::Nvtx)
    }
}
