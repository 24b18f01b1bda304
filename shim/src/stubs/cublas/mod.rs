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
        cublasAlloc cublasAsumEx cublasAsumEx_64 cublasAxpyEx cublasAxpyEx_64 cublasCaxpy cublasCaxpy_v2
        cublasCaxpy_v2_64 cublasCbdmm cublasCcopy cublasCcopy_v2 cublasCcopy_v2_64 cublasCdgmm cublasCdgmm_64
        cublasCdotc cublasCdotc_v2 cublasCdotc_v2_64 cublasCdotu cublasCdotu_v2 cublasCdotu_v2_64 cublasCgbmv
        cublasCgbmv_v2 cublasCgbmv_v2_64 cublasCgeam cublasCgeam_64 cublasCgelsBatched cublasCgemm cublasCgemm3m
        cublasCgemm3mBatched cublasCgemm3mBatched_64 cublasCgemm3mEx cublasCgemm3mEx_64 cublasCgemm3mStridedBatched
        cublasCgemm3mStridedBatched_64 cublasCgemm3m_64 cublasCgemmBatched cublasCgemmBatched_64 cublasCgemmEx
        cublasCgemmEx_64 cublasCgemmStridedBatched cublasCgemmStridedBatched_64 cublasCgemm_v2 cublasCgemm_v2_64
        cublasCgemv cublasCgemvBatched cublasCgemvBatched_64 cublasCgemvStridedBatched cublasCgemvStridedBatched_64
        cublasCgemv_v2 cublasCgemv_v2_64 cublasCgeqrfBatched cublasCgerc cublasCgerc_v2 cublasCgerc_v2_64 cublasCgeru
        cublasCgeru_v2 cublasCgeru_v2_64 cublasCgetrfBatched cublasCgetriBatched cublasCgetrsBatched cublasChbmv
        cublasChbmv_v2 cublasChbmv_v2_64 cublasChemm cublasChemm_v2 cublasChemm_v2_64 cublasChemv cublasChemv_v2
        cublasChemv_v2_64 cublasCher cublasCher2 cublasCher2_v2 cublasCher2_v2_64 cublasCher2k cublasCher2k_v2
        cublasCher2k_v2_64 cublasCher_v2 cublasCher_v2_64 cublasCherk cublasCherk3mEx cublasCherk3mEx_64 cublasCherkEx
        cublasCherkEx_64 cublasCherk_v2 cublasCherk_v2_64 cublasCherkx cublasCherkx_64 cublasChpmv cublasChpmv_v2
        cublasChpmv_v2_64 cublasChpr cublasChpr2 cublasChpr2_v2 cublasChpr2_v2_64 cublasChpr_v2 cublasChpr_v2_64
        cublasCmatinvBatched cublasCopyEx cublasCopyEx_64 cublasCrot cublasCrot_v2 cublasCrot_v2_64 cublasCrotg
        cublasCrotg_v2 cublasCscal cublasCscal_v2 cublasCscal_v2_64 cublasCsrot cublasCsrot_v2 cublasCsrot_v2_64
        cublasCsscal cublasCsscal_v2 cublasCsscal_v2_64 cublasCswap cublasCswap_v2 cublasCswap_v2_64 cublasCsymm
        cublasCsymm_v2 cublasCsymm_v2_64 cublasCsymv_v2 cublasCsymv_v2_64 cublasCsyr2_v2 cublasCsyr2_v2_64 cublasCsyr2k
        cublasCsyr2k_v2 cublasCsyr2k_v2_64 cublasCsyr_v2 cublasCsyr_v2_64 cublasCsyrk cublasCsyrk3mEx cublasCsyrk3mEx_64
        cublasCsyrkEx cublasCsyrkEx_64 cublasCsyrk_v2 cublasCsyrk_v2_64 cublasCsyrkx cublasCsyrkx_64 cublasCtbmv
        cublasCtbmv_v2 cublasCtbmv_v2_64 cublasCtbsv cublasCtbsv_v2 cublasCtbsv_v2_64 cublasCtpmv cublasCtpmv_v2
        cublasCtpmv_v2_64 cublasCtpsv cublasCtpsv_v2 cublasCtpsv_v2_64 cublasCtpttr cublasCtrmm cublasCtrmm_v2
        cublasCtrmm_v2_64 cublasCtrmv cublasCtrmv_v2 cublasCtrmv_v2_64 cublasCtrsm cublasCtrsmBatched
        cublasCtrsmBatched_64 cublasCtrsm_v2 cublasCtrsm_v2_64 cublasCtrsv cublasCtrsv_v2 cublasCtrsv_v2_64 cublasCtrttp
        cublasDasum cublasDasum_v2 cublasDasum_v2_64 cublasDaxpy cublasDaxpy_v2 cublasDaxpy_v2_64 cublasDbdmm
        cublasDcopy cublasDcopy_v2 cublasDcopy_v2_64 cublasDdgmm cublasDdgmm_64 cublasDdot cublasDdot_v2
        cublasDdot_v2_64 cublasDgbmv cublasDgbmv_v2 cublasDgbmv_v2_64 cublasDgeam cublasDgeam_64 cublasDgelsBatched
        cublasDgemm cublasDgemmBatched cublasDgemmBatched_64 cublasDgemmGroupedBatched cublasDgemmGroupedBatched_64
        cublasDgemmStridedBatched_64 cublasDgemm_v2_64 cublasDgemv cublasDgemvBatched cublasDgemvBatched_64
        cublasDgemvStridedBatched cublasDgemvStridedBatched_64 cublasDgemv_v2_64 cublasDgeqrfBatched cublasDger
        cublasDger_v2 cublasDger_v2_64 cublasDgetrfBatched cublasDgetriBatched cublasDgetrsBatched cublasDmatinvBatched
        cublasDnrm2 cublasDnrm2_v2 cublasDnrm2_v2_64 cublasDotEx cublasDotEx_64 cublasDotcEx cublasDotcEx_64 cublasDrot
        cublasDrot_v2 cublasDrot_v2_64 cublasDrotg cublasDrotg_v2 cublasDrotm cublasDrotm_v2 cublasDrotm_v2_64
        cublasDrotmg cublasDrotmg_v2 cublasDsbmv cublasDsbmv_v2 cublasDsbmv_v2_64 cublasDscal cublasDscal_v2
        cublasDscal_v2_64 cublasDspmv cublasDspmv_v2 cublasDspmv_v2_64 cublasDspr cublasDspr2 cublasDspr2_v2
        cublasDspr2_v2_64 cublasDspr_v2 cublasDspr_v2_64 cublasDswap cublasDswap_v2 cublasDswap_v2_64 cublasDsymm
        cublasDsymm_v2 cublasDsymm_v2_64 cublasDsymv cublasDsymv_v2 cublasDsymv_v2_64 cublasDsyr cublasDsyr2
        cublasDsyr2_v2 cublasDsyr2_v2_64 cublasDsyr2k cublasDsyr2k_v2 cublasDsyr2k_v2_64 cublasDsyr_v2 cublasDsyr_v2_64
        cublasDsyrk cublasDsyrk_v2 cublasDsyrk_v2_64 cublasDsyrkx cublasDsyrkx_64 cublasDtbmv cublasDtbmv_v2
        cublasDtbmv_v2_64 cublasDtbsv cublasDtbsv_v2 cublasDtbsv_v2_64 cublasDtpmv cublasDtpmv_v2 cublasDtpmv_v2_64
        cublasDtpsv cublasDtpsv_v2 cublasDtpsv_v2_64 cublasDtpttr cublasDtrmm cublasDtrmm_v2 cublasDtrmm_v2_64
        cublasDtrmv cublasDtrmv_v2 cublasDtrmv_v2_64 cublasDtrsm cublasDtrsmBatched cublasDtrsmBatched_64 cublasDtrsm_v2
        cublasDtrsm_v2_64 cublasDtrsv cublasDtrsv_v2 cublasDtrsv_v2_64 cublasDtrttp cublasDzasum cublasDzasum_v2
        cublasDzasum_v2_64 cublasDznrm2 cublasDznrm2_v2 cublasDznrm2_v2_64 cublasFree cublasGemmBatchedEx
        cublasGemmBatchedEx_64 cublasGemmEx_64 cublasGemmGroupedBatchedEx cublasGemmGroupedBatchedEx_64
        cublasGemmStridedBatchedEx_64 cublasGetBackdoor cublasGetEmulationSpecialValuesSupport
        cublasGetEmulationStrategy cublasGetEnvironmentMode cublasGetError
        cublasGetFixedPointEmulationMantissaBitCountPointer cublasGetFixedPointEmulationMantissaBitOffset
        cublasGetFixedPointEmulationMantissaControl cublasGetFixedPointEmulationMaxMantissaBitCount
        cublasGetLoggerCallback cublasGetVersion cublasHSHgemvBatched cublasHSHgemvBatched_64
        cublasHSHgemvStridedBatched cublasHSHgemvStridedBatched_64 cublasHSSgemvBatched cublasHSSgemvBatched_64
        cublasHSSgemvStridedBatched cublasHSSgemvStridedBatched_64 cublasHgemmBatched cublasHgemmBatched_64
        cublasHgemmStridedBatched_64 cublasHgemm_64 cublasIamaxEx cublasIamaxEx_64 cublasIaminEx cublasIaminEx_64
        cublasIcamax cublasIcamax_v2 cublasIcamax_v2_64 cublasIcamin cublasIcamin_v2 cublasIcamin_v2_64 cublasIdamax
        cublasIdamax_v2 cublasIdamax_v2_64 cublasIdamin cublasIdamin_v2 cublasIdamin_v2_64 cublasInit cublasIsamax
        cublasIsamax_v2 cublasIsamax_v2_64 cublasIsamin cublasIsamin_v2 cublasIsamin_v2_64 cublasIzamax cublasIzamax_v2
        cublasIzamax_v2_64 cublasIzamin cublasIzamin_v2 cublasIzamin_v2_64 cublasLoggerConfigure cublasNrm2Ex
        cublasNrm2Ex_64 cublasRotEx cublasRotEx_64 cublasRotgEx cublasRotmEx cublasRotmEx_64 cublasRotmgEx cublasSasum
        cublasSasum_v2 cublasSasum_v2_64 cublasSaxpy cublasSaxpy_v2 cublasSaxpy_v2_64 cublasSbdmm cublasScalEx
        cublasScalEx_64 cublasScasum cublasScasum_v2 cublasScasum_v2_64 cublasScnrm2 cublasScnrm2_v2 cublasScnrm2_v2_64
        cublasScopy cublasScopy_v2 cublasScopy_v2_64 cublasSdgmm cublasSdgmm_64 cublasSdot cublasSdot_v2
        cublasSdot_v2_64 cublasSetBackdoor cublasSetBackdoorEx cublasSetEmulationSpecialValuesSupport
        cublasSetEmulationStrategy cublasSetEnvironmentMode cublasSetFixedPointEmulationMantissaBitCountPointer
        cublasSetFixedPointEmulationMantissaBitOffset cublasSetFixedPointEmulationMantissaControl
        cublasSetFixedPointEmulationMaxMantissaBitCount cublasSetKernelStream cublasSetLoggerCallback cublasSgbmv
        cublasSgbmv_v2 cublasSgbmv_v2_64 cublasSgeam cublasSgeam_64 cublasSgelsBatched cublasSgemm cublasSgemmBatched
        cublasSgemmBatched_64 cublasSgemmEx_64 cublasSgemmGroupedBatched cublasSgemmGroupedBatched_64
        cublasSgemmStridedBatched_64 cublasSgemm_v2_64 cublasSgemv cublasSgemvBatched cublasSgemvBatched_64
        cublasSgemvStridedBatched cublasSgemvStridedBatched_64 cublasSgemv_v2_64 cublasSgeqrfBatched cublasSger
        cublasSger_v2 cublasSger_v2_64 cublasSgetrfBatched cublasSgetriBatched cublasSgetrsBatched cublasShutdown
        cublasSmatinvBatched cublasSnrm2 cublasSnrm2_v2 cublasSnrm2_v2_64 cublasSrot cublasSrot_v2 cublasSrot_v2_64
        cublasSrotg cublasSrotg_v2 cublasSrotm cublasSrotm_v2 cublasSrotm_v2_64 cublasSrotmg cublasSrotmg_v2 cublasSsbmv
        cublasSsbmv_v2 cublasSsbmv_v2_64 cublasSscal cublasSscal_v2 cublasSscal_v2_64 cublasSspmv cublasSspmv_v2
        cublasSspmv_v2_64 cublasSspr cublasSspr2 cublasSspr2_v2 cublasSspr2_v2_64 cublasSspr_v2 cublasSspr_v2_64
        cublasSswap cublasSswap_v2 cublasSswap_v2_64 cublasSsymm cublasSsymm_v2 cublasSsymm_v2_64 cublasSsymv
        cublasSsymv_v2 cublasSsymv_v2_64 cublasSsyr cublasSsyr2 cublasSsyr2_v2 cublasSsyr2_v2_64 cublasSsyr2k
        cublasSsyr2k_v2 cublasSsyr2k_v2_64 cublasSsyr_v2 cublasSsyr_v2_64 cublasSsyrk cublasSsyrk_v2 cublasSsyrk_v2_64
        cublasSsyrkx cublasSsyrkx_64 cublasStbmv cublasStbmv_v2 cublasStbmv_v2_64 cublasStbsv cublasStbsv_v2
        cublasStbsv_v2_64 cublasStpmv cublasStpmv_v2 cublasStpmv_v2_64 cublasStpsv cublasStpsv_v2 cublasStpsv_v2_64
        cublasStpttr cublasStrmm cublasStrmm_v2 cublasStrmm_v2_64 cublasStrmv cublasStrmv_v2 cublasStrmv_v2_64
        cublasStrsm cublasStrsmBatched cublasStrsmBatched_64 cublasStrsm_v2 cublasStrsm_v2_64 cublasStrsv cublasStrsv_v2
        cublasStrsv_v2_64 cublasStrttp cublasSwapEx cublasSwapEx_64 cublasTSSgemvBatched cublasTSSgemvBatched_64
        cublasTSSgemvStridedBatched cublasTSSgemvStridedBatched_64 cublasTSTgemvBatched cublasTSTgemvBatched_64
        cublasTSTgemvStridedBatched cublasTSTgemvStridedBatched_64 cublasUint8gemmBias cublasXerbla cublasXtCgemm
        cublasXtChemm cublasXtCher2k cublasXtCherk cublasXtCherkx cublasXtCreate cublasXtCspmm cublasXtCsymm
        cublasXtCsyr2k cublasXtCsyrk cublasXtCsyrkx cublasXtCtrmm cublasXtCtrsm cublasXtDestroy cublasXtDeviceSelect
        cublasXtDgemm cublasXtDspmm cublasXtDsymm cublasXtDsyr2k cublasXtDsyrk cublasXtDsyrkx cublasXtDtrmm
        cublasXtDtrsm cublasXtGetBlockDim cublasXtGetNumBoards cublasXtGetPinningMemMode cublasXtMaxBoards
        cublasXtSetBlockDim cublasXtSetCpuRatio cublasXtSetCpuRoutine cublasXtSetPinningMemMode cublasXtSgemm
        cublasXtSspmm cublasXtSsymm cublasXtSsyr2k cublasXtSsyrk cublasXtSsyrkx cublasXtStrmm cublasXtStrsm
        cublasXtZgemm cublasXtZhemm cublasXtZher2k cublasXtZherk cublasXtZherkx cublasXtZspmm cublasXtZsymm
        cublasXtZsyr2k cublasXtZsyrk cublasXtZsyrkx cublasXtZtrmm cublasXtZtrsm cublasZaxpy cublasZaxpy_v2
        cublasZaxpy_v2_64 cublasZbdmm cublasZcopy cublasZcopy_v2 cublasZcopy_v2_64 cublasZdgmm cublasZdgmm_64
        cublasZdotc cublasZdotc_v2 cublasZdotc_v2_64 cublasZdotu cublasZdotu_v2 cublasZdotu_v2_64 cublasZdrot
        cublasZdrot_v2 cublasZdrot_v2_64 cublasZdscal cublasZdscal_v2 cublasZdscal_v2_64 cublasZgbmv cublasZgbmv_v2
        cublasZgbmv_v2_64 cublasZgeam cublasZgeam_64 cublasZgelsBatched cublasZgemm cublasZgemm3m cublasZgemm3m_64
        cublasZgemmBatched cublasZgemmBatched_64 cublasZgemmStridedBatched cublasZgemmStridedBatched_64 cublasZgemm_v2
        cublasZgemm_v2_64 cublasZgemv cublasZgemvBatched cublasZgemvBatched_64 cublasZgemvStridedBatched
        cublasZgemvStridedBatched_64 cublasZgemv_v2 cublasZgemv_v2_64 cublasZgeqrfBatched cublasZgerc cublasZgerc_v2
        cublasZgerc_v2_64 cublasZgeru cublasZgeru_v2 cublasZgeru_v2_64 cublasZgetrfBatched cublasZgetriBatched
        cublasZgetrsBatched cublasZhbmv cublasZhbmv_v2 cublasZhbmv_v2_64 cublasZhemm cublasZhemm_v2 cublasZhemm_v2_64
        cublasZhemv cublasZhemv_v2 cublasZhemv_v2_64 cublasZher cublasZher2 cublasZher2_v2 cublasZher2_v2_64
        cublasZher2k cublasZher2k_v2 cublasZher2k_v2_64 cublasZher_v2 cublasZher_v2_64 cublasZherk cublasZherk_v2
        cublasZherk_v2_64 cublasZherkx cublasZherkx_64 cublasZhpmv cublasZhpmv_v2 cublasZhpmv_v2_64 cublasZhpr
        cublasZhpr2 cublasZhpr2_v2 cublasZhpr2_v2_64 cublasZhpr_v2 cublasZhpr_v2_64 cublasZmatinvBatched cublasZrot
        cublasZrot_v2 cublasZrot_v2_64 cublasZrotg cublasZrotg_v2 cublasZscal cublasZscal_v2 cublasZscal_v2_64
        cublasZswap cublasZswap_v2 cublasZswap_v2_64 cublasZsymm cublasZsymm_v2 cublasZsymm_v2_64 cublasZsymv_v2
        cublasZsymv_v2_64 cublasZsyr2_v2 cublasZsyr2_v2_64 cublasZsyr2k cublasZsyr2k_v2 cublasZsyr2k_v2_64 cublasZsyr_v2
        cublasZsyr_v2_64 cublasZsyrk cublasZsyrk_v2 cublasZsyrk_v2_64 cublasZsyrkx cublasZsyrkx_64 cublasZtbmv
        cublasZtbmv_v2 cublasZtbmv_v2_64 cublasZtbsv cublasZtbsv_v2 cublasZtbsv_v2_64 cublasZtpmv cublasZtpmv_v2
        cublasZtpmv_v2_64 cublasZtpsv cublasZtpsv_v2 cublasZtpsv_v2_64 cublasZtpttr cublasZtrmm cublasZtrmm_v2
        cublasZtrmm_v2_64 cublasZtrmv cublasZtrmv_v2 cublasZtrmv_v2_64 cublasZtrsm cublasZtrsmBatched
        cublasZtrsmBatched_64 cublasZtrsm_v2 cublasZtrsm_v2_64 cublasZtrsv cublasZtrsv_v2 cublasZtrsv_v2_64 cublasZtrttp
    }
}
