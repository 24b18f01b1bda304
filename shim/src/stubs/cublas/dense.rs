//! Matrices by columns without gaps, as products of matrices want them.

use super::element::Wide;
use super::number::Number;
use super::operand::{Place, Shape, Stored};

/// `cublasOperation_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transpose {
    No,
    Yes,
    /// Transposed and conjugated.
    Conjugate,
}

impl Transpose {
    /// Nothing for a code that is none of them.
    pub(crate) fn from_code(code: i32) -> Option<Self> {
        match code {
            0 => Some(Self::No),
            1 => Some(Self::Yes),
            2 => Some(Self::Conjugate),
            _ => None,
        }
    }

    /// An element as the operation has it.
    pub(crate) fn of<T: Number>(self, value: T) -> T {
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

/// What the other triangle of a stored one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Other {
    Zero,
    Same,
    Conjugate,
}

impl<T: Number> Dense<T> {
    pub(crate) fn zero(rows: usize, columns: usize) -> Self {
        Self { rows, columns, data: vec![T::zero(); rows * columns] }
    }

    pub(crate) fn at(&self, row: usize, column: usize) -> T {
        self.data[column * self.rows + row]
    }

    pub(crate) fn set(&mut self, row: usize, column: usize, value: T) {
        self.data[column * self.rows + row] = value;
    }

    pub(crate) fn column(&self, column: usize) -> &[T] {
        &self.data[column * self.rows..(column + 1) * self.rows]
    }

    pub(crate) fn column_mut(&mut self, column: usize) -> &mut [T] {
        &mut self.data[column * self.rows..(column + 1) * self.rows]
    }

    /// The matrix after an operation.
    pub(crate) fn after(self, operation: Transpose) -> Self {
        if operation == Transpose::No {
            return self;
        }
        let mut result = Self::zero(self.columns, self.rows);
        for column in 0..self.columns {
            for (row, value) in self.column(column).iter().enumerate() {
                result.set(column, row, operation.of(*value));
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

    pub(crate) fn scaled(mut self, factor: T) -> Self {
        self.data.iter_mut().for_each(|value| *value = factor * *value);
        self
    }

    /// A part of it.
    pub(crate) fn part(&self, rows: std::ops::Range<usize>, columns: std::ops::Range<usize>) -> Self {
        let mut result = Self::zero(rows.len(), columns.len());
        for (index, column) in columns.enumerate() {
            result.column_mut(index).copy_from_slice(&self.column(column)[rows.clone()]);
        }
        result
    }

    /// Puts a part in, from this row and column on.
    pub(crate) fn put(&mut self, row: usize, column: usize, part: &Self) {
        for index in 0..part.columns {
            self.column_mut(column + index)[row..row + part.rows].copy_from_slice(part.column(index));
        }
    }

    /// Of a full matrix.
    ///
    /// # Safety
    /// As [`Place::load`].
    pub(crate) unsafe fn load(place: &Place, operation: Transpose) -> Self {
        // SAFETY: passed on.
        Self::full(unsafe { place.load() }).after(operation)
    }

    pub(crate) fn full(stored: Stored<T>) -> Self {
        let (rows, columns) = match stored.shape {
            Shape::Full { rows, columns, .. } => (rows, columns),
            Shape::Vector { n, .. } => (n, 1),
            _ => unreachable!("a triangle is not a full matrix"),
        };
        Self { rows, columns, data: stored.data }
    }

    /// Of a stored triangle. The diagonal is 1 where it is `unit`, and real where the other triangle is its conjugate.
    pub(crate) fn of_triangle(stored: &Stored<T>, other: Other, unit: bool) -> Self {
        let n = stored.columns();
        let mut result = Self::zero(n, n);
        for column in 0..n {
            for (row, value) in stored.shape.rows(column).zip(stored.column(column)) {
                let value = match other {
                    _ if row == column && unit => T::one(),
                    Other::Conjugate if row == column => T::of(Wide::new(value.wide().re, 0.0)),
                    _ => *value,
                };
                result.set(row, column, value);
                match other {
                    _ if row == column => {}
                    Other::Zero => {}
                    Other::Same => result.set(column, row, value),
                    Other::Conjugate => result.set(column, row, value.conj()),
                }
            }
        }
        result
    }

    /// As it is stored, into a full place.
    ///
    /// # Safety
    /// As [`Place::store`].
    pub(crate) unsafe fn store(self, place: &Place) {
        let mut stored = place.blank();
        stored.data = self.data;
        // SAFETY: passed on.
        unsafe { place.store(&stored) };
    }
}
