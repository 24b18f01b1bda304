//! The functions of other libraries that a loaded library calls, the slots through which it does, and how to redirect them.

use std::ffi::{CStr, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{Elf64_Addr, Elf64_Phdr, dl_phdr_info};

/// Tags of the dynamic section, types of relocations and sizes: ELF-64, the System V ABI for AMD64, and ELF for the Arm 64-bit
/// architecture.
const DT_NULL: i64 = 0;
const DT_PLTRELSZ: i64 = 2;
const DT_HASH: i64 = 4;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;
const DT_GNU_HASH: i64 = 0x6fff_fef5;
#[cfg(target_arch = "x86_64")]
const GLOB_DAT: u64 = 6;
#[cfg(target_arch = "x86_64")]
const JUMP_SLOT: u64 = 7;
#[cfg(target_arch = "aarch64")]
const GLOB_DAT: u64 = 1025;
#[cfg(target_arch = "aarch64")]
const JUMP_SLOT: u64 = 1026;
const SHN_UNDEF: u16 = 0;
const PAGE: usize = 4096;

/// Addresses of a library's tables, 0 for none; those of relocations with their sizes in bytes.
#[derive(Default)]
struct Tables {
    strings: u64,
    symbols: u64,
    hash: u64,
    gnu_hash: u64,
    relocations: [(u64, u64); 2],
}

#[repr(C)]
struct Dynamic {
    tag: i64,
    value: u64,
}

#[repr(C)]
struct Relocation {
    offset: u64,
    info: u64,
    addend: i64,
}

#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

/// A loaded library, valid while `dl_iterate_phdr` describes it.
pub(crate) struct Library<'a> {
    base: Elf64_Addr,
    path: &'a CStr,
    headers: &'a [Elf64_Phdr],
}

impl<'a> Library<'a> {
    /// # Safety
    /// `info` is what glibc passes to a callback of `dl_iterate_phdr`.
    pub(crate) unsafe fn new(info: &'a dl_phdr_info) -> Self {
        // SAFETY: glibc keeps the path as a C string, null for none.
        let path = if info.dlpi_name.is_null() { c"" } else { unsafe { CStr::from_ptr(info.dlpi_name) } };
        // SAFETY: `dlpi_phnum` is the number of its headers.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        Self { base: info.dlpi_addr, path, headers }
    }

    pub(crate) fn path(&self) -> &'a CStr {
        self.path
    }

    /// The addresses of its code.
    pub(crate) fn code(&self) -> Range<usize> {
        let segments =
            self.headers.iter().filter(|header| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_X != 0);
        let starts = segments.clone().map(|header| (self.base + header.p_vaddr) as usize);
        let ends = segments.map(|header| (self.base + header.p_vaddr + header.p_memsz) as usize);
        starts.min().unwrap_or(0)..ends.max().unwrap_or(0)
    }

    /// What its dynamic section names, if glibc has relocated the addresses in it.
    fn tables(&self) -> Option<Tables> {
        let dynamic = self.headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC)?;
        let mut entry = (self.base + dynamic.p_vaddr) as *const Dynamic;
        let mut tables = Tables::default();
        // SAFETY: the section of a loaded library, which ends with DT_NULL.
        while let Dynamic { tag, value } = unsafe { &*entry }
            && *tag != DT_NULL
        {
            match *tag {
                DT_STRTAB => tables.strings = *value,
                DT_SYMTAB => tables.symbols = *value,
                DT_HASH => tables.hash = *value,
                DT_GNU_HASH => tables.gnu_hash = *value,
                DT_RELA => tables.relocations[0].0 = *value,
                DT_RELASZ => tables.relocations[0].1 = *value,
                DT_JMPREL => tables.relocations[1].0 = *value,
                DT_PLTRELSZ => tables.relocations[1].1 = *value,
                _ => {}
            }
            // SAFETY: not the last entry.
            entry = unsafe { entry.add(1) };
        }
        (tables.strings >= self.base && tables.symbols >= self.base).then_some(tables)
    }

    /// Whether it calls a function of that name which it does not contain. Reads what glibc has read to load it.
    pub(crate) fn imports(&self, wanted: &CStr) -> bool {
        let Some(tables) = self.tables() else { return false };
        // The second word of a table of hashes: in GNU's the first symbol that the library contains, all others being before it, in
        // that of System V the number of symbols.
        let hash = if tables.gnu_hash == 0 { tables.hash } else { tables.gnu_hash };
        if hash == 0 || hash < self.base {
            return false;
        }
        // SAFETY: the tables that the section names.
        let end = unsafe { *(hash as *const u32).add(1) } as usize;
        (1..end).any(|index| {
            // SAFETY: a symbol of the library's table, with its name in the table of strings.
            unsafe {
                (*(tables.symbols as *const Symbol).add(index)).section == SHN_UNDEF
                    && name(tables.symbols, tables.strings, index) == wanted
            }
        })
    }

    /// Addresses of the slots for the functions with the requested names.
    pub(crate) fn slots(&self, mut is_asked: impl FnMut(&CStr) -> bool) -> Vec<u64> {
        let Some(Tables { strings, symbols, relocations, .. }) = self.tables() else { return Vec::new() };
        let mut found = Vec::new();
        for (table, size) in relocations.into_iter().filter(|(table, _)| *table >= self.base && *table != 0) {
            let count = size as usize / size_of::<Relocation>();
            // SAFETY: the table that the section names, of that size.
            for relocation in unsafe { std::slice::from_raw_parts(table as *const Relocation, count) } {
                if !matches!(relocation.info & 0xffff_ffff, GLOB_DAT | JUMP_SLOT) {
                    continue;
                }
                let index = (relocation.info >> 32) as usize;
                // SAFETY: a symbol of the library's table, with its name in the table of strings.
                let called = unsafe { name(symbols, strings, index) };
                if is_asked(called) {
                    found.push(self.base + relocation.offset);
                }
            }
        }
        found
    }

    /// Writes `to` into a slot, on a page that may have been made read-only when the library was loaded, and is read-only again
    /// afterwards. Returns whether it succeeded.
    ///
    /// # Safety
    /// `slot` belongs to this library, for a function that `to` can replace.
    pub(crate) unsafe fn write(&self, slot: u64, to: *mut c_void) -> bool {
        let page = (slot as usize & !(PAGE - 1)) as *mut c_void;
        let sealed = self.headers.iter().filter(|header| header.p_type == libc::PT_GNU_RELRO).any(|header| {
            // The loader protects whole pages: not the last one if another section begins there.
            let pages = |address: u64| address & !(PAGE as u64 - 1);
            (pages(self.base + header.p_vaddr)..pages(self.base + header.p_vaddr + header.p_memsz)).contains(&slot)
        });
        // SAFETY: one page of the library's data. The slot is written in one access, so that a call meanwhile finds either function.
        unsafe {
            if sealed && libc::mprotect(page, PAGE, libc::PROT_READ | libc::PROT_WRITE) != 0 {
                return false;
            }
            AtomicPtr::from_ptr(slot as *mut *mut c_void).store(to, Ordering::Release);
            if sealed {
                libc::mprotect(page, PAGE, libc::PROT_READ);
            }
        }
        true
    }
}

/// The name of a symbol.
///
/// # Safety
/// `symbols` and `strings` are the addresses of a loaded library's tables, and it has a symbol of that index.
unsafe fn name<'a>(symbols: u64, strings: u64, index: usize) -> &'a CStr {
    // SAFETY: the caller's promise; names are C strings.
    unsafe {
        let symbol = &*(symbols as *const Symbol).add(index);
        CStr::from_ptr((strings + u64::from(symbol.name)) as *const _)
    }
}
