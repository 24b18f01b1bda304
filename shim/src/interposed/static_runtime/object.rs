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
use object::read::elf::{FileHeader, SectionHeader, Sym};
use object::read::{ReadCache, StringTable};

use super::entry::Replaced;
use crate::exports::cuda_runtime::EXPORTS;
use crate::process::slots;

/// A function of libc that every copy of the runtime calls (seen in CUDA 12.1 to 13.5) and hardly any other library, so that the
/// files of few are read.
const IMPORTED: &CStr = c"dlvsym";
/// Every copy of the runtime has it, and nothing else would.
const MARK: &[u8] = b"cudaGetExportTable";
/// Only CUDA 12 has it.
const TWELVE: &[u8] = b"cudaGetDeviceProperties_v2";
/// The last with it was CUDA 12.
const BEFORE_THIRTEEN: &[u8] = b"cudaLaunchCooperativeKernelMultiDevice";
/// The constructor with which nvcc registers the kernels of a translation unit.
const REGISTER: &[u8] = b"_ZL24__sti____cudaRegisterAllv";
/// Where device code of several units is linked (`-rdc=true`), it counts them: how the name of the counter, an `int`, begins and
/// ends (`__i` in nvcc's link.stub).
const COUNTER: (&[u8], &[u8]) = (b"_ZZL26__cudaRegisterLinkedBinary", b"E3__i");

/// A loaded object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Object {
    // First, because objects are compared often.
    base: usize,
    /// Its file; empty for the program.
    pub(super) path: PathBuf,
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
    /// Addresses of the object's constructors that register kernels.
    pub(super) registrations: Vec<usize>,
    /// Addresses of the `int`s in which they count translation units, from 0.
    pub(super) counters: Vec<usize>,
}

/// How many objects this process has loaded and unloaded in its life.
pub(super) fn changes() -> (u64, u64) {
    unsafe extern "C" fn first(info: *mut dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
        // SAFETY: glibc passes a valid description, and `data` is the pair below.
        unsafe { *data.cast::<(u64, u64)>() = ((*info).dlpi_adds, (*info).dlpi_subs) };
        1
    }
    let mut changes = (0_u64, 0_u64);
    // SAFETY: the callback gets a pointer to `changes`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut changes).cast()) };
    changes
}

/// All objects that are loaded; and of those that are not `known`, whether they may contain CUDA's runtime.
pub(super) fn loaded(known: &[Object]) -> Vec<(Object, bool)> {
    struct List<'a> {
        objects: Vec<(Object, bool)>,
        known: &'a [Object],
    }
    unsafe extern "C" fn list(info: *mut dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
        // SAFETY: glibc passes a valid description, and `data` is the list below.
        let (info, list) = unsafe { (&*info, &mut *data.cast::<List>()) };
        // SAFETY: the description that glibc passes.
        let library = unsafe { slots::Library::new(info) };
        let object = Object {
            path: OsStr::from_bytes(library.path().to_bytes()).into(),
            base: info.dlpi_addr as usize,
            code: library.code(),
        };
        let may_contain = !list.known.contains(&object) && library.imports(IMPORTED);
        list.objects.push((object, may_contain));
        0
    }
    let mut result = List { objects: Vec::new(), known };
    // SAFETY: the callback gets a pointer to the list, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(list), (&raw mut result).cast()) };
    result.objects
}

impl Object {
    /// Whether it is the program.
    pub(super) fn is_program(&self) -> bool {
        self.path.as_os_str().is_empty()
    }

    /// CUDA's runtime in it: of CUDA 12 or 13, with a table of symbols. Ours is none.
    pub(super) fn runtime(&self) -> Option<Runtime> {
        if self.code.contains(&(changes as *const () as usize)) {
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
        // Read at once, not name by name.
        let names = sections.section(table.string_section()).ok()?.data(endian, data).ok()?;
        let names = StringTable::new(names, 0, names.len() as u64);
        let mut named = HashMap::new();
        let (mut registrations, mut counters) = (Vec::new(), Vec::new());
        for symbol in table.iter().filter(|symbol| symbol.st_shndx(endian) != elf::SHN_UNDEF) {
            let name = symbol.name(endian, names).ok()?;
            let start = self.base + symbol.st_value(endian) as usize;
            match symbol.st_type() {
                elf::STT_FUNC if name == REGISTER => registrations.push(start),
                elf::STT_FUNC if name.starts_with(b"cuda") || name.starts_with(b"__cuda") => {
                    named.insert(name.to_vec(), (start, symbol.st_size(endian) as usize));
                }
                elf::STT_OBJECT if name.starts_with(COUNTER.0) && name.ends_with(COUNTER.1) => counters.push(start),
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
        let functions = EXPORTS.iter().filter_map(|export| {
            let (start, size) = *named.get(export.name.as_bytes())?;
            Some(Replaced { start, size, by: export.address.0 as usize })
        });
        Some(Runtime { major, functions: functions.collect(), registrations, counters })
    }
}
