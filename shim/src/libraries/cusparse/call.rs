//! What calls of cuSPARSE have in common, and a sparse matrix once it is read.

use std::ffi::c_int;

use abi::argument::Out;
use abi::library::Library;

use super::descriptor::{Format, Sparse};
use super::{HANDLES, REFUSALS};
use crate::boundary::gap;
use crate::libraries::cublas::dense::Transpose;
use crate::libraries::cublas::element::{Element, Wide};
use crate::libraries::cublas::job::{Job, Scale};
use crate::libraries::cublas::number::Number;
use crate::libraries::cublas::operand::{Base, Region, Shape};
use crate::libraries::objects::{Answer, Code};
use crate::report::finding;
use crate::settings::{self, Compute};

/// CUSPARSE_STATUS_EXECUTION_FAILED
const EXECUTION_FAILED: Code = Code(6);

/// How an argument is used: whether it is read, and whether it is written.
pub(super) const READ: [bool; 2] = [true, false];
pub(super) const WRITTEN: [bool; 2] = [false, true];
pub(super) const CHANGED: [bool; 2] = [true, true];

/// A call being prepared. Its body finds the arguments in the order in which they were added.
pub(super) struct Call(Job);

impl Call {
    pub(super) fn begin(handle: usize) -> Answer<Self> {
        let (stream, on_device) = super::working(handle)?;
        Ok(Self(Job::new(Library::Cusparse, stream, on_device)))
    }

    /// Adds an argument.
    pub(super) fn push(&mut self, address: usize, element: Element, shape: Shape, [reads, writes]: [bool; 2]) {
        self.0.push(Base::At { address, stride: 0 }, element, shape, reads, writes);
    }

    /// Adds a vector.
    pub(super) fn vector(&mut self, address: usize, element: Element, n: usize, used: [bool; 2]) {
        self.push(address, element, Shape::Vector { n, step: 1 }, used);
    }

    /// Alpha or beta.
    pub(super) fn scale(&mut self, pointer: usize, element: Element) -> Answer<Scale> {
        self.0.scale(pointer, element).map_err(|_| Code(REFUSALS.value))
    }

    /// Does it in stream order, unless nothing computes.
    pub(super) fn run(self, body: impl Fn(&[Region]) + Send + Sync + 'static) -> Answer {
        let is_computed = computes();
        let body = move |_: usize, places: &[Region]| {
            if is_computed {
                body(places);
            }
        };
        self.0.run(body).map_err(|_| EXECUTION_FAILED)
    }

    /// The same, done when it returns.
    pub(super) fn run_and_wait(mut self, body: impl Fn(&[Region]) + Send + Sync + 'static) -> Answer {
        self.0.host_waits();
        self.run(body)
    }
}

/// Whether calls compute.
pub(super) fn computes() -> bool {
    settings::get().is_ok_and(|settings| settings.compute == Compute::Cpu)
}

/// A gap.
pub(super) fn refuse<T>(why: &str) -> Answer<T> {
    gap::record(Library::Cusparse, finding::function(), why);
    Err(Code(Library::Cusparse.not_supported()))
}

/// `cusparseOperation_t`
pub(super) fn operation(code: c_int) -> Answer<Transpose> {
    Transpose::from_code(code).ok_or(Code(REFUSALS.value))
}

/// Answers a `_bufferSize`: a few bytes, so that no program gets an empty work area. None is needed.
pub(super) fn work(handle: usize, out: Out<usize>) -> Answer {
    HANDLES.get(handle)?;
    out.set(8).map_err(REFUSALS.null())
}

/// Integers in memory.
///
/// # Safety
/// As [`Region::load`].
pub(super) unsafe fn integers(place: &Region) -> Vec<i64> {
    // SAFETY: passed on. Indices are below 2^53.
    unsafe { place.load::<f64>() }.data.into_iter().map(|number| number as i64).collect()
}

/// Writes integers.
///
/// # Safety
/// As [`Region::store`].
pub(super) unsafe fn store_integers(place: &Region, numbers: impl Iterator<Item = usize>) {
    for (index, number) in numbers.enumerate() {
        // SAFETY: passed on.
        unsafe { place.write(index, Wide::new(number as f64, 0.0)) };
    }
}

/// The numbers of a matrix with their row and column, in the order in which they are stored. Numbers at places that the matrix lacks,
/// which is undefined behavior on a GPU, are left out.
///
/// # Safety
/// The arrays that [`Sparse::push`] added are in memory.
pub(super) unsafe fn entries<T: Number>(matrix: &Sparse, places: &[Region]) -> Vec<(usize, usize, T)> {
    // SAFETY: passed on.
    let (starts, indices, values) = unsafe { (integers(&places[0]), integers(&places[1]), places[2].load::<T>().data) };
    let base = matrix.base as i64;
    let lines: Vec<i64> = match matrix.format {
        Format::Coo => starts.iter().map(|row| row - base).collect(),
        Format::Csr | Format::Csc => {
            let mut lines = vec![-1; values.len()];
            for (line, ends) in starts.windows(2).enumerate() {
                let range = ends.iter().map(|end| (end - base).clamp(0, values.len() as i64) as usize);
                let [first, last] = [range.clone().next().unwrap_or(0), range.clone().next_back().unwrap_or(0)];
                lines[first.min(last)..last].fill(line as i64);
            }
            lines
        }
    };
    let is_by_columns = matrix.format == Format::Csc;
    let whole = lines.into_iter().zip(indices).zip(values).filter_map(|((line, index), value)| {
        let (line, index) = (usize::try_from(line).ok()?, usize::try_from(index - base).ok()?);
        let (row, column) = if is_by_columns { (index, line) } else { (line, index) };
        (row < matrix.rows && column < matrix.columns).then_some((row, column, value))
    });
    whole.collect()
}

/// The same after an operation.
pub(super) fn after<T: Number>(entries: Vec<(usize, usize, T)>, operation: Transpose) -> Vec<(usize, usize, T)> {
    if operation == Transpose::No {
        return entries;
    }
    entries.into_iter().map(|(row, column, value)| (column, row, operation.apply(value))).collect()
}

/// Where lines begin, in numbers from 0, if their numbers are in order of lines.
pub(super) fn starts(lines: impl Iterator<Item = usize>, count: usize) -> Vec<usize> {
    let mut starts = vec![0; count + 1];
    lines.filter(|line| *line < count).for_each(|line| starts[line + 1] += 1);
    for line in 0..count {
        starts[line + 1] += starts[line];
    }
    starts
}
