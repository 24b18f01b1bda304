//! The container that nvcc writes: a header, then entries of cubins and PTX, some compressed. Its layout is not documented; this
//! is the layout that CUDA 12 and 13 write (`fatbinary --dump`, and fatbinary_section.h for the wrapper).

use std::borrow::Cow;

use ruzstd::decoding::FrameDecoder;

pub(super) const WRAPPER: u32 = 0x4662_43b1;
/// Version of the wrapper around the device linker's output.
const LINKED_VERSION: u32 = 2;
pub(super) const CONTAINER: u32 = 0xba55_ed50;
const HEADER: usize = 16;
/// Bytes of an entry's header that are read.
const ENTRY: usize = 64;
const LZ4: u64 = 0x2000;
const ZSTD: u64 = 0x8000;
/// Our own kind of entry, which nvcc does not write.
const LINKED: usize = 0xf7e5;
/// Maximum unpacked size: no device code of one translation unit is larger.
const MOST: usize = 1 << 30;

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Ptx,
    Cubin,
    /// PTX that was linked here ([`linked`]): all such entries belong together.
    Linked,
    /// Something else, which is skipped.
    Other,
}

/// One piece of device code.
#[derive(Clone, Debug)]
pub(super) struct Entry<'a> {
    pub(super) kind: Kind,
    /// Compute capability times ten.
    pub(super) capability: u32,
    flags: u64,
    unpacked: usize,
    payload: &'a [u8],
}

/// The containers behind a wrapper: that of a translation unit; or the device linker's output, followed by those of the
/// translation units that it linked (`-rdc=true`; version 2, crt/link.stub).
///
/// # Safety
/// As [`super::initial`].
pub(super) unsafe fn of_wrapper(wrapper: usize) -> Result<Vec<&'static [u8]>, String> {
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Wrapper {
        magic: u32,
        version: u32,
        data: *const u8,
        more: *const *const u8,
    }
    if wrapper == 0 {
        return Err("no device code".to_owned());
    }
    // SAFETY: the caller's promise.
    let wrapper = unsafe { (wrapper as *const Wrapper).read_unaligned() };
    if wrapper.magic != WRAPPER || wrapper.data.is_null() {
        return Err("an unknown kind of fat binary".to_owned());
    }
    // SAFETY: the compiler puts a container there.
    let mut containers = vec![unsafe { of_container(wrapper.data) }?];
    if wrapper.version == LINKED_VERSION && !wrapper.more.is_null() {
        // SAFETY: of this version, a list that ends with null, of containers that are registered before.
        unsafe {
            let mut next = wrapper.more;
            while !(*next).is_null() {
                containers.push(of_container(*next)?);
                next = next.add(1);
            }
        }
    }
    Ok(containers)
}

/// A container in memory.
///
/// # Safety
/// `data` points to one that outlives every use of the result.
pub(super) unsafe fn of_container(data: *const u8) -> Result<&'static [u8], String> {
    // SAFETY: the caller's promise; a container begins with its own size.
    let header = unsafe { std::slice::from_raw_parts(data, HEADER) };
    let length = whole_length(header)?;
    // SAFETY: as above.
    Ok(unsafe { std::slice::from_raw_parts(data, length) })
}

fn whole_length(header: &[u8]) -> Result<usize, String> {
    let unknown = || "an unknown kind of fat binary".to_owned();
    let (magic, start, length) = (number(header, 0, 4), number(header, 6, 2), number(header, 8, 8));
    if magic != Some(u64::from(CONTAINER)) {
        return Err(unknown());
    }
    let (start, length) = start.zip(length).ok_or_else(unknown)?;
    start
        .checked_add(length)
        .and_then(|whole| usize::try_from(whole).ok())
        .filter(|whole| *whole <= MOST)
        .ok_or_else(unknown)
}

/// The entries of the container.
pub(super) fn entries(image: &[u8]) -> Result<Vec<Entry<'_>>, String> {
    let torn = || "a fat binary that ends too soon".to_owned();
    let whole = image.get(..whole_length(image)?).ok_or_else(torn)?;
    let mut entries = Vec::new();
    let mut at = number(whole, 6, 2).ok_or_else(torn)? as usize;
    while at < whole.len() {
        let rest = &whole[at..];
        let header = rest.get(..ENTRY).ok_or_else(torn)?;
        let field = |start, size| number(header, start, size).map(|value| value as usize).ok_or_else(torn);
        let (length, padded, packed) = (field(4, 4)?, field(8, 8)?, field(16, 4)?);
        let stored =
            rest.get(length..).and_then(|rest| rest.get(..padded)).filter(|_| length >= ENTRY).ok_or_else(torn)?;
        let payload = if packed == 0 { stored } else { stored.get(..packed).ok_or_else(torn)? };
        let kind = match field(0, 2)? {
            1 => Kind::Ptx,
            2 => Kind::Cubin,
            LINKED => Kind::Linked,
            _ => Kind::Other,
        };
        let (capability, flags) = (field(28, 4)? as u32, number(header, 40, 8).ok_or_else(torn)?);
        entries.push(Entry { kind, capability, flags, unpacked: field(56, 8)?, payload });
        at += length + padded;
    }
    Ok(entries)
}

impl<'a> Entry<'a> {
    /// The cubin or the PTX.
    pub(super) fn data(&self) -> Result<Cow<'a, [u8]>, String> {
        let is_packed = self.flags & (LZ4 | ZSTD) != 0;
        if is_packed && self.unpacked > MOST {
            return Err("device code that is too large".to_owned());
        }
        if self.flags & ZSTD != 0 {
            return unpack_zstd(self.payload, self.unpacked).map(Cow::Owned);
        }
        if self.flags & LZ4 != 0 {
            let data = lz4_flex::block::decompress(self.payload, self.unpacked);
            return data.map(Cow::Owned).map_err(|error| format!("device code that does not unpack: {error}"));
        }
        Ok(Cow::Borrowed(self.payload))
    }
}

/// What a frame of Zstandard holds, at most `most` bytes.
fn unpack_zstd(payload: &[u8], most: usize) -> Result<Vec<u8>, String> {
    let (mut decoder, mut data) = (FrameDecoder::new(), Vec::with_capacity(most));
    let unpacked = decoder.decode_all_to_vec(payload, &mut data);
    unpacked.map_err(|error| format!("device code that does not unpack: {error}"))?;
    let stated = decoder.get_checksum_from_data();
    if stated.is_some() && stated != decoder.get_calculated_checksum() {
        return Err("device code that does not unpack: its checksum is another".to_owned());
    }
    Ok(data)
}

/// A container with these texts, as the result of `cuLinkComplete`.
pub(crate) fn linked(texts: &[String]) -> Vec<u8> {
    let mut entries = Vec::new();
    for text in texts {
        let padded = text.len().next_multiple_of(8).max(8);
        let mut header = [0; ENTRY];
        header[..2].copy_from_slice(&(LINKED as u16).to_le_bytes());
        header[4..8].copy_from_slice(&(ENTRY as u32).to_le_bytes());
        header[8..16].copy_from_slice(&(padded as u64).to_le_bytes());
        entries.extend_from_slice(&header);
        entries.extend_from_slice(text.as_bytes());
        entries.resize(entries.len() + padded - text.len(), 0);
    }
    let mut whole = CONTAINER.to_le_bytes().to_vec();
    whole.extend_from_slice(&[1, 0, HEADER as u8, 0]);
    whole.extend_from_slice(&(entries.len() as u64).to_le_bytes());
    whole.extend_from_slice(&entries);
    whole
}

fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let mut whole = [0; 8];
    whole[..size].copy_from_slice(bytes.get(at..at + size)?);
    Some(u64::from_le_bytes(whole))
}
