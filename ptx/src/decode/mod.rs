//! The checker: turns a kernel's statements, and those of all functions that it reaches, into operations. Anything it
//! does not know is refused with its line.

mod asynchronous;
mod compare;
mod control;
mod convert;
mod extended;
mod float;
mod function;
mod image;
mod integer;
mod logic;
mod matrix;
mod memory;
mod modifiers;
mod multicast;
mod opcodes;
mod operand;
mod surface;
mod video;
mod warp;

use std::collections::HashMap;

use function::{Scope, Symbol};
use modifiers::Modifiers;
use operand::operands;

use crate::host::memory_ops::AddressSpace;
use crate::ir::*;
use crate::number::{Scalar, truncate};
use crate::runtime::helper::Helper;
use crate::runtime::sync::SyncOp;
use crate::text::ast::{Instruction, Operand, Space, Statement, Variable, call_layout};
use crate::text::error::{Refusal, RefusalKind, Span};
use crate::text::image::{Image, Item};

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

fn unknown<T>(base: &str) -> Check<T> {
    unsupported(format!("the instruction {base}"))
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

    fn sync(&mut self, op: SyncOp, convergence: Convergence, dst: Vec<Reg>, src: Vec<Val>) {
        let resume = self.new_block();
        let src = src.into_iter().map(|value| self.homeable(value)).collect();
        self.program.syncs.push(SyncPoint { op, convergence, dst, src, site: self.site, resume });
        let index = self.program.syncs.len() as u32 - 1;
        self.end(Terminator::Sync(index));
        self.block = resume;
    }

    /// A synchronization reads registers and numbers only.
    fn homeable(&mut self, value: Val) -> Val {
        match value {
            Val::Reg(_) | Val::Imm(_) => value,
            other => self.emit(Op::Mov, Scalar::B64, vec![other]),
        }
    }

    // ---- operands ----

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
        // Code after a jump is checked even if no label leads to it.
        if !matches!(self.program.blocks[self.block as usize].end, Terminator::Open) {
            self.block = self.new_block();
        }
        let opcode = self.text(instruction.opcode);
        let mut parts = opcode.split('.');
        let base = parts.next().unwrap_or_default();
        let mut m = Modifiers { list: parts.collect() };
        let ops = &instruction.operands[..];
        let Some(decode) = opcodes::decode_of(base, &m) else { return unknown(base) };
        decode(self, base, &mut m, ops)?;
        m.finish()
    }
}
