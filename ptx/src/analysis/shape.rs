//! The contents of a register across four neighboring lanes: equally spaced numbers, determined by the first, or anything. Based
//! on this, a kernel gets a second body that runs four lanes at once.

use std::fmt;

use super::set::Set;
use crate::host::memory_ops::AddressSpace;
use crate::ir::*;
use crate::number::{Scalar, truncate};
use crate::runtime::state::LANES;

/// The values of four lanes; the first lane's number is a multiple of 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Lane `i` has the first lane's value plus `i * step`, modulo the register's width. At least so many of the lowest bits of the
    /// first lane's value are zero.
    Steps {
        step: u64,
        zeros: u32,
    },
    Any,
}

use Shape::{Any, Steps};

impl Shape {
    pub(crate) const SAME: Self = Steps { step: 0, zeros: 0 };

    /// All lanes have the same value.
    pub(crate) fn is_same(self) -> bool {
        matches!(self, Steps { step: 0, .. })
    }

    pub(crate) fn constant(value: u64) -> Self {
        Steps { step: 0, zeros: value.trailing_zeros() }
    }

    /// Whether the bits that the other lanes add to are zero in the first lane's value, so no carry leaves them.
    pub(crate) fn is_below(self, bits: u32) -> bool {
        match self {
            Steps { step: 0, .. } => true,
            Steps { step, zeros } => {
                let zeros = zeros.min(bits - 1);
                step.checked_mul(u64::from(LANES - 1)).is_some_and(|most| most < 1 << zeros)
            }
            Any => false,
        }
    }

    /// The shape of the values cut or zero-extended from one width to another.
    fn resized(self, from: u32, to: u32) -> Self {
        match self {
            Steps { step, zeros } if to <= from => Steps { step: truncate(step, to), zeros: zeros.min(to) },
            _ if self.is_below(from) => self,
            _ => Any,
        }
    }

    fn join(self, other: Self) -> Self {
        match (self, other) {
            (Steps { step, zeros }, Steps { step: same, zeros: least }) if step == same => {
                Steps { step, zeros: zeros.min(least) }
            }
            _ => Any,
        }
    }
}

/// The shapes of a program's registers.
#[derive(Debug)]
pub(crate) struct Shapes {
    registers: Vec<Shape>,
    /// Generic addresses can lead to local memory, which is different in each lane.
    local: bool,
    /// By block: if its lanes do not all take the same path, the short block that only some of them run before they continue
    /// together.
    guarded: Vec<Option<u32>>,
}

/// The most operations of a block that is run lane by lane instead of making the lanes diverge.
const SHORT: usize = 8;

/// The shapes of a program that can run four lanes at once; `live` are the registers that may be read before they are written. A
/// program with calls has none: places in local memory say where each lane returns to.
pub(crate) fn shapes(program: &Program, live: &Set) -> Option<Shapes> {
    let calls = |block: &Block| {
        matches!(block.end, Terminator::Call { .. } | Terminator::CallIndirect { .. } | Terminator::Return)
    };
    let wide = |reg: &RegInfo| reg.scalar.bits() > 64;
    if program.stack || program.blocks.iter().any(calls) || program.regs.iter().any(wide) {
        return None;
    }
    let instructions = || program.blocks.iter().flat_map(|block| &block.insts);
    let local = instructions().any(|inst| inst.src.iter().any(|value| matches!(value, Val::Local(_))));
    let mut found: Vec<Option<Shape>> = vec![None; program.regs.len()];
    for sync in &program.syncs {
        sync.dst.iter().filter(|reg| **reg != SINK).for_each(|reg| found[*reg as usize] = Some(Any));
    }
    // A register that may be read before it is written is zero in all lanes then.
    for reg in live.iter() {
        let zero = Shape::constant(0);
        found[reg as usize] = Some(found[reg as usize].map_or(zero, |shape| shape.join(zero)));
    }
    loop {
        let before = found.clone();
        for inst in instructions() {
            for (index, reg) in inst.dst.iter().enumerate().filter(|(_, reg)| **reg != SINK) {
                let Some(new) = (Analysis { program, found: &found, local }).result(inst, index) else { continue };
                let old = &mut found[*reg as usize];
                *old = Some(old.map_or(new, |old| old.join(new)));
            }
        }
        if found != before {
            continue;
        }
        if found.iter().all(Option::is_some) {
            break;
        }
        // What is left depends on registers that nobody writes, which are zero, as in a pair of which only one half is used.
        found.iter_mut().for_each(|shape| *shape = shape.or(Some(Shape::SAME)));
    }
    let registers: Vec<Shape> = found.into_iter().flatten().collect();
    let mut shapes = Shapes { registers, local, guarded: Vec::new() };
    shapes.guarded = (0..program.blocks.len()).map(|block| shapes.guard(program, block)).collect();
    let by_lane = |block: &Block| match &block.end {
        Terminator::Table { index, .. } => !shapes.shape_of(program, *index, 32).is_same(),
        _ => false,
    };
    (!program.blocks.iter().any(by_lane)).then_some(shapes)
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Steps { step: 0, .. } => f.write_str("the same in all lanes"),
            Steps { step, zeros } => write!(f, "{step} more in each lane, {zeros} zeros below"),
            Any => f.write_str("anything"),
        }
    }
}

impl fmt::Display for Shapes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (reg, shape) in self.registers.iter().enumerate().filter(|(_, shape)| **shape != Any) {
            writeln!(f, "%{reg}: {shape}")?;
        }
        for (block, some) in self.guarded.iter().enumerate() {
            if let Some(some) = some {
                writeln!(f, "b{block}: b{some} is for some lanes, and all go on together")?;
            }
        }
        Ok(())
    }
}

impl Shapes {
    pub(crate) fn register(&self, reg: Reg) -> Shape {
        self.registers[reg as usize]
    }

    /// The block that only some lanes run at this block's end, see [`Shapes::guarded`].
    pub(crate) fn guarded(&self, block: usize) -> Option<u32> {
        self.guarded[block]
    }

    fn guard(&self, program: &Program, block: usize) -> Option<u32> {
        let Terminator::Branch { reg, then, other, .. } = program.blocks[block].end else { return None };
        let ends =
            |from: u32, to: u32| matches!(program.blocks[from as usize].end, Terminator::Jump(next) if next == to);
        let some = if ends(then, other) {
            then
        } else if ends(other, then) {
            other
        } else {
            return None;
        };
        let insts = &program.blocks[some as usize].insts;
        // A lane that does not run the block keeps its old value, which would no longer be in step with the others'.
        let steps = |reg: &Reg| *reg != SINK && self.register(*reg) != Any;
        let is_short = insts.len() <= SHORT && !insts.iter().flat_map(|inst| &inst.dst).any(steps);
        (!self.register(reg).is_same() && then != other && is_short).then_some(some)
    }

    /// The shape of an operand as a number of `bits`.
    pub(crate) fn shape_of(&self, program: &Program, value: Val, bits: u32) -> Shape {
        operand(program, value, bits, |reg| Some(self.registers[reg as usize])).unwrap_or(Any)
    }

    /// Whether all lanes access the same memory if they access one address.
    pub(crate) fn is_shared_by_lanes(&self, space: AddressSpace) -> bool {
        is_shared_by_lanes(space, self.local)
    }
}

fn is_shared_by_lanes(space: AddressSpace, local: bool) -> bool {
    match space {
        AddressSpace::Global | AddressSpace::Shared | AddressSpace::KernelParam => true,
        AddressSpace::Generic => !local,
        AddressSpace::Local => false,
    }
}

/// The shape of an operand as a number of `bits`; `None` as long as nothing is known about its register.
fn operand(program: &Program, value: Val, bits: u32, register: impl Fn(Reg) -> Option<Shape>) -> Option<Shape> {
    Some(match value {
        Val::Reg(reg) => {
            let own = program.regs[reg as usize].scalar.bits();
            register(reg)?.resized(own, bits)
        }
        Val::Imm(value) => Shape::constant(truncate(value, bits)),
        Val::Shared(index, offset) => {
            Shape::constant((program.shared[index as usize].offset as i64 + offset) as u64).resized(64, bits)
        }
        Val::Param(offset) => Shape::constant(offset as u64).resized(64, bits),
        Val::Global(..) | Val::Local(_) | Val::Function(_) => Shape::SAME,
        Val::Special(special) => match special {
            // Code that runs four lanes at once is only entered if rows of a block have a multiple of four threads.
            Special::Tid(0) | Special::Lane => Steps { step: 1, zeros: LANES.trailing_zeros() },
            Special::Ntid(0) => Steps { step: 0, zeros: LANES.trailing_zeros() },
            Special::LaneMask(_) => Any,
            _ => Shape::SAME,
        },
    })
}

struct Analysis<'a> {
    program: &'a Program,
    found: &'a [Option<Shape>],
    local: bool,
}

impl Analysis<'_> {
    fn shape_of(&self, value: Val, bits: u32) -> Option<Shape> {
        operand(self.program, value, bits, |reg| self.found[reg as usize])
    }

    /// Whether all operands, in their own widths, are the same in all lanes.
    fn all_same(&self, inst: &Inst) -> Option<bool> {
        let mut same = true;
        for value in &inst.src {
            same &= self.shape_of(*value, 64).map_or(Some(true), |shape| Some(shape.is_same()))?;
        }
        Some(same)
    }

    /// The shape of a result; `None` as long as that of an operand is not known.
    fn result(&self, inst: &Inst, index: usize) -> Option<Shape> {
        let reg = inst.dst[index];
        let bits = self.program.regs[reg as usize].scalar.bits();
        let known = |value: &Val| self.shape_of(*value, 64).is_some();
        if !inst.src.iter().all(known) {
            return None;
        }
        let same = self.all_same(inst)?;
        let plain = if same { Shape::SAME } else { Any };
        Some(match &inst.op {
            Op::System(..) => Any,
            Op::Mov => self.shape_of(inst.src[0], bits)?,
            Op::Int(op, scalar) => match self.integer(*op, *scalar, inst)? {
                Some((shape, width)) => shape.resized(width, bits),
                None => plain,
            },
            Op::Select if self.shape_of(inst.src[2], 1)?.is_same() => {
                self.shape_of(inst.src[0], bits)?.join(self.shape_of(inst.src[1], bits)?)
            }
            Op::Unpack if index == 0 => {
                let (Val::Imm(each), Val::Imm(width)) = (inst.src[1], inst.src[2]) else { return Some(Any) };
                let low = self.shape_of(inst.src[0], width as u32)?.resized(width as u32, each as u32);
                low.resized(each as u32, bits)
            }
            Op::Load(memory) if !is_shared_by_lanes(memory.space, self.local) => Any,
            _ => plain,
        })
    }

    /// The shape and width of the result of an integer operation that keeps steps; the inner `None` for any other operation.
    fn integer(&self, op: IntOp, scalar: Scalar, inst: &Inst) -> Option<Option<(Shape, u32)>> {
        let bits = scalar.bits();
        let a = self.shape_of(inst.src[0], bits)?;
        let b = match inst.src.get(1) {
            Some(value) => self.shape_of(*value, bits)?,
            None => Shape::SAME,
        };
        let number = match inst.src.get(1) {
            Some(Val::Imm(value)) => Some(truncate(*value, bits)),
            _ => None,
        };
        let amount = match inst.src.get(1) {
            Some(Val::Imm(value)) => Some(*value as u32),
            _ => None,
        };
        let Steps { step, zeros } = a else { return Some(None) };
        let Steps { step: other, zeros: others } = b else { return Some(None) };
        let cut = |step: u64| truncate(step, bits);
        let steps = |step: u64, zeros: u32| Some((Steps { step: cut(step), zeros: zeros.min(bits) }, bits));
        // The bits in which lanes differ, where none carries.
        let differ = step | step.wrapping_mul(2) | step.wrapping_mul(3);
        Some(match op {
            IntOp::Add => steps(step.wrapping_add(other), zeros.min(others)),
            IntOp::Sub => steps(step.wrapping_sub(other), zeros.min(others)),
            IntOp::Neg => steps(step.wrapping_neg(), zeros),
            IntOp::Mul => match number {
                Some(number) => steps(step.wrapping_mul(number), zeros + number.trailing_zeros().min(bits)),
                None if step == 0 && other == 0 => steps(0, zeros + others),
                None => None,
            },
            IntOp::MulWide if bits <= 32 => match number {
                Some(number) if a.is_below(bits) => {
                    let negative = scalar.signed() && number >> (bits - 1) & 1 != 0;
                    let number = if negative { number | u64::MAX << bits } else { number };
                    let step = truncate(step.wrapping_mul(number), bits * 2);
                    Some((Steps { step, zeros: (zeros + number.trailing_zeros()).min(bits * 2) }, bits * 2))
                }
                _ => None,
            },
            IntOp::And => match number {
                Some(mask) if a.is_below(bits) && mask & differ == differ => steps(step, zeros),
                Some(mask) if a.is_below(bits) && mask & differ == 0 => steps(0, zeros.max(mask.trailing_zeros())),
                _ if step == 0 && other == 0 => steps(0, zeros.max(others)),
                _ => None,
            },
            IntOp::Or | IntOp::Xor => {
                let apart = |steps: Shape, differ: u64, zeros: u32, number: Option<u64>| {
                    steps.is_below(bits)
                        && match number {
                            Some(number) => number & differ == 0,
                            None => differ >> zeros.min(63) == 0,
                        }
                };
                if other == 0 && apart(a, differ, others, number) {
                    steps(step, zeros.min(others))
                } else if step == 0 && apart(b, other | other.wrapping_mul(2) | other.wrapping_mul(3), zeros, None) {
                    steps(other, zeros.min(others))
                } else {
                    None
                }
            }
            IntOp::Shl => match amount {
                Some(by) if by >= bits => steps(0, bits),
                Some(by) => steps(step << by, zeros + by),
                None => None,
            },
            IntOp::Shr => match amount {
                Some(by) if a.is_below(bits) => {
                    let by = by.min(bits - 1);
                    let left = zeros.saturating_sub(by);
                    if differ >> by == 0 {
                        steps(0, left)
                    } else if step.trailing_zeros() >= by {
                        steps(step >> by, left)
                    } else {
                        None
                    }
                }
                _ => None,
            },
            // Nothing carries into the bits that are added above, so the shape holds in 64 bits, from which the result is cut.
            IntOp::Extend if a.is_below(bits) => Some((a, 64)),
            IntOp::Extend => {
                let to = self.program.regs[inst.dst[0] as usize].scalar.bits();
                (to <= bits).then_some((a, bits))
            }
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Random(u64);

    impl Random {
        fn below(&mut self, count: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 20) % count
        }
    }

    /// The operation on numbers of `bits`, by its definition in the ISA.
    fn by_definition(op: IntOp, scalar: Scalar, a: u64, b: u64) -> u64 {
        let bits = scalar.bits();
        let wide = |value: u64| {
            let value = truncate(value, bits);
            if scalar.signed() && value >> (bits - 1) & 1 != 0 {
                i128::from(value) - (1 << bits)
            } else {
                i128::from(value)
            }
        };
        let (x, y) = (wide(a), wide(b));
        let amount = truncate(b, 32).min(127) as u32;
        let result = match op {
            IntOp::Add => x + y,
            IntOp::Sub => x - y,
            IntOp::Neg => -x,
            IntOp::Mul | IntOp::MulWide => x.wrapping_mul(y),
            IntOp::And => x & y,
            IntOp::Or => x | y,
            IntOp::Xor => x ^ y,
            IntOp::Shl if amount >= bits => 0,
            IntOp::Shl => x << amount,
            IntOp::Shr => x >> amount,
            _ => x,
        };
        let is_wide = matches!(op, IntOp::MulWide | IntOp::Extend);
        truncate(result as u64, if is_wide { 64 } else { bits })
    }

    #[test]
    fn what_is_said_of_a_result_holds_for_every_number() {
        const OPS: [IntOp; 11] = [
            IntOp::Add,
            IntOp::Sub,
            IntOp::Neg,
            IntOp::Mul,
            IntOp::MulWide,
            IntOp::And,
            IntOp::Or,
            IntOp::Xor,
            IntOp::Shl,
            IntOp::Shr,
            IntOp::Extend,
        ];
        let mut random = Random(88);
        let mut said = [0; OPS.len()];
        for _ in 0..40_000 {
            let which = random.below(OPS.len() as u64) as usize;
            let op = OPS[which];
            let scalar = [Scalar::U32, Scalar::S32, Scalar::U64, Scalar::S64, Scalar::U16][random.below(5) as usize];
            let bits = scalar.bits();
            if op == IntOp::MulWide && bits == 64 {
                continue;
            }
            let mut shape = || Steps {
                step: truncate([0, 0, 1, 4, 12, 1 << 20, u64::MAX][random.below(7) as usize], bits),
                zeros: random.below(u64::from(bits) + 1) as u32,
            };
            let (a, b) = (shape(), shape());
            let number = [0, 1, 2, 3, 5, 12, 16, 31, 64, 127, 0xfff0, 0x8000_0000, u64::MAX][random.below(13) as usize];
            let constant = random.below(2) == 0;
            let to = if matches!(op, IntOp::MulWide | IntOp::Extend) { Scalar::U64 } else { scalar };
            let program =
                Program { regs: [scalar, scalar, to].map(|scalar| RegInfo { scalar }).to_vec(), ..Program::default() };
            let second = if constant { Val::Imm(number) } else { Val::Reg(1) };
            let src =
                if matches!(op, IntOp::Neg | IntOp::Extend) { vec![Val::Reg(0)] } else { vec![Val::Reg(0), second] };
            let inst = Inst { op: Op::Int(op, scalar), dst: vec![2], src, site: 0 };
            let analysis = Analysis { program: &program, found: &[Some(a), Some(b), None], local: false };
            let Some(Steps { step, zeros }) = analysis.result(&inst, 0) else { continue };
            said[which] += 1;
            for _ in 0..4 {
                let mut lane = |shape: Shape| {
                    let Steps { step, zeros } = shape else { unreachable!() };
                    let first = random.below(u64::MAX).rotate_left(17) & u64::MAX.checked_shl(zeros).unwrap_or(0);
                    [0, 1, 2, 3].map(|lane| truncate(first.wrapping_add(step.wrapping_mul(lane)), bits))
                };
                let (a, b) = (lane(a), if constant { [number; 4] } else { lane(b) });
                let got: [u64; 4] = std::array::from_fn(|lane| by_definition(op, scalar, a[lane], b[lane]));
                let width = to.bits();
                for lane in 0..4 {
                    let expected = truncate(got[0].wrapping_add(step.wrapping_mul(lane as u64)), width);
                    assert_eq!(truncate(got[lane], width), expected, "{inst:?} of {a:x?} and {b:x?}: steps of {step}");
                }
                assert!(got[0].trailing_zeros() >= zeros.min(width), "{inst:?} of {a:x?} and {b:x?}: {zeros} zeros");
            }
        }
        assert!(said.iter().all(|count| *count > 20), "{said:?}");
    }
}
