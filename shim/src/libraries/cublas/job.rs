//! The path of a routine: its arguments are checked and seen by the sanitizers, and it is done in stream order or
//! captured.

use std::sync::Arc;

use abi::cuda::{CudaError, CudaResult};
use abi::library::Library;

use super::element::{Element, Wide};
use super::handle::{self, REFUSALS};
use super::operand::{Base, Operand, Region, Shape};
use crate::boundary::gap;
use crate::device::Device;
use crate::device::graph::capture;
use crate::device::graph::structure::{self, Operation};
use crate::device::graph::submit::submit;
use crate::device::memory::address::{self, Known};
use crate::device::work::running;
use crate::device::work::stream::{self, Stream};
use crate::device::work::timeline::{self, Element as Arithmetic, Form, Work, product_kernel};
use crate::libraries::objects::{Answer, Code};
use crate::report::finding;
use crate::sanitizer::init::{self, Needs, Read};
use crate::sanitizer::known;
use crate::sanitizer::races::{self, Access, Touch};
use crate::settings::{self, Compute, GemmMode};

/// CUBLAS_STATUS_EXECUTION_FAILED.
const EXECUTION_FAILED: Code = Code(13);
/// A matrix in more pieces is not checked for races, because each piece costs time and memory.
const MOST_PIECES: usize = 256;

/// The body of a routine for the arguments of one problem of a batch.
type Body = Box<dyn Fn(usize, &[Region]) + Send + Sync>;

/// A call being prepared.
pub(crate) struct Job {
    library: Library,
    name: &'static str,
    stream: usize,
    on_device: bool,
    operands: Vec<Operand>,
    /// Scalars in device memory, which come after the operands.
    scalars: Vec<Operand>,
    batch: usize,
    /// Whether the host waits for a result.
    waits: bool,
    has_tf32: bool,
    /// Rows, columns and length of the sums of a matrix product.
    extents: Option<[usize; 3]>,
    work: Work,
}

/// The location of alpha, beta or another scalar.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scale {
    /// Read already.
    Value(Wide),
    /// The scalar is in memory that is read when the routine runs.
    At(usize, Element),
    /// The same, one for each row of the result.
    ByRow(usize, Element),
}

impl Scale {
    pub(crate) const ZERO: Self = Self::Value(Wide::new(0.0, 0.0));
    pub(crate) const ONE: Self = Self::Value(Wide::new(1.0, 0.0));

    /// Its value; for a given row, if they differ.
    ///
    /// # Safety
    /// It is in memory, as [`Job::run`] checks.
    pub(crate) unsafe fn get(self, row: usize) -> Wide {
        match self {
            Self::Value(value) => value,
            // SAFETY: as the caller promises.
            Self::At(address, element) => unsafe { element.read(address) },
            // SAFETY: as the caller promises, for as many as there are rows.
            Self::ByRow(address, element) => unsafe { element.read(address + row * element.size()) },
        }
    }

    /// Whether it is known, before the routine runs, not to be 0.
    pub(crate) fn is_known(self) -> bool {
        matches!(self, Self::Value(_)) && !self.is_zero()
    }

    /// Whether it is known to be 0 before the routine runs.
    pub(crate) fn is_zero(self) -> bool {
        matches!(self, Self::Value(value) if value == Wide::new(0.0, 0.0))
    }
}

/// A size passed by C, which must not be negative.
pub(crate) fn size(number: i64) -> Answer<usize> {
    usize::try_from(number).map_err(|_| Code(REFUSALS.value))
}

/// Whether routines compute.
pub(crate) fn computes() -> bool {
    settings::get().is_ok_and(|settings| settings.compute == Compute::Cpu)
}

/// Refuses an unsupported routine: a gap, and the library's "not supported".
pub(crate) fn refuse<T>(library: Library, name: &'static str, why: &str) -> Answer<T> {
    gap::record(library, name, why);
    Err(Code(library.not_supported()))
}

impl Job {
    /// The current call from C, with a cuBLAS handle.
    pub(crate) fn begin(handle: usize) -> Answer<Self> {
        let (stream, on_device) = handle::working(handle)?;
        Ok(Self { has_tf32: handle::allows_tf32(handle)?, ..Self::new(Library::Cublas, stream, on_device) })
    }

    /// The current call from C, in a stream.
    pub(crate) fn new(library: Library, stream: usize, on_device: bool) -> Self {
        let name = finding::function();
        let work = Work::library(name);
        Self {
            library,
            name,
            stream,
            on_device,
            operands: Vec::new(),
            scalars: Vec::new(),
            batch: 1,
            waits: false,
            has_tf32: false,
            extents: None,
            work,
        }
    }

    /// Refuses an unsupported call.
    pub(crate) fn refuse<T>(&self, why: &str) -> Answer<T> {
        refuse(self.library, self.name, why)
    }

    /// Sets the number of problems; a negative number is an error.
    pub(crate) fn batch(&mut self, batch: i64) -> Answer {
        self.batch = size(batch)?;
        Ok(())
    }

    /// The host waits for it.
    pub(crate) fn host_waits(&mut self) {
        self.waits = true;
    }

    /// Alpha, beta or another scalar: read now if it is in host memory.
    pub(crate) fn scale(&mut self, pointer: usize, element: Element) -> Answer<Scale> {
        if pointer == 0 {
            return REFUSALS.value();
        }
        if self.on_device {
            return Ok(self.scale_on_device(pointer, element, 1));
        }
        // SAFETY: not null, and C vouches for the rest.
        Ok(Scale::Value(unsafe { element.read(pointer) }))
    }

    /// Scalars that the routine reads when it runs: one, or one for each of `rows`.
    pub(crate) fn scale_on_device(&mut self, pointer: usize, element: Element, rows: usize) -> Scale {
        self.scalar(pointer, element, rows, [true, false]);
        if rows == 1 { Scale::At(pointer, element) } else { Scale::ByRow(pointer, element) }
    }

    /// Where a result of `n` elements goes, in host memory or on the device.
    pub(crate) fn result(&mut self, pointer: usize, element: Element, n: usize, reads: bool) -> Answer<Region> {
        if pointer == 0 {
            return REFUSALS.value();
        }
        if self.on_device {
            self.scalar(pointer, element, n, [reads, true]);
        } else {
            self.waits = true;
        }
        Ok(Region::scalar(pointer, element, n))
    }

    fn scalar(&mut self, pointer: usize, element: Element, n: usize, [reads, writes]: [bool; 2]) {
        let base = Base::At { address: pointer, stride: 0 };
        self.scalars.push(Operand { base, element, shape: Shape::Vector { n, step: 1 }, reads, writes });
    }

    /// Adds an argument. The routine finds it at the same index.
    pub(crate) fn push(&mut self, base: Base, element: Element, shape: Shape, reads: bool, writes: bool) {
        self.operands.push(Operand { base, element, shape, reads, writes });
    }

    /// The same.
    pub(crate) fn operand(&mut self, operand: Operand) {
        self.operands.push(operand);
    }

    /// Products of f32 use TF32.
    pub(crate) fn allow_tf32(&mut self) {
        self.has_tf32 = true;
    }

    /// The product has so many rows and columns, and sums of this length.
    pub(crate) fn multiplies(&mut self, extents: [usize; 3]) {
        self.extents = Some(extents);
    }

    /// What a product with this many multiply-adds is on the timeline.
    fn describe_product(&mut self, operations: u64) {
        let Some(element) = self.operands.first().map(|operand| operand.element) else { return };
        let arithmetic = element.arithmetic().map(|arithmetic| match arithmetic {
            Arithmetic::Fp32 if self.has_tf32 => Arithmetic::Tf32,
            other => other,
        });
        // A multiply-add of complex numbers is four.
        let flops = operations.saturating_mul(if element.is_complex() { 8 } else { 2 });
        let name = arithmetic.filter(|_| !element.is_complex()).map_or(self.name, product_kernel);
        let batch = self.batch as u64;
        let form = self.extents.map(|[m, n, k]| Form::Product { batch, m: m as u64, n: n as u64, k: k as u64 });
        self.work = Work { element: arithmetic, flops, form: form.unwrap_or_default(), ..Work::library(name) };
    }

    /// How many arguments there are.
    pub(crate) fn operands(&self) -> usize {
        self.operands.len()
    }

    /// Adds an argument at an address.
    pub(crate) fn operand_at(&mut self, address: usize, element: Element, shape: Shape, reads: bool, writes: bool) {
        self.push(Base::At { address, stride: 0 }, element, shape, reads, writes);
    }

    /// Adds an argument that is read.
    pub(crate) fn input(&mut self, address: usize, element: Element, shape: Shape) {
        self.push(Base::At { address, stride: 0 }, element, shape, true, false);
    }

    /// Adds an argument that is read and written.
    pub(crate) fn changed(&mut self, address: usize, element: Element, shape: Shape) {
        self.push(Base::At { address, stride: 0 }, element, shape, true, true);
    }

    /// What the settings say about a product with this many multiply-adds; `None` if it is not to be computed, which is a
    /// gap.
    fn admit(&self, operations: u64) -> Answer<bool> {
        let policy = settings::get().map(|settings| settings.gemm).unwrap_or_default();
        if policy.strict {
            let stream = stream::resolve(self.stream).map_err(|_| EXECUTION_FAILED)?;
            let profile = &stream.device().gpu.profile;
            // What the hardware would refuse is not a gap of ours.
            let lacks = |operand: &Operand| !operand.element.is_multiplied(profile);
            if self.operands.iter().any(lacks) {
                return Err(Code(self.library.not_supported()));
            }
        }
        let why = if policy.mode == GemmMode::Skip {
            "skipped, as FAKEGPU_CPU_GEMM_MODE says"
        } else if policy.max_operations.is_some_and(|most| operations > most) {
            "larger than FAKEGPU_CPU_GEMM_MAX_OPS"
        } else {
            return Ok(true);
        };
        gap::tolerate(self.library, self.name, why).map_err(|refused| Code(u32::from(refused)))?;
        Ok(false)
    }

    /// [`Job::run`], for products with this many multiply-adds each, which the settings may exclude.
    pub(crate) fn run_product(
        mut self,
        operations: u64,
        body: impl Fn(usize, &[Region]) + Send + Sync + 'static,
    ) -> Answer {
        self.describe_product(operations);
        let is_admitted = self.admit(operations.saturating_mul(self.batch as u64))?;
        self.checked(move |batch, places| {
            if is_admitted {
                body(batch, places)
            }
        })
    }

    /// Does the routine in stream order, once for each problem of the batch.
    ///
    /// # Errors
    /// EXECUTION_FAILED for memory that the GPU cannot access, and errors of captures.
    pub(crate) fn run(self, body: impl Fn(usize, &[Region]) + Send + Sync + 'static) -> Answer {
        self.checked(body)
    }

    /// [`Job::run`], but nothing is done where nothing computes.
    pub(crate) fn run_computed(self, body: impl Fn(usize, &[Region]) + Send + Sync + 'static) -> Answer {
        let is_computed = computes();
        self.checked(move |batch, places| {
            if is_computed {
                body(batch, places);
            }
        })
    }

    fn checked(mut self, body: impl Fn(usize, &[Region]) + Send + Sync + 'static) -> Answer {
        if self.operands.iter().any(|operand| !operand.shape.is_valid()) {
            return REFUSALS.value();
        }
        let stream = stream::resolve(self.stream).map_err(|_| EXECUTION_FAILED)?;
        if self.batch == 0 {
            return Ok(());
        }
        if self.waits {
            capture::host_waits(&stream).map_err(|_| EXECUTION_FAILED)?;
        }
        self.operands.append(&mut self.scalars);
        let (waits, batch) = (self.waits, self.batch);
        let mut work = self.work;
        work.flops = work.flops.saturating_mul(batch as u64);
        work.bytes = self.operands.iter().map(|operand| operand.moved()).sum::<u64>().saturating_mul(batch as u64);
        let problems = Problems { name: self.name, operands: self.operands, batch, body: Box::new(body), work };
        if !problems.is_reachable() {
            return Err(EXECUTION_FAILED);
        }
        submit(Operation::Work(Arc::new(Routine(Arc::new(problems)))), &stream).map_err(|_| EXECUTION_FAILED)?;
        if waits {
            stream.synchronize();
            races::host_waited_for(stream.lane());
        }
        Ok(())
    }
}

/// The problems of a call.
struct Problems {
    name: &'static str,
    operands: Vec<Operand>,
    batch: usize,
    body: Body,
    work: Work,
}

impl Problems {
    /// Whether the pointers to problems are known at the time of the call.
    fn is_fixed(&self) -> bool {
        self.operands.iter().all(|operand| matches!(operand.base, Base::At { .. }))
    }

    /// Checks memory before it runs: whether the GPU can access it.
    fn is_reachable(&self) -> bool {
        self.batch == 0
            || self.operands.iter().all(|operand| match operand.base {
                // In between are the others.
                Base::At { .. } => [0, self.batch - 1].iter().all(|batch| {
                    // SAFETY: it is not an array of pointers.
                    unsafe { operand.place(*batch) }.is_reachable()
                }),
                Base::Pointers(array) => {
                    matches!(address::known(array, self.batch * 8), Ok(Known::Device(_) | Known::Host))
                }
            })
    }

    /// All arguments, problem by problem.
    ///
    /// # Safety
    /// Arrays of pointers are written.
    unsafe fn places(&self) -> Vec<Vec<Region>> {
        // SAFETY: `is_reachable` saw the arrays whole.
        let of_one = |batch| self.operands.iter().map(move |operand| unsafe { operand.place(batch) }).collect();
        (0..self.batch).map(of_one).collect()
    }

    /// The bytes that each operand reads and writes, for the sanitizers.
    fn pieces(&self, places: &[Vec<Region>], index: usize) -> Vec<(usize, usize)> {
        joined(places.iter().flat_map(|problem| problem[index].pieces()))
    }

    fn accesses(&self, places: &[Vec<Region>]) -> Vec<Access> {
        let mut accesses = Vec::new();
        for (index, operand) in self.operands.iter().enumerate() {
            let pieces = self.pieces(places, index);
            if pieces.len() <= MOST_PIECES {
                for (address, bytes) in pieces {
                    if operand.reads {
                        accesses.push(Access { address, bytes, writes: false });
                    }
                    if operand.writes {
                        accesses.push(Access { address, bytes, writes: true });
                    }
                }
            }
        }
        accesses
    }

    /// Handles uninitialized memory.
    fn follow(&self, places: &[Vec<Region>]) {
        let of = |index: usize| self.pieces(places, index);
        let reads = self.operands.iter().enumerate().filter(|(_, operand)| operand.reads);
        let reads: Vec<_> = reads.map(|(index, _)| Read { pieces: of(index), needs: Needs::All }).collect();
        init::read(self.name, &reads);
        for (index, _) in self.operands.iter().enumerate().filter(|(_, operand)| operand.writes) {
            for (address, bytes) in of(index) {
                init::written(address, bytes);
            }
        }
    }

    /// Its results are not those of the program, if nothing computes.
    fn leave_unknown(&self, places: &[Vec<Region>]) {
        for (index, _) in self.operands.iter().enumerate().filter(|(_, operand)| operand.writes) {
            for (address, bytes) in self.pieces(places, index) {
                known::put(address, bytes, known::undone(self.name));
            }
        }
    }

    fn compute(&self, device: &Device, places: &[Vec<Region>]) {
        // Where pointers were not known before, this is where a GPU would find out.
        if !self.is_fixed() && !places.iter().flatten().all(Region::is_reachable) {
            return device.fail(CudaError::ILLEGAL_ADDRESS);
        }
        for (batch, problem) in places.iter().enumerate() {
            (self.body)(batch, problem);
        }
    }
}

/// A checked call.
struct Routine(Arc<Problems>);

impl structure::Work for Routine {
    fn issue(&self, stream: &Arc<Stream>) -> CudaResult {
        let (problems, device) = (Arc::clone(&self.0), stream.device());
        let timed = timeline::submit(stream, || problems.work.clone());
        if problems.is_fixed() {
            // SAFETY: there are no arrays of pointers.
            let places = unsafe { problems.places() };
            if races::are_wanted() {
                races::work(&[stream.lane()], problems.name, &problems.accesses(&places));
            }
            if init::is_wanted() {
                problems.follow(&places);
            }
            if known::is_wanted() {
                problems.leave_unknown(&places);
            }
            stream.run(move || {
                let _running = (running::start(device), timeline::begin(timed));
                problems.compute(device, &places);
            });
            return Ok(());
        }
        let submitted = races::kernel(stream.lane(), problems.name);
        if init::is_wanted() || known::is_wanted() {
            if stream.is_idle() {
                // SAFETY: all work that could write the pointers is done.
                let places = unsafe { problems.places() };
                if places.iter().flatten().all(Region::is_reachable) {
                    problems.follow(&places);
                    problems.leave_unknown(&places);
                }
            } else {
                init::all_written();
            }
        }
        stream.run(move || {
            let _running = (running::start(device), timeline::begin(timed));
            // SAFETY: the work before it in its stream is done.
            let places = unsafe { problems.places() };
            problems.compute(device, &places);
            if let Some(submitted) = submitted {
                let touches = problems.accesses(&places).into_iter();
                submitted.touched(&touches.map(|access| Touch { access, is_atomic: false }).collect::<Vec<_>>(), None);
            }
        });
        Ok(())
    }

    fn name(&self) -> &str {
        self.0.name
    }
}

/// Pieces of memory in order, merged where adjacent.
fn joined(pieces: impl Iterator<Item = (usize, usize)>) -> Vec<(usize, usize)> {
    let mut together: Vec<(usize, usize)> = Vec::new();
    for (address, bytes) in pieces {
        match together.last_mut() {
            Some((start, length)) if *start + *length == address => *length += bytes,
            _ => together.push((address, bytes)),
        }
    }
    together
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_follow_one_another_are_one_access() {
        assert_eq!(joined([(100, 8), (108, 8), (116, 4)].into_iter()), [(100, 20)]);
        assert_eq!(joined([(100, 8), (112, 8)].into_iter()), [(100, 8), (112, 8)]);
        assert_eq!(joined(std::iter::empty()), []);
    }
}
