//! What a capture changed of memory, to be put back at its end. PyTorch's operators have to compute once to show the shapes of
//! their results, from numbers that make sense (an index that is out of range is an error); the program must not see it.

use crate::device::address;

#[derive(Debug)]
struct Piece {
    address: usize,
    bytes: usize,
    /// None for memory that the capture itself allocated.
    before: Option<Vec<u8>>,
}

/// What memory was before.
#[derive(Debug, Default)]
pub(crate) struct Undo {
    pieces: Vec<Piece>,
}

impl Undo {
    fn has(&self, address: usize, bytes: usize) -> bool {
        self.pieces.iter().any(|piece| piece.address <= address && address + bytes <= piece.address + piece.bytes)
    }

    /// Keeps what is there, unless that is known.
    ///
    /// # Safety
    /// The bytes are readable.
    pub(crate) unsafe fn keep(&mut self, address: usize, bytes: usize) {
        if bytes == 0 || self.has(address, bytes) {
            return;
        }
        // SAFETY: by the caller.
        let before = unsafe { std::slice::from_raw_parts(address as *const u8, bytes) }.to_vec();
        self.pieces.push(Piece { address, bytes, before: Some(before) });
    }

    /// Memory that the capture allocated: zeros at its end, which are also good as indices for another capture that reads them.
    pub(crate) fn fresh(&mut self, address: usize, bytes: usize) {
        if bytes > 0 && !self.has(address, bytes) {
            self.pieces.push(Piece { address, bytes, before: None });
        }
    }

    /// Puts everything back, the latest first. Memory that was freed meanwhile is left alone.
    pub(crate) fn restore(&mut self) {
        while let Some(Piece { address, bytes, before }) = self.pieces.pop() {
            if address::locate(address).is_none_or(|location| location.bytes_left < bytes) {
                continue;
            }
            // SAFETY: live device memory of that length; a capture's work is the program's only work on it.
            let target = unsafe { std::slice::from_raw_parts_mut(address as *mut u8, bytes) };
            match before {
                Some(before) => target.copy_from_slice(&before),
                None => target.fill(0),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::memory;

    #[test]
    fn memory_is_as_it_was() {
        let device = crate::device::get(5).unwrap();
        let address = memory::allocate(device, 64, memory::Kind::Plain).unwrap();
        // SAFETY: live memory of 64 bytes that this test alone uses.
        let bytes = unsafe { std::slice::from_raw_parts_mut(address as *mut u8, 64) };
        bytes.fill(1);
        let mut undo = Undo::default();
        undo.fresh(address + 32, 32);
        // SAFETY: as above.
        unsafe { undo.keep(address, 16) };
        bytes.fill(2);
        // SAFETY: as above. Parts of it are known; what is kept now is older than what is put back later.
        unsafe { undo.keep(address, 32) };
        bytes.fill(3);
        undo.restore();
        assert_eq!(bytes[..16], [1; 16]);
        assert_eq!(bytes[16..32], [2; 16]);
        assert_eq!(bytes[32..], [0; 32]);
        memory::free(address).unwrap();
    }
}
