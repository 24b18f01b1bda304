//! Operations, operands and the ends of blocks, as the printer writes them.

use super::cursor::{Cursor, Read};
use crate::host::memory_ops::AddressSpace;
use crate::ir::names::{AXES, NUMBERED, Named, Numbered, OF_AXES};
use crate::ir::program::*;
use crate::number::Scalar;
use crate::runtime::helper::Helper;

/// More registers than any program has.
const MOST_REGISTERS: Reg = 1 << 24;

/// A register, or the result that nobody reads.
fn register(cursor: &mut Cursor<'_>) -> Read<Reg> {
    if cursor.eat("_") {
        return Ok(SINK);
    }
    cursor.expect("%")?;
    cursor.meaning("a register", |word| match word {
        "frame" => Some(FRAME),
        "stack" => Some(STACK),
        number => number.parse().ok(),
    })
}

/// Registers and ranges of them.
pub(super) fn ranges(cursor: &mut Cursor<'_>) -> Read<Vec<Reg>> {
    let spans = cursor.list(|cursor| {
        let first = register(cursor)?;
        let before = cursor.clone();
        let last = if cursor.eat("-") { register(cursor)? } else { first };
        if last < MOST_REGISTERS { Ok(first..=last) } else { before.fail("too many registers") }
    })?;
    Ok(spans.into_iter().flatten().collect())
}

/// The results before an equals sign, if there are any.
pub(super) fn results(cursor: &mut Cursor<'_>) -> Read<Vec<Reg>> {
    let mut ahead = cursor.clone();
    if !ahead.eat("%") && !ahead.eat("_") {
        return Ok(Vec::new());
    }
    let registers = cursor.list(register)?;
    cursor.expect("=")?;
    Ok(registers)
}

fn special(word: &str) -> Option<Special> {
    if let Some(special) = Special::named(word) {
        return Some(special);
    }
    let (name, number) = word.split_once('.')?;
    let named = |list: &[Numbered]| list.iter().find(|it| it.0 == name).map(|it| it.1);
    match named(&OF_AXES) {
        Some(of_axis) => Some(of_axis(AXES.iter().position(|axis| *axis == number)? as u8)),
        None => Some(named(&NUMBERED)?(number.parse().ok()?)),
    }
}

/// An operand.
pub(super) fn value(cursor: &mut Cursor<'_>) -> Read<Val> {
    let mut ahead = cursor.clone();
    if ahead.eat("%") && special(ahead.word()).is_some() {
        cursor.expect("%")?;
        return cursor.meaning("a special register", special).map(Val::Special);
    }
    let mut ahead = cursor.clone();
    if ahead.eat("%") || ahead.eat("_") {
        return register(cursor).map(Val::Reg);
    }
    let word = ahead.word();
    Ok(match word.trim_end_matches(|c: char| c.is_ascii_digit()) {
        "global" => Val::Global(cursor.numbered("global")?, cursor.offset()?),
        "shared" => Val::Shared(cursor.numbered("shared")?, cursor.offset()?),
        "function" => Val::Function(cursor.numbered("function")?),
        "local" => {
            cursor.word();
            Val::Local(cursor.offset()?)
        }
        "param" => {
            cursor.word();
            Val::Param(cursor.offset()?)
        }
        _ => Val::Imm(cursor.number()?),
    })
}

fn memory(text: &str) -> Option<Memory> {
    let (words, scalar) = text.rsplit_once('.')?;
    let mut words = words.split('.');
    let mut memory = Memory::weak(AddressSpace::named(words.next()?)?, Scalar::named(scalar)?);
    for word in words {
        *match word {
            "strong" => &mut memory.strong,
            "volatile" => &mut memory.volatile,
            "last_thread" => &mut memory.once,
            _ => return None,
        } = true;
    }
    Some(memory)
}

/// Whether a float has 64 bits.
fn is_double(text: &str) -> Option<bool> {
    match text {
        "f32" => Some(false),
        "f64" => Some(true),
        _ => None,
    }
}

fn conversion(text: &str) -> Option<Op> {
    match text {
        "f32.bf16" => return Some(Op::FromBf16),
        "bf16.f32" => return Some(Op::ToBf16 { pair: false }),
        "bf16x2.f32" => return Some(Op::ToBf16 { pair: true }),
        _ => {}
    }
    let (ftz, text) = cut_prefix(text, "ftz.");
    let (to, from) = text.split_once('.')?;
    Some(match (is_double(to), is_double(from)) {
        (Some(true), Some(false)) => Op::Promote { ftz },
        (Some(false), Some(true)) => Op::Demote { ftz },
        (Some(double), None) if !ftz => Op::FromInt { scalar: Scalar::named(from)?, double },
        (None, Some(double)) => Op::ToInt { scalar: Scalar::named(to)?, double, ftz },
        _ => return None,
    })
}

fn cut_prefix<'a>(text: &'a str, word: &str) -> (bool, &'a str) {
    text.strip_prefix(word).map_or((false, text), |rest| (true, rest))
}

fn cut_suffix<'a>(text: &'a str, word: &str) -> (bool, &'a str) {
    text.strip_suffix(word).map_or((false, text), |rest| (true, rest))
}

fn comparison(text: &str) -> Option<Op> {
    let (words, scalar) = text.rsplit_once('.')?;
    let mut words = words.split('.').peekable();
    let compare = Compare::named(words.next()?)?;
    let ftz = words.next_if_eq(&"ftz").is_some();
    let logic = match words.next() {
        Some(word) => Some(Logic::named(word)?),
        None => None,
    };
    words.next().is_none().then_some(Op::Setp { compare, scalar: Scalar::named(scalar)?, ftz, logic })
}

fn arithmetic(text: &str) -> Option<Op> {
    let (name, scalar) = text.rsplit_once('.')?;
    if let Some(double) = is_double(scalar) {
        let (sat, name) = cut_suffix(name, ".sat");
        let (ftz, name) = cut_suffix(name, ".ftz");
        return Some(Op::Float { op: FloatOp::named(name)?, double, ftz, sat });
    }
    let op = match name.strip_prefix("lop3.0x") {
        Some(table) => IntOp::Lop3(u8::from_str_radix(table, 16).ok()?),
        None => IntOp::named(name)?,
    };
    Some(Op::Int(op, Scalar::named(scalar)?))
}

fn helper(name: &str) -> Option<Helper> {
    Helper::NAMES.iter().find(|(known, _)| *known == name).map(|(_, helper)| *helper)
}

/// The operation of a word.
fn operation(word: &str) -> Option<Op> {
    match word {
        "mov" => return Some(Op::Mov),
        "select" => return Some(Op::Select),
        "pack" => return Some(Op::Pack),
        "unpack" => return Some(Op::Unpack),
        "fence" => return Some(Op::Fence),
        _ => {}
    }
    let (first, rest) = word.split_once('.')?;
    match first {
        "load" => memory(rest).map(Op::Load),
        "store" => memory(rest).map(Op::Store),
        "pure" => helper(rest).map(Op::Pure),
        "system" => helper(rest).map(|helper| Op::System(helper, 0)),
        "setp" => comparison(rest),
        "convert" => conversion(rest),
        _ => arithmetic(word),
    }
}

/// An operation with its results and operands.
pub(super) fn inst(cursor: &mut Cursor<'_>, site: u32) -> Read<Inst> {
    let dst = results(cursor)?;
    let mut op = cursor.meaning("an operation", operation)?;
    if let Op::System(_, mode) = &mut op
        && cursor.eat("(")
    {
        *mode = cursor.number()?;
        cursor.expect(")")?;
    }
    let mut src = Vec::new();
    if let Op::Load(memory) | Op::Store(memory) = &mut op {
        cursor.expect("[")?;
        src.push(value(cursor)?);
        memory.offset = cursor.offset()?;
        cursor.expect("]")?;
        if cursor.eat(",") {
            src.extend(cursor.list(value)?);
        }
    } else if !cursor.is_at_end() {
        src = cursor.list(value)?;
    }
    Ok(Inst { op, dst, src, site })
}

/// The end of a block, if the line is one.
pub(super) fn terminator(cursor: &mut Cursor<'_>) -> Read<Option<Terminator>> {
    let block = |cursor: &mut Cursor<'_>| cursor.numbered("b");
    let second = |cursor: &mut Cursor<'_>| {
        cursor.expect(",")?;
        block(cursor)
    };
    let mut ahead = cursor.clone();
    let end = match ahead.word() {
        "open" => Terminator::Open,
        "return" => Terminator::Return,
        "exit" => Terminator::Exit,
        "jump" => Terminator::Jump(block(&mut ahead)?),
        "sync" => Terminator::Sync(ahead.numbered("s")?),
        "trap" => Terminator::Trap(ahead.number()?),
        "branch" => {
            let negated = ahead.eat("!");
            let reg = register(&mut ahead)?;
            Terminator::Branch { reg, negated, then: second(&mut ahead)?, other: second(&mut ahead)? }
        }
        "table" => {
            let index = value(&mut ahead)?;
            Terminator::Table { index, targets: bracketed(&mut ahead, "b")? }
        }
        "yield" => {
            let next = block(&mut ahead)?;
            ahead.expect(",")?;
            ahead.expect("resume")?;
            Terminator::Yield { next, resume: block(&mut ahead)? }
        }
        "call" => match ahead.clone().numbered("f") {
            Ok(callee) => {
                ahead.word();
                Terminator::Call { callee, back: second(&mut ahead)? }
            }
            Err(_) => {
                let pointer = value(&mut ahead)?;
                let callees = bracketed(&mut ahead, "f")?;
                Terminator::CallIndirect { pointer, callees, back: second(&mut ahead)? }
            }
        },
        _ => return Ok(None),
    };
    *cursor = ahead;
    Ok(Some(end))
}

fn bracketed(cursor: &mut Cursor<'_>, prefix: &str) -> Read<Vec<u32>> {
    cursor.expect("[")?;
    if cursor.eat("]") {
        return Ok(Vec::new());
    }
    let numbers = cursor.list(|cursor| cursor.numbered(prefix))?;
    cursor.expect("]")?;
    Ok(numbers)
}
