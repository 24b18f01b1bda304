//! Products of sparse matrices with dense vectors, dense matrices and sparse matrices.
#![expect(clippy::too_many_arguments, reason = "the signatures are NVIDIA's")]

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::Arc;

use abi::argument::Out;
use dataplane::lock::Mutex;

use super::call::{CHANGED, Call, READ, WRITTEN, operation, refuse, work};
use super::descriptor::{DENSE, Format, MATRICES, Sparse, VECTORS, element, read};
use super::entries::{after, entries, starts, store_integers};
use super::handle::{DESCRIPTOR, REFUSALS};
use crate::boundary::table::exports;
use crate::libraries::cublas::dense::{Dense, Transpose};
use crate::libraries::cublas::element::Element;
use crate::libraries::cublas::job::computes;
use crate::libraries::cublas::number::{Number, with_number};
use crate::libraries::cublas::operand::{Region, Shape, Stored};
use crate::libraries::objects::{Answer, Objects, kind};

/// The type that all operands and the sums have.
fn same_type(elements: &[Element], computed: c_int) -> Answer<Element> {
    let first = element(computed)?;
    if elements.iter().any(|element| *element != first) {
        return refuse("operands of several types");
    }
    Ok(first)
}

/// y = alpha op(A) x + beta y, with C and B as matrices of one column or more.
///
/// # Safety
/// The arguments are in memory: A's three arrays, B, C.
unsafe fn multiply<T: Number>(
    a: &Sparse,
    [op_a, op_b]: [Transpose; 2],
    places: &[Region],
    [alpha, beta]: [T; 2],
    [b_by_rows, c_by_rows]: [bool; 2],
) {
    // What is stored by rows is, by columns, the transpose.
    let turn = |is_by_rows: bool| if is_by_rows { Transpose::Yes } else { Transpose::No };
    // SAFETY: passed on.
    unsafe {
        let b = Dense::<T>::load(&places[3], turn(b_by_rows)).after(op_b);
        let c: Stored<T> = if beta.is_zero() { places[4].blank() } else { places[4].load() };
        let mut c = matrix(c).after(turn(c_by_rows));
        c.data.iter_mut().for_each(|value| *value *= beta);
        for (row, column, value) in after(entries::<T>(a, places), op_a) {
            for at in 0..c.columns {
                let sum = c.get(row, at) + alpha * value * b.get(column, at);
                c.set(row, at, sum);
            }
        }
        places[4].store(&Stored { shape: places[4].shape(), data: c.after(turn(c_by_rows)).data });
    }
}

/// A vector as a matrix of one column.
fn matrix<T: Number>(stored: Stored<T>) -> Dense<T> {
    let (rows, columns) = match stored.shape {
        Shape::Full { rows, columns, .. } => (rows, columns),
        _ => (stored.data.len(), 1),
    };
    Dense { rows, columns, data: stored.data }
}

/// Rows and columns after an operation.
fn sizes(operation: Transpose, rows: usize, columns: usize) -> [usize; 2] {
    if operation == Transpose::No { [rows, columns] } else { [columns, rows] }
}

fn spmv(handle: usize, op: c_int, alpha: usize, a: usize, x: usize, beta: usize, y: usize, computed: c_int) -> Answer {
    let mut call = Call::begin(handle)?;
    let (op, a, x, y) = (operation(op)?, read(&MATRICES, a)?, read(&VECTORS, x)?, read(&VECTORS, y)?);
    let element = same_type(&[a.element, x.element, y.element], computed)?;
    if sizes(op, a.rows, a.columns) != [y.size, x.size] {
        return REFUSALS.value();
    }
    let (alpha, beta) = (call.scale(alpha, element)?, call.scale(beta, element)?);
    a.push(&mut call, [READ, READ]);
    call.vector(x.values, element, x.size, READ);
    call.vector(y.values, element, y.size, if beta.is_zero() { WRITTEN } else { CHANGED });
    call.run(move |at| {
        // SAFETY: the arguments are in memory.
        with_number!(element, T => unsafe {
            let scales = [alpha, beta].map(|scale| T::from_wide(scale.get(0)));
            multiply::<T>(&a, [op, Transpose::No], at, scales, [false; 2]);
        });
    })
}

fn spmm(
    handle: usize,
    op_a: c_int,
    op_b: c_int,
    alpha: usize,
    a: usize,
    b: usize,
    beta: usize,
    c: usize,
    computed: c_int,
) -> Answer {
    let mut call = Call::begin(handle)?;
    let (op_a, op_b) = (operation(op_a)?, operation(op_b)?);
    let (a, b, c) = (read(&MATRICES, a)?, read(&DENSE, b)?, read(&DENSE, c)?);
    let element = same_type(&[a.element, b.element, c.element], computed)?;
    let ([rows, inner], [inner_b, columns]) = (sizes(op_a, a.rows, a.columns), sizes(op_b, b.rows, b.columns));
    if inner != inner_b || [rows, columns] != [c.rows, c.columns] {
        return REFUSALS.value();
    }
    let (alpha, beta) = (call.scale(alpha, element)?, call.scale(beta, element)?);
    a.push(&mut call, [READ, READ]);
    call.push(b.values, element, b.shape(), READ);
    call.push(c.values, element, c.shape(), if beta.is_zero() { WRITTEN } else { CHANGED });
    call.run(move |at| {
        // SAFETY: the arguments are in memory.
        with_number!(element, T => unsafe {
            let scales = [alpha, beta].map(|scale| T::from_wide(scale.get(0)));
            multiply::<T>(&a, [op_a, op_b], at, scales, [b.is_by_rows, c.is_by_rows]);
        });
    })
}

/// Numbers by row and column, as 64-bit complex ones.
type Entries = BTreeMap<(usize, usize), num_complex::Complex<f64>>;

/// What `cusparseSpGEMM_compute` found, until `cusparseSpGEMM_copy` puts it into C.
static PRODUCTS: Objects<Mutex<Option<Arc<Entries>>>> = Objects::new(kind::CUSPARSE_PRODUCT, DESCRIPTOR);

/// # Safety
/// The arrays of both matrices are in memory.
unsafe fn product<T: Number>(a: &Sparse, b: &Sparse, alpha: T, places: &[Region]) -> Entries {
    // SAFETY: passed on.
    let (a, b_entries) = unsafe { (entries::<T>(a, &places[..3]), entries::<T>(b, &places[3..6])) };
    let mut rows = vec![Vec::new(); b.rows];
    b_entries.into_iter().for_each(|(row, column, value)| rows[row].push((column, value)));
    let mut sums = BTreeMap::<(usize, usize), T>::new();
    for (row, inner, value) in a {
        for (column, other) in &rows[inner] {
            *sums.entry((row, *column)).or_insert_with(T::zero) += alpha * value * *other;
        }
    }
    sums.into_iter().map(|(at, value)| (at, value.wide())).collect()
}

/// Multiplies, and waits, because the host needs the number of results. The work area is asked for by a call without one.
fn compute(
    handle: usize,
    [op_a, op_b]: [c_int; 2],
    alpha: usize,
    [a, b, c]: [usize; 3],
    beta: usize,
    computed: c_int,
    descriptor: usize,
    bytes: Out<usize>,
    buffer: usize,
) -> Answer {
    let mut call = Call::begin(handle)?;
    let product_of = PRODUCTS.get(descriptor)?;
    if buffer == 0 {
        return work(handle, bytes);
    }
    let (first, second, result) = (read(&MATRICES, a)?, read(&MATRICES, b)?, read(&MATRICES, c)?);
    let element = same_type(&[first.element, second.element, result.element], computed)?;
    let is_csr = [first, second, result].iter().all(|matrix| matrix.format == Format::Csr);
    if operation(op_a)? != Transpose::No || operation(op_b)? != Transpose::No || !is_csr {
        return refuse("products of transposes, and other formats than CSR");
    }
    if first.columns != second.rows || [result.rows, result.columns] != [first.rows, second.columns] {
        return REFUSALS.value();
    }
    if !computes() {
        return refuse("products of sparse matrices where nothing computes: their size is not known");
    }
    let (alpha, beta) = (call.scale(alpha, element)?, call.scale(beta, element)?);
    if !beta.is_zero() {
        return refuse("a beta other than 0 on the host");
    }
    first.push(&mut call, [READ, READ]);
    second.push(&mut call, [READ, READ]);
    let found = Arc::new(Mutex::new(None));
    let there = Arc::clone(&found);
    call.run_and_wait(move |at| {
        let entries =
            // SAFETY: the arguments are in memory.
            with_number!(element, T => unsafe { product::<T>(&first, &second, T::from_wide(alpha.get(0)), at) });
        *there.lock() = Some(Arc::new(entries));
    })?;
    let entries = found.lock().take();
    MATRICES.get(c)?.lock().nonzeros = entries.as_ref().map_or(0, |entries| entries.len());
    *product_of.lock() = entries;
    Ok(())
}

/// Puts the product into C, whose arrays the program has allocated meanwhile.
fn copy(handle: usize, c: usize, descriptor: usize) -> Answer {
    let mut call = Call::begin(handle)?;
    let Some(entries) = PRODUCTS.get(descriptor)?.lock().clone() else { return REFUSALS.value() };
    let c = read(&MATRICES, c)?;
    if c.nonzeros != entries.len() {
        return REFUSALS.value();
    }
    c.push(&mut call, [WRITTEN, WRITTEN]);
    call.run(move |at| {
        let starts = starts(entries.keys().map(|(row, _)| *row), c.rows);
        // SAFETY: the arguments are in memory.
        unsafe {
            store_integers(&at[0], starts.into_iter().map(|start| start + c.base));
            store_integers(&at[1], entries.keys().map(|(_, column)| column + c.base));
            entries.values().enumerate().for_each(|(index, value)| at[2].write(index, *value));
        }
    })
}

exports! {
    library Cusparse;
    real {
        fn cusparseSpMV_bufferSize(handle: usize, op: c_int, alpha: usize, a: usize, x: usize, beta: usize, y: usize, computed: c_int, algorithm: c_int, bytes: Out<usize>) = |handle, _, _, _, _, _, _, _, _, bytes| work(handle, bytes);
        fn cusparseSpMV_preprocess(handle: usize, op: c_int, alpha: usize, a: usize, x: usize, beta: usize, y: usize, computed: c_int, algorithm: c_int, buffer: usize) = |handle, _, _, _, _, _, _, _, _, _| Call::begin(handle).map(drop);
        fn cusparseSpMV(handle: usize, op: c_int, alpha: usize, a: usize, x: usize, beta: usize, y: usize, computed: c_int, algorithm: c_int, buffer: usize) = |handle, op, alpha, a, x, beta, y, computed, _, _| spmv(handle, op, alpha, a, x, beta, y, computed);
        fn cusparseSpMM_bufferSize(handle: usize, op_a: c_int, op_b: c_int, alpha: usize, a: usize, b: usize, beta: usize, c: usize, computed: c_int, algorithm: c_int, bytes: Out<usize>) = |handle, _, _, _, _, _, _, _, _, _, bytes| work(handle, bytes);
        fn cusparseSpMM_preprocess(handle: usize, op_a: c_int, op_b: c_int, alpha: usize, a: usize, b: usize, beta: usize, c: usize, computed: c_int, algorithm: c_int, buffer: usize) = |handle, _, _, _, _, _, _, _, _, _, _| Call::begin(handle).map(drop);
        fn cusparseSpMM(handle: usize, op_a: c_int, op_b: c_int, alpha: usize, a: usize, b: usize, beta: usize, c: usize, computed: c_int, algorithm: c_int, buffer: usize) = |handle, op_a, op_b, alpha, a, b, beta, c, computed, _, _| spmm(handle, op_a, op_b, alpha, a, b, beta, c, computed);
        fn cusparseSpGEMM_createDescr(descriptor: Out<usize>) = |descriptor| PRODUCTS.create(descriptor, Mutex::new(None));
        fn cusparseSpGEMM_destroyDescr(descriptor: usize) = |descriptor| PRODUCTS.destroy(descriptor);
        fn cusparseSpGEMM_workEstimation(handle: usize, op_a: c_int, op_b: c_int, alpha: usize, a: usize, b: usize, beta: usize, c: usize, computed: c_int, algorithm: c_int, descriptor: usize, bytes: Out<usize>, buffer: usize) =
            |handle, _, _, _, _, _, _, _, _, _, descriptor, bytes, _| PRODUCTS.get(descriptor).and_then(|_| work(handle, bytes));
        fn cusparseSpGEMM_compute(handle: usize, op_a: c_int, op_b: c_int, alpha: usize, a: usize, b: usize, beta: usize, c: usize, computed: c_int, algorithm: c_int, descriptor: usize, bytes: Out<usize>, buffer: usize) =
            |handle, op_a, op_b, alpha, a, b, beta, c, computed, _, descriptor, bytes, buffer| compute(handle, [op_a, op_b], alpha, [a, b, c], beta, computed, descriptor, bytes, buffer);
        fn cusparseSpGEMM_copy(handle: usize, op_a: c_int, op_b: c_int, alpha: usize, a: usize, b: usize, beta: usize, c: usize, computed: c_int, algorithm: c_int, descriptor: usize) =
            |handle, _, _, _, _, _, _, c, _, _, descriptor| copy(handle, c, descriptor);
    }
}
