//! What a shared library has for which device: its kernels, by the architectures that it has their PTX and machine code for.

use std::collections::{BTreeMap, BTreeSet};

use object::read::elf::{FileHeader as _, SectionHeader as _};
use object::{Endianness, elf};

use crate::container::{self, CONTAINER, Entry, Kind};
use crate::select::{self, Code};

/// Sections that hold containers: nvcc's, and those of code that the device linker still has to see.
const SECTIONS: [&[u8]; 2] = [b".nv_fatbin", b"__nv_relfatbin"];
/// Containers begin at multiples of this.
const ALIGNMENT: usize = 8;
/// Sections of a cubin that only kernels have, before their name: their parameters are in it.
const OF_KERNEL: &str = ".nv.constant0.";

/// The device code of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Library {
    /// Kernels that it has, by any architecture; one of several translation units counts in each.
    pub kernels: usize,
    /// Architectures that it has PTX for: compute capability times ten.
    pub ptx: BTreeSet<u32>,
    /// Architectures that it has machine code for.
    pub machine: BTreeSet<u32>,
    /// How many of the kernels have PTX for each of the devices that were asked for.
    pub runs: BTreeMap<(i32, i32), usize>,
}

/// What a file has for devices of these compute capabilities; nothing if it is no library with device code.
///
/// # Errors
/// If its device code cannot be read.
pub fn survey(file: &[u8], capabilities: &[(i32, i32)]) -> Result<Library, String> {
    let mut library = Library { runs: capabilities.iter().map(|one| (*one, 0)).collect(), ..Library::default() };
    for image in containers(file)? {
        let entries = container::entries(image)?;
        for entry in &entries {
            match entry.kind {
                Kind::Ptx => library.ptx.insert(entry.capability),
                Kind::Cubin => library.machine.insert(entry.capability),
                Kind::Linked | Kind::Other => continue,
            };
        }
        let mut kernels = all_kernels(&entries)?;
        for (capability, count) in &mut library.runs {
            if let Code::Ptx(texts) = select::choose(image, *capability).map_err(|unusable| unusable.0)? {
                let found = texts.iter().map(|text| entries_of_text(text)).sum();
                *count += found;
                kernels = kernels.max(found);
            }
        }
        library.kernels += kernels;
    }
    Ok(library)
}

/// The containers of an ELF file, in order.
fn containers(file: &[u8]) -> Result<Vec<&[u8]>, String> {
    if !file.starts_with(&select::ELF) {
        return Ok(Vec::new());
    }
    let wrong = |error: object::Error| format!("an ELF file that cannot be read: {error}");
    let header = elf::FileHeader64::<Endianness>::parse(file).map_err(wrong)?;
    let endian = header.endian().map_err(wrong)?;
    let sections = header.sections(endian, file).map_err(wrong)?;
    let mut found = Vec::new();
    for section in sections.iter() {
        if sections.section_name(endian, section).is_ok_and(|name| SECTIONS.contains(&name)) {
            let data = section.data(endian, file).map_err(wrong)?;
            let mut at = 0;
            while let Some(rest) = data.get(at..).filter(|rest| rest.len() >= container::HEADER) {
                if !rest.starts_with(&CONTAINER.to_le_bytes()) {
                    at += ALIGNMENT;
                    continue;
                }
                let length = container::whole_length(rest)?;
                found.push(rest.get(..length).ok_or("a fat binary that ends too soon")?);
                at += length.next_multiple_of(ALIGNMENT);
            }
        }
    }
    Ok(found)
}

/// The most that one entry has: every architecture has the same kernels, but for those that are left out for some.
fn all_kernels(entries: &[Entry<'_>]) -> Result<usize, String> {
    let mut most = 0;
    for kind in [Kind::Ptx, Kind::Cubin] {
        // One of each kind is enough, and unpacking all would take minutes.
        if let Some(entry) = entries.iter().filter(|entry| entry.kind == kind).max_by_key(|entry| entry.capability) {
            let data = entry.data()?;
            most = most.max(match kind {
                Kind::Cubin => kernels_of_cubin(&data)?,
                _ => entries_of_text(&String::from_utf8_lossy(&data)),
            });
        }
    }
    Ok(most)
}

/// Kernels in a text of PTX.
fn entries_of_text(text: &str) -> usize {
    text.lines()
        .filter(|line| {
            line.trim_start().trim_start_matches(".visible ").trim_start_matches(".weak ").starts_with(".entry ")
        })
        .count()
}

fn kernels_of_cubin(file: &[u8]) -> Result<usize, String> {
    let wrong = |error: object::Error| format!("a cubin that cannot be read: {error}");
    let header = elf::FileHeader64::<Endianness>::parse(file).map_err(wrong)?;
    let endian = header.endian().map_err(wrong)?;
    let sections = header.sections(endian, file).map_err(wrong)?;
    let is_kernels = |section: &elf::SectionHeader64<Endianness>| {
        sections.section_name(endian, section).is_ok_and(|name| name.starts_with(OF_KERNEL.as_bytes()))
    };
    Ok(sections.iter().filter(|section| is_kernels(section)).count())
}

#[cfg(test)]
mod tests {
    use object::write::Object;
    use object::{Architecture, BinaryFormat, Endianness, SectionKind};

    use super::*;

    /// A fat binary of `shim/tests/images/variables.cu`, which has one kernel, for 8.0.
    const IMAGE: &[u8] = include_bytes!("../../shim/tests/images/default.fatbin");

    fn shared_library(section: &str, data: &[u8]) -> Vec<u8> {
        let mut file = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
        let id = file.add_section(Vec::new(), section.as_bytes().to_vec(), SectionKind::ReadOnlyData);
        file.append_section_data(id, data, 8);
        file.write().unwrap()
    }

    #[test]
    fn kernels_are_counted_for_each_device() {
        let mut two = IMAGE.to_vec();
        two.resize(two.len().next_multiple_of(8) + 16, 0);
        two.extend_from_slice(IMAGE);
        let library = survey(&shared_library(".nv_fatbin", &two), &[(7, 5), (8, 0), (12, 0)]).unwrap();
        assert_eq!(library.kernels, 2);
        assert_eq!(library.runs, BTreeMap::from([((7, 5), 0), ((8, 0), 2), ((12, 0), 2)]));
        assert_eq!((library.ptx, library.machine), (BTreeSet::from([80]), BTreeSet::from([80])));
    }

    #[test]
    fn other_files_have_none_and_torn_ones_are_errors() {
        let nothing = Library { runs: BTreeMap::from([((8, 0), 0)]), ..Library::default() };
        assert_eq!(survey(b"#!/bin/sh", &[(8, 0)]), Ok(nothing.clone()));
        assert_eq!(survey(&shared_library(".data", IMAGE), &[(8, 0)]), Ok(nothing));
        let torn = survey(&shared_library(".nv_fatbin", &IMAGE[..IMAGE.len() - 8]), &[(8, 0)]);
        assert!(torn.unwrap_err().contains("ends too soon"));
    }

    #[test]
    fn entries_are_counted_by_their_lines() {
        let text = ".visible .entry a(\n)\n.entry b()\n.weak .entry c(\n.func d\n// .entry e";
        assert_eq!(entries_of_text(text), 3);
    }
}
