//! What calls of cuSPARSE have in common: a handle's stream and pointer mode, checked arguments, and the work area.

use std::ffi::c_int;

use abi::argument::Out;
use abi::library::Library;

use super::handle::{HANDLES, REFUSALS};
use crate::boundary::gap;
use crate::libraries::cublas::dense::Transpose;
use crate::libraries::cublas::element::Element;
use crate::libraries::cublas::job::{Job, Scale};
use crate::libraries::cublas::operand::{Base, Region, Shape};
use crate::libraries::objects::{Answer, Code};
use crate::report::finding;

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
        let (stream, on_device) = super::handle::working(handle)?;
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
        self.0.run_computed(move |_, places| body(places)).map_err(|_| EXECUTION_FAILED)
    }

    /// The same, done when it returns.
    pub(super) fn run_and_wait(mut self, body: impl Fn(&[Region]) + Send + Sync + 'static) -> Answer {
        self.0.host_waits();
        self.run(body)
    }
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
