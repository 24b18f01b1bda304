//! How registers are kept: as integers or as floats, with any NaN or with one that stands for PTX's canonical one.

use crate::ir::*;

/// Which registers are better kept as floats, and which hold results of f32 arithmetic alone: their NaN stands for PTX's canonical
/// one until its bits are looked at.
pub(super) struct Classes {
    pub(super) float: Vec<bool>,
    pub(super) arithmetic: Vec<bool>,
}

impl Classes {
    pub(super) fn new(program: &Program) -> Self {
        Self { float: float(program), arithmetic: arithmetic(program) }
    }
}

fn float(program: &Program) -> Vec<bool> {
    let mut votes = vec![0i32; program.regs.len()];
    for (reg, info) in program.regs.iter().enumerate() {
        votes[reg] = i32::from(info.scalar.float()) * 2;
    }
    let vote = |votes: &mut Vec<i32>, reg: Reg, by: i32| {
        if reg != SINK {
            votes[reg as usize] += by;
        }
    };
    let src = |votes: &mut Vec<i32>, inst: &Inst, by: i32| {
        for value in &inst.src {
            if let Val::Reg(reg) = value {
                votes[*reg as usize] += by;
            }
        }
    };
    for inst in program.blocks.iter().flat_map(|block| &block.insts) {
        let dst = inst.dst.first().copied().unwrap_or(SINK);
        match &inst.op {
            Op::Float { .. } | Op::Demote { .. } | Op::Promote { .. } => {
                vote(&mut votes, dst, 1);
                src(&mut votes, inst, 1);
            }
            Op::FromInt { .. } | Op::FromBf16 => vote(&mut votes, dst, 1),
            Op::ToInt { .. } => src(&mut votes, inst, 1),
            Op::Setp { scalar, .. } if scalar.float() => src(&mut votes, inst, 1),
            Op::Mov | Op::Select | Op::Load(_) | Op::Store(_) => {}
            _ => {
                inst.dst.iter().for_each(|reg| vote(&mut votes, *reg, -1));
                src(&mut votes, inst, -1);
            }
        }
    }
    votes.iter().zip(&program.regs).map(|(v, info)| *v > 0 && matches!(info.scalar.bits(), 32 | 64)).collect()
}

/// How a register is written, as far as NaN goes.
#[derive(Clone, Copy, PartialEq)]
enum Written {
    /// With the result of arithmetic in f32.
    Result,
    /// With bits of any kind.
    Bits,
    /// With what these operands hold, or with numbers.
    Copy,
}

fn arithmetic(program: &Program) -> Vec<bool> {
    let written = |inst: &Inst| match &inst.op {
        Op::Float { double: false, .. } | Op::Demote { .. } => Written::Result,
        Op::FromInt { double: false, .. } => Written::Copy,
        Op::Mov | Op::Select => Written::Copy,
        _ => Written::Bits,
    };
    let copied = |inst: &Inst| match inst.op {
        Op::Mov => inst.src[..1].to_vec(),
        Op::Select => inst.src[..2].to_vec(),
        _ => Vec::new(),
    };
    let is_number = |bits: u64| !f32::from_bits(bits as u32).is_nan();
    let insts = || program.blocks.iter().flat_map(|block| &block.insts);
    // All registers of 32 bits, until something else is found to be in one; then those of them that a result can reach.
    let mut clean: Vec<bool> = program.regs.iter().map(|info| info.scalar.bits() == 32).collect();
    program
        .syncs
        .iter()
        .flat_map(|sync| &sync.dst)
        .filter(|reg| **reg != SINK)
        .for_each(|reg| clean[*reg as usize] = false);
    let mut holds = vec![false; program.regs.len()];
    let mut changed = true;
    while changed {
        changed = false;
        for inst in insts() {
            let kind = written(inst);
            let is_clean = |value: &Val| match value {
                Val::Reg(reg) => clean[*reg as usize],
                Val::Imm(bits) => is_number(*bits),
                _ => false,
            };
            let keeps = kind != Written::Bits && copied(inst).iter().all(is_clean);
            for reg in inst.dst.iter().filter(|reg| **reg != SINK) {
                changed |= clean[*reg as usize] && !keeps;
                clean[*reg as usize] &= keeps;
            }
        }
    }
    changed = true;
    while changed {
        changed = false;
        for inst in insts() {
            let reaches = match written(inst) {
                Written::Result => true,
                Written::Copy => {
                    copied(inst).iter().any(|value| matches!(value, Val::Reg(reg) if holds[*reg as usize]))
                }
                Written::Bits => false,
            };
            for reg in inst.dst.iter().filter(|reg| **reg != SINK && reaches && clean[**reg as usize]) {
                changed |= !std::mem::replace(&mut holds[*reg as usize], true);
            }
        }
    }
    holds
}
