//! The lane from which each lane takes its value in a shuffle.

use crate::runtime::home::Source;
use crate::runtime::sync::{ShflMode, SyncOp};

/// From which lane each takes its value in a shuffle, and whether that is in its segment.
pub(crate) type Partners = ([u8; 32], [u8; 32]);

/// The partners of a shuffle whose numbers are the same in all lanes.
pub(crate) fn partners(op: SyncOp, src: &[Source]) -> Option<Box<Partners>> {
    let (SyncOp::Shfl(mode), [_, Source::Imm(by), Source::Imm(c), ..]) = (op, src) else { return None };
    let mut all = Box::new(([0; 32], [0; 32]));
    for lane in 0..32 {
        let (from, is_inside) = partner(mode, lane, *by as u32, *c as u32);
        (all.0[lane as usize], all.1[lane as usize]) = (from as u8, u8::from(is_inside));
    }
    Some(all)
}

/// From which lane a shuffle takes its value, and whether that is in its segment (PTX ISA, `shfl.sync`).
pub(crate) fn partner(mode: ShflMode, lane: u32, by: u32, c: u32) -> (u32, bool) {
    let (by, clamp, segment) = (by & 31, c & 31, c >> 8 & 31);
    let min = lane & segment;
    let max = min | (clamp & !segment);
    let (from, is_inside) = match mode {
        ShflMode::Up => (lane.wrapping_sub(by), lane as i32 - by as i32 >= max as i32),
        ShflMode::Down => (lane + by, lane + by <= max),
        ShflMode::Butterfly => (lane ^ by, lane ^ by <= max),
        ShflMode::Index => {
            let from = min | (by & !segment);
            (from, from <= max)
        }
    };
    (if is_inside { from & 31 } else { lane }, is_inside)
}
