//! libcublasLt: handles, descriptors, and products with their epilogues, including 8-bit floats and integers. The rest is a
//! stub.

mod descriptor;
mod product;

use std::ffi::{c_char, c_int, c_void};

use abi::argument::Out;
use descriptor::{DESCRIPTORS, Descriptor, HANDLES, create_layout, create_product, get, get_property, set};
use product::Heuristic;

use super::cublas::handle::text;
use super::release;
use crate::boundary::table::exports;
use crate::device::state::version;

exports! {
    library CublasLt;
    real {
        fn cublasLtCreate(handle: Out<usize>) = |handle| HANDLES.create(handle, ());
        fn cublasLtDestroy(handle: usize) = |handle| HANDLES.destroy(handle);
        fn cublasLtMatmulDescCreate(descriptor: Out<usize>, compute: c_int, scale: c_int) = create_product;
        fn cublasLtMatmulDescDestroy(descriptor: usize) = |descriptor| DESCRIPTORS.destroy(descriptor);
        fn cublasLtMatmulDescSetAttribute(descriptor: usize, attribute: c_int, value: *const c_void, bytes: usize) = set;
        fn cublasLtMatmulDescGetAttribute(descriptor: usize, attribute: c_int, value: *mut c_void, bytes: usize, written: Out<usize>) = get;
        fn cublasLtMatrixLayoutCreate(descriptor: Out<usize>, datatype: c_int, rows: u64, columns: u64, leading: i64) = create_layout;
        fn cublasLtMatrixLayoutDestroy(descriptor: usize) = |descriptor| DESCRIPTORS.destroy(descriptor);
        fn cublasLtMatrixLayoutSetAttribute(descriptor: usize, attribute: c_int, value: *const c_void, bytes: usize) = set;
        fn cublasLtMatrixLayoutGetAttribute(descriptor: usize, attribute: c_int, value: *mut c_void, bytes: usize, written: Out<usize>) = get;
        fn cublasLtMatmulPreferenceCreate(descriptor: Out<usize>) = |descriptor| DESCRIPTORS.create(descriptor, Descriptor::default());
        fn cublasLtMatmulPreferenceDestroy(descriptor: usize) = |descriptor| DESCRIPTORS.destroy(descriptor);
        fn cublasLtMatmulPreferenceSetAttribute(descriptor: usize, attribute: c_int, value: *const c_void, bytes: usize) = set;
        fn cublasLtMatmulPreferenceGetAttribute(descriptor: usize, attribute: c_int, value: *mut c_void, bytes: usize, written: Out<usize>) = get;
        fn cublasLtMatmulAlgoGetHeuristic(handle: usize, product: usize, a: usize, b: usize, c: usize, d: usize, preference: usize, wanted: c_int, results: *mut Heuristic, found: Out<c_int>) = product::heuristic;
        fn cublasLtMatmul(handle: usize, product: usize, alpha: *const c_void, a: *const c_void, layout_a: usize, b: *const c_void, layout_b: usize, beta: *const c_void, c: *const c_void, layout_c: usize, d: *mut c_void, layout_d: usize, algorithm: *const c_void, workspace: *mut c_void, workspace_bytes: usize, stream: usize) = product::multiply;
    }
    bare {
        fn cublasLtGetProperty(which: c_int, value: Out<c_int>) = get_property;
    }
    raw {
        fn cublasLtGetVersion() -> usize = || release::current().cublas.ten_thousands() as usize;
        fn cublasLtGetCudartVersion() -> usize = || version::runtime() as usize;
        fn cublasLtGetStatusName(status: c_int) -> *const c_char = |status| text(status).0.as_ptr();
        fn cublasLtGetStatusString(status: c_int) -> *const c_char = |status| text(status).1.as_ptr();
    }
    stub {
        cublasLtACCMatmul cublasLtACCMatmulAlgoCapGetAttribute cublasLtACCMatmulAlgoCheck
        cublasLtACCMatmulAlgoCheckForStream cublasLtACCMatmulAlgoGetHeuristic cublasLtACCMatmulAlgoGetHeuristicForStream
        cublasLtACCMatmulAlgoGetIds cublasLtACCMatmulAlgoInit cublasLtAlgoCharacteristicGetAttribute cublasLtBIIMatmul
        cublasLtBIIMatmulAlgoCapGetAttribute cublasLtBIIMatmulAlgoCheck cublasLtBIIMatmulAlgoCheckForStream
        cublasLtBIIMatmulAlgoGetHeuristic cublasLtBIIMatmulAlgoGetHeuristicForStream cublasLtBIIMatmulAlgoGetIds
        cublasLtBIIMatmulAlgoInit cublasLtBSBMatmul cublasLtBSBMatmulAlgoCapGetAttribute cublasLtBSBMatmulAlgoCheck
        cublasLtBSBMatmulAlgoCheckForStream cublasLtBSBMatmulAlgoGetHeuristic cublasLtBSBMatmulAlgoGetHeuristicForStream
        cublasLtBSBMatmulAlgoGetIds cublasLtBSBMatmulAlgoInit cublasLtBSSMatmul cublasLtBSSMatmulAlgoCapGetAttribute
        cublasLtBSSMatmulAlgoCheck cublasLtBSSMatmulAlgoCheckForStream cublasLtBSSMatmulAlgoGetHeuristic
        cublasLtBSSMatmulAlgoGetHeuristicForStream cublasLtBSSMatmulAlgoGetIds cublasLtBSSMatmulAlgoInit
        cublasLtCCCMatmul cublasLtCCCMatmulAlgoCapGetAttribute cublasLtCCCMatmulAlgoCheck
        cublasLtCCCMatmulAlgoCheckForStream cublasLtCCCMatmulAlgoGetHeuristic cublasLtCCCMatmulAlgoGetHeuristicForStream
        cublasLtCCCMatmulAlgoGetIds cublasLtCCCMatmulAlgoInit cublasLtClearNvjetCache cublasLtCtxInit cublasLtDDDMatmul
        cublasLtDDDMatmulAlgoCapGetAttribute cublasLtDDDMatmulAlgoCheck cublasLtDDDMatmulAlgoCheckForStream
        cublasLtDDDMatmulAlgoGetHeuristic cublasLtDDDMatmulAlgoGetHeuristicForStream cublasLtDDDMatmulAlgoGetIds
        cublasLtDDDMatmulAlgoInit cublasLtEmulationDescCreate cublasLtEmulationDescDestroy
        cublasLtEmulationDescGetAttribute cublasLtEmulationDescInit_internal cublasLtEmulationDescSetAttribute
        cublasLtGetEnvironmentMode cublasLtGroupedMatrixLayoutCreate cublasLtGroupedMatrixLayoutInit_internal
        cublasLtHHHMatmul cublasLtHHHMatmulAlgoCapGetAttribute cublasLtHHHMatmulAlgoCheck
        cublasLtHHHMatmulAlgoCheckForStream cublasLtHHHMatmulAlgoGetHeuristic cublasLtHHHMatmulAlgoGetHeuristicForStream
        cublasLtHHHMatmulAlgoGetIds cublasLtHHHMatmulAlgoInit cublasLtHSHMatmul cublasLtHSHMatmulAlgoCapGetAttribute
        cublasLtHSHMatmulAlgoCheck cublasLtHSHMatmulAlgoCheckForStream cublasLtHSHMatmulAlgoGetHeuristic
        cublasLtHSHMatmulAlgoGetHeuristicForStream cublasLtHSHMatmulAlgoGetIds cublasLtHSHMatmulAlgoInit
        cublasLtHSSMatmul cublasLtHSSMatmulAlgoCapGetAttribute cublasLtHSSMatmulAlgoCheck
        cublasLtHSSMatmulAlgoCheckForStream cublasLtHSSMatmulAlgoGetHeuristic cublasLtHSSMatmulAlgoGetHeuristicForStream
        cublasLtHSSMatmulAlgoGetIds cublasLtHSSMatmulAlgoInit cublasLtHeuristicLutSerializeEntry
        cublasLtHeuristicsCacheCreate cublasLtHeuristicsCacheDestroy cublasLtHeuristicsCacheGet
        cublasLtHeuristicsCacheGetCapacity cublasLtHeuristicsCachePut cublasLtHeuristicsCacheSetCapacity
        cublasLtKCCMatmul cublasLtKCCMatmulAlgoCapGetAttribute cublasLtKCCMatmulAlgoCheck
        cublasLtKCCMatmulAlgoCheckForStream cublasLtKCCMatmulAlgoGetHeuristic cublasLtKCCMatmulAlgoGetHeuristicForStream
        cublasLtKCCMatmulAlgoGetIds cublasLtKCCMatmulAlgoInit cublasLtKCKMatmul cublasLtKCKMatmulAlgoCapGetAttribute
        cublasLtKCKMatmulAlgoCheck cublasLtKCKMatmulAlgoCheckForStream cublasLtKCKMatmulAlgoGetHeuristic
        cublasLtKCKMatmulAlgoGetHeuristicForStream cublasLtKCKMatmulAlgoGetIds cublasLtKCKMatmulAlgoInit
        cublasLtLegacyGemmACC cublasLtLegacyGemmBII cublasLtLegacyGemmBSS cublasLtLegacyGemmCCC cublasLtLegacyGemmDDD
        cublasLtLegacyGemmHHH cublasLtLegacyGemmHSH cublasLtLegacyGemmHSS cublasLtLegacyGemmSSS cublasLtLegacyGemmTSS
        cublasLtLegacyGemmTST cublasLtLegacyGemmZZZ cublasLtLoggerForceDisable cublasLtLoggerOpenFile
        cublasLtLoggerSetCallback cublasLtLoggerSetFile cublasLtLoggerSetLevel cublasLtLoggerSetMask
        cublasLtMatmulAlgoCapGetAttribute cublasLtMatmulAlgoCheck cublasLtMatmulAlgoCheckForStream
        cublasLtMatmulAlgoConfigGetAttribute cublasLtMatmulAlgoConfigGetAttributeRange
        cublasLtMatmulAlgoConfigSetAttribute cublasLtMatmulAlgoGetHeuristicForStream cublasLtMatmulAlgoGetIds
        cublasLtMatmulAlgoInit cublasLtMatmulDescInit_internal cublasLtMatmulPreferenceInit_internal
        cublasLtMatrixLayoutInit_internal cublasLtMatrixTransform cublasLtMatrixTransformDescCreate
        cublasLtMatrixTransformDescDestroy cublasLtMatrixTransformDescGetAttribute
        cublasLtMatrixTransformDescInit_internal cublasLtMatrixTransformDescSetAttribute cublasLtSSSMatmul
        cublasLtSSSMatmulAlgoCapGetAttribute cublasLtSSSMatmulAlgoCheck cublasLtSSSMatmulAlgoCheckForStream
        cublasLtSSSMatmulAlgoGetHeuristic cublasLtSSSMatmulAlgoGetHeuristicForStream cublasLtSSSMatmulAlgoGetIds
        cublasLtSSSMatmulAlgoInit cublasLtSetEnvironmentMode cublasLtShutdownCtx cublasLtTSSMatmul
        cublasLtTSSMatmulAlgoCapGetAttribute cublasLtTSSMatmulAlgoCheck cublasLtTSSMatmulAlgoCheckForStream
        cublasLtTSSMatmulAlgoGetHeuristic cublasLtTSSMatmulAlgoGetHeuristicForStream cublasLtTSSMatmulAlgoGetIds
        cublasLtTSSMatmulAlgoInit cublasLtTSTMatmul cublasLtTSTMatmulAlgoCapGetAttribute cublasLtTSTMatmulAlgoCheck
        cublasLtTSTMatmulAlgoCheckForStream cublasLtTSTMatmulAlgoGetHeuristic cublasLtTSTMatmulAlgoGetHeuristicForStream
        cublasLtTSTMatmulAlgoGetIds cublasLtTSTMatmulAlgoInit cublasLtVCCMatmul cublasLtVCCMatmulAlgoCapGetAttribute
        cublasLtVCCMatmulAlgoCheck cublasLtVCCMatmulAlgoCheckForStream cublasLtVCCMatmulAlgoGetHeuristic
        cublasLtVCCMatmulAlgoGetHeuristicForStream cublasLtVCCMatmulAlgoGetIds cublasLtVCCMatmulAlgoInit
        cublasLtVCVMatmul cublasLtVCVMatmulAlgoCapGetAttribute cublasLtVCVMatmulAlgoCheck
        cublasLtVCVMatmulAlgoCheckForStream cublasLtVCVMatmulAlgoGetHeuristic cublasLtVCVMatmulAlgoGetHeuristicForStream
        cublasLtVCVMatmulAlgoGetIds cublasLtVCVMatmulAlgoInit cublasLtZZZMatmul cublasLtZZZMatmulAlgoCapGetAttribute
        cublasLtZZZMatmulAlgoCheck cublasLtZZZMatmulAlgoCheckForStream cublasLtZZZMatmulAlgoGetHeuristic
        cublasLtZZZMatmulAlgoGetHeuristicForStream cublasLtZZZMatmulAlgoGetIds cublasLtZZZMatmulAlgoInit
        cublasLt_for_cublas_BII cublasLt_for_cublas_BSS cublasLt_for_cublas_DDD cublasLt_for_cublas_HHH
        cublasLt_for_cublas_HSH cublasLt_for_cublas_HSS cublasLt_for_cublas_SSS cublasLt_for_cublas_TSS
        cublasLt_for_cublas_TST
    }
}
