//! Variables in a cubin: an ELF file whose symbols are in `.nv.global.init`, `.nv.constant3` or the empty `.nv.global`.

use object::elf;
use object::endian::Endianness;
use object::read::elf::{FileHeader as _, Rel as _, SectionHeader as _, Sym as _};

use super::Initial;

/// `R_CUDA_64` and `R_CUDA_G64`: the address of a symbol, possibly as a generic address, which is the same here, plus the
/// value already there.
const ADDRESSES: [u32; 2] = [2, 4];

/// The initial value of the variable `name`.
pub(super) fn initial(file: &[u8], name: &str) -> Result<Initial, String> {
    read(file, name)
        .map_err(|error| format!("a cubin that cannot be read: {error}"))?
        .ok_or_else(|| format!("no variable {name}"))
}

fn read(file: &[u8], name: &str) -> object::read::Result<Option<Initial>> {
    let header = elf::FileHeader64::<Endianness>::parse(file)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, file)?;
    let symbols = sections.symbols(endian, file, elf::SHT_SYMTAB)?;
    let Some((index, symbol)) = symbols.enumerate().find(|(_, symbol)| {
        symbol.st_type() == elf::STT_OBJECT
            && symbol.name(endian, symbols.strings()).is_ok_and(|known| known == name.as_bytes())
    }) else {
        return Ok(None);
    };
    let Some(section_index) = symbols.symbol_section(endian, symbol, index)? else { return Ok(None) };
    let section = sections.section(section_index)?;
    if section.sh_type(endian) == elf::SHT_NOBITS {
        return Ok(Some(Initial::default()));
    }
    let (start, size) = (symbol.st_value(endian) as usize, symbol.st_size(endian) as usize);
    let data = section.data(endian, file)?;
    let Some(bytes) = start.checked_add(size).and_then(|end| data.get(start..end)) else { return Ok(None) };
    let mut initial = Initial { bytes: bytes.to_vec(), addresses: Vec::new() };

    for table in sections.iter().filter(|table| table.sh_info(endian) as usize == section_index.0) {
        let mut add = |offset: u64, symbol: u32, kind: u32, addend: Option<u64>| -> object::read::Result<()> {
            let Some(within) = (offset as usize).checked_sub(start).filter(|within| *within < size) else {
                return Ok(());
            };
            let target = symbols.symbol(object::SymbolIndex(symbol as usize))?;
            let target = String::from_utf8_lossy(target.name(endian, symbols.strings())?).into_owned();
            let stored = initial.bytes.get(within..within + 8).filter(|_| ADDRESSES.contains(&kind));
            let Some(stored) = stored else {
                // Named as it is in the file, so that one can see what is not known.
                initial.addresses.push((within, format!("{target} (relocation {kind})"), 0));
                return Ok(());
            };
            let stored = u64::from_le_bytes(stored.try_into().expect("eight bytes"));
            initial.addresses.push((within, target, addend.unwrap_or(stored)));
            Ok(())
        };
        if let Some((entries, _)) = table.rel(endian, file)? {
            for entry in entries {
                let kind = entry.r_type(endian);
                add(entry.r_offset(endian), entry.r_sym(endian), kind.0, None)?;
            }
        }
        if let Some((entries, _)) = table.rela(endian, file)? {
            for entry in entries {
                add(
                    entry.r_offset.get(endian),
                    entry.r_sym(endian, false),
                    entry.r_type(endian, false).0,
                    Some(entry.r_addend.get(endian) as u64),
                )?;
            }
        }
    }
    Ok(Some(initial))
}
