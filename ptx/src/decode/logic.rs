//! Bits of whole registers and predicates (PTX ISA, "Logic and Shift Instructions").

use super::*;

use Scalar::*;

impl<'a> Decoder<'a> {
    pub(super) fn logic(&mut self, base: &str, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let scalar = self.integer(m, &[Pred, B16, B32, B64])?;
        let op = match base {
            "and" => IntOp::And,
            "or" => IntOp::Or,
            _ => IntOp::Xor,
        };
        let [d, a, b] = operands::<3>(ops)?;
        let dst = self.dst(d, scalar)?;
        let src = if scalar == Pred {
            vec![self.plain_predicate(a)?, self.plain_predicate(b)?]
        } else {
            vec![self.src(a, scalar)?, self.src(b, scalar)?]
        };
        self.int(op, scalar, dst, src);
        Ok(())
    }

    pub(super) fn not(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let scalar = self.integer(m, &[Pred, B16, B32, B64])?;
        self.unary(if scalar == Pred { IntOp::Cnot } else { IntOp::Not }, scalar, ops)?;
        Ok(())
    }

    pub(super) fn logical_not(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let scalar = self.integer(m, &[B16, B32, B64])?;
        self.unary(IntOp::Cnot, scalar, ops)?;
        Ok(())
    }

    pub(super) fn shift(&mut self, base: &str, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let types: &[Scalar] =
            if base == "shl" { &[B16, B32, B64] } else { &[B16, B32, B64, U16, U32, U64, S16, S32, S64] };
        let scalar = self.integer(m, types)?;
        let [d, a, b] = operands::<3>(ops)?;
        let dst = self.dst(d, scalar)?;
        let src = vec![self.src(a, scalar)?, self.src(b, U32)?];
        self.int(if base == "shl" { IntOp::Shl } else { IntOp::Shr }, scalar, dst, src);
        Ok(())
    }

    pub(super) fn funnel_shift(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let left = m.one_of(&["l", "r"])? == "l";
        let wrap = m.one_of(&["wrap", "clamp"])? == "wrap";
        m.one_of(&["b32"])?;
        let [d, a, b, c] = operands::<4>(ops)?;
        let dst = self.dst(d, B32)?;
        let src = vec![self.src(a, B32)?, self.src(b, B32)?, self.src(c, U32)?];
        self.int(IntOp::Funnel { left, wrap }, B32, dst, src);
        Ok(())
    }

    pub(super) fn lop3(&mut self, m: &mut Modifiers<'a>, ops: &[Operand]) -> Check<()> {
        let logic = m.take_any(&["or", "and"]);
        m.one_of(&["b32"])?;
        let Some(logic) = logic else {
            let [d, a, b, c, table] = operands::<5>(ops)?;
            let Operand::Int(table) = table else { return invalid("the table of lop3 is a number") };
            let dst = self.dst(d, B32)?;
            let src = vec![self.src(a, B32)?, self.src(b, B32)?, self.src(c, B32)?];
            self.int(IntOp::Lop3(*table as u8), B32, dst, src);
            return Ok(());
        };
        let [Operand::Pair(d, p), a, b, c, Operand::Int(table), q] = operands::<6>(ops)? else {
            return invalid("lop3 with .or or .and has the operands d|p, a, b, c, table, q");
        };
        let dst = self.dst(d, B32)?;
        let p = self.dst(p, Pred)?;
        let src = vec![self.src(a, B32)?, self.src(b, B32)?, self.src(c, B32)?];
        let q = self.plain_predicate(q)?;
        let value = self.int_temp(IntOp::Lop3(*table as u8), B32, src);
        let op = Op::Setp { compare: Compare::Ne, scalar: B32, ftz: false, logic: None };
        let some = self.emit(op, Pred, vec![value, Val::Imm(0)]);
        self.push(Op::Mov, vec![dst], vec![value]);
        self.int(if logic == "or" { IntOp::Or } else { IntOp::And }, Pred, p, vec![some, q]);
        Ok(())
    }
}
