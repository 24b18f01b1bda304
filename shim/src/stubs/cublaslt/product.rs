//! The products of libcublasLt: what its descriptors ask for, as a `Product`, or why we do not compute it.
#![expect(clippy::too_many_arguments, reason = "the signatures are NVIDIA's")]

use std::ffi::{c_int, c_void};

use super::descriptor::{Descriptor, descriptor};
use crate::boundary::args::Out;
use crate::boundary::library::Library;
use crate::stubs::cublas::gemm::{self, is_transposed, refuse, scale_of};
use crate::stubs::cublas::handle::REFUSALS;
use crate::stubs::cublas::product::{Activation, Element, Matrix, Product, Scale};
use crate::stubs::objects::{Answer, Code};

/// `cublasLtMatmulDescAttributes_t`.
mod product_attribute {
    pub(crate) const COMPUTE_TYPE: i32 = 0;
    pub(crate) const SCALE_TYPE: i32 = 1;
    pub(crate) const POINTER_MODE: i32 = 2;
    pub(crate) const TRANSPOSE_A: i32 = 3;
    pub(crate) const TRANSPOSE_B: i32 = 4;
    pub(crate) const TRANSPOSE_C: i32 = 5;
    pub(crate) const EPILOGUE: i32 = 7;
    pub(crate) const BIAS_POINTER: i32 = 8;
    pub(crate) const BIAS_DATA_TYPE: i32 = 26;
    /// Scales and maxima of 8-bit products.
    pub(crate) const SCALED: std::ops::RangeInclusive<i32> = 17..=21;
}

/// `cublasLtMatrixLayoutAttribute_t`.
mod layout_attribute {
    pub(crate) const TYPE: i32 = 0;
    pub(crate) const ORDER: i32 = 1;
    pub(crate) const ROWS: i32 = 2;
    pub(crate) const COLUMNS: i32 = 3;
    pub(crate) const LEADING: i32 = 4;
    pub(crate) const BATCH: i32 = 5;
    pub(crate) const STRIDE: i32 = 6;
}

/// `cublasLtPointerMode_t`.
mod pointer_mode {
    pub(crate) const HOST: i64 = 0;
    pub(crate) const DEVICE: i64 = 1;
    /// CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_ZERO
    pub(crate) const ALPHA_BY_ROW_BETA_ZERO: i64 = 3;
}

/// `cublasLtMatmulHeuristicResult_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Heuristic {
    algorithm: [u64; 8],
    workspace: usize,
    state: c_int,
    waves: f32,
    reserved: [c_int; 4],
}

const _: () = assert!(size_of::<Heuristic>() == 96);

/// A matrix as its layout descriptor has it.
struct Layout {
    element: Result<Element, String>,
    by_rows: bool,
    rows: usize,
    columns: usize,
    leading: usize,
    batch: usize,
    stride: i64,
}

impl Layout {
    fn read(handle: usize) -> Answer<Self> {
        let layout: &Descriptor = &*descriptor(handle)?;
        let size =
            |attribute, default| usize::try_from(layout.number(attribute, default)).map_err(|_| Code(REFUSALS.value));
        let datatype = layout.number(layout_attribute::TYPE, -1) as c_int;
        let by_rows = match layout.number(layout_attribute::ORDER, 0) {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(format!("matrix order {other}")),
        };
        Ok(Self {
            element: by_rows
                .clone()
                .and_then(|_| Element::from_code(datatype).ok_or_else(|| format!("datatype {datatype}"))),
            by_rows: by_rows.unwrap_or(false),
            rows: size(layout_attribute::ROWS, 0)?,
            columns: size(layout_attribute::COLUMNS, 0)?,
            leading: size(layout_attribute::LEADING, 0)?,
            batch: size(layout_attribute::BATCH, 1)?,
            stride: layout.number(layout_attribute::STRIDE, 0),
        })
    }

    fn matrix(&self, address: usize, transposed: bool) -> Result<Matrix, String> {
        let element = self.element.clone()?;
        let transposed = self.by_rows != transposed;
        Ok(Matrix { address, element, leading: self.leading, transposed, stride: self.stride })
    }
}

/// The four addresses of a call.
#[derive(Clone, Copy, Debug, Default)]
struct Addresses {
    a: usize,
    b: usize,
    c: usize,
    d: usize,
}

/// What the descriptors ask for; the inner error says why we do not compute it.
fn describe(product: usize, layouts: [usize; 4], at: Addresses) -> Answer<Result<Product, String>> {
    let product = descriptor(product)?;
    let [a, b, c, d] = layouts;
    let (a, b, c, d) = (Layout::read(a)?, Layout::read(b)?, Layout::read(c)?, Layout::read(d)?);
    let number = |attribute, default| product.number(attribute, default) as c_int;
    let left = is_transposed(number(product_attribute::TRANSPOSE_A, 0))?;
    let right = is_transposed(number(product_attribute::TRANSPOSE_B, 0))?;
    let (m, k) = if left { (a.columns, a.rows) } else { (a.rows, a.columns) };
    let (inner, n) = if right { (b.columns, b.rows) } else { (b.rows, b.columns) };
    if inner != k || (d.rows, d.columns) != (m, n) || (c.rows, c.columns) != (m, n) {
        return REFUSALS.value();
    }
    Ok((|| {
        if number(product_attribute::TRANSPOSE_C, 0) != 0 {
            return Err("transposed C".to_owned());
        }
        if product_attribute::SCALED.into_iter().any(|attribute| product.number(attribute, 0) != 0) {
            return Err("scaled matrices".to_owned());
        }
        let (with_bias, activation) = match number(product_attribute::EPILOGUE, 1) {
            1 => (false, Activation::None),
            2 => (false, Activation::Relu),
            4 => (true, Activation::None),
            6 => (true, Activation::Relu),
            32 => (false, Activation::Gelu),
            36 => (true, Activation::Gelu),
            other => return Err(format!("epilogue {other}")),
        };
        let d_element = d.element.clone()?;
        let bias = match product.number(product_attribute::BIAS_POINTER, 0) {
            0 if with_bias => return Err("a bias without an address".to_owned()),
            address if with_bias => {
                let element = match number(product_attribute::BIAS_DATA_TYPE, -1) {
                    -1 => d_element,
                    code => Element::from_code(code).ok_or_else(|| format!("bias datatype {code}"))?,
                };
                Some((address as usize, element))
            }
            _ => None,
        };
        Ok(Product {
            m,
            n,
            k,
            a: a.matrix(at.a, left)?,
            b: b.matrix(at.b, right)?,
            c: c.matrix(at.c, false)?,
            d: d.matrix(at.d, false)?,
            alpha: Scale::Value(1.0),
            beta: Scale::Value(0.0),
            batch: d.batch,
            bias,
            activation,
        })
    })())
}

/// What cuBLASLt wants of products of integers in the usual order of elements: the first factor transposed and the second not,
/// sizes of rows in fours, 32-bit factors and results, or float factors and 8-bit results; and of others, no integers.
///
/// # Errors
/// NotSupported, which is NVIDIA's answer too.
fn check_integers(product: &Product, compute: c_int, scale: Element) -> Answer {
    const COMPUTE_32I: std::ops::RangeInclusive<c_int> = 72..=73;
    let is_integer = |element: Element| matches!(element, Element::I8 | Element::I32);
    let elements = [product.a, product.b, product.c, product.d].map(|matrix| matrix.element);
    let fits = if COMPUTE_32I.contains(&compute) {
        let result = if scale == Element::I32 { Element::I32 } else { Element::I8 };
        elements == [Element::I8, Element::I8, result, result]
            && matches!(scale, Element::I32 | Element::F32)
            && product.a.transposed
            && !product.b.transposed
            && [product.m, product.k, product.a.leading, product.b.leading, product.d.leading]
                .iter()
                .all(|size| size % 4 == 0)
            && product.bias.is_none()
            && product.activation == Activation::None
    } else {
        !elements.into_iter().any(is_integer) && !is_integer(scale)
    };
    if fits { Ok(()) } else { Err(Code(Library::CublasLt.not_supported())) }
}

/// One algorithm for every product that we compute. It needs no workspace.
///
/// # Safety
/// `results` has room for `wanted` entries.
pub(crate) unsafe fn heuristic(
    _handle: usize,
    product: usize,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    _preference: usize,
    wanted: c_int,
    results: *mut Heuristic,
    found: Out<c_int>,
) -> Answer {
    let found = found.required().map_err(REFUSALS.null())?;
    if wanted < 1 || results.is_null() {
        return REFUSALS.value();
    }
    found.set_if_wanted(0);
    if let Err(why) = describe(product, [a, b, c, d], Addresses::default())? {
        return refuse(Library::CublasLt, "cublasLtMatmulAlgoGetHeuristic", &why);
    }
    let result = Heuristic { algorithm: [0; 8], workspace: 0, state: 0, waves: 1.0, reserved: [0; 4] };
    // SAFETY: the caller vouches for `wanted` entries, of which there is at least one.
    unsafe { results.write_unaligned(result) };
    found.set_if_wanted(1);
    Ok(())
}

/// # Safety
/// Alpha and beta point to what the descriptor's scale type says.
pub(crate) unsafe fn multiply(
    _handle: usize,
    product: usize,
    alpha: *const c_void,
    a: *const c_void,
    layout_a: usize,
    b: *const c_void,
    layout_b: usize,
    beta: *const c_void,
    c: *const c_void,
    layout_c: usize,
    d: *mut c_void,
    layout_d: usize,
    _algorithm: *const c_void,
    _workspace: *mut c_void,
    _workspace_bytes: usize,
    stream: usize,
) -> Answer {
    const NAME: &str = "cublasLtMatmul";
    let at = Addresses { a: a as usize, b: b as usize, c: c as usize, d: d as usize };
    let mut described = match describe(product, [layout_a, layout_b, layout_c, layout_d], at)? {
        Ok(described) => described,
        Err(why) => return refuse(Library::CublasLt, NAME, &why),
    };
    let product = descriptor(product)?;
    let compute = product.number(product_attribute::COMPUTE_TYPE, -1) as c_int;
    let scale_type = match product.number(product_attribute::SCALE_TYPE, -1) as c_int {
        -1 => scale_of(compute),
        code => scale_of(compute).and(Element::from_code(code)),
    };
    let Some(scale_type) = scale_type else {
        return refuse(Library::CublasLt, NAME, &format!("compute type {compute}"));
    };
    check_integers(&described, compute, scale_type)?;
    let mode = product.number(product_attribute::POINTER_MODE, 0);
    (described.alpha, described.beta) = match mode {
        // SAFETY: passed on.
        pointer_mode::HOST | pointer_mode::DEVICE => unsafe {
            let on_device = mode == pointer_mode::DEVICE;
            (gemm::scale(alpha, scale_type, on_device)?, gemm::scale(beta, scale_type, on_device)?)
        },
        pointer_mode::ALPHA_BY_ROW_BETA_ZERO => (Scale::ByRow(alpha as usize, scale_type), Scale::Value(0.0)),
        other => return refuse(Library::CublasLt, NAME, &format!("pointer mode {other}")),
    };
    gemm::run(Library::CublasLt, NAME, stream, described)
}
