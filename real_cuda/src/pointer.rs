//! What an address is: the real library's answer, with the virtual device instead of the real one. For host memory that replaces
//! device memory, which the real library does not know, the answer is made here.

use std::ffi::{c_int, c_uint, c_void};

use abi::argument::{In, Out};
use abi::cuda::{CudaError, CudaResult};

use crate::backing::Backing;
use crate::book::{self, Held};
use crate::device;
use crate::guard::exports;
use crate::real::call;

/// `CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL`
const DEVICE_ORDINAL: c_uint = 9;

exports! {
    fn cuPointerGetAttribute(out: *mut c_void, number: c_uint, address: usize) = |out, number, address| {
        if let Some((base, held)) = spilled(address) {
            // SAFETY: promised by the caller.
            return unsafe { answer(out, number, address, base, &held) };
        }
        call!(cuPointerGetAttribute(out => *mut c_void, number => c_uint, address => usize))?;
        // SAFETY: promised by the caller, and written by the real library.
        if number == DEVICE_ORDINAL { unsafe { rename(out, address) } } else { Ok(()) }
    };
    fn cuPointerGetAttributes(count: c_uint, numbers: *const c_uint, outs: *const *mut c_void, address: usize) = |count, numbers, outs, address| {
        let spilled = spilled(address);
        if spilled.is_none() {
            call!(cuPointerGetAttributes(count => c_uint, numbers => *const c_uint, outs => *const *mut c_void, address => usize))?;
        }
        for index in 0..count as usize {
            // Both lists have `count` entries.
            let (number, out) = (In(numbers.wrapping_add(index)).get()?, In(outs.wrapping_add(index)).get()?);
            match &spilled {
                // SAFETY: promised by the caller.
                Some((base, held)) => unsafe { answer(out, number, address, *base, held)? },
                // SAFETY: as above, and written by the real library.
                None if number == DEVICE_ORDINAL => unsafe { rename(out, address)? },
                None => {}
            }
        }
        Ok(())
    };
}

fn spilled(address: usize) -> Option<(usize, Held)> {
    book::find(address).filter(|(_, held)| matches!(held.backing, Backing::Spilled(_)))
}

/// # Safety
/// `out` holds an `int`.
unsafe fn rename(out: *mut c_void, address: usize) -> CudaResult {
    let out = out.cast::<c_int>();
    let real = In(out).get()?;
    let ordinal = match book::find(address) {
        Some((_, held)) => held.device as c_int,
        // A negative number is not a device.
        None if real < 0 => real,
        None => device::first_of(real)?.ordinal,
    };
    Ok(Out(out).set(ordinal)?)
}

/// Answers as for device memory (`CUpointer_attribute`).
///
/// # Safety
/// `out` has room for that attribute.
unsafe fn answer(out: *mut c_void, number: c_uint, address: usize, base: usize, held: &Held) -> CudaResult {
    let answered = match number {
        // CONTEXT, DEVICE_POINTER, HOST_POINTER
        1 => Out(out.cast()).set(held.context),
        3 | 4 => Out(out.cast()).set(address),
        // MEMORY_TYPE: device
        2 => Out(out.cast::<c_uint>()).set(2),
        // IS_MANAGED
        8 => Out(out.cast::<c_uint>()).set(0),
        DEVICE_ORDINAL => Out(out.cast()).set(held.device as c_int),
        // RANGE_START_ADDR, RANGE_SIZE
        11 => Out(out.cast()).set(base),
        12 => Out(out.cast()).set(held.bytes as usize),
        // MAPPED
        13 => Out(out.cast::<u8>()).set(1),
        _ => return Err(CudaError::INVALID_VALUE),
    };
    Ok(answered?)
}
