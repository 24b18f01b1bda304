//! Loops that may wait for another thread let others run now and then.

use crate::analysis::graph::ways_back;
use crate::ir::*;
use crate::runtime::helper::Helper;
use crate::runtime::sync::SyncOp;

/// Whether a loop with this operation may wait for another thread.
pub(crate) fn waits(inst: &Inst) -> bool {
    match &inst.op {
        Op::Fence => true,
        Op::Load(memory) => memory.strong,
        Op::System(helper, _) => {
            matches!(helper, Helper::Atomic | Helper::Multicast | Helper::Mbarrier | Helper::Nanosleep)
        }
        _ => false,
    }
}

/// Adds a chance to yield to every back edge of a loop that could wait for another thread.
pub(crate) fn insert(program: &mut Program) {
    for (from, header, blocks) in ways_back(program) {
        let wait = blocks.iter().any(|block| program.blocks[*block as usize].insts.iter().any(waits));
        if !wait {
            continue;
        }
        let (function, site) = (program.blocks[from as usize].function, program.blocks[from as usize].site);
        let empty = |end| Block { insts: Vec::new(), end, function, site };
        let resume = program.blocks.len() as u32;
        program.blocks.push(empty(Terminator::Jump(header)));
        program.blocks.push(empty(Terminator::Yield { next: header, resume }));
        program.syncs.push(SyncPoint {
            op: SyncOp::Yield,
            convergence: Convergence::Alone,
            dst: vec![],
            src: vec![],
            site,
            resume,
        });
        let through = resume + 1;
        let swap = |target: &mut u32| {
            if *target == header {
                *target = through;
            }
        };
        match &mut program.blocks[from as usize].end {
            Terminator::Jump(next) => swap(next),
            Terminator::Branch { then, other, .. } => {
                swap(then);
                swap(other);
            }
            Terminator::Table { targets, .. } => targets.iter_mut().for_each(swap),
            // Calls and synchronizations let others run by themselves.
            _ => {}
        }
    }
}
