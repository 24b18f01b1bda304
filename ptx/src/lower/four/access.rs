//! Loads and stores of four lanes: as one access if their addresses are consecutive, else lane by lane.

use super::super::vector::*;
use super::*;

/// The elements of an access: each has the values of four lanes, as one vector or as two halves.
type Elements = Vec<[Value; 2]>;

impl<'a> Lowering<'a, FourLanes> {
    pub(super) fn load_together(&mut self, memory: &Memory, inst: &Inst) {
        let count = inst.dst.len() as u32;
        let wide = |reg: &Reg| *reg != SINK && self.bits_of(*reg) > memory.scalar.bits().max(32);
        let steps = |reg: &Reg| *reg != SINK && self.shape(*reg) != Shape::Any;
        if inst.dst.iter().any(|reg| steps(reg) || wide(reg)) || !is_in_vectors(memory, count) {
            return self.each_lane(inst);
        }
        self.where_in_a_row(memory, inst, count, |this, inst| {
            let host = this.resolve(memory, inst.src[0], memory.scalar.bytes() * count, false, LANES);
            let elements = this.load_elements(memory.scalar.bytes(), count, host);
            for (reg, element) in inst.dst.iter().zip(elements) {
                if *reg == SINK {
                    continue;
                }
                if memory.scalar.bits() == 64 {
                    if this.bits_of(*reg) == 64 {
                        this.set_half(*reg, 0, element[0]);
                        this.set_half(*reg, 1, element[1]);
                    } else {
                        let words = element.map(|half| this.cast(types::I32X4, half));
                        let words = this.shuffle(words[0], words[1], EVEN_WORDS);
                        this.set_four(*reg, words, false);
                    }
                    continue;
                }
                let signed = memory.scalar.signed();
                let words = if signed { this.sign_extended(element[0], memory.scalar.bits()) } else { element[0] };
                this.set_four(*reg, words, false);
            }
        });
    }

    pub(super) fn store_together(&mut self, memory: &Memory, inst: &Inst) {
        let count = inst.src.len() as u32 - 1;
        if memory.once {
            return self.one_lane(inst, LANES - 1);
        }
        let is_shared = self.shapes.is_some_and(|shapes| shapes.is_shared_by_lanes(memory.space));
        if is_shared && self.shape_of(inst.src[0], 64).is_same() {
            // All lanes write to one place; the last one's value stays.
            return self.one_lane(inst, LANES - 1);
        }
        if !is_in_vectors(memory, count) {
            return self.each_lane(inst);
        }
        self.where_in_a_row(memory, inst, count, |this, inst| {
            let host = this.resolve(memory, inst.src[0], memory.scalar.bytes() * count, true, LANES);
            let bits = memory.scalar.bits();
            let elements = inst.src[1..]
                .iter()
                .map(|value| {
                    if bits == 64 {
                        [this.half_int(*value, 0), this.half_int(*value, 1)]
                    } else {
                        [this.four_int(*value, bits.max(8)); 2]
                    }
                })
                .collect();
            this.store_elements(memory.scalar.bytes(), elements, host);
        });
    }

    /// Accesses memory by `together` if the lanes' places are consecutive, else lane by lane. If the shape of the address does
    /// not tell, this is decided each time.
    fn where_in_a_row(&mut self, memory: &Memory, inst: &Inst, count: u32, together: impl FnOnce(&mut Self, &Inst)) {
        let is_shared = self.shapes.is_some_and(|shapes| shapes.is_shared_by_lanes(memory.space));
        let bytes = u64::from(memory.scalar.bytes() * count);
        if !is_shared {
            return self.each_lane(inst);
        }
        match self.shape_of(inst.src[0], 64) {
            Shape::Steps { step, .. } if step == bytes => together(self, inst),
            Shape::Steps { .. } => self.each_lane(inst),
            Shape::Any => {
                let [low, high] = [0, 1].map(|half| self.half_int(inst.src[0], half));
                let first = self.b.ins().extractlane(low, 0);
                let first = self.b.ins().splat(types::I64X2, first);
                let mut good = Vec::new();
                for (half, found) in [low, high].into_iter().enumerate() {
                    let at = half as u64 * 2;
                    let steps = self.constants(types::I64X2, &[bytes * at, bytes * (at + 1)]);
                    let said = self.b.ins().iadd(first, steps);
                    good.push(self.b.ins().icmp(IntCC::Equal, found, said));
                }
                let all = self.b.ins().band(good[0], good[1]);
                let all = self.b.ins().vall_true(all);
                let [row, apart, join] = [(); 3].map(|()| self.b.create_block());
                self.b.ins().brif(all, row, &[], apart, &[]);
                self.b.switch_to_block(row);
                together(self, inst);
                self.take_results();
                self.jump(join, &[]);
                self.b.switch_to_block(apart);
                self.each_lane(inst);
                self.take_results();
                self.jump(join, &[]);
                self.b.switch_to_block(join);
            }
        }
    }

    /// Elements of four lanes: words in the first of each pair, or two halves of 64 bits.
    fn load_elements(&mut self, each: u32, count: u32, host: Value) -> Elements {
        if each == 8 {
            let halves: Vec<Value> =
                (0..2 * count as i32).map(|index| self.b.ins().load(types::I64X2, loose(), host, index * 16)).collect();
            if count == 1 {
                return vec![[halves[0], halves[1]]];
            }
            return [LOW_HALVES, HIGH_HALVES]
                .into_iter()
                .map(|bytes| [0, 2].map(|at| self.shuffle(halves[at], halves[at + 1], bytes)))
                .collect();
        }
        if each < 4 && count == 1 {
            let words = self.load_words(each.trailing_zeros() as usize, host, 0);
            return vec![[words; 2]];
        }
        let rows: Vec<Value> = (0..(count * each / 4) as i32)
            .map(|index| self.b.ins().load(types::I32X4, loose(), host, index * 16))
            .collect();
        let words = self.columns(&rows);
        let mut elements = Vec::new();
        for word in words {
            match each {
                4 => elements.push([word; 2]),
                2 => elements.extend(self.both_halves(word).map(|half| [half; 2])),
                _ => {
                    for half in self.both_halves(word) {
                        let by = self.b.ins().iconst(types::I32, 8);
                        let high = self.b.ins().ushr(half, by);
                        let low = self.cut(half, 8);
                        elements.extend([[low; 2], [high; 2]]);
                    }
                }
            }
        }
        elements
    }

    fn store_elements(&mut self, each: u32, elements: Elements, host: Value) {
        let count = elements.len();
        if each == 8 {
            let halves: Vec<Value> = if count == 1 {
                elements[0].to_vec()
            } else {
                [0, 1]
                    .into_iter()
                    .flat_map(|half| [LOW_HALVES, HIGH_HALVES].map(|bytes| (half, bytes)))
                    .map(|(half, bytes)| self.shuffle(elements[0][half], elements[1][half], bytes))
                    .collect()
            };
            for (index, half) in halves.into_iter().enumerate() {
                self.b.ins().store(loose(), half, host, index as i32 * 16);
            }
            return;
        }
        if each < 4 && count == 1 {
            return self.store_words(each.trailing_zeros() as usize, elements[0][0], host, 0);
        }
        let mut words: Vec<Value> = elements.into_iter().map(|element| element[0]).collect();
        if each == 1 {
            let by = self.b.ins().iconst(types::I32, 8);
            words = words
                .chunks(2)
                .map(|two| {
                    let high = self.b.ins().ishl(two[1], by);
                    self.b.ins().bor(two[0], high)
                })
                .collect();
        }
        if each < 4 {
            words = words.chunks(2).map(|two| self.halves_of_words(two[0], two[1])).collect();
        }
        for (index, row) in self.rows(&words).into_iter().enumerate() {
            self.b.ins().store(loose(), row, host, index as i32 * 16);
        }
    }

    /// Vectors with the first, second and so on word of each lane, from vectors with each lane's words one after the other.
    fn columns(&mut self, rows: &[Value]) -> Vec<Value> {
        match rows {
            [a, b] => [EVEN_WORDS, ODD_WORDS].map(|bytes| self.shuffle(*a, *b, bytes)).to_vec(),
            [_, _, _, _] => self.transposed(rows),
            _ => rows.to_vec(),
        }
    }

    fn rows(&mut self, columns: &[Value]) -> Vec<Value> {
        match columns {
            [a, b] => [LOW_WORDS, HIGH_WORDS].map(|bytes| self.shuffle(*a, *b, bytes)).to_vec(),
            [_, _, _, _] => self.transposed(columns),
            _ => columns.to_vec(),
        }
    }

    fn transposed(&mut self, v: &[Value]) -> Vec<Value> {
        let mut all = Vec::new();
        for bytes in [LOW_WORDS, HIGH_WORDS] {
            let (left, right) = (self.shuffle(v[0], v[1], bytes), self.shuffle(v[2], v[3], bytes));
            all.push(self.shuffle(left, right, LOW_HALVES));
            all.push(self.shuffle(left, right, HIGH_HALVES));
        }
        all
    }
}

/// Whether the lanes' accesses can become one if they are consecutive. Ordered accesses stay as they are.
fn is_in_vectors(memory: &Memory, count: u32) -> bool {
    let shape = match memory.scalar.bytes() {
        1 => matches!(count, 1 | 4 | 8 | 16),
        2 => matches!(count, 1 | 2 | 4 | 8),
        4 => matches!(count, 1 | 2 | 4),
        8 => matches!(count, 1 | 2),
        _ => false,
    };
    !memory.is_ordered() && shape
}
