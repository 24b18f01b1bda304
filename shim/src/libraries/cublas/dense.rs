//! Contiguous column-major matrices, as needed for matrix products.

use std::ops::Range;

use super::number::Number;
use super::operand::{Region, Shape, Stored};

/// `cublasOperation_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transpose {
    No,
    Yes,
    /// Transposed and conjugated.
    Conjugate,
}

impl Transpose {
    /// `None` for an unknown code.
    pub(crate) fn from_code(code: i32) -> Option<Self> {
        match code {
            0 => Some(Self::No),
            1 => Some(Self::Yes),
            2 => Some(Self::Conjugate),
            _ => None,
        }
    }

    /// An element after the operation.
    pub(crate) fn apply<T: Number>(self, value: T) -> T {
        if self == Self::Conjugate { value.conj() } else { value }
    }
}

/// A matrix of `rows` rows.
#[derive(Clone, Debug)]
pub(crate) struct Dense<T> {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) data: Vec<T>,
}

impl<T: Number> Dense<T> {
    pub(crate) fn zero(rows: usize, columns: usize) -> Self {
        Self { rows, columns, data: vec![T::zero(); rows * columns] }
    }

    pub(crate) fn get(&self, row: usize, column: usize) -> T {
        self.data[column * self.rows + row]
    }

    pub(crate) fn set(&mut self, row: usize, column: usize, value: T) {
        self.data[column * self.rows + row] = value;
    }

    pub(crate) fn column(&self, column: usize) -> &[T] {
        &self.data[column * self.rows..(column + 1) * self.rows]
    }

    /// The matrix after an operation.
    pub(crate) fn after(self, operation: Transpose) -> Self {
        if operation == Transpose::No {
            return self;
        }
        let mut result = Self::zero(self.columns, self.rows);
        for column in 0..self.columns {
            for (row, value) in self.column(column).iter().enumerate() {
                result.set(column, row, operation.apply(*value));
            }
        }
        result
    }

    /// The product with another.
    pub(crate) fn times(&self, other: &Self) -> Self {
        let mut result = Self::zero(self.rows, other.columns);
        T::multiply_add([self.rows, other.columns, self.columns], &self.data, &other.data, &mut result.data);
        result
    }

    /// Operations on a full matrix.
    ///
    /// # Safety
    /// As [`Region::load`].
    pub(crate) unsafe fn load(place: &Region, operation: Transpose) -> Self {
        // SAFETY: passed on.
        Self::full(unsafe { place.load() }).after(operation)
    }

    /// These rows of it.
    pub(crate) fn rows(&self, range: Range<usize>) -> Self {
        let data = (0..self.columns).flat_map(|column| &self.column(column)[range.clone()]).copied().collect();
        Self { rows: range.len(), columns: self.columns, data }
    }

    /// These columns of it.
    pub(crate) fn columns(&self, range: Range<usize>) -> Self {
        let data = self.data[range.start * self.rows..range.end * self.rows].to_vec();
        Self { rows: self.rows, columns: range.len(), data }
    }

    fn full(stored: Stored<T>) -> Self {
        let (rows, columns) = match stored.shape {
            Shape::Full { rows, columns, .. } => (rows, columns),
            Shape::Vector { n, .. } => (n, 1),
            Shape::Triangle { n, .. } | Shape::Packed { n, .. } => (n, n),
            // Not square: only triangles and full matrices become dense.
            Shape::Band { below, above, columns, .. } => (below + above + 1, columns),
        };
        Self { rows, columns, data: stored.data }
    }
}
