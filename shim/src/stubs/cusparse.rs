//! libcusparse: handles, matrix descriptors of the older interface, versions and texts are real. The rest is a stub.

use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicI32, Ordering};

use super::objects::{Answer, Code, Objects, Refusals, Stream, kind};
use super::release;
use crate::boundary::args::Out;
use crate::boundary::table::exports;
use crate::device;

/// CUSPARSE_STATUS_NOT_INITIALIZED and CUSPARSE_STATUS_INVALID_VALUE.
const REFUSALS: Refusals = Refusals { handle: 1, value: 3 };
static HANDLES: Objects<Handle> = Objects::new(kind::CUSPARSE, REFUSALS);
static MATRICES: Objects<Matrix> = Objects::new(kind::CUSPARSE_OBJECT, Refusals { handle: 3, value: 3 });

#[derive(Debug, Default)]
struct Handle {
    stream: Stream,
    pointer_mode: AtomicI32,
}

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
        cusparseCbsrmm cusparseCbsrmv cusparseCbsrsm2_analysis cusparseCbsrsm2_bufferSize cusparseCbsrsm2_solve
        cusparseCbsrsv2_analysis cusparseCbsrsv2_bufferSize cusparseCbsrsv2_solve cusparseCcsrgeam2
        cusparseCcsrgeam2_bufferSizeExt cusparseCreateBsrsm2Info cusparseCreateBsrsv2Info cusparseCreateCoo
        cusparseCreateCsr cusparseCreateDnMat cusparseCreateDnVec cusparseCreateIdentityPermutation
        cusparseCsrSetPointers cusparseCsrSetStridedBatch cusparseDbsrmm cusparseDbsrmv cusparseDbsrsm2_analysis
        cusparseDbsrsm2_bufferSize cusparseDbsrsm2_solve cusparseDbsrsv2_analysis cusparseDbsrsv2_bufferSize
        cusparseDbsrsv2_solve cusparseDcsrgeam2 cusparseDcsrgeam2_bufferSizeExt cusparseDestroyBsrsm2Info
        cusparseDestroyBsrsv2Info cusparseDestroyDnMat cusparseDestroyDnVec cusparseDestroySpMat
        cusparseDnMatSetStridedBatch cusparseSDDMM cusparseSDDMM_bufferSize cusparseSDDMM_preprocess cusparseSbsrmm
        cusparseSbsrmv cusparseSbsrsm2_analysis cusparseSbsrsm2_bufferSize cusparseSbsrsm2_solve
        cusparseSbsrsv2_analysis cusparseSbsrsv2_bufferSize cusparseSbsrsv2_solve cusparseScsrgeam2
        cusparseScsrgeam2_bufferSizeExt cusparseSpGEMM_compute cusparseSpGEMM_copy cusparseSpGEMM_createDescr
        cusparseSpGEMM_destroyDescr cusparseSpGEMM_workEstimation cusparseSpMM cusparseSpMM_bufferSize cusparseSpMV
        cusparseSpMV_bufferSize cusparseSpMatGetSize cusparseSpMatSetAttribute cusparseSpSM_analysis
        cusparseSpSM_bufferSize cusparseSpSM_createDescr cusparseSpSM_destroyDescr cusparseSpSM_solve
        cusparseSpSV_analysis cusparseSpSV_bufferSize cusparseSpSV_createDescr cusparseSpSV_destroyDescr
        cusparseSpSV_solve cusparseXbsrsm2_zeroPivot cusparseXbsrsv2_zeroPivot cusparseXcoo2csr cusparseXcoosortByRow
        cusparseXcoosort_bufferSizeExt cusparseXcsrgeam2Nnz cusparseXcsrsort cusparseXcsrsort_bufferSizeExt
        cusparseZbsrmm cusparseZbsrmv cusparseZbsrsm2_analysis cusparseZbsrsm2_bufferSize cusparseZbsrsm2_solve
        cusparseZbsrsv2_analysis cusparseZbsrsv2_bufferSize cusparseZbsrsv2_solve cusparseZcsrgeam2
        cusparseZcsrgeam2_bufferSizeExt
    }
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
