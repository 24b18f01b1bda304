//! The blocks of a program as a graph: where each leads, which are reached at all, and its loops.

use std::collections::{BTreeMap, BTreeSet};

use crate::ir::{Program, Terminator};

/// Where a block leads: within the code, and where a thread resumes that waits or yields at its end.
pub(crate) fn successors(program: &Program, block: usize) -> (Vec<u32>, Option<u32>) {
    match &program.blocks[block].end {
        Terminator::Open | Terminator::Exit | Terminator::Trap(_) => (vec![], None),
        Terminator::Jump(next) => (vec![*next], None),
        Terminator::Branch { then, other, .. } => (vec![*then, *other], None),
        Terminator::Table { targets, .. } => (targets.clone(), None),
        Terminator::Sync(sync) => (vec![], Some(program.syncs[*sync as usize].resume)),
        Terminator::Yield { next, resume } => (vec![*next], Some(*resume)),
        Terminator::Call { callee, .. } => (vec![program.functions[*callee as usize].entry], None),
        Terminator::CallIndirect { callees, .. } => {
            (callees.iter().map(|c| program.functions[*c as usize].entry).collect(), None)
        }
        Terminator::Return => (program.functions[program.blocks[block].function as usize].returns.clone(), None),
    }
}

/// The edges of a program's blocks.
pub(crate) struct Graph {
    /// By block, as [`successors`] has them.
    pub(crate) edges: Vec<(Vec<u32>, Option<u32>)>,
    pub(crate) reachable: Vec<bool>,
    /// The blocks that are reached, each behind one that leads to it.
    pub(crate) order: Vec<usize>,
}

impl Graph {
    pub(crate) fn new(program: &Program) -> Self {
        let blocks = program.blocks.len();
        let edges: Vec<_> = (0..blocks).map(|block| successors(program, block)).collect();
        let mut reachable = vec![false; blocks];
        let mut order = Vec::new();
        let mut stack = vec![0u32];
        while let Some(block) = stack.pop() {
            if std::mem::replace(&mut reachable[block as usize], true) {
                continue;
            }
            order.push(block as usize);
            stack.extend(&edges[block as usize].0);
            stack.extend(edges[block as usize].1);
        }
        Self { edges, reachable, order }
    }
}

/// A loop: the blocks from which its first one is reached again without leaving it.
pub(crate) struct Loop {
    pub(crate) header: u32,
    pub(crate) blocks: BTreeSet<u32>,
}

impl Loop {
    /// Whether it is a part of the other one.
    pub(crate) fn is_within(&self, other: &Self) -> bool {
        self.header != other.header && self.blocks.len() < other.blocks.len() && self.blocks.is_subset(&other.blocks)
    }
}

/// All loops of a program, one for each header.
pub(crate) fn loops(program: &Program) -> Vec<Loop> {
    let mut loops: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for (_, header, blocks) in ways_back(program) {
        loops.entry(header).or_default().extend(blocks);
    }
    loops.into_iter().map(|(header, blocks)| Loop { header, blocks }).collect()
}

/// For each back edge: the block that it leaves, the one that it leads back to, and all blocks of the loop.
pub(crate) fn ways_back(program: &Program) -> Vec<(u32, u32, BTreeSet<u32>)> {
    let count = program.blocks.len();
    let edges: Vec<Vec<u32>> = (0..count)
        .map(|block| {
            let (mut next, sync) = successors(program, block);
            next.extend(sync);
            next
        })
        .collect();
    let back = back_edges(&edges);
    let mut before = vec![Vec::new(); count];
    if !back.is_empty() {
        for (from, list) in edges.iter().enumerate() {
            for to in list {
                before[*to as usize].push(from as u32);
            }
        }
    }
    let inside = |(from, header): (u32, u32)| {
        let mut blocks = BTreeSet::from([header]);
        let mut queue = vec![from];
        while let Some(block) = queue.pop() {
            if blocks.insert(block) {
                queue.extend(&before[block as usize]);
            }
        }
        (from, header, blocks)
    };
    back.into_iter().map(inside).collect()
}

/// The edges that lead back: those to a block that is still open in a depth-first search. There is no recursion, so that long
/// programs do not overflow the stack.
fn back_edges(edges: &[Vec<u32>]) -> Vec<(u32, u32)> {
    let mut state = vec![0u8; edges.len()];
    let mut back = Vec::new();
    let mut stack = vec![(0u32, 0usize)];
    state[0] = 1;
    while let Some((block, at)) = stack.pop() {
        if let Some(next) = edges[block as usize].get(at) {
            stack.push((block, at + 1));
            match state[*next as usize] {
                0 => {
                    state[*next as usize] = 1;
                    stack.push((*next, 0));
                }
                1 => back.push((block, *next)),
                _ => {}
            }
        } else {
            state[block as usize] = 2;
        }
    }
    back
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::sample::{branch, program};
    use Terminator::{Exit, Jump};

    #[test]
    fn blocks_that_nothing_leads_to_are_not_reached() {
        let program = program(vec![(vec![], Jump(2)), (vec![], Jump(2)), (vec![], Exit)]);
        let graph = Graph::new(&program);
        assert_eq!((graph.reachable, graph.order), (vec![true, false, true], vec![0, 2]));
    }

    #[test]
    fn a_loop_has_all_blocks_that_lead_back() {
        // b1 is the header of both ways around; b5 is on none.
        let program = program(vec![
            (vec![], Jump(1)),
            (vec![], branch(2, 5)),
            (vec![], branch(3, 4)),
            (vec![], Jump(1)),
            (vec![], Jump(1)),
            (vec![], Exit),
        ]);
        let found: Vec<_> = loops(&program).into_iter().map(|each| (each.header, each.blocks)).collect();
        assert_eq!(found, [(1, BTreeSet::from([1, 2, 3, 4]))]);
    }

    #[test]
    fn a_loop_is_within_the_one_around_it() {
        let program = program(vec![
            (vec![], Jump(1)),
            (vec![], Jump(2)),
            (vec![], branch(2, 3)),
            (vec![], branch(1, 4)),
            (vec![], Exit),
        ]);
        let loops = loops(&program);
        let [outer, inner] = &loops[..] else { panic!("{} loops", loops.len()) };
        assert_eq!((outer.header, inner.header), (1, 2));
        assert!(inner.is_within(outer) && !outer.is_within(inner) && !outer.is_within(outer));
    }
}
