//! libcublas: handles, modes, stream, workspace, transfers, vectors, `gemv`, `ger` and level 3. The rest of BLAS is a stub.

mod calls;
pub(super) mod dense;
pub(super) mod element;
pub(super) mod epilogue;
pub(super) mod gemm;
pub(super) mod handle;
pub(super) mod job;
mod level1;
mod level2;
mod level3;
mod number;
pub(super) mod operand;
pub(super) mod product;
mod rotations;
mod transfer;
mod triangular;
mod vectors;

use std::ffi::{c_char, c_int, c_void};

use handle::{
    create, destroy, get, get_property, get_stream, get_version, set, set_math_mode, set_stream, set_workspace, text,
};
use transfer::Way;

use crate::boundary::args::Out;
use crate::boundary::table::{Export, exports};
use crate::device::version;

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
        fn cublasSetVector(count: c_int, bytes: c_int, from: usize, from_step: c_int, to: usize, to_step: c_int) = |count, bytes, from, from_step, to, to_step| transfer::vector(Way::Set, [count.into(), bytes.into()], (from, from_step.into()), (to, to_step.into()), None);
        fn cublasSetMatrix(rows: c_int, columns: c_int, bytes: c_int, from: usize, from_step: c_int, to: usize, to_step: c_int) = |rows, columns, bytes, from, from_step, to, to_step| transfer::matrix(Way::Set, [rows.into(), columns.into(), bytes.into()], (from, from_step.into()), (to, to_step.into()), None);
        fn cublasSetVectorAsync(count: c_int, bytes: c_int, from: usize, from_step: c_int, to: usize, to_step: c_int, stream: usize) = |count, bytes, from, from_step, to, to_step, stream| transfer::vector(Way::Set, [count.into(), bytes.into()], (from, from_step.into()), (to, to_step.into()), Some(stream));
        fn cublasSetMatrixAsync(rows: c_int, columns: c_int, bytes: c_int, from: usize, from_step: c_int, to: usize, to_step: c_int, stream: usize) = |rows, columns, bytes, from, from_step, to, to_step, stream| transfer::matrix(Way::Set, [rows.into(), columns.into(), bytes.into()], (from, from_step.into()), (to, to_step.into()), Some(stream));
        fn cublasGetVector(count: c_int, bytes: c_int, from: usize, from_step: c_int, to: usize, to_step: c_int) = |count, bytes, from, from_step, to, to_step| transfer::vector(Way::Get, [count.into(), bytes.into()], (from, from_step.into()), (to, to_step.into()), None);
        fn cublasGetMatrix(rows: c_int, columns: c_int, bytes: c_int, from: usize, from_step: c_int, to: usize, to_step: c_int) = |rows, columns, bytes, from, from_step, to, to_step| transfer::matrix(Way::Get, [rows.into(), columns.into(), bytes.into()], (from, from_step.into()), (to, to_step.into()), None);
        fn cublasGetVectorAsync(count: c_int, bytes: c_int, from: usize, from_step: c_int, to: usize, to_step: c_int, stream: usize) = |count, bytes, from, from_step, to, to_step, stream| transfer::vector(Way::Get, [count.into(), bytes.into()], (from, from_step.into()), (to, to_step.into()), Some(stream));
        fn cublasGetMatrixAsync(rows: c_int, columns: c_int, bytes: c_int, from: usize, from_step: c_int, to: usize, to_step: c_int, stream: usize) = |rows, columns, bytes, from, from_step, to, to_step, stream| transfer::matrix(Way::Get, [rows.into(), columns.into(), bytes.into()], (from, from_step.into()), (to, to_step.into()), Some(stream));
        fn cublasSetVector_64(count: i64, bytes: i64, from: usize, from_step: i64, to: usize, to_step: i64) = |count, bytes, from, from_step, to, to_step| transfer::vector(Way::Set, [count, bytes], (from, from_step), (to, to_step), None);
        fn cublasSetMatrix_64(rows: i64, columns: i64, bytes: i64, from: usize, from_step: i64, to: usize, to_step: i64) = |rows, columns, bytes, from, from_step, to, to_step| transfer::matrix(Way::Set, [rows, columns, bytes], (from, from_step), (to, to_step), None);
        fn cublasSetVectorAsync_64(count: i64, bytes: i64, from: usize, from_step: i64, to: usize, to_step: i64, stream: usize) = |count, bytes, from, from_step, to, to_step, stream| transfer::vector(Way::Set, [count, bytes], (from, from_step), (to, to_step), Some(stream));
        fn cublasSetMatrixAsync_64(rows: i64, columns: i64, bytes: i64, from: usize, from_step: i64, to: usize, to_step: i64, stream: usize) = |rows, columns, bytes, from, from_step, to, to_step, stream| transfer::matrix(Way::Set, [rows, columns, bytes], (from, from_step), (to, to_step), Some(stream));
        fn cublasGetVector_64(count: i64, bytes: i64, from: usize, from_step: i64, to: usize, to_step: i64) = |count, bytes, from, from_step, to, to_step| transfer::vector(Way::Get, [count, bytes], (from, from_step), (to, to_step), None);
        fn cublasGetMatrix_64(rows: i64, columns: i64, bytes: i64, from: usize, from_step: i64, to: usize, to_step: i64) = |rows, columns, bytes, from, from_step, to, to_step| transfer::matrix(Way::Get, [rows, columns, bytes], (from, from_step), (to, to_step), None);
        fn cublasGetVectorAsync_64(count: i64, bytes: i64, from: usize, from_step: i64, to: usize, to_step: i64, stream: usize) = |count, bytes, from, from_step, to, to_step, stream| transfer::vector(Way::Get, [count, bytes], (from, from_step), (to, to_step), Some(stream));
        fn cublasGetMatrixAsync_64(rows: i64, columns: i64, bytes: i64, from: usize, from_step: i64, to: usize, to_step: i64, stream: usize) = |rows, columns, bytes, from, from_step, to, to_step, stream| transfer::matrix(Way::Get, [rows, columns, bytes], (from, from_step), (to, to_step), Some(stream));
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
        cublasCgbmv_v2 cublasCgbmv_v2_64 cublasCgelsBatched cublasCgemm cublasCgemv
        cublasCgeqrfBatched cublasCgerc cublasCgeru cublasCgetrfBatched cublasCgetriBatched cublasCgetrsBatched cublasChbmv
        cublasChbmv_v2 cublasChbmv_v2_64 cublasChemm cublasChemv cublasChemv_v2
        cublasChemv_v2_64 cublasCher cublasCher2 cublasCher2_v2 cublasCher2_v2_64 cublasCher2k
        cublasCher_v2 cublasCher_v2_64 cublasCherk cublasCherk3mEx cublasCherk3mEx_64 cublasCherkEx
        cublasCherkEx_64 cublasChpmv cublasChpmv_v2
        cublasChpmv_v2_64 cublasChpr cublasChpr2 cublasChpr2_v2 cublasChpr2_v2_64 cublasChpr_v2 cublasChpr_v2_64
        cublasCmatinvBatched cublasCrot cublasCrotg cublasCscal cublasCsrot cublasCsscal cublasCswap cublasCsymm
        cublasCsymv_v2 cublasCsymv_v2_64 cublasCsyr2_v2 cublasCsyr2_v2_64 cublasCsyr2k
        cublasCsyr_v2 cublasCsyr_v2_64 cublasCsyrk cublasCsyrk3mEx cublasCsyrk3mEx_64 cublasCsyrkEx
        cublasCsyrkEx_64 cublasCtbmv cublasCtbmv_v2
        cublasCtbmv_v2_64 cublasCtbsv cublasCtbsv_v2 cublasCtbsv_v2_64 cublasCtpmv cublasCtpmv_v2 cublasCtpmv_v2_64 cublasCtpsv
        cublasCtpsv_v2 cublasCtpsv_v2_64 cublasCtpttr cublasCtrmm cublasCtrmv cublasCtrmv_v2
        cublasCtrmv_v2_64 cublasCtrsm cublasCtrsv
        cublasCtrsv_v2 cublasCtrsv_v2_64 cublasCtrttp cublasDasum cublasDaxpy cublasDbdmm cublasDcopy
        cublasDdot cublasDgbmv cublasDgbmv_v2 cublasDgbmv_v2_64 cublasDgelsBatched cublasDgemm
        cublasDgemv cublasDgeqrfBatched cublasDger cublasDgetrfBatched cublasDgetriBatched cublasDgetrsBatched
        cublasDmatinvBatched cublasDnrm2 cublasDrot cublasDrotg cublasDrotm cublasDrotmg cublasDsbmv cublasDsbmv_v2
        cublasDsbmv_v2_64 cublasDscal cublasDspmv cublasDspmv_v2 cublasDspmv_v2_64 cublasDspr cublasDspr2 cublasDspr2_v2
        cublasDspr2_v2_64 cublasDspr_v2 cublasDspr_v2_64 cublasDswap cublasDsymm cublasDsymv
        cublasDsymv_v2 cublasDsymv_v2_64 cublasDsyr cublasDsyr2 cublasDsyr2_v2 cublasDsyr2_v2_64 cublasDsyr2k
        cublasDsyr_v2 cublasDsyr_v2_64 cublasDsyrk
        cublasDtbmv cublasDtbmv_v2 cublasDtbmv_v2_64 cublasDtbsv cublasDtbsv_v2 cublasDtbsv_v2_64 cublasDtpmv
        cublasDtpmv_v2 cublasDtpmv_v2_64 cublasDtpsv cublasDtpsv_v2 cublasDtpsv_v2_64 cublasDtpttr cublasDtrmm
        cublasDtrmv cublasDtrmv_v2 cublasDtrmv_v2_64 cublasDtrsm
        cublasDtrsv cublasDtrsv_v2 cublasDtrsv_v2_64 cublasDtrttp cublasDzasum cublasDznrm2
        cublasFree cublasGetBackdoor cublasGetEmulationSpecialValuesSupport cublasGetEmulationStrategy cublasGetEnvironmentMode
        cublasGetError cublasGetFixedPointEmulationMantissaBitCountPointer cublasGetFixedPointEmulationMantissaBitOffset
        cublasGetFixedPointEmulationMantissaControl cublasGetFixedPointEmulationMaxMantissaBitCount cublasGetLoggerCallback
        cublasGetVersion cublasIcamax cublasIcamin cublasIdamax cublasIdamin cublasInit cublasIsamax cublasIsamin cublasIzamax
        cublasIzamin cublasLoggerConfigure cublasSasum cublasSaxpy cublasSbdmm cublasScasum cublasScnrm2 cublasScopy
        cublasSdot cublasSetBackdoor cublasSetBackdoorEx cublasSetEmulationSpecialValuesSupport
        cublasSetEmulationStrategy cublasSetEnvironmentMode cublasSetFixedPointEmulationMantissaBitCountPointer
        cublasSetFixedPointEmulationMantissaBitOffset cublasSetFixedPointEmulationMantissaControl
        cublasSetFixedPointEmulationMaxMantissaBitCount cublasSetKernelStream cublasSetLoggerCallback cublasSgbmv cublasSgbmv_v2
        cublasSgbmv_v2_64 cublasSgelsBatched cublasSgemm cublasSgemv cublasSgeqrfBatched cublasSger
        cublasSgetrfBatched cublasSgetriBatched cublasSgetrsBatched cublasShutdown cublasSmatinvBatched cublasSnrm2 cublasSrot
        cublasSrotg cublasSrotm cublasSrotmg cublasSsbmv cublasSsbmv_v2 cublasSsbmv_v2_64 cublasSscal cublasSspmv cublasSspmv_v2
        cublasSspmv_v2_64 cublasSspr cublasSspr2 cublasSspr2_v2 cublasSspr2_v2_64 cublasSspr_v2 cublasSspr_v2_64 cublasSswap
        cublasSsymm cublasSsymv cublasSsymv_v2 cublasSsymv_v2_64 cublasSsyr cublasSsyr2
        cublasSsyr2_v2 cublasSsyr2_v2_64 cublasSsyr2k cublasSsyr_v2 cublasSsyr_v2_64
        cublasSsyrk cublasStbmv cublasStbmv_v2 cublasStbmv_v2_64
        cublasStbsv cublasStbsv_v2 cublasStbsv_v2_64 cublasStpmv cublasStpmv_v2 cublasStpmv_v2_64 cublasStpsv cublasStpsv_v2
        cublasStpsv_v2_64 cublasStpttr cublasStrmm cublasStrmv cublasStrmv_v2 cublasStrmv_v2_64
        cublasStrsm cublasStrsv cublasStrsv_v2
        cublasStrsv_v2_64 cublasStrttp cublasUint8gemmBias cublasXerbla cublasXtCgemm cublasXtChemm cublasXtCher2k cublasXtCherk
        cublasXtCherkx cublasXtCreate cublasXtCspmm cublasXtCsymm cublasXtCsyr2k cublasXtCsyrk cublasXtCsyrkx cublasXtCtrmm
        cublasXtCtrsm cublasXtDestroy cublasXtDeviceSelect cublasXtDgemm cublasXtDspmm cublasXtDsymm cublasXtDsyr2k
        cublasXtDsyrk cublasXtDsyrkx cublasXtDtrmm cublasXtDtrsm cublasXtGetBlockDim cublasXtGetNumBoards
        cublasXtGetPinningMemMode cublasXtMaxBoards cublasXtSetBlockDim cublasXtSetCpuRatio cublasXtSetCpuRoutine
        cublasXtSetPinningMemMode cublasXtSgemm cublasXtSspmm cublasXtSsymm cublasXtSsyr2k cublasXtSsyrk cublasXtSsyrkx
        cublasXtStrmm cublasXtStrsm cublasXtZgemm cublasXtZhemm cublasXtZher2k cublasXtZherk cublasXtZherkx cublasXtZspmm
        cublasXtZsymm cublasXtZsyr2k cublasXtZsyrk cublasXtZsyrkx cublasXtZtrmm cublasXtZtrsm cublasZaxpy cublasZbdmm
        cublasZcopy cublasZdotc cublasZdotu cublasZdrot cublasZdscal cublasZgbmv cublasZgbmv_v2
        cublasZgbmv_v2_64 cublasZgelsBatched cublasZgemm cublasZgemv cublasZgeqrfBatched cublasZgerc
        cublasZgeru cublasZgetrfBatched cublasZgetriBatched cublasZgetrsBatched cublasZhbmv cublasZhbmv_v2 cublasZhbmv_v2_64
        cublasZhemm cublasZhemv cublasZhemv_v2 cublasZhemv_v2_64 cublasZher cublasZher2
        cublasZher2_v2 cublasZher2_v2_64 cublasZher2k cublasZher_v2 cublasZher_v2_64
        cublasZherk cublasZhpmv cublasZhpmv_v2 cublasZhpmv_v2_64
        cublasZhpr cublasZhpr2 cublasZhpr2_v2 cublasZhpr2_v2_64 cublasZhpr_v2 cublasZhpr_v2_64 cublasZmatinvBatched cublasZrot
        cublasZrotg cublasZscal cublasZswap cublasZsymm cublasZsymv_v2 cublasZsymv_v2_64
        cublasZsyr2_v2 cublasZsyr2_v2_64 cublasZsyr2k cublasZsyr_v2 cublasZsyr_v2_64
        cublasZsyrk cublasZtbmv cublasZtbmv_v2 cublasZtbmv_v2_64
        cublasZtbsv cublasZtbsv_v2 cublasZtbsv_v2_64 cublasZtpmv cublasZtpmv_v2 cublasZtpmv_v2_64 cublasZtpsv cublasZtpsv_v2
        cublasZtpsv_v2_64 cublasZtpttr cublasZtrmm cublasZtrmv cublasZtrmv_v2 cublasZtrmv_v2_64
        cublasZtrsm cublasZtrsv cublasZtrsv_v2
        cublasZtrsv_v2_64 cublasZtrttp
    }
}

/// The tables of its parts.
pub(super) fn tables() -> Vec<&'static [Export]> {
    let mut tables = vec![EXPORTS];
    for parts in [vectors::TABLES, gemm::TABLES, level2::TABLES, level3::TABLES] {
        tables.extend(parts);
    }
    tables
}
