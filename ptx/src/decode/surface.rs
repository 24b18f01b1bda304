//! Surfaces: `suld.b`, `sust.b`, `sust.p` and `sured` of one to three dimensions and of layers, which name their surface by an object.

use super::*;
use crate::runtime::helper::{CUBE, OUTSIDE, SurfaceMode};

use Scalar::*;

impl<'a> Decoder<'a> {
    /// The dimensions of a surface, with its layers.
    fn surface_geometry(&mut self, m: &mut Modifiers<'a>) -> Check<u64> {
        let geometry = self.geometry(m)?;
        if geometry & CUBE != 0 {
            return invalid("faces of cubes are layers of a surface");
        }
        Ok(geometry)
    }

    fn elements(&mut self, m: &mut Modifiers<'a>) -> u64 {
        match m.take_any(&["v2", "v4"]) {
            Some("v2") => 2,
            Some(_) => 4,
            None => 1,
        }
    }

    fn outside(&mut self, m: &mut Modifiers<'a>) -> Check<u64> {
        let outside = m.one_of(&OUTSIDE)?;
        Ok(OUTSIDE.iter().position(|name| *name == outside).unwrap_or(0) as u64)
    }

    /// What `suld.b` and `sust.b` have in common: the mode, and the type of the registers.
    fn unformatted(&mut self, m: &mut Modifiers<'a>) -> Check<(SurfaceMode, Scalar)> {
        let geometry = self.surface_geometry(m)?;
        m.take_any(&["ca", "cg", "cs", "cv", "wb", "wt"]);
        let count = self.elements(m);
        let scalar = m.scalar()?;
        let element = u64::from(scalar.bytes());
        if !matches!(scalar, B8 | B16 | B32 | B64) || element * count > 16 {
            return invalid(format!("{count} elements of .{}", scalar.name()));
        }
        let outside = self.outside(m)?;
        // Bytes are in registers of 16 bits.
        let register = if scalar == B8 { B16 } else { scalar };
        Ok((SurfaceMode { geometry, element, count, outside, ..SurfaceMode::default() }, register))
    }

    fn values(operand: &'a Operand, count: u64) -> Check<&'a [Operand]> {
        let list = match operand {
            Operand::Vector(list) => &list[..],
            one => std::slice::from_ref(one),
        };
        if list.len() as u64 != count {
            return invalid(format!("{count} elements are expected"));
        }
        Ok(list)
    }

    pub(super) fn load_surface(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        if m.take("p") {
            return unsupported("surface loads that convert");
        }
        m.one_of(&["b"])?;
        let (mode, register) = self.unformatted(m)?;
        let [d, place] = operands::<2>(ops)?;
        let list = Self::values(d, mode.count)?;
        let src = self.place(place, mode.geometry, S32)?;
        let dst = list.iter().map(|d| self.dst(d, register)).collect::<Check<Vec<_>>>()?;
        let all = self.emit(Op::System(Helper::AccessSurface, mode.encode()), B128, src);
        self.push(Op::Unpack, dst, vec![all, Val::Imm(u64::from(register.bits())), Val::Imm(128)]);
        Ok(())
    }

    pub(super) fn store_surface(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let (mode, register) = if m.take("p") {
            let geometry = self.surface_geometry(m)?;
            if geometry & 3 != geometry {
                return unsupported("converting stores into layers");
            }
            let count = self.elements(m);
            if m.scalar()? != B32 {
                return invalid("a converting store is of .b32");
            }
            let outside = self.outside(m)?;
            (SurfaceMode { geometry, element: 4, count, outside, by_texels: true, ..SurfaceMode::default() }, B32)
        } else {
            m.one_of(&["b"])?;
            self.unformatted(m)?
        };
        let [place, values] = operands::<2>(ops)?;
        let mut src = self.place(place, mode.geometry, S32)?;
        for value in Self::values(values, mode.count)? {
            src.push(self.src_wide(value, register)?);
        }
        self.push(Op::System(Helper::AccessSurface, SurfaceMode { stores: true, ..mode }.encode()), vec![], src);
        Ok(())
    }

    pub(super) fn reduce_surface(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let by_texels = m.one_of(&["b", "p"])? == "p";
        // The numbers are those of atomics.
        let (name, op) = match m.one_of(&["add", "min", "max", "and", "or"])? {
            name @ "add" => (name, 0),
            name @ "min" => (name, 1),
            name @ "max" => (name, 2),
            name @ "and" => (name, 5),
            name => (name, 6),
        };
        let geometry = self.surface_geometry(m)?;
        let scalar = m.scalar()?;
        let legal = match name {
            _ if by_texels => scalar == B32 || (scalar == B64 && matches!(name, "min" | "max")),
            "add" => matches!(scalar, U32 | U64 | S32),
            "min" | "max" => matches!(scalar, U32 | S32 | U64 | S64),
            _ => scalar == B32,
        };
        if !legal || geometry & 3 != geometry {
            return invalid(format!("{name} of .{} on a surface of these dimensions", scalar.name()));
        }
        if by_texels && scalar == B64 {
            // CUDA does not have texels that are one 64-bit number.
            return unsupported("a reduction of texels of 64 bits");
        }
        let outside = self.outside(m)?;
        let [place, value] = operands::<2>(ops)?;
        let mut src = self.place(place, geometry, S32)?;
        src.push(self.src(value, scalar)?);
        let (element, scalar) = (u64::from(scalar.bytes()), scalar as u64);
        let mode = SurfaceMode { geometry, element, count: 1, outside, by_texels, stores: true, op, scalar };
        self.push(Op::System(Helper::ReduceSurface, mode.encode()), vec![], src);
        Ok(())
    }
}
