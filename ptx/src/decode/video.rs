//! Video instructions: on words (`vadd`, `vset`, `vmad`), two halves (`vadd2`) and four bytes (`vabsdiff4`).

use super::*;
use crate::runtime::helper::{LanesMode, MadMode, WholeMode};

use Scalar::*;

/// The operations; helpers know them by their place.
const NAMES: [&str; 9] = ["vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vset", "vavrg"];
const COMPARISONS: [&str; 6] = ["eq", "ne", "lt", "le", "gt", "ge"];

impl<'a> Decoder<'a> {
    pub(super) fn video(&mut self, base: &str, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        if base == "vmad" {
            return self.video_mad(m, ops);
        }
        let (name, lanes) = match base.strip_suffix('2').map(|n| (n, 2)).or(base.strip_suffix('4').map(|n| (n, 4))) {
            Some((name, lanes)) => (name, lanes),
            None => (base, 1),
        };
        let Some(op) = NAMES.iter().position(|n| *n == name) else { return unknown(base) };
        if lanes > 1 && matches!(name, "vshl" | "vshr") || (lanes == 1 && name == "vavrg") {
            return unknown(base);
        }
        if lanes > 1 { self.video_lanes(op, lanes, m, ops) } else { self.video_whole(op, m, ops) }
    }

    /// The types of result, a and b: whether they are signed. `vset` names none for its result.
    fn video_types(&mut self, op: usize, m: &mut Modifiers<'a>) -> Check<[bool; 3]> {
        let mut next = || Ok(self.integer(m, &[U32, S32])? == S32);
        let result = if NAMES[op] == "vset" { false } else { next()? };
        Ok([result, next()?, next()?])
    }

    fn comparison(&mut self, op: usize, m: &mut Modifiers<'a>) -> Check<u64> {
        if NAMES[op] != "vset" {
            return Ok(0);
        }
        let name = m.one_of(&COMPARISONS)?;
        Ok(COMPARISONS.iter().position(|n| *n == name).unwrap_or_default() as u64)
    }

    fn video_whole(&mut self, op: usize, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let [signed_result, signed_a, signed_b] = self.video_types(op, m)?;
        let compare = self.comparison(op, m)?;
        let saturate = m.take("sat");
        let wrap = matches!(NAMES[op], "vshl" | "vshr") && m.one_of(&["clamp", "wrap"])? == "wrap";
        let second = match m.take_any(&["add", "min", "max"]) {
            None => 0,
            Some("add") => 1,
            // The ISA does not say how a sum of more than 32 bits compares.
            Some(_) if !saturate => return unsupported(".min and .max behind a result that is not saturated"),
            Some("min") => 2,
            Some(_) => 3,
        };
        let (dst, third, ops) = match ops {
            [d, a, b] if second == 0 => (d, None, [a, b]),
            [d, a, b, c] => (d, Some(c), [a, b]),
            _ => return invalid("three operands are expected, four with a second operation or a part as result"),
        };
        let (dst, part) = self.part(dst)?;
        let merge = part != 0;
        if merge != (third.is_some() && second == 0) {
            return invalid("a part as result has a third source, and no second operation");
        }
        let (a, part_a) = self.part(ops[0])?;
        let (b, part_b) = self.part(ops[1])?;
        let dst = self.dst(&dst, B32)?;
        let (a, b) = (self.src(&a, B32)?, self.src(&b, B32)?);
        let c = third.map_or(Ok(Val::Imm(0)), |operand| self.src(operand, B32))?;
        let parts = [part_a, part_b, part];
        let op = op as u64;
        let mode = WholeMode { op, signed_result, signed_a, signed_b, saturate, wrap, second, merge, compare, parts };
        self.pure(Helper::Video, dst, vec![a, b, c, Val::Imm(mode.encode())]);
        Ok(())
    }

    fn video_mad(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let mut next = || Ok(self.integer(m, &[U32, S32])? == S32);
        let (signed_d, signed_a, signed_b) = (next()?, next()?, next()?);
        let plus_one = m.take("po");
        let saturate = m.take("sat");
        let shift = match m.take_any(&["shr7", "shr15"]) {
            None => 0,
            Some("shr7") => 7,
            Some(_) => 15,
        };
        let [d, a, b, c] = operands::<4>(ops)?;
        let ((a, part_a, minus_a), (b, part_b, minus_b)) = (self.signed_part(a)?, self.signed_part(b)?);
        let (c, part_c, minus_c) = self.signed_part(c)?;
        let minus_product = minus_a != minus_b;
        if part_c != 0 {
            return invalid("the third source is a whole word");
        }
        if (minus_product && minus_c) || (plus_one && (minus_a || minus_b || minus_c)) {
            return invalid("one of the product and the third source may be negated, with .po neither");
        }
        let signed_product = signed_a || signed_b || minus_product;
        let signed_result = signed_product || minus_c;
        if saturate && signed_d != signed_result {
            return unsupported("a saturated result of another sign than its type");
        }
        // The ISA's words and its code differ on how it is extended.
        if minus_c && !signed_product && (saturate || shift > 0) {
            return unsupported("an unsigned third source that is negated, with .sat or a shift");
        }
        let dst = self.dst(d, B32)?;
        let (a, b, c) = (self.src(&a, B32)?, self.src(&b, B32)?, self.src(&c, B32)?);
        let parts = [part_a, part_b];
        let mode = MadMode {
            signed_a,
            signed_b,
            signed_result,
            minus_product,
            minus_third: minus_c,
            plus_one,
            saturate,
            shift,
            parts,
        };
        self.pure(Helper::VideoMad, dst, vec![a, b, c, Val::Imm(mode.encode())]);
        Ok(())
    }

    /// As `part`, with a minus before it.
    fn signed_part(&self, operand: &Operand) -> Check<(Operand, u64, bool)> {
        let (plain, minus) = match operand {
            Operand::Minus(name, None) => (Operand::Name(*name), true),
            Operand::Minus(name, Some(part)) => (Operand::Parts(*name, *part), true),
            other => (other.clone(), false),
        };
        let (operand, part) = self.part(&plain)?;
        Ok((operand, part, minus))
    }

    /// A register, and which part of it is meant: 0 is all of it, 1 to 4 a byte, 5 and 6 a half.
    fn part(&self, operand: &Operand) -> Check<(Operand, u64)> {
        let Operand::Parts(name, selector) = operand else { return Ok((operand.clone(), 0)) };
        let part = match self.text(*selector) {
            ".b0" => 1,
            ".b1" => 2,
            ".b2" => 3,
            ".b3" => 4,
            ".h0" => 5,
            ".h1" => 6,
            other => return invalid(format!("{other} is not a byte or half of a word")),
        };
        Ok((Operand::Name(*name), part))
    }

    fn video_lanes(&mut self, op: usize, lanes: u32, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let [signed_result, signed_a, signed_b] = self.video_types(op, m)?;
        let compare = self.comparison(op, m)?;
        let (saturate, add) = (NAMES[op] != "vset" && m.take("sat"), m.take("add"));
        let [d, a, b, c] = operands::<4>(ops)?;
        let (d, mask) = self.digits(d, lanes)?;
        let mask = match mask {
            None => (1 << lanes) - 1,
            Some(digits) => {
                let rising = digits.windows(2).all(|pair| pair[0] < pair[1]);
                if !rising || digits.iter().any(|digit| *digit >= u64::from(lanes)) {
                    return invalid("the lanes of a mask fall, each named once");
                }
                digits.iter().fold(0, |mask, digit| mask | 1 << digit)
            }
        };
        let mut chosen = [0; 2];
        let mut sources = [Val::Imm(0); 2];
        for (at, operand) in [a, b].into_iter().enumerate() {
            let (operand, digits) = self.digits(operand, lanes)?;
            let first = at as u64 * u64::from(lanes);
            let digits = digits.unwrap_or_else(|| (first..first + u64::from(lanes)).collect());
            if digits.len() != lanes as usize {
                return invalid(format!("a selector chooses {lanes} parts"));
            }
            chosen[at] = digits.iter().rev().fold(0, |all, digit| all << 3 | digit);
            sources[at] = self.src(&operand, B32)?;
        }
        let dst = self.dst(&d, B32)?;
        let c = self.src(c, B32)?;
        let op = op as u64;
        let bytes = lanes == 4;
        let mode =
            LanesMode { op, signed_result, signed_a, signed_b, saturate, add, bytes, compare, mask, chosen }.encode();
        self.pure(Helper::VideoLanes, dst, vec![sources[0], sources[1], c, Val::Imm(mode)]);
        Ok(())
    }

    /// A register and the digits of its `.h10` or `.b3210`, from the last: parts of a pair of words, the first one's lower.
    fn digits(&self, operand: &Operand, lanes: u32) -> Check<(Operand, Option<Vec<u64>>)> {
        let Operand::Parts(name, selector) = operand else { return Ok((operand.clone(), None)) };
        let text = self.text(*selector);
        let kind = if lanes == 4 { ".b" } else { ".h" };
        let digits: Option<Vec<u64>> = text
            .strip_prefix(kind)
            .and_then(|digits| digits.chars().rev().map(|digit| digit.to_digit(2 * lanes).map(u64::from)).collect());
        match digits {
            Some(digits) => Ok((Operand::Name(*name), Some(digits))),
            None => invalid(format!("{text} is not a choice of {kind} parts")),
        }
    }
}
