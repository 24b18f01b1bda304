//! Matrix products in host arithmetic: D = epilogue(alpha * op(A) * op(B) + beta * C), for f16, bf16, f32, f64 and integers of
//! 8 bits. Products of f64 are summed in f64, of integers in 32 bits that wrap, all others in f32, in order of k. What is not
//! read in NVIDIA's library (C where beta is 0) is not read here.

use half::{bf16, f16};

use crate::device::address::{self, Known};
use crate::sanitizer::init::{self, Needs, Read};
use crate::sanitizer::races::Access;

/// A matrix in more pieces is not looked at for races: each costs time and memory.
const MOST_COLUMNS: usize = 256;

/// Element type of a matrix, by `cudaDataType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    F32,
    F64,
    F16,
    Bf16,
    I8,
    /// Sums of products of `I8`.
    I32,
}

impl Element {
    /// Its name in a profile's `supported_types`.
    pub(crate) fn profile_word(self) -> &'static str {
        match self {
            Self::F32 => "fp32",
            Self::F64 => "fp64",
            Self::F16 => "fp16",
            Self::Bf16 => "bf16",
            Self::I8 | Self::I32 => "int8",
        }
    }

    /// By `cudaDataType`; `None` for the types that are not computed here (complex, unsigned, floating point of 8 bits).
    pub(crate) fn from_code(code: i32) -> Option<Self> {
        match code {
            0 => Some(Self::F32),
            1 => Some(Self::F64),
            2 => Some(Self::F16),
            3 => Some(Self::I8),
            10 => Some(Self::I32),
            14 => Some(Self::Bf16),
            _ => None,
        }
    }

    fn size(self) -> usize {
        match self {
            Self::F64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::I8 => 1,
        }
    }

    /// # Safety
    /// An element of this type is at `address`.
    pub(crate) unsafe fn read(self, address: usize) -> f64 {
        // SAFETY: as promised by the caller; alignment is not needed.
        unsafe {
            match self {
                Self::F32 => f64::from((address as *const f32).read_unaligned()),
                Self::F64 => (address as *const f64).read_unaligned(),
                Self::F16 => f16::from_bits((address as *const u16).read_unaligned()).to_f64(),
                Self::Bf16 => bf16::from_bits((address as *const u16).read_unaligned()).to_f64(),
                Self::I8 => f64::from((address as *const i8).read()),
                Self::I32 => f64::from((address as *const i32).read_unaligned()),
            }
        }
    }

    /// # Safety
    /// An element of this type may be written at `address`.
    unsafe fn write(self, address: usize, value: f64) {
        // SAFETY: as promised by the caller; alignment is not needed.
        unsafe {
            match self {
                Self::F32 => (address as *mut f32).write_unaligned(value as f32),
                Self::F64 => (address as *mut f64).write_unaligned(value),
                // By way of f32, in which the sum was made.
                Self::F16 => (address as *mut u16).write_unaligned(f16::from_f32(value as f32).to_bits()),
                Self::Bf16 => (address as *mut u16).write_unaligned(bf16::from_f32(value as f32).to_bits()),
                // To the nearest, ties to even, and no further than the ends of the range.
                Self::I8 => (address as *mut i8).write(value.round_ties_even() as i8),
                Self::I32 => (address as *mut i32).write_unaligned(value as i32),
            }
        }
    }
}

/// A matrix in memory, one per product of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix {
    pub(crate) address: usize,
    pub(crate) element: Element,
    /// Elements from one column to the next, or from one row to the next in row order.
    pub(crate) leading: usize,
    /// Stored by rows, or to be read transposed: (i, j) is element (j, i) of what is stored by columns.
    pub(crate) transposed: bool,
    /// Elements from one product's matrix to the next one's.
    pub(crate) stride: i64,
}

impl Matrix {
    /// Address of element (i, j) in product `batch`.
    fn at(&self, batch: usize, i: usize, j: usize) -> usize {
        let (row, column) = if self.transposed { (j, i) } else { (i, j) };
        let index = (batch as i64 * self.stride) as usize + column * self.leading + row;
        self.address.wrapping_add(index.wrapping_mul(self.element.size()))
    }

    /// The leading dimension holds a column of what is stored, and the `rows` x `columns` matrices of the whole batch are
    /// in memory that CUDA knows.
    fn check(&self, rows: usize, columns: usize, batch: usize) -> Result<(), Fault> {
        let (rows, columns) = if self.transposed { (columns, rows) } else { (rows, columns) };
        if self.leading < rows.max(1) {
            return Err(Fault::Value);
        }
        if rows == 0 || columns == 0 {
            return Ok(());
        }
        let last = (batch as i64 - 1) * self.stride;
        let first = last.min(0);
        let span = (last.max(0) - first) as usize + (columns - 1) * self.leading + rows;
        let start = self.address.wrapping_add_signed(first as isize * self.element.size() as isize);
        match address::known(start, span * self.element.size()) {
            Ok(Known::Device(_) | Known::Host) => Ok(()),
            _ => Err(Fault::Address),
        }
    }
}

impl Matrix {
    /// Address and bytes of the columns of what is stored.
    fn columns(&self, rows: usize, columns: usize, batch: usize) -> Vec<(usize, usize)> {
        let (length, count) = if self.transposed { (columns, rows) } else { (rows, columns) };
        let start = |batch, column| if self.transposed { self.at(batch, column, 0) } else { self.at(batch, 0, column) };
        let of_one = |batch| (0..count).map(move |column| (start(batch, column), length * self.element.size()));
        (0..batch).flat_map(of_one).collect()
    }
}

/// Pieces of memory in order, as few as they are.
fn joined(pieces: Vec<(usize, usize)>) -> Vec<(usize, usize)> {
    let mut together: Vec<(usize, usize)> = Vec::new();
    for (address, bytes) in pieces {
        match together.last_mut() {
            Some((start, length)) if *start + *length == address => *length += bytes,
            _ => together.push((address, bytes)),
        }
    }
    together
}

/// Where alpha or beta is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scale {
    /// Read already.
    Value(f64),
    /// In memory that is read when the product is computed.
    At(usize, Element),
    /// There too, one for each row of D.
    ByRow(usize, Element),
}

impl Scale {
    fn get(self, row: usize) -> f64 {
        match self {
            Self::Value(value) => value,
            // SAFETY: the address was checked by `Product::check`.
            Self::At(address, element) => unsafe { element.read(address) },
            // SAFETY: as above, for as many as there are rows.
            Self::ByRow(address, element) => unsafe { element.read(address + row * element.size()) },
        }
    }
}

/// What is done to each sum last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activation {
    None,
    Relu,
    /// The tanh approximation.
    Gelu,
}

/// Why a product is not computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A dimension or leading dimension makes no sense.
    Value,
    /// A matrix is not in memory that the GPU could reach: a real one would fail while it computes.
    Address,
}

/// A product, or `batch` of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) a: Matrix,
    pub(crate) b: Matrix,
    pub(crate) c: Matrix,
    pub(crate) d: Matrix,
    pub(crate) alpha: Scale,
    pub(crate) beta: Scale,
    pub(crate) batch: usize,
    /// One value per row of D, added to it.
    pub(crate) bias: Option<(usize, Element)>,
    pub(crate) activation: Activation,
}

impl Product {
    /// Multiply-adds.
    pub(crate) fn operations(&self) -> u64 {
        [self.n, self.k, self.batch]
            .iter()
            .fold(self.m as u64, |product, factor| product.saturating_mul(*factor as u64))
    }

    /// Whether the product can be computed.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        self.a.check(self.m, self.k, self.batch)?;
        self.b.check(self.k, self.n, self.batch)?;
        self.d.check(self.m, self.n, self.batch)?;
        if !matches!(self.beta, Scale::Value(0.0)) {
            self.c.check(self.m, self.n, self.batch)?;
        }
        let small = [self.alpha, self.beta].into_iter().filter_map(|scale| match scale {
            Scale::At(address, element) => Some((address, element.size())),
            Scale::ByRow(address, element) => Some((address, element.size() * self.m)),
            Scale::Value(_) => None,
        });
        let bias = self.bias.map(|(address, element)| (address, element.size() * self.m));
        for (address, bytes) in small.chain(bias) {
            if !matches!(address::known(address, bytes), Ok(Known::Device(_) | Known::Host)) {
                return Err(Fault::Address);
            }
        }
        Ok(())
    }

    /// What it does to memory that nobody wrote, as the call `name`.
    pub(crate) fn follow(&self, name: &'static str) {
        let mut reads = vec![self.a.columns(self.m, self.k, self.batch), self.b.columns(self.k, self.n, self.batch)];
        // Where it is in device memory, whether C is read is known too late.
        if matches!(self.beta, Scale::Value(beta) if beta != 0.0) {
            reads.push(self.c.columns(self.m, self.n, self.batch));
        }
        let reads = reads.into_iter().map(|pieces| Read { pieces, needs: Needs::All });
        init::read(name, &reads.collect::<Vec<_>>());
        for (address, bytes) in self.d.columns(self.m, self.n, self.batch) {
            init::written(address, bytes);
        }
    }

    /// The bytes that it reads and writes. Of a matrix with more columns that are apart than are looked at, none.
    pub(crate) fn accesses(&self) -> Vec<Access> {
        let mut accesses = Vec::new();
        let mut touch = |columns: Vec<(usize, usize)>, writes: bool| {
            let together = joined(columns);
            if together.len() <= MOST_COLUMNS {
                accesses.extend(together.into_iter().map(|(address, bytes)| Access { address, bytes, writes }));
            }
        };
        touch(self.a.columns(self.m, self.k, self.batch), false);
        touch(self.b.columns(self.k, self.n, self.batch), false);
        if matches!(self.beta, Scale::Value(beta) if beta != 0.0) {
            touch(self.c.columns(self.m, self.n, self.batch), false);
        }
        touch(self.d.columns(self.m, self.n, self.batch), true);
        accesses
    }

    /// Computes it.
    ///
    /// # Safety
    /// [`Product::check`] accepted it, and its memory is still there.
    pub(crate) unsafe fn compute(&self) {
        for batch in 0..self.batch {
            // SAFETY: passed on.
            unsafe {
                match self.a.element {
                    Element::F64 => self.compute_one::<f64>(batch),
                    Element::I8 | Element::I32 => self.compute_one::<i32>(batch),
                    Element::F32 | Element::F16 | Element::Bf16 => self.compute_one::<f32>(batch),
                }
            }
        }
    }

    /// # Safety
    /// As [`Product::compute`].
    unsafe fn compute_one<T: Sum>(&self, batch: usize) {
        /// Columns of D that share one pass over A.
        const COLUMNS: usize = 8;
        let (m, n, k) = (self.m, self.n, self.k);
        let beta = self.beta.get(0);
        let alphas: Vec<f64> = (0..m).map(|row| self.alpha.get(row)).collect();
        let mut a = Vec::with_capacity(m * k);
        for p in 0..k {
            // SAFETY: (i, p) is in A, which `check` saw whole.
            a.extend((0..m).map(|i| T::from_f64(unsafe { self.a.element.read(self.a.at(batch, i, p)) })));
        }
        let mut sums = vec![T::ZERO; m * COLUMNS];
        for first in (0..n).step_by(COLUMNS) {
            let columns = COLUMNS.min(n - first);
            sums.fill(T::ZERO);
            for p in 0..k {
                let column = &a[p * m..(p + 1) * m];
                for j in 0..columns {
                    // SAFETY: (p, first + j) is in B, which `check` saw whole.
                    let factor = T::from_f64(unsafe { self.b.element.read(self.b.at(batch, p, first + j)) });
                    for (sum, value) in sums[j * m..(j + 1) * m].iter_mut().zip(column) {
                        *sum = sum.add_product(*value, factor);
                    }
                }
            }
            for j in 0..columns {
                for i in 0..m {
                    let (row, column) = (i, first + j);
                    let mut value = sums[j * m + i].scaled(alphas[row], self.d.element);
                    if beta != 0.0 {
                        // SAFETY: (i, j) is in C, which `check` saw whole as beta was not known to be 0.
                        let before = unsafe { self.c.element.read(self.c.at(batch, row, column)) };
                        value = T::sum(value, beta * before, self.d.element);
                    }
                    if let Some((bias, element)) = self.bias {
                        // SAFETY: the bias has m elements, as `check` saw.
                        value += unsafe { element.read(bias + row * element.size()) };
                    }
                    // SAFETY: (i, j) is in D, which `check` saw whole.
                    unsafe { self.d.element.write(self.d.at(batch, row, column), activate(value, self.activation)) };
                }
            }
        }
    }
}

fn activate(value: f64, activation: Activation) -> f64 {
    match activation {
        Activation::None => value,
        // Not `max`, which would hide a NaN.
        Activation::Relu => {
            if value < 0.0 {
                0.0
            } else {
                value
            }
        }
        Activation::Gelu => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (value + 0.044_715 * value.powi(3));
            0.5 * value * (1.0 + inner.tanh())
        }
    }
}

/// The type that sums are made in.
trait Sum: Copy {
    const ZERO: Self;
    fn from_f64(value: f64) -> Self;
    /// Times `factor`, for a result of type `to`.
    fn scaled(self, factor: f64, to: Element) -> f64;
    fn add_product(self, left: Self, right: Self) -> Self;

    /// Of two such results.
    fn sum(left: f64, right: f64, _to: Element) -> f64 {
        left + right
    }
}

macro_rules! sum {
    ($($type:ty)*) => { $(impl Sum for $type {
        const ZERO: Self = 0.0;
        fn from_f64(value: f64) -> Self { value as $type }
        fn scaled(self, factor: f64, _to: Element) -> f64 { factor * f64::from(self) }
        fn add_product(self, left: Self, right: Self) -> Self { self + left * right }
    })* };
}

sum!(f32 f64);

impl Sum for i32 {
    const ZERO: Self = 0;

    fn from_f64(value: f64) -> Self {
        value as i32
    }

    /// 32 bits stay 32 bits and wrap; to 8 bits it goes by way of f32.
    fn scaled(self, factor: f64, to: Element) -> f64 {
        match to {
            Element::I32 => f64::from(self.wrapping_mul(factor as i32)),
            _ => f64::from(self as f32 * factor as f32),
        }
    }

    fn add_product(self, left: Self, right: Self) -> Self {
        self.wrapping_add(left.wrapping_mul(right))
    }

    fn sum(left: f64, right: f64, to: Element) -> f64 {
        match to {
            Element::I32 => f64::from((left as i32).wrapping_add(right as i64 as i32)),
            _ => left + right,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(data: &[f32], leading: usize, transposed: bool, stride: i64) -> Matrix {
        Matrix { address: data.as_ptr() as usize, element: Element::F32, leading, transposed, stride }
    }

    /// A (2x3) times B (3x2), written out by hand; A is given as it is and transposed.
    #[test]
    fn columns_that_follow_one_another_are_one_access() {
        assert_eq!(joined(vec![(100, 8), (108, 8), (116, 4)]), [(100, 20)]);
        assert_eq!(joined(vec![(100, 8), (112, 8)]), [(100, 8), (112, 8)]);
        assert_eq!(joined(Vec::new()), []);
    }

    #[test]
    fn a_small_product_is_what_it_is_on_paper() {
        // Columns of A: (1 4) (2 5) (3 6); its transpose is stored as columns (1 2 3) (4 5 6).
        let a = [1., 4., 2., 5., 3., 6.];
        let a_transposed = [1., 2., 3., 4., 5., 6.];
        let b = [7., 9., 11., 8., 10., 12.];
        let c = [1., 1., 1., f32::NAN];
        for (left, leading, transposed) in [(&a, 2, false), (&a_transposed, 3, true)] {
            let d = [0_f32; 4];
            let product = Product {
                m: 2,
                n: 2,
                k: 3,
                a: matrix(left, leading, transposed, 0),
                b: matrix(&b, 3, false, 0),
                c: matrix(&c, 2, false, 0),
                d: matrix(&d, 2, false, 0),
                alpha: Scale::Value(2.0),
                beta: Scale::Value(0.0),
                batch: 1,
                bias: Some((c.as_ptr() as usize, Element::F32)),
                activation: Activation::Relu,
            };
            // SAFETY: every matrix has the size said above.
            unsafe { product.compute() };
            // 58 64 / 139 154 on paper, times 2 plus 1; C, which holds a NaN, is not read.
            assert_eq!(std::hint::black_box(d), [117., 279., 129., 309.]);
            assert_eq!(product.operations(), 12);
        }
    }

    #[test]
    fn halves_are_rounded_once() {
        // 2049 has no f16; the nearest even one is 2048.
        let (a, b) = ([f16::from_f32(2048.).to_bits(), f16::ONE.to_bits()], [f16::ONE.to_bits(); 2]);
        let d = [0_u16; 1];
        let half = |data: &[u16], leading, transposed| Matrix {
            address: data.as_ptr() as usize,
            element: Element::F16,
            leading,
            transposed,
            stride: 0,
        };
        let product = Product {
            m: 1,
            n: 1,
            k: 2,
            a: half(&a, 1, false),
            b: half(&b, 2, false),
            c: half(&d, 1, false),
            d: half(&d, 1, false),
            alpha: Scale::Value(1.0),
            beta: Scale::Value(0.0),
            batch: 1,
            bias: None,
            activation: Activation::None,
        };
        // SAFETY: every matrix has the size said above.
        unsafe { product.compute() };
        assert_eq!(f16::from_bits(std::hint::black_box(d)[0]).to_f32(), 2048.0);
    }

    #[test]
    fn memory_that_cuda_does_not_know_is_refused() {
        let data = [0_f32; 4];
        let at = |leading| matrix(&data, leading, false, 0);
        assert_eq!(at(1).check(2, 2, 1), Err(Fault::Value));
        assert_eq!(at(2).check(2, 2, 1), Err(Fault::Address));
        assert_eq!(at(2).check(0, 2, 1), Ok(()), "nothing is read of an empty matrix");
    }
}
