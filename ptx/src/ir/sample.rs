//! Small programs for the tests of passes and analyses: one function, registers 0 to 9 (the first two with 64 bits, as in every
//! program, the others with 32), and the predicate 10.

use super::*;
use crate::analysis::set::Set;
use crate::number::Scalar;
use crate::runtime::sync::{ShflMode, SyncOp};

/// A program of these blocks.
pub(crate) fn program(blocks: Vec<(Vec<Inst>, Terminator)>) -> Program {
    let function = FunctionInfo {
        image: 0,
        name: "k".into(),
        entry: 0,
        recursive: false,
        returns: vec![],
        base: 0,
        component: vec![],
        frame: 0,
    };
    let scalar = |reg: Reg| match reg {
        FRAME | STACK => Scalar::B64,
        10 => Scalar::Pred,
        _ => Scalar::U32,
    };
    Program {
        regs: (0..11).map(|reg| RegInfo { scalar: scalar(reg) }).collect(),
        blocks: blocks.into_iter().map(|(insts, end)| Block { insts, end, function: 0, site: 0 }).collect(),
        functions: vec![function],
        ..Program::default()
    }
}

pub(crate) fn inst(op: Op, dst: Vec<Reg>, src: Vec<Val>) -> Inst {
    Inst { op, dst, src, site: 0 }
}

/// `dst = src + 1`
pub(crate) fn add(dst: Reg, src: Reg) -> Inst {
    inst(Op::Int(IntOp::Add, Scalar::U32), vec![dst], vec![Val::Reg(src), Val::Imm(1)])
}

/// `dst = value < 5`
pub(crate) fn compare(dst: Reg, value: Val) -> Inst {
    let op = Op::Setp { compare: Compare::Lt, scalar: Scalar::U32, ftz: false, logic: None };
    inst(op, vec![dst], vec![value, Val::Imm(5)])
}

/// A branch on the predicate 10.
pub(crate) fn branch(then: u32, other: u32) -> Terminator {
    Terminator::Branch { reg: 10, negated: false, then, other }
}

/// `dst = shuffle src`
pub(crate) fn shuffle(dst: Reg, src: Reg, resume: u32) -> SyncPoint {
    SyncPoint {
        op: SyncOp::Shfl(ShflMode::Down),
        convergence: Convergence::Warp,
        dst: vec![dst],
        src: vec![Val::Reg(src), Val::Imm(1), Val::Imm(31)],
        site: 0,
        resume,
    }
}

/// These operations and so many more that they are not run for some lanes only.
pub(crate) fn long(mut insts: Vec<Inst>) -> Vec<Inst> {
    insts.extend((0..20).map(|_| inst(Op::Mov, vec![9], vec![Val::Imm(0)])));
    insts
}

/// The registers of a set.
pub(crate) fn list(set: &Set) -> Vec<Reg> {
    set.iter().collect()
}
