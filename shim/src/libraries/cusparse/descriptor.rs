//! Descriptors of the generic interface: sparse and dense matrices and vectors, as addresses, sizes and types.

use std::ffi::c_int;

use abi::argument::Out;
use dataplane::lock::Mutex;

use super::call::{Call, refuse};
use super::handle::{DESCRIPTOR, REFUSALS};
use crate::boundary::table::exports;
use crate::libraries::cublas::element::Element;
use crate::libraries::cublas::operand::Shape;
use crate::libraries::objects::{Answer, Code, Objects, kind};

/// `cusparseFormat_t`, of those that are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Csr = 1,
    Csc = 2,
    Coo = 3,
}

/// A sparse matrix.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sparse {
    pub(super) format: Format,
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) nonzeros: usize,
    /// Where rows (CSR) or columns (CSC) begin, or the row of each number (COO).
    pub(super) starts: usize,
    /// The column of each number, or its row (CSC).
    pub(super) indices: usize,
    pub(super) values: usize,
    pub(super) starts_type: Element,
    pub(super) indices_type: Element,
    /// What indices count from: 0 or 1.
    pub(super) base: usize,
    pub(super) element: Element,
    /// The half and the diagonal that a solver takes: upper, and all ones.
    pub(super) is_upper: bool,
    pub(super) is_unit: bool,
}

impl Sparse {
    /// How many numbers say where rows or columns begin, or which row each is in.
    pub(super) fn count_of_starts(&self) -> usize {
        match self.format {
            Format::Csr => self.rows + 1,
            Format::Csc => self.columns + 1,
            Format::Coo => self.nonzeros,
        }
    }

    /// Adds its three arrays to a call: starts, indices, values.
    pub(super) fn push(&self, call: &mut Call, [structure, values]: [[bool; 2]; 2]) {
        call.vector(self.starts, self.starts_type, self.count_of_starts(), structure);
        call.vector(self.indices, self.indices_type, self.nonzeros, structure);
        call.vector(self.values, self.element, self.nonzeros, values);
    }
}

/// A dense matrix.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dense {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) leading: usize,
    pub(super) values: usize,
    pub(super) element: Element,
    /// Whether its rows are consecutive, not its columns.
    pub(super) is_by_rows: bool,
}

impl Dense {
    /// Its shape; of the transpose, if its rows are consecutive.
    pub(super) fn shape(&self) -> Shape {
        let (rows, columns) = if self.is_by_rows { (self.columns, self.rows) } else { (self.rows, self.columns) };
        Shape::Full { rows, columns, leading: self.leading }
    }
}

/// A dense vector.
#[derive(Clone, Copy, Debug)]
pub(super) struct Vector {
    pub(super) size: usize,
    pub(super) values: usize,
    pub(super) element: Element,
}

/// A sparse vector.
#[derive(Clone, Copy, Debug)]
pub(super) struct SparseVector {
    pub(super) size: usize,
    pub(super) nonzeros: usize,
    pub(super) indices: usize,
    pub(super) values: usize,
    pub(super) indices_type: Element,
    pub(super) base: usize,
    pub(super) element: Element,
}

pub(super) static MATRICES: Objects<Mutex<Sparse>> = Objects::new(kind::CUSPARSE_SPARSE, DESCRIPTOR);
pub(super) static DENSE: Objects<Mutex<Dense>> = Objects::new(kind::CUSPARSE_DENSE, DESCRIPTOR);
pub(super) static VECTORS: Objects<Mutex<Vector>> = Objects::new(kind::CUSPARSE_VECTOR, DESCRIPTOR);
pub(super) static SPARSE_VECTORS: Objects<Mutex<SparseVector>> = Objects::new(kind::CUSPARSE_SPARSE_VECTOR, DESCRIPTOR);

fn count(number: i64) -> Answer<usize> {
    usize::try_from(number).map_err(|_| Code(REFUSALS.value))
}

/// `cusparseIndexType_t`
fn index(code: c_int) -> Answer<Element> {
    match code {
        2 => Ok(Element::I32),
        3 => Ok(Element::I64),
        1 => refuse("indices of 16 bits"),
        _ => REFUSALS.value(),
    }
}

fn base(code: c_int) -> Answer<usize> {
    usize::try_from(code).ok().filter(|base| *base < 2).ok_or(Code(REFUSALS.value))
}

/// `cudaDataType`, of numbers that are computed.
pub(super) fn element(code: c_int) -> Answer<Element> {
    match code {
        0 | 1 | 4 | 5 => Element::from_code(code).ok_or(Code(REFUSALS.value)),
        _ => refuse("other numbers than those of 32 and 64 bits"),
    }
}

fn create(
    out: Out<usize>,
    format: Format,
    [rows, columns, nonzeros]: [i64; 3],
    [starts, indices, values]: [usize; 3],
    [starts_type, indices_type]: [c_int; 2],
    from: c_int,
    kind: c_int,
) -> Answer {
    let matrix = Sparse {
        format,
        rows: count(rows)?,
        columns: count(columns)?,
        nonzeros: count(nonzeros)?,
        starts,
        indices,
        values,
        starts_type: index(starts_type)?,
        indices_type: index(indices_type)?,
        base: base(from)?,
        element: element(kind)?,
        is_upper: false,
        is_unit: false,
    };
    MATRICES.create(out, Mutex::new(matrix))
}

fn create_dense(
    out: Out<usize>,
    rows: i64,
    columns: i64,
    leading: i64,
    values: usize,
    kind: c_int,
    order: c_int,
) -> Answer {
    let (rows, columns, leading) = (count(rows)?, count(columns)?, count(leading)?);
    // CUSPARSE_ORDER_COL and CUSPARSE_ORDER_ROW
    if !(1..=2).contains(&order) || leading < if order == 2 { columns } else { rows } {
        return REFUSALS.value();
    }
    let matrix =
        Dense { rows, columns, leading: leading.max(1), values, element: element(kind)?, is_by_rows: order == 2 };
    DENSE.create(out, Mutex::new(matrix))
}

fn create_vector(out: Out<usize>, size: i64, values: usize, kind: c_int) -> Answer {
    VECTORS.create(out, Mutex::new(Vector { size: count(size)?, values, element: element(kind)? }))
}

#[expect(clippy::too_many_arguments, reason = "the signature is NVIDIA's")]
fn create_sparse_vector(
    out: Out<usize>,
    size: i64,
    nonzeros: i64,
    indices: usize,
    values: usize,
    indices_type: c_int,
    from: c_int,
    kind: c_int,
) -> Answer {
    let (size, nonzeros) = (count(size)?, count(nonzeros)?);
    let (indices_type, base, element) = (index(indices_type)?, base(from)?, element(kind)?);
    let vector = SparseVector { size, nonzeros, indices, values, indices_type, base, element };
    SPARSE_VECTORS.create(out, Mutex::new(vector))
}

/// A copy of what a descriptor says now.
pub(super) fn read<T: Copy>(objects: &Objects<Mutex<T>>, handle: usize) -> Answer<T> {
    Ok(*objects.get(handle)?.lock())
}

fn change<T>(objects: &Objects<Mutex<T>>, handle: usize, act: impl FnOnce(&mut T)) -> Answer {
    act(&mut objects.get(handle)?.lock());
    Ok(())
}

fn size(matrix: usize, rows: Out<i64>, columns: Out<i64>, nonzeros: Out<i64>) -> Answer {
    let matrix = read(&MATRICES, matrix)?;
    let all = [(rows, matrix.rows), (columns, matrix.columns), (nonzeros, matrix.nonzeros)];
    all.into_iter().try_for_each(|(out, size)| out.set(size as i64)).map_err(REFUSALS.null())
}

fn set_pointers(matrix: usize, starts: usize, indices: usize, values: usize) -> Answer {
    change(&MATRICES, matrix, |matrix| (matrix.starts, matrix.indices, matrix.values) = (starts, indices, values))
}

/// `cusparseSpMatAttribute_t`: the half that is stored, and whether its diagonal is all ones; four bytes each.
unsafe fn set_attribute(matrix: usize, attribute: c_int, data: *const c_int, bytes: usize) -> Answer {
    if data.is_null() || bytes != size_of::<c_int>() || !(0..=1).contains(&attribute) {
        return REFUSALS.value();
    }
    // SAFETY: not null, and C vouches for four bytes.
    let value = unsafe { data.read() };
    if !(0..=1).contains(&value) {
        return REFUSALS.value();
    }
    change(&MATRICES, matrix, |matrix| {
        *(if attribute == 0 { &mut matrix.is_upper } else { &mut matrix.is_unit }) = value == 1;
    })
}

exports! {
    library Cusparse;
    real {
        fn cusparseCreateCsr(out: Out<usize>, rows: i64, columns: i64, nonzeros: i64, starts: usize, indices: usize, values: usize, starts_type: c_int, indices_type: c_int, base: c_int, kind: c_int) =
            |out, rows, columns, nonzeros, starts, indices, values, starts_type, indices_type, base, kind| create(out, Format::Csr, [rows, columns, nonzeros], [starts, indices, values], [starts_type, indices_type], base, kind);
        fn cusparseCreateConstCsr(out: Out<usize>, rows: i64, columns: i64, nonzeros: i64, starts: usize, indices: usize, values: usize, starts_type: c_int, indices_type: c_int, base: c_int, kind: c_int) =
            |out, rows, columns, nonzeros, starts, indices, values, starts_type, indices_type, base, kind| create(out, Format::Csr, [rows, columns, nonzeros], [starts, indices, values], [starts_type, indices_type], base, kind);
        fn cusparseCreateCsc(out: Out<usize>, rows: i64, columns: i64, nonzeros: i64, starts: usize, indices: usize, values: usize, starts_type: c_int, indices_type: c_int, base: c_int, kind: c_int) =
            |out, rows, columns, nonzeros, starts, indices, values, starts_type, indices_type, base, kind| create(out, Format::Csc, [rows, columns, nonzeros], [starts, indices, values], [starts_type, indices_type], base, kind);
        fn cusparseCreateConstCsc(out: Out<usize>, rows: i64, columns: i64, nonzeros: i64, starts: usize, indices: usize, values: usize, starts_type: c_int, indices_type: c_int, base: c_int, kind: c_int) =
            |out, rows, columns, nonzeros, starts, indices, values, starts_type, indices_type, base, kind| create(out, Format::Csc, [rows, columns, nonzeros], [starts, indices, values], [starts_type, indices_type], base, kind);
        fn cusparseCreateCoo(out: Out<usize>, rows: i64, columns: i64, nonzeros: i64, row: usize, column: usize, values: usize, index_type: c_int, base: c_int, kind: c_int) =
            |out, rows, columns, nonzeros, row, column, values, index_type, base, kind| create(out, Format::Coo, [rows, columns, nonzeros], [row, column, values], [index_type; 2], base, kind);
        fn cusparseCreateConstCoo(out: Out<usize>, rows: i64, columns: i64, nonzeros: i64, row: usize, column: usize, values: usize, index_type: c_int, base: c_int, kind: c_int) =
            |out, rows, columns, nonzeros, row, column, values, index_type, base, kind| create(out, Format::Coo, [rows, columns, nonzeros], [row, column, values], [index_type; 2], base, kind);
        fn cusparseDestroySpMat(matrix: usize) = |matrix| MATRICES.destroy(matrix);
        fn cusparseSpMatGetSize(matrix: usize, rows: Out<i64>, columns: Out<i64>, nonzeros: Out<i64>) = size;
        fn cusparseSpMatGetFormat(matrix: usize, format: Out<c_int>) = |matrix, format| format.set(read(&MATRICES, matrix)?.format as c_int).map_err(REFUSALS.null());
        fn cusparseSpMatGetIndexBase(matrix: usize, base: Out<c_int>) = |matrix, base| base.set(read(&MATRICES, matrix)?.base as c_int).map_err(REFUSALS.null());
        fn cusparseSpMatGetValues(matrix: usize, values: Out<usize>) = |matrix, values| values.set(read(&MATRICES, matrix)?.values).map_err(REFUSALS.null());
        fn cusparseSpMatSetValues(matrix: usize, values: usize) = |matrix, values| change(&MATRICES, matrix, |matrix| matrix.values = values);
        fn cusparseSpMatSetAttribute(matrix: usize, attribute: c_int, data: *const c_int, bytes: usize) = set_attribute;
        fn cusparseCsrSetPointers(matrix: usize, starts: usize, indices: usize, values: usize) = set_pointers;
        fn cusparseCscSetPointers(matrix: usize, starts: usize, indices: usize, values: usize) = set_pointers;
        fn cusparseCooSetPointers(matrix: usize, rows: usize, columns: usize, values: usize) = set_pointers;
        fn cusparseCreateDnMat(out: Out<usize>, rows: i64, columns: i64, leading: i64, values: usize, kind: c_int, order: c_int) = create_dense;
        fn cusparseCreateConstDnMat(out: Out<usize>, rows: i64, columns: i64, leading: i64, values: usize, kind: c_int, order: c_int) = create_dense;
        fn cusparseDestroyDnMat(matrix: usize) = |matrix| DENSE.destroy(matrix);
        fn cusparseDnMatGetValues(matrix: usize, values: Out<usize>) = |matrix, values| values.set(read(&DENSE, matrix)?.values).map_err(REFUSALS.null());
        fn cusparseDnMatSetValues(matrix: usize, values: usize) = |matrix, values| change(&DENSE, matrix, |matrix| matrix.values = values);
        fn cusparseCreateDnVec(out: Out<usize>, size: i64, values: usize, kind: c_int) = create_vector;
        fn cusparseCreateConstDnVec(out: Out<usize>, size: i64, values: usize, kind: c_int) = create_vector;
        fn cusparseDestroyDnVec(vector: usize) = |vector| VECTORS.destroy(vector);
        fn cusparseDnVecGetValues(vector: usize, values: Out<usize>) = |vector, values| values.set(read(&VECTORS, vector)?.values).map_err(REFUSALS.null());
        fn cusparseDnVecSetValues(vector: usize, values: usize) = |vector, values| change(&VECTORS, vector, |vector| vector.values = values);
        fn cusparseCreateSpVec(out: Out<usize>, size: i64, nonzeros: i64, indices: usize, values: usize, indices_type: c_int, base: c_int, kind: c_int) = create_sparse_vector;
        fn cusparseCreateConstSpVec(out: Out<usize>, size: i64, nonzeros: i64, indices: usize, values: usize, indices_type: c_int, base: c_int, kind: c_int) = create_sparse_vector;
        fn cusparseDestroySpVec(vector: usize) = |vector| SPARSE_VECTORS.destroy(vector);
    }
}
