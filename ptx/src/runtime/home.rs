//! Values of a warp's lanes: where a register's home is, and how to read and write it.

use crate::runtime::state::Warp;

pub(crate) fn lowest(mask: u32) -> Option<u32> {
    (mask != 0).then(|| mask.trailing_zeros())
}

pub(crate) fn lanes(mask: u32) -> impl Iterator<Item = u32> {
    let mut mask = mask;
    std::iter::from_fn(move || {
        let lane = lowest(mask)?;
        mask &= mask - 1;
        Some(lane)
    })
}

/// Where the lanes of a register are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) offset: u32,
    /// Logarithm of the bytes of a lane.
    pub(crate) shift: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    Imm(u64),
    Slot(Slot),
}

impl Slot {
    fn place(self, warp: &Warp, lane: u32) -> *mut u8 {
        // SAFETY: homes are within the warp's slots, 32 lanes of `1 << shift` bytes from `offset`.
        unsafe { warp.slots.add(self.offset as usize + ((lane as usize) << self.shift)) }
    }

    pub(crate) fn read(self, warp: &Warp, lane: u32) -> u64 {
        let place = self.place(warp, lane);
        // SAFETY: a home of this size is there, aligned to it, and only this worker uses it.
        unsafe {
            match self.shift {
                0 => u64::from(*place),
                1 => u64::from(*place.cast::<u16>()),
                2 => u64::from(*place.cast::<u32>()),
                _ => *place.cast::<u64>(),
            }
        }
    }

    pub(crate) fn write(self, warp: &Warp, lane: u32, value: u64) {
        let place = self.place(warp, lane);
        // SAFETY: as in `read`.
        unsafe {
            match self.shift {
                0 => *place = value as u8,
                1 => *place.cast::<u16>() = value as u16,
                2 => *place.cast::<u32>() = value as u32,
                3 => *place.cast::<u64>() = value,
                _ => *place.cast::<u128>() = u128::from(value),
            }
        }
    }
}

impl Slot {
    /// The words of all lanes, if they have words.
    pub(crate) fn words(self, warp: &Warp) -> Option<[u32; 32]> {
        // SAFETY: a home of 32 words is there, aligned to them, and only this worker uses it.
        (self.shift == 2).then(|| unsafe { self.place(warp, 0).cast::<[u32; 32]>().read() })
    }

    /// Gives each lane the word of the lane in `from`. Written where they belong, one by one: the detour over an array costs a call
    /// for each lane (`array::map`), or a vector load of words that were just stored.
    pub(crate) fn set_words(self, warp: &Warp, words: &[u32; 32], from: &[u8; 32]) {
        let word = |from: u8| words[from as usize & 31];
        if self.shift == 2 {
            // SAFETY: as in `words`.
            let places = unsafe { &mut *self.place(warp, 0).cast::<[u32; 32]>() };
            places.iter_mut().zip(from).for_each(|(place, from)| *place = word(*from));
        } else {
            from.iter().zip(0..).for_each(|(from, lane)| self.write(warp, lane, u64::from(word(*from))));
        }
    }

    pub(crate) fn set_bytes(self, warp: &Warp, bytes: &[u8; 32]) {
        bytes.iter().zip(0..).for_each(|(byte, lane)| self.write(warp, lane, u64::from(*byte)));
    }
}

impl Source {
    pub(crate) fn read(self, warp: &Warp, lane: u32) -> u64 {
        match self {
            Self::Imm(value) => value,
            Self::Slot(slot) => slot.read(warp, lane),
        }
    }
}
