//! Plans by their numbers, and what makes one: the sizes, strides and kinds of numbers that C passes.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::Arc;

use abi::argument::Out;
use abi::library::Library;
use dataplane::lock::Mutex;

use super::transform::{Kind, Layout, Transform};
use super::{INVALID_SIZE, REFUSALS};
use crate::boundary::gap;
use crate::libraries::objects::{Answer, Code};
use crate::report::finding;

/// A plan: its settings, and the transform once it is made.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) stream: usize,
    pub(super) auto_allocation: bool,
    pub(super) work_area: usize,
    pub(super) made: Option<Arc<Transform>>,
}

/// The plans. In C, a plan is an int, not a pointer: the smallest free one.
static PLANS: Mutex<BTreeMap<c_int, Plan>> = Mutex::new(BTreeMap::new());

/// A description as C passes it.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    /// The size of each dimension.
    pub(super) sizes: &'a [i64],
    /// Kind of numbers, and whether they are double.
    pub(super) kind: (Kind, bool),
    /// `inembed`, `istride`, `idist`, and those of the output; `None` for the usual layout.
    pub(super) layouts: Option<[(&'a [i64], i64, i64); 2]>,
    pub(super) batches: i64,
}

pub(super) fn create(out: Out<c_int>) -> Answer {
    let out = out.required().map_err(REFUSALS.null())?;
    out.set(insert(None)).map_err(REFUSALS.null())
}

fn insert(made: Option<Arc<Transform>>) -> c_int {
    let mut plans = PLANS.lock();
    let plan = (1..).find(|plan| !plans.contains_key(plan)).unwrap_or(c_int::MAX);
    plans.insert(plan, Plan { auto_allocation: true, made, ..Plan::default() });
    plan
}

pub(super) fn destroy(plan: c_int) -> Answer {
    let mut plans = PLANS.lock();
    plans.remove(&plan).map(drop).ok_or(Code(REFUSALS.handle))
}

pub(super) fn with<T>(plan: c_int, act: impl FnOnce(&mut Plan) -> T) -> Answer<T> {
    let mut plans = PLANS.lock();
    plans.get_mut(&plan).map(act).ok_or(Code(REFUSALS.handle))
}

/// The stream of a plan that was made, and its transform.
pub(super) fn made(plan: c_int) -> Answer<(usize, Arc<Transform>)> {
    let (stream, made) = with(plan, |plan| (plan.stream, plan.made.clone()))?;
    Ok((stream, made.ok_or(Code(REFUSALS.handle))?))
}

/// Makes a plan, once.
pub(super) fn make(plan: c_int, asked: Asked<'_>, work: Out<usize>) -> Answer {
    if with(plan, |plan| plan.made.is_some())? {
        return Err(Code(REFUSALS.handle));
    }
    let transform = transform(asked)?;
    work.set(work_bytes(&transform)).map_err(REFUSALS.null())?;
    with(plan, |plan| plan.made = Some(Arc::new(transform)))
}

/// Creates and makes a plan.
pub(super) fn create_made(out: Out<c_int>, asked: Asked<'_>) -> Answer {
    let out = out.required().map_err(REFUSALS.null())?;
    let transform = transform(asked)?;
    out.set(insert(Some(Arc::new(transform)))).map_err(REFUSALS.null())
}

/// What an estimate says of a plan that nobody makes.
pub(super) fn estimate(asked: Asked<'_>, work: Out<usize>) -> Answer {
    work.set(work_bytes(&transform(asked)?)).map_err(REFUSALS.null())
}

/// One copy of the complex numbers. cuFFT's own sizes depend on the GPU and are not documented; none is needed here.
pub(super) fn work_bytes(transform: &Transform) -> usize {
    let [read, written] = transform.sides().map(|side| side.iter().product::<usize>());
    let number = if matches!(transform.precision, super::transform::Precision::Double(_)) { 16 } else { 8 };
    read.min(written) * transform.batches * number
}

fn transform(asked: Asked<'_>) -> Answer<Transform> {
    let count = |number: i64| usize::try_from(number).ok().filter(|number| *number > 0).ok_or(INVALID_SIZE);
    let dimensions: Vec<usize> = asked.sizes.iter().copied().map(count).collect::<Answer<_>>()?;
    if !(1..=3).contains(&dimensions.len()) {
        return REFUSALS.value();
    }
    let batches = count(asked.batches)?;
    let layout = |(embedding, stride, distance): (&[i64], i64, i64)| {
        let number = |number: i64| usize::try_from(number).map_err(|_| Code(REFUSALS.value));
        let embedding = embedding.iter().copied().map(number).collect::<Answer<Vec<_>>>()?;
        Answer::Ok(Layout { embedding, stride: number(stride)?, distance: number(distance)? })
    };
    let layouts = match asked.layouts {
        Some([read, written]) => Some([layout(read)?, layout(written)?]),
        None => None,
    };
    let total = dimensions.iter().try_fold(batches, |total, length| total.checked_mul(*length));
    // More than any GPU holds.
    if total.is_none_or(|total| total > 1 << 48) {
        return Err(INVALID_SIZE);
    }
    let (kind, is_double) = asked.kind;
    Ok(Transform::new(kind, is_double, dimensions, batches, layouts))
}

/// `cufftType`
pub(super) fn kind(code: c_int) -> Answer<(Kind, bool)> {
    match code {
        0x29 => Ok((Kind::Complex, false)),
        0x2a => Ok((Kind::RealToComplex, false)),
        0x2c => Ok((Kind::ComplexToReal, false)),
        0x69 => Ok((Kind::Complex, true)),
        0x6a => Ok((Kind::RealToComplex, true)),
        0x6c => Ok((Kind::ComplexToReal, true)),
        _ => REFUSALS.value(),
    }
}

/// Two `cudaDataType`s. Numbers of 16 bits are a gap.
pub(super) fn kind_of_types(read: c_int, written: c_int) -> Answer<(Kind, bool)> {
    match (read, written) {
        (4, 4) => Ok((Kind::Complex, false)),
        (0, 4) => Ok((Kind::RealToComplex, false)),
        (4, 0) => Ok((Kind::ComplexToReal, false)),
        (5, 5) => Ok((Kind::Complex, true)),
        (1, 5) => Ok((Kind::RealToComplex, true)),
        (5, 1) => Ok((Kind::ComplexToReal, true)),
        _ => {
            gap::record(Library::Cufft, finding::function(), "other numbers than those of 32 and 64 bits");
            Err(Code(Library::Cufft.not_supported()))
        }
    }
}

/// An array of C with one number for each dimension; `None` for null.
pub(super) fn numbers<T: Copy + Into<i64>>(pointer: *const T, rank: c_int) -> Option<Vec<i64>> {
    let rank = usize::try_from(rank).ok().filter(|rank| (1..=3).contains(rank))?;
    // SAFETY: not null, and C vouches for as many numbers as there are dimensions.
    (!pointer.is_null()).then(|| (0..rank).map(|index| unsafe { pointer.add(index).read() }.into()).collect())
}
