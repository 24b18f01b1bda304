//! libcublasLt: handles, descriptors, which keep what is put into them, and products of real numbers and of 8-bit integers. The rest is a
//! stub.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use super::cublas::{REFUSALS, text};
use super::lt_product::{self, Heuristic};
use super::objects::{Answer, Code, Objects, kind};
use super::release;
use crate::boundary::args::Out;
use crate::boundary::table::exports;
use crate::device::version;

static HANDLES: Objects<()> = Objects::new(kind::CUBLASLT, REFUSALS);
static DESCRIPTORS: Objects<Descriptor> = Objects::new(kind::CUBLASLT_OBJECT, REFUSALS);

/// A product, layout or preference descriptor: attribute -> bytes.
#[derive(Debug, Default)]
pub(super) struct Descriptor(Mutex<BTreeMap<c_int, Vec<u8>>>);

impl Descriptor {
    /// An attribute of up to 8 bytes as a number, `default` where it was not set.
    pub(super) fn number(&self, attribute: c_int, default: i64) -> i64 {
        let attributes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match attributes.get(&attribute).map(Vec::as_slice) {
            Some(bytes @ [_, _, _, _]) => i64::from(i32::from_ne_bytes(bytes.try_into().unwrap_or_default())),
            Some(bytes @ [_, _, _, _, _, _, _, _]) => i64::from_ne_bytes(bytes.try_into().unwrap_or_default()),
            _ => default,
        }
    }
}

/// The descriptor behind a handle.
pub(super) fn descriptor(handle: usize) -> Answer<Arc<Descriptor>> {
    DESCRIPTORS.get(handle).map_err(|_| Code(REFUSALS.value))
}

/// Longest attribute that any descriptor has; a larger size is a mistake.
const LONGEST: usize = 4096;

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
        fn cublasLtMatmulAlgoGetHeuristic(handle: usize, product: usize, a: usize, b: usize, c: usize, d: usize, preference: usize, wanted: c_int, results: *mut Heuristic, found: Out<c_int>) = lt_product::heuristic;
        fn cublasLtMatmul(handle: usize, product: usize, alpha: *const c_void, a: *const c_void, layout_a: usize, b: *const c_void, layout_b: usize, beta: *const c_void, c: *const c_void, layout_c: usize, d: *mut c_void, layout_d: usize, algorithm: *const c_void, workspace: *mut c_void, workspace_bytes: usize, stream: usize) = lt_product::multiply;
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
        cublasLtLoggerSetCallback cublasLtLoggerSetLevel cublasLtMatmulAlgoCapGetAttribute cublasLtMatmulAlgoCheck
        cublasLtMatmulAlgoConfigGetAttribute cublasLtMatmulAlgoConfigSetAttribute cublasLtMatmulAlgoGetIds
        cublasLtMatmulAlgoInit cublasLtMatmulDescInit_internal cublasLtMatmulPreferenceInit_internal
        cublasLtMatrixLayoutInit_internal cublasLtMatrixTransform cublasLtMatrixTransformDescCreate
        cublasLtMatrixTransformDescDestroy cublasLtMatrixTransformDescSetAttribute
    }
}

fn get_property(which: c_int, value: Out<c_int>) -> Answer {
    match release::current().cublas.property(which) {
        Some(part) => value.set(part).map_err(REFUSALS.null()),
        None => REFUSALS.value(),
    }
}

/// CUBLASLT_MATMUL_DESC_COMPUTE_TYPE is attribute 0, _SCALE_TYPE 1.
fn create_product(descriptor: Out<usize>, compute: c_int, scale: c_int) -> Answer {
    let attributes = BTreeMap::from([(0, compute.to_ne_bytes().to_vec()), (1, scale.to_ne_bytes().to_vec())]);
    DESCRIPTORS.create(descriptor, Descriptor(Mutex::new(attributes)))
}

/// CUBLASLT_MATRIX_LAYOUT_TYPE is attribute 0, _ROWS 2, _COLS 3, _LD 4.
fn create_layout(descriptor: Out<usize>, datatype: c_int, rows: u64, columns: u64, leading: i64) -> Answer {
    let attributes = BTreeMap::from([
        (0, datatype.to_ne_bytes().to_vec()),
        (2, rows.to_ne_bytes().to_vec()),
        (3, columns.to_ne_bytes().to_vec()),
        (4, leading.to_ne_bytes().to_vec()),
    ]);
    DESCRIPTORS.create(descriptor, Descriptor(Mutex::new(attributes)))
}

/// # Safety
/// `value` points to `bytes` bytes.
unsafe fn set(descriptor: usize, attribute: c_int, value: *const c_void, bytes: usize) -> Answer {
    let descriptor = DESCRIPTORS.get(descriptor)?;
    if value.is_null() || bytes == 0 || bytes > LONGEST {
        return REFUSALS.value();
    }
    // SAFETY: the caller vouches for `bytes` bytes at `value`, which is not null.
    let bytes = unsafe { std::slice::from_raw_parts(value.cast::<u8>(), bytes) }.to_vec();
    descriptor.0.lock().unwrap_or_else(PoisonError::into_inner).insert(attribute, bytes);
    Ok(())
}

/// Answers with what was set; an attribute that was not has a default that we do not know.
///
/// # Safety
/// `value` points to `bytes` bytes that may be written.
unsafe fn get(descriptor: usize, attribute: c_int, value: *mut c_void, bytes: usize, written: Out<usize>) -> Answer {
    let descriptor = DESCRIPTORS.get(descriptor)?;
    let attributes = descriptor.0.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(found) = attributes.get(&attribute) else { return REFUSALS.value() };
    written.set_if_wanted(found.len());
    if bytes == 0 && !written.is_null() {
        return Ok(());
    }
    if value.is_null() || bytes < found.len() {
        return REFUSALS.value();
    }
    // SAFETY: the caller vouches for `bytes` bytes at `value`, and `found` is not longer.
    unsafe { std::ptr::copy_nonoverlapping(found.as_ptr(), value.cast::<u8>(), found.len()) };
    Ok(())
}
