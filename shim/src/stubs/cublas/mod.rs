//! libcublas: handles, modes, stream, workspace and real-valued products are real. The rest of BLAS is a stub.

pub(super) mod gemm;
pub(super) mod handle;
pub(super) mod product;
mod transfer;

use std::ffi::{c_char, c_int, c_longlong, c_void};

use handle::{
    create, destroy, get, get_property, get_stream, get_version, set, set_math_mode, set_stream, set_workspace, text,
};
use transfer::Way;

use crate::boundary::args::Out;
use crate::boundary::table::exports;
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
        fn cublasSgemm_v2(handle: usize, left: c_int, right: c_int, m: c_int, n: c_int, k: c_int, alpha: *const c_void, a: *const c_void, lda: c_int, b: *const c_void, ldb: c_int, beta: *const c_void, c: *mut c_void, ldc: c_int) = gemm::sgemm;
        fn cublasDgemm_v2(handle: usize, left: c_int, right: c_int, m: c_int, n: c_int, k: c_int, alpha: *const c_void, a: *const c_void, lda: c_int, b: *const c_void, ldb: c_int, beta: *const c_void, c: *mut c_void, ldc: c_int) = gemm::dgemm;
        fn cublasHgemm(handle: usize, left: c_int, right: c_int, m: c_int, n: c_int, k: c_int, alpha: *const c_void, a: *const c_void, lda: c_int, b: *const c_void, ldb: c_int, beta: *const c_void, c: *mut c_void, ldc: c_int) = gemm::hgemm;
        fn cublasSgemmStridedBatched(handle: usize, left: c_int, right: c_int, m: c_int, n: c_int, k: c_int, alpha: *const c_void, a: *const c_void, lda: c_int, stride_a: c_longlong, b: *const c_void, ldb: c_int, stride_b: c_longlong, beta: *const c_void, c: *mut c_void, ldc: c_int, stride_c: c_longlong, batch: c_int) = gemm::sgemm_strided;
        fn cublasDgemmStridedBatched(handle: usize, left: c_int, right: c_int, m: c_int, n: c_int, k: c_int, alpha: *const c_void, a: *const c_void, lda: c_int, stride_a: c_longlong, b: *const c_void, ldb: c_int, stride_b: c_longlong, beta: *const c_void, c: *mut c_void, ldc: c_int, stride_c: c_longlong, batch: c_int) = gemm::dgemm_strided;
        fn cublasHgemmStridedBatched(handle: usize, left: c_int, right: c_int, m: c_int, n: c_int, k: c_int, alpha: *const c_void, a: *const c_void, lda: c_int, stride_a: c_longlong, b: *const c_void, ldb: c_int, stride_b: c_longlong, beta: *const c_void, c: *mut c_void, ldc: c_int, stride_c: c_longlong, batch: c_int) = gemm::hgemm_strided;
        fn cublasSgemmEx(handle: usize, left: c_int, right: c_int, m: c_int, n: c_int, k: c_int, alpha: *const c_void, a: *const c_void, type_a: c_int, lda: c_int, b: *const c_void, type_b: c_int, ldb: c_int, beta: *const c_void, c: *mut c_void, type_c: c_int, ldc: c_int) = gemm::sgemm_ex;
        fn cublasGemmEx(handle: usize, left: c_int, right: c_int, m: c_int, n: c_int, k: c_int, alpha: *const c_void, a: *const c_void, type_a: c_int, lda: c_int, b: *const c_void, type_b: c_int, ldb: c_int, beta: *const c_void, c: *mut c_void, type_c: c_int, ldc: c_int, compute: c_int, algorithm: c_int) = gemm::gemm_ex;
        fn cublasGemmStridedBatchedEx(handle: usize, left: c_int, right: c_int, m: c_int, n: c_int, k: c_int, alpha: *const c_void, a: *const c_void, type_a: c_int, lda: c_int, stride_a: c_longlong, b: *const c_void, type_b: c_int, ldb: c_int, stride_b: c_longlong, beta: *const c_void, c: *mut c_void, type_c: c_int, ldc: c_int, stride_c: c_longlong, batch: c_int, compute: c_int, algorithm: c_int) = gemm::gemm_strided_ex;
        fn cublasSgemv_v2(handle: usize, operation: c_int, m: c_int, n: c_int, alpha: *const c_void, a: *const c_void, lda: c_int, x: *const c_void, increment_x: c_int, beta: *const c_void, y: *mut c_void, increment_y: c_int) = gemm::sgemv;
        fn cublasDgemv_v2(handle: usize, operation: c_int, m: c_int, n: c_int, alpha: *const c_void, a: *const c_void, lda: c_int, x: *const c_void, increment_x: c_int, beta: *const c_void, y: *mut c_void, increment_y: c_int) = gemm::dgemv;
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
        cublasAxpyEx cublasCaxpy_v2 cublasCcopy_v2 cublasCdotc_v2 cublasCdotu_v2 cublasCgelsBatched cublasCgemmBatched
        cublasCgemmStridedBatched cublasCgemm_v2 cublasCgemv_v2 cublasCgeqrfBatched cublasCgerc_v2 cublasCgeru_v2
        cublasCgetrfBatched cublasCgetrsBatched cublasChemm_v2 cublasChemv_v2 cublasCher2_v2 cublasCher2k_v2
        cublasCher_v2 cublasCherk_v2 cublasCrot_v2 cublasCrotg_v2 cublasCscal_v2 cublasCsrot_v2 cublasCsscal_v2
        cublasCswap_v2 cublasCsymm_v2 cublasCsymv_v2 cublasCsyr2_v2 cublasCsyr2k_v2 cublasCsyr_v2 cublasCsyrk_v2
        cublasCtrmm_v2 cublasCtrmv_v2 cublasCtrsmBatched cublasCtrsm_v2 cublasCtrsv_v2 cublasDasum_v2 cublasDaxpy_v2
        cublasDcopy_v2 cublasDdgmm cublasDdot_v2 cublasDgeam cublasDgelsBatched cublasDgemmBatched cublasDgeqrfBatched
        cublasDger_v2 cublasDgetrfBatched cublasDgetriBatched cublasDgetrsBatched cublasDmatinvBatched cublasDnrm2_v2
        cublasDotEx cublasDotcEx cublasDrot_v2 cublasDrotg_v2 cublasDrotm_v2 cublasDrotmg_v2 cublasDscal_v2
        cublasDswap_v2 cublasDsymm_v2 cublasDsymv_v2 cublasDsyr2_v2 cublasDsyr2k_v2 cublasDsyr_v2 cublasDsyrk_v2
        cublasDtrmm_v2 cublasDtrmv_v2 cublasDtrsmBatched cublasDtrsm_v2 cublasDtrsv_v2 cublasDzasum_v2 cublasDznrm2_v2
        cublasGemmBatchedEx cublasGetLoggerCallback
        cublasHgemmBatched cublasIcamax_v2 cublasIcamin_v2 cublasIdamax_v2 cublasIdamin_v2
        cublasIsamax_v2 cublasIsamin_v2 cublasIzamax_v2 cublasIzamin_v2 cublasLoggerConfigure cublasNrm2Ex
        cublasSasum_v2 cublasSaxpy_v2 cublasScalEx cublasScasum_v2 cublasScnrm2_v2 cublasScopy_v2 cublasSdgmm
        cublasSdot_v2 cublasSetLoggerCallback
        cublasSgeam cublasSgelsBatched cublasSgemmBatched cublasSgeqrfBatched cublasSger_v2 cublasSgetrfBatched
        cublasSgetriBatched cublasSgetrsBatched cublasSmatinvBatched cublasSnrm2_v2 cublasSrot_v2 cublasSrotg_v2
        cublasSrotm_v2 cublasSrotmg_v2 cublasSscal_v2 cublasSswap_v2 cublasSsymm_v2 cublasSsymv_v2 cublasSsyr2_v2
        cublasSsyr2k_v2 cublasSsyr_v2 cublasSsyrk_v2 cublasStrmm_v2 cublasStrmv_v2 cublasStrsmBatched cublasStrsm_v2
        cublasStrsv_v2 cublasZaxpy_v2 cublasZcopy_v2 cublasZdotc_v2 cublasZdotu_v2 cublasZdrot_v2 cublasZdscal_v2
        cublasZgelsBatched cublasZgemmBatched cublasZgemmStridedBatched cublasZgemm_v2 cublasZgemv_v2
        cublasZgeqrfBatched cublasZgerc_v2 cublasZgeru_v2 cublasZgetrfBatched cublasZgetrsBatched cublasZhemm_v2
        cublasZhemv_v2 cublasZher2_v2 cublasZher2k_v2 cublasZher_v2 cublasZherk_v2 cublasZrot_v2 cublasZrotg_v2
        cublasZscal_v2 cublasZswap_v2 cublasZsymm_v2 cublasZsymv_v2 cublasZsyr2_v2 cublasZsyr2k_v2 cublasZsyr_v2
        cublasZsyrk_v2 cublasZtrmm_v2 cublasZtrmv_v2 cublasZtrsmBatched cublasZtrsm_v2 cublasZtrsv_v2
    }
}
