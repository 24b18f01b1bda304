//! The four types that routines compute in, and matrix products in them with `matrixmultiply`.

use std::ops::Neg;

use matrixmultiply::CGemmOption::Standard;
use num_complex::Complex;
use num_traits::NumAssign;

use super::element::{Element, Wide};

/// A number type that routines compute in.
pub(crate) trait Number: Copy + NumAssign + Neg<Output = Self> + Send + Sync + 'static {
    /// Its representation in memory.
    const ELEMENT: Element;
    /// The type of its real part.
    const REAL: Element;

    /// Rounded to this type; the real part of it for real numbers.
    fn from_wide(value: Wide) -> Self;

    fn wide(self) -> Wide;

    fn conj(self) -> Self;

    /// Its real part.
    fn real(self) -> Self {
        Self::from_wide(Wide::new(self.wide().re, 0.0))
    }

    /// C (m x n) += A (m x k) B (k x n), all contiguous and column-major: sums in the order of k, the same for any size.
    fn multiply_add(size: [usize; 3], a: &[Self], b: &[Self], c: &mut [Self]);

    /// |re| + |im|, BLAS's size of a number.
    fn size(self) -> f64 {
        let value = self.wide();
        value.re.abs() + value.im.abs()
    }
}

/// `column` += `factor` * `other`.
pub(crate) fn add_multiple<T: Number>(column: &mut [T], factor: T, other: &[T]) {
    for (value, other) in column.iter_mut().zip(other) {
        *value += factor * *other;
    }
}

macro_rules! number {
    ($($type:ty, $real:ty, $element:ident $real_element:ident, $function:ident($($flag:ident)*), $piece:ty,
       $of:expr, $wide:expr, $conj:expr;)*) => { $(
        impl Number for $type {
            const ELEMENT: Element = Element::$element;
            const REAL: Element = Element::$real_element;

            fn from_wide(value: Wide) -> Self {
                $of(value)
            }

            fn wide(self) -> Wide {
                $wide(self)
            }

            fn conj(self) -> Self {
                $conj(self)
            }

            fn multiply_add([m, n, k]: [usize; 3], a: &[Self], b: &[Self], c: &mut [Self]) {
                assert!(a.len() >= m * k && b.len() >= k * n && c.len() >= m * n, "matrices of other sizes");
                let one = <$type as num_traits::One>::one();
                // SAFETY: each matrix is by columns in a slice that holds it, as just asserted; a complex number is an array of two.
                unsafe {
                    let one = std::mem::transmute_copy::<$type, $piece>(&one);
                    let (a, b, c) = (a.as_ptr().cast::<$piece>(), b.as_ptr().cast::<$piece>(), c.as_mut_ptr().cast::<$piece>());
                    let (m_step, k_step) = (m as isize, k as isize);
                    matrixmultiply::$function($($flag, $flag,)* m, k, n, one, a, 1, m_step, b, 1, k_step, one, c, 1, m_step);
                }
            }
        }
    )* };
}

number! {
    f32, f32, F32 F32, sgemm(), f32, |value: Wide| value.re as f32, |value: f32| Wide::new(value.into(), 0.0), |value| value;
    f64, f64, F64 F64, dgemm(), f64, |value: Wide| value.re, |value| Wide::new(value, 0.0), |value| value;
    Complex<f32>, f32, C32 F32, cgemm(Standard), [f32; 2], |value: Wide| Complex::new(value.re as f32, value.im as f32),
        |value: Complex<f32>| Wide::new(value.re.into(), value.im.into()), |value: Complex<f32>| Complex::new(value.re, -value.im);
    Complex<f64>, f64, C64 F64, zgemm(Standard), [f64; 2], |value| value, |value| value, |value: Complex<f64>| Complex::new(value.re, -value.im);
}

/// Evaluates an expression with `$type` as the type in which numbers of an element type are computed.
macro_rules! with_number {
    ($element:expr, $type:ident => $body:expr) => {
        match $element {
            $crate::libraries::cublas::element::Element::F64 => {
                type $type = f64;
                $body
            }
            $crate::libraries::cublas::element::Element::C32 => {
                type $type = num_complex::Complex<f32>;
                $body
            }
            $crate::libraries::cublas::element::Element::C64 => {
                type $type = num_complex::Complex<f64>;
                $body
            }
            _ => {
                type $type = f32;
                $body
            }
        }
    };
}

pub(crate) use with_number;
