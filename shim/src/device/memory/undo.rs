//! Memory changed by a capture, to be restored at its end. PyTorch's operators have to compute once to determine the shapes of
//! their results, from meaningful numbers (an out-of-range index is an error); the program must not see that.

use super::address;

#[derive(Debug)]
struct Piece {
    address: usize,
    bytes: usize,
    /// `None` for memory that the capture itself allocated.
    before: Option<Vec<u8>>,
}

/// Previous content of memory.
#[derive(Debug, Default)]
pub(crate) struct Undo {
    pieces: Vec<Piece>,
}

impl Undo {
    fn has(&self, address: usize, bytes: usize) -> bool {
        self.pieces.iter().any(|piece| piece.address <= address && address + bytes <= piece.address + piece.bytes)
    }

    /// Saves the current content, unless already saved.
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

    /// Records memory that the capture allocated: it is zeroed at the end, so that it also works as indices for another capture
    /// that reads it.
    pub(crate) fn fresh(&mut self, address: usize, bytes: usize) {
        if bytes > 0 && !self.has(address, bytes) {
            self.pieces.push(Piece { address, bytes, before: None });
        }
    }

    /// Restores everything, latest first. Memory that was freed in the meantime is left alone.
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
