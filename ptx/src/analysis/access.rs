//! What a block reads before it writes it, and what it writes.

use super::graph::Graph;
use super::set::Set;
use crate::ir::{FRAME, Program, Reg, STACK, SyncPoint, Terminator, Val};

/// The registers that blocks read and write.
pub(crate) struct Accesses {
    /// By block: what it reads of the values that it is entered with.
    pub(crate) reads: Vec<Set>,
    /// By block: what it writes.
    pub(crate) writes: Vec<Set>,
}

impl Accesses {
    /// The accesses of the blocks that are reached; other blocks have none.
    pub(crate) fn new(program: &Program, graph: &Graph) -> Self {
        let (blocks, empty) = (program.blocks.len(), Set::new(program.regs.len()));
        let mut accesses = Self { reads: vec![empty.clone(); blocks], writes: vec![empty; blocks] };
        for block in &graph.order {
            (accesses.reads[*block], accesses.writes[*block]) = of_block(program, *block);
        }
        accesses
    }
}

fn of_block(program: &Program, block: usize) -> (Set, Set) {
    let (mut reads, mut writes) = (Set::new(program.regs.len()), Set::new(program.regs.len()));
    let framed = program.functions[program.blocks[block].function as usize].recursive;
    let mut read = |writes: &Set, value: &Val| match value {
        Val::Reg(reg) if !writes.has(*reg) => reads.insert(*reg),
        Val::Local(_) if framed && !writes.has(FRAME) => reads.insert(FRAME),
        _ => {}
    };
    for inst in &program.blocks[block].insts {
        inst.src.iter().for_each(|value| read(&writes, value));
        inst.dst.iter().for_each(|reg| writes.insert(*reg));
    }
    match &program.blocks[block].end {
        Terminator::Branch { reg, .. } => read(&writes, &Val::Reg(*reg)),
        Terminator::Table { index, .. } => read(&writes, index),
        Terminator::CallIndirect { pointer, .. } => read(&writes, pointer),
        _ => {}
    }
    if program.stack {
        // Calls and returns read and move both registers.
        match program.blocks[block].end {
            Terminator::Call { .. } | Terminator::CallIndirect { .. } | Terminator::Return => {
                read(&writes, &Val::Reg(FRAME));
                read(&writes, &Val::Reg(STACK));
                writes.insert(FRAME);
                writes.insert(STACK);
            }
            _ => {}
        }
    }
    (reads, writes)
}

/// The synchronization at a block's end.
pub(crate) fn sync_at(program: &Program, block: usize) -> Option<&SyncPoint> {
    match program.blocks[block].end {
        Terminator::Sync(sync) => Some(&program.syncs[sync as usize]),
        _ => None,
    }
}

/// The registers that the machine reads at a synchronization.
pub(crate) fn sources(sync: &SyncPoint) -> impl Iterator<Item = Reg> + '_ {
    sync.src.iter().filter_map(|value| match value {
        Val::Reg(reg) => Some(*reg),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::sample::{add, branch, list, program};

    #[test]
    fn what_is_written_first_is_not_read_of_what_was_there() {
        let program =
            program(vec![(vec![add(2, 3), add(3, 2), add(4, 4)], branch(1, 1)), (vec![add(5, 5)], Terminator::Exit)]);
        let accesses = Accesses::new(&program, &Graph::new(&program));
        assert_eq!(list(&accesses.reads[0]), [3, 4, 10], "%10 is the condition");
        assert_eq!(list(&accesses.writes[0]), [2, 3, 4]);
        assert_eq!((list(&accesses.reads[1]), list(&accesses.writes[1])), (vec![5], vec![5]));
    }

    #[test]
    fn a_call_moves_the_stack_where_there_is_one() {
        let call = Terminator::Call { callee: 0, back: 1 };
        let mut program = program(vec![(vec![], call), (vec![], Terminator::Exit)]);
        assert_eq!(list(&Accesses::new(&program, &Graph::new(&program)).reads[0]), [] as [Reg; 0]);
        program.stack = true;
        let accesses = Accesses::new(&program, &Graph::new(&program));
        assert_eq!((list(&accesses.reads[0]), list(&accesses.writes[0])), (vec![FRAME, STACK], vec![FRAME, STACK]));
    }
}
