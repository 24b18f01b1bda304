//! Where lanes that run together part, because they do not all take the same path.

use super::graph::Graph;
use super::set::Set;
use super::shape::Shapes;
use crate::ir::{Program, Terminator};

/// Where lanes part.
pub(crate) struct Parting {
    /// The blocks in which lanes continue alone.
    pub(crate) alone: Vec<u32>,
    /// By block: what is live on either way, if lanes part at its end.
    pub(crate) live: Vec<Set>,
}

/// Finds where lanes with these shapes part. Without shapes, lanes never run together.
pub(crate) fn parting(program: &Program, graph: &Graph, live: &[Set], shapes: Option<&Shapes>) -> Parting {
    let mut parting = Parting { alone: Vec::new(), live: vec![Set::new(program.regs.len()); program.blocks.len()] };
    for block in &graph.order {
        let Terminator::Branch { reg, then, other, .. } = program.blocks[*block].end else { continue };
        if shapes.is_none_or(|shapes| shapes.register(reg).is_same() || shapes.guarded(*block).is_some()) {
            continue;
        }
        for next in [then, other] {
            parting.live[*block].union(&live[next as usize]);
            if !parting.alone.contains(&next) {
                parting.alone.push(next);
            }
        }
    }
    parting
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::access::Accesses;
    use crate::analysis::liveness::live;
    use crate::analysis::shape::shapes;
    use crate::ir::sample::{add, branch, compare, list, long, program};
    use crate::ir::{Inst, Special, Terminator::Exit, Val};

    /// Where lanes part in a program whose b0 branches on a comparison of this value with 5. Its b1 and b2 are too long to be run for
    /// some lanes only, and write %2 and %3.
    fn parting_of(compared: Val) -> (Parting, Program) {
        let fill = |reg| -> Vec<Inst> { long(vec![add(reg, 4)]) };
        let program = program(vec![(vec![compare(10, compared)], branch(1, 2)), (fill(2), Exit), (fill(3), Exit)]);
        let graph = Graph::new(&program);
        let live = live(&program, &graph, &Accesses::new(&program, &graph));
        let shapes = shapes(&program, &live[0]);
        (parting(&program, &graph, &live, shapes.as_ref()), program)
    }

    #[test]
    fn lanes_part_where_their_conditions_differ() {
        let (parting, program) = parting_of(Val::Special(Special::Tid(0)));
        assert_eq!(parting.alone, [1, 2]);
        assert_eq!(list(&parting.live[0]), [4]);
        let graph = Graph::new(&program);
        let none = super::parting(&program, &graph, &vec![Set::new(program.regs.len()); 3], None);
        assert!(none.alone.is_empty(), "lanes that run one by one");
    }

    #[test]
    fn a_condition_of_the_whole_block_keeps_them_together() {
        assert_eq!(parting_of(Val::Special(Special::Ctaid(0))).0.alone, [] as [u32; 0]);
    }
}
