//! Matrix products in host arithmetic: D = epilogue(alpha * op(A) * op(B) + beta * C). Products of f64 are summed in f64, complex
//! ones in complex numbers, integers in 32 bits with wrapping, all others in f32, in order of k. Memory that NVIDIA's library
//! does not read (C if beta is 0) is not read here.

use super::dense::{Dense, Transpose};
use super::element::{Element, Wide};
use super::epilogue::Epilogue;
use super::job::{Job, Scale};
use super::number::{Number, with_number};
use super::operand::{Base, Operand, Region, Shape};
use crate::libraries::objects::Answer;

/// A matrix in memory, for each product of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix {
    pub(crate) base: Base,
    pub(crate) element: Element,
    /// Elements from one column to the next, or from one row to the next in row-major order.
    pub(crate) leading: usize,
    /// The operation on the column-major matrix; a row-major matrix is a transposed one.
    pub(crate) operation: Transpose,
}

impl Matrix {
    /// As an argument, of `rows` x `columns` after its operation.
    fn operand(self, rows: usize, columns: usize, reads: bool, writes: bool) -> Operand {
        let (rows, columns) = if self.operation == Transpose::No { (rows, columns) } else { (columns, rows) };
        let shape = Shape::Full { rows, columns, leading: self.leading };
        Operand { base: self.base, element: self.element, shape, reads, writes }
    }
}

/// A product.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product {
    /// Rows and columns of D, and the length of sums.
    pub(crate) size: [usize; 3],
    pub(crate) a: Matrix,
    pub(crate) b: Matrix,
    pub(crate) c: Matrix,
    pub(crate) d: Matrix,
    pub(crate) alpha: Scale,
    pub(crate) beta: Scale,
    pub(crate) epilogue: Epilogue,
}

impl Product {
    /// Computes it in the stream of `job`, for each problem of its batch.
    pub(crate) fn submit(self, mut job: Job) -> Answer {
        let [m, n, k] = self.size;
        let reads_c = self.beta.is_known();
        job.operand(self.a.operand(m, k, true, false));
        job.operand(self.b.operand(k, n, true, false));
        job.operand(self.d.operand(m, n, false, true));
        // Where beta is 0, C may be anything, also no memory.
        if !self.beta.is_zero() {
            job.operand(self.c.operand(m, n, reads_c, false));
        }
        let first = job.operands();
        self.epilogue.arguments(&mut job, self.size);
        let operations = [n, k].iter().fold(m as u64, |product, factor| product.saturating_mul(*factor as u64));
        job.multiplies(self.size);
        job.run_product(operations, move |_, at| {
            if m == 0 || n == 0 {
                return;
            }
            let element = match self.a.element {
                // 53 bits hold every sum of products of 8 bits.
                element if element.is_integer() && self.d.element.is_integer() => Element::F64,
                element => element,
            };
            // SAFETY: the job's arguments are in memory.
            with_number!(element, T => unsafe { self.compute::<T>(at, &at[first..]) });
        })
    }

    /// # Safety
    /// The matrices are in memory.
    unsafe fn compute<T: Number>(&self, at: &[Region], more: &[Region]) {
        let [m, n, _] = self.size;
        // SAFETY: as the caller promises; C is read where beta is not 0.
        unsafe {
            let a = Dense::<T>::load(&at[0], self.a.operation);
            let b = Dense::<T>::load(&at[1], self.b.operation);
            let sums = a.times(&b);
            let beta = self.beta.get(0);
            let c = (beta != Wide::new(0.0, 0.0)).then(|| at[3]);
            let alphas: Vec<Wide> = (0..m).map(|row| self.alpha.get(row)).collect();
            let mut epilogue = self.epilogue.begin(self.size, more);
            epilogue.reduce_inputs(&a, &b);
            let index = |matrix: &Matrix, row, column| {
                if matrix.operation == Transpose::No { (row, column) } else { (column, row) }
            };
            for column in 0..n {
                for (row, &alpha) in alphas.iter().enumerate() {
                    let before = c.map(|c| c.read_at(index(&self.c, row, column)));
                    let sum = sums.get(row, column).wide();
                    let value = if self.d.element == Element::I32 {
                        integer(sum.re, alpha.re, before.map_or(0.0, |before| beta.re * before.re))
                    } else if self.a.element.is_integer() {
                        // To 8 bits it goes by way of f32.
                        f64::from(sum.re as i64 as i32 as f32 * alpha.re as f32)
                            + before.map_or(0.0, |before| beta.re * before.re)
                    } else {
                        let value = epilogue.scaled(alpha * sum)
                            + before.map_or(Wide::new(0.0, 0.0), |before| epilogue.of_c(beta * before));
                        if T::ELEMENT.is_complex() {
                            at[2].write_at(index(&self.d, row, column), value);
                            continue;
                        }
                        value.re
                    };
                    let value = epilogue.finish(row, column, value);
                    at[2].write_at(index(&self.d, row, column), Wide::new(value, 0.0));
                }
            }
            epilogue.end();
        }
    }
}

/// 32 bits stay 32 bits and wrap.
fn integer(sum: f64, alpha: f64, rest: f64) -> f64 {
    let product = (sum as i64 as i32).wrapping_mul(alpha as i32);
    f64::from(product.wrapping_add(rest as i64 as i32))
}
