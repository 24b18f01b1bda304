//! A module as written: declarations, functions, instructions. Names are spans of the source.

use crate::number::Scalar;
use crate::text::error::Span;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Space {
    Reg,
    Param,
    Local,
    Shared,
    Global,
    Const,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Linking {
    pub(crate) external: bool,
    pub(crate) visible: bool,
    pub(crate) weak: bool,
    pub(crate) common: bool,
}

/// One value of an initializer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Init {
    Int(u64),
    Double(u64),
    Single(u32),
    /// The address of a symbol plus a number; `mask` keeps one byte of it, as in `0xFF00(symbol)`.
    Symbol {
        name: Span,
        addend: i64,
        mask: Option<u64>,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub(crate) name: Span,
    pub(crate) space: Space,
    pub(crate) linking: Linking,
    pub(crate) align: u64,
    pub(crate) scalar: Scalar,
    /// Elements of a vector (1, 2, 4 or 8).
    pub(crate) vector: u32,
    /// Array sizes from the outermost; `None` in an array of unknown size.
    pub(crate) dims: Vec<Option<u64>>,
    pub(crate) init: Vec<Init>,
    pub(crate) managed: bool,
    /// `%r<10>`: how many registers the name covers.
    pub(crate) count: Option<u32>,
}

impl Variable {
    pub(crate) fn element(&self) -> u64 {
        u64::from(self.scalar.bytes()) * u64::from(self.vector)
    }

    /// Bytes; 0 if the array has no size.
    pub(crate) fn bytes(&self) -> u64 {
        self.dims.iter().fold(self.element(), |size, dim| size.saturating_mul(dim.unwrap_or(0)))
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Operand {
    /// A register, variable, label, function or special register.
    Name(Span),
    /// `%tid.x`
    Element(Span, u8),
    /// `%r1.h10`, `%r1.b3210`: bytes or halves of a register, by the digits of the second span.
    Parts(Span, Span),
    Int(u64),
    Double(u64),
    Single(u32),
    /// `!%p`
    Not(Span),
    /// `-%r`, `-%r.h1`, as in video and some older instructions: a register, and a part of it.
    Minus(Span, Option<Span>),
    Vector(Vec<Operand>),
    /// `[base + offset]`, with coordinates in `[map, {x, y}]`.
    Address {
        base: Box<Operand>,
        offset: i64,
        coordinates: Vec<Operand>,
    },
    /// `%p|%q`
    Pair(Box<Operand>, Box<Operand>),
    /// `variable + 8`
    Offset(Span, i64),
    /// `(a, b)`
    Group(Vec<Operand>),
}

/// Where an instruction comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) file: u32,
    pub(crate) line: u32,
    /// File and line of the call that was replaced by the function's body.
    pub(crate) caller: Option<(u32, u32)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Instruction {
    pub(crate) span: Span,
    /// The opcode with its modifiers.
    pub(crate) opcode: Span,
    pub(crate) guard: Option<(Span, bool)>,
    pub(crate) operands: Vec<Operand>,
    /// The `.loc` before it.
    pub(crate) origin: Option<Origin>,
}

#[derive(Clone, Debug)]
pub(crate) enum Statement {
    Instruction(Instruction),
    Label(Span),
    Open,
    Close,
    Variable(Variable),
    Prototype(Span, Prototype),
    /// `name: .branchtargets a, b;` or `.calltargets`
    Targets(Span, Vec<Span>),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Prototype {
    pub(crate) returns: Vec<Variable>,
    pub(crate) params: Vec<Variable>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Performance {
    pub(crate) maxntid: Option<[u32; 3]>,
    pub(crate) reqntid: Option<[u32; 3]>,
    pub(crate) minnctapersm: Option<u32>,
    pub(crate) maxnreg: Option<u32>,
    pub(crate) maxclusterrank: Option<u32>,
    pub(crate) reqnctapercluster: Option<[u32; 3]>,
    pub(crate) explicitcluster: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) name: Span,
    pub(crate) entry: bool,
    pub(crate) linking: Linking,
    pub(crate) prototype: Prototype,
    pub(crate) performance: Performance,
    /// `None` if it is only declared.
    pub(crate) body: Option<Vec<Statement>>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Ast {
    pub(crate) version: (u32, u32),
    pub(crate) target: String,
    pub(crate) address_size: u32,
    pub(crate) variables: Vec<Variable>,
    pub(crate) functions: Vec<Function>,
    /// `.alias a, b;`: a is another name of b.
    pub(crate) aliases: Vec<(Span, Span)>,
    /// Numbered names of source files.
    pub(crate) files: Vec<(u32, String)>,
    /// `.calltargets` and `.callprototype` outside functions.
    pub(crate) prototypes: Vec<(Span, Prototype)>,
}

/// Where the arguments and results of a call are in the area that caller and callee share.
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
