//! libcublas: handles, modes, stream, workspace, transfers, BLAS, and the functions that are also in LAPACK (`getrfBatched` and
//! similar), of which `gelsBatched` is a stub.

mod calls;
pub(super) mod dense;
pub(super) mod element;
pub(super) mod epilogue;
pub(super) mod gemm;
mod halves;
pub(super) mod handle;
pub(super) mod job;
mod lapack;
mod level1;
mod level2;
mod level3;
pub(super) mod number;
pub(super) mod operand;
pub(super) mod product;
mod rotations;
mod transfer;
pub(super) mod triangular;
mod vectors;

use std::ffi::{c_char, c_int, c_void};

use abi::argument::Out;

use handle::{
    create, destroy, get, get_property, get_stream, get_version, set, set_math_mode, set_stream, set_workspace, text,
};

use crate::boundary::table::exports;
use crate::device::state::version;
use abi::table::Export;

exports! {
    library Cublas;
    real {
        fn cublasCreate_v2(handle: Out<usize>) = create;
        fn cublasDestroy_v2(handle: usize) = destroy;
        fn cublasGetVersion_v2(handle: usize, version: Out<c_int>) = get_version;
        fn cublasSetStream_v2(handle: usize, stream: usize) = set_stream;
        fn cublasGetStream_v2(handle: usize, stream: Out<usize>) = get_stream;
        fn cublasSetWorkspace_v2(handle: usize, workspace: *mut c_void, bytes: usize) = set_workspace;
        fn cublasSetPointerMode_v2(handle: usize, mode: c_int) = |handle, mode| set(handle, mode, 0..=1, |modes| &mut modes.pointer);
        fn cublasGetPointerMode_v2(handle: usize, mode: Out<c_int>) = |handle, mode| get(handle, mode, |modes| modes.pointer);
        fn cublasSetAtomicsMode(handle: usize, mode: c_int) = |handle, mode| set(handle, mode, 0..=1, |modes| &mut modes.atomics);
        fn cublasGetAtomicsMode(handle: usize, mode: Out<c_int>) = |handle, mode| get(handle, mode, |modes| modes.atomics);
        fn cublasSetMathMode(handle: usize, mode: c_int) = set_math_mode;
        fn cublasGetMathMode(handle: usize, mode: Out<c_int>) = |handle, mode| get(handle, mode, |modes| modes.math);
        fn cublasSetSmCountTarget(handle: usize, count: c_int) = |handle, count| set(handle, count, 0..=c_int::MAX, |modes| &mut modes.sm_count_target);
        fn cublasGetSmCountTarget(handle: usize, count: Out<c_int>) = |handle, count| get(handle, count, |modes| modes.sm_count_target);
    }
    bare {
        fn cublasGetProperty(which: c_int, value: Out<c_int>) = get_property;
    }
    raw {
        fn cublasGetCudartVersion() -> usize = || version::runtime() as usize;
        fn cublasGetStatusName(status: c_int) -> *const c_char = |status| text(status).0.as_ptr();
        fn cublasGetStatusString(status: c_int) -> *const c_char = |status| text(status).1.as_ptr();
    }
    stub {
        cublasAlloc cublasCaxpy cublasCbdmm cublasCcopy cublasCdotc cublasCdotu cublasCgbmv
        cublasCgelsBatched cublasCgemm cublasCgemv
        cublasCgerc cublasCgeru cublasChbmv
        cublasChemm cublasChemv
        cublasCher cublasCher2 cublasCher2k
        cublasCherk cublasCherk3mEx cublasCherk3mEx_64 cublasCherkEx
        cublasCherkEx_64 cublasChpmv
        cublasChpr cublasChpr2
        cublasCrot cublasCrotg cublasCscal cublasCsrot cublasCsscal cublasCswap cublasCsymm
        cublasCsyr2k
        cublasCsyrk cublasCsyrk3mEx cublasCsyrk3mEx_64 cublasCsyrkEx
        cublasCsyrkEx_64 cublasCtbmv
        cublasCtbsv cublasCtpmv cublasCtpsv
        cublasCtpttr cublasCtrmm cublasCtrmv
        cublasCtrsm cublasCtrsv
        cublasCtrttp cublasDasum cublasDaxpy cublasDbdmm cublasDcopy
        cublasDdot cublasDgbmv cublasDgelsBatched cublasDgemm
        cublasDgemv cublasDger
        cublasDnrm2 cublasDrot cublasDrotg cublasDrotm cublasDrotmg cublasDsbmv
        cublasDscal cublasDspmv cublasDspr cublasDspr2
        cublasDswap cublasDsymm cublasDsymv
        cublasDsyr cublasDsyr2 cublasDsyr2k
        cublasDsyrk
        cublasDtbmv cublasDtbsv cublasDtpmv
        cublasDtpsv cublasDtpttr cublasDtrmm
        cublasDtrmv cublasDtrsm
        cublasDtrsv cublasDtrttp cublasDzasum cublasDznrm2
        cublasFree cublasGetBackdoor cublasGetEmulationSpecialValuesSupport cublasGetEmulationStrategy cublasGetEnvironmentMode
        cublasGetError cublasGetFixedPointEmulationMantissaBitCountPointer cublasGetFixedPointEmulationMantissaBitOffset
        cublasGetFixedPointEmulationMantissaControl cublasGetFixedPointEmulationMaxMantissaBitCount cublasGetLoggerCallback
        cublasGetVersion cublasIcamax cublasIcamin cublasIdamax cublasIdamin cublasInit cublasIsamax cublasIsamin cublasIzamax
        cublasIzamin cublasLoggerConfigure cublasSasum cublasSaxpy cublasSbdmm cublasScasum cublasScnrm2 cublasScopy
        cublasSdot cublasSetBackdoor cublasSetBackdoorEx cublasSetEmulationSpecialValuesSupport
        cublasSetEmulationStrategy cublasSetEnvironmentMode cublasSetFixedPointEmulationMantissaBitCountPointer
        cublasSetFixedPointEmulationMantissaBitOffset cublasSetFixedPointEmulationMantissaControl
        cublasSetFixedPointEmulationMaxMantissaBitCount cublasSetKernelStream cublasSetLoggerCallback cublasSgbmv
        cublasSgelsBatched cublasSgemm cublasSgemv cublasSger
        cublasShutdown cublasSnrm2 cublasSrot
        cublasSrotg cublasSrotm cublasSrotmg cublasSsbmv cublasSscal cublasSspmv
        cublasSspr cublasSspr2 cublasSswap
        cublasSsymm cublasSsymv cublasSsyr cublasSsyr2
        cublasSsyr2k
        cublasSsyrk cublasStbmv
        cublasStbsv cublasStpmv cublasStpsv
        cublasStpttr cublasStrmm cublasStrmv
        cublasStrsm cublasStrsv
        cublasStrttp cublasUint8gemmBias cublasXerbla cublasXtCgemm cublasXtChemm cublasXtCher2k cublasXtCherk
        cublasXtCherkx cublasXtCreate cublasXtCspmm cublasXtCsymm cublasXtCsyr2k cublasXtCsyrk cublasXtCsyrkx cublasXtCtrmm
        cublasXtCtrsm cublasXtDestroy cublasXtDeviceSelect cublasXtDgemm cublasXtDspmm cublasXtDsymm cublasXtDsyr2k
        cublasXtDsyrk cublasXtDsyrkx cublasXtDtrmm cublasXtDtrsm cublasXtGetBlockDim cublasXtGetNumBoards
        cublasXtGetPinningMemMode cublasXtMaxBoards cublasXtSetBlockDim cublasXtSetCpuRatio cublasXtSetCpuRoutine
        cublasXtSetPinningMemMode cublasXtSgemm cublasXtSspmm cublasXtSsymm cublasXtSsyr2k cublasXtSsyrk cublasXtSsyrkx
        cublasXtStrmm cublasXtStrsm cublasXtZgemm cublasXtZhemm cublasXtZher2k cublasXtZherk cublasXtZherkx cublasXtZspmm
        cublasXtZsymm cublasXtZsyr2k cublasXtZsyrk cublasXtZsyrkx cublasXtZtrmm cublasXtZtrsm cublasZaxpy cublasZbdmm
        cublasZcopy cublasZdotc cublasZdotu cublasZdrot cublasZdscal cublasZgbmv
        cublasZgelsBatched cublasZgemm cublasZgemv cublasZgerc
        cublasZgeru cublasZhbmv
        cublasZhemm cublasZhemv cublasZher cublasZher2
        cublasZher2k
        cublasZherk cublasZhpmv
        cublasZhpr cublasZhpr2 cublasZrot
        cublasZrotg cublasZscal cublasZswap cublasZsymm
        cublasZsyr2k
        cublasZsyrk cublasZtbmv
        cublasZtbsv cublasZtpmv cublasZtpsv
        cublasZtpttr cublasZtrmm cublasZtrmv
        cublasZtrsm cublasZtrsv
        cublasZtrttp
    }
}

/// The tables of its parts.
pub(super) fn tables() -> Vec<&'static [Export]> {
    let mut tables = vec![EXPORTS, lapack::EXPORTS];
    for parts in [transfer::TABLES, vectors::TABLES, gemm::TABLES, level2::TABLES, halves::TABLES, level3::TABLES] {
        tables.extend(parts);
    }
    tables
}
