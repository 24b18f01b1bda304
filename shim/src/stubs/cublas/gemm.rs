//! The calls of libcublas that multiply matrices, and how any product travels: described, checked, done in stream order.
#![expect(clippy::too_many_arguments, reason = "the signatures are NVIDIA's")]

use std::ffi::{c_int, c_longlong, c_void};
use std::sync::Arc;

use crate::boundary::gap;
use crate::boundary::library::Library;
use crate::device::error::CudaResult;
use crate::device::graph::structure::{Operation, Work};
use crate::device::running;
use crate::device::stream::{self, Stream};
use crate::device::submit::submit;
use crate::sanitizer::{init, races};
use crate::settings::{self, GemmMode};
use crate::stubs::cublas::handle::{self, REFUSALS};
use crate::stubs::cublas::product::{Activation, Element, Fault, Matrix, Product, Scale};
use crate::stubs::objects::{Answer, Code};

/// CUBLAS_STATUS_EXECUTION_FAILED.
const EXECUTION_FAILED: Code = Code(13);

/// A product that we do not compute: a gap, and the library's "not supported".
pub(crate) fn refuse<T>(library: Library, name: &'static str, why: &str) -> Answer<T> {
    gap::record(library, name, why);
    Err(Code(library.not_supported()))
}

/// Computes `product` in the order of the stream behind `handle`.
pub(crate) fn run(library: Library, name: &'static str, handle: usize, product: Product) -> Answer {
    if product.m == 0 || product.n == 0 || product.batch == 0 {
        return Ok(());
    }
    product.check().map_err(|fault| match fault {
        Fault::Value => Code(REFUSALS.value),
        Fault::Address => EXECUTION_FAILED,
    })?;
    let stream = stream::resolve(handle).map_err(|_| EXECUTION_FAILED)?;
    let policy = settings::get().map(|settings| settings.gemm).unwrap_or_default();
    if policy.strict {
        let supported = &stream.device().gpu.profile.supported_types;
        let types = [product.a.element, product.b.element, product.c.element];
        // What the hardware would refuse is not a gap of ours.
        if types.iter().any(|element| !supported.iter().any(|name| name == element.profile_word())) {
            return Err(Code(library.not_supported()));
        }
    }
    if policy.mode == GemmMode::Skip {
        note(&stream, name, &product);
        return tolerate(library, name, "skipped, as FAKEGPU_CPU_GEMM_MODE says");
    }
    if policy.max_operations.is_some_and(|most| product.operations() > most) {
        note(&stream, name, &product);
        return tolerate(library, name, "larger than FAKEGPU_CPU_GEMM_MAX_OPS");
    }
    let work = Operation::Work(Arc::new(Named { name, product }));
    submit(work, &stream).map_err(|_| EXECUTION_FAILED)
}

/// What the sanitizers have to know of it.
fn note(stream: &Stream, name: &'static str, product: &Product) {
    if races::are_wanted() {
        races::work(&[stream.lane()], name, &product.accesses());
    }
    if init::is_wanted() {
        product.follow(name);
    }
}

/// A checked product of a call.
struct Named {
    name: &'static str,
    product: Product,
}

impl Work for Named {
    fn issue(&self, stream: &Arc<Stream>) -> CudaResult {
        let Self { name, product } = *self;
        note(stream, name, &product);
        let device = stream.device();
        stream.run(move || {
            let _running = running::start(device);
            // SAFETY: it was checked; a program that frees the memory before the stream got here breaks NVIDIA's contract.
            unsafe { product.compute() }
        });
        Ok(())
    }

    fn name(&self) -> &str {
        self.name
    }
}

fn tolerate(library: Library, name: &'static str, why: &str) -> Answer {
    gap::tolerate(library, name, why).map_err(|refused| Code(u32::from(refused)))
}

/// Reads `cublasOperation_t`; a conjugate of real numbers changes nothing.
pub(crate) fn is_transposed(operation: c_int) -> Answer<bool> {
    match operation {
        0 => Ok(false),
        1 | 2 => Ok(true),
        _ => Err(Code(REFUSALS.value)),
    }
}

/// The type that alpha and beta have for a `cublasComputeType_t`; `None` for what is not computed here.
pub(crate) fn scale_of(compute: c_int) -> Option<Element> {
    match compute {
        64 | 65 => Some(Element::F16),
        68 | 69 | 74 | 75 | 77 | 78 => Some(Element::F32),
        70 | 71 => Some(Element::F64),
        72 | 73 => Some(Element::I32),
        _ => None,
    }
}

/// Alpha or beta, read now where it is in host memory.
///
/// # Safety
/// A host pointer that is not null points to an `element`.
pub(crate) unsafe fn scale(pointer: *const c_void, element: Element, on_device: bool) -> Answer<Scale> {
    if pointer.is_null() {
        return REFUSALS.value();
    }
    if on_device {
        return Ok(Scale::At(pointer as usize, element));
    }
    // SAFETY: not null, and the caller vouches for the rest.
    Ok(Scale::Value(unsafe { element.read(pointer as usize) }))
}

/// One of the three matrices of a call.
#[derive(Clone, Copy)]
pub(crate) struct Side {
    address: *const c_void,
    datatype: c_int,
    leading: c_int,
    stride: c_longlong,
    by_rows: bool,
}

/// A call, whichever it is.
struct Call {
    name: &'static str,
    operations: (c_int, c_int),
    size: (c_int, c_int, c_int),
    alpha: *const c_void,
    a: Side,
    b: Side,
    beta: *const c_void,
    c: Side,
    batch: c_int,
    compute: c_int,
}

impl Call {
    /// # Safety
    /// Alpha and beta point to what the compute type says.
    unsafe fn run(self, handle: usize) -> Answer {
        let (stream, on_device) = handle::working(handle)?;
        let (left, right) = (is_transposed(self.operations.0)?, is_transposed(self.operations.1)?);
        let size = |number: c_int| usize::try_from(number).map_err(|_| Code(REFUSALS.value));
        let (m, n, k, batch) = (size(self.size.0)?, size(self.size.1)?, size(self.size.2)?, size(self.batch)?);
        let Some(scale_type) = scale_of(self.compute) else {
            return refuse(Library::Cublas, self.name, &format!("compute type {}", self.compute));
        };
        let matrix = |side: Side, transposed: bool| {
            let Some(element) = Element::from_code(side.datatype) else {
                return refuse(Library::Cublas, self.name, &format!("datatype {}", side.datatype));
            };
            if (element == Element::I8 || element == Element::I32) != (scale_type == Element::I32) {
                return refuse(Library::Cublas, self.name, &format!("datatype {} by another type", side.datatype));
            }
            let leading = size(side.leading)?;
            Ok(Matrix { address: side.address as usize, element, leading, transposed, stride: side.stride })
        };
        let c = matrix(self.c, self.c.by_rows)?;
        let product = Product {
            m,
            n,
            k,
            a: matrix(self.a, left)?,
            b: matrix(self.b, right)?,
            c,
            d: c,
            // SAFETY: passed on.
            alpha: unsafe { scale(self.alpha, scale_type, on_device) }?,
            // SAFETY: passed on.
            beta: unsafe { scale(self.beta, scale_type, on_device) }?,
            batch,
            bias: None,
            activation: Activation::None,
        };
        run(Library::Cublas, self.name, stream, product)
    }
}

fn side(address: *const c_void, datatype: c_int, leading: c_int, stride: c_longlong) -> Side {
    Side { address, datatype, leading, stride, by_rows: false }
}

macro_rules! typed {
    ($($plain:ident $strided:ident $plain_name:literal $strided_name:literal $datatype:literal $compute:literal)*) => { $(
        /// # Safety
        /// Alpha and beta point to a number each.
        #[doc(alias = $plain_name)]
        pub(crate) unsafe fn $plain(
            handle: usize, left: c_int, right: c_int, m: c_int, n: c_int, k: c_int, alpha: *const c_void,
            a: *const c_void, lda: c_int, b: *const c_void, ldb: c_int, beta: *const c_void, c: *mut c_void, ldc: c_int,
        ) -> Answer {
            let call = Call {
                name: $plain_name, operations: (left, right), size: (m, n, k), alpha, beta,
                a: side(a, $datatype, lda, 0), b: side(b, $datatype, ldb, 0), c: side(c, $datatype, ldc, 0),
                batch: 1, compute: $compute,
            };
            // SAFETY: passed on.
            unsafe { call.run(handle) }
        }

        /// # Safety
        /// Alpha and beta point to a number each.
        #[doc(alias = $strided_name)]
        pub(crate) unsafe fn $strided(
            handle: usize, left: c_int, right: c_int, m: c_int, n: c_int, k: c_int, alpha: *const c_void,
            a: *const c_void, lda: c_int, stride_a: c_longlong, b: *const c_void, ldb: c_int, stride_b: c_longlong,
            beta: *const c_void, c: *mut c_void, ldc: c_int, stride_c: c_longlong, batch: c_int,
        ) -> Answer {
            let call = Call {
                name: $strided_name, operations: (left, right), size: (m, n, k), alpha, beta,
                a: side(a, $datatype, lda, stride_a), b: side(b, $datatype, ldb, stride_b),
                c: side(c, $datatype, ldc, stride_c), batch, compute: $compute,
            };
            // SAFETY: passed on.
            unsafe { call.run(handle) }
        }
    )* };
}

typed! {
    sgemm sgemm_strided "cublasSgemm_v2" "cublasSgemmStridedBatched" 0 68
    dgemm dgemm_strided "cublasDgemm_v2" "cublasDgemmStridedBatched" 1 70
    hgemm hgemm_strided "cublasHgemm" "cublasHgemmStridedBatched" 2 64
}

/// # Safety
/// Alpha and beta point to an f32 each.
pub(crate) unsafe fn sgemm_ex(
    handle: usize,
    left: c_int,
    right: c_int,
    m: c_int,
    n: c_int,
    k: c_int,
    alpha: *const c_void,
    a: *const c_void,
    type_a: c_int,
    lda: c_int,
    b: *const c_void,
    type_b: c_int,
    ldb: c_int,
    beta: *const c_void,
    c: *mut c_void,
    type_c: c_int,
    ldc: c_int,
) -> Answer {
    let call = Call {
        name: "cublasSgemmEx",
        operations: (left, right),
        size: (m, n, k),
        alpha,
        beta,
        a: side(a, type_a, lda, 0),
        b: side(b, type_b, ldb, 0),
        c: side(c, type_c, ldc, 0),
        batch: 1,
        compute: 68,
    };
    // SAFETY: passed on.
    unsafe { call.run(handle) }
}

/// # Safety
/// Alpha and beta point to what the compute type says.
pub(crate) unsafe fn gemm_ex(
    handle: usize,
    left: c_int,
    right: c_int,
    m: c_int,
    n: c_int,
    k: c_int,
    alpha: *const c_void,
    a: *const c_void,
    type_a: c_int,
    lda: c_int,
    b: *const c_void,
    type_b: c_int,
    ldb: c_int,
    beta: *const c_void,
    c: *mut c_void,
    type_c: c_int,
    ldc: c_int,
    compute: c_int,
    _algorithm: c_int,
) -> Answer {
    let call = Call {
        name: "cublasGemmEx",
        operations: (left, right),
        size: (m, n, k),
        alpha,
        beta,
        a: side(a, type_a, lda, 0),
        b: side(b, type_b, ldb, 0),
        c: side(c, type_c, ldc, 0),
        batch: 1,
        compute,
    };
    // SAFETY: passed on.
    unsafe { call.run(handle) }
}

/// # Safety
/// Alpha and beta point to what the compute type says.
pub(crate) unsafe fn gemm_strided_ex(
    handle: usize,
    left: c_int,
    right: c_int,
    m: c_int,
    n: c_int,
    k: c_int,
    alpha: *const c_void,
    a: *const c_void,
    type_a: c_int,
    lda: c_int,
    stride_a: c_longlong,
    b: *const c_void,
    type_b: c_int,
    ldb: c_int,
    stride_b: c_longlong,
    beta: *const c_void,
    c: *mut c_void,
    type_c: c_int,
    ldc: c_int,
    stride_c: c_longlong,
    batch: c_int,
    compute: c_int,
    _algorithm: c_int,
) -> Answer {
    let call = Call {
        name: "cublasGemmStridedBatchedEx",
        operations: (left, right),
        size: (m, n, k),
        alpha,
        beta,
        a: side(a, type_a, lda, stride_a),
        b: side(b, type_b, ldb, stride_b),
        c: side(c, type_c, ldc, stride_c),
        batch,
        compute,
    };
    // SAFETY: passed on.
    unsafe { call.run(handle) }
}

/// y = alpha * op(A) * x + beta * y: a product whose right side and result are one column, `increment` elements apart.
///
/// # Safety
/// Alpha and beta point to a number each.
unsafe fn gemv(
    name: &'static str,
    datatype: c_int,
    compute: c_int,
    handle: usize,
    operation: c_int,
    (m, n): (c_int, c_int),
    alpha: *const c_void,
    (a, lda): (*const c_void, c_int),
    (x, increment_x): (*const c_void, c_int),
    beta: *const c_void,
    (y, increment_y): (*mut c_void, c_int),
) -> Answer {
    if increment_x == 0 || increment_y == 0 {
        return REFUSALS.value();
    }
    if increment_x < 0 || increment_y < 0 {
        return refuse(Library::Cublas, name, "a vector from its end to its start");
    }
    let (rows, columns) = if is_transposed(operation)? { (n, m) } else { (m, n) };
    let call = Call {
        name,
        // A vector read as the row of a matrix with one row has its elements a leading dimension apart.
        operations: (operation, 1),
        size: (rows, 1, columns),
        alpha,
        a: side(a, datatype, lda, 0),
        b: side(x, datatype, increment_x, 0),
        beta,
        c: Side { by_rows: true, ..side(y, datatype, increment_y, 0) },
        batch: 1,
        compute,
    };
    // SAFETY: passed on.
    unsafe { call.run(handle) }
}

macro_rules! vector {
    ($($function:ident $name:literal $datatype:literal $compute:literal)*) => { $(
        /// # Safety
        /// Alpha and beta point to a number each.
        pub(crate) unsafe fn $function(
            handle: usize, operation: c_int, m: c_int, n: c_int, alpha: *const c_void, a: *const c_void, lda: c_int,
            x: *const c_void, increment_x: c_int, beta: *const c_void, y: *mut c_void, increment_y: c_int,
        ) -> Answer {
            let (x, y) = ((x, increment_x), (y, increment_y));
            // SAFETY: passed on.
            unsafe { gemv($name, $datatype, $compute, handle, operation, (m, n), alpha, (a, lda), x, beta, y) }
        }
    )* };
}

vector! {
    sgemv "cublasSgemv_v2" 0 68
    dgemv "cublasDgemv_v2" 1 70
}
