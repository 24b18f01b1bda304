//! What a call of a recursive function keeps in its frame, because another activation uses the same registers.

use super::access::Accesses;
use super::graph::Graph;
use super::set::Set;
use crate::ir::{Program, Reg, STACK, Terminator};

/// What recursive calls keep, by block.
pub(crate) struct Kept {
    /// What the frame keeps, if the block ends in such a call.
    pub(crate) saves: Vec<Vec<Reg>>,
    /// What is loaded again, if the block continues after such a call.
    pub(crate) restores: Vec<Vec<Reg>>,
}

/// Recursive calls keep what the functions of their cycle have in registers (`owners` has each register's function). They are read
/// before the call and written after it, which is added to the accesses.
pub(crate) fn kept(program: &Program, graph: &Graph, owners: &[u32], live: &[Set], accesses: &mut Accesses) -> Kept {
    let blocks = program.blocks.len();
    let mut kept = Kept { saves: vec![Vec::new(); blocks], restores: vec![Vec::new(); blocks] };
    for block in &graph.order {
        let (callees, back) = match &program.blocks[*block].end {
            Terminator::Call { callee, back } => (vec![*callee], *back),
            Terminator::CallIndirect { callees, back, .. } => (callees.clone(), *back),
            _ => continue,
        };
        let own = &program.functions[program.blocks[*block].function as usize];
        if !callees.iter().any(|callee| own.component.contains(callee)) {
            continue;
        }
        let across: Vec<Reg> = live[back as usize]
            .iter()
            .filter(|reg| *reg > STACK && own.component.contains(&owners[*reg as usize]))
            .collect();
        for reg in &across {
            if !accesses.writes[*block].has(*reg) {
                accesses.reads[*block].insert(*reg);
            }
            accesses.writes[back as usize].insert(*reg);
            accesses.reads[back as usize].remove(*reg);
        }
        kept.restores[back as usize].clone_from(&across);
        kept.saves[*block] = across;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::liveness::live;
    use crate::ir::sample::{add, branch, list, program};

    /// A program whose b0 writes %4, whose b1 calls its own function, and whose b3 reads %4 and %5, which belongs to another function.
    fn recursive(component: Vec<u32>) -> Program {
        let call = Terminator::Call { callee: 0, back: 3 };
        let mut program = program(vec![
            (vec![add(4, 3)], branch(1, 2)),
            (vec![], call),
            (vec![], Terminator::Return),
            (vec![add(6, 4), add(6, 5)], Terminator::Return),
        ]);
        program.stack = true;
        program.functions[0].recursive = true;
        program.functions[0].component = component;
        program.functions[0].returns = vec![3];
        program
    }

    fn kept_and_accesses(program: &Program) -> (Kept, Accesses) {
        let graph = Graph::new(program);
        let mut accesses = Accesses::new(program, &graph);
        let live = live(program, &graph, &accesses);
        let mut owners = vec![0; program.regs.len()];
        owners[5] = 1;
        let kept = kept(program, &graph, &owners, &live, &mut accesses);
        (kept, accesses)
    }

    #[test]
    fn the_registers_of_its_cycle_survive_a_call() {
        let (kept, accesses) = kept_and_accesses(&recursive(vec![0]));
        assert_eq!((&kept.saves[1][..], &kept.restores[3][..]), (&[4][..], &[4][..]));
        assert_eq!(list(&accesses.reads[1]), [0, 1, 4], "it goes into the frame");
        // After the call, %4 comes from the frame.
        assert!(accesses.writes[3].has(4) && !accesses.reads[3].has(4) && accesses.reads[3].has(5));
    }

    #[test]
    fn a_call_out_of_every_cycle_keeps_nothing() {
        let (kept, _) = kept_and_accesses(&recursive(vec![]));
        assert!(kept.saves.iter().chain(&kept.restores).all(Vec::is_empty));
    }
}
