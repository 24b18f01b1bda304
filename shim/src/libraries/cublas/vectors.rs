//! The C functions of BLAS level 1, and their variants with explicit types.
#![expect(clippy::too_many_arguments, reason = "the signatures are NVIDIA's")]

use std::ffi::c_int;

use num_complex::Complex;

use super::calls::calls;
use super::element::Element;
use super::job::Job;
use super::level1::{self, Reduction, Scalar, Vector};
use super::number::Number;
use super::rotations;
use crate::libraries::objects::Answer;

type C32 = Complex<f32>;
type C64 = Complex<f64>;

/// Indices are as wide as sizes.
fn index_type<I>() -> Element {
    if size_of::<I>() == 8 { Element::I64 } else { Element::I32 }
}

/// The types of a call with explicit types: `execution` is the compute type, and may be wider than the vectors.
fn types<const N: usize>(handle: usize, codes: [c_int; N], execution: c_int) -> Answer<([Element; N], Element)> {
    let job = Job::begin(handle)?;
    let read = |code: c_int| match Element::from_code(code) {
        Some(element) if !element.is_integer() && !element.is_float8() => Ok(element),
        _ => job.refuse(&format!("datatype {code}")),
    };
    let mut elements = [Element::F32; N];
    for (element, code) in elements.iter_mut().zip(codes) {
        *element = read(code)?;
    }
    let execution = read(execution)?;
    if elements.iter().any(|element| element.is_complex() && !execution.is_complex()) {
        return Err(crate::libraries::objects::Code(abi::library::Library::Cublas.not_supported()));
    }
    Ok((elements, execution))
}

/// A norm is real, in a type that may be wider or narrower than the compute type.
fn reduce_ex(
    handle: usize,
    reduction: Reduction,
    n: i64,
    x: (usize, c_int, i64),
    result: (usize, c_int),
    execution: c_int,
) -> Answer {
    let ([tx, tr], compute) = types(handle, [x.1, result.1], execution).or_else(|code| match x.1 {
        // Of complex numbers, what it computes in may be named by its real type.
        4 | 5 => types(handle, [x.1, result.1], x.1),
        _ => Err(code),
    })?;
    level1::reduce(handle, compute, reduction, n, Vector(x.0, tx, x.2), (result.0, tr))
}

calls! {
    fn axpy[T: Number,](handle: usize, n: Int, alpha: usize, x: usize, sx: Int, y: usize, sy: Int) {
        let (x, y) = (Vector::new::<T>(x, sx), Vector::new::<T>(y, sy));
        level1::axpy(handle, T::ELEMENT, n.into(), (alpha, T::ELEMENT), x, y)
    }
    [f32,] cublasSaxpy_v2 cublasSaxpy_v2_64, [f64,] cublasDaxpy_v2 cublasDaxpy_v2_64,
    [C32,] cublasCaxpy_v2 cublasCaxpy_v2_64, [C64,] cublasZaxpy_v2 cublasZaxpy_v2_64;

    fn scal[A: Number, T: Number,](handle: usize, n: Int, alpha: usize, x: usize, sx: Int) {
        level1::scal(handle, T::ELEMENT, n.into(), (alpha, A::ELEMENT), Vector::new::<T>(x, sx))
    }
    [f32, f32,] cublasSscal_v2 cublasSscal_v2_64, [f64, f64,] cublasDscal_v2 cublasDscal_v2_64,
    [C32, C32,] cublasCscal_v2 cublasCscal_v2_64, [C64, C64,] cublasZscal_v2 cublasZscal_v2_64,
    [f32, C32,] cublasCsscal_v2 cublasCsscal_v2_64, [f64, C64,] cublasZdscal_v2 cublasZdscal_v2_64;

    fn copy[T: Number,](handle: usize, n: Int, x: usize, sx: Int, y: usize, sy: Int) {
        level1::copy(handle, n.into(), Vector::new::<T>(x, sx), Vector::new::<T>(y, sy))
    }
    [f32,] cublasScopy_v2 cublasScopy_v2_64, [f64,] cublasDcopy_v2 cublasDcopy_v2_64,
    [C32,] cublasCcopy_v2 cublasCcopy_v2_64, [C64,] cublasZcopy_v2 cublasZcopy_v2_64;

    fn swap[T: Number,](handle: usize, n: Int, x: usize, sx: Int, y: usize, sy: Int) {
        level1::swap(handle, n.into(), Vector::new::<T>(x, sx), Vector::new::<T>(y, sy))
    }
    [f32,] cublasSswap_v2 cublasSswap_v2_64, [f64,] cublasDswap_v2 cublasDswap_v2_64,
    [C32,] cublasCswap_v2 cublasCswap_v2_64, [C64,] cublasZswap_v2 cublasZswap_v2_64;

    fn dot[T: Number, const CONJUGATE: bool,](handle: usize, n: Int, x: usize, sx: Int, y: usize, sy: Int, result: usize) {
        let (x, y) = (Vector::new::<T>(x, sx), Vector::new::<T>(y, sy));
        level1::dot(handle, T::ELEMENT, CONJUGATE, n.into(), x, y, (result, T::ELEMENT))
    }
    [f32, false,] cublasSdot_v2 cublasSdot_v2_64, [f64, false,] cublasDdot_v2 cublasDdot_v2_64,
    [C32, false,] cublasCdotu_v2 cublasCdotu_v2_64, [C64, false,] cublasZdotu_v2 cublasZdotu_v2_64,
    [C32, true,] cublasCdotc_v2 cublasCdotc_v2_64, [C64, true,] cublasZdotc_v2 cublasZdotc_v2_64;

    fn asum[T: Number,](handle: usize, n: Int, x: usize, sx: Int, result: usize) {
        let x = Vector::new::<T>(x, sx);
        level1::reduce(handle, T::ELEMENT, Reduction::Sum, n.into(), x, (result, T::REAL))
    }
    [f32,] cublasSasum_v2 cublasSasum_v2_64, [f64,] cublasDasum_v2 cublasDasum_v2_64,
    [C32,] cublasScasum_v2 cublasScasum_v2_64, [C64,] cublasDzasum_v2 cublasDzasum_v2_64;

    fn nrm2[T: Number,](handle: usize, n: Int, x: usize, sx: Int, result: usize) {
        let x = Vector::new::<T>(x, sx);
        level1::reduce(handle, T::ELEMENT, Reduction::Norm, n.into(), x, (result, T::REAL))
    }
    [f32,] cublasSnrm2_v2 cublasSnrm2_v2_64, [f64,] cublasDnrm2_v2 cublasDnrm2_v2_64,
    [C32,] cublasScnrm2_v2 cublasScnrm2_v2_64, [C64,] cublasDznrm2_v2 cublasDznrm2_v2_64;

    fn amax[T: Number,](handle: usize, n: Int, x: usize, sx: Int, result: usize) {
        let x = Vector::new::<T>(x, sx);
        level1::reduce(handle, T::ELEMENT, Reduction::Largest, n.into(), x, (result, index_type::<Int>()))
    }
    [f32,] cublasIsamax_v2 cublasIsamax_v2_64, [f64,] cublasIdamax_v2 cublasIdamax_v2_64,
    [C32,] cublasIcamax_v2 cublasIcamax_v2_64, [C64,] cublasIzamax_v2 cublasIzamax_v2_64;

    fn amin[T: Number,](handle: usize, n: Int, x: usize, sx: Int, result: usize) {
        let x = Vector::new::<T>(x, sx);
        level1::reduce(handle, T::ELEMENT, Reduction::Smallest, n.into(), x, (result, index_type::<Int>()))
    }
    [f32,] cublasIsamin_v2 cublasIsamin_v2_64, [f64,] cublasIdamin_v2 cublasIdamin_v2_64,
    [C32,] cublasIcamin_v2 cublasIcamin_v2_64, [C64,] cublasIzamin_v2 cublasIzamin_v2_64;

    fn rot[T: Number, S: Number,](handle: usize, n: Int, x: usize, sx: Int, y: usize, sy: Int, c: usize, s: usize) {
        let (x, y) = (Vector::new::<T>(x, sx), Vector::new::<T>(y, sy));
        level1::rot(handle, T::ELEMENT, n.into(), x, y, (c, T::REAL), (s, S::ELEMENT))
    }
    [f32, f32,] cublasSrot_v2 cublasSrot_v2_64, [f64, f64,] cublasDrot_v2 cublasDrot_v2_64,
    [C32, C32,] cublasCrot_v2 cublasCrot_v2_64, [C64, C64,] cublasZrot_v2 cublasZrot_v2_64,
    [C32, f32,] cublasCsrot_v2 cublasCsrot_v2_64, [C64, f64,] cublasZdrot_v2 cublasZdrot_v2_64;

    fn rotm[T: Number,](handle: usize, n: Int, x: usize, sx: Int, y: usize, sy: Int, parameters: usize) {
        let (x, y) = (Vector::new::<T>(x, sx), Vector::new::<T>(y, sy));
        level1::rotm(handle, T::ELEMENT, n.into(), x, y, (parameters, T::ELEMENT))
    }
    [f32,] cublasSrotm_v2 cublasSrotm_v2_64, [f64,] cublasDrotm_v2 cublasDrotm_v2_64;

    fn axpy_ex[](
        handle: usize, n: Int, alpha: usize, type_alpha: c_int, x: usize, type_x: c_int, sx: Int, y: usize, type_y: c_int,
        sy: Int, execution: c_int
    ) {
        let ([a, tx, ty], compute) = types(handle, [type_alpha, type_x, type_y], execution)?;
        level1::axpy(handle, compute, n.into(), (alpha, a), Vector(x, tx, sx.into()), Vector(y, ty, sy.into()))
    }
    [] cublasAxpyEx cublasAxpyEx_64;

    fn scal_ex[](handle: usize, n: Int, alpha: usize, type_alpha: c_int, x: usize, type_x: c_int, sx: Int, execution: c_int) {
        let ([a, tx], compute) = types(handle, [type_alpha, type_x], execution)?;
        level1::scal(handle, compute, n.into(), (alpha, a), Vector(x, tx, sx.into()))
    }
    [] cublasScalEx cublasScalEx_64;

    fn copy_ex[](handle: usize, n: Int, x: usize, type_x: c_int, sx: Int, y: usize, type_y: c_int, sy: Int) {
        let ([tx, ty], _) = types(handle, [type_x, type_y], type_x)?;
        level1::copy(handle, n.into(), Vector(x, tx, sx.into()), Vector(y, ty, sy.into()))
    }
    [] cublasCopyEx cublasCopyEx_64;

    fn swap_ex[](handle: usize, n: Int, x: usize, type_x: c_int, sx: Int, y: usize, type_y: c_int, sy: Int) {
        let ([tx, ty], _) = types(handle, [type_x, type_y], type_x)?;
        level1::swap(handle, n.into(), Vector(x, tx, sx.into()), Vector(y, ty, sy.into()))
    }
    [] cublasSwapEx cublasSwapEx_64;

    fn dot_ex[const CONJUGATE: bool,](
        handle: usize, n: Int, x: usize, type_x: c_int, sx: Int, y: usize, type_y: c_int, sy: Int, result: usize,
        type_result: c_int, execution: c_int
    ) {
        let ([tx, ty, tr], compute) = types(handle, [type_x, type_y, type_result], execution)?;
        let (x, y) = (Vector(x, tx, sx.into()), Vector(y, ty, sy.into()));
        level1::dot(handle, compute, CONJUGATE, n.into(), x, y, (result, tr))
    }
    [false,] cublasDotEx cublasDotEx_64,
    [true,] cublasDotcEx cublasDotcEx_64;

    fn nrm2_ex[](
        handle: usize, n: Int, x: usize, type_x: c_int, sx: Int, result: usize, type_result: c_int, execution: c_int
    ) {
        reduce_ex(handle, Reduction::Norm, n.into(), (x, type_x, sx.into()), (result, type_result), execution)
    }
    [] cublasNrm2Ex cublasNrm2Ex_64;

    fn asum_ex[](
        handle: usize, n: Int, x: usize, type_x: c_int, sx: Int, result: usize, type_result: c_int, execution: c_int
    ) {
        reduce_ex(handle, Reduction::Sum, n.into(), (x, type_x, sx.into()), (result, type_result), execution)
    }
    [] cublasAsumEx cublasAsumEx_64;

    fn amax_ex[](handle: usize, n: Int, x: usize, type_x: c_int, sx: Int, result: usize) {
        let ([tx], compute) = types(handle, [type_x], type_x)?;
        let x = Vector(x, tx, sx.into());
        level1::reduce(handle, compute, Reduction::Largest, n.into(), x, (result, index_type::<Int>()))
    }
    [] cublasIamaxEx cublasIamaxEx_64;

    fn amin_ex[](handle: usize, n: Int, x: usize, type_x: c_int, sx: Int, result: usize) {
        let ([tx], compute) = types(handle, [type_x], type_x)?;
        let x = Vector(x, tx, sx.into());
        level1::reduce(handle, compute, Reduction::Smallest, n.into(), x, (result, index_type::<Int>()))
    }
    [] cublasIaminEx cublasIaminEx_64;

    fn rot_ex[](
        handle: usize, n: Int, x: usize, type_x: c_int, sx: Int, y: usize, type_y: c_int, sy: Int, c: usize, s: usize,
        type_cs: c_int, execution: c_int
    ) {
        let ([tx, ty, cs], compute) = types(handle, [type_x, type_y, type_cs], execution)?;
        let (x, y) = (Vector(x, tx, sx.into()), Vector(y, ty, sy.into()));
        level1::rot(handle, compute, n.into(), x, y, (c, cs), (s, cs))
    }
    [] cublasRotEx cublasRotEx_64;

    fn rotm_ex[](
        handle: usize, n: Int, x: usize, type_x: c_int, sx: Int, y: usize, type_y: c_int, sy: Int, parameters: usize,
        type_parameters: c_int, execution: c_int
    ) {
        let ([tx, ty, tp], compute) = types(handle, [type_x, type_y, type_parameters], execution)?;
        let (x, y) = (Vector(x, tx, sx.into()), Vector(y, ty, sy.into()));
        level1::rotm(handle, compute, n.into(), x, y, (parameters, tp))
    }
    [] cublasRotmEx cublasRotmEx_64;

    => {
        fn rotg[T: Number,](handle: usize, a: usize, b: usize, c: usize, s: usize) {
            rotations::rotg(handle, (a, T::ELEMENT), (b, T::ELEMENT), (c, T::REAL), (s, T::ELEMENT))
        }
        [f32,] cublasSrotg_v2, [f64,] cublasDrotg_v2, [C32,] cublasCrotg_v2, [C64,] cublasZrotg_v2;

        fn rotmg[T: Number,](handle: usize, d1: usize, d2: usize, x1: usize, y1: usize, parameters: usize) {
            let typed = |address| (address, T::ELEMENT);
            rotations::rotmg(
                handle,
                T::ELEMENT == Element::F32,
                [typed(d1), typed(d2), typed(x1)],
                typed(y1),
                typed(parameters),
            )
        }
        [f32,] cublasSrotmg_v2, [f64,] cublasDrotmg_v2;

        fn rotg_ex[](handle: usize, a: usize, b: usize, type_ab: c_int, c: usize, s: usize, type_cs: c_int, execution: c_int) {
            let ([ab, cs], _) = types(handle, [type_ab, type_cs], execution)?;
            rotations::rotg(handle, (a, ab), (b, ab), (c, cs), (s, cs))
        }
        [] cublasRotgEx;

        fn rotmg_ex[](
            handle: usize, d1: usize, type_d1: c_int, d2: usize, type_d2: c_int, x1: usize, type_x1: c_int, y1: usize,
            type_y1: c_int, parameters: usize, type_parameters: c_int, execution: c_int
        ) {
            let codes = [type_d1, type_d2, type_x1, type_y1, type_parameters];
            let ([t1, t2, tx, ty, tp], compute) = types(handle, codes, execution)?;
            let scalars: [Scalar; 3] = [(d1, t1), (d2, t2), (x1, tx)];
            rotations::rotmg(handle, compute != Element::F64, scalars, (y1, ty), (parameters, tp))
        }
        [] cublasRotmgEx;
    }
}
