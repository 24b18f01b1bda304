//! What a warp in step does when its last lanes have stopped: shuffles whose partners are known are carried out here, in vectors, and
//! the code goes on behind them without returning to the machine.

use super::*;
use crate::runtime::home::{Slot, Source};
use crate::runtime::shuffle::Partners;

/// How many vectors hold the words that a register has in a warp.
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

/// Goes on when all lanes have stopped: carries out the shuffle at which all of them are, or returns to the machine.
pub(in crate::lower) fn meet<B>(lowering: &mut Lowering<'_, B>, entry: Rows) {
    let shuffles: Vec<_> = lowering.points.iter().map(Shuffle::from_point).collect();
    let [look, met, apart] = [(); 3].map(|()| lowering.b.create_block());
    let is_apart = lowering.b.ins().icmp_imm_s(IntCC::Equal, entry.step, i64::from(APART as i32));
    lowering.b.ins().brif(is_apart, apart, &[], look, &[]);
    lowering.b.switch_to_block(apart);
    lowering.come_back(None);
    lowering.b.switch_to_block(look);
    let rows: Vec<Value> = (0..ROWS).map(|row| resume_of_row(lowering, row)).collect();
    let place = lowering.b.ins().extractlane(rows[0], 0);
    let same = lowering.b.ins().splat(types::I32X4, place);
    let mut differ = lowering.b.ins().bxor(rows[0], same);
    for row in &rows[1..] {
        let other = lowering.b.ins().bxor(*row, same);
        differ = lowering.b.ins().bor(differ, other);
    }
    let differ = lowering.b.ins().vany_true(differ);
    lowering.b.ins().brif(differ, apart, &[], met, &[]);
    lowering.b.switch_to_block(met);
    let Some(last) = shuffles.iter().rposition(Option::is_some) else { return lowering.come_back(Some(place)) };
    let other = lowering.b.create_block();
    let blocks: Vec<_> =
        shuffles[..=last].iter().map(|shuffle| shuffle.as_ref().map(|_| lowering.b.create_block())).collect();
    let mut call = |block| BlockCall::new(block, std::iter::empty::<BlockArg>(), &mut lowering.b.func.dfg.value_lists);
    let default = call(other);
    let table: Vec<_> =
        std::iter::once(other).chain(blocks.iter().map(|block| block.unwrap_or(other))).map(&mut call).collect();
    let table = lowering.b.create_jump_table(JumpTableData::new(default, &table));
    lowering.b.ins().br_table(place, table);
    lowering.b.switch_to_block(other);
    lowering.come_back(Some(place));
    for (index, (shuffle, block)) in shuffles.iter().zip(&blocks).enumerate() {
        let (Some(shuffle), Some(block)) = (shuffle, block) else { continue };
        lowering.b.switch_to_block(*block);
        shuffle_words(lowering, shuffle);
        let chain = lowering.points[index].chain;
        if chain == 0 {
            let [all, first, place] =
                [-1, 0, index as i64 + 1].map(|number| lowering.b.ins().iconst(types::I32, number & 0xffff_ffff));
            lowering.jump(entry.block, &[all, first, place]);
            continue;
        }
        let place = lowering.b.ins().iconst(types::I32, i64::from(chain));
        let four = lowering.b.ins().splat(types::I32X4, place);
        for row in 0..ROWS {
            let at = offset_of!(Warp, resume) + row * 16;
            lowering.b.ins().store(loose(), four, lowering.warp, at as i32);
        }
        match blocks.get(chain as usize - 1) {
            Some(Some(next)) => lowering.jump(*next, &[]),
            _ => lowering.come_back(Some(place)),
        }
    }
}

fn resume_of_row<B>(lowering: &mut Lowering<'_, B>, row: usize) -> Value {
    lowering.b.ins().load(types::I32X4, loose(), lowering.warp, (offset_of!(Warp, resume) + row * 16) as i32)
}

fn shuffle_words<B>(lowering: &mut Lowering<'_, B>, shuffle: &Shuffle<'_>) {
    let (slots, partners) = (lowering.memory.slots, shuffle.partners);
    if let Some(to) = shuffle.to {
        // All are loaded before one is stored, because it may be the same register.
        let from: Vec<Value> = (0..ROWS)
            .map(|row| {
                let at = shuffle.from.offset as usize + row * 16;
                lowering.b.ins().load(types::I32X4, loose(), slots, at as i32)
            })
            .collect();
        for (row, sources) in partners.0.as_chunks::<4>().0.iter().enumerate() {
            let four = gather(lowering, &from, *sources);
            lowering.b.ins().store(loose(), four, slots, (to.offset as usize + row * 16) as i32);
        }
    }
    if let Some(to) = shuffle.is_inside {
        for (half, bytes) in partners.1.as_chunks::<16>().0.iter().enumerate() {
            let numbers = bytes.map(u64::from);
            let bytes = lowering.constants(types::I8X16, &numbers);
            lowering.b.ins().store(loose(), bytes, slots, (to.offset as usize + half * 16) as i32);
        }
    }
}

/// A vector of four lanes' words.
fn gather<B>(lowering: &mut Lowering<'_, B>, rows: &[Value], lanes: [u8; 4]) -> Value {
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
        return lowering.shuffle(rows[first], rows[second], bytes);
    }
    let words = lanes.map(|lane| lowering.b.ins().extractlane(rows[row_of(lane)], lane % LANES as u8));
    lowering.together(types::I32X4, words)
}
