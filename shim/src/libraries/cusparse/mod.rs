//! libcusparse: handles, descriptors, versions and texts; products and conversions of the formats CSR, CSC and COO, in stream order.
//! What is left are stubs: solvers, sums of sparse matrices, other formats, and the older interface.

mod call;
mod convert;
mod descriptor;
mod entries;
mod handle;
mod product;

use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicI32, Ordering};

use abi::argument::Out;
use abi::table::Export;

use self::handle::{DESCRIPTOR, HANDLES, Handle, REFUSALS};
use super::objects::{Answer, Code, Objects, kind};
use super::release;
use crate::boundary::table::exports;
use crate::device;

static MATRICES: Objects<Matrix> = Objects::new(kind::CUSPARSE_OBJECT, DESCRIPTOR);

/// A `cusparseMatDescr`: four enumerations, all 0 at first.
#[derive(Debug, Default)]
struct Matrix {
    kind: AtomicI32,
    fill_mode: AtomicI32,
    diagonal: AtomicI32,
    index_base: AtomicI32,
}

exports! {
    library Cusparse;
    real {
        fn cusparseCreate(handle: Out<usize>) = create;
        fn cusparseDestroy(handle: usize) = |handle| HANDLES.destroy(handle);
        fn cusparseSetStream(handle: usize, stream: usize) = |handle, stream| HANDLES.get(handle).map(|handle| handle.stream.set(stream));
        fn cusparseGetStream(handle: usize, stream: Out<usize>) = |handle, stream| stream.set(HANDLES.get(handle)?.stream.get()).map_err(REFUSALS.null());
        fn cusparseSetPointerMode(handle: usize, mode: c_int) = |handle, mode| set(&HANDLES.get(handle)?.pointer_mode, mode, 1);
        fn cusparseGetPointerMode(handle: usize, mode: Out<c_int>) = |handle, mode| mode.set(HANDLES.get(handle)?.pointer_mode.load(Ordering::Relaxed)).map_err(REFUSALS.null());
        fn cusparseGetVersion(handle: usize, version: Out<c_int>) = get_version;
        fn cusparseCreateMatDescr(matrix: Out<usize>) = |matrix| MATRICES.create(matrix, Matrix::default());
        fn cusparseDestroyMatDescr(matrix: usize) = |matrix| MATRICES.destroy(matrix);
        fn cusparseSetMatType(matrix: usize, kind: c_int) = |matrix, kind| set(&MATRICES.get(matrix)?.kind, kind, 3);
        fn cusparseSetMatFillMode(matrix: usize, mode: c_int) = |matrix, mode| set(&MATRICES.get(matrix)?.fill_mode, mode, 1);
        fn cusparseSetMatDiagType(matrix: usize, diagonal: c_int) = |matrix, diagonal| set(&MATRICES.get(matrix)?.diagonal, diagonal, 1);
        fn cusparseSetMatIndexBase(matrix: usize, base: c_int) = |matrix, base| set(&MATRICES.get(matrix)?.index_base, base, 1);
    }
    bare {
        fn cusparseGetProperty(which: c_int, value: Out<c_int>) = get_property;
    }
    raw {
        fn cusparseGetErrorName(status: c_int) -> *const c_char = |status| text(status).0.as_ptr();
        fn cusparseGetErrorString(status: c_int) -> *const c_char = |status| text(status).1.as_ptr();
    }
    stub {
        cusparseAxpby cusparseBlockedEllGet cusparseBsrSetStridedBatch cusparseCbsr2csr cusparseCbsric02
        cusparseCbsric02_analysis cusparseCbsric02_bufferSize cusparseCbsrilu02 cusparseCbsrilu02_analysis
        cusparseCbsrilu02_bufferSize cusparseCbsrilu02_numericBoost cusparseCbsrmm cusparseCbsrmv
        cusparseCbsrsm2_analysis cusparseCbsrsm2_bufferSize cusparseCbsrsm2_solve cusparseCbsrsv2_analysis
        cusparseCbsrsv2_bufferSize cusparseCbsrsv2_solve cusparseCbsrxmv cusparseCcsr2bsr cusparseCcsr2csr_compress
        cusparseCcsr2csru cusparseCcsr2gebsr cusparseCcsr2gebsr_bufferSize cusparseCcsrcolor cusparseCcsrgeam2
        cusparseCcsrgeam2_bufferSizeExt cusparseCcsric02 cusparseCcsric02_analysis cusparseCcsric02_bufferSize
        cusparseCcsrilu02 cusparseCcsrilu02_analysis cusparseCcsrilu02_bufferSize cusparseCcsrilu02_numericBoost
        cusparseCcsru2csr cusparseCcsru2csr_bufferSizeExt cusparseCgebsr2csr cusparseCgebsr2gebsc
        cusparseCgebsr2gebsc_bufferSize cusparseCgebsr2gebsr cusparseCgebsr2gebsr_bufferSize cusparseCgemvi
        cusparseCgemvi_bufferSize cusparseCgpsvInterleavedBatch cusparseCgpsvInterleavedBatch_bufferSizeExt
        cusparseCgtsv2 cusparseCgtsv2StridedBatch cusparseCgtsv2StridedBatch_bufferSizeExt cusparseCgtsv2_bufferSizeExt
        cusparseCgtsv2_nopivot cusparseCgtsv2_nopivot_bufferSizeExt cusparseCgtsvInterleavedBatch
        cusparseCgtsvInterleavedBatch_bufferSizeExt cusparseCnnz cusparseCnnz_compress cusparseConstBlockedEllGet
        cusparseConstCooGet cusparseConstCscGet cusparseConstCsrGet cusparseConstDnMatGet cusparseConstDnMatGetValues
        cusparseConstDnVecGet cusparseConstDnVecGetValues cusparseConstSpMatGetValues cusparseConstSpVecGet
        cusparseConstSpVecGetValues cusparseCooGet cusparseCooSetStridedBatch cusparseCreateBlockedEll cusparseCreateBsr
        cusparseCreateBsric02Info cusparseCreateBsrilu02Info cusparseCreateBsrsm2Info cusparseCreateBsrsv2Info
        cusparseCreateColorInfo cusparseCreateConstBlockedEll cusparseCreateConstBsr cusparseCreateConstSlicedEll
        cusparseCreateCsric02Info cusparseCreateCsrilu02Info cusparseCreateCsru2csrInfo
        cusparseCreatePruneInfo cusparseCreateSlicedEll cusparseCscGet cusparseCsrGet
        cusparseCsrSetStridedBatch cusparseDbsr2csr cusparseDbsric02 cusparseDbsric02_analysis
        cusparseDbsric02_bufferSize cusparseDbsrilu02 cusparseDbsrilu02_analysis cusparseDbsrilu02_bufferSize
        cusparseDbsrilu02_numericBoost cusparseDbsrmm cusparseDbsrmv cusparseDbsrsm2_analysis cusparseDbsrsm2_bufferSize
        cusparseDbsrsm2_solve cusparseDbsrsv2_analysis cusparseDbsrsv2_bufferSize cusparseDbsrsv2_solve cusparseDbsrxmv
        cusparseDcsr2bsr cusparseDcsr2csr_compress cusparseDcsr2csru cusparseDcsr2gebsr cusparseDcsr2gebsr_bufferSize
        cusparseDcsrcolor cusparseDcsrgeam2 cusparseDcsrgeam2_bufferSizeExt cusparseDcsric02 cusparseDcsric02_analysis
        cusparseDcsric02_bufferSize cusparseDcsrilu02 cusparseDcsrilu02_analysis cusparseDcsrilu02_bufferSize
        cusparseDcsrilu02_numericBoost cusparseDcsru2csr cusparseDcsru2csr_bufferSizeExt cusparseDestroyBsric02Info
        cusparseDestroyBsrilu02Info cusparseDestroyBsrsm2Info cusparseDestroyBsrsv2Info cusparseDestroyColorInfo
        cusparseDestroyCsric02Info cusparseDestroyCsrilu02Info cusparseDestroyCsru2csrInfo cusparseDestroyPruneInfo
        cusparseDgebsr2csr cusparseDgebsr2gebsc cusparseDgebsr2gebsc_bufferSize cusparseDgebsr2gebsr
        cusparseDgebsr2gebsr_bufferSize cusparseDgemvi cusparseDgemvi_bufferSize cusparseDgpsvInterleavedBatch
        cusparseDgpsvInterleavedBatch_bufferSizeExt cusparseDgtsv2 cusparseDgtsv2StridedBatch
        cusparseDgtsv2StridedBatch_bufferSizeExt cusparseDgtsv2_bufferSizeExt cusparseDgtsv2_nopivot
        cusparseDgtsv2_nopivot_bufferSizeExt cusparseDgtsvInterleavedBatch cusparseDgtsvInterleavedBatch_bufferSizeExt
        cusparseDnMatGet cusparseDnMatGetStridedBatch cusparseDnMatSetStridedBatch cusparseDnVecGet cusparseDnnz
        cusparseDnnz_compress cusparseDpruneCsr2csr cusparseDpruneCsr2csrByPercentage
        cusparseDpruneCsr2csrByPercentage_bufferSizeExt cusparseDpruneCsr2csrNnz cusparseDpruneCsr2csrNnzByPercentage
        cusparseDpruneCsr2csr_bufferSizeExt cusparseDpruneDense2csr cusparseDpruneDense2csrByPercentage
        cusparseDpruneDense2csrByPercentage_bufferSizeExt cusparseDpruneDense2csrNnz
        cusparseDpruneDense2csrNnzByPercentage cusparseDpruneDense2csr_bufferSizeExt cusparseGetMatDiagType
        cusparseGetMatFillMode cusparseGetMatIndexBase cusparseGetMatType cusparseHpruneCsr2csr
        cusparseHpruneCsr2csrByPercentage cusparseHpruneCsr2csrByPercentage_bufferSizeExt cusparseHpruneCsr2csrNnz
        cusparseHpruneCsr2csrNnzByPercentage cusparseHpruneCsr2csr_bufferSizeExt cusparseHpruneDense2csr
        cusparseHpruneDense2csrByPercentage cusparseHpruneDense2csrByPercentage_bufferSizeExt cusparseHpruneDense2csrNnz
        cusparseHpruneDense2csrNnzByPercentage cusparseHpruneDense2csr_bufferSizeExt cusparseLoggerForceDisable
        cusparseLoggerOpenFile cusparseLoggerSetCallback cusparseLoggerSetFile cusparseLoggerSetLevel
        cusparseLoggerSetMask cusparseRot cusparseSDDMM cusparseSDDMM_bufferSize cusparseSDDMM_preprocess
        cusparseSbsr2csr cusparseSbsric02 cusparseSbsric02_analysis cusparseSbsric02_bufferSize cusparseSbsrilu02
        cusparseSbsrilu02_analysis cusparseSbsrilu02_bufferSize cusparseSbsrilu02_numericBoost cusparseSbsrmm
        cusparseSbsrmv cusparseSbsrsm2_analysis cusparseSbsrsm2_bufferSize cusparseSbsrsm2_solve
        cusparseSbsrsv2_analysis cusparseSbsrsv2_bufferSize cusparseSbsrsv2_solve cusparseSbsrxmv cusparseScsr2bsr
        cusparseScsr2csr_compress cusparseScsr2csru cusparseScsr2gebsr cusparseScsr2gebsr_bufferSize cusparseScsrcolor
        cusparseScsrgeam2 cusparseScsrgeam2_bufferSizeExt cusparseScsric02 cusparseScsric02_analysis
        cusparseScsric02_bufferSize cusparseScsrilu02 cusparseScsrilu02_analysis cusparseScsrilu02_bufferSize
        cusparseScsrilu02_numericBoost cusparseScsru2csr cusparseScsru2csr_bufferSizeExt cusparseSgebsr2csr
        cusparseSgebsr2gebsc cusparseSgebsr2gebsc_bufferSize cusparseSgebsr2gebsr cusparseSgebsr2gebsr_bufferSize
        cusparseSgemvi cusparseSgemvi_bufferSize cusparseSgpsvInterleavedBatch
        cusparseSgpsvInterleavedBatch_bufferSizeExt cusparseSgtsv2 cusparseSgtsv2StridedBatch
        cusparseSgtsv2StridedBatch_bufferSizeExt cusparseSgtsv2_bufferSizeExt cusparseSgtsv2_nopivot
        cusparseSgtsv2_nopivot_bufferSizeExt cusparseSgtsvInterleavedBatch cusparseSgtsvInterleavedBatch_bufferSizeExt
        cusparseSnnz cusparseSnnz_compress cusparseSpGEAM cusparseSpGEAM_bufferSize cusparseSpGEAM_createDescr
        cusparseSpGEAM_destroyDescr cusparseSpGEAM_nnz cusparseSpGEMM_estimateMemory cusparseSpGEMM_getNumProducts
        cusparseSpGEMMreuse_compute cusparseSpGEMMreuse_copy cusparseSpGEMMreuse_nnz cusparseSpGEMMreuse_workEstimation
        cusparseSpMMOp cusparseSpMMOp_createPlan cusparseSpMMOp_destroyPlan cusparseSpMVDescrGetParam
        cusparseSpMVDescrSetParam cusparseSpMVGeneric cusparseSpMVGeneric_bufferSize cusparseSpMVGeneric_preprocess
        cusparseSpMVOp cusparseSpMVOp_bufferSize cusparseSpMVOp_createDescr cusparseSpMVOp_createPlan
        cusparseSpMVOp_destroyDescr cusparseSpMVOp_destroyPlan cusparseSpMVOp_setGlobalUserData cusparseSpMV_createDescr
        cusparseSpMV_destroyDescr cusparseSpMatConvert cusparseSpMatConvertDescrCreate cusparseSpMatConvertDescrDestroy
        cusparseSpMatConvert_analysis cusparseSpMatConvert_bufferSize cusparseSpMatGetAttribute cusparseSpMatGetPointers
        cusparseSpMatGetSizes cusparseSpMatGetStridedBatch cusparseSpMatSetPointers cusparseSpSM_analysis
        cusparseSpSM_bufferSize cusparseSpSM_createDescr cusparseSpSM_destroyDescr cusparseSpSM_solve
        cusparseSpSM_updateMatrix cusparseSpSV_analysis cusparseSpSV_bufferSize cusparseSpSV_createDescr
        cusparseSpSV_destroyDescr cusparseSpSV_solve cusparseSpSV_updateMatrix cusparseSpVV cusparseSpVV_bufferSize
        cusparseSpVecGet cusparseSpVecGetIndexBase cusparseSpVecGetValues cusparseSpVecSetValues cusparseSpruneCsr2csr
        cusparseSpruneCsr2csrByPercentage cusparseSpruneCsr2csrByPercentage_bufferSizeExt cusparseSpruneCsr2csrNnz
        cusparseSpruneCsr2csrNnzByPercentage cusparseSpruneCsr2csr_bufferSizeExt cusparseSpruneDense2csr
        cusparseSpruneDense2csrByPercentage cusparseSpruneDense2csrByPercentage_bufferSizeExt cusparseSpruneDense2csrNnz
        cusparseSpruneDense2csrNnzByPercentage cusparseSpruneDense2csr_bufferSizeExt cusparseXbsric02_zeroPivot
        cusparseXbsrilu02_zeroPivot cusparseXbsrsm2_zeroPivot cusparseXbsrsv2_zeroPivot cusparseXcsr2bsrNnz
        cusparseXcsr2gebsrNnz cusparseXcsrgeam2Nnz cusparseXcsric02_zeroPivot cusparseXcsrilu02_zeroPivot
        cusparseXgebsr2gebsrNnz cusparseZbsr2csr cusparseZbsric02 cusparseZbsric02_analysis cusparseZbsric02_bufferSize
        cusparseZbsrilu02 cusparseZbsrilu02_analysis cusparseZbsrilu02_bufferSize cusparseZbsrilu02_numericBoost
        cusparseZbsrmm cusparseZbsrmv cusparseZbsrsm2_analysis cusparseZbsrsm2_bufferSize cusparseZbsrsm2_solve
        cusparseZbsrsv2_analysis cusparseZbsrsv2_bufferSize cusparseZbsrsv2_solve cusparseZbsrxmv cusparseZcsr2bsr
        cusparseZcsr2csr_compress cusparseZcsr2csru cusparseZcsr2gebsr cusparseZcsr2gebsr_bufferSize cusparseZcsrcolor
        cusparseZcsrgeam2 cusparseZcsrgeam2_bufferSizeExt cusparseZcsric02 cusparseZcsric02_analysis
        cusparseZcsric02_bufferSize cusparseZcsrilu02 cusparseZcsrilu02_analysis cusparseZcsrilu02_bufferSize
        cusparseZcsrilu02_numericBoost cusparseZcsru2csr cusparseZcsru2csr_bufferSizeExt cusparseZgebsr2csr
        cusparseZgebsr2gebsc cusparseZgebsr2gebsc_bufferSize cusparseZgebsr2gebsr cusparseZgebsr2gebsr_bufferSize
        cusparseZgemvi cusparseZgemvi_bufferSize cusparseZgpsvInterleavedBatch
        cusparseZgpsvInterleavedBatch_bufferSizeExt cusparseZgtsv2 cusparseZgtsv2StridedBatch
        cusparseZgtsv2StridedBatch_bufferSizeExt cusparseZgtsv2_bufferSizeExt cusparseZgtsv2_nopivot
        cusparseZgtsv2_nopivot_bufferSizeExt cusparseZgtsvInterleavedBatch cusparseZgtsvInterleavedBatch_bufferSizeExt
        cusparseZnnz cusparseZnnz_compress
    }
}

/// The tables of its parts.
pub(super) fn tables() -> [&'static [Export]; 4] {
    [EXPORTS, descriptor::EXPORTS, product::EXPORTS, convert::EXPORTS]
}

fn create(handle: Out<usize>) -> Answer {
    device::current().map_err(|_| Code(REFUSALS.handle))?;
    HANDLES.create(handle, Handle::default())
}

fn set(field: &AtomicI32, value: c_int, last: c_int) -> Answer {
    if !(0..=last).contains(&value) {
        return REFUSALS.value();
    }
    field.store(value, Ordering::Relaxed);
    Ok(())
}

fn get_version(handle: usize, version: Out<c_int>) -> Answer {
    HANDLES.get(handle)?;
    version.set(release::current().cusparse.thousands()).map_err(REFUSALS.null())
}

fn get_property(which: c_int, value: Out<c_int>) -> Answer {
    match release::current().cusparse.property(which) {
        Some(part) => value.set(part).map_err(REFUSALS.null()),
        None => REFUSALS.value(),
    }
}

fn text(status: c_int) -> (&'static CStr, &'static CStr) {
    match status {
        0 => (c"CUSPARSE_STATUS_SUCCESS", c"success"),
        1 => (c"CUSPARSE_STATUS_NOT_INITIALIZED", c"initialization error"),
        2 => (c"CUSPARSE_STATUS_ALLOC_FAILED", c"out of memory"),
        3 => (c"CUSPARSE_STATUS_INVALID_VALUE", c"invalid value"),
        4 => (c"CUSPARSE_STATUS_ARCH_MISMATCH", c"architecture mismatch"),
        5 => (c"CUSPARSE_STATUS_MAPPING_ERROR", c"texture mapping error"),
        6 => (c"CUSPARSE_STATUS_EXECUTION_FAILED", c"kernel launch failure"),
        7 => (c"CUSPARSE_STATUS_INTERNAL_ERROR", c"internal error"),
        8 => (c"CUSPARSE_STATUS_MATRIX_TYPE_NOT_SUPPORTED", c"matrix type not supported"),
        9 => (c"CUSPARSE_STATUS_ZERO_PIVOT", c"zero pivot"),
        10 => (c"CUSPARSE_STATUS_NOT_SUPPORTED", c"operation not supported"),
        11 => (c"CUSPARSE_STATUS_INSUFFICIENT_RESOURCES", c"insufficient resources"),
        _ => (c"unrecognized error code", c"unrecognized error code"),
    }
}
