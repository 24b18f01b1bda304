//! Integer arithmetic and bit fields (PTX ISA, "Integer Arithmetic Instructions").

use super::*;

use Scalar::*;

impl<'a> Decoder<'a> {
    pub(super) fn int(&mut self, op: IntOp, scalar: Scalar, dst: Reg, src: Vec<Val>) {
        self.push(Op::Int(op, scalar), vec![dst], src);
    }

    pub(super) fn int_temp(&mut self, op: IntOp, scalar: Scalar, src: Vec<Val>) -> Val {
        self.emit(Op::Int(op, scalar), scalar, src)
    }

    /// d = op(a, b), all of one type.
    pub(super) fn binary(&mut self, op: IntOp, scalar: Scalar, ops: &[Operand]) -> Check<()> {
        let [d, a, b] = operands::<3>(ops)?;
        let dst = self.dst(d, scalar)?;
        let src = vec![self.src(a, scalar)?, self.src(b, scalar)?];
        self.int(op, scalar, dst, src);
        Ok(())
    }

    pub(super) fn unary(&mut self, op: IntOp, scalar: Scalar, ops: &[Operand]) -> Check<()> {
        let [d, a] = operands::<2>(ops)?;
        let dst = self.dst(d, scalar)?;
        let src = vec![self.src(a, scalar)?];
        self.int(op, scalar, dst, src);
        Ok(())
    }

    /// d = helper(a, b, c, mode) of these types.
    pub(super) fn helper3(&mut self, helper: Helper, types: [Scalar; 4], mode: u64, ops: &[Operand]) -> Check<()> {
        let [d, a, b, c] = operands::<4>(ops)?;
        let dst = self.dst(d, types[0])?;
        let src = vec![self.src(a, types[1])?, self.src(b, types[2])?, self.src(c, types[3])?, Val::Imm(mode)];
        self.pure(helper, dst, src);
        Ok(())
    }

    pub(super) fn add_or_subtract(&mut self, base: &str, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let saturate = m.take("sat");
        let scalar = self.integer(m, &[U16, S16, U32, S32, U64, S64, U16x2, S16x2, U8x4, S8x4])?;
        if matches!(scalar, U16x2 | S16x2 | U8x4 | S8x4) {
            let mode = packed_mode(scalar, base, saturate, false)?;
            return self.packed(scalar, mode, ops);
        }
        if saturate && scalar != S32 {
            return invalid(".sat is for .s32");
        }
        let op = match (base, saturate) {
            ("add", false) => IntOp::Add,
            ("add", true) => IntOp::AddSat,
            (_, false) => IntOp::Sub,
            (_, true) => IntOp::SubSat,
        };
        self.binary(op, scalar, ops)?;
        Ok(())
    }

    pub(super) fn multiply_integers(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let part = m.one_of(&["lo", "hi", "wide"])?;
        let scalar = self.integer(m, &[U16, S16, U32, S32, U64, S64])?;
        match part {
            "lo" => self.binary(IntOp::Mul, scalar, ops)?,
            "hi" => self.binary(IntOp::MulHi, scalar, ops)?,
            _ => {
                let [d, a, b] = operands::<3>(ops)?;
                let wide = wider(scalar)?;
                let dst = self.dst(d, wide)?;
                let src = vec![self.src(a, scalar)?, self.src(b, scalar)?];
                self.int(IntOp::MulWide, scalar, dst, src);
            }
        }
        Ok(())
    }

    pub(super) fn multiply_and_add(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let part = m.one_of(&["lo", "hi", "wide"])?;
        let saturate = m.take("sat");
        let scalar = self.integer(m, &[U16, S16, U32, S32, U64, S64])?;
        if saturate && (scalar != S32 || part != "hi") {
            return invalid(".sat is for mad.hi.s32");
        }
        let [d, a, b, c] = operands::<4>(ops)?;
        let result = if part == "wide" { wider(scalar)? } else { scalar };
        let dst = self.dst(d, result)?;
        let (a, b, c) = (self.src(a, scalar)?, self.src(b, scalar)?, self.src(c, result)?);
        let op = match part {
            "lo" => IntOp::Mul,
            "hi" => IntOp::MulHi,
            _ => IntOp::MulWide,
        };
        let product = self.emit(Op::Int(op, scalar), result, vec![a, b]);
        self.int(if saturate { IntOp::AddSat } else { IntOp::Add }, result, dst, vec![product, c]);
        Ok(())
    }

    pub(super) fn multiply_24_bits(&mut self, base: &str, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let high = m.one_of(&["lo", "hi"])? == "hi";
        let saturate = m.take("sat");
        let scalar = self.integer(m, &[U32, S32])?;
        let mode = u64::from(high) | u64::from(scalar == S32) << 1 | u64::from(saturate) << 2;
        if base == "mul24" {
            let [d, a, b] = operands::<3>(ops)?;
            let dst = self.dst(d, scalar)?;
            let src = vec![self.src(a, scalar)?, self.src(b, scalar)?, Val::Imm(0), Val::Imm(mode)];
            self.pure(Helper::Mad24, dst, src);
        } else {
            self.helper3(Helper::Mad24, [scalar; 4], mode, ops)?;
        }
        Ok(())
    }

    pub(super) fn add_distance(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let scalar = self.integer(m, &[U16, S16, U32, S32, U64, S64])?;
        let [d, a, b, c] = operands::<4>(ops)?;
        let dst = self.dst(d, scalar)?;
        let (a, b, c) = (self.src(a, scalar)?, self.src(b, scalar)?, self.src(c, scalar)?);
        let low = self.int_temp(IntOp::Min, scalar, vec![a, b]);
        let high = self.int_temp(IntOp::Max, scalar, vec![a, b]);
        let distance = self.int_temp(IntOp::Sub, scalar, vec![high, low]);
        self.int(IntOp::Add, scalar, dst, vec![c, distance]);
        Ok(())
    }

    pub(super) fn divide_integers(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let scalar = self.integer(m, &[U16, S16, U32, S32, U64, S64])?;
        self.binary(IntOp::Div, scalar, ops)?;
        Ok(())
    }

    pub(super) fn remainder(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let scalar = self.integer(m, &[U16, S16, U32, S32, U64, S64])?;
        self.binary(IntOp::Rem, scalar, ops)?;
        Ok(())
    }

    pub(super) fn change_sign(&mut self, base: &str, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let scalar = self.integer(m, &[S16, S32, S64, S16x2, S8x4])?;
        if matches!(scalar, S16x2 | S8x4) {
            let [d, a] = operands::<2>(ops)?;
            let dst = self.dst(d, B32)?;
            let a = self.src(a, B32)?;
            let mode = packed_mode(scalar, base, false, false)?;
            self.pure(Helper::PackedInt, dst, vec![a, Val::Imm(0), Val::Imm(mode)]);
            return Ok(());
        }
        self.unary(if base == "abs" { IntOp::Abs } else { IntOp::Neg }, scalar, ops)?;
        Ok(())
    }

    pub(super) fn extreme_of_integers(&mut self, base: &str, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let relu = m.take("relu");
        let scalar = self.integer(m, &[U16, S16, U32, S32, U64, S64, U16x2, S16x2, U8x4, S8x4])?;
        if matches!(scalar, U16x2 | S16x2 | U8x4 | S8x4) {
            let mode = packed_mode(scalar, base, false, relu)?;
            return self.packed(scalar, mode, ops);
        }
        if relu && scalar != S32 {
            return invalid(".relu is for .s32 and .s16x2");
        }
        let op = if base == "min" { IntOp::Min } else { IntOp::Max };
        if relu {
            let [d, a, b] = operands::<3>(ops)?;
            let dst = self.dst(d, scalar)?;
            let src = vec![self.src(a, scalar)?, self.src(b, scalar)?];
            let value = self.int_temp(op, scalar, src);
            self.int(IntOp::Max, scalar, dst, vec![value, Val::Imm(0)]);
        } else {
            self.binary(op, scalar, ops)?;
        }
        Ok(())
    }

    pub(super) fn count_bits(&mut self, base: &str, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let scalar = self.integer(m, &[B32, B64])?;
        let [d, a] = operands::<2>(ops)?;
        let dst = self.dst(d, U32)?;
        let src = vec![self.src(a, scalar)?];
        self.int(if base == "popc" { IntOp::Popc } else { IntOp::Clz }, scalar, dst, src);
        Ok(())
    }

    pub(super) fn reverse_bits(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let scalar = self.integer(m, &[B32, B64])?;
        self.unary(IntOp::Brev, scalar, ops)?;
        Ok(())
    }

    pub(super) fn find_bit(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let shift = m.take("shiftamt");
        let scalar = self.integer(m, &[U32, S32, U64, S64])?;
        let [d, a] = operands::<2>(ops)?;
        let dst = self.dst(d, U32)?;
        let a = self.src(a, scalar)?;
        let mode = u64::from(scalar.signed()) | u64::from(scalar.bits() == 64) << 1 | u64::from(shift) << 2;
        self.pure(Helper::Bfind, dst, vec![a, Val::Imm(mode)]);
        Ok(())
    }

    pub(super) fn find_nth_bit(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        m.one_of(&["b32"])?;
        let [d, a, b, c] = operands::<4>(ops)?;
        let dst = self.dst(d, B32)?;
        let src = vec![self.src(a, B32)?, self.src(b, B32)?, self.src(c, S32)?];
        self.pure(Helper::Fns, dst, src);
        Ok(())
    }

    pub(super) fn extract_bits(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let scalar = self.integer(m, &[U32, S32, U64, S64])?;
        self.bfe(scalar, ops)?;
        Ok(())
    }

    pub(super) fn insert_bits(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let scalar = self.integer(m, &[B32, B64])?;
        let [f, a, b, c, d] = operands::<5>(ops)?;
        let dst = self.dst(f, scalar)?;
        let (a, b) = (self.src(a, scalar)?, self.src(b, scalar)?);
        let (c, d) = (self.src(c, U32)?, self.src(d, U32)?);
        // Position and length are one byte each.
        let c = self.int_temp(IntOp::And, B32, vec![c, Val::Imm(0xff)]);
        let d = self.int_temp(IntOp::And, B32, vec![d, Val::Imm(0xff)]);
        let high = self.int_temp(IntOp::Shl, B32, vec![d, Val::Imm(8)]);
        let place = self.int_temp(IntOp::Or, B32, vec![c, high]);
        self.pure(Helper::Bfi, dst, vec![a, b, place, Val::Imm(u64::from(scalar.bits()))]);
        Ok(())
    }

    pub(super) fn mask_of_bits(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let wrap = m.one_of(&["clamp", "wrap"])? == "wrap";
        m.one_of(&["b32"])?;
        let [d, a, b] = operands::<3>(ops)?;
        let dst = self.dst(d, B32)?;
        let src = vec![self.src(a, U32)?, self.src(b, U32)?, Val::Imm(u64::from(wrap))];
        self.pure(Helper::Bmsk, dst, src);
        Ok(())
    }

    pub(super) fn extend(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let wrap = m.one_of(&["clamp", "wrap"])? == "wrap";
        let scalar = self.integer(m, &[U32, S32])?;
        let [d, a, b] = operands::<3>(ops)?;
        let dst = self.dst(d, scalar)?;
        let mode = u64::from(wrap) | u64::from(scalar == S32) << 1;
        let src = vec![self.src(a, scalar)?, self.src(b, U32)?, Val::Imm(mode)];
        self.pure(Helper::Szext, dst, src);
        Ok(())
    }

    pub(super) fn dot_product(&mut self, base: &str, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let high = base == "dp2a" && m.one_of(&["lo", "hi"])? == "hi";
        let (a, b) = (self.integer(m, &[U32, S32])?, self.integer(m, &[U32, S32])?);
        let mode =
            u64::from(a == S32) | u64::from(b == S32) << 1 | u64::from(base == "dp2a") << 2 | u64::from(high) << 3;
        let sum = if a == S32 || b == S32 { S32 } else { U32 };
        self.helper3(Helper::DotProduct, [sum, B32, B32, sum], mode, ops)?;
        Ok(())
    }

    pub(super) fn integer(&mut self, m: &mut Modifiers<'a>, allowed: &[Scalar]) -> Check<Scalar> {
        let scalar = m.scalar()?;
        if allowed.contains(&scalar) {
            return Ok(scalar);
        }
        invalid(format!("the type .{} of this instruction", scalar.name()))
    }

    fn packed(&mut self, _scalar: Scalar, mode: u64, ops: &[Operand]) -> Check<()> {
        let [d, a, b] = operands::<3>(ops)?;
        let dst = self.dst(d, B32)?;
        let src = vec![self.src(a, B32)?, self.src(b, B32)?, Val::Imm(mode)];
        self.pure(Helper::PackedInt, dst, src);
        Ok(())
    }

    pub(super) fn bfe(&mut self, scalar: Scalar, ops: &[Operand]) -> Check<()> {
        let [d, a, b, c] = operands::<4>(ops)?;
        let dst = self.dst(d, scalar)?;
        let a = self.src(a, scalar)?;
        let (b, c) = (self.src(b, U32)?, self.src(c, U32)?);
        let bits = u64::from(scalar.bits());
        if let (Val::Imm(position), Val::Imm(length)) = (b, c)
            && length > 0
            && position + length <= bits
        {
            let up = self.int_temp(IntOp::Shl, scalar, vec![a, Val::Imm(bits - position - length)]);
            self.int(IntOp::Shr, scalar, dst, vec![up, Val::Imm(bits - length)]);
            return Ok(());
        }
        let mode = bits | u64::from(scalar.signed()) << 8;
        self.pure(Helper::Bfe, dst, vec![a, b, c, Val::Imm(mode)]);
        Ok(())
    }
}

fn packed_mode(scalar: Scalar, base: &str, saturate: bool, relu: bool) -> Check<u64> {
    let op = match base {
        "add" => 0,
        "sub" => 1,
        "min" => 2,
        "max" => 3,
        "neg" => 4,
        _ => 5,
    };
    if relu && !matches!(scalar, S16x2 | S8x4) {
        return invalid(".relu is for signed types");
    }
    let bytes = matches!(scalar, U8x4 | S8x4);
    Ok(op | u64::from(scalar.signed()) << 4 | u64::from(saturate) << 5 | u64::from(relu) << 6 | u64::from(bytes) << 7)
}

pub(super) fn wider(scalar: Scalar) -> Check<Scalar> {
    Ok(match scalar {
        U16 => U32,
        S16 => S32,
        U32 => U64,
        S32 => S64,
        _ => return invalid("there is nothing wider"),
    })
}
