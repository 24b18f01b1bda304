//! What code has to store and load so that a thread that waits, yields or continues alone finds its values: the outcome of the
//! analyses of liveness, in their order.

use super::access::Accesses;
use super::graph::Graph;
use super::homes::{places, residents, unsaved};
use super::liveness::{backward, live, over_synchronization};
use super::parting::{Parting, parting};
use super::recursion::{Kept, kept};
use super::set::Set;
use super::shape::{Shapes, shapes};
use crate::ir::{Program, Reg};

/// What the analyses found out about a program.
pub(crate) struct Flow {
    pub(crate) reachable: Vec<bool>,
    /// Offset of each register's home, `None` if it does not need one; and the bytes of all homes of a warp.
    pub(crate) homes: Vec<Option<u32>>,
    pub(crate) home_bytes: u32,
    /// By block: registers stored when it ends in a synchronization or yields.
    pub(crate) stores: Vec<Set>,
    /// By block: registers loaded when a thread resumes in it.
    pub(crate) loads: Vec<Set>,
    /// Registers without a value at the beginning: set to zero.
    pub(crate) zeroed: Set,
    /// By block: what its frame keeps, if it ends in a call of a recursive function.
    pub(crate) saves: Vec<Vec<Reg>>,
    /// By block: what is loaded again, if it continues after such a call.
    pub(crate) restores: Vec<Vec<Reg>>,
    /// Blocks in which lanes that ran together continue alone, and by block what is stored where they diverge.
    pub(crate) alone: Vec<u32>,
    pub(crate) parting: Vec<Set>,
}

/// Runs all analyses, that of shapes only on request. `owners` has the function of each register.
pub(crate) fn analyze(program: &Program, owners: &[u32], with_shapes: bool) -> (Option<Shapes>, Flow) {
    let graph = Graph::new(program);
    let mut accesses = Accesses::new(program, &graph);
    let live = live(program, &graph, &accesses);
    let shapes = if with_shapes { shapes(program, &live[0]) } else { None };
    let Kept { saves, restores } = kept(program, &graph, owners, &live, &mut accesses);
    let Parting { alone, live: at_parting } = parting(program, &graph, &live, shapes.as_ref());
    let residents = residents(program, &graph, &live, &at_parting);
    let unsaved = unsaved(program, &graph, &live, &accesses);
    let stores = stores(program, &graph, &live, &unsaved);
    let parting = written(at_parting, &unsaved, &graph);
    let needed = needed(program, &graph, &accesses, &stores, &parting);
    let loads = loads(program, &graph, &needed, &alone);
    let (homes, home_bytes) = places(program, &residents);
    let zeroed = needed[0].clone();
    let reachable = graph.reachable;
    let flow = Flow { reachable, homes, home_bytes, stores, loads, zeroed, saves, restores, alone, parting };
    (shapes, flow)
}

/// By block: what is stored where a thread waits or yields, because it is wanted there and could differ from its home.
fn stores(program: &Program, graph: &Graph, live: &[Set], unsaved: &[Set]) -> Vec<Set> {
    let empty = Set::new(program.regs.len());
    let wanted: Vec<Set> = (0..program.blocks.len())
        .map(|block| {
            let over = graph.reachable[block].then(|| over_synchronization(program, graph, live, block)).flatten();
            over.unwrap_or_else(|| empty.clone())
        })
        .collect();
    written(wanted, unsaved, graph)
}

/// Of the registers that are wanted at each block's end, those that could differ from their homes.
fn written(mut wanted: Vec<Set>, unsaved: &[Set], graph: &Graph) -> Vec<Set> {
    graph.order.iter().for_each(|block| wanted[*block].intersect(&unsaved[*block]));
    wanted
}

/// By block: registers that have to have their values when it begins, since the code behind it reads or stores them before a
/// thread resumes anywhere.
fn needed(program: &Program, graph: &Graph, accesses: &Accesses, stores: &[Set], parting: &[Set]) -> Vec<Set> {
    backward(program, graph, accesses, |needed, block| {
        let mut behind = stores[block].clone();
        behind.union(&parting[block]);
        for next in &graph.edges[block].0 {
            behind.union(&needed[*next as usize]);
        }
        behind
    })
}

/// By block: what is loaded when a thread resumes in it, or lanes continue in it alone.
fn loads(program: &Program, graph: &Graph, needed: &[Set], alone: &[u32]) -> Vec<Set> {
    let mut loads = vec![Set::new(program.regs.len()); program.blocks.len()];
    let resumed = graph.order.iter().filter_map(|block| graph.edges[*block].1);
    for block in resumed.chain(alone.iter().copied()) {
        loads[block as usize] = needed[block as usize].clone();
    }
    loads
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Terminator::{self, Exit, Jump, Sync};
    use crate::ir::sample::{add, branch, list, program, shuffle};
    use crate::ir::{FRAME, STACK};

    /// b0 writes %2 and waits in b1 for a shuffle of %4 to %5; then b2 reads %2, %3 and %5.
    fn sample() -> Program {
        let reads = vec![add(6, 2), add(6, 3), add(6, 5)];
        let mut program = program(vec![(vec![add(2, 2)], Jump(1)), (vec![], Sync(0)), (reads, Exit)]);
        program.syncs.push(shuffle(5, 4, 2));
        program
    }

    #[test]
    fn what_is_read_behind_a_synchronization_is_stored_before() {
        let (_, flow) = analyze(&sample(), &[0; 11], false);
        // Nobody wrote %3 and %4, whose homes have what the block before left there.
        assert_eq!(list(&flow.stores[1]), [2, 3, 4]);
        assert_eq!(list(&flow.loads[2]), [2, 3, 5]);
        assert_eq!(list(&flow.zeroed), [2, 3, 4]);
        assert_eq!(flow.home_bytes, 4 * 4 * 32);
    }

    #[test]
    fn a_thread_that_waits_before_its_first_call_keeps_its_stack() {
        let call = Terminator::Call { callee: 0, back: 2 };
        let mut program = program(vec![(vec![], Sync(0)), (vec![], call), (vec![], Exit)]);
        program.syncs.push(shuffle(5, 4, 1));
        program.stack = true;
        let (_, flow) = analyze(&program, &[0; 11], false);
        assert_eq!(list(&flow.stores[0]), [FRAME, STACK, 4]);
        assert_eq!((list(&flow.loads[1]), list(&flow.zeroed)), (vec![FRAME, STACK, 4], vec![FRAME, STACK, 4]));
    }

    #[test]
    fn a_block_that_is_not_reached_stores_nothing() {
        let mut program = sample();
        program.blocks[0].end = Exit;
        let (_, flow) = analyze(&program, &[0; 11], false);
        assert_eq!((list(&flow.stores[1]), flow.home_bytes), (vec![], 0));
    }

    #[test]
    fn a_loop_that_waits_stores_what_its_next_turn_needs() {
        // b1 waits, b2 adds to %2 and goes around, b3 reads it.
        let mut program = program(vec![
            (vec![], Jump(1)),
            (vec![], Sync(0)),
            (vec![add(2, 2)], branch(1, 3)),
            (vec![add(6, 2)], Exit),
        ]);
        program.syncs.push(shuffle(5, 4, 2));
        let (_, flow) = analyze(&program, &[0; 11], false);
        assert_eq!((list(&flow.stores[1]), list(&flow.loads[2])), (vec![2, 4, 10], vec![2, 4, 10]));
    }
}
