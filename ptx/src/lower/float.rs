//! Arithmetic and comparisons of f32 and f64.

use super::*;

impl<'a, B> Lowering<'a, B>
where
    Self: Body,
{
    pub(super) fn float_op(&mut self, op: FloatOp, double: bool, ftz: bool, sat: bool, inst: &Inst) {
        let ftz = ftz && !double;
        let values: Vec<Value> = inst
            .src
            .iter()
            .map(|value| {
                let value = self.float(*value, double);
                if ftz { self.flush(value) } else { value }
            })
            .collect();
        let ins = self.b.ins();
        let (a, b) = (values[0], *values.get(1).unwrap_or(&values[0]));
        let result = match op {
            FloatOp::Add => ins.fadd(a, b),
            FloatOp::Sub => ins.fsub(a, b),
            FloatOp::Mul => ins.fmul(a, b),
            FloatOp::Fma => ins.fma(a, b, values[2]),
            FloatOp::Div => ins.fdiv(a, b),
            FloatOp::Sqrt => ins.sqrt(a),
            FloatOp::Neg => ins.fneg(a),
            FloatOp::Abs => ins.fabs(a),
            FloatOp::Round(Rounding::Nearest) => ins.nearest(a),
            FloatOp::Round(Rounding::Zero) => ins.trunc(a),
            FloatOp::Round(Rounding::Down) => ins.floor(a),
            FloatOp::Round(Rounding::Up) => ins.ceil(a),
            FloatOp::Min { nan } | FloatOp::Max { nan } => {
                let least = if matches!(op, FloatOp::Min { .. }) { ins.fmin(a, b) } else { ins.fmax(a, b) };
                if nan {
                    least
                } else {
                    // A number wins over NaN.
                    let a_is = self.b.ins().fcmp(FloatCC::Ordered, a, a);
                    let b_is = self.b.ins().fcmp(FloatCC::Ordered, b, b);
                    let one = self.choose(a_is, least, b);
                    self.choose(b_is, one, a)
                }
            }
        };
        let result = if ftz { self.flush(result) } else { result };
        let result = if sat { self.saturate(result) } else { result };
        let dst = inst.dst[0];
        if double { self.set(dst, result) } else { self.set_float(dst, result) }
    }

    /// The nearest number of [+0, 1]; +0 for NaN.
    fn saturate(&mut self, value: Value) -> Value {
        let (zero, one) = (self.float_like(value, 0.0), self.float_like(value, 1.0));
        let above = self.b.ins().fcmp(FloatCC::GreaterThan, value, zero);
        let value = self.choose(above, value, zero);
        let below = self.b.ins().fcmp(FloatCC::LessThan, value, one);
        self.choose(below, value, one)
    }

    pub(super) fn compare(&mut self, compare: Compare, scalar: Scalar, ftz: bool, inst: &Inst) -> Value {
        if scalar.float() {
            let double = scalar == Scalar::F64;
            let (mut a, mut b) = (self.float(inst.src[0], double), self.float(inst.src[1], double));
            if ftz && !double {
                (a, b) = (self.flush(a), self.flush(b));
            }
            let code = match compare {
                Compare::Eq => FloatCC::Equal,
                Compare::Ne => FloatCC::OrderedNotEqual,
                Compare::Lt => FloatCC::LessThan,
                Compare::Le => FloatCC::LessThanOrEqual,
                Compare::Gt => FloatCC::GreaterThan,
                Compare::Ge => FloatCC::GreaterThanOrEqual,
                Compare::Equ => FloatCC::UnorderedOrEqual,
                Compare::Neu => FloatCC::NotEqual,
                Compare::Ltu => FloatCC::UnorderedOrLessThan,
                Compare::Leu => FloatCC::UnorderedOrLessThanOrEqual,
                Compare::Gtu => FloatCC::UnorderedOrGreaterThan,
                Compare::Geu => FloatCC::UnorderedOrGreaterThanOrEqual,
                Compare::Num => FloatCC::Ordered,
                Compare::Nan => FloatCC::Unordered,
            };
            if self.b.func.dfg.value_type(a).is_vector() && matches!(compare, Compare::Ne | Compare::Equ) {
                // The code generator has no vector form of these two.
                let ordered = self.b.ins().fcmp(FloatCC::Ordered, a, b);
                let equal = self.b.ins().fcmp(FloatCC::Equal, a, b);
                let differ = self.b.ins().band_not(ordered, equal);
                return if compare == Compare::Ne { differ } else { self.b.ins().bnot(differ) };
            }
            return self.b.ins().fcmp(code, a, b);
        }
        let bits = scalar.bits();
        let (a, b) = (self.int(inst.src[0], bits), self.int(inst.src[1], bits));
        let signed = scalar.signed();
        let code = match (compare, signed) {
            (Compare::Eq, _) => IntCC::Equal,
            (Compare::Ne, _) => IntCC::NotEqual,
            (Compare::Lt, true) => IntCC::SignedLessThan,
            (Compare::Le, true) => IntCC::SignedLessThanOrEqual,
            (Compare::Gt, true) => IntCC::SignedGreaterThan,
            (Compare::Ge, true) => IntCC::SignedGreaterThanOrEqual,
            (Compare::Lt, false) => IntCC::UnsignedLessThan,
            (Compare::Le, false) => IntCC::UnsignedLessThanOrEqual,
            (Compare::Gt, false) => IntCC::UnsignedGreaterThan,
            _ => IntCC::UnsignedGreaterThanOrEqual,
        };
        self.b.ins().icmp(code, a, b)
    }
}
