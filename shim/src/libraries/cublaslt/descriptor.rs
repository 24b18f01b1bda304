//! The handles and descriptors of cuBLASLt; a descriptor stores what is put into it.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

use abi::argument::Out;
use dataplane::lock::Mutex;

use crate::libraries::cublas::handle::REFUSALS;
use crate::libraries::objects::{Answer, Code, Objects, kind};
use crate::libraries::release;

pub(super) static HANDLES: Objects<()> = Objects::new(kind::CUBLASLT, REFUSALS);
pub(super) static DESCRIPTORS: Objects<Descriptor> = Objects::new(kind::CUBLASLT_OBJECT, REFUSALS);

/// A product, layout or preference descriptor: attribute -> bytes.
#[derive(Debug, Default)]
pub(crate) struct Descriptor(Mutex<BTreeMap<c_int, Vec<u8>>>);

impl Descriptor {
    /// An attribute of up to 8 bytes as a number, `default` where it was not set.
    pub(crate) fn number(&self, attribute: c_int, default: i64) -> i64 {
        let attributes = self.0.lock();
        match attributes.get(&attribute).map(Vec::as_slice) {
            Some(bytes @ [_, _, _, _]) => i64::from(i32::from_ne_bytes(bytes.try_into().unwrap_or_default())),
            Some(bytes @ [_, _, _, _, _, _, _, _]) => i64::from_ne_bytes(bytes.try_into().unwrap_or_default()),
            _ => default,
        }
    }
}

/// The descriptor behind a handle.
pub(crate) fn descriptor(handle: usize) -> Answer<Arc<Descriptor>> {
    DESCRIPTORS.get(handle).map_err(|_| Code(REFUSALS.value))
}

/// Longest attribute that any descriptor has; a larger size is a mistake.
const LONGEST: usize = 4096;

pub(super) fn get_property(which: c_int, value: Out<c_int>) -> Answer {
    match release::current().cublas.property(which) {
        Some(part) => value.set(part).map_err(REFUSALS.null()),
        None => REFUSALS.value(),
    }
}

/// CUBLASLT_MATMUL_DESC_COMPUTE_TYPE is attribute 0, _SCALE_TYPE 1.
pub(super) fn create_product(descriptor: Out<usize>, compute: c_int, scale: c_int) -> Answer {
    let attributes = BTreeMap::from([(0, compute.to_ne_bytes().to_vec()), (1, scale.to_ne_bytes().to_vec())]);
    DESCRIPTORS.create(descriptor, Descriptor(Mutex::new(attributes)))
}

/// CUBLASLT_MATRIX_LAYOUT_TYPE is attribute 0, _ROWS 2, _COLS 3, _LD 4.
pub(super) fn create_layout(descriptor: Out<usize>, datatype: c_int, rows: u64, columns: u64, leading: i64) -> Answer {
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
pub(super) unsafe fn set(descriptor: usize, attribute: c_int, value: *const c_void, bytes: usize) -> Answer {
    let descriptor = DESCRIPTORS.get(descriptor)?;
    if value.is_null() || bytes == 0 || bytes > LONGEST {
        return REFUSALS.value();
    }
    // SAFETY: the caller vouches for `bytes` bytes at `value`, which is not null.
    let bytes = unsafe { std::slice::from_raw_parts(value.cast::<u8>(), bytes) }.to_vec();
    descriptor.0.lock().insert(attribute, bytes);
    Ok(())
}

/// Returns the attribute that was set; the default of an unset one is not known here.
///
/// # Safety
/// `value` points to `bytes` bytes that may be written.
pub(super) unsafe fn get(
    descriptor: usize,
    attribute: c_int,
    value: *mut c_void,
    bytes: usize,
    written: Out<usize>,
) -> Answer {
    let descriptor = DESCRIPTORS.get(descriptor)?;
    let attributes = descriptor.0.lock();
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
