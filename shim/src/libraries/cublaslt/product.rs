//! The products of libcublasLt: turns its descriptors into a `Product`, or a reason why it is not supported.
#![expect(clippy::too_many_arguments, reason = "the signatures are NVIDIA's")]

use std::ffi::{c_int, c_void};

use abi::argument::Out;
use abi::library::Library;

use super::descriptor::{Descriptor, descriptor};
use crate::boundary::gap;
use crate::libraries::cublas::dense::Transpose;
use crate::libraries::cublas::element::Element;
use crate::libraries::cublas::epilogue::{Activation, Auxiliary, Epilogue, GradientOf};
use crate::libraries::cublas::gemm::{FAST_TF32, operation, scale_of};
use crate::libraries::cublas::handle::REFUSALS;
use crate::libraries::cublas::job::{Job, Scale, refuse};
use crate::libraries::cublas::operand::Base;
use crate::libraries::cublas::product::{Matrix, Product};
use crate::libraries::objects::{Answer, Code};
use crate::sanitizer::known;

/// `cublasLtMatmulDescAttributes_t`.
mod product_attribute {
    pub(crate) const COMPUTE_TYPE: i32 = 0;
    pub(crate) const SCALE_TYPE: i32 = 1;
    pub(crate) const POINTER_MODE: i32 = 2;
    pub(crate) const TRANSPOSE_A: i32 = 3;
    pub(crate) const TRANSPOSE_B: i32 = 4;
    pub(crate) const EPILOGUE: i32 = 7;
    pub(crate) const BIAS_POINTER: i32 = 8;
    pub(crate) const AUX_POINTER: i32 = 11;
    pub(crate) const AUX_LEADING: i32 = 12;
    pub(crate) const AUX_STRIDE: i32 = 13;
    /// The scale attributes of A, B, C and D.
    pub(crate) const SCALES: [i32; 4] = [17, 18, 19, 20];
    pub(crate) const AMAX_D: i32 = 21;
    pub(crate) const AUX_DATA_TYPE: i32 = 22;
    pub(crate) const BIAS_DATA_TYPE: i32 = 26;
    /// Attributes that are supported only if 0 or not set, and their names.
    pub(crate) const OTHERS: [(i32, &str); 16] = [
        (5, "a transposed C"),
        (10, "a bias for each product of a batch"),
        (14, "factors for each product of a batch"),
        (23, "a scale of the auxiliary matrix"),
        (24, "the largest of the auxiliary matrix"),
        (31, "scales of blocks of A"),
        (32, "scales of blocks of B"),
        (33, "scales of blocks of C"),
        (34, "scales of blocks of D"),
        (35, "scales of blocks of the auxiliary matrix"),
        (36, "scales that come with D"),
        (37, "scales that come with D"),
        (39, "an alpha for each product of a batch"),
        (40, "a beta for each product of a batch"),
        (27, "chunks that wait for one another"),
        (28, "chunks that wait for one another"),
    ];
    /// Of these, what a product writes to: the largest of the auxiliary matrix, and the scales of D.
    pub(crate) const OTHER_RESULTS: [i32; 2] = [24, 36];
    pub(crate) const FILL_MODE: i32 = 6;
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
    pub(crate) const PLANE_OFFSET: i32 = 7;
    pub(crate) const BATCH_MODE: i32 = 8;
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

/// A matrix as described by its layout descriptor.
pub(super) struct Layout {
    pub(super) element: Result<Element, String>,
    pub(super) by_rows: bool,
    pub(super) rows: usize,
    pub(super) columns: usize,
    leading: usize,
    pub(super) batch: usize,
    stride: i64,
    /// Whether the matrices of a batch are given by pointers.
    by_pointers: bool,
}

impl Layout {
    pub(super) fn read(handle: usize) -> Answer<Self> {
        let layout: &Descriptor = &*descriptor(handle)?;
        let size =
            |attribute, default| usize::try_from(layout.number(attribute, default)).map_err(|_| Code(REFUSALS.value));
        let datatype = layout.number(layout_attribute::TYPE, -1) as c_int;
        let by_rows = match layout.number(layout_attribute::ORDER, 0) {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(format!("matrix order {other}")),
        };
        let batch_mode = layout.number(layout_attribute::BATCH_MODE, 0);
        let known = || {
            if layout.number(layout_attribute::PLANE_OFFSET, 0) != 0 {
                return Err("real and imaginary parts apart".to_owned());
            }
            if batch_mode > 1 {
                return Err("products in groups".to_owned());
            }
            Element::from_code(datatype).ok_or_else(|| format!("datatype {datatype}"))
        };
        Ok(Self {
            element: by_rows.clone().and_then(|_| known()),
            by_rows: by_rows.unwrap_or(false),
            rows: size(layout_attribute::ROWS, 0)?,
            columns: size(layout_attribute::COLUMNS, 0)?,
            leading: size(layout_attribute::LEADING, 0)?,
            batch: size(layout_attribute::BATCH, 1)?,
            stride: layout.number(layout_attribute::STRIDE, 0),
            by_pointers: batch_mode == 1,
        })
    }

    pub(super) fn matrix(&self, address: usize, operation: Transpose) -> Result<Matrix, String> {
        let element = self.element.clone()?;
        let operation = match (self.by_rows, operation) {
            (false, operation) => operation,
            (true, Transpose::No) => Transpose::Yes,
            (true, Transpose::Yes) => Transpose::No,
            (true, Transpose::Conjugate) if element.is_complex() => {
                return Err("a conjugate of a matrix by rows".to_owned());
            }
            (true, Transpose::Conjugate) => Transpose::No,
        };
        let base = if self.by_pointers { Base::Pointers(address) } else { Base::At { address, stride: self.stride } };
        Ok(Matrix { base, element, leading: self.leading, operation })
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

/// The epilogue of a product whose C and D have these types and D this many rows. Where it is only planned, addresses may be missing.
fn epilogue(product: &Descriptor, c: Element, d: Element, rows: usize, is_planned: bool) -> Result<Epilogue, String> {
    const RELU: i64 = 2;
    const BIAS: i64 = 4;
    const RELU_GRADIENT: i64 = 8;
    const BIAS_GRADIENT: i64 = 16;
    const GELU: i64 = 32;
    const GELU_GRADIENT: i64 = 64;
    const AUXILIARY: i64 = 128;
    const GRADIENT_A: i64 = 256;
    const GRADIENT_B: i64 = 512;
    let address = |attribute| usize::try_from(product.number(attribute, 0)).unwrap_or(0);
    let kind = product.number(product_attribute::EPILOGUE, 1);
    let has = |flag: i64| kind & flag != 0;
    let activation = match kind & !(BIAS | AUXILIARY | BIAS_GRADIENT | 1) {
        RELU | RELU_GRADIENT => Activation::Relu,
        GELU | GELU_GRADIENT => Activation::Gelu,
        0 | GRADIENT_A | GRADIENT_B => Activation::None,
        _ => return Err(format!("epilogue {kind}")),
    };
    // What is neither stored nor found: what 8 bits are too few for has the type of C.
    let plain = if d.is_float8() { c } else { d };
    let element = |attribute, default| match product.number(attribute, -1) as c_int {
        -1 => Ok(default),
        code => Element::from_code(code).ok_or_else(|| format!("datatype {code} of the epilogue")),
    };
    let mut result = Epilogue { activation, backward: has(RELU_GRADIENT | GELU_GRADIENT), ..Epilogue::default() };
    let gradient = match kind {
        _ if has(BIAS_GRADIENT) => Some(GradientOf::D),
        _ if has(GRADIENT_A) => Some(GradientOf::A),
        _ if has(GRADIENT_B) => Some(GradientOf::B),
        _ => None,
    };
    if has(BIAS) || gradient.is_some() {
        let place = (address(product_attribute::BIAS_POINTER), element(product_attribute::BIAS_DATA_TYPE, plain)?);
        if place.0 == 0 && !is_planned {
            return Err("a bias without an address".to_owned());
        }
        result.bias = has(BIAS).then_some(place);
        result.gradient = gradient.map(|of| (place.0, place.1, of));
    }
    if has(AUXILIARY) {
        let is_bits = has(RELU | RELU_GRADIENT);
        let (place, leading) = (address(product_attribute::AUX_POINTER), address(product_attribute::AUX_LEADING));
        if (place == 0 && !is_planned) || leading < rows || (is_bits && leading % 128 != 0) {
            return Err("an auxiliary matrix without an address, or whose leading dimension is too short".to_owned());
        }
        let element = element(product_attribute::AUX_DATA_TYPE, d)?;
        result.auxiliary = Some(Auxiliary {
            address: place,
            element: (!is_bits).then_some(element),
            leading,
            stride: product.number(product_attribute::AUX_STRIDE, 0),
        });
    }
    result.scales = product_attribute::SCALES.map(|attribute| Some(address(attribute)).filter(|place| *place != 0));
    result.largest = Some(address(product_attribute::AMAX_D)).filter(|place| *place != 0);
    Ok(result)
}

/// The product described by the descriptors, and the batch count; the inner error is the reason why it is not
/// supported. Without addresses, it is only planned.
fn describe(product: usize, layouts: [usize; 4], at: Option<Addresses>) -> Answer<Result<(Product, usize), String>> {
    let product = descriptor(product)?;
    let [a, b, c, d] = layouts;
    let (a, b, c, d) = (Layout::read(a)?, Layout::read(b)?, Layout::read(c)?, Layout::read(d)?);
    let number = |attribute, default| product.number(attribute, default) as c_int;
    let left = operation(number(product_attribute::TRANSPOSE_A, 0))?;
    let right = operation(number(product_attribute::TRANSPOSE_B, 0))?;
    let (m, k) = if left == Transpose::No { (a.rows, a.columns) } else { (a.columns, a.rows) };
    let (inner, n) = if right == Transpose::No { (b.rows, b.columns) } else { (b.columns, b.rows) };
    if inner != k || (d.rows, d.columns) != (m, n) || (c.rows, c.columns) != (m, n) {
        return REFUSALS.value();
    }
    let is_planned = at.is_none();
    let at = at.unwrap_or_default();
    Ok((|| {
        for (attribute, what) in product_attribute::OTHERS {
            if !known::is_wanted() && product.number(attribute, 0) != 0 {
                return Err(what.to_owned());
            }
        }
        if number(product_attribute::FILL_MODE, 2) != 2 {
            return Err("one triangle of D".to_owned());
        }
        let (c_matrix, d_matrix) = (c.matrix(at.c, Transpose::No)?, d.matrix(at.d, Transpose::No)?);
        let epilogue = epilogue(&product, c_matrix.element, d_matrix.element, m, is_planned)?;
        let is_complex = d_matrix.element.is_complex();
        if is_complex && number(product_attribute::EPILOGUE, 1) != 1 {
            return Err("an epilogue of complex numbers".to_owned());
        }
        let (a, b) = (a.matrix(at.a, left)?, b.matrix(at.b, right)?);
        if [a, b, c_matrix].iter().any(|matrix| matrix.element.is_complex() != is_complex) {
            return Err("complex numbers and others".to_owned());
        }
        let (alpha, beta) = (Scale::ONE, Scale::ZERO);
        let size = [m, n, k];
        Ok((Product { size, a, b, c: c_matrix, d: d_matrix, alpha, beta, epilogue }, d.batch))
    })())
}

/// cuBLASLt's requirements for integer products in the usual element order: the first factor transposed and the second not,
/// row sizes in multiples of four, 32-bit factors and results, or float factors and 8-bit results. Other products must not
/// have integers.
///
/// # Errors
/// NotSupported, as NVIDIA's library returns.
fn check_integers(product: &Product, compute: c_int, scale: Element) -> Answer {
    const COMPUTE_32I: std::ops::RangeInclusive<c_int> = 72..=73;
    let is_integer = |element: Element| matches!(element, Element::I8 | Element::I32);
    let elements = [product.a, product.b, product.c, product.d].map(|matrix| matrix.element);
    let fits = if COMPUTE_32I.contains(&compute) {
        let result = if scale == Element::I32 { Element::I32 } else { Element::I8 };
        elements == [Element::I8, Element::I8, result, result]
            && matches!(scale, Element::I32 | Element::F32)
            && product.a.operation != Transpose::No
            && product.b.operation == Transpose::No
            && [product.size[0], product.size[2], product.a.leading, product.b.leading, product.d.leading]
                .iter()
                .all(|size| size % 4 == 0)
            && product.epilogue.is_plain()
    } else {
        !elements.into_iter().any(is_integer) && !is_integer(scale)
    };
    if fits { Ok(()) } else { Err(Code(Library::CublasLt.not_supported())) }
}

/// One algorithm for every product that we compute, or, where nothing computes, for every product. It needs no workspace.
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
    if let Err(why) = describe(product, [a, b, c, d], None)?
        && !known::is_wanted()
    {
        return refuse(Library::CublasLt, "cublasLtMatmulAlgoGetHeuristic", &why);
    }
    let result = Heuristic { algorithm: [0; 8], workspace: 0, state: 0, waves: 1.0, reserved: [0; 4] };
    // SAFETY: the caller vouches for `wanted` entries, of which there is at least one.
    unsafe { results.write_unaligned(result) };
    found.set_if_wanted(1);
    Ok(())
}

/// # Safety
/// Alpha and beta point to values of the descriptor's scale type.
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
    let described = describe(product, [layout_a, layout_b, layout_c, layout_d], Some(at))?;
    let product = descriptor(product)?;
    if known::is_wanted() {
        let results = product_attribute::OTHER_RESULTS.map(|attribute| product.number(attribute, 0) as usize);
        known::launched(NAME, results.into_iter());
    }
    let (mut described, batch) = match described {
        Ok(described) => described,
        // What it would have computed is unknown.
        Err(why) if known::is_wanted() => {
            known::launched(NAME, [at.d].into_iter());
            return gap::tolerate(Library::CublasLt, NAME, &why).map_err(|refused| Code(u32::from(refused)));
        }
        Err(why) => return refuse(Library::CublasLt, NAME, &why),
    };
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
    let mut job = Job::new(Library::CublasLt, stream, mode == pointer_mode::DEVICE);
    job.batch(batch as i64)?;
    (described.alpha, described.beta) = match mode {
        pointer_mode::HOST | pointer_mode::DEVICE => {
            (job.scale(alpha as usize, scale_type)?, job.scale(beta as usize, scale_type)?)
        }
        pointer_mode::ALPHA_BY_ROW_BETA_ZERO => {
            (job.scale_on_device(alpha as usize, scale_type, described.size[0]), Scale::ZERO)
        }
        other => return refuse(Library::CublasLt, NAME, &format!("pointer mode {other}")),
    };
    if compute == FAST_TF32 {
        job.allow_tf32();
    }
    described.submit(job)
}
