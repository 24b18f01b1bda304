//! `cuLink*`: links several PTX texts into one image.

use std::ffi::{c_char, c_uint, c_void};
use std::sync::{Arc, OnceLock};

use abi::argument::{Out, Text};
use abi::cuda::{CudaError, CudaResult};
use abi::handle::Handles;
use abi::library::Library;
use dataplane::lock::Mutex;

use super::module::Options;
use crate::boundary::gap;
use crate::device::kernel::image::{self, Code};
use crate::device::kernel::program::{Invalid, Program};
use crate::device::state::{attribute, context};

/// One link under way.
#[derive(Debug, Default)]
pub(crate) struct Link {
    texts: Mutex<Vec<String>>,
    /// The program uses its address until the link is destroyed.
    image: OnceLock<Vec<u8>>,
    /// Addresses of the options, whose logs the program reads; they stay valid as long as the link.
    options: (c_uint, usize, usize),
}

static LINKS: Handles<Link> = Handles::new(9);

impl Link {
    fn log(&self, text: &str) {
        let (count, numbers, values) = self.options;
        Options { count, numbers: numbers as *const c_void, values: values as *const c_void }.log(text);
    }

    fn fail(&self, Invalid(why): Invalid) -> CudaError {
        self.log(&format!("ptxas fatal   : {why}\n"));
        CudaError::INVALID_PTX
    }
}

fn find(state: usize) -> CudaResult<Arc<Link>> {
    LINKS.get(state).ok_or(CudaError::INVALID_HANDLE)
}

pub(crate) fn create(count: c_uint, numbers: *const c_void, values: *const c_void, out: Out<usize>) -> CudaResult {
    context::required()?;
    let out = out.required()?;
    let link = Link { options: (count, numbers as usize, values as usize), ..Link::default() };
    Ok(out.set(LINKS.insert(Arc::new(link)))?)
}

/// `cuLinkAddData`: PTX, a fat binary with PTX, or the image of another link.
///
/// # Safety
/// `data` points to `size` bytes.
#[expect(clippy::too_many_arguments, reason = "NVIDIA's interface")]
pub(crate) unsafe fn add_data(
    state: usize,
    kind: c_uint,
    data: *const c_void,
    size: usize,
    name: *const c_char,
    _count: c_uint,
    _numbers: *const c_void,
    _values: *const c_void,
) -> CudaResult {
    let link = find(state)?;
    if data.is_null() || size == 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) };
    let name = if name.is_null() { String::new() } else { Text(name).get()? };
    add(&link, kind, bytes, &name)
}

pub(crate) fn add_file(
    state: usize,
    kind: c_uint,
    path: Text,
    _count: c_uint,
    _numbers: *const c_void,
    _values: *const c_void,
) -> CudaResult {
    let (link, path) = (find(state)?, path.get()?);
    let bytes = std::fs::read(&path).map_err(|_| CudaError::FILE_NOT_FOUND)?;
    add(&link, kind, &bytes, &path)
}

fn add(link: &Link, kind: c_uint, bytes: &[u8], name: &str) -> CudaResult {
    /// `CUjitInputType` ends here.
    const KINDS: c_uint = 6;
    if link.image.get().is_some() || kind >= KINDS {
        return Err(CudaError::INVALID_VALUE);
    }
    match image::of_file(bytes, attribute::capability(context::required()?)) {
        Ok(Code::Ptx(texts)) => {
            for text in &texts {
                Program::read(text).map_err(|Invalid(why)| link.fail(Invalid(format!("{name}, {why}"))))?;
            }
            link.texts.lock().extend(texts);
            Ok(())
        }
        Ok(Code::Nothing) => Err(CudaError::NO_KERNEL_IMAGE),
        Err(_) if kind == 1 => Err(link.fail(Invalid(format!("{name}: no PTX")))),
        // Machine code, objects and archives.
        _ => {
            gap::record(Library::CudaDriver, "cuLinkAddData", "machine code is not linked");
            Err(CudaError::NOT_SUPPORTED)
        }
    }
}

pub(crate) fn complete(state: usize, out: Out<usize>, size: Out<usize>) -> CudaResult {
    let (link, out) = (find(state)?, out.required()?);
    let texts = link.texts.lock();
    if texts.is_empty() {
        return Err(CudaError::INVALID_VALUE);
    }
    Program::new(&texts).and_then(|program| program.check()).map_err(|wrong| link.fail(wrong))?;
    link.log("");
    let image = link.image.get_or_init(|| image::linked(&texts));
    out.set(image.as_ptr() as usize)?;
    size.set_if_wanted(image.len());
    Ok(())
}

pub(crate) fn destroy(state: usize) -> CudaResult {
    LINKS.remove(state).map(drop).ok_or(CudaError::INVALID_HANDLE)
}
