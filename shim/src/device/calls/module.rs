//! Loads modules and libraries, which are one kind of handle here: the log of the PTX compiler, kernels and variables by name.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use abi::argument::{Out, Text};
use abi::cuda::{CudaError, CudaResult};
use abi::library::Library;

use crate::boundary::gap;
use crate::device::kernel::image::{self, Code, Unusable};
use crate::device::kernel::program::{self, NotLoaded};
use crate::device::kernel::{self, Kernel};
use crate::device::state::{attribute, context};
use crate::device::{self, Device};
use crate::settings::GapPolicy;

/// `CUjit_option`: the buffer for error messages, and its size in bytes.
const ERROR_LOG: c_uint = 5;
const ERROR_LOG_BYTES: c_uint = 6;
/// The same for informational messages.
const INFO_LOG: c_uint = 3;
const INFO_LOG_BYTES: c_uint = 4;

/// Options of a load, as passed by C: numbers, and values that are pointers or integers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub(crate) count: c_uint,
    pub(crate) numbers: *const c_void,
    pub(crate) values: *const c_void,
}

impl Options {
    pub(crate) const NONE: Self = Self { count: 0, numbers: std::ptr::null(), values: std::ptr::null() };

    /// Where the value of an option is.
    fn place(self, number: c_uint) -> Option<*mut usize> {
        if self.numbers.is_null() || self.values.is_null() {
            return None;
        }
        (0..self.count as usize).find_map(|index| {
            // SAFETY: C passed as many numbers and values as it says.
            unsafe {
                let known = self.numbers.cast::<c_uint>().add(index).read_unaligned();
                (known == number).then(|| self.values.cast::<usize>().cast_mut().add(index))
            }
        })
    }

    /// Fills the logs: the error log with `text`, the other with nothing. Afterwards, the sizes are those of the content.
    pub(super) fn log(self, text: &str) {
        for (buffer, bytes, text) in [(ERROR_LOG, ERROR_LOG_BYTES, text), (INFO_LOG, INFO_LOG_BYTES, "")] {
            let (Some(buffer), Some(bytes)) = (self.place(buffer), self.place(bytes)) else { continue };
            // SAFETY: the values of the two options: a buffer, and its size.
            unsafe {
                let size = bytes.read_unaligned() & 0xffff_ffff;
                let to = buffer.read_unaligned() as *mut c_char;
                let written = Out(to).fill(size, text);
                bytes.write_unaligned(if written.is_ok() && !text.is_empty() { (text.len() + 1).min(size) } else { 0 });
            }
        }
    }
}

/// Loads the image at an address.
pub(crate) fn load(
    device: &Device,
    out: Out<usize>,
    image: *const c_void,
    options: Options,
    library: Library,
    call: &'static str,
) -> CudaResult {
    if image.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: C passed an image.
    let code = unsafe { image::of_pointer(image, attribute::capability(device)) };
    load_code(device, out, code, options, library, call)
}

/// Loads a file.
pub(crate) fn load_file(
    device: &Device,
    out: Out<usize>,
    path: Text,
    options: Options,
    library: Library,
    call: &'static str,
) -> CudaResult {
    let bytes = std::fs::read(path.get()?).map_err(|_| CudaError::FILE_NOT_FOUND)?;
    load_code(device, out, image::of_file(&bytes, attribute::capability(device)), options, library, call)
}

fn load_code(
    device: &Device,
    out: Out<usize>,
    code: Result<Code, Unusable>,
    options: Options,
    library: Library,
    call: &'static str,
) -> CudaResult {
    let out = out.required()?;
    device.output.flush();
    match program::load(code, device) {
        Ok(program) => {
            if program.is_none() {
                gap::tolerate(library, call, "the image is not read")?;
            }
            options.log("");
            Ok(out.set(kernel::load(program))?)
        }
        Err(NotLoaded { error, why }) => {
            options.log(&format!("ptxas fatal   : {why}\n"));
            if matches!(gap::policy(), GapPolicy::Warn | GapPolicy::Stop) {
                eprintln!("fakegpu: {call}: {why}");
            }
            Err(error)
        }
    }
}

/// The device that a library is loaded for, because libraries do not need a context.
pub(crate) fn any_device() -> CudaResult<&'static Device> {
    context::required().or_else(|_| device::current())
}

pub(crate) fn unload(module: usize) -> CudaResult {
    if let Ok(device) = any_device() {
        device.output.flush();
    }
    kernel::unload(module)
}

/// A kernel by its name.
pub(crate) unsafe fn function(out: Out<usize>, module: usize, name: *const c_char) -> CudaResult {
    let out = out.required()?;
    if name.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: C passed a text that is not null.
    let name = unsafe { CStr::from_ptr(name) };
    Ok(out.set(kernel::lookup(module, name)?)?)
}

/// The variable `name` on `device`: address and bytes.
fn variable(device: &'static Device, module: usize, name: Text, managed: bool) -> CudaResult<(usize, usize)> {
    let name = name.get()?;
    // Machine code is not read.
    let program = kernel::program_of(module)?.ok_or(CudaError::NOT_FOUND)?;
    let (index, bytes, is_managed) = program.variable(&name).ok_or(CudaError::NOT_FOUND)?;
    if managed && !is_managed {
        return Err(CudaError::NOT_FOUND);
    }
    Ok((program.places(device, |_| None)?[index] as usize, bytes))
}

fn answer(out: Out<usize>, bytes: Out<usize>, found: CudaResult<(usize, usize)>) -> CudaResult {
    let found = found?;
    out.set_if_wanted(found.0);
    bytes.set_if_wanted(found.1);
    Ok(())
}

/// `cuModuleGetGlobal`, `cuLibraryGetGlobal`: either result may be unwanted.
pub(crate) fn global(out: Out<usize>, bytes: Out<usize>, module: usize, name: Text) -> CudaResult {
    answer(out, bytes, variable(context::required()?, module, name, false))
}

/// `cuLibraryGetManaged`
pub(crate) fn managed(out: Out<usize>, bytes: Out<usize>, library: usize, name: Text) -> CudaResult {
    answer(out, bytes, variable(any_device()?, library, name, true))
}

/// How many kernels a module has. Machine code is not read, which is a gap.
pub(crate) fn count(out: Out<c_uint>, module: usize, library: Library, call: &'static str) -> CudaResult {
    let out = out.required()?;
    let count = match kernel::program_of(module)? {
        Some(program) => program.names().count(),
        None => {
            gap::record(library, call, "machine code is not read");
            return Err(CudaError::NOT_SUPPORTED);
        }
    };
    Ok(out.set(count as c_uint)?)
}

/// The offset and size of a parameter (`cuFuncGetParamInfo`).
pub(crate) fn parameter(
    function: usize,
    index: usize,
    offset: Out<usize>,
    bytes: Out<usize>,
    call: &'static str,
) -> CudaResult {
    let kernel = Kernel::find(function).ok_or(CudaError::INVALID_HANDLE)?;
    let params = params(&kernel, call)?;
    let (at, size) = *params.get(index).ok_or(CudaError::INVALID_VALUE)?;
    offset.required()?.set(at)?;
    bytes.set_if_wanted(size);
    Ok(())
}

/// How many parameters a kernel has (`cuFuncGetParamCount`).
pub(crate) fn parameters(function: usize, count: Out<usize>, call: &'static str) -> CudaResult {
    let kernel = Kernel::find(function).ok_or(CudaError::INVALID_HANDLE)?;
    Ok(count.required()?.set(params(&kernel, call)?.len())?)
}

fn params(kernel: &Kernel, call: &'static str) -> CudaResult<Vec<(usize, usize)>> {
    let name = kernel.name().to_string_lossy();
    let program = kernel.program(any_device()?).map_err(|_| {
        gap::record(Library::CudaDriver, call, &name);
        CudaError::NOT_SUPPORTED
    })?;
    let entry = program.entry(&name).ok_or(CudaError::NOT_FOUND)?;
    Ok(entry.params.iter().map(|param| (param.offset as usize, param.size as usize)).collect())
}

/// `cuModuleGetLoadingMode`: lazy, which is the default since CUDA 12.2 and the behavior here.
pub(crate) fn loading_mode(out: Out<c_int>) -> CudaResult {
    const LAZY: c_int = 2;
    Ok(out.required()?.set(LAZY)?)
}
