//! The points of a kernel at which threads synchronize: what is done there, and where the values of its lanes are.

use crate::analysis::Flow;
use crate::analysis::homes::size_of;
use crate::ir::{Convergence, Program, SINK, Terminator, Val};
use crate::runtime::home::{Slot, Source};
use crate::runtime::shuffle::{Partners, partners};
use crate::runtime::sync::SyncOp;

/// A synchronization as the machine needs it.
#[derive(Debug)]
pub(crate) struct Point {
    pub(crate) op: SyncOp,
    pub(crate) convergence: Convergence,
    pub(crate) dst: Vec<Option<Slot>>,
    pub(crate) src: Vec<Source>,
    pub(crate) site: u32,
    /// What `Warp::resume` is at the point that follows with no code in between, or 0.
    pub(crate) chain: u32,
    /// A number that points have in common if the threads of a warp may meet in any of them; 0 if they meet in this one alone.
    pub(crate) key: u32,
    /// The partners of the lanes, if this is a shuffle whose numbers are the same in all lanes.
    pub(crate) partners: Option<Box<Partners>>,
}

impl Point {
    /// Whether the lanes of a whole warp that are here have all that they wait for.
    pub(crate) fn is_met_by_warp(&self) -> bool {
        match self.convergence {
            Convergence::Warp | Convergence::Arrived | Convergence::Pace => true,
            Convergence::Mask(which) => {
                matches!(self.src[which as usize], Source::Imm(mask) if mask as u32 == u32::MAX)
            }
            Convergence::Block | Convergence::Alone | Convergence::Cluster => false,
        }
    }
}

/// The points of a program, in its order.
pub(crate) fn points(program: &Program, flow: &Flow) -> Vec<Point> {
    let slot = |reg: u32| {
        if reg == SINK {
            return None;
        }
        let offset = flow.homes[reg as usize]?;
        Some(Slot { offset, shift: size_of(program, reg).trailing_zeros() })
    };
    let mut keys: Vec<SyncOp> = Vec::new();
    let mut key = |op: SyncOp, convergence: Convergence| match convergence {
        Convergence::Mask(_) | Convergence::Block => match keys.iter().position(|known| *known == op) {
            Some(at) => at as u32 + 1,
            None => {
                keys.push(op);
                keys.len() as u32
            }
        },
        _ => 0,
    };
    program
        .syncs
        .iter()
        .map(|sync| {
            let resume = &program.blocks[sync.resume as usize];
            let chain = match resume.end {
                Terminator::Sync(next) if resume.insts.is_empty() && flow.restores[sync.resume as usize].is_empty() => {
                    next + 1
                }
                _ => 0,
            };
            let source = |value: &Val| match value {
                Val::Reg(reg) => slot(*reg).map_or(Source::Imm(0), Source::Slot),
                Val::Imm(value) => Source::Imm(*value),
                _ => Source::Imm(0),
            };
            let src: Vec<Source> = sync.src.iter().map(source).collect();
            Point {
                op: sync.op,
                convergence: sync.convergence,
                dst: sync.dst.iter().map(|reg| slot(*reg)).collect(),
                partners: partners(sync.op, &src),
                src,
                site: sync.site,
                chain,
                key: key(sync.op, sync.convergence),
            }
        })
        .collect()
}
