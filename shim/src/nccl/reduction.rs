//! Reduction operators: the built-in codes, and the pre-multiplied sums that a program makes for a communicator.

use std::ffi::{c_int, c_uint, c_void};

use abi::argument::Out;
use dataplane::call::Scalar;
use protocol::datatype::{Datatype, ReductionOp};

use super::buffer::place;
use super::communicator::{Communicator, resolve};
use super::error::{NcclError, NcclResult};

/// First code of a user-defined operator; below are NCCL's own.
const FIRST: u32 = 64;
/// Maximum number of operators that one communicator may have at a time.
const MOST: usize = 1 << 12;
/// `ncclScalarDevice`.
const DEVICE: c_uint = 0;
/// `ncclScalarHostImmediate`.
const HOST_IMMEDIATE: c_uint = 1;

/// The datatype behind an `ncclDataType_t`.
pub(crate) fn datatype(code: c_int) -> NcclResult<Datatype> {
    Datatype::from_code(code)
        .ok_or_else(|| NcclError::INVALID_ARGUMENT.because(format!("{code} is not a value of ncclDataType_t")))
}

/// The operator behind an `ncclRedOp_t`, with its factor.
///
/// # Errors
/// `ncclInvalidArgument` for an unknown code, one made for another datatype or communicator, or a factor in memory that the
/// communicator's device cannot read.
pub(crate) fn operator(
    communicator: &Communicator,
    code: c_int,
    datatype: Datatype,
) -> NcclResult<(ReductionOp, Option<Scalar>)> {
    let unknown =
        || NcclError::INVALID_ARGUMENT.because(format!("{code} is not a reduction operator of this communicator"));
    if let Some(op) = ReductionOp::from_code(code).filter(|op| *op != ReductionOp::PreMulSum) {
        return Ok((op, None));
    }
    let slot = slot(communicator, code).ok_or_else(unknown)?;
    let factors = communicator.factors.lock();
    let (made_for, scalar) = factors.get(slot).copied().flatten().ok_or_else(unknown)?;
    if made_for != datatype {
        let detail = format!("the reduction operator was made for {made_for}, the call is for {datatype}");
        return Err(NcclError::INVALID_ARGUMENT.because(detail));
    }
    // Read by the kernel.
    if let Scalar::Memory(address) = scalar {
        place(communicator, "scalar", address.cast_mut(), datatype.size())?;
    }
    Ok((ReductionOp::PreMulSum, Some(scalar)))
}

/// Codes carry the communicator's serial number, so that one of another communicator is recognized.
fn code(communicator: &Communicator, slot: usize) -> c_int {
    let serial = (communicator.serial % (1 << 18)) as u32;
    (FIRST + (serial << 12) + slot as u32) as c_int
}

fn slot(communicator: &Communicator, given: c_int) -> Option<usize> {
    let slot = (u32::try_from(given).ok()?.checked_sub(FIRST)? & (MOST as u32 - 1)) as usize;
    (code(communicator, slot) == given).then_some(slot)
}

/// Body of `ncclRedOpCreatePreMulSum`.
///
/// # Safety
/// `scalar` points to an element of the datatype; with `ncclScalarDevice` until the last operation that uses it is done.
pub(crate) unsafe fn create_premultiplied(
    out: Out<c_int>,
    scalar: *mut c_void,
    datatype_code: c_int,
    residence: c_uint,
    handle: usize,
) -> NcclResult {
    let communicator = resolve(handle)?;
    let out = out.required()?;
    communicator.ranks()?;
    if scalar.is_null() {
        return Err(NcclError::INVALID_ARGUMENT.because("the scalar is a null pointer"));
    }
    let datatype = datatype(datatype_code)?;
    let scalar = match residence {
        DEVICE => Scalar::Memory(scalar.cast_const().cast()),
        HOST_IMMEDIATE => {
            let mut bytes = [0; 8];
            // SAFETY: the caller's promise.
            unsafe { std::ptr::copy_nonoverlapping(scalar.cast_const().cast(), bytes.as_mut_ptr(), datatype.size()) };
            Scalar::Immediate(bytes)
        }
        other => {
            return Err(NcclError::INVALID_ARGUMENT.because(format!("{other} is not a value of ncclScalarResidence_t")));
        }
    };
    let mut factors = communicator.factors.lock();
    let free = factors.iter().position(Option::is_none).unwrap_or(factors.len());
    if free >= MOST {
        return Err(
            NcclError::INVALID_USAGE.because(format!("more than {MOST} reduction operators of one communicator"))
        );
    }
    if free == factors.len() {
        factors.push(None);
    }
    factors[free] = Some((datatype, scalar));
    Ok(out.set(code(&communicator, free))?)
}

/// Body of `ncclRedOpDestroy`.
pub(crate) fn destroy(given: c_int, handle: usize) -> NcclResult {
    let communicator = resolve(handle)?;
    if ReductionOp::from_code(given).is_some() {
        return Err(NcclError::INVALID_ARGUMENT.because("a built-in reduction operator cannot be destroyed"));
    }
    let unknown =
        || NcclError::INVALID_ARGUMENT.because(format!("{given} is not a reduction operator of this communicator"));
    let slot = slot(&communicator, given).ok_or_else(unknown)?;
    let mut factors = communicator.factors.lock();
    factors.get_mut(slot).and_then(Option::take).map(drop).ok_or_else(unknown)
}
