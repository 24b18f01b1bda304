//! A program as text: one line for each operation, `_` for a result that nobody reads, and the line of the PTX where it changes.
//! `fakegpu-ptxas --emit` prints it, the goldens of the passes are made of it, and `read` reads it.

use std::fmt::{self, Display, Formatter};

use super::names::{AXES, NUMBERED, Named, OF_AXES};
use super::program::*;
use crate::number::Scalar;

/// A register by its number.
struct Name(Reg);

impl Display for Name {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            SINK => f.write_str("_"),
            FRAME => f.write_str("%frame"),
            STACK => f.write_str("%stack"),
            reg => write!(f, "%{reg}"),
        }
    }
}

/// `a, b, c`
fn list<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}

/// A number that is added to something: nothing for 0.
struct Offset(i64);

impl Display for Offset {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0 == 0 { Ok(()) } else { write!(f, "{:+}", self.0) }
    }
}

impl Display for Val {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reg(reg) => Name(*reg).fmt(f),
            Self::Imm(value) if *value < 1 << 16 => write!(f, "{value}"),
            Self::Imm(value) => write!(f, "{value:#x}"),
            Self::Global(index, offset) => write!(f, "global{index}{}", Offset(*offset)),
            Self::Shared(index, offset) => write!(f, "shared{index}{}", Offset(*offset)),
            Self::Local(offset) => write!(f, "local{}", Offset(*offset)),
            Self::Param(offset) => write!(f, "param{}", Offset(*offset)),
            Self::Function(index) => write!(f, "function{index}"),
            Self::Special(special) => special.fmt(f),
        }
    }
}

impl Display for Special {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.name() {
            return write!(f, "%{name}");
        }
        for (name, of_axis) in OF_AXES {
            if let Some(axis) = (0..).zip(AXES).find_map(|(number, axis)| (of_axis(number) == *self).then_some(axis)) {
                return write!(f, "%{name}.{axis}");
            }
        }
        let mut numbers = NUMBERED.into_iter().flat_map(|(name, make)| (0..=u8::MAX).map(move |n| (name, make(n), n)));
        match numbers.find(|(_, special, _)| special == self) {
            Some((name, _, number)) => write!(f, "%{name}.{number}"),
            None => write!(f, "%{self:?}"),
        }
    }
}

impl Display for Memory {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.space.name().unwrap_or_default())?;
        for (is_so, word) in [(self.strong, ".strong"), (self.volatile, ".volatile"), (self.once, ".last_thread")] {
            if is_so {
                f.write_str(word)?;
            }
        }
        write!(f, ".{}", self.scalar.name())
    }
}

impl Display for IntOp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lop3(table) => write!(f, "lop3.{table:#04x}"),
            other => f.write_str(other.name().unwrap_or_default()),
        }
    }
}

impl Display for FloatOp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name().unwrap_or_default())
    }
}

fn single_or(double: bool) -> &'static str {
    if double { "f64" } else { "f32" }
}

fn modifier(is_so: bool, word: &'static str) -> &'static str {
    if is_so { word } else { "" }
}

impl Display for Op {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let ftz_word = |ftz: bool| modifier(ftz, ".ftz");
        match self {
            Self::Mov => f.write_str("mov"),
            Self::Int(op, scalar) => write!(f, "{op}.{}", scalar.name()),
            Self::Float { op, double, ftz, sat } => {
                write!(f, "{op}{}{}.{}", ftz_word(*ftz), modifier(*sat, ".sat"), single_or(*double))
            }
            Self::Setp { compare, scalar, ftz, logic } => {
                write!(f, "setp.{}{}", compare.name().unwrap_or_default(), ftz_word(*ftz))?;
                if let Some(logic) = logic {
                    write!(f, ".{}", logic.name().unwrap_or_default())?;
                }
                write!(f, ".{}", scalar.name())
            }
            Self::Select => f.write_str("select"),
            Self::FromInt { scalar, double } => write!(f, "convert.{}.{}", single_or(*double), scalar.name()),
            Self::ToInt { scalar, double, ftz } => {
                write!(f, "convert{}.{}.{}", ftz_word(*ftz), scalar.name(), single_or(*double))
            }
            Self::Promote { ftz } => write!(f, "convert{}.f64.f32", ftz_word(*ftz)),
            Self::Demote { ftz } => write!(f, "convert{}.f32.f64", ftz_word(*ftz)),
            Self::FromBf16 => f.write_str("convert.f32.bf16"),
            Self::ToBf16 { pair } => f.write_str(if *pair { "convert.bf16x2.f32" } else { "convert.bf16.f32" }),
            Self::Pack => f.write_str("pack"),
            Self::Unpack => f.write_str("unpack"),
            Self::Load(memory) => write!(f, "load.{memory}"),
            Self::Store(memory) => write!(f, "store.{memory}"),
            Self::Pure(helper) => write!(f, "pure.{helper:?}"),
            Self::System(helper, 0) => write!(f, "system.{helper:?}"),
            Self::System(helper, mode) => write!(f, "system.{helper:?}({mode:#x})"),
            Self::Fence => f.write_str("fence"),
        }
    }
}

impl Display for Inst {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.dst.is_empty() {
            write!(f, "{} = ", list(self.dst.iter().map(|reg| Name(*reg))))?;
        }
        write!(f, "{}", self.op)?;
        match (&self.op, &self.src[..]) {
            (Op::Load(memory) | Op::Store(memory), [address, values @ ..]) => {
                write!(f, " [{address}{}]", Offset(memory.offset))?;
                if values.is_empty() { Ok(()) } else { write!(f, ", {}", list(values)) }
            }
            (_, []) => Ok(()),
            (_, all) => write!(f, " {}", list(all)),
        }
    }
}

impl Display for Terminator {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let blocks = |numbers: &[u32]| list(numbers.iter().map(|number| format!("b{number}")));
        match self {
            Self::Open => f.write_str("open"),
            Self::Jump(next) => write!(f, "jump b{next}"),
            Self::Branch { reg, negated, then, other } => {
                write!(f, "branch {}{}, b{then}, b{other}", modifier(*negated, "!"), Name(*reg))
            }
            Self::Table { index, targets } => write!(f, "table {index} [{}]", blocks(targets)),
            Self::Sync(sync) => write!(f, "sync s{sync}"),
            Self::Yield { next, resume } => write!(f, "yield b{next}, resume b{resume}"),
            Self::Call { callee, back } => write!(f, "call f{callee}, b{back}"),
            Self::CallIndirect { pointer, callees, back } => {
                let callees = list(callees.iter().map(|callee| format!("f{callee}")));
                write!(f, "call {pointer} [{callees}], b{back}")
            }
            Self::Return => f.write_str("return"),
            Self::Exit => f.write_str("exit"),
            Self::Trap(kind) => write!(f, "trap {kind}"),
        }
    }
}

impl Display for SyncPoint {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.dst.is_empty() {
            write!(f, "{} = ", list(self.dst.iter().map(|reg| Name(*reg))))?;
        }
        write!(f, "{:?}", self.op)?;
        if !self.src.is_empty() {
            write!(f, " {}", list(&self.src))?;
        }
        let convergence = match self.convergence {
            Convergence::Mask(source) => format!("mask in source {source}"),
            other => other.name().unwrap_or_default().to_owned(),
        };
        write!(f, ", {convergence}, resume b{}", self.resume)
    }
}

/// Numbers in increasing order, those that follow each other as `first-last`.
pub(crate) fn ranges(numbers: impl IntoIterator<Item = u32>) -> String {
    let mut spans: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match spans.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => spans.push((number, number)),
        }
    }
    list(
        spans
            .into_iter()
            .map(|(first, last)| if first == last { format!("%{first}") } else { format!("%{first}-%{last}") }),
    )
}

fn write_registers(program: &Program, f: &mut Formatter<'_>) -> fmt::Result {
    let mut kinds: Vec<(Scalar, Vec<u32>)> = Vec::new();
    for (reg, info) in program.regs.iter().enumerate() {
        match kinds.iter_mut().find(|(scalar, _)| *scalar == info.scalar) {
            Some((_, registers)) => registers.push(reg as u32),
            None => kinds.push((info.scalar, vec![reg as u32])),
        }
    }
    for (scalar, registers) in kinds {
        writeln!(f, "registers .{} {}", scalar.name(), ranges(registers))?;
    }
    Ok(())
}

impl Display for Program {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (stack, ordered) = (modifier(self.stack, ", a stack"), modifier(self.ordered, ", ordered"));
        writeln!(f, "local memory of {} bytes{stack}{ordered}", self.local)?;
        write_registers(self, f)?;
        for (index, shared) in self.shared.iter().enumerate() {
            let size = if shared.dynamic { "sized at launch".to_owned() } else { format!("{} bytes", shared.size) };
            writeln!(f, "shared{index} {size}, aligned to {}, at {}", shared.align, shared.offset)?;
        }
        let mut line = 0;
        for (number, block) in self.blocks.iter().enumerate() {
            for (index, function) in self.functions.iter().enumerate().filter(|(_, it)| it.entry as usize == number) {
                let variables = match function.recursive {
                    true => format!("recursive, a frame of {} bytes", function.frame),
                    false => format!("variables at {}", function.base),
                };
                writeln!(f, "function f{index} {}, {} in the image, {variables}", function.name, function.image)?;
            }
            writeln!(f, "b{number}:")?;
            let mut written = |f: &mut Formatter<'_>, text: String, site: u32| {
                let here = self.line(site);
                let changed = std::mem::replace(&mut line, here) != here;
                if changed { writeln!(f, "    {text:<56} ; line {here}") } else { writeln!(f, "    {text}") }
            };
            for inst in &block.insts {
                written(f, inst.to_string(), inst.site)?;
            }
            written(f, block.end.to_string(), block.site)?;
        }
        for (number, sync) in self.syncs.iter().enumerate() {
            writeln!(f, "s{number}: {sync} ; line {}", self.line(sync.site))?;
        }
        Ok(())
    }
}
