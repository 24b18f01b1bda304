//! What must hold of a program between passes, and what liveness claims of it. Every pass is followed by this in debug builds.

use crate::flow::{Flow, Set, successors};
use crate::ir::*;
use crate::types::Scalar;

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
            Op::Pure(_) => results == 1 && operands <= 4,
            // As many as the context has room for.
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
    // Calls and returns move both.
    if program.stack {
        [FRAME, STACK].into_iter().for_each(|reg| set.insert(reg));
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(insts: Vec<Inst>, end: Terminator) -> Program {
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
        Program {
            regs: [Scalar::B64, Scalar::B64, Scalar::U32, Scalar::Pred].map(|scalar| RegInfo { scalar }).to_vec(),
            blocks: vec![Block { insts, end, function: 0, site: 0 }],
            functions: vec![function],
            ..Program::default()
        }
    }

    fn inst(op: Op, dst: Vec<Reg>, src: Vec<Val>) -> Inst {
        Inst { op, dst, src, site: 0 }
    }

    #[test]
    fn what_no_pass_may_leave_behind_is_named() {
        let add = Op::Int(IntOp::Add, Scalar::U32);
        let setp = Op::Setp { compare: Compare::Lt, scalar: Scalar::U32, ftz: false, logic: None };
        let two = || vec![Val::Reg(2), Val::Imm(1)];
        let rows = [
            (
                vec![inst(add.clone(), vec![9], two())],
                Terminator::Exit,
                "b0: `%9 = add.u32 %2, 1`: there is no register %9",
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
            (vec![], Terminator::Jump(7), "b0: `jump b7`: there is no block b7"),
            (vec![], Terminator::Sync(0), "b0: `sync s0`: there is no synchronization s0"),
            (
                vec![],
                Terminator::Branch { reg: 2, negated: true, then: 0, other: 0 },
                "b0: `branch !%2, b0, b0`: %2 is no predicate",
            ),
        ];
        for (insts, end, expected) in rows {
            assert_eq!(verify(&program(insts, end)), Err(expected.to_owned()));
        }
        assert_eq!(verify(&program(vec![inst(Op::Mov, vec![2], vec![Val::Imm(0)])], Terminator::Exit)), Ok(()));
    }

    #[test]
    fn a_register_that_liveness_forgets_is_named() {
        let read = inst(Op::Mov, vec![SINK], vec![Val::Reg(2)]);
        let program = program(vec![read], Terminator::Exit);
        let mut flow = crate::flow::analyse(&program, &[0; 4], None);
        assert_eq!(verify_flow(&program, &flow), Ok(()));
        flow.zeroed = Set::new(4);
        let message = verify_flow(&program, &flow).unwrap_err();
        assert_eq!(message, "b0: %2 is read, but has no value on some way there");
    }
}
