//! What a preloaded shim has and one that was loaded later has not: being asked before libc. For `pthread_exit` that is made up
//! for, in the libraries that are there (CPython among them): their calls are led here.

use std::ffi::{CStr, c_int, c_void};
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

/// For a process that has loaded the shim while it ran: libraries that are loaded call the shim's `pthread_exit`. Gives how many
/// references there were. Nothing else in the process may load or unload libraries meanwhile; the caller holds Python's lock.
#[unsafe(no_mangle)]
extern "C" fn ftest_loaded_late() -> c_int {
    let mut found: c_int = 0;
    // SAFETY: the callback gets a pointer to `found`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(lead), (&raw mut found).cast()) };
    found
}

/// Leads the references of one library here.
unsafe extern "C" fn lead(info: *mut dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: glibc passes a valid description with its program headers, and `data` is the counter of the caller.
    let (info, found) = unsafe { (&*info, &mut *data.cast::<c_int>()) };
    // SAFETY: as above; `dlpi_phnum` is their number.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    // SAFETY: glibc keeps the path as a C string, null for none.
    let path = if info.dlpi_name.is_null() { c"" } else { unsafe { CStr::from_ptr(info.dlpi_name) } };
    let name = path.to_string_lossy();
    // Ours asks for libc's function on purpose. The kernel's page of functions calls nothing.
    if name.contains("libfakegpu.so") || name.contains("linux-vdso") {
        return 0;
    }
    if let Some(section) = headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC) {
        let here = super::pthread_exit as *mut c_void;
        // SAFETY: a loaded library, whose dynamic section the header describes.
        *found += unsafe { redirect(info.dlpi_addr, section, headers, c"pthread_exit", here) };
    }
    0
}

/// Writes `to` into every slot of the library at `base` that is for the function `name`. Gives how many there were.
///
/// # Safety
/// `dynamic` is the header of the dynamic section of a library that is loaded at `base` and stays.
unsafe fn redirect(
    base: Elf64_Addr,
    dynamic: &Elf64_Phdr,
    headers: &[Elf64_Phdr],
    name: &CStr,
    to: *mut c_void,
) -> c_int {
    let mut entry = (base + dynamic.p_vaddr) as *const Dynamic;
    let (mut strings, mut symbols, mut tables) = (0, 0, [(0, 0); 2]);
    // SAFETY: the section ends with DT_NULL.
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
    // glibc has relocated these addresses in the section itself.
    if strings < base || symbols < base {
        return 0;
    }
    let mut found = 0;
    for (table, size) in tables.into_iter().filter(|(table, _)| *table >= base && *table != 0) {
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
            if called == name {
                // SAFETY: the slot of a function of this signature.
                found += c_int::from(unsafe { write(base + relocation.offset, headers, base, to) });
            }
        }
    }
    found
}

/// Writes `to` into the slot, on a page that may be read-only since the library was loaded, and is again afterwards.
///
/// # Safety
/// `slot` is an aligned pointer in the data of the library at `base`.
unsafe fn write(slot: u64, headers: &[Elf64_Phdr], base: Elf64_Addr, to: *mut c_void) -> bool {
    let page = (slot as usize & !(PAGE - 1)) as *mut c_void;
    let sealed = headers.iter().filter(|header| header.p_type == libc::PT_GNU_RELRO).any(|header| {
        // The loader protects whole pages: not the last one if another section begins there.
        let pages = |address: u64| address & !(PAGE as u64 - 1);
        (pages(base + header.p_vaddr)..pages(base + header.p_vaddr + header.p_memsz)).contains(&slot)
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
