//! The container that nvcc writes: a header, then entries of cubins and PTX, some compressed. Its layout is not documented; this
//! is the layout that CUDA 12 and 13 write (`fatbinary --dump`).

use std::borrow::Cow;

use ruzstd::decoding::FrameDecoder;

/// How a container begins.
pub const CONTAINER: u32 = 0xba55_ed50;
/// Bytes of its header.
pub const HEADER: usize = 16;
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
pub enum Kind {
    /// Text.
    Ptx,
    /// Machine code.
    Cubin,
    /// PTX that was linked here ([`linked`]): all such entries belong together.
    Linked,
    /// Something else, which is skipped.
    Other,
}

/// One piece of device code.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// What it is.
    pub kind: Kind,
    /// Compute capability times ten.
    pub capability: u32,
    flags: u64,
    unpacked: usize,
    payload: &'a [u8],
}

/// Bytes of a container, from its header.
///
/// # Errors
/// If it is none.
pub fn whole_length(header: &[u8]) -> Result<usize, String> {
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
///
/// # Errors
/// If it is torn.
pub fn entries(image: &[u8]) -> Result<Vec<Entry<'_>>, String> {
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
    ///
    /// # Errors
    /// If it does not unpack.
    pub fn data(&self) -> Result<Cow<'a, [u8]>, String> {
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
pub fn linked(texts: &[String]) -> Vec<u8> {
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
