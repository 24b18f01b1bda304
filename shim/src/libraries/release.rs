//! The release of each library that we report: the one that PyTorch's wheel for the loaded CUDA major version was built
//! with.

use std::ffi::c_int;

use crate::device::state::version;

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

    /// 1000 * major + 100 * minor + patch, the version format of cuFFT, cuRAND, cuSPARSE and cuSOLVER.
    pub(super) fn thousands(self) -> c_int {
        self.0 * 1000 + self.1 * 100 + self.2
    }

    /// 10000 * major + 100 * minor + patch, the version format of cuBLAS and cuDNN.
    pub(super) fn ten_thousands(self) -> c_int {
        self.0 * 10_000 + self.1 * 100 + self.2
    }
}

/// The releases of one CUDA toolkit.
#[derive(Debug)]
pub(super) struct Release {
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

/// The release that goes with the CUDA runtime that this process loaded.
pub(super) fn current() -> &'static Release {
    if version::is_twelve() { &CUDA_12 } else { &CUDA_13 }
}
