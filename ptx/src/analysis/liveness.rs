//! Which registers hold a value at the beginning of a block that is read later.

use super::access::{Accesses, sources, sync_at};
use super::graph::Graph;
use super::set::Set;
use crate::ir::Program;

/// By block: registers whose values are read in it or behind it, in registers or over synchronizations.
pub(crate) fn live(program: &Program, graph: &Graph, accesses: &Accesses) -> Vec<Set> {
    backward(program, graph, accesses, |live, block| {
        let mut behind = Set::new(program.regs.len());
        for next in &graph.edges[block].0 {
            behind.union(&live[*next as usize]);
        }
        if let Some(over) = over_synchronization(program, graph, live, block) {
            behind.union(&over);
        }
        behind
    })
}

/// What has to be in its home when a thread waits or yields at a block's end: what is live where it resumes, but for the results
/// of the synchronization, and what that reads. `None` for other blocks.
pub(crate) fn over_synchronization(program: &Program, graph: &Graph, live: &[Set], block: usize) -> Option<Set> {
    let mut over = live[graph.edges[block].1? as usize].clone();
    if let Some(sync) = sync_at(program, block) {
        sync.dst.iter().for_each(|reg| over.remove(*reg));
        sources(sync).for_each(|reg| over.insert(reg));
    }
    Some(over)
}

/// By block: the registers that it reads, and of those that are wanted behind it the ones that it does not write. `behind` has what
/// is wanted, from what was found so far.
pub(crate) fn backward(
    program: &Program,
    graph: &Graph,
    accesses: &Accesses,
    behind: impl Fn(&[Set], usize) -> Set,
) -> Vec<Set> {
    let mut found = vec![Set::new(program.regs.len()); program.blocks.len()];
    loop {
        let mut changed = false;
        for block in graph.order.iter().rev() {
            let mut set = behind(&found, *block);
            set.subtract(&accesses.writes[*block]);
            set.union(&accesses.reads[*block]);
            if set != found[*block] {
                found[*block] = set;
                changed = true;
            }
        }
        if !changed {
            return found;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Terminator::{Exit, Jump, Sync};
    use crate::ir::sample::{add, branch, list, program, shuffle};

    fn live_lists(program: &Program) -> Vec<Vec<u32>> {
        let graph = Graph::new(program);
        live(program, &graph, &Accesses::new(program, &graph)).iter().map(list).collect()
    }

    #[test]
    fn a_value_is_live_until_it_is_written_anew() {
        // %2 is read behind both ways, but only one writes it before.
        let program = program(vec![
            (vec![], branch(1, 2)),
            (vec![add(2, 3)], Jump(3)),
            (vec![], Jump(3)),
            (vec![add(4, 2)], Exit),
        ]);
        assert_eq!(live_lists(&program), [vec![2, 3, 10], vec![3], vec![2], vec![2]]);
    }

    #[test]
    fn a_loop_keeps_what_its_next_turn_reads() {
        let program = program(vec![(vec![], Jump(1)), (vec![add(2, 3)], branch(1, 2)), (vec![add(4, 2)], Exit)]);
        assert_eq!(live_lists(&program), [vec![3, 10], vec![3, 10], vec![2]]);
    }

    #[test]
    fn a_synchronization_reads_its_operands_and_writes_its_results() {
        // %5 = shuffle %4; behind it, %5 and %6 are read.
        let mut program = program(vec![(vec![], Sync(0)), (vec![add(7, 5), add(7, 6)], Exit)]);
        program.syncs.push(shuffle(5, 4, 1));
        assert_eq!(live_lists(&program), [vec![4, 6], vec![5, 6]]);
    }
}
