//! The slots through which a loaded library calls functions of other libraries, and how to redirect them.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{Elf64_Addr, Elf64_Phdr, dl_phdr_info};

/// Tags of the dynamic section, types of relocations and sizes: ELF-64 and the System V ABI for AMD64.
const DT_NULL: i64 = 0;
const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;
const R_X86_64_GLOB_DAT: u64 = 6;
const R_X86_64_JUMP_SLOT: u64 = 7;
const PAGE: usize = 4096;

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
pub(super) struct Library<'a> {
    base: Elf64_Addr,
    path: &'a CStr,
    headers: &'a [Elf64_Phdr],
}

impl<'a> Library<'a> {
    /// # Safety
    /// `info` is what glibc passes to a callback of `dl_iterate_phdr`.
    pub(super) unsafe fn new(info: &'a dl_phdr_info) -> Self {
        // SAFETY: glibc keeps the path as a C string, null for none.
        let path = if info.dlpi_name.is_null() { c"" } else { unsafe { CStr::from_ptr(info.dlpi_name) } };
        // SAFETY: `dlpi_phnum` is the number of its headers.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        Self { base: info.dlpi_addr, path, headers }
    }

    pub(super) fn path(&self) -> &'a CStr {
        self.path
    }

    /// Addresses of the slots for the functions with the requested names.
    pub(super) fn slots(&self, mut is_asked: impl FnMut(&CStr) -> bool) -> Vec<u64> {
        let Some(dynamic) = self.headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC) else {
            return Vec::new();
        };
        let mut entry = (self.base + dynamic.p_vaddr) as *const Dynamic;
        let (mut strings, mut symbols, mut tables) = (0, 0, [(0, 0); 2]);
        // SAFETY: the section of a loaded library, which ends with DT_NULL.
        while let Dynamic { tag, value } = unsafe { &*entry }
            && *tag != DT_NULL
        {
            match *tag {
                DT_STRTAB => strings = *value,
                DT_SYMTAB => symbols = *value,
                DT_RELA => tables[0].0 = *value,
                DT_RELASZ => tables[0].1 = *value,
                DT_JMPREL => tables[1].0 = *value,
                DT_PLTRELSZ => tables[1].1 = *value,
                _ => {}
            }
            // SAFETY: not the last entry.
            entry = unsafe { entry.add(1) };
        }
        let mut found = Vec::new();
        // glibc has relocated these addresses in the section itself.
        if strings < self.base || symbols < self.base {
            return found;
        }
        for (table, size) in tables.into_iter().filter(|(table, _)| *table >= self.base && *table != 0) {
            let count = size as usize / size_of::<Relocation>();
            // SAFETY: the table that the section names, of that size.
            for relocation in unsafe { std::slice::from_raw_parts(table as *const Relocation, count) } {
                if !matches!(relocation.info & 0xffff_ffff, R_X86_64_GLOB_DAT | R_X86_64_JUMP_SLOT) {
                    continue;
                }
                let index = (relocation.info >> 32) as usize;
                // SAFETY: a symbol of the library's table, with its name in the table of strings.
                let called = unsafe {
                    let symbol = &*(symbols as *const Symbol).add(index);
                    CStr::from_ptr((strings + u64::from(symbol.name)) as *const _)
                };
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
    pub(super) unsafe fn write(&self, slot: u64, to: *mut c_void) -> bool {
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
