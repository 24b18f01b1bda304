//! Stores of a whole block to one address, after which no thread reads. Inductor writes them for numbers that all threads have
//! read before, such as the step counters of PyTorch 2.9.1's optimizers: nothing orders the stores behind the other threads' loads,
//! but threads of hardware are far enough in step. Here one thread runs after the other, so only the last one stores.

use crate::analysis::graph::successors;
use crate::host::memory_ops::AddressSpace;
use crate::ir::*;

/// Marks such stores.
pub(crate) fn mark(program: &mut Program) {
    let differ = Differ::find(program);
    let reads = who_reads(program);
    let mut found = Vec::new();
    for (number, block) in program.blocks.iter().enumerate().filter(|(number, _)| !differ.blocks[*number]) {
        if next(program, number).any(|next| reads[next]) || !goes_on(&block.end) {
            continue;
        }
        for (at, inst) in block.insts.iter().enumerate().rev() {
            match &inst.op {
                Op::Store(memory) if memory.space == AddressSpace::Global && !memory.strong => {
                    found.extend((!differ.value(inst.src[0])).then_some((number, at)));
                }
                _ if may_read(inst) => break,
                _ => {}
            }
        }
    }
    for (block, at) in found {
        if let Op::Store(memory) = &mut program.blocks[block].insts[at].op {
            memory.once = true;
        }
    }
}

/// What may differ between the threads of a block.
struct Differ {
    registers: Vec<bool>,
    /// The blocks to which perhaps not all threads come.
    blocks: Vec<bool>,
}

impl Differ {
    fn find(program: &Program) -> Self {
        let (registers, blocks) = (vec![false; program.regs.len()], vec![false; program.blocks.len()]);
        let mut differ = Self { registers, blocks };
        program.syncs.iter().flat_map(|sync| &sync.dst).for_each(|reg| differ.register(*reg));
        loop {
            let before = (differ.registers.clone(), differ.blocks.clone());
            for (number, block) in program.blocks.iter().enumerate() {
                for inst in &block.insts {
                    if differ.blocks[number] || differ.result(inst) {
                        inst.dst.iter().for_each(|reg| differ.register(*reg));
                    }
                }
                let parts = match &block.end {
                    Terminator::Branch { reg, .. } => differ.registers[*reg as usize],
                    Terminator::Jump(_) | Terminator::Exit | Terminator::Sync(_) => false,
                    _ => true,
                };
                if parts || differ.blocks[number] {
                    next(program, number).for_each(|next| differ.blocks[next] = true);
                }
            }
            if before == (differ.registers.clone(), differ.blocks.clone()) {
                return differ;
            }
        }
    }

    fn register(&mut self, reg: Reg) {
        if reg != SINK {
            self.registers[reg as usize] = true;
        }
    }

    fn value(&self, value: Val) -> bool {
        use Special::{Ctaid, Nctaid, Ntid};
        match value {
            Val::Reg(reg) => self.registers[reg as usize],
            Val::Special(special) => !matches!(special, Ntid(_) | Ctaid(_) | Nctaid(_)),
            Val::Local(_) => true,
            _ => false,
        }
    }

    fn result(&self, inst: &Inst) -> bool {
        match &inst.op {
            Op::System(..) => true,
            Op::Load(memory)
                if memory.strong || matches!(memory.space, AddressSpace::Local | AddressSpace::Generic) =>
            {
                true
            }
            _ => inst.src.iter().any(|value| self.value(*value)),
        }
    }
}

fn next(program: &Program, block: usize) -> impl Iterator<Item = usize> {
    let (next, resume) = successors(program, block);
    next.into_iter().chain(resume).map(|block| block as usize)
}

/// Whether threads leave a block only for another one, or end.
fn goes_on(end: &Terminator) -> bool {
    matches!(end, Terminator::Jump(_) | Terminator::Branch { .. } | Terminator::Exit)
}

/// Whether an operation may read global memory, or has an effect that others see.
fn may_read(inst: &Inst) -> bool {
    match &inst.op {
        Op::Load(memory) => matches!(memory.space, AddressSpace::Global | AddressSpace::Generic),
        Op::System(..) | Op::Fence => true,
        Op::Store(memory) => memory.strong,
        _ => false,
    }
}

/// The blocks from which on something is read, or threads wait for others.
fn who_reads(program: &Program) -> Vec<bool> {
    let mut reads: Vec<bool> =
        program.blocks.iter().map(|block| !goes_on(&block.end) || block.insts.iter().any(may_read)).collect();
    loop {
        let before = reads.clone();
        for (block, reads) in reads.iter_mut().enumerate() {
            *reads = *reads || next(program, block).any(|next| before[next]);
        }
        if reads == before {
            return reads;
        }
    }
}
