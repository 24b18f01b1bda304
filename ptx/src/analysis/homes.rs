//! Which registers have a home in the warp's memory, where it is, and which registers may differ from theirs.

use super::access::{Accesses, sources, sync_at};
use super::graph::Graph;
use super::set::Set;
use crate::ir::{Program, Reg};

/// Lanes of a warp, each with its place in a home.
const LANES: u32 = 32;

/// Bytes of a register; a predicate has one.
pub(crate) fn size_of(program: &Program, reg: Reg) -> u32 {
    program.regs[reg as usize].scalar.bytes().max(1)
}

/// The registers that need a home: those that are live where a thread resumes or continues alone, and the operands and results of
/// synchronizations.
pub(crate) fn residents(program: &Program, graph: &Graph, live: &[Set], parting: &[Set]) -> Set {
    let mut residents = Set::new(program.regs.len());
    for block in &graph.order {
        if let Some(resume) = graph.edges[*block].1 {
            residents.union(&live[resume as usize]);
        }
        if let Some(sync) = sync_at(program, *block) {
            sync.dst.iter().for_each(|reg| residents.insert(*reg));
            sources(sync).for_each(|reg| residents.insert(reg));
        }
        residents.union(&parting[*block]);
    }
    residents
}

/// The offset of each register's home, and the bytes of all. The widest come first, so that all are aligned.
pub(crate) fn places(program: &Program, residents: &Set) -> (Vec<Option<u32>>, u32) {
    let mut offsets = vec![None; program.regs.len()];
    let mut at = 0;
    for size in [16, 8, 4, 2, 1] {
        for reg in residents.iter().filter(|reg| size_of(program, *reg) == size) {
            offsets[reg as usize] = Some(at);
            at += size * LANES;
        }
    }
    (offsets, at)
}

/// By block: registers that could differ from their homes at its end, because a block on some way there wrote them after the
/// thread resumed, or they still have the values that every thread begins with: homes have those of the block before.
pub(crate) fn unsaved(program: &Program, graph: &Graph, live: &[Set], accesses: &Accesses) -> Vec<Set> {
    let mut entered = vec![Set::new(program.regs.len()); program.blocks.len()];
    entered[0] = live[0].clone();
    let end = |entered: &[Set], block: usize| {
        let mut set = entered[block].clone();
        set.union(&accesses.writes[block]);
        set
    };
    let mut changed = true;
    while changed {
        changed = false;
        for block in &graph.order {
            let end = end(&entered, *block);
            for next in &graph.edges[*block].0 {
                changed |= entered[*next as usize].union(&end);
            }
        }
    }
    (0..program.blocks.len()).map(|block| end(&entered, block)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Terminator::{Exit, Jump, Sync};
    use crate::ir::sample::{add, list, program, shuffle};

    /// b0 writes %2 and %7, and waits; b1 writes %6; b2 reads them all.
    fn sample() -> Program {
        let mut program = program(vec![
            (vec![add(2, 3), add(7, 3)], Sync(0)),
            (vec![add(6, 5)], Jump(2)),
            (vec![add(8, 2), add(8, 6)], Exit),
        ]);
        program.syncs.push(shuffle(5, 4, 1));
        program
    }

    #[test]
    fn what_crosses_a_synchronization_lives_in_memory() {
        let program = sample();
        let graph = Graph::new(&program);
        let live = crate::analysis::liveness::live(&program, &graph, &Accesses::new(&program, &graph));
        let parting = super::super::parting::parting(&program, &graph, &live, None);
        // %4 and %5 belong to the synchronization; %2 and its result %5 are live behind it.
        assert_eq!(list(&residents(&program, &graph, &live, &parting.live)), [2, 4, 5]);
    }

    #[test]
    fn wide_homes_come_first() {
        // Registers 0 and 1 have 64 bits, 10 is a predicate, all others 32.
        let mut residents = Set::new(11);
        [10, 3, 1].into_iter().for_each(|reg| residents.insert(reg));
        let (offsets, bytes) = places(&sample(), &residents);
        assert_eq!((offsets[1], offsets[3], offsets[10], offsets[2]), (Some(0), Some(256), Some(384), None));
        assert_eq!(bytes, 416);
    }

    #[test]
    fn what_was_written_since_a_thread_resumed_is_unsaved() {
        let program = sample();
        let graph = Graph::new(&program);
        let accesses = Accesses::new(&program, &graph);
        let live = crate::analysis::liveness::live(&program, &graph, &accesses);
        let unsaved = unsaved(&program, &graph, &live, &accesses);
        // A thread resumes in b1 with everything as in its home. Nobody writes %3 and %4, which are read.
        assert_eq!(unsaved.iter().map(list).collect::<Vec<_>>(), [vec![2, 3, 4, 7], vec![6], vec![6, 8]]);
    }
}
