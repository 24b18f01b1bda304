//! A transform as numbers: which complex or real numbers it reads, where they are, and what becomes of them. RustFFT makes the
//! one-dimensional transforms. Nothing is scaled, as in cuFFT.

use std::sync::Arc;

use fourier::{Complex, Fft, Number};

/// Which numbers it takes and gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Complex,
    /// Of real numbers: the first half of the last dimension, and one more. The rest would be their conjugates.
    RealToComplex,
    /// The other way.
    ComplexToReal,
}

/// The one-dimensional transforms of a plan, by dimension: forward and inverse.
type Lines<T> = Vec<[Arc<dyn Fft<T>>; 2]>;

/// The transforms in the precision of the plan.
pub(super) enum Precision {
    Single(Lines<f32>),
    Double(Lines<f64>),
}

/// Where the numbers of a batch are, in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// The dimensions of the array that they are the beginning of.
    pub(super) embedding: Vec<usize>,
    /// From one to the next in the last dimension.
    pub(super) stride: usize,
    /// From one batch to the next.
    pub(super) distance: usize,
}

impl Layout {
    /// One after the other, in rows of `row` numbers.
    pub(super) fn dense(outer: &[usize], row: usize) -> Self {
        let embedding: Vec<usize> = outer.iter().copied().chain([row]).collect();
        Self { distance: embedding.iter().product(), embedding, stride: 1 }
    }

    /// Where the rows of a batch begin, if there are so many in each dimension but the last.
    fn rows(&self, batch: usize, outer: &[usize]) -> Vec<usize> {
        let mut starts = vec![0];
        for (dimension, count) in outer.iter().enumerate() {
            let next = self.embedding[dimension + 1];
            let within = |start: &usize| (0..*count).map(move |index| (start + index) * next).collect::<Vec<_>>();
            starts = starts.iter().flat_map(within).collect();
        }
        starts.into_iter().map(|start| batch * self.distance + start * self.stride).collect()
    }

    /// How many numbers lie between the first and the one behind the last, in batches of this many dimensions.
    pub(super) fn extent(&self, batches: usize, dimensions: &[usize]) -> usize {
        let mut last = 0;
        for (dimension, count) in dimensions.iter().enumerate() {
            last = last * if dimension == 0 { 1 } else { self.embedding[dimension] } + (count - 1);
        }
        (batches - 1) * self.distance + last * self.stride + 1
    }
}

/// A plan that was made.
pub(super) struct Transform {
    pub(super) kind: Kind,
    pub(super) precision: Precision,
    /// Of the transform, in numbers of its larger side.
    pub(super) dimensions: Vec<usize>,
    pub(super) batches: usize,
    /// Of what is read and of what is written; `None` for the usual ones.
    pub(super) layouts: Option<[Layout; 2]>,
}

impl Transform {
    /// With its one-dimensional transforms.
    pub(super) fn new(
        kind: Kind,
        is_double: bool,
        dimensions: Vec<usize>,
        batches: usize,
        layouts: Option<[Layout; 2]>,
    ) -> Self {
        let precision = if is_double {
            Precision::Double(f64::plan(&dimensions))
        } else {
            Precision::Single(f32::plan(&dimensions))
        };
        Self { kind, precision, dimensions, batches, layouts }
    }

    /// The dimensions of what it reads and of what it writes.
    pub(super) fn sides(&self) -> [Vec<usize>; 2] {
        let (last, outer) = self.ends();
        let half: Vec<usize> = outer.iter().copied().chain([last / 2 + 1]).collect();
        let whole = self.dimensions.clone();
        match self.kind {
            Kind::Complex => [whole.clone(), whole],
            Kind::RealToComplex => [whole, half],
            Kind::ComplexToReal => [half, whole],
        }
    }

    /// Where they are. Real numbers in place of complex ones have rows as long as those (cuFFT, "Data Layout").
    pub(super) fn placed(&self, is_in_place: bool) -> [Layout; 2] {
        if let Some(layouts) = &self.layouts {
            return layouts.clone();
        }
        let (last, outer) = self.ends();
        let half = last / 2 + 1;
        let complex = |row| Layout::dense(outer, row);
        let real = || Layout::dense(outer, if is_in_place { 2 * half } else { last });
        match self.kind {
            Kind::Complex => [complex(last), complex(last)],
            Kind::RealToComplex => [real(), complex(half)],
            Kind::ComplexToReal => [complex(half), real()],
        }
    }

    /// The last dimension, and the others.
    fn ends(&self) -> (usize, &[usize]) {
        self.dimensions.split_last().map_or((1, &[]), |(last, outer)| (*last, outer))
    }

    /// Does it.
    ///
    /// # Safety
    /// The numbers of [`Transform::placed`] exist at both addresses, and nobody else uses them meanwhile.
    pub(super) unsafe fn run(&self, from: usize, to: usize, is_inverse: bool) {
        // SAFETY: by the caller.
        unsafe {
            match &self.precision {
                Precision::Single(lines) => self.run_in(lines, from, to, is_inverse),
                Precision::Double(lines) => self.run_in(lines, from, to, is_inverse),
            }
        }
    }

    /// # Safety
    /// As for [`Transform::run`].
    unsafe fn run_in<T: Number>(&self, lines: &[[Arc<dyn Fft<T>>; 2]], from: usize, to: usize, is_inverse: bool) {
        let [read, written] = self.placed(from == to);
        let (last, outer) = self.ends();
        let half = last / 2 + 1;
        let along = |numbers: &mut [Complex<T>], row: usize, dimension: usize, is_inverse: bool| {
            let inner: usize = outer.iter().skip(dimension + 1).product::<usize>() * row;
            transform(numbers, inner, &*lines[dimension][usize::from(is_inverse)]);
        };
        let in_rows = |numbers: &mut [Complex<T>], is_inverse: bool| {
            lines[outer.len()][usize::from(is_inverse)].process(numbers);
        };
        for batch in 0..self.batches {
            let (sources, targets) = (read.rows(batch, outer), written.rows(batch, outer));
            // SAFETY: by the caller.
            unsafe {
                match self.kind {
                    Kind::Complex => {
                        let mut numbers: Vec<Complex<T>> = gather(from, &sources, read.stride, last);
                        in_rows(&mut numbers, is_inverse);
                        (0..outer.len()).for_each(|dimension| along(&mut numbers, last, dimension, is_inverse));
                        scatter(to, &targets, written.stride, last, &numbers);
                    }
                    Kind::RealToComplex => {
                        let real: Vec<T> = gather(from, &sources, read.stride, last);
                        let mut numbers: Vec<_> = real.into_iter().map(|real| Complex::new(real, T::zero())).collect();
                        in_rows(&mut numbers, false);
                        let mut numbers: Vec<_> = numbers.chunks(last).flat_map(|row| &row[..half]).copied().collect();
                        (0..outer.len()).for_each(|dimension| along(&mut numbers, half, dimension, false));
                        scatter(to, &targets, written.stride, half, &numbers);
                    }
                    Kind::ComplexToReal => {
                        let mut numbers: Vec<Complex<T>> = gather(from, &sources, read.stride, half);
                        (0..outer.len()).for_each(|dimension| along(&mut numbers, half, dimension, true));
                        let rest =
                            |row: &[Complex<T>]| row[1..last - half + 1].iter().rev().map(Complex::conj).collect();
                        let whole = |row: &[Complex<T>]| [row.to_vec(), rest(row)].concat();
                        let mut numbers: Vec<_> = numbers.chunks(half).flat_map(whole).collect();
                        in_rows(&mut numbers, true);
                        let real: Vec<T> = numbers.into_iter().map(|number| number.re).collect();
                        scatter(to, &targets, written.stride, last, &real);
                    }
                }
            }
        }
    }
}

/// Transforms the lines along a dimension, in which numbers are `inner` apart.
fn transform<T: Number>(numbers: &mut [Complex<T>], inner: usize, line: &dyn Fft<T>) {
    let mut one = vec![Complex::new(T::zero(), T::zero()); line.len()];
    for block in numbers.chunks_mut(line.len() * inner) {
        for start in 0..inner {
            for (number, index) in one.iter_mut().zip(0..) {
                *number = block[start + index * inner];
            }
            line.process(&mut one);
            for (number, index) in one.iter().zip(0..) {
                block[start + index * inner] = *number;
            }
        }
    }
}

/// # Safety
/// The numbers exist.
unsafe fn gather<T: Copy>(address: usize, rows: &[usize], stride: usize, count: usize) -> Vec<T> {
    let base = address as *const T;
    let indices = rows.iter().flat_map(|row| (0..count).map(move |index| row + index * stride));
    // SAFETY: by the caller. CUDA wants them aligned, and this library does not.
    indices.map(|index| unsafe { base.add(index).read_unaligned() }).collect()
}

/// # Safety
/// Their places exist.
unsafe fn scatter<T: Copy>(address: usize, rows: &[usize], stride: usize, count: usize, numbers: &[T]) {
    let base = address as *mut T;
    let indices = rows.iter().flat_map(|row| (0..count).map(move |index| row + index * stride));
    for (index, number) in indices.zip(numbers) {
        // SAFETY: by the caller.
        unsafe { base.add(index).write_unaligned(*number) };
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::TAU;

    use super::*;

    /// The definition, in as many dimensions: a sum over all numbers for each result.
    fn by_definition(dimensions: &[usize], numbers: &[Complex<f64>], sign: f64) -> Vec<Complex<f64>> {
        let indices = |flat: usize| {
            let mut rest = flat;
            let mut found: Vec<usize> =
                dimensions.iter().rev().map(|length| (rest % length, rest /= length).0).collect();
            found.reverse();
            found
        };
        let term = |result: usize, at: usize| {
            let turns: f64 = indices(result)
                .iter()
                .zip(indices(at))
                .zip(dimensions)
                .map(|((k, j), length)| (k * j) as f64 / *length as f64)
                .sum();
            numbers[at] * Complex::from_polar(1.0, sign * TAU * turns)
        };
        (0..numbers.len()).map(|result| (0..numbers.len()).map(|at| term(result, at)).sum()).collect()
    }

    fn numbers(count: usize) -> Vec<Complex<f64>> {
        (0..count).map(|index| Complex::new((index * 7 % 11) as f64 - 5.0, (index * 5 % 13) as f64 - 6.0)).collect()
    }

    fn run<A: Copy, B: Copy>(transform: &Transform, from: &[A], to: &mut [B], is_inverse: bool) {
        // SAFETY: both slices hold what the layouts of the test say.
        unsafe { transform.run(from.as_ptr() as usize, to.as_mut_ptr() as usize, is_inverse) };
    }

    fn assert_close(got: &[Complex<f64>], expected: &[Complex<f64>]) {
        assert_eq!(got.len(), expected.len());
        for (got, expected) in got.iter().zip(expected) {
            assert!((got - expected).norm() < 1e-9 * (1.0 + expected.norm()), "{got} instead of {expected}");
        }
    }

    #[test]
    fn each_number_of_dimensions_is_the_sum_of_the_definition() {
        for dimensions in [vec![1], vec![7], vec![8], vec![3, 4], vec![2, 3, 5]] {
            let count = dimensions.iter().product();
            let input = numbers(count);
            for (is_inverse, sign) in [(false, -1.0), (true, 1.0)] {
                let transform = Transform::new(Kind::Complex, true, dimensions.clone(), 1, None);
                let mut output = vec![Complex::new(0.0, 0.0); count];
                run(&transform, &input, &mut output, is_inverse);
                assert_close(&output, &by_definition(&dimensions, &input, sign));
            }
        }
    }

    #[test]
    fn real_numbers_have_half_of_the_results_and_come_back() {
        for dimensions in [vec![1], vec![2], vec![7], vec![8], vec![3, 4], vec![4, 3], vec![2, 3, 5]] {
            let count: usize = dimensions.iter().product();
            let real: Vec<f64> = numbers(count).iter().map(|number| number.re).collect();
            let complex: Vec<_> = real.iter().map(|real| Complex::new(*real, 0.0)).collect();
            let (last, half) = (dimensions[dimensions.len() - 1], dimensions[dimensions.len() - 1] / 2 + 1);
            let expected: Vec<_> =
                by_definition(&dimensions, &complex, -1.0).chunks(last).flat_map(|row| row[..half].to_vec()).collect();
            let mut output = vec![Complex::new(0.0, 0.0); expected.len()];
            run(&Transform::new(Kind::RealToComplex, true, dimensions.clone(), 1, None), &real, &mut output, false);
            assert_close(&output, &expected);
            let mut back = vec![0.0; count];
            run(&Transform::new(Kind::ComplexToReal, true, dimensions.clone(), 1, None), &output, &mut back, true);
            for (got, real) in back.iter().zip(&real) {
                assert!((got / count as f64 - real).abs() < 1e-9, "{got} instead of {real}, {count} times");
            }
        }
    }

    #[test]
    fn batches_and_strides_are_where_the_layout_says() {
        // Two batches of three numbers, one between any two, and one behind each batch.
        let layout = Layout { embedding: vec![3], stride: 2, distance: 7 };
        assert_eq!(layout.extent(2, &[3]), 12);
        let input: Vec<Complex<f32>> = (0..14).map(|index| Complex::new(index as f32, 0.0)).collect();
        let dense = Layout::dense(&[], 3);
        let transform = Transform::new(Kind::Complex, false, vec![3], 2, Some([layout, dense]));
        let mut output = vec![Complex::new(0.0_f32, 0.0); 6];
        run(&transform, &input, &mut output, false);
        // The sums of 0, 2, 4 and of 7, 9, 11.
        assert_eq!((output[0].re, output[3].re), (6.0, 27.0));
        // A matrix that is the corner of a larger one.
        let corner = Layout { embedding: vec![2, 5], stride: 1, distance: 10 };
        assert_eq!((corner.rows(1, &[2]), corner.extent(2, &[2, 3])), (vec![10, 15], 18));
    }

    #[test]
    fn real_numbers_in_place_have_room_at_the_end_of_each_row() {
        let transform = Transform::new(Kind::RealToComplex, false, vec![2, 4], 1, None);
        let mut memory = [1.0_f32, 2.0, 3.0, 4.0, -1.0, -1.0, 5.0, 6.0, 7.0, 8.0, -1.0, -1.0];
        let address = memory.as_mut_ptr() as usize;
        // SAFETY: two rows of three complex numbers.
        unsafe { transform.run(address, address, false) };
        assert_eq!(memory[..2], [36.0, 0.0]);
        assert_eq!(transform.placed(true)[0].embedding, [2, 6]);
    }
}
