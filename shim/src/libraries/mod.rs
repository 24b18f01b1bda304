//! NVIDIA's other libraries. Their handles, versions and texts are real. cuBLAS, cuBLASLt, cuFFT, cuSOLVER and cuSPARSE compute; in
//! the others, functions that compute are stubs: they return the library's own "not supported" and count as gaps. The tables of
//! cuBLAS, cuBLASLt, cuFFT, cuRAND, cuSOLVER, cuSPARSE, NVRTC and nvJitLink contain every name in CUDA 13.5's libraries; the others
//! contain what the supported PyTorch wheels link, and related calls.

use abi::table::Export;

pub(crate) mod cublas;
pub(crate) mod cublaslt;
pub(crate) mod cudnn;
pub(crate) mod cufft;
pub(crate) mod cufile;
pub(crate) mod cupti;
pub(crate) mod curand;
pub(crate) mod cusolver;
pub(crate) mod cusparse;
pub(crate) mod cusparselt;
pub(crate) mod installed;
mod lapack;
pub(crate) mod nvjitlink;
pub(crate) mod nvrtc;
pub(crate) mod nvshmem;
pub(crate) mod nvtx;
mod objects;
mod release;
mod typed;

/// The tables of all libraries here.
pub(crate) fn tables() -> Vec<&'static [Export]> {
    let mut tables = cublas::tables();
    tables.extend(cusolver::tables());
    tables.extend(cusparse::tables());
    tables.extend([
        cublaslt::EXPORTS,
        cudnn::EXPORTS,
        cufft::EXPORTS,
        cufile::EXPORTS,
        cupti::EXPORTS,
        curand::EXPORTS,
        cusparselt::EXPORTS,
        nvjitlink::EXPORTS,
        nvrtc::EXPORTS,
        nvshmem::EXPORTS,
        nvshmem::DATA,
        nvtx::EXPORTS,
    ]);
    tables
}
