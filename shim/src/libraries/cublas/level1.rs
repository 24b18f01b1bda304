//! BLAS level 1: vectors. Sums are computed in the type of the call, in order; a size below 1 means an empty vector.

use super::element::{Element, Wide};
use super::job::Job;
use super::number::{Number, add_multiple, with_number};
use super::operand::Shape;
use crate::libraries::objects::Answer;

/// A vector in C: address, type and step.
#[derive(Clone, Copy)]
pub(super) struct Vector(pub(super) usize, pub(super) Element, pub(super) i64);

impl Vector {
    pub(super) fn new<T: Number>(address: usize, step: impl Into<i64>) -> Self {
        Self(address, T::ELEMENT, step.into())
    }

    fn shape(self, n: usize) -> Shape {
        Shape::Vector { n, step: self.2 }
    }
}

/// A scalar in C: address and type.
pub(super) type Scalar = (usize, Element);

fn count(n: i64) -> usize {
    usize::try_from(n).unwrap_or(0)
}

/// The number of elements of a vector that is only read: 0 if its step is not positive.
fn forward(n: i64, x: Vector) -> usize {
    if x.2 > 0 { count(n) } else { 0 }
}

/// A call with one or two vectors of `n` elements; those that it writes have a step.
fn begin(handle: usize, n: usize, vectors: &[(Vector, bool)]) -> Answer<Job> {
    let mut job = Job::begin(handle)?;
    for (vector, writes) in vectors {
        if *writes && vector.2 == 0 && n > 1 {
            return job.refuse("a result whose elements are one");
        }
        if *writes {
            job.changed(vector.0, vector.1, vector.shape(n));
        } else {
            job.input(vector.0, vector.1, vector.shape(n));
        }
    }
    Ok(job)
}

/// y = alpha x + y
pub(super) fn axpy(handle: usize, compute: Element, n: i64, alpha: Scalar, x: Vector, y: Vector) -> Answer {
    let mut job = begin(handle, count(n), &[(x, false), (y, true)])?;
    let alpha = job.scale(alpha.0, alpha.1)?;
    with_number!(compute, T => job.run(move |_, at| {
        // SAFETY: the job's arguments are in memory.
        unsafe {
            let (alpha, x, mut y) = (T::from_wide(alpha.get(0)), at[0].load::<T>(), at[1].load::<T>());
            add_multiple(&mut y.data, alpha, &x.data);
            at[1].store(&y);
        }
    }))
}

/// x = alpha x
pub(super) fn scal(handle: usize, compute: Element, n: i64, alpha: Scalar, x: Vector) -> Answer {
    let mut job = begin(handle, forward(n, x), &[(x, true)])?;
    let is_real = !alpha.1.is_complex();
    let alpha = job.scale(alpha.0, alpha.1)?;
    with_number!(compute, T => job.run(move |_, at| {
        // SAFETY: the job's arguments are in memory.
        unsafe {
            let (alpha, mut x) = (alpha.get(0), at[0].load::<T>());
            for value in &mut x.data {
                // A real factor scales both parts, also of what is not finite.
                *value = if is_real { T::from_wide(value.wide() * alpha.re) } else { *value * T::from_wide(alpha) };
            }
            at[0].store(&x);
        }
    }))
}

/// y = x
pub(super) fn copy(handle: usize, n: i64, x: Vector, y: Vector) -> Answer {
    let job = begin(handle, count(n), &[(x, false), (y, true)])?;
    with_number!(x.1, T => job.run(move |_, at| {
        // SAFETY: the job's arguments are in memory.
        unsafe {
            let mut y = at[1].blank::<T>();
            y.data = at[0].load::<T>().data;
            at[1].store(&y);
        }
    }))
}

/// Exchanges x and y.
pub(super) fn swap(handle: usize, n: i64, x: Vector, y: Vector) -> Answer {
    let job = begin(handle, count(n), &[(x, true), (y, true)])?;
    with_number!(x.1, T => job.run(move |_, at| {
        // SAFETY: the job's arguments are in memory.
        unsafe {
            let (mut x, mut y) = (at[0].load::<T>(), at[1].load::<T>());
            std::mem::swap(&mut x.data, &mut y.data);
            at[0].store(&x);
            at[1].store(&y);
        }
    }))
}

/// The sum of x y, or of conj(x) y.
pub(super) fn dot(
    handle: usize,
    compute: Element,
    conjugate: bool,
    n: i64,
    x: Vector,
    y: Vector,
    result: Scalar,
) -> Answer {
    let mut job = begin(handle, count(n), &[(x, false), (y, false)])?;
    let result = job.result(result.0, result.1, 1, false)?;
    with_number!(compute, T => job.run(move |_, at| {
        // SAFETY: the job's arguments are in memory.
        unsafe {
            let (x, y) = (at[0].load::<T>(), at[1].load::<T>());
            let mut sum = <T as num_traits::Zero>::zero();
            for (x, y) in x.data.iter().zip(&y.data) {
                sum += if conjugate { x.conj() } else { *x } * *y;
            }
            result.write(0, sum.wide());
        }
    }))
}

/// The result of reducing one vector.
#[derive(Clone, Copy)]
pub(super) enum Reduction {
    /// The sum of |re| + |im|.
    Sum,
    /// The Euclidean norm.
    Norm,
    /// The index, from 1, of the first element with the largest |re| + |im|.
    Largest,
    Smallest,
}

impl Reduction {
    fn apply<T: Number>(self, x: &[T]) -> f64 {
        let index = |is_better: fn(f64, f64) -> bool| {
            let mut best: Option<(usize, f64)> = None;
            for (index, size) in x.iter().map(|value| value.size()).enumerate() {
                if best.is_none_or(|(_, other)| is_better(size, other)) {
                    best = Some((index + 1, size));
                }
            }
            best.map_or(0.0, |(index, _)| index as f64)
        };
        match self {
            Self::Sum if T::REAL == Element::F32 => {
                f64::from(x.iter().fold(0.0_f32, |sum, value| sum + value.size() as f32))
            }
            Self::Sum => x.iter().map(|value| value.size()).sum(),
            Self::Norm => norm(x),
            Self::Largest => index(|size, best| size > best),
            Self::Smallest => index(|size, best| size < best),
        }
    }
}

/// The Euclidean norm, computed so that no square overflows or underflows.
pub(super) fn norm<T: Number>(x: &[T]) -> f64 {
    let parts = || x.iter().flat_map(|value| [value.wide().re, value.wide().im]);
    let plain = parts().map(|part| part * part).sum::<f64>();
    if (1e-280..1e300).contains(&plain) || plain.is_nan() {
        return plain.sqrt();
    }
    let largest = parts().map(f64::abs).fold(0.0, f64::max);
    if largest == 0.0 || largest.is_infinite() {
        return largest;
    }
    largest * parts().map(|part| (part / largest).powi(2)).sum::<f64>().sqrt()
}

/// Reduces a vector to a number.
pub(super) fn reduce(
    handle: usize,
    compute: Element,
    reduction: Reduction,
    n: i64,
    x: Vector,
    result: Scalar,
) -> Answer {
    let mut job = begin(handle, forward(n, x), &[(x, false)])?;
    let result = job.result(result.0, result.1, 1, false)?;
    with_number!(compute, T => job.run(move |_, at| {
        // SAFETY: the job's arguments are in memory.
        unsafe { result.write(0, Wide::new(reduction.apply(&at[0].load::<T>().data), 0.0)) };
    }))
}

/// x = c x + s y, y = c y - conj(s) x
pub(super) fn rot(handle: usize, compute: Element, n: i64, x: Vector, y: Vector, c: Scalar, s: Scalar) -> Answer {
    let mut job = begin(handle, count(n), &[(x, true), (y, true)])?;
    let (c, s) = (job.scale(c.0, c.1)?, job.scale(s.0, s.1)?);
    with_number!(compute, T => job.run(move |_, at| {
        // SAFETY: the job's arguments are in memory.
        unsafe {
            let (c, s) = (T::from_wide(c.get(0)), T::from_wide(s.get(0)));
            let (mut x, mut y) = (at[0].load::<T>(), at[1].load::<T>());
            for (x, y) in x.data.iter_mut().zip(&mut y.data) {
                (*x, *y) = (c * *x + s * *y, c * *y - s.conj() * *x);
            }
            at[0].store(&x);
            at[1].store(&y);
        }
    }))
}

/// Rotates each (x, y) by the modified rotation of five parameters: a flag, h11, h21, h12, h22.
pub(super) fn rotm(handle: usize, compute: Element, n: i64, x: Vector, y: Vector, parameters: Scalar) -> Answer {
    let mut job = begin(handle, count(n), &[(x, true), (y, true)])?;
    let at = |index: usize| parameters.0.wrapping_add(index * parameters.1.size());
    if parameters.0 == 0 {
        job.scale(0, parameters.1)?;
    }
    let flag = job.scale(at(0), parameters.1)?;
    // Which of the others are read depends on the flag, but all have their place.
    let mut h = [flag; 4];
    for (index, value) in h.iter_mut().enumerate() {
        *value = job.scale(at(index + 1), parameters.1)?;
    }
    with_number!(compute, T => job.run(move |_, at| {
        // SAFETY: the job's arguments are in memory.
        unsafe {
            let one = <T as num_traits::One>::one();
            let [h11, h21, h12, h22] = h.map(|value| T::from_wide(value.get(0)));
            let flag = flag.get(0).re;
            let (h11, h21, h12, h22) = match flag {
                -2.0 => return,
                -1.0 => (h11, h21, h12, h22),
                0.0 => (one, h21, h12, one),
                _ => (h11, -one, one, h22),
            };
            let (mut x, mut y) = (at[0].load::<T>(), at[1].load::<T>());
            for (x, y) in x.data.iter_mut().zip(&mut y.data) {
                (*x, *y) = (h11 * *x + h12 * *y, h21 * *x + h22 * *y);
            }
            at[0].store(&x);
            at[1].store(&y);
        }
    }))
}
