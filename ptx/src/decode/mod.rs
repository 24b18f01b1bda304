//! The checker: a kernel's statements, with those of all functions that it reaches, to operations. What it does not know is refused with its line.

mod arithmetic;
mod control;
mod convert;
mod float;
mod matrix;
mod memory;
mod warp;

use std::collections::HashMap;

pub(crate) use control::is_builtin;

use crate::ast::{Instruction, Operand, Space, Statement, Variable};
use crate::error::{Refusal, RefusalKind, Span};
use crate::helper::Helper;
use crate::image::{Image, Item};
use crate::ir::*;
use crate::machine::SyncOp;
use crate::types::Scalar;

/// Registers that every program has: where the current frame begins, and where the next one will.
pub(crate) const FRAME: Reg = 0;
pub(crate) const STACK: Reg = 1;

pub(crate) struct Fault {
    kind: RefusalKind,
    message: String,
}

pub(crate) type Check<T> = Result<T, Fault>;

pub(crate) fn invalid<T>(message: impl Into<String>) -> Check<T> {
    Err(Fault { kind: RefusalKind::Invalid, message: message.into() })
}

pub(crate) fn unsupported<T>(message: impl Into<String>) -> Check<T> {
    Err(Fault { kind: RefusalKind::Unsupported, message: message.into() })
}

/// The modifiers of an opcode; each must be taken.
pub(crate) struct Modifiers<'a> {
    list: Vec<&'a str>,
}

impl<'a> Modifiers<'a> {
    /// Takes a modifier if it is there.
    fn take(&mut self, name: &str) -> bool {
        match self.list.iter().position(|m| *m == name) {
            Some(at) => {
                self.list.remove(at);
                true
            }
            None => false,
        }
    }

    fn take_any(&mut self, names: &[&'static str]) -> Option<&'static str> {
        names.iter().find(|name| self.take(name)).copied()
    }

    fn one_of(&mut self, names: &[&'static str]) -> Check<&'static str> {
        match self.take_any(names) {
            Some(name) => Ok(name),
            None => invalid(format!("one of .{} is missing", names.join(", ."))),
        }
    }

    /// Takes the first modifier that is a type.
    fn scalar(&mut self) -> Check<Scalar> {
        match self.scalar_if_any() {
            Some(scalar) => Ok(scalar),
            None => invalid("the type is missing"),
        }
    }

    fn scalar_if_any(&mut self) -> Option<Scalar> {
        let at = self.list.iter().position(|m| Scalar::named(m).is_some())?;
        Scalar::named(self.list.remove(at))
    }

    /// Modifiers that say how memory is cached and prefetched: without effect here.
    fn hints(&mut self) -> bool {
        self.list.retain(|m| {
            !(m.starts_with("L1::") || matches!(*m, "L2::64B" | "L2::128B" | "L2::256B") || m.starts_with("L2::evict"))
        });
        self.take("L2::cache_hint")
    }

    fn finish(&self) -> Check<()> {
        match self.list.first() {
            None => Ok(()),
            Some(first) => unsupported(format!("the modifier .{first} with these operands")),
        }
    }
}

#[derive(Clone, Debug)]
enum Symbol {
    Reg(Reg),
    Vector(Vec<Reg>),
    Local(i64, u64),
    KernelParam(i64),
    Shared(u32),
    Global(u32),
    Function(u32),
    Targets(Vec<Span>),
    Prototype(crate::ast::Prototype),
}

#[derive(Default)]
struct Scope<'a> {
    names: HashMap<&'a str, Symbol>,
    ranges: HashMap<&'a str, (Reg, u32)>,
    labels: HashMap<&'a str, u32>,
}

/// Where the arguments and results of a call lie in the area that both sides share.
pub(crate) fn call_layout(variables: &[Variable]) -> (Vec<u64>, u64) {
    let mut at: u64 = 0;
    let offsets = variables
        .iter()
        .map(|variable| {
            at = at.next_multiple_of(variable.align.max(1));
            let offset = at;
            at += variable.bytes();
            offset
        })
        .collect();
    (offsets, at)
}

pub(crate) struct Decoder<'a> {
    image: &'a Image,
    pub(crate) program: Program,
    owners: Vec<u32>,
    scopes: Vec<Scope<'a>>,
    module: u32,
    function: u32,
    block: u32,
    site: u32,
    /// Indices in the image of the functions of the program, and those still to be read.
    known: HashMap<u32, u32>,
    queue: Vec<u32>,
    shared: HashMap<(u32, Span), u32>,
    locals: HashMap<u32, u64>,
    returns: Vec<Symbol>,
    carry: Reg,
    /// Bytes that a function's frame or the static part of local memory has so far.
    frames: Vec<u64>,
    calls: Vec<(u32, u32)>,
    alloca: Vec<u32>,
}

const ARGUMENT_BYTES: u64 = 4096;

/// A checked program, or why not.
pub(crate) fn decode(image: &Image, kernel: u32) -> Result<(Program, Vec<u32>), Refusal> {
    let mut decoder = Decoder {
        image,
        program: Program::default(),
        owners: Vec::new(),
        scopes: Vec::new(),
        module: 0,
        function: 0,
        block: 0,
        site: 0,
        known: HashMap::new(),
        queue: Vec::new(),
        shared: HashMap::new(),
        locals: HashMap::new(),
        returns: Vec::new(),
        carry: 0,
        frames: Vec::new(),
        calls: Vec::new(),
        alloca: Vec::new(),
    };
    decoder.register(Scalar::B64);
    decoder.register(Scalar::B64);
    decoder.program.local = ARGUMENT_BYTES;
    decoder.reach(kernel);
    let mut next = 0;
    while next < decoder.queue.len() {
        let image_index = decoder.queue[next];
        decoder.read_function(next as u32, image_index)?;
        next += 1;
    }
    decoder.finish();
    Ok((decoder.program, decoder.owners))
}

impl<'a> Decoder<'a> {
    fn register(&mut self, scalar: Scalar) -> Reg {
        self.program.regs.push(RegInfo { scalar });
        self.owners.push(self.function);
        self.program.regs.len() as Reg - 1
    }

    fn reach(&mut self, image_index: u32) -> u32 {
        if let Some(known) = self.known.get(&image_index) {
            return *known;
        }
        let index = self.queue.len() as u32;
        self.known.insert(image_index, index);
        self.queue.push(image_index);
        self.program.functions.push(FunctionInfo {
            image: image_index,
            name: self.image.functions[image_index as usize].name.clone(),
            entry: 0,
            recursive: false,
            returns: Vec::new(),
            frame: 0,
            base: 0,
            component: Vec::new(),
        });
        self.frames.push(16);
        let saved = self.function;
        self.function = index;
        let entry = self.new_block();
        self.function = saved;
        self.program.functions[index as usize].entry = entry;
        index
    }

    fn new_block(&mut self) -> u32 {
        self.program.blocks.push(Block {
            insts: Vec::new(),
            end: Terminator::Open,
            function: self.function,
            site: self.site,
        });
        self.program.blocks.len() as u32 - 1
    }

    fn text(&self, span: Span) -> &'a str {
        self.image.modules[self.module as usize].source().get(span)
    }

    fn refusal(&self, span: Span, fault: Fault) -> Refusal {
        let source = self.image.modules[self.module as usize].source();
        Refusal {
            kind: fault.kind,
            function: self.program.functions[self.function as usize].name.clone(),
            place: source.place(span.start),
            instruction: source.one_line(span),
            message: fault.message,
        }
    }

    fn read_function(&mut self, index: u32, image_index: u32) -> Result<(), Refusal> {
        self.function = index;
        let item = &self.image.functions[image_index as usize];
        self.module = item.module;
        let module = &self.image.modules[item.module as usize];
        let function = &module.ast().functions[item.index as usize];
        self.scopes = vec![Scope::default(), Scope::default()];
        for (name, prototype) in &module.ast().prototypes {
            let name = self.text(*name);
            self.scopes[0].names.insert(name, Symbol::Prototype(prototype.clone()));
        }
        self.block = self.program.functions[index as usize].entry;
        self.mark(function.name, None);
        self.returns.clear();
        self.carry = self.register(Scalar::Pred);
        let Some(body) = &function.body else {
            let fault = Fault { kind: RefusalKind::Unsupported, message: "the function has no body here".into() };
            return Err(self.refusal(function.name, fault));
        };
        if function.entry {
            let (offsets, bytes) = call_layout(&function.prototype.params);
            self.program.param_bytes = bytes;
            for (variable, offset) in function.prototype.params.iter().zip(offsets) {
                let symbol = Symbol::KernelParam(offset as i64);
                let name = self.text(variable.name);
                self.scopes[1].names.insert(name, symbol);
            }
        } else {
            self.prologue(&function.prototype).map_err(|fault| self.refusal(function.name, fault))?;
        }
        let mut depth_scopes: Vec<Vec<(&'a str, u32)>> = self.labels_by_scope(body);
        depth_scopes.reverse();
        if let Some(labels) = depth_scopes.pop() {
            self.scopes[1].labels.extend(labels);
        }
        for statement in body {
            match statement {
                Statement::Open => {
                    let mut scope = Scope::default();
                    if let Some(labels) = depth_scopes.pop() {
                        scope.labels.extend(labels);
                    }
                    self.scopes.push(scope);
                }
                Statement::Close => {
                    self.scopes.pop();
                }
                Statement::Variable(variable) => {
                    self.declare(variable).map_err(|fault| self.refusal(variable.name, fault))?;
                }
                Statement::Prototype(name, prototype) => {
                    let text = self.text(*name);
                    self.innermost().names.insert(text, Symbol::Prototype(prototype.clone()));
                }
                Statement::Targets(name, targets) => {
                    let text = self.text(*name);
                    self.innermost().names.insert(text, Symbol::Targets(targets.clone()));
                }
                Statement::Label(name) => {
                    let block = self.label(*name).map_err(|fault| self.refusal(*name, fault))?;
                    self.end(Terminator::Jump(block));
                    self.block = block;
                }
                Statement::Instruction(instruction) => {
                    self.mark(instruction.span, instruction.origin);
                    self.instruction(instruction).map_err(|fault| self.refusal(instruction.span, fault))?;
                }
            }
        }
        // Behind the last instruction a function returns.
        if matches!(self.program.blocks[self.block as usize].end, Terminator::Open) {
            self.leave().map_err(|fault| self.refusal(function.name, fault))?;
        }
        Ok(())
    }

    /// Labels of each scope, in the order in which the scopes open.
    fn labels_by_scope(&mut self, body: &'a [Statement]) -> Vec<Vec<(&'a str, u32)>> {
        let mut all = vec![Vec::new()];
        let mut open = vec![0];
        for statement in body {
            match statement {
                Statement::Open => {
                    all.push(Vec::new());
                    open.push(all.len() - 1);
                }
                Statement::Close => {
                    open.pop();
                }
                Statement::Label(name) => {
                    let block = self.new_block();
                    let text = self.text(*name);
                    all[*open.last().unwrap_or(&0)].push((text, block));
                }
                _ => {}
            }
        }
        all
    }

    fn innermost(&mut self) -> &mut Scope<'a> {
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    fn mark(&mut self, span: Span, origin: Option<(u32, u32)>) {
        let place = self.image.modules[self.module as usize].source().place(span.start);
        self.program.sites.push(Site { module: self.module, span, place, origin });
        self.site = self.program.sites.len() as u32 - 1;
    }

    fn label(&self, name: Span) -> Check<u32> {
        let text = self.text(name);
        match self.scopes.iter().rev().find_map(|scope| scope.labels.get(text)) {
            Some(block) => Ok(*block),
            None => invalid(format!("label {text} is not defined")),
        }
    }

    /// Room in the frame (or in the static part of local memory, settled at the end).
    fn local_room(&mut self, size: u64, align: u64) -> i64 {
        let frame = &mut self.frames[self.function as usize];
        *frame = frame.next_multiple_of(align.max(1));
        let offset = *frame;
        *frame += size;
        offset as i64
    }

    fn declare(&mut self, variable: &'a Variable) -> Check<()> {
        let name = self.text(variable.name);
        let symbol = match variable.space {
            Space::Reg => match variable.count {
                Some(count) => {
                    if count > 1 << 20 {
                        return invalid("too many registers");
                    }
                    let first = self.program.regs.len() as Reg;
                    for _ in 0..count {
                        self.register(variable.scalar);
                    }
                    self.innermost().ranges.insert(name, (first, count));
                    return Ok(());
                }
                None if variable.vector > 1 => {
                    Symbol::Vector((0..variable.vector).map(|_| self.register(variable.scalar)).collect())
                }
                None => Symbol::Reg(self.register(variable.scalar)),
            },
            Space::Local | Space::Param => {
                Symbol::Local(self.local_room(variable.bytes(), variable.align.max(4)), variable.bytes())
            }
            Space::Shared => Symbol::Shared(self.shared_variable(variable)),
            Space::Global | Space::Const => match self.image.static_variable(self.module, variable.name) {
                Some(index) => Symbol::Global(index),
                None => return unsupported("a device variable declared in a function"),
            },
        };
        self.innermost().names.insert(name, symbol);
        Ok(())
    }

    fn shared_variable(&mut self, variable: &Variable) -> u32 {
        let key = (self.module, variable.name);
        if let Some(index) = self.shared.get(&key) {
            return *index;
        }
        let dynamic = variable.linking.external;
        let size = variable.bytes();
        self.program.shared.push(SharedVariable { size, align: variable.align, dynamic, offset: 0 });
        let index = self.program.shared.len() as u32 - 1;
        self.shared.insert(key, index);
        index
    }

    fn lookup(&mut self, name: Span) -> Check<Symbol> {
        let text = self.text(name);
        for scope in self.scopes.iter().rev() {
            if let Some(symbol) = scope.names.get(text) {
                return Ok(symbol.clone());
            }
            let digits = text.bytes().rev().take_while(u8::is_ascii_digit).count();
            for split in (text.len() - digits)..text.len() {
                if let Some((first, count)) = scope.ranges.get(&text[..split])
                    && let Ok(number) = text[split..].parse::<u32>()
                    && number < *count
                    && (number == 0 || !text[split..].starts_with('0'))
                {
                    return Ok(Symbol::Reg(first + number));
                }
            }
        }
        match self.image.find(self.module, text) {
            Some(Item::Variable(index)) => Ok(Symbol::Global(index)),
            Some(Item::Shared(module, index)) => {
                let saved = self.module;
                self.module = module;
                let variable = &self.image.modules[module as usize].ast().variables[index as usize];
                let shared = self.shared_variable(variable);
                self.module = saved;
                Ok(Symbol::Shared(shared))
            }
            Some(Item::Local(module, index)) => {
                let variable = &self.image.modules[module as usize].ast().variables[index as usize];
                let key = index | module << 20;
                let offset = match self.locals.get(&key) {
                    Some(offset) => *offset,
                    None => {
                        let offset = self.program.local.next_multiple_of(variable.align);
                        self.program.local = offset + variable.bytes();
                        self.locals.insert(key, offset);
                        offset
                    }
                };
                // Module scope: the same for all functions, so marked as static by a negative number.
                Ok(Symbol::Local(-(offset as i64) - 1, variable.bytes()))
            }
            Some(Item::Function(index)) => Ok(Symbol::Function(index)),
            None => invalid(format!("{text} is not defined")),
        }
    }

    // ---- emitting ----

    fn push(&mut self, op: Op, dst: Vec<Reg>, src: Vec<Val>) {
        let inst = Inst { op, dst, src, site: self.site };
        self.program.blocks[self.block as usize].insts.push(inst);
    }

    fn end(&mut self, end: Terminator) {
        let block = &mut self.program.blocks[self.block as usize];
        if matches!(block.end, Terminator::Open) {
            block.end = end;
            block.site = self.site;
        }
    }

    fn temp(&mut self, scalar: Scalar) -> Reg {
        self.register(scalar)
    }

    /// Emits an operation with one new register as its result.
    fn emit(&mut self, op: Op, scalar: Scalar, src: Vec<Val>) -> Val {
        let reg = self.temp(scalar);
        self.push(op, vec![reg], src);
        Val::Reg(reg)
    }

    fn pure(&mut self, helper: Helper, dst: Reg, src: Vec<Val>) {
        self.push(Op::Pure(helper), vec![dst], src);
    }

    fn sync(&mut self, op: SyncOp, meeting: Meeting, dst: Vec<Reg>, src: Vec<Val>) {
        let resume = self.new_block();
        let src = src.into_iter().map(|value| self.homeable(value)).collect();
        self.program.syncs.push(SyncPoint { op, meeting, dst, src, site: self.site, resume });
        let index = self.program.syncs.len() as u32 - 1;
        self.end(Terminator::Sync(index));
        self.block = resume;
    }

    /// A synchronisation reads registers and numbers only.
    fn homeable(&mut self, value: Val) -> Val {
        match value {
            Val::Reg(_) | Val::Imm(_) => value,
            other => self.emit(Op::Mov, Scalar::B64, vec![other]),
        }
    }

    // ---- operands ----

    fn scalar_of(&self, reg: Reg) -> Scalar {
        self.program.regs[reg as usize].scalar
    }

    fn reg(&mut self, operand: &Operand) -> Check<Reg> {
        match operand {
            Operand::Name(name) if self.text(*name) == "_" => Ok(SINK),
            Operand::Name(name) => match self.lookup(*name)? {
                Symbol::Reg(reg) => Ok(reg),
                _ => invalid(format!("{} is not a register", self.text(*name))),
            },
            Operand::Element(name, element) => match self.lookup(*name)? {
                Symbol::Vector(regs) if (*element as usize) < regs.len() => Ok(regs[*element as usize]),
                _ => invalid(format!("{} has no such element", self.text(*name))),
            },
            Operand::Vector(one) if one.len() == 1 => self.reg(&one[0]),
            _ => invalid("a register is expected as destination"),
        }
    }

    fn fits(&self, reg: Reg, scalar: Scalar, wider: bool) -> Check<()> {
        if reg == SINK {
            return Ok(());
        }
        let have = self.scalar_of(reg);
        let want = scalar.bits().max(8);
        let bits = have.bits().max(8);
        let size = (have == Scalar::Pred) == (scalar == Scalar::Pred) && (bits == want || (wider && bits > want));
        // An integer register is no float and the other way round; untyped ones are either.
        let clash = !wider && ((have.float() && scalar.integer()) || (scalar.float() && have.integer()));
        if !size || clash {
            return invalid(format!("a .{} register where .{} is expected", have.name(), scalar.name()));
        }
        Ok(())
    }

    /// A destination register for a value of this type.
    fn dst(&mut self, operand: &Operand, scalar: Scalar) -> Check<Reg> {
        let reg = self.reg(operand)?;
        self.fits(reg, scalar, false)?;
        Ok(reg)
    }

    /// As `dst`, of registers that may be wider: loads and conversions.
    fn dst_wide(&mut self, operand: &Operand, scalar: Scalar) -> Check<Reg> {
        let reg = self.reg(operand)?;
        self.fits(reg, scalar, true)?;
        Ok(reg)
    }

    fn src(&mut self, operand: &Operand, scalar: Scalar) -> Check<Val> {
        self.value(operand, scalar, false)
    }

    fn src_wide(&mut self, operand: &Operand, scalar: Scalar) -> Check<Val> {
        self.value(operand, scalar, true)
    }

    fn value(&mut self, operand: &Operand, scalar: Scalar, wider: bool) -> Check<Val> {
        match operand {
            Operand::Name(name) => {
                let text = self.text(*name);
                if text.starts_with('%')
                    && let Some(special) = special(text, 0)
                {
                    return Ok(Val::Special(special));
                }
                match self.lookup(*name)? {
                    Symbol::Reg(reg) => {
                        self.fits(reg, scalar, wider)?;
                        Ok(Val::Reg(reg))
                    }
                    Symbol::Vector(_) | Symbol::Targets(_) | Symbol::Prototype(_) => {
                        invalid(format!("{text} is not a scalar value"))
                    }
                    symbol => self.symbol_address(symbol, 0),
                }
            }
            Operand::Element(name, element) => {
                let text = self.text(*name);
                if let Some(special) = special(text, *element) {
                    return Ok(Val::Special(special));
                }
                let reg = self.reg(operand)?;
                self.fits(reg, scalar, wider)?;
                Ok(Val::Reg(reg))
            }
            Operand::Offset(name, offset) => {
                let symbol = self.lookup(*name)?;
                self.symbol_address(symbol, *offset)
            }
            Operand::Int(value) => {
                if scalar.float() && scalar.bits() >= 32 && *value != 0 {
                    return invalid("an integer where a floating-point number is expected");
                }
                Ok(Val::Imm(truncate(*value, scalar.bits())))
            }
            Operand::Double(bits) => match scalar {
                Scalar::F64 | Scalar::B64 => Ok(Val::Imm(*bits)),
                Scalar::F32 | Scalar::B32 => Ok(Val::Imm(u64::from((f64::from_bits(*bits) as f32).to_bits()))),
                _ => invalid("a floating-point number where none is expected"),
            },
            Operand::Single(bits) => match scalar {
                Scalar::F32 | Scalar::B32 | Scalar::F16x2 | Scalar::Bf16x2 | Scalar::Tf32 => {
                    Ok(Val::Imm(u64::from(*bits)))
                }
                Scalar::F64 | Scalar::B64 => Ok(Val::Imm(f64::from(f32::from_bits(*bits)).to_bits())),
                _ => invalid("a single-precision number where none is expected"),
            },
            Operand::Minus(name) => {
                let value = self.src(&Operand::Name(*name), scalar)?;
                Ok(self.emit(Op::Int(IntOp::Neg, scalar), scalar, vec![value]))
            }
            Operand::Vector(one) if one.len() == 1 => self.value(&one[0], scalar, wider),
            _ => invalid("a register or a number is expected"),
        }
    }

    fn symbol_address(&mut self, symbol: Symbol, offset: i64) -> Check<Val> {
        Ok(match symbol {
            Symbol::Global(index) => Val::Global(index, offset),
            Symbol::Shared(index) => Val::Shared(index, offset),
            Symbol::Local(at, _) if at < 0 => Val::Imm((-at - 1 + offset) as u64),
            Symbol::Local(at, _) => Val::Local(at + offset),
            Symbol::KernelParam(at) => Val::Param(at + offset),
            Symbol::Function(index) => Val::Function(index),
            _ => return invalid("an address is expected"),
        })
    }

    fn predicate(&mut self, operand: &Operand) -> Check<(Val, bool)> {
        match operand {
            Operand::Not(name) => Ok((self.src(&Operand::Name(*name), Scalar::Pred)?, true)),
            Operand::Int(value) => Ok((Val::Imm(u64::from(*value != 0)), false)),
            other => Ok((self.src(other, Scalar::Pred)?, false)),
        }
    }

    /// A predicate as a value that is already negated where the operand asks for it.
    fn plain_predicate(&mut self, operand: &Operand) -> Check<Val> {
        let (value, negated) = self.predicate(operand)?;
        Ok(if negated { self.emit(Op::Int(IntOp::Cnot, Scalar::Pred), Scalar::Pred, vec![value]) } else { value })
    }

    fn instruction(&mut self, instruction: &'a Instruction) -> Check<()> {
        let Some((name, negated)) = instruction.guard else { return self.unguarded(instruction) };
        let reg = match self.lookup(name)? {
            Symbol::Reg(reg) if self.scalar_of(reg) == Scalar::Pred => reg,
            _ => return invalid(format!("{} is not a predicate", self.text(name))),
        };
        if matches!(self.program.blocks[self.block as usize].end, Terminator::Open) {
            let then = self.new_block();
            let other = self.new_block();
            self.end(Terminator::Branch { reg, negated, then, other });
            self.block = then;
            self.unguarded(instruction)?;
            self.end(Terminator::Jump(other));
            self.block = other;
            return Ok(());
        }
        self.unguarded(instruction)
    }

    fn unguarded(&mut self, instruction: &'a Instruction) -> Check<()> {
        // Code behind a jump that no label leads to is still checked.
        if !matches!(self.program.blocks[self.block as usize].end, Terminator::Open) {
            self.block = self.new_block();
        }
        let opcode = self.text(instruction.opcode);
        let mut parts = opcode.split('.');
        let base = parts.next().unwrap_or_default();
        let mut m = Modifiers { list: parts.collect() };
        let ops = &instruction.operands[..];
        let known = self.arithmetic(base, &mut m, ops)?
            || self.float(base, &mut m, ops)?
            || self.convert(base, &mut m, ops)?
            || self.memory(base, &mut m, ops)?
            || self.control(base, &mut m, ops)?
            || self.warp(base, &mut m, ops)?
            || self.matrix(base, &mut m, ops)?;
        if !known {
            return unsupported(format!("the instruction {base}"));
        }
        m.finish()
    }
}

/// Exactly `N` operands.
pub(crate) fn operands<const N: usize>(ops: &[Operand]) -> Check<&[Operand; N]> {
    match ops.try_into() {
        Ok(array) => Ok(array),
        Err(_) => invalid(format!("{N} operands are expected, found {}", ops.len())),
    }
}

pub(crate) fn truncate(value: u64, bits: u32) -> u64 {
    if bits >= 64 { value } else { value & ((1 << bits) - 1) }
}

fn special(text: &str, element: u8) -> Option<Special> {
    use Special::*;
    Some(match text {
        "%tid" => Tid(element),
        "%ntid" => Ntid(element),
        "%ctaid" => Ctaid(element),
        "%nctaid" => Nctaid(element),
        "%clusterid" => ClusterId(element),
        "%nclusterid" => NclusterId(element),
        "%cluster_ctaid" => ClusterCtaid(element),
        "%cluster_nctaid" => ClusterNctaid(element),
        "%cluster_ctarank" => ClusterCtarank,
        "%cluster_nctarank" => ClusterNctarank,
        "%is_explicit_cluster" => IsExplicitCluster,
        "%laneid" => Lane,
        "%warpid" => Warp,
        "%nwarpid" => Nwarp,
        "%smid" => Sm,
        "%nsmid" => Nsm,
        "%gridid" => Grid,
        "%lanemask_eq" => LaneMask(Mask::Eq),
        "%lanemask_lt" => LaneMask(Mask::Lt),
        "%lanemask_le" => LaneMask(Mask::Le),
        "%lanemask_gt" => LaneMask(Mask::Gt),
        "%lanemask_ge" => LaneMask(Mask::Ge),
        "%dynamic_smem_size" => DynamicShared,
        "%total_smem_size" => TotalShared,
        "%aggr_smem_size" => AggrShared,
        "%clock" => Clock(0),
        "%clock_hi" => Clock(1),
        "%clock64" => Clock(2),
        "%globaltimer" => Clock(3),
        "%globaltimer_lo" => Clock(4),
        "%globaltimer_hi" => Clock(5),
        "%current_graph_exec" => CurrentGraphExec,
        _ if text.starts_with("%pm") || text.starts_with("%envreg") => Zero,
        "%reserved_smem_offset_begin" | "%reserved_smem_offset_end" => ReservedShared(0),
        "%reserved_smem_offset_cap" => ReservedShared(1),
        _ => return None,
    })
}
