//! The soname holders: one tiny ELF file per NVIDIA soname, which has no symbols of its own and needs the shim.
//! They satisfy `DT_NEEDED`, version references and `dlopen` of a CUDA program although no NVIDIA library is there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use object::elf;
use object::endian::Endianness;
use object::read::elf::{FileHeader as _, SectionHeader as _};
use object::read::{ReadCache, ReadRef, StringTable};
use object::write::elf::{FileHeader, ProgramHeader, Verdef, Writer};

/// Sonames that programs link or open by name, whatever wheel is installed. Every soname doubles as a version node,
/// as NVIDIA's libraries have it; `NODES` has the exceptions.
const SONAMES: &[&str] = &[
    "libcublas.so.12",
    "libcublas.so.13",
    "libcublasLt.so.12",
    "libcublasLt.so.13",
    "libcuda.so.1",
    "libcudart.so.12",
    "libcudart.so.13",
    "libcudnn.so.9",
    "libcufft.so.11",
    "libcufft.so.12",
    "libcufile.so.0",
    "libcupti.so.12",
    "libcupti.so.13",
    "libcurand.so.10",
    "libcusolver.so.11",
    "libcusolver.so.12",
    "libcusparse.so.12",
    "libcusparseLt.so.0",
    "libnccl.so.2",
    "libnvJitLink.so.12",
    "libnvJitLink.so.13",
    "libnvToolsExt.so.1",
    "libnvidia-ml.so.1",
    "libnvrtc.so.12",
    "libnvrtc.so.13",
    "libnvshmem_host.so.3",
];

/// Version nodes that are not named like the soname.
const NODES: &[(&str, &str)] = &[("libnvshmem_host.so.3", "NVSHMEM")];

/// Names without a version under which programs open a library, and the soname that stands behind each.
const ALIASES: &[(&str, &str)] =
    &[("libcuda.so", "libcuda.so.1"), ("libnccl.so", "libnccl.so.2"), ("libnvidia-ml.so", "libnvidia-ml.so.1")];

/// Segments lie this far apart, the largest page size of the machines that Linux runs on.
const PAGE: u64 = 0x1_0000;

/// Writes the holders into `directory`, which is made when it is missing: one per known soname and one per NVIDIA
/// soname that a library in `torch_libraries` (a wheel's `torch/lib`) needs. Each needs `shim` by its absolute path.
///
/// The same arguments give the same bytes. Each file appears whole, so that several processes may write at once and a
/// file that is already right is left alone.
///
/// # Errors
/// What the file system answers, or `InvalidData` for a shim that is no 64-bit ELF file; the message names the path.
pub fn write(directory: &Path, shim: &Path, torch_libraries: Option<&Path>) -> io::Result<()> {
    let shim = fs::canonicalize(shim).map_err(|error| at(shim, error))?;
    let target = Target::of(&shim)?;
    let holders = holders(torch_libraries)?;
    fs::create_dir_all(directory).map_err(|error| at(directory, error))?;
    for (soname, nodes) in &holders {
        put(directory, soname, &image(soname, nodes, shim.as_os_str().as_bytes(), target)?)?;
    }
    for (alias, soname) in ALIASES {
        put(directory, alias, &image(soname, &holders[*soname], shim.as_os_str().as_bytes(), target)?)?;
    }
    Ok(())
}

/// The version nodes of every soname to hold: the built-in list and what the libraries of `torch_libraries` need.
fn holders(torch_libraries: Option<&Path>) -> io::Result<BTreeMap<String, BTreeSet<String>>> {
    let mut holders: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for soname in SONAMES {
        holders.entry((*soname).to_owned()).or_default();
    }
    for (soname, node) in NODES {
        holders.entry((*soname).to_owned()).or_default().insert((*node).to_owned());
    }
    if let Some(directory) = torch_libraries {
        for library in libraries(directory)? {
            let needs = Needs::read(&library).map_err(|error| at(&library, error))?;
            for soname in needs.sonames {
                holders.entry(soname).or_default();
            }
            for (soname, node) in needs.nodes {
                holders.entry(soname).or_default().insert(node);
            }
        }
    }
    for (soname, nodes) in &mut holders {
        nodes.insert(soname.clone());
    }
    Ok(holders)
}

/// The shared libraries in `directory`, sorted.
fn libraries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut libraries = Vec::new();
    for entry in fs::read_dir(directory).map_err(|error| at(directory, error))? {
        let path = entry?.path();
        let is_library = path.file_name().is_some_and(|name| {
            let name = name.to_string_lossy();
            name.ends_with(".so") || name.contains(".so.")
        });
        if is_library && path.is_file() {
            libraries.push(path);
        }
    }
    libraries.sort();
    Ok(libraries)
}

/// What one library wants from NVIDIA's.
#[derive(Debug, Default, PartialEq, Eq)]
struct Needs {
    /// `DT_NEEDED` entries.
    sonames: BTreeSet<String>,
    /// Version references: (soname, node).
    nodes: BTreeSet<(String, String)>,
}

impl Needs {
    fn read(library: &Path) -> io::Result<Needs> {
        // The CUDA library of a wheel has a gigabyte; the cache reads the few ranges that are asked for.
        let cache = ReadCache::new(File::open(library)?);
        Needs::parse(&cache).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))
    }

    fn parse<'data, R: ReadRef<'data>>(data: R) -> object::read::Result<Needs> {
        let header = elf::FileHeader64::<Endianness>::parse(data)?;
        let endian = header.endian()?;
        let sections = header.sections(endian, data)?;
        let mut needs = Needs::default();
        for section in sections.iter() {
            let strings = || -> object::read::Result<StringTable<'data, R>> {
                sections.strings(endian, data, section.link(endian))
            };
            if let Some((entries, _)) = section.dynamic(endian, data)? {
                let strings = strings()?;
                for entry in entries.iter().filter(|entry| entry.d_tag.get(endian) == elf::DT_NEEDED) {
                    let offset = u32::try_from(entry.d_val.get(endian)).unwrap_or(u32::MAX);
                    let soname = String::from_utf8_lossy(strings.get(offset).unwrap_or_default());
                    if is_nvidias(&soname) {
                        needs.sonames.insert(soname.into_owned());
                    }
                }
            }
            if let Some((mut files, _)) = section.gnu_verneed(endian, data)? {
                let strings = strings()?;
                while let Some((file, mut nodes)) = files.next()? {
                    let soname = String::from_utf8_lossy(file.file(endian, strings)?).into_owned();
                    while let Some(node) = nodes.next()? {
                        if is_nvidias(&soname) {
                            let node = String::from_utf8_lossy(node.name(endian, strings)?).into_owned();
                            needs.nodes.insert((soname.clone(), node));
                        }
                    }
                }
            }
        }
        Ok(needs)
    }
}

/// Whether the library is NVIDIA's: one of those we know by any version, or a part of one (`libcudnn_ops.so.9`).
fn is_nvidias(soname: &str) -> bool {
    let known = SONAMES.iter().filter_map(|known| known.split_once(".so").map(|(stem, _)| stem));
    soname.starts_with("libnv") || known.into_iter().any(|stem| soname.starts_with(stem))
}

/// The machine that a holder is for: the shim's.
#[derive(Clone, Copy, Debug)]
struct Target {
    endian: Endianness,
    machine: elf::Machine,
}

impl Target {
    fn of(shim: &Path) -> io::Result<Target> {
        let invalid = |what: String| at(shim, io::Error::new(io::ErrorKind::InvalidData, what));
        let mut head = [0_u8; size_of::<elf::FileHeader64<Endianness>>()];
        File::open(shim).and_then(|mut file| file.read_exact(&mut head)).map_err(|error| at(shim, error))?;
        let header = elf::FileHeader64::<Endianness>::parse(&head[..])
            .map_err(|error| invalid(format!("not a 64-bit ELF library: {error}")))?;
        let endian = header.endian().map_err(|error| invalid(error.to_string()))?;
        Ok(Target { endian, machine: header.e_machine(endian) })
    }
}

/// One holder as bytes: dynamic section, version definitions, no symbol but the null one.
fn image(soname: &str, nodes: &BTreeSet<String>, shim: &[u8], target: Target) -> io::Result<Vec<u8>> {
    draw(soname, nodes, shim, target).map_err(|error| io::Error::other(format!("{soname}: {error}")))
}

fn draw(soname: &str, nodes: &BTreeSet<String>, shim: &[u8], target: Target) -> Result<Vec<u8>, object::write::Error> {
    const SEGMENTS: u32 = 4;
    const DYNAMIC_ENTRIES: usize = 11;
    let mut bytes = Vec::new();
    let mut elf = Writer::new(target.endian, true, &mut bytes);

    let soname_id = elf.add_dynamic_string(soname.as_bytes());
    let shim_id = elf.add_dynamic_string(shim);
    let node_ids: Vec<_> =
        nodes.iter().map(|node| (elf.add_dynamic_string(node.as_bytes()), elf::hash(node.as_bytes()))).collect();
    let definitions = node_ids.len() as u16 + 1;

    elf.reserve_file_header();
    elf.reserve_program_headers(SEGMENTS);
    elf.reserve_null_section_index();
    elf.reserve_hash_section_index();
    elf.reserve_dynsym_section_index();
    elf.reserve_dynstr_section_index();
    elf.reserve_gnu_versym_section_index();
    elf.reserve_gnu_verdef_section_index();
    elf.reserve_dynamic_section_index();
    elf.reserve_shstrtab_section_index();
    elf.reserve_null_dynamic_symbol_index();
    let hash = elf.reserve_hash(1, 1);
    let dynsym = elf.reserve_dynsym();
    let dynstr = elf.reserve_dynstr()?;
    let versym = elf.reserve_gnu_versym();
    let verdef = elf.reserve_gnu_verdef(definitions, usize::from(definitions));
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
    // The loader writes addresses into .dynamic, so it lies in a segment of its own, one page up.
    let dynamic_address = dynamic + PAGE;
    elf.write_program_header(&segment(elf::PT_LOAD, elf::PF_R, 0, 0, read_only_end, PAGE));
    for (kind, align) in [(elf::PT_LOAD, PAGE), (elf::PT_DYNAMIC, 8)] {
        elf.write_program_header(&segment(kind, elf::PF_R | elf::PF_W, dynamic, dynamic_address, dynamic_size, align));
    }
    // Without this header the loader would ask for an executable stack.
    elf.write_program_header(&segment(elf::PT_GNU_STACK, elf::PF_R | elf::PF_W, 0, 0, 0, 16));

    elf.write_hash(1, 1, |_| None);
    elf.write_null_dynamic_symbol();
    elf.write_dynstr();
    elf.write_null_gnu_versym();
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

/// Puts `bytes` at `directory/name` in one step, unless they are there already.
fn put(directory: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let path = directory.join(name);
    if fs::read(&path).is_ok_and(|found| found == bytes) {
        return Ok(());
    }
    let mut file = tempfile::Builder::new()
        .permissions(fs::Permissions::from_mode(0o644))
        .tempfile_in(directory)
        .map_err(|error| at(directory, error))?;
    io::Write::write_all(&mut file, bytes)?;
    file.persist(&path).map_err(|error| at(&path, error.error))?;
    Ok(())
}

/// `error`, which was met at `path`.
pub(super) fn at(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use object::read::elf::{Dyn as _, ElfFile64};
    use object::{Object, ObjectSymbolTable};

    use super::*;

    const TARGET: Target = Target { endian: Endianness::Little, machine: elf::EM_X86_64 };

    fn holder(soname: &str, nodes: &[&str], shim: &str) -> Vec<u8> {
        image(soname, &nodes.iter().map(|node| (*node).to_owned()).collect(), shim.as_bytes(), TARGET).unwrap()
    }

    #[test]
    fn a_holder_is_a_library_without_symbols_that_needs_the_shim() {
        let bytes = holder("libnvshmem_host.so.3", &["NVSHMEM", "libnvshmem_host.so.3"], "/opt/libfakegpu.so");
        let file = ElfFile64::<Endianness>::parse(&bytes[..]).unwrap();
        let endian = file.endian();
        assert_eq!(file.architecture(), object::Architecture::X86_64);
        assert_eq!(file.dynamic_symbol_table().map_or(0, |table| table.symbols().count()), 0);

        let dynamic = file.elf_section_table().dynamic_table(endian, &bytes[..]).unwrap();
        let text = |tag| -> Vec<String> {
            let entries = dynamic.dynamics().iter().filter(|entry| entry.d_tag(endian) == tag);
            entries
                .map(|entry| dynamic.strings().get(entry.d_val(endian) as u32).unwrap())
                .map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
                .collect()
        };
        assert_eq!(text(elf::DT_NEEDED), ["/opt/libfakegpu.so"]);
        assert_eq!(text(elf::DT_SONAME), ["libnvshmem_host.so.3"]);

        let (mut definitions, link) = file.elf_section_table().gnu_verdef(endian, &bytes[..]).unwrap().unwrap();
        let strings = file.elf_section_table().strings(endian, &bytes[..], link).unwrap();
        let mut names = Vec::new();
        while let Some((_, mut aux)) = definitions.next().unwrap() {
            names.push(
                String::from_utf8_lossy(aux.next().unwrap().unwrap().name(endian, strings).unwrap()).into_owned(),
            );
        }
        assert_eq!(names, ["libnvshmem_host.so.3", "NVSHMEM", "libnvshmem_host.so.3"]);
    }

    #[test]
    fn the_same_arguments_give_the_same_bytes() {
        let one = || holder("libcudart.so.13", &["libcudart.so.13"], "/opt/libfakegpu.so");
        assert_eq!(one(), one());
    }

    #[test]
    fn only_nvidias_needs_are_read() {
        let needs = |library: &str| Needs::parse(&holder("libtorch_cuda.so", &[], library)[..]).unwrap().sonames;
        assert_eq!(needs("libcublas.so.99"), BTreeSet::from(["libcublas.so.99".to_owned()]));
        assert_eq!(needs("libcudnn_ops.so.9"), BTreeSet::from(["libcudnn_ops.so.9".to_owned()]));
        for other in ["libcurl.so.4", "libcups.so.2", "libc.so.6", "libtorch_cpu.so"] {
            assert_eq!(needs(other), BTreeSet::new(), "{other}");
        }
    }

    #[test]
    fn a_shim_that_is_no_library_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let shim = directory.path().join("libfakegpu.so");
        fs::write(&shim, vec![b'#'; 256]).unwrap();
        let error = write(directory.path(), &shim, None).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(error.to_string().contains("libfakegpu.so"), "{error}");
    }
}
