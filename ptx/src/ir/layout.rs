//! What follows from the rest of a program: which functions call each other, where calls return to, and the places of shared variables.

use super::program::*;

/// Sets, by the calls from function to function, which of them call each other.
pub(crate) fn find_components(program: &mut Program, calls: &[(u32, u32)]) {
    let count = program.functions.len();
    let mut reach = vec![vec![false; count]; count];
    for (caller, callee) in calls {
        reach[*caller as usize][*callee as usize] = true;
    }
    for middle in 0..count {
        for from in 0..count {
            if reach[from][middle] {
                let through = reach[middle].clone();
                reach[from].iter_mut().zip(through).for_each(|(to, through)| *to |= through);
            }
        }
    }
    for (index, own) in reach.iter().enumerate() {
        program.functions[index].component =
            (0..count).filter(|other| own[*other] && reach[*other][index]).map(|other| other as u32).collect();
    }
}

/// Sets where the callers of each function continue.
pub(crate) fn find_returns(program: &mut Program) {
    let direct = program.blocks.iter().filter_map(|block| match &block.end {
        Terminator::Call { callee, back } => Some((*callee, *back)),
        _ => None,
    });
    let indirect = program.blocks.iter().filter_map(|block| match &block.end {
        Terminator::CallIndirect { callees, back, .. } => Some(callees.iter().map(|callee| (*callee, *back))),
        _ => None,
    });
    for (callee, back) in direct.chain(indirect.flatten()) {
        program.functions[callee as usize].returns.push(back);
    }
}

/// Places shared variables one after the other, and those that are sized at launch behind them.
pub(crate) fn place_shared(program: &mut Program) {
    let mut at = 0;
    for variable in program.shared.iter_mut().filter(|variable| !variable.dynamic) {
        at = u64::next_multiple_of(at, variable.align);
        variable.offset = at;
        at += variable.size;
    }
    program.static_shared = at;
    let of_dynamic = program.shared.iter().filter(|variable| variable.dynamic).map(|variable| variable.align);
    let align = of_dynamic.max().unwrap_or(16).max(16);
    program.dynamic_shared = at.next_multiple_of(align);
    for variable in program.shared.iter_mut().filter(|variable| variable.dynamic) {
        variable.offset = program.dynamic_shared;
    }
}
