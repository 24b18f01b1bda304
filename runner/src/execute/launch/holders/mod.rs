//! The soname holders: one small ELF file per NVIDIA soname, which contains no code and needs the shim. They satisfy a
//! CUDA program's `DT_NEEDED`, version references and `dlopen` without any NVIDIA library, and programs can be linked
//! against them.

mod image;
mod symbols;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use object::elf;
use object::endian::Endianness;
use object::read::elf::{FileHeader as _, SectionHeader as _};
use object::read::{ReadCache, ReadRef, StringTable};

use crate::execute::launch::holders::image::{Holder, Target};

/// Sonames that programs link or open by name, with any wheel. Every soname is also a version node, as in NVIDIA's
/// libraries; `NODES` lists the exceptions.
const SONAMES: &[&str] = &[
    "libcublas.so.12",
    "libcublas.so.13",
    "libcublasLt.so.12",
    "libcublasLt.so.13",
    "libcuda.so.1",
    "libcudart.so.12",
    "libcudart.so.13",
    "libcudnn.so.9",
    "libcudnn_adv.so.9",
    "libcudnn_cnn.so.9",
    "libcudnn_engines_precompiled.so.9",
    "libcudnn_engines_runtime_compiled.so.9",
    "libcudnn_engines_tensor_ir.so.9",
    "libcudnn_ext.so.9",
    "libcudnn_graph.so.9",
    "libcudnn_heuristic.so.9",
    "libcudnn_ops.so.9",
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

/// The soname of NVML.
pub const NVML: &str = "libnvidia-ml.so.1";

/// Version nodes that are not named like the soname.
const NODES: &[(&str, &str)] = &[("libnvshmem_host.so.3", "NVSHMEM")];

/// Writes the holders into `directory`, which is created if missing: one per known soname and one per NVIDIA soname that
/// a library in `torch_libraries` (a wheel's `torch/lib`) needs. Beside each is `libNAME.so`, which linkers look for.
/// Each needs `shim` by its absolute path.
///
/// The same arguments give the same bytes. Each file is written atomically, so several processes may write at once. A
/// file that is already right is left alone.
///
/// # Errors
/// File system errors, or `InvalidData` for a shim that is not a 64-bit ELF file; the message names the path.
pub fn write(directory: &Path, shim: &Path, torch_libraries: Option<&Path>) -> io::Result<()> {
    let target = Target::from_shim(shim)?;
    let holders = holders(torch_libraries)?;
    fs::create_dir_all(directory).map_err(|error| with_path(directory, error))?;
    let draw = |soname: &str| {
        let symbols = symbols::exported_by(soname);
        let nodes = &holders[soname].nodes;
        image::draw(Holder { soname, nodes, symbols: &symbols, shim: shim.as_os_str().as_bytes() }, target)
    };
    for soname in holders.keys() {
        put(directory, soname, &draw(soname)?)?;
    }
    for (alias, soname) in aliases(&holders) {
        put(directory, &alias, &draw(soname)?)?;
    }
    Ok(())
}

/// Writes the holder of libnvidia-ml alone, for a library that has its functions beside another's.
///
/// # Errors
/// As for [`write()`].
pub fn write_nvml(directory: &Path, library: &Path) -> io::Result<()> {
    let target = Target::from_shim(library)?;
    fs::create_dir_all(directory).map_err(|error| with_path(directory, error))?;
    let (nodes, symbols) = (BTreeSet::from([NVML.to_owned()]), symbols::exported_by(NVML));
    let holder = Holder { soname: NVML, nodes: &nodes, symbols: &symbols, shim: library.as_os_str().as_bytes() };
    put(directory, NVML, &image::draw(holder, target)?)
}

/// What is known about one soname to hold.
#[derive(Debug, Default)]
struct Held {
    nodes: BTreeSet<String>,
    /// A library of the wheel needs it.
    is_needed: bool,
}

/// Every soname to hold: the built-in list and the ones needed by the libraries in `torch_libraries`.
fn holders(torch_libraries: Option<&Path>) -> io::Result<BTreeMap<String, Held>> {
    let mut holders: BTreeMap<String, Held> = BTreeMap::new();
    for soname in SONAMES {
        holders.entry((*soname).to_owned()).or_default();
    }
    for (soname, node) in NODES {
        holders.entry((*soname).to_owned()).or_default().nodes.insert((*node).to_owned());
    }
    if let Some(directory) = torch_libraries {
        for library in libraries(directory)? {
            let needs = Needs::read(&library).map_err(|error| with_path(&library, error))?;
            for soname in needs.sonames {
                holders.entry(soname).or_default().is_needed = true;
            }
            for (soname, node) in needs.nodes {
                holders.entry(soname).or_default().nodes.insert(node);
            }
        }
    }
    for (soname, held) in &mut holders {
        held.nodes.insert(soname.clone());
    }
    Ok(holders)
}

/// `libNAME.so` for every library, which linkers and some programs open, and the soname it refers to: the one that the
/// wheel needs, or else the newest.
fn aliases(holders: &BTreeMap<String, Held>) -> BTreeMap<String, &str> {
    let mut best: BTreeMap<String, (bool, u32, &str)> = BTreeMap::new();
    for (soname, held) in holders {
        let Some((stem, version)) = soname.split_once(".so.") else { continue };
        let major = version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0);
        let rank = (held.is_needed, major, soname.as_str());
        best.entry(format!("{stem}.so")).and_modify(|known| *known = rank.max(*known)).or_insert(rank);
    }
    best.into_iter().map(|(alias, (_, _, soname))| (alias, soname)).collect()
}

/// The sonames whose holders one process can load: for each library the one that the wheel needs, or else the newest version.
/// With more than one `libcudart` in a process, the shim could not tell which CUDA the program was built for.
///
/// # Errors
/// As for [`write()`].
pub fn of_one_process(torch_libraries: Option<&Path>) -> io::Result<Vec<String>> {
    Ok(one_of_each(&holders(torch_libraries)?))
}

fn one_of_each(holders: &BTreeMap<String, Held>) -> Vec<String> {
    let chosen: BTreeSet<&str> = aliases(holders).into_values().collect();
    let wanted = |(soname, held): &(&String, &Held)| held.is_needed || chosen.contains(soname.as_str());
    holders.iter().filter(wanted).map(|(soname, _)| soname.clone()).collect()
}

/// The shared libraries in `directory`, sorted.
fn libraries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut libraries = Vec::new();
    for entry in fs::read_dir(directory).map_err(|error| with_path(directory, error))? {
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

/// What one library needs from NVIDIA's libraries.
#[derive(Debug, Default, PartialEq, Eq)]
struct Needs {
    /// `DT_NEEDED` entries.
    sonames: BTreeSet<String>,
    /// Version references: (soname, node).
    nodes: BTreeSet<(String, String)>,
}

impl Needs {
    fn read(library: &Path) -> io::Result<Needs> {
        // The CUDA library of a wheel has a gigabyte; the cache reads only the few ranges needed.
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

/// Whether the library is NVIDIA's: a known one in any version, or a part of one (`libcudnn_ops.so.9`).
fn is_nvidias(soname: &str) -> bool {
    let known = SONAMES.iter().filter_map(|known| known.split_once(".so").map(|(stem, _)| stem));
    soname.starts_with("libnv") || known.into_iter().any(|stem| soname.starts_with(stem))
}

/// The library that a function of this name belongs to, if we replace that library and lack the function.
pub fn missing_from(name: &str) -> Option<&'static str> {
    symbols::missing_from(name)
}

/// The stem of an NVIDIA soname that has no holder; `None` for any other soname, or one with a holder.
pub fn not_held(soname: &str) -> Option<String> {
    let (stem, _) = soname.split_once(".so")?;
    let known = SONAMES.iter().filter_map(|known| known.split_once(".so").map(|(stem, _)| stem));
    let part_of = known
        .into_iter()
        .any(|known| stem == known || stem.strip_prefix(known).is_some_and(|rest| rest.starts_with('_')));
    (part_of && !SONAMES.contains(&soname)).then(|| stem.to_owned())
}

/// Writes `bytes` to `directory/name` atomically, unless they are there already.
fn put(directory: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let path = directory.join(name);
    if fs::read(&path).is_ok_and(|found| found == bytes) {
        return Ok(());
    }
    let mut file = tempfile::Builder::new()
        .permissions(fs::Permissions::from_mode(0o644))
        .tempfile_in(directory)
        .map_err(|error| with_path(directory, error))?;
    io::Write::write_all(&mut file, bytes)?;
    file.persist(&path).map_err(|error| with_path(&path, error.error))?;
    Ok(())
}

/// `error` with `path` added.
pub(super) fn with_path(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use object::read::elf::{Dyn as _, ElfFile64};
    use object::{Object, ObjectSymbol as _, ObjectSymbolTable as _};

    use super::*;

    const TARGET: Target = Target { endian: Endianness::Little, machine: elf::EM_X86_64 };

    fn holder(soname: &str, nodes: &[&str], shim: &str) -> Vec<u8> {
        let nodes = nodes.iter().map(|node| (*node).to_owned()).collect();
        let symbols = symbols::exported_by(soname);
        image::draw(Holder { soname, nodes: &nodes, symbols: &symbols, shim: shim.as_bytes() }, TARGET).unwrap()
    }

    #[test]
    fn libname_so_is_what_the_wheel_needs_or_the_newest() {
        let held = |needed: &str| {
            let known = ["libcudart.so.9", "libcudart.so.12", "libcudart.so.13", "libcuda.so.1"];
            let entry =
                |soname: &&str| ((*soname).to_owned(), Held { nodes: BTreeSet::new(), is_needed: *soname == needed });
            known.iter().map(entry).collect::<BTreeMap<_, _>>()
        };
        assert_eq!(aliases(&held(""))["libcudart.so"], "libcudart.so.13");
        assert_eq!(aliases(&held("libcudart.so.12"))["libcudart.so"], "libcudart.so.12");
        assert_eq!(aliases(&held("libcudart.so.12"))["libcuda.so"], "libcuda.so.1");
        assert_eq!(one_of_each(&held("")), ["libcuda.so.1", "libcudart.so.13"]);
        assert_eq!(one_of_each(&held("libcudart.so.12")), ["libcuda.so.1", "libcudart.so.12"]);
    }

    #[test]
    fn a_holder_names_what_can_be_linked_and_needs_the_shim() {
        let bytes = holder("libnvshmem_host.so.3", &["NVSHMEM", "libnvshmem_host.so.3"], "/opt/libfakegpu.so");
        let file = ElfFile64::<Endianness>::parse(&bytes[..]).unwrap();
        let endian = file.endian();
        assert_eq!(file.architecture(), object::Architecture::X86_64);
        let linked: Vec<_> = file.dynamic_symbol_table().unwrap().symbols().map(|one| one.name().unwrap()).collect();
        assert_eq!(linked, symbols::exported_by("libnvshmem_host.so.3"));

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
