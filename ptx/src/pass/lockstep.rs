//! Lanes of a warp that keep pace. Before Volta, the threads of a warp ran in step, and there are kernels that still rely on it:
//! CuPy's `partition` sorts with a warp whose lanes read in one iteration what other lanes wrote in the one before, with no
//! `__syncwarp` between. Hardware runs lanes together that take the same path, so this works there. Here, lanes run one after the
//! other; but in loops around such loops, they wait for each other, if others can come.

use super::yields::waits;
use crate::analysis::graph::{Loop, loops};
use crate::host::memory_ops::AddressSpace;
use crate::ir::*;
use crate::runtime::sync::SyncOp;

/// Makes lanes keep pace where they may exchange data so: at the beginning of each iteration of a loop in which nothing else
/// synchronizes, around a loop with loads and stores.
pub(crate) fn insert(program: &mut Program) {
    let mut loops = loops(program);
    // The inner loops come first: of several points, the machine takes the first one, and lanes that are further in have to go first.
    loops.sort_by_key(|each| each.blocks.len());
    let outer: Vec<&Loop> = loops
        .iter()
        .filter(|each| is_free(program, each))
        .filter(|each| loops.iter().any(|inner| inner.is_within(each) && exchanges(program, inner)))
        .collect();
    let headers: Vec<u32> = outer.iter().map(|each| each.header).collect();
    for header in headers {
        keep_pace(program, header);
    }
}

/// Whether nothing in a loop synchronizes threads. A thread that waits for others must get out of their way, not keep pace.
fn is_free(program: &Program, each: &Loop) -> bool {
    each.blocks.iter().all(|block| {
        use Terminator::{Branch, Exit, Jump, Table, Trap};
        let block = &program.blocks[*block as usize];
        let goes_on = matches!(block.end, Jump(_) | Branch { .. } | Table { .. } | Exit | Trap(_));
        goes_on && !block.insts.iter().any(waits)
    })
}

/// Whether a loop loads and stores in a memory that lanes share.
fn exchanges(program: &Program, each: &Loop) -> bool {
    let of = |memory: &Memory| (!memory.strong).then_some(memory.space);
    let (mut loads, mut stores) = (Vec::new(), Vec::new());
    for inst in each.blocks.iter().flat_map(|block| &program.blocks[*block as usize].insts) {
        match &inst.op {
            Op::Load(memory) => loads.extend(of(memory)),
            Op::Store(memory) => stores.extend(of(memory)),
            _ => {}
        }
    }
    use AddressSpace::{Generic, Global, Shared};
    let has = |spaces: &[AddressSpace], space| spaces.contains(&space) || spaces.contains(&Generic);
    [Global, Shared].into_iter().any(|space| has(&loads, space) && has(&stores, space))
}

/// Leads every way to a block past a point where lanes keep pace.
fn keep_pace(program: &mut Program, header: u32) {
    let (function, site) = (program.blocks[header as usize].function, program.blocks[header as usize].site);
    let (wait, resume) = (program.blocks.len() as u32, program.blocks.len() as u32 + 1);
    for block in &mut program.blocks {
        let turn = |target: &mut u32| {
            if *target == header {
                *target = wait;
            }
        };
        match &mut block.end {
            Terminator::Jump(next) => turn(next),
            Terminator::Branch { then, other, .. } => [then, other].into_iter().for_each(turn),
            Terminator::Table { targets, .. } => targets.iter_mut().for_each(turn),
            _ => {}
        }
    }
    let empty = |end| Block { insts: Vec::new(), end, function, site };
    program.blocks.push(empty(Terminator::Sync(program.syncs.len() as u32)));
    program.blocks.push(empty(Terminator::Jump(header)));
    let (op, convergence) = (SyncOp::Step, Convergence::Pace);
    program.syncs.push(SyncPoint { op, convergence, dst: vec![], src: vec![], site, resume });
}
