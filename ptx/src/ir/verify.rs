//! What must hold of a program between passes. Every pass is followed by this in debug builds.

use super::program::*;
use crate::number::Scalar;
use crate::runtime::helper::Helper;

/// What is wrong with a program, by block and operation.
pub(crate) fn verify(program: &Program) -> Result<(), String> {
    let checker = Checker { program };
    for (number, block) in program.blocks.iter().enumerate() {
        for inst in &block.insts {
            checker.inst(inst).map_err(|what| format!("b{number}: `{inst}`: {what}"))?;
        }
        checker.end(&block.end).map_err(|what| format!("b{number}: `{}`: {what}", block.end))?;
        if block.function as usize >= program.functions.len() {
            return Err(format!("b{number}: there is no function f{}", block.function));
        }
    }
    for (number, sync) in program.syncs.iter().enumerate() {
        checker.sync(sync).map_err(|what| format!("s{number}: `{sync}`: {what}"))?;
    }
    for (number, function) in program.functions.iter().enumerate() {
        let blocks = function.returns.iter().chain([&function.entry]);
        checker.blocks(blocks).map_err(|what| format!("f{number} {}: {what}", function.name))?;
    }
    Ok(())
}

struct Checker<'a> {
    program: &'a Program,
}

impl Checker<'_> {
    fn scalar(&self, reg: Reg) -> Result<Scalar, String> {
        self.program
            .regs
            .get(reg as usize)
            .map(|info| info.scalar)
            .ok_or_else(|| format!("there is no register %{reg}"))
    }

    fn blocks<'a>(&self, blocks: impl IntoIterator<Item = &'a u32>) -> Result<(), String> {
        match blocks.into_iter().find(|block| **block as usize >= self.program.blocks.len()) {
            Some(block) => Err(format!("there is no block b{block}")),
            None => Ok(()),
        }
    }

    fn value(&self, value: &Val) -> Result<(), String> {
        let (index, count, what) = match value {
            Val::Reg(reg) => return self.scalar(*reg).map(drop),
            Val::Shared(index, _) => (*index, self.program.shared.len(), "shared variable"),
            _ => return Ok(()),
        };
        if (index as usize) < count { Ok(()) } else { Err(format!("there is no {what} {index}")) }
    }

    fn inst(&self, inst: &Inst) -> Result<(), String> {
        inst.src.iter().try_for_each(|value| self.value(value))?;
        inst.dst.iter().filter(|reg| **reg != SINK).try_for_each(|reg| self.scalar(*reg).map(drop))?;
        let (results, operands) = (inst.dst.len(), inst.src.len());
        let fits = match &inst.op {
            Op::Int(IntOp::Carry { .. }, _) => results == 2 && operands == 3,
            Op::Int(IntOp::Lop3(_) | IntOp::Funnel { .. }, _) => results == 1 && operands == 3,
            Op::Int(
                IntOp::Not
                | IntOp::Cnot
                | IntOp::Neg
                | IntOp::Abs
                | IntOp::Popc
                | IntOp::Clz
                | IntOp::Brev
                | IntOp::Extend,
                _,
            ) => results == 1 && operands == 1,
            Op::Int(..) => results == 1 && operands == 2,
            Op::Float { op: FloatOp::Fma, .. } => results == 1 && operands == 3,
            Op::Float { op: FloatOp::Sqrt | FloatOp::Neg | FloatOp::Abs | FloatOp::Round(_), .. } => {
                results == 1 && operands == 1
            }
            Op::Float { .. } => results == 1 && operands == 2,
            Op::Setp { logic, .. } => results == 1 && operands == 2 + usize::from(logic.is_some()),
            Op::Select | Op::Unpack => results >= 1 && operands == 3,
            Op::ToBf16 { pair } => results == 1 && operands == 1 + usize::from(*pair),
            Op::Mov | Op::FromInt { .. } | Op::ToInt { .. } | Op::Promote { .. } | Op::Demote { .. } | Op::FromBf16 => {
                results == 1 && operands == 1
            }
            Op::Pack => results == 1 && operands >= 1,
            Op::Load(_) => results >= 1 && operands == 1,
            Op::Store(_) => results == 0 && operands >= 2,
            Op::Pure(Helper::Prmt) => results == 1 && operands == 4,
            Op::Pure(_) => results == 1 && operands <= 4,
            // The context has room for 16 operands.
            Op::System(..) => results <= 1 && operands <= 16,
            Op::Fence => results == 0 && operands == 0,
        };
        if !fits {
            return Err(format!("{results} results of {operands} operands"));
        }
        if let (Op::Setp { .. }, [dst]) = (&inst.op, &inst.dst[..])
            && *dst != SINK
            && self.scalar(*dst)? != Scalar::Pred
        {
            return Err("its result is no predicate".into());
        }
        Ok(())
    }

    fn end(&self, end: &Terminator) -> Result<(), String> {
        let function = |index: &u32| match self.program.functions.get(*index as usize) {
            Some(_) => Ok(()),
            None => Err(format!("there is no function f{index}")),
        };
        match end {
            Terminator::Open | Terminator::Return | Terminator::Exit | Terminator::Trap(_) => Ok(()),
            Terminator::Jump(next) => self.blocks([next]),
            Terminator::Branch { reg, then, other, .. } => {
                if self.scalar(*reg)? != Scalar::Pred {
                    return Err(format!("%{reg} is no predicate"));
                }
                self.blocks([then, other])
            }
            Terminator::Table { index, targets } => {
                self.value(index)?;
                self.blocks(targets)
            }
            Terminator::Sync(sync) if *sync as usize >= self.program.syncs.len() => {
                Err(format!("there is no synchronization s{sync}"))
            }
            Terminator::Sync(_) => Ok(()),
            Terminator::Yield { next, resume } => self.blocks([next, resume]),
            Terminator::Call { callee, back } => {
                function(callee)?;
                self.blocks([back])
            }
            Terminator::CallIndirect { pointer, callees, back } => {
                self.value(pointer)?;
                callees.iter().try_for_each(function)?;
                self.blocks([back])
            }
        }
    }

    fn sync(&self, sync: &SyncPoint) -> Result<(), String> {
        self.blocks([&sync.resume])?;
        sync.dst.iter().filter(|reg| **reg != SINK).try_for_each(|reg| self.scalar(*reg).map(drop))?;
        if let Some(value) = sync.src.iter().find(|value| !matches!(value, Val::Reg(_) | Val::Imm(_))) {
            return Err(format!("{value} is neither a register nor a number, which is all that the machine reads"));
        }
        sync.src.iter().try_for_each(|value| self.value(value))?;
        match sync.convergence {
            Convergence::Mask(source) if source as usize >= sync.src.len() => Err("it has no mask".into()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::sample::{inst, program};

    /// A program of one block.
    fn one(insts: Vec<Inst>, end: Terminator) -> Program {
        program(vec![(insts, end)])
    }

    #[test]
    fn what_no_pass_may_leave_behind_is_named() {
        let add = Op::Int(IntOp::Add, Scalar::U32);
        let setp = Op::Setp { compare: Compare::Lt, scalar: Scalar::U32, ftz: false, logic: None };
        let two = || vec![Val::Reg(2), Val::Imm(1)];
        let rows = [
            (
                vec![inst(add.clone(), vec![11], two())],
                Terminator::Exit,
                "b0: `%11 = add.u32 %2, 1`: there is no register %11",
            ),
            (
                vec![inst(add, vec![2], vec![Val::Imm(1)])],
                Terminator::Exit,
                "b0: `%2 = add.u32 1`: 1 results of 1 operands",
            ),
            (
                vec![inst(setp, vec![2], two())],
                Terminator::Exit,
                "b0: `%2 = setp.lt.u32 %2, 1`: its result is no predicate",
            ),
            (
                vec![inst(Op::Pure(Helper::Prmt), vec![2], two())],
                Terminator::Exit,
                "b0: `%2 = pure.Prmt %2, 1`: 1 results of 2 operands",
            ),
            (vec![], Terminator::Jump(7), "b0: `jump b7`: there is no block b7"),
            (vec![], Terminator::Sync(0), "b0: `sync s0`: there is no synchronization s0"),
            (
                vec![],
                Terminator::Branch { reg: 2, negated: true, then: 0, other: 0 },
                "b0: `branch !%2, b0, b0`: %2 is no predicate",
            ),
        ];
        for (insts, end, expected) in rows {
            assert_eq!(verify(&one(insts, end)), Err(expected.to_owned()));
        }
        assert_eq!(verify(&one(vec![inst(Op::Mov, vec![2], vec![Val::Imm(0)])], Terminator::Exit)), Ok(()));
    }
}
