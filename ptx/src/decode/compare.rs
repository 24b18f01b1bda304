//! `set`, `setp`, `selp` and `slct`, for one number or two.

use super::*;

use Scalar::*;

impl<'a> Decoder<'a> {
    pub(super) fn select(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let scalar = m.scalar()?;
        if !matches!(scalar.bits(), 16 | 32 | 64) {
            return invalid("the type of selp");
        }
        let [d, a, b, p] = operands::<4>(ops)?;
        let dst = self.dst(d, scalar)?;
        let src = vec![self.src(a, scalar)?, self.src(b, scalar)?, self.plain_predicate(p)?];
        self.push(Op::Select, vec![dst], src);
        Ok(())
    }

    pub(super) fn select_by_sign(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let ftz = m.take("ftz");
        let (scalar, by) = (m.scalar()?, m.scalar()?);
        let [d, a, b, c] = operands::<4>(ops)?;
        let dst = self.dst(d, scalar)?;
        let (a, b, c) = (self.src(a, scalar)?, self.src(b, scalar)?, self.src(c, by)?);
        let compare = match by {
            S32 | F32 => Compare::Ge,
            _ => return invalid("slct selects by .s32 or .f32"),
        };
        let op = Op::Setp { compare, scalar: by, ftz, logic: None };
        let chosen = self.emit(op, Pred, vec![c, Val::Imm(0)]);
        self.push(Op::Select, vec![dst], vec![a, b, chosen]);
        Ok(())
    }

    pub(super) fn compare(&mut self, base: &str, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        use Compare::*;
        const NAMES: [(&str, Compare); 18] = [
            ("eq", Eq),
            ("ne", Ne),
            ("lt", Lt),
            ("le", Le),
            ("gt", Gt),
            ("ge", Ge),
            ("lo", Lt),
            ("ls", Le),
            ("hi", Gt),
            ("hs", Ge),
            ("equ", Equ),
            ("neu", Neu),
            ("ltu", Ltu),
            ("leu", Leu),
            ("gtu", Gtu),
            ("geu", Geu),
            ("num", Num),
            ("nan", Nan),
        ];
        let names = NAMES.map(|(name, _)| name);
        let name = m.one_of(&names)?;
        let compare = NAMES[names.iter().position(|n| *n == name).unwrap_or(0)].1;
        let ftz = m.take("ftz");
        let logic = match m.take_any(&["and", "or", "xor"]) {
            Some("and") => Some(Logic::And),
            Some("or") => Some(Logic::Or),
            Some(_) => Some(Logic::Xor),
            None => None,
        };
        let first = m.scalar()?;
        let (result, scalar) = if base == "set" { (Some(first), m.scalar()?) } else { (None, first) };
        let floating = scalar.float() || matches!(scalar, F16x2 | Bf16x2);
        let ordered = matches!(name, "lo" | "ls" | "hi" | "hs");
        let valid = match scalar {
            B16 | B32 | B64 => matches!(compare, Eq | Ne),
            _ if floating => !ordered,
            U16 | U32 | U64 => matches!(compare, Eq | Ne | Lt | Le | Gt | Ge),
            S16 | S32 | S64 => matches!(compare, Eq | Ne | Lt | Le | Gt | Ge) && !ordered,
            _ => false,
        };
        if !valid || (ftz && !matches!(scalar, F32 | F16 | F16x2)) {
            return invalid(format!("the comparison .{name} of .{}", scalar.name()));
        }
        let (d, a, b, c) = match ops {
            [d, a, b] if logic.is_none() => (d, a, b, None),
            [d, a, b, c] if logic.is_some() => (d, a, b, Some(c)),
            _ => return invalid("the number of operands"),
        };
        let c = c.map(|c| self.plain_predicate(c)).transpose()?;
        let (first, second) = match d {
            Operand::Pair(p, q) => (&**p, Some(&**q)),
            one => (one, None),
        };
        let (a, b) = (self.src(a, scalar)?, self.src(b, scalar)?);
        let halves = match scalar {
            F16x2 | Bf16x2 => 2,
            _ => 1,
        };
        let mut outcomes = Vec::new();
        for half in 0..halves {
            let mut pair = [a, b];
            let mut by = scalar;
            if matches!(scalar, F16 | Bf16 | F16x2 | Bf16x2) {
                by = F32;
                for value in &mut pair {
                    *value = self.half_to_single(*value, scalar, half, ftz);
                }
            }
            let op = move |logic| Op::Setp { compare, scalar: by, ftz: ftz && scalar == F32, logic };
            outcomes.push((op, pair));
        }
        let Some(result) = result else {
            let p = self.dst(first, Pred)?;
            let q = second.map(|q| self.dst(q, Pred)).transpose()?;
            if halves == 2 {
                for ((op, pair), dst) in outcomes.into_iter().zip([Some(p), q]) {
                    let mut src = pair.to_vec();
                    src.extend(c);
                    let Some(dst) = dst else { return invalid("two predicates p|q are expected") };
                    self.push(op(logic), vec![dst], src);
                }
                return Ok(());
            }
            let (op, pair) = outcomes.remove(0);
            let mut src = pair.to_vec();
            src.extend(c);
            match q {
                None => self.push(op(logic), vec![p], src),
                Some(q) => {
                    // The second result is the negated comparison, combined with c in the same way.
                    let plain = self.emit(op(None), Pred, pair.to_vec());
                    let negated = self.int_temp(IntOp::Cnot, Pred, vec![plain]);
                    let (mut one, mut other) = (plain, negated);
                    if let (Some(logic), Some(c)) = (logic, c) {
                        let by = match logic {
                            Logic::And => IntOp::And,
                            Logic::Or => IntOp::Or,
                            Logic::Xor => IntOp::Xor,
                        };
                        one = self.int_temp(by, Pred, vec![one, c]);
                        other = self.int_temp(by, Pred, vec![other, c]);
                    }
                    self.push(Op::Mov, vec![p], vec![one]);
                    self.push(Op::Mov, vec![q], vec![other]);
                }
            }
            return Ok(());
        };
        let (truth, bits) = match (result, halves) {
            (F32, 1) => (0x3f80_0000, B32),
            (U32 | S32, _) if halves == 1 => (0xffff_ffff, B32),
            (F16, 1) => (0x3c00, B16),
            (Bf16, 1) => (0x3f80, B16),
            (U16 | S16, 1) if matches!(scalar, F16 | Bf16) => (0xffff, B16),
            (F16x2, 2) => (0x3c00, B16),
            (Bf16x2, 2) => (0x3f80, B16),
            (U32 | S32, 2) => (0xffff, B16),
            _ => return invalid(format!("the result type .{} of set", result.name())),
        };
        let dst = self.dst(first, result)?;
        let mut parts = Vec::new();
        for (op, pair) in outcomes {
            let mut src = pair.to_vec();
            src.extend(c);
            let truth_value = self.emit(op(logic), Pred, src);
            parts.push(self.emit(Op::Select, bits, vec![Val::Imm(truth), Val::Imm(0), truth_value]));
        }
        self.push(if parts.len() == 2 { Op::Pack } else { Op::Mov }, vec![dst], parts);
        Ok(())
    }
}
