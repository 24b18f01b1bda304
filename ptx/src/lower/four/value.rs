//! Registers of four lanes: as vectors, their homes, single lanes of them, and operands.

use super::super::vector::*;
use super::*;

impl<'a> Lowering<'a, FourLanes> {
    /// A register that is not in steps is in one vector, or in two if it has 64 bits. With fewer than 32 bits, each lane has a
    /// word with zeros above; a predicate is all ones or zero.
    fn vector_type(&self, reg: Reg) -> Type {
        match (self.classes.float[reg as usize], self.bits_of(reg)) {
            (true, 32) => types::F32X4,
            (true, 64) => types::F64X2,
            (false, 64) => types::I64X2,
            _ => types::I32X4,
        }
    }

    fn four_variable(&mut self, reg: Reg, half: usize) -> Variable {
        if let Some(variable) = self.body.vectors[reg as usize][half] {
            return variable;
        }
        let kind = if self.shape(reg) == Shape::Any { self.vector_type(reg) } else { self.variable_type(reg) };
        let variable = self.b.declare_var(kind);
        self.body.vectors[reg as usize][half] = Some(variable);
        variable
    }

    pub(super) fn define_vector(&mut self, reg: Reg, half: usize, value: Value) {
        let variable = self.four_variable(reg, half);
        self.b.def_var(variable, value);
        if self.bits_of(reg) == 1 && self.shape(reg) == Shape::Any {
            let bits = self.b.ins().vhigh_bits(types::I32, value);
            let all = self.b.ins().icmp_imm_u(IntCC::Equal, bits, (1 << LANES) - 1);
            let some = self.b.ins().icmp_imm_u(IntCC::NotEqual, bits, 0);
            self.define_summary(reg, [all, some]);
        }
    }

    /// Whether a predicate holds in all lanes, and in some. Blocks are not written in the order in which they run: it may be read before
    /// it is written here.
    fn summary_variables(&mut self, reg: Reg) -> [Variable; 2] {
        if let Some(variables) = self.body.summaries[reg as usize] {
            return variables;
        }
        let variables = [(); 2].map(|()| self.b.declare_var(types::I8));
        self.body.summaries[reg as usize] = Some(variables);
        variables
    }

    pub(super) fn define_summary(&mut self, reg: Reg, values: [Value; 2]) {
        for (variable, value) in self.summary_variables(reg).into_iter().zip(values) {
            self.b.def_var(variable, value);
        }
    }

    pub(super) fn summary(&mut self, reg: Reg) -> [Value; 2] {
        self.summary_variables(reg).map(|variable| self.b.use_var(variable))
    }

    /// Sets one lane's value; the others keep theirs.
    pub(super) fn define_one_lane(&mut self, reg: Reg, lane: u32, value: Value) {
        let kind = self.vector_type(reg);
        let per_vector = kind.lane_count();
        let half = (lane / per_vector) as usize;
        let value = self.coerce(value, kind.lane_type(), false);
        let value = if self.bits_of(reg) == 1 { self.b.ins().ineg(value) } else { value };
        let vector = self.vector(reg, half);
        let vector = self.b.ins().insertlane(vector, value, (lane % per_vector) as u8);
        self.define_vector(reg, half, vector);
    }

    pub(super) fn vector(&mut self, reg: Reg, half: usize) -> Value {
        let variable = self.four_variable(reg, half);
        self.b.use_var(variable)
    }

    /// Sets a register in steps by its first lane's value.
    pub(super) fn define_first(&mut self, reg: Reg, value: Value) {
        self.define_vector(reg, 0, value);
    }

    pub(super) fn define_lanes(&mut self, reg: Reg, lanes: [Value; 4]) {
        let kind = self.vector_type(reg);
        if kind.lane_count() == 2 {
            for half in 0..2 {
                let low = self.b.ins().scalar_to_vector(kind, lanes[half * 2]);
                let both = self.b.ins().insertlane(low, lanes[half * 2 + 1], 1);
                self.define_vector(reg, half, both);
            }
            return;
        }
        let four = self.together(kind, lanes);
        let four = if self.bits_of(reg) == 1 { self.b.ins().ineg(four) } else { four };
        self.define_vector(reg, 0, four);
    }

    // ---- single lanes ----

    /// One lane's value, as the first body would have it.
    pub(super) fn of_lane(&mut self, reg: Reg, lane: u32) -> Value {
        let kind = self.variable_type(reg);
        if let Shape::Steps { step, .. } = self.shape(reg) {
            let first = self.vector(reg, 0);
            if step == 0 || lane == 0 {
                return first;
            }
            let first = self.coerce(first, int_type(kind.bits()), false);
            let value = self.b.ins().iadd_imm_s(first, step.wrapping_mul(u64::from(lane)) as i64);
            return self.coerce(value, kind, false);
        }
        let per_vector = if kind.bits() == 64 { 2 } else { 4 };
        let vector = self.vector(reg, (lane / per_vector) as usize);
        let value = self.b.ins().extractlane(vector, (lane % per_vector) as u8);
        if self.bits_of(reg) == 1 {
            let value = self.b.ins().ireduce(types::I8, value);
            return self.b.ins().band_imm_u(value, 1);
        }
        self.coerce(value, kind, false)
    }

    // ---- operands ----

    pub(super) fn shape_of(&self, value: Val, bits: u32) -> Shape {
        self.shapes.map_or(Shape::Any, |shapes| shapes.shape_of(self.program, value, bits))
    }

    /// Words with `bits` of each lane's value and zeros above, or all ones and zero for a predicate.
    pub(super) fn four_int(&mut self, value: Val, bits: u32) -> Value {
        let Shape::Steps { step, .. } = self.shape_of(value, bits) else {
            let reg = match value {
                Val::Reg(reg) if self.shape(reg) == Shape::Any => reg,
                // A number in steps need not be in steps any more when it is zero-extended.
                _ => {
                    let lanes = [0, 1, 2, 3].map(|lane| self.with_lane(lane, |this| this.int(value, bits)));
                    return self.together(types::I32X4, lanes);
                }
            };
            let own = self.bits_of(reg);
            if own == 64 {
                let halves = [0, 1].map(|half| {
                    let value = self.vector(reg, half);
                    self.cast(types::I32X4, value)
                });
                let words = self.shuffle(halves[0], halves[1], EVEN_WORDS);
                return self.cut(words, bits);
            }
            let mut words = self.vector(reg, 0);
            if own == 1 {
                return if bits == 1 { words } else { self.b.ins().ineg(words) };
            }
            if self.b.func.dfg.value_type(words) == types::F32X4 {
                if self.classes.arithmetic[reg as usize] {
                    words = self.canonical(words);
                }
                words = self.cast(types::I32X4, words);
            }
            return if bits < own { self.cut(words, bits) } else { words };
        };
        let first = self.with_lane(0, |this| this.int(value, bits));
        let first = self.coerce(first, types::I32, false);
        let first = if bits == 1 { self.b.ins().ineg(first) } else { first };
        let words = self.b.ins().splat(types::I32X4, first);
        if step == 0 {
            return words;
        }
        let steps = self.constants(types::I32X4, &[0, 1, 2, 3].map(|lane| step.wrapping_mul(lane)));
        let words = self.b.ins().iadd(words, steps);
        self.cut(words, bits)
    }

    pub(super) fn four_float(&mut self, value: Val) -> Value {
        match value {
            Val::Reg(reg) if self.shape(reg) == Shape::Any && self.bits_of(reg) == 32 => {
                let value = self.vector(reg, 0);
                self.cast(types::F32X4, value)
            }
            _ if self.shape_of(value, 32).is_same() => {
                let first = self.with_lane(0, |this| this.float(value, false));
                self.b.ins().splat(types::F32X4, first)
            }
            _ => {
                let words = self.four_int(value, 32);
                self.cast(types::F32X4, words)
            }
        }
    }

    /// An operand as two lanes of 64 bits; narrower registers are zero-extended.
    pub(super) fn half_int(&mut self, value: Val, half: usize) -> Value {
        if let Val::Reg(reg) = value
            && self.shape(reg) == Shape::Any
        {
            if self.bits_of(reg) == 64 {
                let value = self.vector(reg, half);
                return self.cast(types::I64X2, value);
            }
            let words = self.four_int(value, self.bits_of(reg).max(8));
            return self.widen(words, half, false);
        }
        match self.shape_of(value, 64) {
            Shape::Steps { step, .. } => {
                let first = self.with_lane(0, |this| this.int(value, 64));
                let both = self.b.ins().splat(types::I64X2, first);
                if step == 0 {
                    return both;
                }
                let low = half as u64 * 2;
                let steps = self.constants(types::I64X2, &[step.wrapping_mul(low), step.wrapping_mul(low + 1)]);
                self.b.ins().iadd(both, steps)
            }
            Shape::Any => {
                let lanes = [0, 1].map(|at| self.with_lane(half as u32 * 2 + at, |this| this.int(value, 64)));
                let low = self.b.ins().scalar_to_vector(types::I64X2, lanes[0]);
                self.b.ins().insertlane(low, lanes[1], 1)
            }
        }
    }

    pub(super) fn half_float(&mut self, value: Val, half: usize) -> Value {
        let bits = self.half_int(value, half);
        self.cast(types::F64X2, bits)
    }

    /// A predicate as a mask for two lanes of 64 bits.
    pub(super) fn half_mask(&mut self, value: Val, half: usize) -> Value {
        let words = self.four_int(value, 1);
        self.widen(words, half, true)
    }

    // ---- results ----

    /// Sets a register to words, which are cut or zero-extended; those of a predicate are all ones or zero.
    pub(super) fn set_four(&mut self, reg: Reg, value: Value, arithmetic: bool) {
        if reg == SINK {
            return;
        }
        let want = self.vector_type(reg);
        if want == types::F32X4 {
            let value = self.cast(want, value);
            let value =
                if arithmetic && !self.classes.arithmetic[reg as usize] { self.canonical(value) } else { value };
            return self.define_vector(reg, 0, value);
        }
        let is_float = self.b.func.dfg.value_type(value) == types::F32X4;
        let value = if is_float && arithmetic { self.canonical(value) } else { value };
        let words = self.cast(types::I32X4, value);
        match self.bits_of(reg) {
            64 => {
                for half in 0..2 {
                    let both = self.widen(words, half, false);
                    self.set_half(reg, half, both);
                }
            }
            1 => self.define_vector(reg, 0, words),
            bits => {
                let words = self.cut(words, bits);
                self.define_vector(reg, 0, words);
            }
        }
    }

    pub(super) fn set_half(&mut self, reg: Reg, half: usize, value: Value) {
        if reg == SINK {
            return;
        }
        let want = self.vector_type(reg);
        let value = self.cast(want, value);
        self.define_vector(reg, half, value);
    }

    // ---- homes ----

    /// Loads four lanes' homes. For a register in steps, also returns a vector that is all ones where they are what the first
    /// lane's implies.
    pub(super) fn load_homes(&mut self, reg: Reg) -> Option<Value> {
        let bits = self.bits_of(reg);
        let Some((offset, size)) = self.home_offset(reg) else {
            let zeros = [(); 4].map(|()| {
                let kind = self.variable_type(reg);
                self.zero(kind)
            });
            match self.shape(reg) {
                Shape::Any => self.define_lanes(reg, zeros),
                Shape::Steps { .. } => self.define_first(reg, zeros[0]),
            }
            return None;
        };
        let (base, offset) = (self.body.home_base[size], offset as i32);
        let steps = self.shape(reg) != Shape::Any;
        if steps {
            let kind = self.variable_type(reg);
            let first = self.b.ins().load(kind, trusted(), base, offset);
            self.define_first(reg, first);
        }
        if bits == 64 {
            let mut good: Option<Value> = None;
            for half in 0..2 {
                let found = self.b.ins().load(types::I64X2, loose(), base, offset + half as i32 * 16);
                if !steps {
                    self.set_half(reg, half, found);
                    continue;
                }
                let said = self.half_int(Val::Reg(reg), half);
                let same = self.b.ins().icmp(IntCC::Equal, found, said);
                let same = self.cast(types::I32X4, same);
                good = Some(good.map_or(same, |good| self.b.ins().band(good, same)));
            }
            return good;
        }
        let found = self.load_words(size, base, offset);
        if !steps {
            let found = if bits == 1 { self.b.ins().ineg(found) } else { found };
            self.set_four(reg, found, false);
            return None;
        }
        // As bits, not as a float, for which a NaN could become canonical.
        let first = self.vector(reg, 0);
        let first = self.coerce(first, types::I32, false);
        let said = self.b.ins().splat(types::I32X4, first);
        let said = match self.shape(reg) {
            Shape::Steps { step, .. } if step != 0 => {
                let steps = self.constants(types::I32X4, &[0, 1, 2, 3].map(|lane| step.wrapping_mul(lane)));
                let said = self.b.ins().iadd(said, steps);
                self.cut(said, bits)
            }
            _ => said,
        };
        Some(self.b.ins().icmp(IntCC::Equal, found, said))
    }

    pub(super) fn store_homes(&mut self, reg: Reg) {
        let Some((offset, size)) = self.home_offset(reg) else { return };
        let (base, offset) = (self.body.home_base[size], offset as i32);
        let bits = self.bits_of(reg);
        if bits == 64 {
            for half in 0..2 {
                let both = self.half_int(Val::Reg(reg), half);
                self.b.ins().store(loose(), both, base, offset + half as i32 * 16);
            }
            return;
        }
        let words = self.four_int(Val::Reg(reg), bits);
        let words = if bits == 1 { self.b.ins().ineg(words) } else { words };
        self.store_words(size, words, base, offset);
    }
}
