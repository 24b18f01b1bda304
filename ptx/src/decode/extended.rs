//! Arithmetic with carries (PTX ISA, "Extended-Precision Integer Arithmetic Instructions").

use super::*;

use Scalar::*;

impl<'a> Decoder<'a> {
    pub(super) fn add_with_carry_out(&mut self, base: &str, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        m.take("cc");
        let scalar = self.integer(m, &[U32, S32, U64, S64, B32, B64])?;
        let [d, a, b] = operands::<3>(ops)?;
        let (dst, a, b) = (self.dst(d, scalar)?, self.src(a, scalar)?, self.src(b, scalar)?);
        let carry = self.carry;
        self.push(
            Op::Int(IntOp::Carry { sub: base == "sub" }, scalar),
            vec![dst, carry],
            vec![a, b, Val::Imm(u64::from(base == "sub"))],
        );
        Ok(())
    }

    pub(super) fn add_with_carry(&mut self, base: &str, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let out = m.take("cc");
        let scalar = self.integer(m, &[U32, S32, U64, S64])?;
        let [d, a, b] = operands::<3>(ops)?;
        let (dst, a, b) = (self.dst(d, scalar)?, self.src(a, scalar)?, self.src(b, scalar)?);
        let carry = if out { self.carry } else { self.temp(Pred) };
        let op = Op::Int(IntOp::Carry { sub: base == "subc" }, scalar);
        let carry_in = Val::Reg(self.carry);
        self.push(op, vec![dst, carry], vec![a, b, carry_in]);
        Ok(())
    }

    pub(super) fn mad_carry(&mut self, m: &mut Modifiers<'a>, ops: &[Operand], carry_in: bool) -> Check<()> {
        let high = m.one_of(&["lo", "hi"])? == "hi";
        let out = m.take("cc");
        let scalar = self.integer(m, &[U32, S32, U64, S64])?;
        let [d, a, b, c] = operands::<4>(ops)?;
        let dst = self.dst(d, scalar)?;
        let (a, b, c) = (self.src(a, scalar)?, self.src(b, scalar)?, self.src(c, scalar)?);
        let product = self.int_temp(if high { IntOp::MulHi } else { IntOp::Mul }, scalar, vec![a, b]);
        let carry = if out { self.carry } else { self.temp(Pred) };
        let before = if carry_in { Val::Reg(self.carry) } else { Val::Imm(0) };
        self.push(Op::Int(IntOp::Carry { sub: false }, scalar), vec![dst, carry], vec![product, c, before]);
        Ok(())
    }
}
