//! Textures and surfaces: `tex`, `tld4`, `suld.b` and `sust.b` in one to three dimensions, for layers and cubes, through
//! objects.

use super::*;
use crate::helper::{CUBE, GATHER, INTEGERS, LAYERS, OUTSIDE};

use Scalar::*;

impl<'a> Decoder<'a> {
    pub(super) fn image(&mut self, base: &str, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<bool> {
        match base {
            "tex" => self.texture(m, ops)?,
            "tld4" => self.gather(m, ops)?,
            "suld" => self.surface(false, m, ops)?,
            "sust" => self.surface(true, m, ops)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The dimensions of an image, with what it has of layers and cubes, as helpers want them.
    fn geometry(&mut self, m: &mut Modifiers<'a>) -> Check<u64> {
        match m.take_any(&["1d", "2d", "3d", "a1d", "a2d", "cube", "acube"]) {
            Some("1d") => Ok(1),
            Some("2d") => Ok(2),
            Some("3d") => Ok(3),
            Some("a1d") => Ok(1 | LAYERS),
            Some("a2d") => Ok(2 | LAYERS),
            Some("cube") => Ok(2 | CUBE),
            Some(_) => Ok(2 | CUBE | LAYERS),
            None => unsupported("images of several samples"),
        }
    }

    /// The object, three coordinates and the layer of `[object, {layer, x, y}]`.
    fn place(&mut self, operand: &'a Operand, geometry: u64, scalar: Scalar) -> Check<Vec<Val>> {
        let Operand::Address { base, coordinates, .. } = operand else {
            return invalid("[object, {x, ...}] is expected");
        };
        let given = match &coordinates[..] {
            [Operand::Vector(list)] => &list[..],
            [one] if geometry == 1 => std::slice::from_ref(one),
            [_, _] => return unsupported("a sampler apart from its texture"),
            _ => return invalid("the coordinates must be in braces"),
        };
        let layers = usize::from(geometry & LAYERS != 0);
        // Cubes are looked at in a direction.
        let count = if geometry & CUBE != 0 { 3 } else { (geometry & 3) as usize };
        // The fourth of three means nothing.
        let wanted = (count + layers).next_power_of_two();
        if given.len() != wanted {
            return invalid(format!("{wanted} coordinates are expected"));
        }
        let object = match &**base {
            Operand::Name(name) => match self.lookup(*name)? {
                Symbol::Reg(_) => self.src(base, B64)?,
                _ => return unsupported("textures and surfaces that are variables"),
            },
            other => self.src(other, B64)?,
        };
        let mut all = vec![object];
        for coordinate in &given[layers..layers + count] {
            all.push(self.src(coordinate, scalar)?);
        }
        all.resize(4, Val::Imm(0));
        all.push(if layers > 0 { self.src(&given[0], U32)? } else { Val::Imm(0) });
        Ok(all)
    }

    fn texture(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        if m.list.iter().any(|word| matches!(*word, "level" | "grad" | "base")) {
            return unsupported("a level of a texture");
        }
        let geometry = self.geometry(m)?;
        self.fetch(geometry, m, ops)
    }

    /// Four texels of which each gives the same component.
    fn gather(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let names = ["r", "g", "b", "a"];
        let component = m.one_of(&names)?;
        let component = names.iter().position(|name| *name == component).unwrap_or(0) as u64;
        let geometry = self.geometry(m)?;
        if geometry & 3 != 2 {
            return invalid("texels are gathered in two dimensions");
        }
        if geometry & CUBE != 0 {
            return unsupported("texels gathered from a cube");
        }
        if m.list.last() != Some(&"f32") {
            return invalid("coordinates of a gather are of .f32");
        }
        self.fetch(geometry | GATHER | component << 8, m, ops)
    }

    fn fetch(&mut self, geometry: u64, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        if !m.take("v4") {
            return unsupported("a fetch of other than four elements");
        }
        let (result, coordinate) = (m.scalar()?, m.scalar()?);
        if result == F16 {
            return unsupported("a fetch of .f16");
        }
        let by_integers = coordinate == S32;
        if !matches!(result, U32 | S32 | F32)
            || !(by_integers || coordinate == F32)
            || (by_integers && geometry & CUBE != 0)
        {
            return invalid(format!("a fetch of .{} by .{}", result.name(), coordinate.name()));
        }
        let [d, place, rest @ ..] = ops else { return invalid("the operands of a fetch") };
        if !rest.is_empty() || matches!(d, Operand::Pair(..)) {
            return unsupported("a fetch with an offset, or one that says whether the texel is resident");
        }
        let Operand::Vector(list) = d else { return invalid("4 destinations are expected") };
        if list.len() != 4 {
            return invalid("4 destinations are expected");
        }
        let dst = list.iter().map(|d| self.dst(d, result)).collect::<Check<Vec<_>>>()?;
        let src = self.place(place, geometry, coordinate)?;
        let mode = if by_integers { geometry | INTEGERS } else { geometry };
        let all = self.emit(Op::System(Helper::FetchTexel, mode), B128, src);
        self.push(Op::Unpack, dst, vec![all, Val::Imm(32), Val::Imm(128)]);
        Ok(())
    }

    fn surface(&mut self, stores: bool, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        if m.take("p") {
            return unsupported("surface accesses that convert");
        }
        m.one_of(&["b"])?;
        let geometry = self.geometry(m)?;
        if geometry & CUBE != 0 {
            return invalid("faces of cubes are layers of a surface");
        }
        m.take_any(&["ca", "cg", "cs", "cv", "wb", "wt"]);
        let count: usize = match m.take_any(&["v2", "v4"]) {
            Some("v2") => 2,
            Some(_) => 4,
            None => 1,
        };
        let scalar = m.scalar()?;
        if !matches!(scalar, B8 | B16 | B32 | B64) || scalar.bytes() as usize * count > 16 {
            return invalid(format!("{count} elements of .{}", scalar.name()));
        }
        let outside = m.one_of(&OUTSIDE)?;
        let outside = OUTSIDE.iter().position(|name| *name == outside).unwrap_or(0) as u64;
        let [first, second] = operands::<2>(ops)?;
        let (place, values) = if stores { (first, second) } else { (second, first) };
        let list = match values {
            Operand::Vector(list) => &list[..],
            one => std::slice::from_ref(one),
        };
        if list.len() != count {
            return invalid(format!("{count} elements are expected"));
        }
        let mut src = self.place(place, geometry, S32)?;
        let mode = geometry
            | u64::from(scalar.bytes().trailing_zeros()) << 4
            | (count as u64) << 8
            | outside << 12
            | u64::from(stores) << 16;
        // Bytes are in registers of 16 bits.
        let register = if scalar == B8 { B16 } else { scalar };
        if stores {
            for value in list {
                src.push(self.src_wide(value, register)?);
            }
            self.push(Op::System(Helper::AccessSurface, mode), vec![], src);
            return Ok(());
        }
        let dst = list.iter().map(|d| self.dst(d, register)).collect::<Check<Vec<_>>>()?;
        let all = self.emit(Op::System(Helper::AccessSurface, mode), B128, src);
        self.push(Op::Unpack, dst, vec![all, Val::Imm(u64::from(register.bits())), Val::Imm(128)]);
        Ok(())
    }
}
