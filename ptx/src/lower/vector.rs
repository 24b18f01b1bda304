//! Vectors, whichever lanes their numbers belong to.

use super::*;
use cranelift_codegen::ir::{ConstantData, Endianness};

/// Which bytes of two vectors make a third, the lowest first: those of the second vector are numbered from 16.
pub(super) const LOW_WORDS: [u8; 16] = [0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23];
pub(super) const HIGH_WORDS: [u8; 16] = [8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31];
pub(super) const LOW_HALVES: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23];
pub(super) const HIGH_HALVES: [u8; 16] = [8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31];
pub(super) const EVEN_WORDS: [u8; 16] = [0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27];
pub(super) const ODD_WORDS: [u8; 16] = [4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31];

impl<'a, B> Lowering<'a, B> {
    /// A vector of four numbers, zero-extended to words.
    pub(super) fn together(&mut self, kind: Type, lanes: [Value; 4]) -> Value {
        let lanes = lanes.map(|lane| self.coerce(lane, kind.lane_type(), false));
        let mut four = self.b.ins().scalar_to_vector(kind, lanes[0]);
        for (index, lane) in lanes.iter().enumerate().skip(1) {
            four = self.b.ins().insertlane(four, *lane, index as u8);
        }
        four
    }

    pub(super) fn cast(&mut self, kind: Type, value: Value) -> Value {
        if self.b.func.dfg.value_type(value) == kind {
            return value;
        }
        self.b.ins().bitcast(kind, MemFlagsData::new().with_endianness(Endianness::Little), value)
    }

    pub(super) fn shuffle(&mut self, a: Value, b: Value, bytes: [u8; 16]) -> Value {
        let kind = self.b.func.dfg.value_type(a);
        let (a, b) = (self.cast(types::I8X16, a), self.cast(types::I8X16, b));
        let immediate = self.b.func.dfg.immediates.push(ConstantData::from(bytes.as_slice()));
        let value = self.b.ins().shuffle(a, b, immediate);
        self.cast(kind, value)
    }

    pub(super) fn constants(&mut self, kind: Type, numbers: &[u64]) -> Value {
        let each = kind.lane_type().bytes() as usize;
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()[..each].to_vec()).collect();
        let constant = self.b.func.dfg.constants.insert(ConstantData::from(bytes.as_slice()));
        self.b.ins().vconst(kind, constant)
    }

    /// The same number in every lane of a vector of integers, or the number itself.
    pub(super) fn number_like(&mut self, like: Value, number: u64) -> Value {
        let kind = self.b.func.dfg.value_type(like);
        if !kind.is_vector() {
            return self.b.ins().iconst(kind, crate::number::truncate(number, kind.bits()) as i64);
        }
        let lane = kind.lane_type();
        let number = self.b.ins().iconst(lane, crate::number::truncate(number, lane.bits()) as i64);
        self.b.ins().splat(kind, number)
    }

    pub(super) fn cut(&mut self, words: Value, bits: u32) -> Value {
        if bits >= 32 {
            return words;
        }
        let mask = self.number_like(words, (1 << bits) - 1);
        self.b.ins().band(words, mask)
    }

    pub(super) fn widen(&mut self, words: Value, half: usize, signed: bool) -> Value {
        match (half, signed) {
            (0, true) => self.b.ins().swiden_low(words),
            (0, false) => self.b.ins().uwiden_low(words),
            (_, true) => self.b.ins().swiden_high(words),
            (_, false) => self.b.ins().uwiden_high(words),
        }
    }

    /// Four numbers of `1 << size` bytes side by side, zero-extended to words.
    pub(super) fn load_words(&mut self, size: usize, base: Value, offset: i32) -> Value {
        match size {
            0 => {
                let bytes = self.b.ins().load(types::I32, loose(), base, offset);
                let bytes = self.b.ins().scalar_to_vector(types::I32X4, bytes);
                let bytes = self.cast(types::I8X16, bytes);
                let halves = self.b.ins().uwiden_low(bytes);
                self.b.ins().uwiden_low(halves)
            }
            1 => self.b.ins().uload16x4(loose(), base, offset),
            _ => self.b.ins().load(types::I32X4, loose(), base, offset),
        }
    }

    /// Stores words as four numbers of `1 << size` bytes side by side; the bits above must be zero.
    pub(super) fn store_words(&mut self, size: usize, words: Value, base: Value, offset: i32) {
        if size >= 2 {
            self.b.ins().store(loose(), words, base, offset);
            return;
        }
        let halves = self.b.ins().unarrow(words, words);
        if size == 1 {
            let both = self.cast(types::I64X2, halves);
            let low = self.b.ins().extractlane(both, 0);
            self.b.ins().store(loose(), low, base, offset);
            return;
        }
        let bytes = self.b.ins().unarrow(halves, halves);
        let words = self.cast(types::I32X4, bytes);
        let low = self.b.ins().extractlane(words, 0);
        self.b.ins().store(loose(), low, base, offset);
    }
}
