//! Loaded objects, and which functions of CUDA's runtime their files name in the table of symbols.

use std::collections::HashMap;
use std::ffi::{CStr, OsStr, c_int, c_void};
use std::fs::File;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use libc::dl_phdr_info;
use object::elf;
use object::endian::Endianness;
use object::read::ReadCache;
use object::read::elf::{FileHeader, Sym};

use super::entry::Replaced;
use crate::exports::cuda_runtime::EXPORTS;

/// Every copy of the runtime has it, and nothing else would.
const MARK: &[u8] = b"cudaGetExportTable";
/// Only CUDA 12 has it.
const TWELVE: &[u8] = b"cudaGetDeviceProperties_v2";
/// The last with it was CUDA 12.
const BEFORE_THIRTEEN: &[u8] = b"cudaLaunchCooperativeKernelMultiDevice";
/// The constructor with which nvcc registers the kernels of a translation unit; and what the names of the functions begin with
/// that it calls where device code of several units is linked (`-rdc=true`). Those count the units, so they cannot be repeated.
const REGISTER: &[u8] = b"_ZL24__sti____cudaRegisterAllv";
const REGISTER_LINKED: &[u8] = b"__cudaRegisterLinkedBinary_";

/// A loaded object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Object {
    /// Its file; empty for the program.
    pub(super) path: PathBuf,
    base: usize,
    /// The addresses of its code.
    pub(super) code: Range<usize>,
}

/// CUDA's runtime in an object.
#[derive(Debug)]
pub(super) struct Runtime {
    /// Its major version.
    pub(super) major: i32,
    /// Its functions of which we have one.
    pub(super) functions: Vec<Replaced>,
    /// Addresses of the object's constructors that register kernels and can be repeated.
    pub(super) registrations: Vec<usize>,
}

/// How many objects this process has loaded in its life.
pub(super) fn count() -> u64 {
    unsafe extern "C" fn first(info: *mut dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
        // SAFETY: glibc passes a valid description, and `data` is the counter below.
        unsafe { *data.cast::<u64>() = (*info).dlpi_adds };
        1
    }
    let mut count = 0_u64;
    // SAFETY: the callback gets a pointer to `count`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut count).cast()) };
    count
}

/// All objects that are loaded.
pub(super) fn loaded() -> Vec<Object> {
    unsafe extern "C" fn list(info: *mut dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
        // SAFETY: glibc passes a valid description, and `data` is the list below.
        let (info, objects) = unsafe { (&*info, &mut *data.cast::<Vec<Object>>()) };
        // SAFETY: glibc keeps the path as a C string, null for none; `dlpi_phnum` is the number of headers.
        let (path, headers) = unsafe {
            let path = if info.dlpi_name.is_null() { c"" } else { CStr::from_ptr(info.dlpi_name) };
            (path, std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)))
        };
        let base = info.dlpi_addr as usize;
        let code = headers.iter().filter(|header| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_X != 0);
        let starts = code.clone().map(|header| base + header.p_vaddr as usize);
        let ends = code.map(|header| base + (header.p_vaddr + header.p_memsz) as usize);
        objects.push(Object {
            path: PathBuf::from(OsStr::from_bytes(path.to_bytes())),
            base,
            code: starts.min().unwrap_or(0)..ends.max().unwrap_or(0),
        });
        0
    }
    let mut objects: Vec<Object> = Vec::new();
    // SAFETY: the callback gets a pointer to `objects`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(list), (&raw mut objects).cast()) };
    objects
}

impl Object {
    /// Whether it is the program.
    pub(super) fn is_program(&self) -> bool {
        self.path.as_os_str().is_empty()
    }

    /// CUDA's runtime in it: of CUDA 12 or 13, with a table of symbols. Ours is none.
    pub(super) fn runtime(&self) -> Option<Runtime> {
        if self.code.contains(&(count as *const () as usize)) {
            return None;
        }
        let path = if self.is_program() { "/proc/self/exe".as_ref() } else { self.path.as_path() };
        self.read(File::open(path).ok()?)
    }

    fn read(&self, file: File) -> Option<Runtime> {
        let cache = ReadCache::new(file);
        let data = &cache;
        let header = elf::FileHeader64::<Endianness>::parse(data).ok()?;
        let endian = header.endian().ok()?;
        let sections = header.sections(endian, data).ok()?;
        let table = sections.symbols(endian, data, elf::SHT_SYMTAB).ok()?;
        let functions = table.iter().filter(|symbol| symbol.st_type() == elf::STT_FUNC && symbol.st_value(endian) != 0);
        let mut named = HashMap::new();
        let mut registrations = Vec::new();
        let mut is_linked = false;
        for function in functions {
            let name = function.name(endian, table.strings()).ok()?;
            let place = (self.base + function.st_value(endian) as usize, function.st_size(endian) as usize);
            match name {
                REGISTER => registrations.push(place.0),
                _ if name.starts_with(REGISTER_LINKED) => is_linked = true,
                _ if name.starts_with(b"cuda") || name.starts_with(b"__cuda") => {
                    named.insert(name.to_vec(), place);
                }
                _ => {}
            }
        }
        let has = |name| named.contains_key(name);
        let major = match (has(TWELVE), has(BEFORE_THIRTEEN)) {
            _ if !has(MARK) => return None,
            (true, _) => 12,
            (false, true) => return None,
            (false, false) => 13,
        };
        if is_linked {
            registrations.clear();
        }
        let functions = EXPORTS.iter().filter_map(|export| {
            let (start, size) = *named.get(export.name.as_bytes())?;
            Some(Replaced { start, size, by: export.address.0 as usize })
        });
        Some(Runtime { major, functions: functions.collect(), registrations })
    }
}
