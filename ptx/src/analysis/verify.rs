//! What liveness claims of a program, checked in debug builds by going all ways through it.

use super::flow::Flow;
use super::graph::successors;
use super::set::Set;
use crate::ir::*;

/// Whether every register that an operation reads has a value there, whichever way the thread came: set to zero at the beginning,
/// written since, or loaded from its home where the thread resumed. This is what liveness has to guarantee.
pub(crate) fn verify_flow(program: &Program, flow: &Flow) -> Result<(), String> {
    let all = Set::full(program.regs.len());
    let mut known: Vec<Option<Set>> = vec![None; program.blocks.len()];
    known[0] = Some(flow.zeroed.clone());
    let arrive = |known: &mut Vec<Option<Set>>, block: u32, set: &Set| {
        let slot = &mut known[block as usize];
        let before = slot.clone();
        match slot {
            Some(old) => old.intersect(set),
            None => *slot = Some(set.clone()),
        }
        *slot != before
    };
    // A thread comes back from a point where others were waited for with what is loaded there.
    let resumed = program.syncs.iter().map(|sync| sync.resume).chain(flow.alone.iter().copied());
    for block in resumed.filter(|block| flow.reachable[*block as usize]) {
        arrive(&mut known, block, &flow.loads[block as usize]);
    }
    let mut changed = true;
    while changed {
        changed = false;
        for block in 0..program.blocks.len() {
            let Some(before) = known[block].clone().filter(|_| flow.reachable[block]) else { continue };
            let after = written(program, flow, block, before, |_, _| Ok(())).unwrap_or_else(|_: String| all.clone());
            for next in successors(program, block).0 {
                changed |= arrive(&mut known, next, &after);
            }
        }
    }
    for (block, before) in known.into_iter().enumerate() {
        let Some(before) = before.filter(|_| flow.reachable[block]) else { continue };
        written(program, flow, block, before, |set, reg| match set.has(reg) {
            true => Ok(()),
            false => Err(format!("b{block}: %{reg} is read, but has no value on some way there")),
        })?;
    }
    Ok(())
}

/// The registers with a value behind a block, each read shown to `seen` with those that have one there.
fn written(
    program: &Program,
    flow: &Flow,
    block: usize,
    mut set: Set,
    seen: impl Fn(&Set, Reg) -> Result<(), String>,
) -> Result<Set, String> {
    flow.restores[block].iter().for_each(|reg| set.insert(*reg));
    let read = |set: &Set, value: &Val| match value {
        Val::Reg(reg) => seen(set, *reg),
        _ => Ok(()),
    };
    for inst in &program.blocks[block].insts {
        inst.src.iter().try_for_each(|value| read(&set, value))?;
        inst.dst.iter().for_each(|reg| set.insert(*reg));
    }
    match &program.blocks[block].end {
        Terminator::Branch { reg, .. } => seen(&set, *reg)?,
        Terminator::Table { index, .. } => read(&set, index)?,
        Terminator::CallIndirect { pointer, .. } => read(&set, pointer)?,
        _ => {}
    }
    // Calls and returns move both registers.
    if program.stack {
        [FRAME, STACK].into_iter().for_each(|reg| set.insert(reg));
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::analyze;
    use crate::ir::sample::{inst, program};

    #[test]
    fn a_register_that_liveness_forgets_is_named() {
        let read = inst(Op::Mov, vec![SINK], vec![Val::Reg(2)]);
        let program = program(vec![(vec![read], Terminator::Exit)]);
        let (_, mut flow) = analyze(&program, &[0; 11], false);
        assert_eq!(verify_flow(&program, &flow), Ok(()));
        flow.zeroed = Set::new(11);
        let message = verify_flow(&program, &flow).unwrap_err();
        assert_eq!(message, "b0: %2 is read, but has no value on some way there");
    }
}
