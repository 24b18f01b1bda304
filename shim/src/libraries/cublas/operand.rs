//! A vector or matrix of a routine: the elements of memory it consists of, and their values as numbers.

use super::element::{Element, Wide};
use super::number::Number;
use crate::device::memory::address::{self, Known};

/// The elements of a vector or matrix, as columns of consecutive elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Elements `step` apart; if negative, the first is the last in memory.
    Vector {
        n: usize,
        step: i64,
    },
    Full {
        rows: usize,
        columns: usize,
        leading: usize,
    },
    /// One half of a square matrix and, unless it is `strict`, its diagonal.
    Triangle {
        n: usize,
        leading: usize,
        upper: bool,
        strict: bool,
    },
    /// The same half, with consecutive columns.
    Packed {
        n: usize,
        upper: bool,
        strict: bool,
    },
    /// The diagonal and this many diagonals below and above it, with each column stored in a column of the array. Without its
    /// diagonal if `strict`; then one of the numbers is 0.
    Band {
        rows: usize,
        columns: usize,
        below: usize,
        above: usize,
        leading: usize,
        strict: bool,
    },
}

impl Shape {
    /// Whether the leading dimension can hold a column.
    pub(crate) fn is_valid(self) -> bool {
        match self {
            Self::Full { rows, leading, .. } | Self::Triangle { n: rows, leading, .. } => leading >= rows.max(1),
            Self::Band { below, above, leading, .. } => leading > below + above,
            Self::Vector { .. } | Self::Packed { .. } => true,
        }
    }

    /// How many columns it consists of.
    pub(crate) fn columns(self) -> usize {
        match self {
            Self::Vector { n, step: 1 } => n.min(1),
            Self::Vector { n, .. } => n,
            Self::Full { columns, .. } | Self::Band { columns, .. } => columns,
            Self::Triangle { n, .. } | Self::Packed { n, .. } => n,
        }
    }

    /// How many elements it consists of.
    fn elements(self) -> usize {
        match self {
            Self::Vector { n, .. } => n,
            Self::Full { rows, columns, .. } => rows * columns,
            Self::Triangle { .. } | Self::Packed { .. } | Self::Band { .. } => {
                (0..self.columns()).map(|column| self.rows(column)).sum()
            }
        }
    }

    /// How many rows the longest column may have.
    fn height(self) -> usize {
        match self {
            Self::Vector { n, step: 1 } => n,
            Self::Vector { .. } => 1,
            Self::Full { rows, .. } => rows,
            Self::Triangle { n, .. } | Self::Packed { n, .. } => n,
            Self::Band { below, above, .. } => below + above + 1,
        }
    }

    /// How many rows a column has.
    fn rows(self, column: usize) -> usize {
        let end = match self {
            Self::Triangle { upper: true, strict, .. } | Self::Packed { upper: true, strict, .. } => {
                column + usize::from(!strict)
            }
            Self::Triangle { n, .. } | Self::Packed { n, .. } => n,
            Self::Band { rows, below, strict, .. } => rows.min(column + below + usize::from(!strict || below > 0)),
            _ => self.height(),
        };
        end.saturating_sub(self.first(column))
    }

    /// The row with which a column begins.
    pub(crate) fn first(self, column: usize) -> usize {
        match self {
            Self::Triangle { upper: false, strict, .. } | Self::Packed { upper: false, strict, .. } => {
                column + usize::from(strict)
            }
            Self::Band { above, strict, .. } => column.saturating_sub(above) + usize::from(strict && above == 0),
            _ => 0,
        }
    }

    /// The index of this row among those that the column could have.
    fn within(self, column: usize) -> usize {
        match self {
            Self::Band { above, .. } => above + self.first(column) - column,
            _ => self.first(column),
        }
    }

    /// The offset of the first of these rows, in elements from the pointer.
    fn offset(self, column: usize) -> usize {
        match self {
            Self::Vector { step: 1, .. } => 0,
            Self::Vector { n, step } if step < 0 => (n - 1 - column) * step.unsigned_abs() as usize,
            Self::Vector { step, .. } => column * step as usize,
            Self::Full { leading, .. } => column * leading,
            Self::Triangle { leading, .. } | Self::Band { leading, .. } => column * leading + self.within(column),
            Self::Packed { upper: true, .. } => column * (column + 1) / 2,
            Self::Packed { n, .. } => column * n - column * column.saturating_sub(1) / 2 + self.first(column) - column,
        }
    }

    /// The elements from the pointer to the end of the last one of these columns.
    fn end(self, columns: impl IntoIterator<Item = usize>) -> usize {
        let ends = columns
            .into_iter()
            .filter(|column| self.rows(*column) > 0)
            .map(|column| self.offset(column) + self.rows(column));
        ends.max().unwrap_or(0)
    }

    /// The elements from the pointer to the end of the last one.
    fn span(self) -> usize {
        match self.columns() {
            0 => 0,
            // The longest reach of a band is in between, and the last column of a triangle without its diagonal may be empty.
            count if !matches!(self, Self::Vector { .. } | Self::Full { .. }) => self.end(0..count),
            count => self.end([0, count - 1]),
        }
    }
}

/// Where a routine's argument begins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Base {
    /// At an address, with a stride in elements from one problem of a batch to the next.
    At { address: usize, stride: i64 },
    /// At this address there is an array with a pointer per problem of a batch.
    Pointers(usize),
}

/// One argument of a routine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand {
    pub(crate) base: Base,
    pub(crate) element: Element,
    pub(crate) shape: Shape,
    pub(crate) reads: bool,
    pub(crate) writes: bool,
}

impl Operand {
    /// Bytes that one problem reads and writes of it.
    pub(crate) fn moved(&self) -> u64 {
        let elements = self.shape.elements() as u64;
        (u64::from(self.reads) + u64::from(self.writes)) * elements * self.element.size() as u64
    }

    /// Where it is in one problem of a batch.
    ///
    /// # Safety
    /// An array of pointers contains one for it.
    pub(crate) unsafe fn place(&self, batch: usize) -> Region {
        let address = match self.base {
            Base::At { address, stride } => {
                address.wrapping_add_signed(batch as isize * stride as isize * self.element.size() as isize)
            }
            // SAFETY: as the caller promises.
            Base::Pointers(array) => unsafe { (array as *const usize).add(batch).read_unaligned() },
        };
        Region { address, element: self.element, shape: self.shape }
    }
}

/// An argument of one problem.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    address: usize,
    element: Element,
    shape: Shape,
}

/// The elements of a [`Shape`] as numbers, one column after the other; zeros for elements that a triangle lacks.
#[derive(Clone, Debug)]
pub(crate) struct Stored<T> {
    pub(crate) shape: Shape,
    pub(crate) data: Vec<T>,
}

impl<T: Number> Stored<T> {
    /// Zeros.
    pub(crate) fn zero(shape: Shape) -> Self {
        Self { shape, data: vec![T::zero(); shape.columns() * shape.height()] }
    }

    pub(crate) fn columns(&self) -> usize {
        self.shape.columns()
    }

    /// The elements of a column.
    pub(crate) fn column(&self, column: usize) -> &[T] {
        &self.data[column * self.shape.height() + self.shape.within(column)..][..self.shape.rows(column)]
    }

    pub(crate) fn column_mut(&mut self, column: usize) -> &mut [T] {
        let first = column * self.shape.height() + self.shape.within(column);
        &mut self.data[first..][..self.shape.rows(column)]
    }
}

impl Region {
    pub(crate) fn shape(&self) -> Shape {
        self.shape
    }

    /// Address and bytes of each column, or of all of them together where nothing is between them.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let Self { address, element, shape } = *self;
        let size = element.size();
        let whole = match shape {
            Shape::Full { rows, columns, leading } if rows == leading => Some((address, rows * columns * size)),
            _ => None,
        };
        let apart = if whole.is_some() { 0 } else { shape.columns() };
        let columns = (0..apart).map(move |column| (address + shape.offset(column) * size, shape.rows(column) * size));
        whole.into_iter().chain(columns).filter(|(_, bytes)| *bytes > 0)
    }

    /// Whether all of it is in memory that the GPU can access.
    pub(crate) fn is_reachable(&self) -> bool {
        let bytes = self.shape.span().checked_mul(self.element.size());
        let in_reach = |bytes| matches!(address::known(self.address, bytes), Ok(Known::Device(_) | Known::Host));
        bytes.is_some_and(|bytes| bytes == 0 || in_reach(bytes))
    }

    /// Its elements.
    ///
    /// # Safety
    /// All of it is in memory, as checked by [`Region::is_reachable`].
    pub(crate) unsafe fn load<T: Number>(&self) -> Stored<T> {
        let mut stored = Stored::zero(self.shape);
        for column in 0..stored.columns() {
            let first = self.address + self.shape.offset(column) * self.element.size();
            // SAFETY: as the caller promises.
            unsafe { read_into(self.element, first, stored.column_mut(column)) };
        }
        stored
    }

    /// Zeros in its shape, for arguments that are only written.
    pub(crate) fn blank<T: Number>(&self) -> Stored<T> {
        Stored::zero(self.shape)
    }

    /// Writes its elements.
    ///
    /// # Safety
    /// All of it is in memory, as checked by [`Region::is_reachable`].
    pub(crate) unsafe fn store<T: Number>(&self, stored: &Stored<T>) {
        let size = self.element.size();
        for column in 0..stored.columns() {
            let first = self.address + self.shape.offset(column) * size;
            for (index, value) in stored.column(column).iter().enumerate() {
                // SAFETY: as the caller promises.
                unsafe { self.element.write(first + index * size, value.wide()) };
            }
        }
    }

    /// The first element, for a scalar.
    ///
    /// # Safety
    /// As [`Region::load`].
    pub(crate) unsafe fn read(&self) -> Wide {
        // SAFETY: passed on.
        unsafe { self.element.read(self.address) }
    }

    /// The element at an index of a contiguous vector.
    ///
    /// # Safety
    /// As [`Region::load`].
    pub(crate) unsafe fn read_index(&self, index: usize) -> Wide {
        // SAFETY: passed on.
        unsafe { self.element.read(self.address + index * self.element.size()) }
    }

    /// Writes the element at an index of a contiguous vector.
    ///
    /// # Safety
    /// As [`Region::store`].
    pub(crate) unsafe fn write(&self, index: usize, value: Wide) {
        // SAFETY: passed on.
        unsafe { self.element.write(self.address + index * self.element.size(), value) };
    }

    /// The element at (row, column).
    ///
    /// # Safety
    /// As [`Region::load`], and the shape has it.
    #[inline]
    pub(crate) unsafe fn read_at(&self, at: (usize, usize)) -> Wide {
        // SAFETY: passed on.
        unsafe { self.element.read(self.address_of(at)) }
    }

    /// Writes the element at (row, column).
    ///
    /// # Safety
    /// As [`Region::store`], and the shape has it.
    #[inline]
    pub(crate) unsafe fn write_at(&self, at: (usize, usize), value: Wide) {
        // SAFETY: passed on.
        unsafe { self.element.write(self.address_of(at), value) };
    }

    fn address_of(&self, (row, column): (usize, usize)) -> usize {
        let index = self.shape.offset(column) + row - self.shape.first(column);
        self.address + index * self.element.size()
    }

    /// A place without an operand: a scalar in host memory.
    pub(crate) fn scalar(address: usize, element: Element, n: usize) -> Self {
        Self { address, element, shape: Shape::Vector { n, step: 1 } }
    }
}

/// # Safety
/// There are this many elements at `first`.
unsafe fn read_into<T: Number>(element: Element, first: usize, to: &mut [T]) {
    macro_rules! each {
        ($($name:ident)*) => {
            match element {
                $(Element::$name => {
                    for (index, value) in to.iter_mut().enumerate() {
                        // SAFETY: as the caller promises.
                        *value = T::from_wide(unsafe { Element::$name.read(first + index * Element::$name.size()) });
                    }
                })*
            }
        };
    }
    each! { F32 F64 F16 Bf16 C32 C64 I8 I32 I64 E4m3 E5m2 }
}
