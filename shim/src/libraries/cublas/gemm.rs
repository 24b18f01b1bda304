//! The calls of libcublas that multiply two matrices.
#![expect(clippy::too_many_arguments, reason = "the signatures are NVIDIA's")]

use std::ffi::{c_int, c_longlong};

use abi::argument::Out;
use half::f16;
use num_complex::Complex;

use super::calls::calls;
use super::dense::Transpose;
use super::element::Element;
use super::epilogue::Epilogue;
use super::handle::REFUSALS;
use super::job::{Job, size};
use super::operand::Base;
use super::product::{Matrix, Product};
use crate::libraries::objects::{Answer, Code};

type C32 = Complex<f32>;
type C64 = Complex<f64>;

/// Reads `cublasOperation_t`.
pub(crate) fn operation(code: c_int) -> Answer<Transpose> {
    Transpose::from_code(code).ok_or(Code(REFUSALS.value))
}

/// `CUBLAS_COMPUTE_32F_FAST_TF32`
pub(crate) const FAST_TF32: c_int = 77;

/// The type of alpha and beta for a `cublasComputeType_t`, for real numbers; `None` if not supported here.
pub(crate) fn scale_of(compute: c_int) -> Option<Element> {
    match compute {
        64 | 65 => Some(Element::F16),
        68 | 69 | 74 | 75 | 77 | 78 => Some(Element::F32),
        70 | 71 => Some(Element::F64),
        72 | 73 => Some(Element::I32),
        _ => None,
    }
}

/// One of the three matrices of a call.
#[derive(Clone, Copy)]
struct Side {
    base: Base,
    datatype: c_int,
    leading: i64,
}

impl Side {
    fn at_address(address: usize, datatype: c_int, leading: impl Into<i64>, stride: i64) -> Self {
        Self { base: Base::At { address, stride }, datatype, leading: leading.into() }
    }

    fn pointers(array: usize, datatype: c_int, leading: impl Into<i64>) -> Self {
        Self { base: Base::Pointers(array), datatype, leading: leading.into() }
    }
}

/// Any of the calls.
struct Call {
    operations: (c_int, c_int),
    size: [i64; 3],
    scalars: (usize, usize),
    sides: [Side; 3],
    batch: i64,
    compute: c_int,
}

impl Call {
    fn run(self, handle: usize) -> Answer {
        let mut job = Job::begin(handle)?;
        let (left, right) = (operation(self.operations.0)?, operation(self.operations.1)?);
        let [m, n, k] = self.size;
        let size_of_product = [size(m)?, size(n)?, size(k)?];
        job.batch(self.batch)?;
        let Some(mut scale) = scale_of(self.compute) else {
            return job.refuse(&format!("compute type {}", self.compute));
        };
        let matrix = |side: Side, operation: Transpose| {
            let Some(element) = Element::from_code(side.datatype).filter(|element| !element.is_float8()) else {
                return job.refuse(&format!("datatype {}", side.datatype));
            };
            Ok(Matrix { base: side.base, element, leading: size(side.leading)?, operation })
        };
        let [a, b, c] = self.sides;
        let (a, b, c) = (matrix(a, left)?, matrix(b, right)?, matrix(c, Transpose::No)?);
        let elements = [a.element, b.element, c.element];
        if elements.iter().any(|element| element.is_complex()) {
            let wanted = if scale == Element::F64 { Element::C64 } else { Element::C32 };
            if elements != [wanted; 3] {
                return job.refuse("complex numbers and others");
            }
            scale = wanted;
        }
        let is_integer = elements.map(Element::is_integer);
        let fits = match scale {
            Element::I32 => elements == [Element::I8, Element::I8, Element::I32],
            Element::F64 | Element::C64 => elements == [scale; 3],
            Element::F32 if is_integer[0] => elements == [Element::I8, Element::I8, Element::F32],
            _ => !is_integer.contains(&true) && !elements.contains(&Element::F64),
        };
        if !fits {
            return job.refuse(&format!("datatypes {:?} by compute type {}", elements, self.compute));
        }
        let (alpha, beta) = (job.scale(self.scalars.0, scale)?, job.scale(self.scalars.1, scale)?);
        if self.compute == FAST_TF32 {
            job.allow_tf32();
        }
        Product { size: size_of_product, a, b, c, d: c, alpha, beta, epilogue: Epilogue::default() }.submit(job)
    }
}

/// Numbers of a call, by its name.
trait Precision {
    /// `cudaDataType` and `cublasComputeType_t`.
    const CODES: (c_int, c_int);
}

impl Precision for f16 {
    const CODES: (c_int, c_int) = (2, 64);
}

impl Precision for f32 {
    const CODES: (c_int, c_int) = (0, 68);
}

impl Precision for f64 {
    const CODES: (c_int, c_int) = (1, 70);
}

impl Precision for C32 {
    const CODES: (c_int, c_int) = (4, 68);
}

impl Precision for C64 {
    const CODES: (c_int, c_int) = (5, 70);
}

calls! {
    fn gemm[T: Precision,](
        handle: usize, left: c_int, right: c_int, m: Int, n: Int, k: Int, alpha: usize, a: usize, lda: Int, b: usize,
        ldb: Int, beta: usize, c: usize, ldc: Int
    ) {
        let (t, compute) = T::CODES;
        gemm_ex(handle, left, right, m, n, k, alpha, a, t, lda, b, t, ldb, beta, c, t, ldc, compute, 0)
    }
    [f32,] cublasSgemm_v2 cublasSgemm_v2_64, [f64,] cublasDgemm_v2 cublasDgemm_v2_64,
    [C32,] cublasCgemm_v2 cublasCgemm_v2_64, [C64,] cublasZgemm_v2 cublasZgemm_v2_64,
    [C32,] cublasCgemm3m cublasCgemm3m_64, [C64,] cublasZgemm3m cublasZgemm3m_64,
    [f16,] cublasHgemm cublasHgemm_64;

    /// The S or C products whose matrices have other types.
    fn narrow_ex[T: Precision,](
        handle: usize, left: c_int, right: c_int, m: Int, n: Int, k: Int, alpha: usize, a: usize, ta: c_int, lda: Int,
        b: usize, tb: c_int, ldb: Int, beta: usize, c: usize, tc: c_int, ldc: Int
    ) {
        gemm_ex(handle, left, right, m, n, k, alpha, a, ta, lda, b, tb, ldb, beta, c, tc, ldc, T::CODES.1, 0)
    }
    [f32,] cublasSgemmEx cublasSgemmEx_64, [C32,] cublasCgemmEx cublasCgemmEx_64, [C32,] cublasCgemm3mEx cublasCgemm3mEx_64;

    fn gemm_ex[](
        handle: usize, left: c_int, right: c_int, m: Int, n: Int, k: Int, alpha: usize, a: usize, ta: c_int, lda: Int,
        b: usize, tb: c_int, ldb: Int, beta: usize, c: usize, tc: c_int, ldc: Int, compute: c_int, _algorithm: c_int
    ) {
        let sides = [Side::at_address(a, ta, lda, 0), Side::at_address(b, tb, ldb, 0), Side::at_address(c, tc, ldc, 0)];
        let size = [m.into(), n.into(), k.into()];
        Call { operations: (left, right), size, scalars: (alpha, beta), sides, batch: 1, compute }.run(handle)
    }
    [] cublasGemmEx cublasGemmEx_64;

    fn strided[T: Precision,](
        handle: usize, left: c_int, right: c_int, m: Int, n: Int, k: Int, alpha: usize, a: usize, lda: Int,
        stride_a: c_longlong, b: usize, ldb: Int, stride_b: c_longlong, beta: usize, c: usize, ldc: Int,
        stride_c: c_longlong, batch: Int
    ) {
        let (t, compute) = T::CODES;
        strided_ex(
            handle, left, right, m, n, k, alpha, a, t, lda, stride_a, b, t, ldb, stride_b, beta, c, t, ldc, stride_c,
            batch, compute, 0,
        )
    }
    [f32,] cublasSgemmStridedBatched cublasSgemmStridedBatched_64, [f64,] cublasDgemmStridedBatched cublasDgemmStridedBatched_64,
    [C32,] cublasCgemmStridedBatched cublasCgemmStridedBatched_64, [C64,] cublasZgemmStridedBatched cublasZgemmStridedBatched_64,
    [C32,] cublasCgemm3mStridedBatched cublasCgemm3mStridedBatched_64,
    [f16,] cublasHgemmStridedBatched cublasHgemmStridedBatched_64;

    fn strided_ex[](
        handle: usize, left: c_int, right: c_int, m: Int, n: Int, k: Int, alpha: usize, a: usize, ta: c_int, lda: Int,
        stride_a: c_longlong, b: usize, tb: c_int, ldb: Int, stride_b: c_longlong, beta: usize, c: usize, tc: c_int,
        ldc: Int, stride_c: c_longlong, batch: Int, compute: c_int, _algorithm: c_int
    ) {
        let sides = [
            Side::at_address(a, ta, lda, stride_a),
            Side::at_address(b, tb, ldb, stride_b),
            Side::at_address(c, tc, ldc, stride_c),
        ];
        let size = [m.into(), n.into(), k.into()];
        Call { operations: (left, right), size, scalars: (alpha, beta), sides, batch: batch.into(), compute }.run(handle)
    }
    [] cublasGemmStridedBatchedEx cublasGemmStridedBatchedEx_64;

    fn batched[T: Precision,](
        handle: usize, left: c_int, right: c_int, m: Int, n: Int, k: Int, alpha: usize, a: usize, lda: Int, b: usize,
        ldb: Int, beta: usize, c: usize, ldc: Int, batch: Int
    ) {
        let (t, compute) = T::CODES;
        batched_ex(handle, left, right, m, n, k, alpha, a, t, lda, b, t, ldb, beta, c, t, ldc, batch, compute, 0)
    }
    [f32,] cublasSgemmBatched cublasSgemmBatched_64, [f64,] cublasDgemmBatched cublasDgemmBatched_64,
    [C32,] cublasCgemmBatched cublasCgemmBatched_64, [C64,] cublasZgemmBatched cublasZgemmBatched_64,
    [C32,] cublasCgemm3mBatched cublasCgemm3mBatched_64,
    [f16,] cublasHgemmBatched cublasHgemmBatched_64;

    fn batched_ex[](
        handle: usize, left: c_int, right: c_int, m: Int, n: Int, k: Int, alpha: usize, a: usize, ta: c_int, lda: Int,
        b: usize, tb: c_int, ldb: Int, beta: usize, c: usize, tc: c_int, ldc: Int, batch: Int, compute: c_int,
        _algorithm: c_int
    ) {
        let sides = [Side::pointers(a, ta, lda), Side::pointers(b, tb, ldb), Side::pointers(c, tc, ldc)];
        let size = [m.into(), n.into(), k.into()];
        Call { operations: (left, right), size, scalars: (alpha, beta), sides, batch: batch.into(), compute }.run(handle)
    }
    [] cublasGemmBatchedEx cublasGemmBatchedEx_64;

    fn grouped[T: Precision,](
        handle: usize, left: Out<c_int>, right: Out<c_int>, m: Out<Int>, n: Out<Int>, k: Out<Int>, alpha: usize, a: usize,
        lda: Out<Int>, b: usize, ldb: Out<Int>, beta: usize, c: usize, ldc: Out<Int>, groups: Int, sizes: Out<Int>
    ) {
        let (t, compute) = T::CODES;
        grouped_ex(handle, left, right, m, n, k, alpha, a, t, lda, b, t, ldb, beta, c, t, ldc, groups, sizes, compute)
    }
    [f32,] cublasSgemmGroupedBatched cublasSgemmGroupedBatched_64, [f64,] cublasDgemmGroupedBatched cublasDgemmGroupedBatched_64;

    /// Arrays in host memory have one element per group; the pointers to all groups' matrices are in one array each.
    fn grouped_ex[](
        handle: usize, left: Out<c_int>, right: Out<c_int>, m: Out<Int>, n: Out<Int>, k: Out<Int>, alpha: usize, a: usize,
        ta: c_int, lda: Out<Int>, b: usize, tb: c_int, ldb: Out<Int>, beta: usize, c: usize, tc: c_int, ldc: Out<Int>,
        groups: Int, sizes: Out<Int>, compute: c_int
    ) {
        let job = Job::begin(handle)?;
        let count = size(groups.into())?;
        let Some(scale) = scale_of(compute) else { return job.refuse(&format!("compute type {compute}")) };
        let codes = |array: Out<c_int>| array.list(count).map_err(REFUSALS.null());
        let sizes_of = |array: Out<Int>| -> Answer<Vec<i64>> {
            Ok(array.list(count).map_err(REFUSALS.null())?.into_iter().map(Into::into).collect())
        };
        let (left, right) = (codes(left)?, codes(right)?);
        let [m, n, k, lda, ldb, ldc, sizes] =
            [sizes_of(m)?, sizes_of(n)?, sizes_of(k)?, sizes_of(lda)?, sizes_of(ldb)?, sizes_of(ldc)?, sizes_of(sizes)?];
        if sizes.iter().any(|count| *count < 0) || (count > 0 && (alpha == 0 || beta == 0)) {
            return REFUSALS.value();
        }
        let mut first = 0;
        for group in 0..count {
            let array = |pointers: usize| pointers.wrapping_add(first * 8);
            let scalar = |array: usize| array.wrapping_add(group * scale.size());
            let call = Call {
                operations: (left[group], right[group]),
                size: [m[group], n[group], k[group]],
                scalars: (scalar(alpha), scalar(beta)),
                sides: [
                    Side::pointers(array(a), ta, lda[group]),
                    Side::pointers(array(b), tb, ldb[group]),
                    Side::pointers(array(c), tc, ldc[group]),
                ],
                batch: sizes[group],
                compute,
            };
            call.run(handle)?;
            first += sizes[group] as usize;
        }
        Ok(())
    }
    [] cublasGemmGroupedBatchedEx cublasGemmGroupedBatchedEx_64;
}
