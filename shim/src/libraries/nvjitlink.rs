//! libnvJitLink: PTX is linked here and returned as the cubin, which can run. LTO-IR is turned into PTX by the installed
//! library.

use std::ffi::{CString, c_char, c_uint, c_void};
use std::sync::OnceLock;

use abi::argument::{Out, Text};
use abi::library::Library;
use dataplane::lock::Mutex;

use super::installed::Installed;
use super::objects::{Answer, Code, Objects, Refusals, kind};
use super::release;
use crate::boundary::gap;
use crate::boundary::table::exports;
use crate::device::kernel::image::{self, Code as Found};
use crate::device::kernel::program::{Invalid, Program};

/// NVJITLINK_ERROR_INVALID_INPUT.
const REFUSALS: Refusals = Refusals { handle: 3, value: 3 };
const MISSING_ARCH: Code = Code(2);
const PTX_COMPILE: Code = Code(4);
const INTERNAL: Code = Code(6);
const UNRECOGNIZED_INPUT: Code = Code(8);
const NULL_INPUT: Code = Code(10);
const MISSING_FATBIN: Code = Code(15);
/// `nvJitLinkInputType`
const LTO_IR: c_uint = 3;
const OBJECT: c_uint = 5;
const LIBRARY: c_uint = 6;
const ANY: c_uint = 10;
/// The magic number of NVVM's LTO-IR.
const LTO_IR_MAGIC: [u8; 4] = [0xed, 0x43, 0x4e, 0x7f];

static LINKS: Objects<Link> = Objects::new(kind::NVJITLINK, REFUSALS);
static INSTALLED: Installed = Installed::new(Library::NvJitLink);

exports! {
    library NvJitLink;
    bare {
        fn nvJitLinkVersion(major: Out<c_uint>, minor: Out<c_uint>) = version;
        fn nvJitLinkCreate(out: Out<usize>, count: c_uint, options: *const Text) = create;
        fn nvJitLinkDestroy(handle: Out<usize>) = destroy;
        fn nvJitLinkAddData(handle: usize, kind: c_uint, data: *const c_void, size: usize, name: Text) = add_data;
        fn nvJitLinkAddFile(handle: usize, kind: c_uint, path: Text) = add_file;
        fn nvJitLinkComplete(handle: usize) = complete;
        fn nvJitLinkGetLinkedCubinSize(handle: usize, size: Out<usize>) = |handle, size| answer_size(handle, size, Link::cubin);
        fn nvJitLinkGetLinkedCubin(handle: usize, cubin: *mut c_void) = |handle, cubin| answer(handle, cubin, Link::cubin);
        fn nvJitLinkGetLinkedPtxSize(handle: usize, size: Out<usize>) = |handle, size| answer_size(handle, size, Link::ptx);
        fn nvJitLinkGetLinkedPtx(handle: usize, text: *mut c_void) = |handle, text| answer(handle, text, Link::ptx);
        fn nvJitLinkGetErrorLogSize(handle: usize, size: Out<usize>) = |handle, size| answer_size(handle, size, Link::error_log);
        fn nvJitLinkGetErrorLog(handle: usize, log: *mut c_void) = |handle, log| answer(handle, log, Link::error_log);
        fn nvJitLinkGetInfoLogSize(handle: usize, size: Out<usize>) = |handle, size| answer_size(handle, size, |_| Ok(vec![0]));
        fn nvJitLinkGetInfoLog(handle: usize, log: *mut c_void) = |handle, log| answer(handle, log, |_| Ok(vec![0]));
    }
    stub {
        __nvJitLinkAPI __nvJitLinkGetLinkedLTOIRSize_13_0 __nvJitLinkGetLinkedLTOIRSize_13_1
        __nvJitLinkGetLinkedLTOIRSize_13_2 __nvJitLinkGetLinkedLTOIRSize_13_3 __nvJitLinkGetLinkedLTOIRSize_13_4
        __nvJitLinkGetLinkedLTOIRSize_13_5 __nvJitLinkGetLinkedLTOIR_13_0 __nvJitLinkGetLinkedLTOIR_13_1
        __nvJitLinkGetLinkedLTOIR_13_2 __nvJitLinkGetLinkedLTOIR_13_3 __nvJitLinkGetLinkedLTOIR_13_4
        __nvJitLinkGetLinkedLTOIR_13_5 nvJitLinkGetLinkedLTOIR nvJitLinkGetLinkedLTOIRSize
    }
    second {
        Real __nvJitLinkAddData_13_0 = nvJitLinkAddData;
        Real __nvJitLinkAddData_13_1 = nvJitLinkAddData;
        Real __nvJitLinkAddData_13_2 = nvJitLinkAddData;
        Real __nvJitLinkAddData_13_3 = nvJitLinkAddData;
        Real __nvJitLinkAddData_13_4 = nvJitLinkAddData;
        Real __nvJitLinkAddData_13_5 = nvJitLinkAddData;
        Real __nvJitLinkAddFile_13_0 = nvJitLinkAddFile;
        Real __nvJitLinkAddFile_13_1 = nvJitLinkAddFile;
        Real __nvJitLinkAddFile_13_2 = nvJitLinkAddFile;
        Real __nvJitLinkAddFile_13_3 = nvJitLinkAddFile;
        Real __nvJitLinkAddFile_13_4 = nvJitLinkAddFile;
        Real __nvJitLinkAddFile_13_5 = nvJitLinkAddFile;
        Real __nvJitLinkComplete_13_0 = nvJitLinkComplete;
        Real __nvJitLinkComplete_13_1 = nvJitLinkComplete;
        Real __nvJitLinkComplete_13_2 = nvJitLinkComplete;
        Real __nvJitLinkComplete_13_3 = nvJitLinkComplete;
        Real __nvJitLinkComplete_13_4 = nvJitLinkComplete;
        Real __nvJitLinkComplete_13_5 = nvJitLinkComplete;
        Real __nvJitLinkCreate_13_0 = nvJitLinkCreate;
        Real __nvJitLinkCreate_13_1 = nvJitLinkCreate;
        Real __nvJitLinkCreate_13_2 = nvJitLinkCreate;
        Real __nvJitLinkCreate_13_3 = nvJitLinkCreate;
        Real __nvJitLinkCreate_13_4 = nvJitLinkCreate;
        Real __nvJitLinkCreate_13_5 = nvJitLinkCreate;
        Real __nvJitLinkDestroy_13_0 = nvJitLinkDestroy;
        Real __nvJitLinkDestroy_13_1 = nvJitLinkDestroy;
        Real __nvJitLinkDestroy_13_2 = nvJitLinkDestroy;
        Real __nvJitLinkDestroy_13_3 = nvJitLinkDestroy;
        Real __nvJitLinkDestroy_13_4 = nvJitLinkDestroy;
        Real __nvJitLinkDestroy_13_5 = nvJitLinkDestroy;
        Real __nvJitLinkGetErrorLogSize_13_0 = nvJitLinkGetErrorLogSize;
        Real __nvJitLinkGetErrorLogSize_13_1 = nvJitLinkGetErrorLogSize;
        Real __nvJitLinkGetErrorLogSize_13_2 = nvJitLinkGetErrorLogSize;
        Real __nvJitLinkGetErrorLogSize_13_3 = nvJitLinkGetErrorLogSize;
        Real __nvJitLinkGetErrorLogSize_13_4 = nvJitLinkGetErrorLogSize;
        Real __nvJitLinkGetErrorLogSize_13_5 = nvJitLinkGetErrorLogSize;
        Real __nvJitLinkGetErrorLog_13_0 = nvJitLinkGetErrorLog;
        Real __nvJitLinkGetErrorLog_13_1 = nvJitLinkGetErrorLog;
        Real __nvJitLinkGetErrorLog_13_2 = nvJitLinkGetErrorLog;
        Real __nvJitLinkGetErrorLog_13_3 = nvJitLinkGetErrorLog;
        Real __nvJitLinkGetErrorLog_13_4 = nvJitLinkGetErrorLog;
        Real __nvJitLinkGetErrorLog_13_5 = nvJitLinkGetErrorLog;
        Real __nvJitLinkGetInfoLogSize_13_0 = nvJitLinkGetInfoLogSize;
        Real __nvJitLinkGetInfoLogSize_13_1 = nvJitLinkGetInfoLogSize;
        Real __nvJitLinkGetInfoLogSize_13_2 = nvJitLinkGetInfoLogSize;
        Real __nvJitLinkGetInfoLogSize_13_3 = nvJitLinkGetInfoLogSize;
        Real __nvJitLinkGetInfoLogSize_13_4 = nvJitLinkGetInfoLogSize;
        Real __nvJitLinkGetInfoLogSize_13_5 = nvJitLinkGetInfoLogSize;
        Real __nvJitLinkGetInfoLog_13_0 = nvJitLinkGetInfoLog;
        Real __nvJitLinkGetInfoLog_13_1 = nvJitLinkGetInfoLog;
        Real __nvJitLinkGetInfoLog_13_2 = nvJitLinkGetInfoLog;
        Real __nvJitLinkGetInfoLog_13_3 = nvJitLinkGetInfoLog;
        Real __nvJitLinkGetInfoLog_13_4 = nvJitLinkGetInfoLog;
        Real __nvJitLinkGetInfoLog_13_5 = nvJitLinkGetInfoLog;
        Real __nvJitLinkGetLinkedCubinSize_13_0 = nvJitLinkGetLinkedCubinSize;
        Real __nvJitLinkGetLinkedCubinSize_13_1 = nvJitLinkGetLinkedCubinSize;
        Real __nvJitLinkGetLinkedCubinSize_13_2 = nvJitLinkGetLinkedCubinSize;
        Real __nvJitLinkGetLinkedCubinSize_13_3 = nvJitLinkGetLinkedCubinSize;
        Real __nvJitLinkGetLinkedCubinSize_13_4 = nvJitLinkGetLinkedCubinSize;
        Real __nvJitLinkGetLinkedCubinSize_13_5 = nvJitLinkGetLinkedCubinSize;
        Real __nvJitLinkGetLinkedCubin_13_0 = nvJitLinkGetLinkedCubin;
        Real __nvJitLinkGetLinkedCubin_13_1 = nvJitLinkGetLinkedCubin;
        Real __nvJitLinkGetLinkedCubin_13_2 = nvJitLinkGetLinkedCubin;
        Real __nvJitLinkGetLinkedCubin_13_3 = nvJitLinkGetLinkedCubin;
        Real __nvJitLinkGetLinkedCubin_13_4 = nvJitLinkGetLinkedCubin;
        Real __nvJitLinkGetLinkedCubin_13_5 = nvJitLinkGetLinkedCubin;
        Real __nvJitLinkGetLinkedPtxSize_13_0 = nvJitLinkGetLinkedPtxSize;
        Real __nvJitLinkGetLinkedPtxSize_13_1 = nvJitLinkGetLinkedPtxSize;
        Real __nvJitLinkGetLinkedPtxSize_13_2 = nvJitLinkGetLinkedPtxSize;
        Real __nvJitLinkGetLinkedPtxSize_13_3 = nvJitLinkGetLinkedPtxSize;
        Real __nvJitLinkGetLinkedPtxSize_13_4 = nvJitLinkGetLinkedPtxSize;
        Real __nvJitLinkGetLinkedPtxSize_13_5 = nvJitLinkGetLinkedPtxSize;
        Real __nvJitLinkGetLinkedPtx_13_0 = nvJitLinkGetLinkedPtx;
        Real __nvJitLinkGetLinkedPtx_13_1 = nvJitLinkGetLinkedPtx;
        Real __nvJitLinkGetLinkedPtx_13_2 = nvJitLinkGetLinkedPtx;
        Real __nvJitLinkGetLinkedPtx_13_3 = nvJitLinkGetLinkedPtx;
        Real __nvJitLinkGetLinkedPtx_13_4 = nvJitLinkGetLinkedPtx;
        Real __nvJitLinkGetLinkedPtx_13_5 = nvJitLinkGetLinkedPtx;
    }
}

/// One link.
#[derive(Debug)]
struct Link {
    options: Vec<String>,
    /// Compute capability of `-arch`.
    capability: (i32, i32),
    inputs: Mutex<Inputs>,
    /// The linked texts.
    linked: OnceLock<Vec<String>>,
    log: Mutex<String>,
}

#[derive(Debug, Default)]
struct Inputs {
    texts: Vec<String>,
    intermediate: Vec<(Vec<u8>, String)>,
}

fn version(major: Out<c_uint>, minor: Out<c_uint>) -> Answer {
    if let Some(answer) = INSTALLED.try_call("nvJitLinkVersion", &[major.0 as usize, minor.0 as usize]) {
        return answer;
    }
    let toolkit = release::current().toolkit;
    major.set(toolkit.0 as c_uint).and_then(|()| minor.set(toolkit.1 as c_uint)).map_err(REFUSALS.null())
}

fn create(out: Out<usize>, count: c_uint, options: *const Text) -> Answer {
    let options = Out(options.cast_mut()).list(count as usize).map_err(|_| NULL_INPUT)?;
    let options = options.iter().map(|option| option.get().map_err(|_| NULL_INPUT)).collect::<Answer<Vec<_>>>()?;
    let architecture = options.iter().find_map(|option| option.strip_prefix("-arch=")).ok_or(MISSING_ARCH)?;
    let digits: String = architecture.chars().filter(char::is_ascii_digit).collect();
    let number: i32 = digits.parse().map_err(|_| MISSING_ARCH)?;
    let link = Link {
        capability: (number / 10, number % 10),
        options,
        inputs: Mutex::default(),
        linked: OnceLock::new(),
        log: Mutex::default(),
    };
    LINKS.create(out, link)
}

fn destroy(handle: Out<usize>) -> Answer {
    LINKS.destroy(handle.get().map_err(|_| NULL_INPUT)?)?;
    handle.set_if_wanted(0);
    Ok(())
}

/// # Safety
/// `data` points to `size` bytes.
unsafe fn add_data(handle: usize, kind: c_uint, data: *const c_void, size: usize, name: Text) -> Answer {
    let link = LINKS.get(handle)?;
    if data.is_null() || size == 0 {
        return Err(NULL_INPUT);
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) };
    link.add(kind, bytes, &name.get().unwrap_or_default())
}

fn add_file(handle: usize, kind: c_uint, path: Text) -> Answer {
    let (link, path) = (LINKS.get(handle)?, path.get().map_err(|_| NULL_INPUT)?);
    match std::fs::read(&path) {
        Ok(bytes) => link.add(kind, &bytes, &path),
        Err(error) => link.fail(REFUSALS.value, &format!("cannot read {path}: {error}")),
    }
}

fn complete(handle: usize) -> Answer {
    let link = LINKS.get(handle)?;
    let mut inputs = link.inputs.lock();
    if inputs.texts.is_empty() && inputs.intermediate.is_empty() {
        return REFUSALS.value();
    }
    if !inputs.intermediate.is_empty() {
        let text = link.lower(&inputs.intermediate)?;
        inputs.intermediate.clear();
        inputs.texts.push(text);
    }
    let checked = Program::new(&inputs.texts).and_then(|program| program.check());
    checked.or_else(|Invalid(why)| link.fail(PTX_COMPILE.0, &why))?;
    link.linked.get_or_init(|| inputs.texts.clone());
    Ok(())
}

impl Link {
    fn fail<T>(&self, code: u32, why: &str) -> Answer<T> {
        let mut log = self.log.lock();
        log.push_str(&format!("error: {why}\n"));
        Err(Code(code))
    }

    fn add(&self, kind: c_uint, bytes: &[u8], name: &str) -> Answer {
        if self.linked.get().is_some() || !(1..=ANY).contains(&kind) {
            return REFUSALS.value();
        }
        if kind == LTO_IR || kind == ANY && bytes.starts_with(&LTO_IR_MAGIC) {
            self.inputs.lock().intermediate.push((bytes.to_vec(), name.to_owned()));
            return Ok(());
        }
        match image::of_file(bytes, self.capability) {
            Ok(Found::Ptx(texts)) => {
                for text in &texts {
                    let read = Program::read(text);
                    read.or_else(|Invalid(why)| self.fail(PTX_COMPILE.0, &format!("{name}, {why}")))?;
                }
                self.inputs.lock().texts.extend(texts);
                Ok(())
            }
            Ok(Found::Nothing) => Err(MISSING_FATBIN),
            Err(_) if kind != OBJECT && kind != LIBRARY => {
                self.fail(UNRECOGNIZED_INPUT.0, &format!("{name}: neither PTX nor a fat binary nor LTO-IR"))
            }
            _ => {
                gap::record(
                    Library::NvJitLink,
                    "nvJitLinkAddData",
                    "machine code, objects and archives are not linked",
                );
                self.fail(INTERNAL.0, &format!("{name}: machine code, objects and archives are not linked here"))
            }
        }
    }

    /// PTX from LTO-IR, made by the installed library.
    fn lower(&self, intermediate: &[(Vec<u8>, String)]) -> Answer<String> {
        let mut options = self.options.clone();
        for needed in ["-lto", "-ptx"] {
            if !options.iter().any(|option| option == needed) {
                options.push(needed.to_owned());
            }
        }
        let text = |text: String| CString::new(text).unwrap_or_default();
        let options: Vec<CString> = options.into_iter().map(text).collect();
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let mut handle = 0usize;
        let place = (&raw mut handle) as usize;
        INSTALLED.call("nvJitLinkCreate", &[place, pointers.len(), pointers.as_ptr() as usize])?;
        let done = self.lower_in(handle, intermediate);
        if done.is_err() {
            let log = bytes_of(handle, "nvJitLinkGetErrorLogSize", "nvJitLinkGetErrorLog").unwrap_or_default();
            self.log.lock().push_str(&String::from_utf8_lossy(&log));
        }
        INSTALLED.call("nvJitLinkDestroy", &[place])?;
        done
    }

    fn lower_in(&self, handle: usize, intermediate: &[(Vec<u8>, String)]) -> Answer<String> {
        for (bytes, name) in intermediate {
            let name = CString::new(name.as_str()).unwrap_or_default();
            let arguments = [handle, LTO_IR as usize, bytes.as_ptr() as usize, bytes.len(), name.as_ptr() as usize];
            INSTALLED.call("nvJitLinkAddData", &arguments)?;
        }
        INSTALLED.call("nvJitLinkComplete", &[handle])?;
        let text = bytes_of(handle, "nvJitLinkGetLinkedPtxSize", "nvJitLinkGetLinkedPtx")?;
        String::from_utf8(text).map_err(|_| INTERNAL)
    }

    fn linked(&self) -> Answer<&[String]> {
        self.linked.get().map(Vec::as_slice).ok_or(Code(REFUSALS.value))
    }

    fn cubin(&self) -> Answer<Vec<u8>> {
        Ok(image::linked(self.linked()?))
    }

    fn ptx(&self) -> Answer<Vec<u8>> {
        let [text] = self.linked()? else {
            gap::record(Library::NvJitLink, "nvJitLinkGetLinkedPtx", "of several texts");
            return Err(INTERNAL);
        };
        Ok(format!("{}\0", text.trim_end_matches('\0')).into_bytes())
    }

    fn error_log(&self) -> Answer<Vec<u8>> {
        Ok(format!("{}\0", self.log.lock()).into_bytes())
    }
}

/// Data whose size one function returns, and which another fills in.
fn bytes_of(handle: usize, size: &'static str, fill: &'static str) -> Answer<Vec<u8>> {
    let mut length = 0usize;
    INSTALLED.call(size, &[handle, (&raw mut length) as usize])?;
    let mut bytes = vec![0u8; length];
    INSTALLED.call(fill, &[handle, bytes.as_mut_ptr() as usize])?;
    Ok(bytes)
}

fn answer_size(handle: usize, size: Out<usize>, what: impl Fn(&Link) -> Answer<Vec<u8>>) -> Answer {
    size.set(what(&*LINKS.get(handle)?)?.len()).map_err(|_| NULL_INPUT)
}

/// Fills a buffer that has the size returned by [`answer_size`].
fn answer(handle: usize, buffer: *mut c_void, what: impl Fn(&Link) -> Answer<Vec<u8>>) -> Answer {
    let bytes = what(&*LINKS.get(handle)?)?;
    if buffer.is_null() {
        return Err(NULL_INPUT);
    }
    // SAFETY: C made the buffer as large as the call for the size said.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.cast(), bytes.len()) };
    Ok(())
}
