//! Textures: `tex` and `tld4` in one to three dimensions, for layers and cubes; `txq` and `suq`. All of them name their image by an
//! object.

use super::*;
use crate::runtime::helper::{CUBE, DETAIL, GATHER, GRADIENTS, INTEGERS, LAYERS, OF_SURFACE, QUERIES};

use Scalar::*;

impl<'a> Decoder<'a> {
    /// The dimensions of an image and whether it has layers or is a cube, in the form that helpers expect.
    pub(super) fn geometry(&mut self, m: &mut Modifiers<'a>) -> Check<u64> {
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
    pub(super) fn place(&mut self, operand: &'a Operand, geometry: u64, scalar: Scalar) -> Check<Vec<Val>> {
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
        // Cubes are addressed by a direction.
        let count = if geometry & CUBE != 0 { 3 } else { (geometry & 3) as usize };
        // Vectors have one, two or four elements: where there are three coordinates, the fourth element means nothing.
        let wanted = (count + layers).next_power_of_two();
        if given.len() != wanted {
            return invalid(format!("{wanted} coordinates are expected"));
        }
        let mut all = vec![self.object(base)?];
        for coordinate in &given[layers..layers + count] {
            all.push(self.src(coordinate, scalar)?);
        }
        all.resize(4, Val::Imm(0));
        all.push(if layers > 0 { self.src(&given[0], U32)? } else { Val::Imm(0) });
        Ok(all)
    }

    /// A texture or surface object, in a register.
    fn object(&mut self, operand: &'a Operand) -> Check<Val> {
        match operand {
            Operand::Name(name) if !matches!(self.lookup(*name)?, Symbol::Reg(_)) => {
                unsupported("textures and surfaces that are variables")
            }
            other => self.src(other, B64),
        }
    }

    pub(super) fn query(&mut self, is_surface: bool, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let has_level = !is_surface && m.take("level");
        let known = match (is_surface, has_level) {
            (true, _) => &QUERIES[..5],
            (false, true) => &QUERIES[..3],
            (false, false) => &[QUERIES[0], QUERIES[1], QUERIES[2], QUERIES[3], QUERIES[5], QUERIES[6]],
        };
        let what = match m.take_any(known) {
            None => return unsupported("a query whose answer is not documented for CUDA's objects"),
            Some(name) => QUERIES.iter().position(|known| *known == name).unwrap_or(0) as u64,
        };
        if m.scalar()? != B32 {
            return invalid("a query is of .b32");
        }
        let (d, place, level) = match ops {
            [d, place] if !has_level => (d, place, None),
            [d, place, level] if has_level => (d, place, Some(level)),
            _ => return invalid("the operands of a query"),
        };
        let Operand::Address { base, coordinates, .. } = place else { return invalid("[object] is expected") };
        if !coordinates.is_empty() {
            return invalid("[object] is expected");
        }
        let dst = self.dst(d, B32)?;
        let level = level.map_or(Ok(Val::Imm(0)), |level| self.src(level, B32))?;
        let src = vec![self.object(base)?, level];
        let mode = what | if is_surface { OF_SURFACE } else { 0 };
        self.push(Op::System(Helper::QueryImage, mode), vec![dst], src);
        Ok(())
    }

    pub(super) fn texture(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let mipmap = match m.take_any(&["base", "level", "grad"]) {
            Some("level") => DETAIL,
            Some("grad") => GRADIENTS,
            _ => 0,
        };
        let geometry = self.geometry(m)?;
        if mipmap == GRADIENTS && geometry & CUBE != 0 {
            return unsupported("gradients on a cube");
        }
        self.fetch(geometry | mipmap, m, ops)
    }

    /// What follows the coordinates of a fetch: a level of detail, or two gradients.
    fn detail(&mut self, mode: u64, operands: &'a [Operand], src: &mut Vec<Val>) -> Check<()> {
        for operand in operands {
            if mode & DETAIL != 0 {
                src.push(self.src(operand, F32)?);
                continue;
            }
            let Operand::Vector(list) = operand else { return invalid("gradients must be in braces") };
            let count = (mode & 3) as usize;
            let wanted = count.next_power_of_two();
            if list.len() != wanted {
                return invalid(format!("gradients of {wanted} numbers are expected"));
            }
            let mut gradient = [Val::Imm(0); 3];
            for (part, operand) in gradient.iter_mut().zip(list).take(count) {
                *part = self.src(operand, F32)?;
            }
            src.extend(gradient);
        }
        Ok(())
    }

    /// `tld4`: the same component of each of four texels.
    pub(super) fn gather(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let names = ["r", "g", "b", "a"];
        let component = m.one_of(&names)?;
        let component = names.iter().position(|name| *name == component).unwrap_or(0) as u64;
        let geometry = self.geometry(m)?;
        if geometry & 3 != 2 {
            return invalid("texels are gathered in two dimensions");
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
        let count = usize::from(geometry & DETAIL != 0) + 2 * usize::from(geometry & GRADIENTS != 0);
        if rest.len() < count {
            return invalid("a level of detail, or two gradients, are expected");
        }
        if by_integers && count > 0 {
            return unsupported("a level of detail with integer coordinates");
        }
        let (details, rest) = rest.split_at(count);
        if !rest.is_empty() || matches!(d, Operand::Pair(..)) {
            return unsupported("a fetch with an offset, or one that says whether the texel is resident");
        }
        let Operand::Vector(list) = d else { return invalid("4 destinations are expected") };
        if list.len() != 4 {
            return invalid("4 destinations are expected");
        }
        let dst = list.iter().map(|d| self.dst(d, result)).collect::<Check<Vec<_>>>()?;
        let mut src = self.place(place, geometry, coordinate)?;
        self.detail(geometry, details, &mut src)?;
        let mode = if by_integers { geometry | INTEGERS } else { geometry };
        let all = self.emit(Op::System(Helper::FetchTexel, mode), B128, src);
        self.push(Op::Unpack, dst, vec![all, Val::Imm(32), Val::Imm(128)]);
        Ok(())
    }
}
