//! One holder as bytes: an ELF library that looks empty to a loader and full to a linker.
//!
//! The loader looks names up through the hash table, which is empty, so it goes on to the shim, which every holder needs.
//! Linkers (ld, gold, lld, mold) read the symbol table of the section headers instead, which lists the library's symbols.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use object::elf;
use object::endian::Endianness;
use object::read::elf::FileHeader as _;
use object::write::elf::{FileHeader, ProgramHeader, SectionHeader, Sym, Verdef, Writer};

use crate::execute::launch::holders::with_path;

/// Segments lie this far apart, the largest page size of the machines that Linux runs on.
const PAGE: u64 = 0x1_0000;

/// Bytes that each symbol has in `.text`, so that no two share an address.
const CODE: u64 = 16;

/// The machine type of a holder: the shim's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) endian: Endianness,
    pub(super) machine: elf::Machine,
}

impl Target {
    pub(super) fn from_shim(shim: &Path) -> io::Result<Target> {
        let invalid = |what: String| with_path(shim, io::Error::new(io::ErrorKind::InvalidData, what));
        let mut head = [0_u8; size_of::<elf::FileHeader64<Endianness>>()];
        File::open(shim).and_then(|mut file| file.read_exact(&mut head)).map_err(|error| with_path(shim, error))?;
        let header = elf::FileHeader64::<Endianness>::parse(&head[..])
            .map_err(|error| invalid(format!("not a 64-bit ELF library: {error}")))?;
        let endian = header.endian().map_err(|error| invalid(error.to_string()))?;
        Ok(Target { endian, machine: header.e_machine(endian) })
    }
}

/// The contents of a holder.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder<'a> {
    pub(super) soname: &'a str,
    /// Version nodes that programs may ask for.
    pub(super) nodes: &'a BTreeSet<String>,
    /// Symbols that a program can be linked with.
    pub(super) symbols: &'a [&'a str],
    /// Absolute path of the shim.
    pub(super) shim: &'a [u8],
}

/// The holder as a file.
///
/// # Errors
/// If it does not fit into ELF's limits; the message names the soname.
pub(super) fn draw(holder: Holder<'_>, target: Target) -> io::Result<Vec<u8>> {
    write(holder, target).map_err(|error| io::Error::other(format!("{}: {error}", holder.soname)))
}

fn write(holder: Holder<'_>, target: Target) -> Result<Vec<u8>, object::write::Error> {
    const SEGMENTS: u32 = 4;
    const DYNAMIC_ENTRIES: usize = 11;
    let Holder { soname, nodes, shim, .. } = holder;
    // GNU ld considers a library without any symbol damaged.
    let symbols = if holder.symbols.is_empty() { &["__ftest_holder"] } else { holder.symbols };
    let mut bytes = Vec::new();
    let mut elf = Writer::new(target.endian, true, &mut bytes);

    let soname_id = elf.add_dynamic_string(soname.as_bytes());
    let shim_id = elf.add_dynamic_string(shim);
    let node_ids: Vec<_> =
        nodes.iter().map(|node| (elf.add_dynamic_string(node.as_bytes()), elf::hash(node.as_bytes()))).collect();
    let definitions = node_ids.len() as u16 + 1;
    let symbol_ids: Vec<_> = symbols.iter().map(|symbol| elf.add_dynamic_string(symbol.as_bytes())).collect();
    let text_name = elf.add_section_name(b".text");

    elf.reserve_file_header();
    elf.reserve_program_headers(SEGMENTS);
    elf.reserve_null_section_index();
    elf.reserve_hash_section_index();
    elf.reserve_dynsym_section_index();
    elf.reserve_dynstr_section_index();
    elf.reserve_gnu_versym_section_index();
    elf.reserve_gnu_verdef_section_index();
    let text_index = elf.reserve_section_index();
    elf.reserve_dynamic_section_index();
    elf.reserve_shstrtab_section_index();
    elf.reserve_null_dynamic_symbol_index();
    for _ in symbols {
        elf.reserve_dynamic_symbol_index();
    }
    let hash = elf.reserve_hash(1, 1);
    let dynsym = elf.reserve_dynsym();
    let dynstr = elf.reserve_dynstr()?;
    let versym = elf.reserve_gnu_versym();
    let verdef = elf.reserve_gnu_verdef(definitions, usize::from(definitions));
    // Nothing here is ever run: the addresses only have to be in memory, for a debugger that sets breakpoints by name.
    let text_size = CODE * symbols.len() as u64;
    let text = elf.reserve(text_size, CODE);
    let read_only_end = elf.reserved_len();
    let dynamic = elf.reserve_dynamic(DYNAMIC_ENTRIES);
    let dynamic_size = elf.reserved_len() - dynamic;
    elf.reserve_shstrtab()?;
    elf.reserve_section_headers();

    elf.write_file_header(&FileHeader {
        os_abi: elf::ELFOSABI_NONE,
        e_type: elf::ET_DYN,
        e_machine: target.machine,
        ..FileHeader::default()
    })?;
    elf.write_align_program_headers();
    // The loader writes addresses into .dynamic, so it lies in its own segment, one page up.
    let dynamic_address = dynamic + PAGE;
    elf.write_program_header(&segment(elf::PT_LOAD, elf::PF_R, 0, 0, read_only_end, PAGE));
    for (kind, align) in [(elf::PT_LOAD, PAGE), (elf::PT_DYNAMIC, 8)] {
        elf.write_program_header(&segment(kind, elf::PF_R | elf::PF_W, dynamic, dynamic_address, dynamic_size, align));
    }
    // Without this header, the loader would require an executable stack.
    elf.write_program_header(&segment(elf::PT_GNU_STACK, elf::PF_R | elf::PF_W, 0, 0, 0, 16));

    elf.write_hash(1, 1, |_| None);
    elf.write_null_dynamic_symbol();
    for (place, name) in (0..).zip(&symbol_ids) {
        elf.write_dynamic_symbol(&Sym {
            section: Some(text_index.0),
            st_name: elf.dynamic_string_offset(Some(*name)),
            st_info: elf::STB_GLOBAL | elf::STT_FUNC,
            st_other: elf::SymbolOther(0),
            st_shndx: elf::SHN_UNDEF,
            st_value: text + place * CODE,
            st_size: CODE,
        });
    }
    elf.write_dynstr();
    elf.write_null_gnu_versym();
    for _ in symbols {
        // Without a version, so that a program linked here also runs where NVIDIA's library has a different one.
        elf.write_gnu_versym(elf::VER_NDX_GLOBAL.into());
    }
    elf.write_align_gnu_verdef();
    elf.write_gnu_verdef(&Verdef {
        version: elf::VER_DEF_CURRENT,
        flags: elf::VER_FLG_BASE,
        index: elf::VER_NDX_GLOBAL,
        aux_count: 1,
        name: elf.dynamic_string_offset(Some(soname_id)),
        hash: elf::hash(soname.as_bytes()),
    });
    for (index, (name, hash)) in (2..).zip(&node_ids) {
        elf.write_gnu_verdef(&Verdef {
            version: elf::VER_DEF_CURRENT,
            flags: elf::VersionFlags(0),
            index: elf::VersionIndex(index),
            aux_count: 1,
            name: elf.dynamic_string_offset(Some(*name)),
            hash: *hash,
        });
    }
    elf.write_align(CODE);
    elf.write(&vec![0; text_size as usize]);
    elf.write_align_dynamic();
    elf.write_dynamic_string(elf::DT_NEEDED, shim_id)?;
    elf.write_dynamic_string(elf::DT_SONAME, soname_id)?;
    elf.write_dynamic(elf::DT_HASH, hash)?;
    elf.write_dynamic(elf::DT_SYMTAB, dynsym)?;
    elf.write_dynamic(elf::DT_SYMENT, size_of::<elf::Sym64<Endianness>>() as u64)?;
    elf.write_dynamic(elf::DT_STRTAB, dynstr)?;
    elf.write_dynamic(elf::DT_STRSZ, u64::from(elf.dynstr_len()))?;
    elf.write_dynamic(elf::DT_VERSYM, versym)?;
    elf.write_dynamic(elf::DT_VERDEF, verdef)?;
    elf.write_dynamic(elf::DT_VERDEFNUM, u64::from(definitions))?;
    elf.write_dynamic(elf::DT_NULL, 0)?;
    elf.write_shstrtab();
    elf.write_null_section_header();
    elf.write_hash_section_header(hash);
    elf.write_dynsym_section_header(dynsym, 1);
    elf.write_dynstr_section_header(dynstr);
    elf.write_gnu_versym_section_header(versym);
    elf.write_gnu_verdef_section_header(verdef);
    elf.write_section_header(&SectionHeader {
        sh_name: elf.section_name_offset(Some(text_name)),
        sh_type: elf::SHT_PROGBITS,
        sh_flags: elf::SHF_ALLOC | elf::SHF_EXECINSTR,
        sh_addr: text,
        sh_offset: text,
        sh_size: text_size,
        sh_addralign: CODE,
        ..SectionHeader::default()
    });
    elf.write_dynamic_section_header(dynamic_address);
    elf.write_shstrtab_section_header();
    debug_assert_eq!(elf.reserved_len(), elf.len());
    Ok(bytes)
}

fn segment(
    kind: elf::ProgramType,
    flags: elf::ProgramFlags,
    offset: u64,
    address: u64,
    size: u64,
    align: u64,
) -> ProgramHeader {
    ProgramHeader {
        p_type: kind,
        p_flags: flags,
        p_offset: offset,
        p_vaddr: address,
        p_paddr: address,
        p_filesz: size,
        p_memsz: size,
        p_align: align,
    }
}
