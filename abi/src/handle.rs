//! Handles given to C: kind, generation and slot of a table, never a pointer, so a stale or invented one is recognized.

use std::sync::Arc;

use dataplane::lock::RwLock;

/// Objects of one kind behind handles. Handle values are never 0, 1 or 2, which CUDA's default streams use.
pub struct Handles<T> {
    kind: u8,
    slots: RwLock<Slots<T>>,
}

struct Slots<T> {
    entries: Vec<Slot<T>>,
    free: Vec<u32>,
}

struct Slot<T> {
    generation: u16,
    object: Option<Arc<T>>,
}

impl<T> Handles<T> {
    /// An empty table; `kind` distinguishes its handles from those of other tables.
    pub const fn new(kind: u8) -> Self {
        Self { kind, slots: RwLock::new(Slots { entries: Vec::new(), free: Vec::new() }) }
    }

    /// Keeps `object` and returns its handle.
    pub fn insert(&self, object: Arc<T>) -> usize {
        let mut slots = self.slots.write();
        let index = match slots.free.pop() {
            Some(index) => index,
            None => {
                slots.entries.push(Slot { generation: 0, object: None });
                (slots.entries.len() - 1) as u32
            }
        };
        let slot = &mut slots.entries[index as usize];
        slot.object = Some(object);
        self.encode(slot.generation, index)
    }

    /// The object behind `handle`, if it is alive.
    pub fn get(&self, handle: usize) -> Option<Arc<T>> {
        let (generation, index) = self.decode(handle)?;
        let slots = self.slots.read();
        let slot = slots.entries.get(index as usize)?;
        if slot.generation == generation { slot.object.clone() } else { None }
    }

    /// Some live object that `wanted` accepts.
    pub fn find(&self, wanted: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        let slots = self.slots.read();
        slots.entries.iter().filter_map(|slot| slot.object.as_ref()).find(|object| wanted(object)).cloned()
    }

    /// All living objects.
    pub fn all(&self) -> Vec<Arc<T>> {
        self.slots.read().entries.iter().filter_map(|slot| slot.object.clone()).collect()
    }

    /// Takes out all objects that `unwanted` accepts.
    pub fn remove_all(&self, unwanted: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        let mut slots = self.slots.write();
        let Slots { entries, free } = &mut *slots;
        let mut removed = Vec::new();
        for (index, slot) in entries.iter_mut().enumerate() {
            if let Some(object) = slot.object.take_if(|object| unwanted(object)) {
                slot.generation = slot.generation.wrapping_add(1);
                free.push(index as u32);
                removed.push(object);
            }
        }
        removed
    }

    /// Takes the object out; the handle is invalid from now on.
    pub fn remove(&self, handle: usize) -> Option<Arc<T>> {
        let (generation, index) = self.decode(handle)?;
        let mut slots = self.slots.write();
        let slot = slots.entries.get_mut(index as usize)?;
        if slot.generation != generation {
            return None;
        }
        let object = slot.object.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        slots.free.push(index);
        Some(object)
    }

    // Of kinds below 16, bits 63..48 are 0 as in a user-space address. Kind, 16 bits of generation, 24 of slot; shifted so
    // that handles look aligned, for programs that keep flags in the low bits.
    fn encode(&self, generation: u16, index: u32) -> usize {
        ((self.kind as usize) << 44) | ((generation as usize) << 28) | ((index as usize) << 4)
    }

    fn decode(&self, handle: usize) -> Option<(u16, u32)> {
        let index = ((handle >> 4) & 0xff_ffff) as u32;
        let generation = ((handle >> 28) & 0xffff) as u16;
        (self.encode(generation, index) == handle && self.kind != 0).then_some((generation, index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_foreign_or_invented_handle_finds_nothing() {
        let numbers = Handles::new(3);
        let words: Handles<&str> = Handles::new(4);
        let one = numbers.insert(Arc::new(1));
        assert_eq!(numbers.get(one).as_deref(), Some(&1));
        assert!(words.get(one).is_none());
        assert_eq!(numbers.remove(one).as_deref(), Some(&1));
        assert!(numbers.get(one).is_none() && numbers.remove(one).is_none());
        let two = numbers.insert(Arc::new(2));
        assert_ne!(one, two, "the slot is reused under a new generation");
        assert_eq!(numbers.get(two).as_deref(), Some(&2));
        assert_eq!(numbers.find(|number| *number > 1).as_deref(), Some(&2));
        assert_eq!(numbers.remove_all(|number| *number > 1).len(), 1);
        assert!(numbers.get(two).is_none() && numbers.find(|_| true).is_none());
        for invented in [0, 1, 2, 3, usize::MAX, 0xdead_beef] {
            assert!(numbers.get(invented).is_none());
        }
    }
}
