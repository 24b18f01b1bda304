//! What a warp in step does when its last lanes have stopped: shuffles whose partners are known are carried out here, in vectors, and
//! the code goes on behind them without returning to the machine.

use super::*;
use crate::runtime::home::{Slot, Source};
use crate::runtime::shuffle::Partners;

/// Vectors of the words that a register has in a warp.
const ROWS: usize = 32 / LANES as usize;

/// A shuffle that is carried out here: from where, to where, and by whom.
struct Shuffle<'a> {
    from: Slot,
    to: Option<Slot>,
    is_inside: Option<Slot>,
    partners: &'a Partners,
}

impl<'a> Shuffle<'a> {
    fn from_point(point: &'a Point) -> Option<Self> {
        let (true, Some(partners), Some(Source::Slot(from))) =
            (point.is_met_by_warp(), &point.partners, point.src.first())
        else {
            return None;
        };
        let dst = |which: usize| point.dst.get(which).copied().flatten();
        let (to, is_inside) = (dst(0), dst(1));
        let fits = from.shift == 2 && to.is_none_or(|to| to.shift == 2) && is_inside.is_none_or(|slot| slot.shift == 0);
        fits.then_some(Self { from: *from, to, is_inside, partners })
    }
}

impl<'a> Lowering<'a, Outside> {
    /// All lanes have stopped.
    pub(in crate::lower) fn meet(&mut self, entry: Rows) {
        let shuffles: Vec<_> = self.points.iter().map(Shuffle::from_point).collect();
        let [look, met, apart] = [(); 3].map(|()| self.b.create_block());
        let is_apart = self.b.ins().icmp_imm_s(IntCC::Equal, entry.step, i64::from(APART as i32));
        self.b.ins().brif(is_apart, apart, &[], look, &[]);
        self.b.switch_to_block(apart);
        self.come_back(None);
        self.b.switch_to_block(look);
        let rows: Vec<Value> = (0..ROWS).map(|row| self.resume_of_row(row)).collect();
        let place = self.b.ins().extractlane(rows[0], 0);
        let same = self.b.ins().splat(types::I32X4, place);
        let mut differ = self.b.ins().bxor(rows[0], same);
        for row in &rows[1..] {
            let other = self.b.ins().bxor(*row, same);
            differ = self.b.ins().bor(differ, other);
        }
        let differ = self.b.ins().vany_true(differ);
        self.b.ins().brif(differ, apart, &[], met, &[]);
        self.b.switch_to_block(met);
        let Some(last) = shuffles.iter().rposition(Option::is_some) else { return self.come_back(Some(place)) };
        let other = self.b.create_block();
        let blocks: Vec<_> =
            shuffles[..=last].iter().map(|shuffle| shuffle.as_ref().map(|_| self.b.create_block())).collect();
        let mut call = |block| BlockCall::new(block, std::iter::empty::<BlockArg>(), &mut self.b.func.dfg.value_lists);
        let default = call(other);
        let table: Vec<_> =
            std::iter::once(other).chain(blocks.iter().map(|block| block.unwrap_or(other))).map(&mut call).collect();
        let table = self.b.create_jump_table(JumpTableData::new(default, &table));
        self.b.ins().br_table(place, table);
        self.b.switch_to_block(other);
        self.come_back(Some(place));
        for (index, (shuffle, block)) in shuffles.iter().zip(&blocks).enumerate() {
            let (Some(shuffle), Some(block)) = (shuffle, block) else { continue };
            self.b.switch_to_block(*block);
            self.shuffle_words(shuffle);
            let chain = self.points[index].chain;
            if chain == 0 {
                let [all, first, place] =
                    [-1, 0, index as i64 + 1].map(|number| self.b.ins().iconst(types::I32, number & 0xffff_ffff));
                self.jump(entry.block, &[all, first, place]);
                continue;
            }
            let place = self.b.ins().iconst(types::I32, i64::from(chain));
            let four = self.b.ins().splat(types::I32X4, place);
            for row in 0..ROWS {
                let at = offset_of!(Warp, resume) + row * 16;
                self.b.ins().store(loose(), four, self.warp, at as i32);
            }
            match blocks.get(chain as usize - 1) {
                Some(Some(next)) => self.jump(*next, &[]),
                _ => self.come_back(Some(place)),
            }
        }
    }

    fn resume_of_row(&mut self, row: usize) -> Value {
        self.b.ins().load(types::I32X4, loose(), self.warp, (offset_of!(Warp, resume) + row * 16) as i32)
    }

    fn shuffle_words(&mut self, shuffle: &Shuffle<'_>) {
        let (slots, partners) = (self.memory.slots, shuffle.partners);
        if let Some(to) = shuffle.to {
            // All of them first: it may be the same register.
            let from: Vec<Value> = (0..ROWS)
                .map(|row| {
                    let at = shuffle.from.offset as usize + row * 16;
                    self.b.ins().load(types::I32X4, loose(), slots, at as i32)
                })
                .collect();
            for (row, sources) in partners.0.as_chunks::<4>().0.iter().enumerate() {
                let four = self.gather(&from, *sources);
                self.b.ins().store(loose(), four, slots, (to.offset as usize + row * 16) as i32);
            }
        }
        if let Some(to) = shuffle.is_inside {
            for (half, bytes) in partners.1.as_chunks::<16>().0.iter().enumerate() {
                let numbers = bytes.map(u64::from);
                let bytes = self.constants(types::I8X16, &numbers);
                self.b.ins().store(loose(), bytes, slots, (to.offset as usize + half * 16) as i32);
            }
        }
    }

    /// A vector of four lanes' words.
    fn gather(&mut self, rows: &[Value], lanes: [u8; 4]) -> Value {
        let row_of = |lane: u8| usize::from(lane / LANES as u8);
        let first = row_of(lanes[0]);
        let second = lanes.iter().map(|lane| row_of(*lane)).find(|row| *row != first).unwrap_or(first);
        if lanes.iter().all(|lane| [first, second].contains(&row_of(*lane))) {
            let base = first as u8 * LANES as u8;
            if lanes == [base, base + 1, base + 2, base + 3] {
                return rows[first];
            }
            let bytes = std::array::from_fn(|byte| {
                let lane = lanes[byte / 4];
                let from_second = if row_of(lane) == first { 0 } else { 16 };
                from_second + lane % LANES as u8 * 4 + byte as u8 % 4
            });
            return self.shuffle(rows[first], rows[second], bytes);
        }
        let words = lanes.map(|lane| self.b.ins().extractlane(rows[row_of(lane)], lane % LANES as u8));
        self.together(types::I32X4, words)
    }
}
