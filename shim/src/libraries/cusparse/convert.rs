//! From one format to another: dense, CSR, CSC and COO; sorting, gathering and scattering.

use std::ffi::c_int;
use std::sync::Arc;

use abi::argument::Out;
use dataplane::lock::Mutex;

use super::call::{CHANGED, Call, READ, WRITTEN, refuse, work};
use super::descriptor::{
    DENSE, Dense as DenseMatrix, Format, MATRICES, SPARSE_VECTORS, Sparse, VECTORS, element, read,
};
use super::entries::{entries, integers, starts, store_integers};
use super::handle::REFUSALS;
use crate::boundary::table::exports;
use crate::libraries::cublas::dense::{Dense, Transpose};
use crate::libraries::cublas::element::Element;
use crate::libraries::cublas::job::computes;
use crate::libraries::cublas::number::{Number, with_number};
use crate::libraries::cublas::operand::{Region, Stored};
use crate::libraries::objects::{Answer, Code};

fn count(number: c_int) -> Answer<usize> {
    usize::try_from(number).map_err(|_| Code(REFUSALS.value))
}

/// `cusparseIndexBase_t`
fn base(code: c_int) -> Answer<usize> {
    if (0..=1).contains(&code) { count(code) } else { REFUSALS.value() }
}

fn sparse_to_dense(handle: usize, a: usize, b: usize) -> Answer {
    let mut call = Call::begin(handle)?;
    let (a, b) = (read(&MATRICES, a)?, read(&DENSE, b)?);
    if a.element != b.element || [a.rows, a.columns] != [b.rows, b.columns] {
        return REFUSALS.value();
    }
    a.push(&mut call, [READ, READ]);
    call.push(b.values, b.element, b.shape(), WRITTEN);
    call.run(move |at| {
        // SAFETY: the arguments are in memory.
        with_number!(a.element, T => unsafe {
            let mut whole = Dense::<T>::zero(a.rows, a.columns);
            for (row, column, value) in entries::<T>(&a, at) {
                whole.set(row, column, value);
            }
            let data = whole.after(if b.is_by_rows { Transpose::Yes } else { Transpose::No }).data;
            at[3].store(&Stored { shape: at[3].shape(), data });
        });
    })
}

/// The numbers that are not 0, in the order of a format.
///
/// # Safety
/// As [`Region::load`].
unsafe fn nonzeros<T: Number>(a: &DenseMatrix, place: &Region, format: Format) -> Vec<(usize, usize, T)> {
    // SAFETY: passed on.
    let whole = unsafe { Dense::<T>::load(place, if a.is_by_rows { Transpose::Yes } else { Transpose::No }) };
    let (rows, columns) = (whole.rows, whole.columns);
    let mut places: Vec<(usize, usize)> =
        (0..columns).flat_map(|column| (0..rows).map(move |row| (row, column))).collect();
    if format != Format::Csc {
        places.sort_unstable();
    }
    let all = places.into_iter().map(|(row, column)| (row, column, whole.get(row, column)));
    all.filter(|(_, _, value)| !value.is_zero()).collect()
}

/// Counts, and waits, because the host needs the number.
fn analyze(handle: usize, a: usize, b: usize) -> Answer {
    let mut call = Call::begin(handle)?;
    let (a, to, b) = (read(&DENSE, a)?, MATRICES.get(b)?, read(&MATRICES, b)?);
    if a.element != b.element || [a.rows, a.columns] != [b.rows, b.columns] {
        return REFUSALS.value();
    }
    if !computes() {
        return refuse("the number of values that are not 0, where nothing computes");
    }
    call.push(a.values, a.element, a.shape(), READ);
    if b.format != Format::Coo {
        call.vector(b.starts, b.starts_type, b.count_of_starts(), WRITTEN);
    }
    let found = Arc::new(Mutex::new(0));
    let there = Arc::clone(&found);
    call.run_and_wait(move |at| {
        // SAFETY: the arguments are in memory.
        with_number!(a.element, T => unsafe {
            let all = nonzeros::<T>(&a, &at[0], b.format);
            if let Some(place) = at.get(1) {
                store_integers(place, starts_of(&b, &all));
            }
            *there.lock() = all.len();
        });
    })?;
    to.lock().nonzeros = *found.lock();
    Ok(())
}

/// Where the lines of a format begin, from its base.
fn starts_of<T>(matrix: &Sparse, all: &[(usize, usize, T)]) -> impl Iterator<Item = usize> {
    let base = matrix.base;
    let starts = match matrix.format {
        Format::Csr => starts(all.iter().map(|(row, _, _)| *row), matrix.rows),
        Format::Csc => starts(all.iter().map(|(_, column, _)| *column), matrix.columns),
        Format::Coo => all.iter().map(|(row, _, _)| *row).collect(),
    };
    starts.into_iter().map(move |start| start + base)
}

fn dense_to_sparse(handle: usize, a: usize, b: usize) -> Answer {
    let mut call = Call::begin(handle)?;
    let (a, b) = (read(&DENSE, a)?, read(&MATRICES, b)?);
    if a.element != b.element || [a.rows, a.columns] != [b.rows, b.columns] {
        return REFUSALS.value();
    }
    b.push(&mut call, [WRITTEN, WRITTEN]);
    call.push(a.values, a.element, a.shape(), READ);
    call.run(move |at| {
        // SAFETY: the arguments are in memory.
        with_number!(a.element, T => unsafe {
            let mut all = nonzeros::<T>(&a, &at[3], b.format);
            // No more than the arrays hold, should the numbers have changed since they were counted.
            all.truncate(b.nonzeros);
            let is_by_columns = b.format == Format::Csc;
            store_integers(&at[0], starts_of(&b, &all));
            store_integers(&at[1], all.iter().map(|(row, column, _)| b.base + if is_by_columns { *row } else { *column }));
            all.iter().enumerate().for_each(|(index, (_, _, value))| at[2].write(index, value.wide()));
        });
    })
}

/// CSR to CSC, with the order of rows kept in each column.
fn transpose(
    handle: usize,
    [rows, columns, nonzeros]: [c_int; 3],
    [values, starts_in, indices]: [usize; 3],
    [to_values, to_starts, to_indices]: [usize; 3],
    kind: c_int,
    with_values: c_int,
    from: c_int,
) -> Answer {
    let mut call = Call::begin(handle)?;
    let matrix = Sparse {
        format: Format::Csr,
        rows: count(rows)?,
        columns: count(columns)?,
        nonzeros: count(nonzeros)?,
        starts: starts_in,
        indices,
        values,
        starts_type: Element::I32,
        indices_type: Element::I32,
        base: base(from)?,
        element: element(kind)?,
        is_upper: false,
        is_unit: false,
    };
    let to = Sparse { format: Format::Csc, starts: to_starts, indices: to_indices, values: to_values, ..matrix };
    // CUSPARSE_ACTION_SYMBOLIC
    if base(with_values)? == 0 {
        return refuse("structure without values");
    }
    matrix.push(&mut call, [READ, READ]);
    to.push(&mut call, [WRITTEN, WRITTEN]);
    call.run(move |at| {
        // SAFETY: the arguments are in memory.
        with_number!(matrix.element, T => unsafe {
            let mut all = entries::<T>(&matrix, at);
            all.sort_by_key(|(_, column, _)| *column);
            store_integers(&at[3], starts_of(&to, &all));
            store_integers(&at[4], all.iter().map(|(row, _, _)| row + to.base));
            all.iter().enumerate().for_each(|(index, (_, _, value))| at[5].write(index, value.wide()));
        });
    })
}

/// Rows of numbers, sorted, to where each begins.
fn rows_to_starts(handle: usize, from: usize, nonzeros: c_int, rows: c_int, to: usize, code: c_int) -> Answer {
    let mut call = Call::begin(handle)?;
    let (nonzeros, rows, base) = (count(nonzeros)?, count(rows)?, base(code)?);
    call.vector(from, Element::I32, nonzeros, READ);
    call.vector(to, Element::I32, rows + 1, WRITTEN);
    call.run(move |at| {
        // SAFETY: the arguments are in memory.
        unsafe {
            let lines =
                integers(&at[0]).into_iter().map(|row| usize::try_from(row - base as i64).unwrap_or(usize::MAX));
            store_integers(&at[1], starts(lines, rows).into_iter().map(|start| start + base));
        }
    })
}

/// Where rows begin, to the row of each number.
fn starts_to_rows(handle: usize, from: usize, nonzeros: c_int, rows: c_int, to: usize, code: c_int) -> Answer {
    let mut call = Call::begin(handle)?;
    let (nonzeros, rows, base) = (count(nonzeros)?, count(rows)?, base(code)?);
    call.vector(from, Element::I32, rows + 1, READ);
    call.vector(to, Element::I32, nonzeros, WRITTEN);
    call.run(move |at| {
        // SAFETY: the arguments are in memory.
        unsafe {
            let ends = integers(&at[0]);
            let lines = ends.windows(2).enumerate();
            let all = lines.flat_map(|(row, ends)| {
                std::iter::repeat_n(row + base, (ends[1] - ends[0]).clamp(0, nonzeros as i64) as usize)
            });
            store_integers(&at[1], all.take(nonzeros));
        }
    })
}

/// 0, 1, 2, ...
fn identity(handle: usize, n: c_int, to: usize) -> Answer {
    let mut call = Call::begin(handle)?;
    let n = count(n)?;
    call.vector(to, Element::I32, n, WRITTEN);
    // SAFETY: the argument is in memory.
    call.run(move |at| unsafe { store_integers(&at[0], 0..n) })
}

/// Sorts numbers by their first and second index, and a permutation with them if there is one.
fn sort(handle: usize, nonzeros: c_int, first: usize, second: usize, permutation: usize) -> Answer {
    let mut call = Call::begin(handle)?;
    let nonzeros = count(nonzeros)?;
    call.vector(first, Element::I32, nonzeros, CHANGED);
    call.vector(second, Element::I32, nonzeros, CHANGED);
    if permutation != 0 {
        call.vector(permutation, Element::I32, nonzeros, CHANGED);
    }
    call.run(move |at| {
        // SAFETY: the arguments are in memory.
        unsafe {
            let (first, second) = (integers(&at[0]), integers(&at[1]));
            let mut order: Vec<usize> = (0..nonzeros).collect();
            order.sort_by_key(|index| (first[*index], second[*index]));
            at.iter().for_each(|place| reorder(place, &order));
        }
    })
}

/// # Safety
/// As [`Region::load`] and [`Region::store`].
unsafe fn reorder(place: &Region, order: &[usize]) {
    // SAFETY: passed on.
    unsafe {
        let numbers = integers(place);
        store_integers(place, order.iter().map(|index| numbers[*index] as usize));
    }
}

/// Sorts the numbers of each line by their index.
fn sort_lines(
    handle: usize,
    lines: c_int,
    nonzeros: c_int,
    starts_in: usize,
    indices: usize,
    permutation: usize,
) -> Answer {
    let mut call = Call::begin(handle)?;
    let (lines, nonzeros) = (count(lines)?, count(nonzeros)?);
    call.vector(indices, Element::I32, nonzeros, CHANGED);
    if permutation != 0 {
        call.vector(permutation, Element::I32, nonzeros, CHANGED);
    }
    call.vector(starts_in, Element::I32, lines + 1, READ);
    call.run(move |at| {
        let [sorted @ .., starts_at] = at else { return };
        // SAFETY: the arguments are in memory.
        unsafe {
            let (numbers, ends) = (integers(&sorted[0]), integers(starts_at));
            let base = ends[0];
            let mut order: Vec<usize> = (0..nonzeros).collect();
            for line in ends.windows(2) {
                let [first, last] = [line[0], line[1]].map(|end| (end - base).clamp(0, nonzeros as i64) as usize);
                if first < last {
                    order[first..last].sort_by_key(|index| numbers[*index]);
                }
            }
            sorted.iter().for_each(|place| reorder(place, &order));
        }
    })
}

/// Between a dense vector and the places of it that a sparse one has.
fn gather_or_scatter(handle: usize, dense: usize, sparse: usize, is_gathered: bool) -> Answer {
    let mut call = Call::begin(handle)?;
    let (dense, sparse) = (read(&VECTORS, dense)?, read(&SPARSE_VECTORS, sparse)?);
    if dense.element != sparse.element || dense.size != sparse.size {
        return REFUSALS.value();
    }
    call.vector(sparse.indices, sparse.indices_type, sparse.nonzeros, READ);
    call.vector(sparse.values, sparse.element, sparse.nonzeros, if is_gathered { WRITTEN } else { READ });
    call.vector(dense.values, dense.element, dense.size, if is_gathered { READ } else { CHANGED });
    call.run(move |at| {
        // SAFETY: the arguments are in memory, and only places that the vector has are used.
        unsafe {
            for (index, place) in integers(&at[0]).into_iter().enumerate() {
                let Ok(place) = usize::try_from(place - sparse.base as i64) else { continue };
                if place < dense.size {
                    let (from, to) = if is_gathered { ((2, place), (1, index)) } else { ((1, index), (2, place)) };
                    let value = at[from.0].read_index(from.1);
                    at[to.0].write(to.1, value);
                }
            }
        }
    })
}

exports! {
    library Cusparse;
    real {
        fn cusparseSparseToDense_bufferSize(handle: usize, a: usize, b: usize, algorithm: c_int, bytes: Out<usize>) = |handle, _, _, _, bytes| work(handle, bytes);
        fn cusparseSparseToDense(handle: usize, a: usize, b: usize, algorithm: c_int, buffer: usize) = |handle, a, b, _, _| sparse_to_dense(handle, a, b);
        fn cusparseDenseToSparse_bufferSize(handle: usize, a: usize, b: usize, algorithm: c_int, bytes: Out<usize>) = |handle, _, _, _, bytes| work(handle, bytes);
        fn cusparseDenseToSparse_analysis(handle: usize, a: usize, b: usize, algorithm: c_int, buffer: usize) = |handle, a, b, _, _| analyze(handle, a, b);
        fn cusparseDenseToSparse_convert(handle: usize, a: usize, b: usize, algorithm: c_int, buffer: usize) = |handle, a, b, _, _| dense_to_sparse(handle, a, b);
        fn cusparseCsr2cscEx2_bufferSize(handle: usize, m: c_int, n: c_int, nonzeros: c_int, values: usize, starts: usize, indices: usize, to_values: usize, to_starts: usize, to_indices: usize, kind: c_int, with_values: c_int, base: c_int, algorithm: c_int, bytes: Out<usize>) =
            |handle, _, _, _, _, _, _, _, _, _, _, _, _, _, bytes| work(handle, bytes);
        fn cusparseCsr2cscEx2(handle: usize, m: c_int, n: c_int, nonzeros: c_int, values: usize, starts: usize, indices: usize, to_values: usize, to_starts: usize, to_indices: usize, kind: c_int, with_values: c_int, base: c_int, algorithm: c_int, buffer: usize) =
            |handle, m, n, nonzeros, values, starts, indices, to_values, to_starts, to_indices, kind, with_values, base, _, _| transpose(handle, [m, n, nonzeros], [values, starts, indices], [to_values, to_starts, to_indices], kind, with_values, base);
        fn cusparseXcoo2csr(handle: usize, rows: usize, nonzeros: c_int, m: c_int, starts: usize, base: c_int) = rows_to_starts;
        fn cusparseXcsr2coo(handle: usize, starts: usize, nonzeros: c_int, m: c_int, rows: usize, base: c_int) = starts_to_rows;
        fn cusparseCreateIdentityPermutation(handle: usize, n: c_int, to: usize) = identity;
        fn cusparseXcoosort_bufferSizeExt(handle: usize, m: c_int, n: c_int, nonzeros: c_int, rows: usize, columns: usize, bytes: Out<usize>) = |handle, _, _, _, _, _, bytes| work(handle, bytes);
        fn cusparseXcoosortByRow(handle: usize, m: c_int, n: c_int, nonzeros: c_int, rows: usize, columns: usize, permutation: usize, buffer: usize) = |handle, _, _, nonzeros, rows, columns, permutation, _| sort(handle, nonzeros, rows, columns, permutation);
        fn cusparseXcoosortByColumn(handle: usize, m: c_int, n: c_int, nonzeros: c_int, rows: usize, columns: usize, permutation: usize, buffer: usize) = |handle, _, _, nonzeros, rows, columns, permutation, _| sort(handle, nonzeros, columns, rows, permutation);
        fn cusparseXcsrsort_bufferSizeExt(handle: usize, m: c_int, n: c_int, nonzeros: c_int, starts: usize, columns: usize, bytes: Out<usize>) = |handle, _, _, _, _, _, bytes| work(handle, bytes);
        fn cusparseXcsrsort(handle: usize, m: c_int, n: c_int, nonzeros: c_int, descriptor: usize, starts: usize, columns: usize, permutation: usize, buffer: usize) = |handle, m, _, nonzeros, _, starts, columns, permutation, _| sort_lines(handle, m, nonzeros, starts, columns, permutation);
        fn cusparseXcscsort_bufferSizeExt(handle: usize, m: c_int, n: c_int, nonzeros: c_int, starts: usize, rows: usize, bytes: Out<usize>) = |handle, _, _, _, _, _, bytes| work(handle, bytes);
        fn cusparseXcscsort(handle: usize, m: c_int, n: c_int, nonzeros: c_int, descriptor: usize, starts: usize, rows: usize, permutation: usize, buffer: usize) = |handle, _, n, nonzeros, _, starts, rows, permutation, _| sort_lines(handle, n, nonzeros, starts, rows, permutation);
        fn cusparseGather(handle: usize, dense: usize, sparse: usize) = |handle, dense, sparse| gather_or_scatter(handle, dense, sparse, true);
        fn cusparseScatter(handle: usize, sparse: usize, dense: usize) = |handle, sparse, dense| gather_or_scatter(handle, dense, sparse, false);
    }
}
