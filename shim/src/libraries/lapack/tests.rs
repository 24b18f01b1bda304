//! The definitions: products of factors are the matrix, and what should be orthonormal is.

use num_complex::Complex;
use proptest::prelude::*;

use super::factor::{Lu, cholesky, exchange, identity, solve_cholesky};
use super::hermitian::{Tridiagonal, eigen};
use super::reflect;
use super::singular::{Columns, decompose};
use crate::libraries::cublas::dense::{Dense, Transpose};
use crate::libraries::cublas::number::Number;

type C64 = Complex<f64>;

fn matrix<T: Number>(rows: usize, columns: usize, seed: u32) -> Dense<T> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state >> 8) / f64::from(1 << 23) - 1.0
    };
    let data = (0..rows * columns).map(|_| T::from_wide(C64::new(next(), next()))).collect();
    Dense { rows, columns, data }
}

fn conj<T: Number>(a: &Dense<T>) -> Dense<T> {
    a.clone().after(Transpose::Conjugate)
}

fn is_near<T: Number>(got: &Dense<T>, expected: &Dense<T>) -> bool {
    (got.rows, got.columns) == (expected.rows, expected.columns)
        && got.data.iter().zip(&expected.data).all(|(got, expected)| (got.wide() - expected.wide()).norm() < 1e-10)
}

fn is_orthonormal<T: Number>(q: &Dense<T>) -> bool {
    is_near(&conj(q).times(q), &identity(q.columns, q.columns))
}

fn diagonal<T: Number>(rows: usize, columns: usize, values: &[f64]) -> Dense<T> {
    let mut result = Dense::zero(rows, columns);
    values.iter().enumerate().for_each(|(index, value)| result.set(index, index, super::real(*value)));
    result
}

/// One half, with other numbers on the diagonal if so.
fn half<T: Number>(a: &Dense<T>, is_upper: bool, is_unit: bool, [rows, columns]: [usize; 2]) -> Dense<T> {
    let mut result = Dense::zero(rows, columns);
    for column in 0..columns {
        for row in 0..rows {
            if row == column && is_unit {
                result.set(row, column, T::one());
            } else if row == column || (row < column) == is_upper {
                result.set(row, column, a.get(row, column));
            }
        }
    }
    result
}

fn factors_hold<T: Number>([m, n, rhs]: [usize; 3], seed: u32) {
    let a = matrix::<T>(m, n, seed);
    let least = m.min(n);
    let lu = Lu::new(a.clone(), true);
    assert_eq!(lu.info, 0);
    let mut product = half(&lu.factors, false, true, [m, least]).times(&half(&lu.factors, true, false, [least, n]));
    exchange(&mut product, lu.pivots.iter().copied().enumerate().rev());
    assert!(is_near(&product, &a), "P L U is not A");

    let mut reflectors = a.clone();
    let taus = reflect::qr(&mut reflectors);
    let whole = reflect::q(&reflectors, &taus, m);
    assert!(is_orthonormal(&whole));
    let r = half(&reflectors, true, false, [m, n]);
    assert!(is_near(&whole.times(&r), &a), "Q R is not A");
    let mut back = a.clone();
    reflect::multiply(&reflectors, &taus, true, &mut back);
    assert!(is_near(&back, &r), "Q^H A is not R");

    for wanted in [Columns::Thin, Columns::All] {
        let found = decompose(a.clone(), wanted, wanted);
        let (u, v) = (found.u.unwrap(), found.v.unwrap());
        assert!(found.info == 0 && is_orthonormal(&u) && is_orthonormal(&v));
        assert!(found.values.windows(2).all(|pair| pair[0] >= pair[1]));
        let middle = diagonal(u.columns, v.columns, &found.values);
        assert!(is_near(&u.times(&middle).times(&conj(&v)), &a), "U S V^H is not A");
    }

    let square = matrix::<T>(n, n, seed ^ 7);
    let b = matrix::<T>(n, rhs, seed ^ 99);
    for operation in [Transpose::No, Transpose::Yes, Transpose::Conjugate] {
        // Far from singular.
        let mut regular = square.clone();
        (0..n).for_each(|index| regular.set(index, index, regular.get(index, index) + super::real(2.0 * n as f64)));
        let x = Lu::new(regular.clone(), true).solve(operation, b.clone());
        assert!(is_near(&regular.after(operation).times(&x), &b), "{operation:?}");
    }
    let mut hermitian = square.times(&conj(&square));
    let found = eigen(hermitian.clone(), true);
    let vectors = found.vectors.unwrap();
    assert!(found.info == 0 && is_orthonormal(&vectors));
    let values = diagonal(n, n, &found.values);
    assert!(is_near(&vectors.times(&values).times(&conj(&vectors)), &hermitian), "V E V^H is not A");
    let reduced = Tridiagonal::new(hermitian.clone());
    let trace = |numbers: &[f64]| numbers.iter().sum::<f64>();
    assert!((trace(&reduced.diagonal) - trace(&found.values)).abs() < 1e-10);

    (0..n).for_each(|index| hermitian.set(index, index, hermitian.get(index, index) + T::one()));
    let whole = hermitian.clone();
    assert_eq!(cholesky(&mut hermitian), 0);
    let l = half(&hermitian, false, false, [n, n]);
    assert!(is_near(&l.times(&conj(&l)), &whole), "L L^H is not A");
    assert!(is_near(&whole.times(&solve_cholesky(&l, b.clone())), &b));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn factors_multiply_to_the_matrix(m in 1usize..9, n in 1usize..9, rhs in 0usize..3, seed in 1u32..u32::MAX) {
        factors_hold::<f64>([m, n, rhs], seed);
        factors_hold::<C64>([m, n, rhs], seed);
    }
}

#[test]
fn nothing_is_decomposed_of_no_rows() {
    for shape in [[0, 0], [0, 3], [3, 0]] {
        let a = Dense::<f64>::zero(shape[0], shape[1]);
        assert_eq!(Lu::new(a.clone(), true).info, 0);
        assert!(reflect::qr(&mut a.clone()).is_empty());
        let found = decompose(a.clone(), Columns::All, Columns::All);
        assert!(found.values.is_empty() && is_near(&found.u.unwrap(), &identity(shape[0], shape[0])));
    }
    assert_eq!(cholesky(&mut Dense::<f64>::zero(0, 0)), 0);
    assert!(eigen(Dense::<f64>::zero(0, 0), true).values.is_empty());
}

#[test]
fn what_cannot_be_factored_says_where() {
    let dense = |data: &[f64]| Dense { rows: 2, columns: 2, data: data.to_vec() };
    assert_eq!(Lu::new(dense(&[1.0, 2.0, 2.0, 4.0]), true).info, 2);
    assert_eq!(Lu::new(dense(&[0.0, 0.0, 1.0, 1.0]), true).info, 1);
    assert!(Lu::new(dense(&[1.0, 2.0, 2.0, 4.0]), true).inverse().is_none());
    assert_eq!(cholesky(&mut dense(&[1.0, 2.0, 2.0, 1.0])), 2);
    assert_eq!(cholesky(&mut dense(&[-1.0, 0.0, 0.0, 1.0])), 1);
    // Of rank 1: singular vectors for 0 are orthonormal, too.
    let found = decompose(dense(&[1.0, 2.0, 2.0, 4.0]), Columns::All, Columns::All);
    assert!((found.values[0] - 5.0).abs() < 1e-14 && found.values[1].abs() < 1e-14);
    assert!(is_orthonormal(&found.u.unwrap()) && is_orthonormal(&found.v.unwrap()));
}

#[test]
fn every_algorithm_ends_on_what_is_no_number() {
    for bad in [f64::NAN, f64::INFINITY] {
        let a = Dense { rows: 3, columns: 3, data: vec![1.0, bad, 2.0, bad, 3.0, 1.0, 2.0, 1.0, bad] };
        assert!(cholesky(&mut a.clone()) > 0);
        assert!(eigen(a.clone(), true).info > 0);
        assert!(decompose(a.clone(), Columns::All, Columns::Thin).info > 0);
        Lu::new(a.clone(), true);
        reflect::qr(&mut a.clone());
    }
}

#[test]
fn numbers_near_the_ends_of_the_range_do_not_overflow() {
    for scale in [1e-200, 1e200] {
        let a = Dense { rows: 2, columns: 2, data: vec![3.0 * scale, 4.0 * scale, 0.0, 5.0 * scale] };
        let found = decompose(a, Columns::None, Columns::None);
        // sqrt(45) and sqrt(5), of the matrix with eigenvalues 45 and 5 of A^T A.
        assert!((found.values[0] / scale - 45_f64.sqrt()).abs() < 1e-12);
        assert!((found.values[1] / scale - 5_f64.sqrt()).abs() < 1e-12);
    }
}
