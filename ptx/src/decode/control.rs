//! Branches, calls and their arguments, returns, thread exits, and everything that is resolved once all functions are
//! known.

use super::*;
use crate::ir::layout::{find_components, find_returns, place_shared};
use crate::runtime::helper::BUILTINS;
use crate::text::ast::Prototype;

impl<'a> Decoder<'a> {
    pub(super) fn branch(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        m.take("uni");
        let [Operand::Name(name)] = operands::<1>(ops)? else { return invalid("a label is expected") };
        let target = self.label(*name)?;
        self.end(Terminator::Jump(target));
        Ok(())
    }

    pub(super) fn branch_by_index(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        m.one_of(&["idx"])?;
        m.take("uni");
        let [index, Operand::Name(list)] = operands::<2>(ops)? else {
            return invalid("an index and a list of labels are expected");
        };
        let index = self.src(index, Scalar::U32)?;
        let Symbol::Targets(names) = self.lookup(*list)? else {
            return invalid("not a list of .branchtargets");
        };
        let targets = names.into_iter().map(|name| self.label(name)).collect::<Check<Vec<_>>>()?;
        self.end(Terminator::Table { index, targets });
        Ok(())
    }

    pub(super) fn call_function(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        m.take("uni");
        self.call(ops)?;
        Ok(())
    }

    pub(super) fn ret(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        m.take("uni");
        operands::<0>(ops)?;
        self.leave()?;
        Ok(())
    }

    pub(super) fn exit(&mut self, ops: &'a [Operand]) -> Check<()> {
        operands::<0>(ops)?;
        self.end(Terminator::Exit);
        Ok(())
    }

    pub(super) fn trap(&mut self, ops: &'a [Operand]) -> Check<()> {
        operands::<0>(ops)?;
        self.end(Terminator::Trap(crate::runtime::state::TRAP_TRAP));
        Ok(())
    }

    pub(super) fn breakpoint(&mut self, ops: &'a [Operand]) -> Check<()> {
        operands::<0>(ops)?;
        self.end(Terminator::Trap(crate::runtime::state::TRAP_BREAKPOINT));
        Ok(())
    }

    pub(super) fn alloca(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let scalar = m.scalar()?;
        if ops.len() != 2 && ops.len() != 3 {
            return invalid("two or three operands are expected");
        }
        let dst = self.dst(&ops[0], scalar)?;
        let size = self.src(&ops[1], scalar)?;
        let align = match ops.get(2) {
            None => 16,
            Some(Operand::Int(align)) if align.is_power_of_two() => *align,
            Some(_) => return invalid("the alignment is a power of two"),
        };
        self.alloca.push(self.function);
        let up = self.emit(Op::Int(IntOp::Add, Scalar::U64), Scalar::U64, vec![Val::Reg(STACK), Val::Imm(align - 1)]);
        let start = self.emit(Op::Int(IntOp::And, Scalar::B64), Scalar::U64, vec![up, Val::Imm(!(align - 1))]);
        let size = self.emit(Op::Int(IntOp::Extend, scalar), Scalar::U64, vec![size]);
        let end = self.emit(Op::Int(IntOp::Add, Scalar::U64), Scalar::U64, vec![start, size]);
        self.push(Op::System(Helper::StackCheck, 0), vec![], vec![end]);
        self.push(Op::Mov, vec![STACK], vec![end]);
        self.push(Op::Int(IntOp::Extend, Scalar::U64), vec![dst], vec![start]);
        Ok(())
    }

    pub(super) fn save_or_restore_stack(&mut self, base: &str, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let scalar = m.scalar()?;
        let [operand] = operands::<1>(ops)?;
        self.alloca.push(self.function);
        if base == "stacksave" {
            let dst = self.dst(operand, scalar)?;
            self.push(Op::Int(IntOp::Extend, Scalar::U64), vec![dst], vec![Val::Reg(STACK)]);
        } else {
            let value = self.src(operand, scalar)?;
            self.push(Op::Int(IntOp::Extend, scalar), vec![STACK], vec![value]);
        }
        Ok(())
    }

    pub(super) fn nanosleep(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        m.one_of(&["u32"])?;
        let [time] = operands::<1>(ops)?;
        let time = self.src(time, Scalar::U32)?;
        self.push(Op::System(Helper::Nanosleep, 0), vec![], vec![time]);
        self.sync(SyncOp::Yield, Convergence::Alone, vec![], vec![]);
        Ok(())
    }

    pub(super) fn performance_event(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        m.take("mask");
        operands::<1>(ops)?;
        Ok(())
    }

    pub(super) fn set_registers(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        m.one_of(&["inc", "dec"])?;
        m.one_of(&["sync"])?;
        m.one_of(&["aligned"])?;
        m.one_of(&["u32"])?;
        operands::<1>(ops)?;
        Ok(())
    }

    pub(super) fn control_dependents(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        m.one_of(&["launch_dependents", "wait"])?;
        operands::<0>(ops)?;
        Ok(())
    }

    /// Copies the arguments from the area that caller and callee share.
    pub(super) fn prologue(&mut self, prototype: &'a Prototype) -> Check<()> {
        let (offsets, _) = call_layout(&prototype.params);
        for (variable, offset) in prototype.params.iter().zip(offsets) {
            let symbol = self.parameter(variable);
            self.copy_argument(&symbol, variable, offset, true)?;
            let name = self.text(variable.name);
            self.scopes[1].names.insert(name, symbol);
        }
        for variable in &prototype.returns {
            let symbol = self.parameter(variable);
            let name = self.text(variable.name);
            self.scopes[1].names.insert(name, symbol.clone());
            self.returns.push(symbol);
        }
        Ok(())
    }

    fn parameter(&mut self, variable: &Variable) -> Symbol {
        if variable.space == Space::Reg {
            return Symbol::Reg(self.register(variable.scalar));
        }
        Symbol::Local(self.local_room(variable.bytes(), variable.align.max(4)), variable.bytes())
    }

    /// Copies an argument or result from the shared area to a variable (or a register), or the other way.
    fn copy_argument(&mut self, symbol: &Symbol, variable: &Variable, offset: u64, from_area: bool) -> Check<()> {
        let memory = |scalar| Memory::weak(AddressSpace::Local, scalar);
        let area = |at: u64| Val::Imm(at);
        match symbol {
            Symbol::Reg(reg) => {
                let scalar = self.scalar_of(*reg);
                if from_area {
                    self.push(Op::Load(memory(scalar)), vec![*reg], vec![area(offset)]);
                } else {
                    self.push(Op::Store(memory(scalar)), vec![], vec![area(offset), Val::Reg(*reg)]);
                }
            }
            Symbol::Local(at, bytes) => {
                let mut done = 0;
                let bytes = (*bytes).min(variable.bytes());
                while done < bytes {
                    let scalar = [Scalar::B64, Scalar::B32, Scalar::B16, Scalar::B8]
                        .into_iter()
                        .find(|s| {
                            let size = u64::from(s.bytes());
                            done + size <= bytes
                                && (offset + done).is_multiple_of(size)
                                && (*at as u64 + done).is_multiple_of(size)
                        })
                        .unwrap_or(Scalar::B8);
                    let (inside, outside) = (Val::Local(at + done as i64), area(offset + done));
                    let (from, to) = if from_area { (outside, inside) } else { (inside, outside) };
                    let value = self.emit(Op::Load(memory(scalar)), scalar, vec![from]);
                    self.push(Op::Store(memory(scalar)), vec![], vec![to, value]);
                    done += u64::from(scalar.bytes());
                }
            }
            _ => return invalid("an argument is a .param variable, a register or a number"),
        }
        Ok(())
    }

    /// `ret`, which ends a kernel's thread.
    pub(super) fn leave(&mut self) -> Check<()> {
        if self.function == 0 {
            self.end(Terminator::Exit);
            return Ok(());
        }
        let item = &self.image.functions[self.program.functions[self.function as usize].image as usize];
        let module = &self.image.modules[item.module as usize];
        let returns = &module.ast().functions[item.index as usize].prototype.returns;
        let (offsets, _) = call_layout(returns);
        let symbols = self.returns.clone();
        for ((variable, offset), symbol) in returns.iter().zip(offsets).zip(&symbols) {
            self.copy_argument(symbol, variable, offset, false)?;
        }
        self.end(Terminator::Return);
        Ok(())
    }

    fn call(&mut self, ops: &'a [Operand]) -> Check<()> {
        let mut rest = ops;
        let none: &[Operand] = &[];
        let group = |rest: &mut &'a [Operand]| match rest {
            [Operand::Group(list), tail @ ..] => {
                *rest = tail;
                &list[..]
            }
            _ => none,
        };
        let mut results = group(&mut rest);
        if let [Operand::Name(name), Operand::Name(_), ..] = rest
            && self.text(*name) == "_"
        {
            rest = &rest[1..];
            results = none;
        }
        let [Operand::Name(target), tail @ ..] = rest else { return invalid("a function is expected") };
        rest = tail;
        let arguments = group(&mut rest);
        let symbol = self.lookup(*target)?;
        let prototype = match (&symbol, rest) {
            (Symbol::Function(index), []) => {
                let item = &self.image.functions[*index as usize];
                if let Some(builtin) = BUILTINS.iter().find(|b| b.0 == item.name)
                    && !item.body
                {
                    return self.call_builtin(builtin, results, arguments);
                }
                self.image.modules[item.module as usize].ast().functions[item.index as usize].prototype.clone()
            }
            (Symbol::Reg(_), [Operand::Name(list)]) => match self.lookup(*list)? {
                Symbol::Prototype(prototype) => prototype,
                Symbol::Targets(names) => {
                    let Some(first) = names.first() else { return invalid("no .calltargets") };
                    let Symbol::Function(index) = self.lookup(*first)? else { return invalid("not a function") };
                    let item = &self.image.functions[index as usize];
                    self.image.modules[item.module as usize].ast().functions[item.index as usize].prototype.clone()
                }
                _ => return invalid("a prototype is expected"),
            },
            _ => return invalid("a function, or a register with a prototype, is expected"),
        };
        if arguments.len() != prototype.params.len() || results.len() > prototype.returns.len() {
            return invalid(format!(
                "the function takes {} arguments and gives {} results",
                prototype.params.len(),
                prototype.returns.len()
            ));
        }
        let (offsets, bytes) = call_layout(&prototype.params);
        let (back_offsets, back_bytes) = call_layout(&prototype.returns);
        if bytes.max(back_bytes) > ARGUMENT_BYTES {
            return unsupported(format!("a call with more than {ARGUMENT_BYTES} bytes of arguments"));
        }
        for ((operand, variable), offset) in arguments.iter().zip(&prototype.params).zip(offsets) {
            let symbol = match operand {
                Operand::Name(name) => self.lookup(*name)?,
                other => {
                    let value = self.src(other, variable.scalar)?;
                    let Val::Reg(reg) = self.emit(Op::Mov, variable.scalar, vec![value]) else { continue };
                    Symbol::Reg(reg)
                }
            };
            self.copy_argument(&symbol, variable, offset, false)?;
        }
        let back = self.new_block();
        match symbol {
            Symbol::Function(index) => {
                let callee = self.reach(index);
                self.calls.push((self.function, callee));
                self.end(Terminator::Call { callee, back });
            }
            Symbol::Reg(reg) => {
                self.fits(reg, Scalar::B64, false)?;
                let mut callees = Vec::new();
                for index in self.image.address_taken(&prototype) {
                    let callee = self.reach(index);
                    self.calls.push((self.function, callee));
                    callees.push(callee);
                }
                self.end(Terminator::CallIndirect { pointer: Val::Reg(reg), callees, back });
            }
            _ => return invalid("a function is expected"),
        }
        self.block = back;
        for ((operand, variable), offset) in results.iter().zip(&prototype.returns).zip(back_offsets) {
            let Operand::Name(name) = operand else { return invalid("a result is a variable or a register") };
            if self.text(*name) == "_" {
                continue;
            }
            let symbol = self.lookup(*name)?;
            self.copy_argument(&symbol, variable, offset, true)?;
        }
        Ok(())
    }

    fn call_builtin(
        &mut self,
        builtin: &(&str, Helper, &[u32], u32),
        results: &'a [Operand],
        arguments: &'a [Operand],
    ) -> Check<()> {
        let (name, helper, sizes, result) = builtin;
        if sizes.len() != arguments.len() {
            return invalid(format!("{name} takes {} arguments", sizes.len()));
        }
        let memory = |scalar| Memory::weak(AddressSpace::Local, scalar);
        let mut src = Vec::new();
        for (operand, size) in arguments.iter().zip(*sizes) {
            if *size == 12 {
                let Operand::Name(variable) = operand else { return invalid("a dim3 is expected") };
                let Symbol::Local(at, _) = self.lookup(*variable)? else { return invalid("a dim3 is expected") };
                for word in [0, 4, 8] {
                    src.push(self.emit(Op::Load(memory(Scalar::B32)), Scalar::B32, vec![Val::Local(at + word)]));
                }
                continue;
            }
            let scalar = if *size == 8 { Scalar::B64 } else { Scalar::B32 };
            let value = match operand {
                Operand::Name(variable) => match self.lookup(*variable)? {
                    Symbol::Local(at, _) if at >= 0 => {
                        self.emit(Op::Load(memory(scalar)), scalar, vec![Val::Local(at)])
                    }
                    _ => self.src(operand, scalar)?,
                },
                other => self.src(other, scalar)?,
            };
            src.push(value);
        }
        let scalar = if *result == 8 { Scalar::B64 } else { Scalar::B32 };
        let reg = self.temp(scalar);
        self.push(Op::System(*helper, 0), if *result > 0 { vec![reg] } else { vec![] }, src);
        if let [Operand::Name(variable)] = results
            && *result > 0
            && self.text(*variable) != "_"
        {
            match self.lookup(*variable)? {
                Symbol::Local(at, _) if at >= 0 => {
                    self.push(Op::Store(memory(scalar)), vec![], vec![Val::Local(at), Val::Reg(reg)]);
                }
                Symbol::Reg(dst) => self.push(Op::Mov, vec![dst], vec![Val::Reg(reg)]),
                _ => return invalid("a result is a variable or a register"),
            }
        }
        Ok(())
    }

    /// Settles what depends on all functions: recursion, frames and the places of shared variables.
    pub(super) fn finish(&mut self) {
        find_components(&mut self.program, &self.calls);
        for index in 0..self.program.functions.len() {
            let is_alloca = index > 0 && self.alloca.contains(&(index as u32));
            let function = &mut self.program.functions[index];
            let recursive = is_alloca || function.component.contains(&(index as u32));
            function.recursive = recursive;
            if recursive {
                self.program.stack = true;
                function.frame = self.frames[index];
            } else {
                self.program.local = self.program.local.next_multiple_of(16);
                function.base = self.program.local;
                self.program.local += self.frames[index];
            }
        }
        self.program.stack |= !self.alloca.is_empty();
        self.program.local = self.program.local.next_multiple_of(16);
        find_returns(&mut self.program);
        // Every jump has a target, so a block that is still open is unreachable code.
        for block in &mut self.program.blocks {
            if matches!(block.end, Terminator::Open) {
                block.end = Terminator::Exit;
            }
        }
        place_shared(&mut self.program);
    }
}
