//! Which release of each library is played: the one that PyTorch's wheel for the loaded CUDA major was built with.

use std::ffi::{CStr, c_int};
use std::sync::OnceLock;

/// Major, minor and patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version(pub(super) c_int, pub(super) c_int, pub(super) c_int);

impl Version {
    /// The part that `libraryPropertyType` names: 0 major, 1 minor, 2 patch.
    pub(super) fn property(self, which: c_int) -> Option<c_int> {
        match which {
            0 => Some(self.0),
            1 => Some(self.1),
            2 => Some(self.2),
            _ => None,
        }
    }

    /// 1000 * major + 100 * minor + patch, as cuFFT, cuRAND, cuSPARSE and cuSOLVER write versions.
    pub(super) fn thousands(self) -> c_int {
        self.0 * 1000 + self.1 * 100 + self.2
    }

    /// 10000 * major + 100 * minor + patch, as cuBLAS and cuDNN write them.
    pub(super) fn ten_thousands(self) -> c_int {
        self.0 * 10_000 + self.1 * 100 + self.2
    }
}

/// The releases of one CUDA toolkit.
#[derive(Debug)]
pub(super) struct Release {
    /// The runtime, as `cudaRuntimeGetVersion` says it.
    pub(super) cudart: c_int,
    pub(super) toolkit: Version,
    pub(super) cublas: Version,
    pub(super) cudnn: Version,
    pub(super) cufft: Version,
    pub(super) curand: Version,
    pub(super) cusolver: Version,
    pub(super) cusparse: Version,
    pub(super) cusparselt: Version,
    /// `CUPTI_API_VERSION`.
    pub(super) cupti: u32,
}

// PyPI metadata of torch 2.9.1 (CUDA 12.8) and torch 2.15.0 (CUDA 13.2).
const CUDA_12: Release = Release {
    cudart: 12_080,
    toolkit: Version(12, 8, 0),
    cublas: Version(12, 8, 4),
    cudnn: Version(9, 10, 2),
    cufft: Version(11, 3, 3),
    curand: Version(10, 3, 9),
    cusolver: Version(11, 7, 3),
    cusparse: Version(12, 5, 8),
    cusparselt: Version(0, 7, 1),
    cupti: 26,
};
const CUDA_13: Release = Release {
    cudart: 13_020,
    toolkit: Version(13, 2, 0),
    cublas: Version(13, 3, 0),
    cudnn: Version(9, 26, 0),
    cufft: Version(12, 2, 0),
    curand: Version(10, 4, 2),
    cusolver: Version(12, 1, 0),
    cusparse: Version(12, 7, 9),
    cusparselt: Version(0, 8, 1),
    cupti: 130_200,
};

/// The release that this process plays with: CUDA 12 where a holder of that major is loaded, else 13.
pub(super) fn current() -> &'static Release {
    static RELEASE: OnceLock<&Release> = OnceLock::new();
    RELEASE.get_or_init(|| {
        let twelve: [&CStr; 4] = [c"libcudart.so.12", c"libcublas.so.12", c"libnvrtc.so.12", c"libcupti.so.12"];
        if twelve.into_iter().any(is_loaded) { &CUDA_12 } else { &CUDA_13 }
    })
}

fn is_loaded(soname: &CStr) -> bool {
    // SAFETY: the name ends with NUL; RTLD_NOLOAD only looks the library up and runs no code of it.
    let handle = unsafe { libc::dlopen(soname.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if handle.is_null() {
        return false;
    }
    // SAFETY: the handle came from dlopen just now and is given back once.
    unsafe { libc::dlclose(handle) };
    true
}
