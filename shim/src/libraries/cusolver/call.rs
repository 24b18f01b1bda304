//! What calls of cuSOLVER have in common: a handle's stream, checked arguments, the work area, and `info`.

use std::ffi::c_int;

use abi::argument::Out;
use abi::library::Library;

use super::handle::{HANDLES, REFUSALS};
use crate::boundary::gap;
use crate::libraries::cublas::element::Element;
use crate::libraries::cublas::job::Job;
use crate::libraries::cublas::number::Number;
use crate::libraries::cublas::operand::{Base, Region, Shape};
use crate::libraries::objects::{Answer, Code};
use crate::report::finding;

/// CUSOLVER_STATUS_EXECUTION_FAILED
const EXECUTION_FAILED: Code = Code(6);

/// How an argument is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Read,
    Written,
    Changed,
}

/// A call being prepared. Its body finds the arguments in the order in which they were added.
pub(super) struct Call(Job);

impl Call {
    pub(super) fn begin(handle: usize) -> Answer<Self> {
        Ok(Self(Job::new(Library::Cusolver, HANDLES.get(handle)?.get(), false)))
    }

    /// How many problems.
    pub(super) fn batch(&mut self, batch: i64) -> Answer {
        size(batch)?;
        self.0.batch(batch)
    }

    /// Adds an argument.
    pub(super) fn push(&mut self, base: Base, element: Element, shape: Shape, used: Use) {
        self.0.push(base, element, shape, used != Use::Written, used != Use::Read);
    }

    /// Adds a matrix.
    pub(super) fn matrix<T: Number>(
        &mut self,
        base: Base,
        [rows, columns]: [usize; 2],
        leading: i64,
        used: Use,
    ) -> Answer {
        let shape = Shape::Full { rows, columns, leading: leading_dimension(leading, rows)? };
        self.push(base, T::ELEMENT, shape, used);
        Ok(())
    }

    /// Adds half of a square matrix.
    pub(super) fn half<T: Number>(&mut self, base: Base, n: usize, upper: bool, leading: i64, used: Use) -> Answer {
        let shape = Shape::Triangle { n, leading: leading_dimension(leading, n)?, upper, strict: false };
        self.push(base, T::ELEMENT, shape, used);
        Ok(())
    }

    /// Adds a vector, one after the other in a batch.
    pub(super) fn vector(&mut self, address: usize, element: Element, n: usize, used: Use) {
        let base = Base::At { address, stride: n as i64 };
        self.push(base, element, Shape::Vector { n, step: 1 }, used);
    }

    /// Adds the place of real results, so many numbers apart in a batch.
    pub(super) fn real_vector(&mut self, (address, stride): (usize, i64), element: Element, n: usize) {
        self.push(strided(address, stride), element, Shape::Vector { n, step: 1 }, Use::Written);
    }

    /// Adds the place of `info`.
    pub(super) fn info(&mut self, address: usize) -> Answer {
        if address == 0 {
            return REFUSALS.value();
        }
        self.vector(address, Element::I32, 1, Use::Written);
        Ok(())
    }

    /// A result in host memory, for which the call waits.
    pub(super) fn on_host(&mut self, address: usize, element: Element, n: usize) -> Answer<Region> {
        self.0.result(address, element, n, false).map_err(|_| Code(REFUSALS.value))
    }

    /// Does it in stream order, unless nothing computes.
    pub(super) fn run(self, body: impl Fn(usize, &[Region]) + Send + Sync + 'static) -> Answer {
        self.0.run_computed(body).map_err(|_| EXECUTION_FAILED)
    }
}

/// One matrix at an address.
pub(super) fn single(address: usize) -> Base {
    Base::At { address, stride: 0 }
}

/// Matrices of a batch, one after the other.
pub(super) fn strided(address: usize, stride: i64) -> Base {
    Base::At { address, stride }
}

/// A size that must not be negative.
pub(super) fn size(number: i64) -> Answer<usize> {
    usize::try_from(number).map_err(|_| Code(REFUSALS.value))
}

fn leading_dimension(leading: i64, rows: usize) -> Answer<usize> {
    size(leading)?;
    usize::try_from(leading).ok().filter(|leading| *leading >= rows.max(1)).ok_or(Code(REFUSALS.value))
}

/// A flag that is 0 or 1: `cublasFillMode_t` (upper), `cublasSideMode_t` (right), `cusolverEigMode_t` (vectors).
pub(super) fn flag(code: c_int) -> Answer<bool> {
    match code {
        0 | 1 => Ok(code == 1),
        _ => REFUSALS.value(),
    }
}

/// The types of an X call, which have to be those of one typed function: of matrices, and of what is real beside them.
pub(super) fn type_of(matrix: c_int, others: &[c_int], real: Option<c_int>) -> Answer<Element> {
    let element = Element::from_code(matrix);
    let beside = match element {
        Some(Element::F32 | Element::C32) => 0,
        Some(Element::F64 | Element::C64) => 1,
        _ => return refuse("other numbers than those of 32 and 64 bits"),
    };
    if others.iter().any(|code| *code != matrix) || real.is_some_and(|code| code != beside) {
        return refuse("matrices of several types");
    }
    element.ok_or(Code(REFUSALS.value))
}

/// A gap.
pub(super) fn refuse<T>(why: &str) -> Answer<T> {
    gap::record(Library::Cusolver, finding::function(), why);
    Err(Code(Library::Cusolver.not_supported()))
}

/// How many numbers a work area holds: as many as the matrix. NVIDIA documents no sizes; none is needed here.
fn work_numbers(sizes: [i64; 2]) -> Answer<usize> {
    let [rows, columns] = [size(sizes[0])?, size(sizes[1])?];
    Ok(rows.saturating_mul(columns).max(1))
}

/// Answers a `_bufferSize`, in numbers.
pub(super) fn work(handle: usize, sizes: [impl Into<i64>; 2], out: Out<c_int>) -> Answer {
    HANDLES.get(handle)?;
    let numbers = work_numbers(sizes.map(Into::into))?;
    out.set(c_int::try_from(numbers).unwrap_or(c_int::MAX)).map_err(REFUSALS.null())
}

/// Answers the `_bufferSize` of an X call, in bytes on the device and on the host.
pub(super) fn work_bytes(
    handle: usize,
    element: Element,
    sizes: [i64; 2],
    device: Out<usize>,
    host: Out<usize>,
) -> Answer {
    HANDLES.get(handle)?;
    let bytes = work_numbers(sizes)?.saturating_mul(element.size());
    device.set(bytes).map_err(REFUSALS.null())?;
    host.set(element.size()).map_err(REFUSALS.null())
}
