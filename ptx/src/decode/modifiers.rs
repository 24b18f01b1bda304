//! The modifiers of an opcode: each must be consumed by its instruction.

use super::*;

/// The modifiers of an opcode; each must be consumed.
pub(super) struct Modifiers<'a> {
    pub(super) list: Vec<&'a str>,
}

impl<'a> Modifiers<'a> {
    /// Takes a modifier if it is there.
    pub(super) fn take(&mut self, name: &str) -> bool {
        match self.list.iter().position(|m| *m == name) {
            Some(at) => {
                self.list.remove(at);
                true
            }
            None => false,
        }
    }

    pub(super) fn take_any(&mut self, names: &[&'static str]) -> Option<&'static str> {
        names.iter().find(|name| self.take(name)).copied()
    }

    pub(super) fn one_of(&mut self, names: &[&'static str]) -> Check<&'static str> {
        match self.take_any(names) {
            Some(name) => Ok(name),
            None => invalid(format!("one of .{} is missing", names.join(", ."))),
        }
    }

    /// Takes the first modifier that is a type.
    pub(super) fn scalar(&mut self) -> Check<Scalar> {
        match self.scalar_if_any() {
            Some(scalar) => Ok(scalar),
            None => invalid("the type is missing"),
        }
    }

    pub(super) fn scalar_if_any(&mut self) -> Option<Scalar> {
        let at = self.list.iter().position(|m| Scalar::named(m).is_some())?;
        Scalar::named(self.list.remove(at))
    }

    /// Modifiers that say how memory is cached and prefetched; they have no effect here.
    pub(super) fn hints(&mut self) -> bool {
        self.list.retain(|m| {
            !(m.starts_with("L1::") || matches!(*m, "L2::64B" | "L2::128B" | "L2::256B") || m.starts_with("L2::evict"))
        });
        self.take("L2::cache_hint")
    }

    pub(super) fn finish(&self) -> Check<()> {
        match self.list.first() {
            None => Ok(()),
            Some(first) => unsupported(format!("the modifier .{first} with these operands")),
        }
    }
}
