//! Integers: arithmetic, carries, bit fields, logic, shifts, comparison and selection.

use super::*;

use Scalar::*;

impl<'a> Decoder<'a> {
    fn int(&mut self, op: IntOp, scalar: Scalar, dst: Reg, src: Vec<Val>) {
        self.push(Op::Int(op, scalar), vec![dst], src);
    }

    pub(super) fn int_temp(&mut self, op: IntOp, scalar: Scalar, src: Vec<Val>) -> Val {
        self.emit(Op::Int(op, scalar), scalar, src)
    }

    /// d = op(a, b), all of one type.
    fn binary(&mut self, op: IntOp, scalar: Scalar, ops: &[Operand]) -> Check<()> {
        let [d, a, b] = operands::<3>(ops)?;
        let dst = self.dst(d, scalar)?;
        let src = vec![self.src(a, scalar)?, self.src(b, scalar)?];
        self.int(op, scalar, dst, src);
        Ok(())
    }

    fn unary(&mut self, op: IntOp, scalar: Scalar, ops: &[Operand]) -> Check<()> {
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

    pub(super) fn arithmetic(&mut self, base: &str, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<bool> {
        let integer_type = || m.list.iter().rev().find_map(|m| Scalar::named(m));
        let last = integer_type();
        let floating = last.is_some_and(|s| s.float() || matches!(s, F16x2 | Bf16x2 | F32x2));
        match base {
            "add" | "sub" | "mul" | "mad" | "div" | "abs" | "neg" | "min" | "max" if floating => return Ok(false),
            "add" | "sub" if m.take("cc") => {
                let scalar = self.integer(m, &[U32, S32, U64, S64, B32, B64])?;
                let [d, a, b] = operands::<3>(ops)?;
                let (dst, a, b) = (self.dst(d, scalar)?, self.src(a, scalar)?, self.src(b, scalar)?);
                let carry = self.carry;
                self.push(
                    Op::Int(IntOp::Carry { sub: base == "sub" }, scalar),
                    vec![dst, carry],
                    vec![a, b, Val::Imm(u64::from(base == "sub"))],
                );
            }
            "addc" | "subc" => {
                let out = m.take("cc");
                let scalar = self.integer(m, &[U32, S32, U64, S64])?;
                let [d, a, b] = operands::<3>(ops)?;
                let (dst, a, b) = (self.dst(d, scalar)?, self.src(a, scalar)?, self.src(b, scalar)?);
                let carry = if out { self.carry } else { self.temp(Pred) };
                let op = Op::Int(IntOp::Carry { sub: base == "subc" }, scalar);
                let carry_in = Val::Reg(self.carry);
                self.push(op, vec![dst, carry], vec![a, b, carry_in]);
            }
            "madc" => self.mad_carry(m, ops, true)?,
            "mad" if m.list.contains(&"cc") => self.mad_carry(m, ops, false)?,
            "add" | "sub" => {
                let saturate = m.take("sat");
                let scalar = self.integer(m, &[U16, S16, U32, S32, U64, S64, U16x2, S16x2, U8x4, S8x4])?;
                if matches!(scalar, U16x2 | S16x2 | U8x4 | S8x4) {
                    let mode = packed_mode(scalar, base, saturate, false)?;
                    return self.packed(scalar, mode, ops).map(|()| true);
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
            }
            "mul" => {
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
            }
            "mad" => {
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
            }
            "mul24" | "mad24" => {
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
            }
            "sad" => {
                let scalar = self.integer(m, &[U16, S16, U32, S32, U64, S64])?;
                let [d, a, b, c] = operands::<4>(ops)?;
                let dst = self.dst(d, scalar)?;
                let (a, b, c) = (self.src(a, scalar)?, self.src(b, scalar)?, self.src(c, scalar)?);
                let low = self.int_temp(IntOp::Min, scalar, vec![a, b]);
                let high = self.int_temp(IntOp::Max, scalar, vec![a, b]);
                let distance = self.int_temp(IntOp::Sub, scalar, vec![high, low]);
                self.int(IntOp::Add, scalar, dst, vec![c, distance]);
            }
            "div" => {
                let scalar = self.integer(m, &[U16, S16, U32, S32, U64, S64])?;
                self.binary(IntOp::Div, scalar, ops)?;
            }
            "rem" => {
                let scalar = self.integer(m, &[U16, S16, U32, S32, U64, S64])?;
                self.binary(IntOp::Rem, scalar, ops)?;
            }
            "abs" | "neg" => {
                let scalar = self.integer(m, &[S16, S32, S64, S16x2, S8x4])?;
                if matches!(scalar, S16x2 | S8x4) {
                    let [d, a] = operands::<2>(ops)?;
                    let dst = self.dst(d, B32)?;
                    let a = self.src(a, B32)?;
                    let mode = packed_mode(scalar, base, false, false)?;
                    self.pure(Helper::PackedInt, dst, vec![a, Val::Imm(0), Val::Imm(mode)]);
                    return Ok(true);
                }
                self.unary(if base == "abs" { IntOp::Abs } else { IntOp::Neg }, scalar, ops)?;
            }
            "min" | "max" => {
                let relu = m.take("relu");
                let scalar = self.integer(m, &[U16, S16, U32, S32, U64, S64, U16x2, S16x2, U8x4, S8x4])?;
                if matches!(scalar, U16x2 | S16x2 | U8x4 | S8x4) {
                    let mode = packed_mode(scalar, base, false, relu)?;
                    return self.packed(scalar, mode, ops).map(|()| true);
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
            }
            "popc" | "clz" => {
                let scalar = self.integer(m, &[B32, B64])?;
                let [d, a] = operands::<2>(ops)?;
                let dst = self.dst(d, U32)?;
                let src = vec![self.src(a, scalar)?];
                self.int(if base == "popc" { IntOp::Popc } else { IntOp::Clz }, scalar, dst, src);
            }
            "brev" => {
                let scalar = self.integer(m, &[B32, B64])?;
                self.unary(IntOp::Brev, scalar, ops)?;
            }
            "bfind" => {
                let shift = m.take("shiftamt");
                let scalar = self.integer(m, &[U32, S32, U64, S64])?;
                let [d, a] = operands::<2>(ops)?;
                let dst = self.dst(d, U32)?;
                let a = self.src(a, scalar)?;
                let mode = u64::from(scalar.signed()) | u64::from(scalar.bits() == 64) << 1 | u64::from(shift) << 2;
                self.pure(Helper::Bfind, dst, vec![a, Val::Imm(mode)]);
            }
            "fns" => {
                m.one_of(&["b32"])?;
                let [d, a, b, c] = operands::<4>(ops)?;
                let dst = self.dst(d, B32)?;
                let src = vec![self.src(a, B32)?, self.src(b, B32)?, self.src(c, S32)?];
                self.pure(Helper::Fns, dst, src);
            }
            "bfe" => {
                let scalar = self.integer(m, &[U32, S32, U64, S64])?;
                self.bfe(scalar, ops)?;
            }
            "bfi" => {
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
            }
            "bmsk" => {
                let wrap = m.one_of(&["clamp", "wrap"])? == "wrap";
                m.one_of(&["b32"])?;
                let [d, a, b] = operands::<3>(ops)?;
                let dst = self.dst(d, B32)?;
                let src = vec![self.src(a, U32)?, self.src(b, U32)?, Val::Imm(u64::from(wrap))];
                self.pure(Helper::Bmsk, dst, src);
            }
            "szext" => {
                let wrap = m.one_of(&["clamp", "wrap"])? == "wrap";
                let scalar = self.integer(m, &[U32, S32])?;
                let [d, a, b] = operands::<3>(ops)?;
                let dst = self.dst(d, scalar)?;
                let mode = u64::from(wrap) | u64::from(scalar == S32) << 1;
                let src = vec![self.src(a, scalar)?, self.src(b, U32)?, Val::Imm(mode)];
                self.pure(Helper::Szext, dst, src);
            }
            "dp4a" | "dp2a" => {
                let high = base == "dp2a" && m.one_of(&["lo", "hi"])? == "hi";
                let (a, b) = (self.integer(m, &[U32, S32])?, self.integer(m, &[U32, S32])?);
                let mode = u64::from(a == S32)
                    | u64::from(b == S32) << 1
                    | u64::from(base == "dp2a") << 2
                    | u64::from(high) << 3;
                let sum = if a == S32 || b == S32 { S32 } else { U32 };
                self.helper3(Helper::DotProduct, [sum, B32, B32, sum], mode, ops)?;
            }
            "and" | "or" | "xor" => {
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
            }
            "not" => {
                let scalar = self.integer(m, &[Pred, B16, B32, B64])?;
                self.unary(if scalar == Pred { IntOp::Cnot } else { IntOp::Not }, scalar, ops)?;
            }
            "cnot" => {
                let scalar = self.integer(m, &[B16, B32, B64])?;
                self.unary(IntOp::Cnot, scalar, ops)?;
            }
            "lop3" => self.lop3(m, ops)?,
            "shl" | "shr" => {
                let types: &[Scalar] =
                    if base == "shl" { &[B16, B32, B64] } else { &[B16, B32, B64, U16, U32, U64, S16, S32, S64] };
                let scalar = self.integer(m, types)?;
                let [d, a, b] = operands::<3>(ops)?;
                let dst = self.dst(d, scalar)?;
                let src = vec![self.src(a, scalar)?, self.src(b, U32)?];
                self.int(if base == "shl" { IntOp::Shl } else { IntOp::Shr }, scalar, dst, src);
            }
            "shf" => {
                let left = m.one_of(&["l", "r"])? == "l";
                let wrap = m.one_of(&["wrap", "clamp"])? == "wrap";
                m.one_of(&["b32"])?;
                let [d, a, b, c] = operands::<4>(ops)?;
                let dst = self.dst(d, B32)?;
                let src = vec![self.src(a, B32)?, self.src(b, B32)?, self.src(c, U32)?];
                self.int(IntOp::Funnel { left, wrap }, B32, dst, src);
            }
            "prmt" => {
                m.one_of(&["b32"])?;
                let modes = ["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"];
                let mode =
                    m.take_any(&modes).and_then(|name| modes.iter().position(|m| *m == name)).map_or(0, |at| at + 1);
                self.helper3(Helper::Prmt, [B32, B32, B32, B32], mode as u64, ops)?;
            }
            "selp" => {
                let scalar = m.scalar()?;
                if !matches!(scalar.bits(), 16 | 32 | 64) {
                    return invalid("the type of selp");
                }
                let [d, a, b, p] = operands::<4>(ops)?;
                let dst = self.dst(d, scalar)?;
                let src = vec![self.src(a, scalar)?, self.src(b, scalar)?, self.plain_predicate(p)?];
                self.push(Op::Select, vec![dst], src);
            }
            "slct" => {
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
            }
            "setp" | "set" => self.compare(base, m, ops)?,
            _ if base.starts_with('v') && base != "vote" => return self.video(base, m, ops),
            _ => return Ok(false),
        }
        Ok(true)
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

    fn mad_carry(&mut self, m: &mut Modifiers<'a>, ops: &[Operand], carry_in: bool) -> Check<()> {
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

    fn bfe(&mut self, scalar: Scalar, ops: &[Operand]) -> Check<()> {
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

    fn lop3(&mut self, m: &mut Modifiers<'a>, ops: &[Operand]) -> Check<()> {
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
