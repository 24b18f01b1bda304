//! A plain interpreter of programs, to compare compiled code with: one lane at a time, one operation after the other, every
//! register in its home and each access by the machine's slow path. It shares nothing with `lower` but the helpers.

mod number;

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use crate::analysis::Flow;
use crate::analysis::homes::size_of;
use crate::ir::*;
use crate::number::Scalar;
use crate::runtime::helper::{self, Helper};
use crate::runtime::home::lanes;
use crate::runtime::state::{Context, EXITED, FUEL, TRAP_POINTER, TRAP_STACK, Warp};
use crate::text::image::FUNCTION_HANDLE;

use number::{cut, extended};

/// What the interpreter has to know beyond the program.
#[derive(Debug)]
pub(crate) struct Interpreter {
    /// Offset of each register's home.
    homes: Vec<u32>,
    home_bytes: u32,
    /// What recursive calls keep, by block.
    saves: Vec<Vec<Reg>>,
    restores: Vec<Vec<Reg>>,
    /// Bytes of each function's frame with what it keeps.
    frames: Vec<u64>,
    helpers: Vec<usize>,
}

impl Interpreter {
    /// Gives every register a home, in the liveness as well.
    pub(crate) fn new(program: &Program, flow: &mut Flow) -> Self {
        let mut at = 0;
        let mut homes = vec![0; program.regs.len()];
        for size in [16, 8, 4, 2, 1] {
            for reg in (0..program.regs.len()).filter(|reg| size_of(program, *reg as Reg) == size) {
                homes[reg] = at;
                at += size * 32;
            }
        }
        flow.homes = homes.iter().copied().map(Some).collect();
        flow.home_bytes = at;
        let frame = |(index, function): (usize, &FunctionInfo)| {
            let own = (0..program.blocks.len()).filter(|block| program.blocks[*block].function == index as u32);
            let most = own.map(|block| flow.saves[block].len()).max().unwrap_or(0);
            function.frame.next_multiple_of(16) + if function.recursive { most as u64 * 16 } else { 0 }
        };
        Self {
            homes,
            home_bytes: at,
            saves: flow.saves.clone(),
            restores: flow.restores.clone(),
            frames: program.functions.iter().enumerate().map(frame).collect(),
            helpers: helper::table(),
        }
    }

    /// Runs the lanes of the mask to their next synchronization or end, and returns the same as
    /// [`Code::call`](crate::kernel::Code::call).
    pub(crate) fn call(&self, program: &Program, context: &mut Context, warp: &mut Warp, mask: u32) -> Option<u32> {
        for lane in lanes(mask) {
            let (function, site) = (0, 0);
            let mut thread = Thread { interpreter: self, program, context, warp, lane, function, site };
            if thread.run().is_err() {
                thread.context.lane = u64::from(lane);
                return None;
            }
        }
        if mask == u32::MAX { warp.one_place() } else { None }
    }
}

/// A thread stopped; the context says why.
struct Stopped;

struct Thread<'a> {
    interpreter: &'a Interpreter,
    program: &'a Program,
    context: &'a mut Context,
    warp: &'a mut Warp,
    lane: u32,
    function: u32,
    site: u32,
}

impl Thread<'_> {
    fn run(&mut self) -> Result<(), Stopped> {
        let mut next = match self.warp.resume[self.lane as usize] {
            0 => {
                self.begin();
                self.program.functions[0].entry
            }
            point => self.program.syncs[point as usize - 1].resume,
        };
        loop {
            match self.block(next as usize)? {
                Some(block) => next = block,
                None => return Ok(()),
            }
        }
    }

    fn begin(&mut self) {
        for reg in 0..self.program.regs.len() {
            self.set(reg as Reg, 0);
        }
        self.set(STACK, u128::from(self.program.local));
    }

    /// Runs a block. Returns the next one, or `None` where the thread waits or ends.
    fn block(&mut self, number: usize) -> Result<Option<u32>, Stopped> {
        let block = &self.program.blocks[number];
        (self.function, self.site) = (block.function, block.site);
        if !self.interpreter.restores[number].is_empty() {
            self.move_saved(number, false)?;
        }
        for inst in &block.insts {
            self.site = inst.site;
            self.inst(inst)?;
        }
        self.site = block.site;
        self.end(number)
    }

    // ---- registers and operands ----

    fn home(&self, reg: Reg) -> *mut u8 {
        let (offset, size) = (self.interpreter.homes[reg as usize], size_of(self.program, reg));
        debug_assert!(offset + size * 32 <= self.interpreter.home_bytes);
        // SAFETY: the warp's slots have `home_bytes`, where every register has a home for 32 lanes.
        unsafe { self.warp.slots.add((offset + size * self.lane) as usize) }
    }

    fn get(&self, reg: Reg) -> u128 {
        // SAFETY: a home has as many bytes, and only this worker uses it.
        unsafe { read(self.home(reg), size_of(self.program, reg)) }
    }

    fn set(&mut self, reg: Reg, value: u128) {
        if reg != SINK {
            // SAFETY: as in `get`.
            unsafe { write(self.home(reg), size_of(self.program, reg), value) };
        }
    }

    fn scalar(&self, reg: Reg) -> Scalar {
        if reg == SINK { Scalar::B64 } else { self.program.regs[reg as usize].scalar }
    }

    /// An operand's lowest bits; predicates have 8.
    fn value(&self, value: Val, bits: u32) -> u128 {
        let wide = match value {
            Val::Reg(reg) => self.get(reg),
            Val::Imm(number) => u128::from(number),
            // SAFETY: the launch has an address for each variable of the image.
            Val::Global(index, offset) => unsafe {
                u128::from((*self.context.globals.add(index as usize)).wrapping_add_signed(offset))
            },
            Val::Shared(index, offset) => {
                u128::from(self.program.shared[index as usize].offset.wrapping_add_signed(offset))
            }
            Val::Local(offset) => {
                let function = &self.program.functions[self.function as usize];
                let base = if function.recursive { self.get(FRAME) as u64 } else { function.base };
                u128::from(base.wrapping_add_signed(offset))
            }
            Val::Param(offset) => u128::from(offset as u64),
            Val::Function(index) => u128::from(FUNCTION_HANDLE + u64::from(index) * 16),
            Val::Special(special) => u128::from(self.special(special)),
        };
        cut(wide, bits.max(8))
    }

    fn special(&self, special: Special) -> u64 {
        let context = &*self.context;
        let axis = |values: [u32; 4], axis: u8| u64::from(values[usize::from(axis.min(3))]);
        let bit = 1u32 << self.lane;
        match special {
            // SAFETY: the table has the numbers of 32 lanes for three axes.
            Special::Tid(axis @ 0..3) => unsafe {
                u64::from(*self.warp.threads.add(usize::from(axis) * 32 + self.lane as usize))
            },
            Special::Tid(_) | Special::Zero | Special::CurrentGraphExec | Special::ReservedShared(_) => 0,
            Special::Lane => u64::from(self.lane),
            Special::LaneMask(mask) => u64::from(match mask {
                Mask::Eq => bit,
                Mask::Lt => bit - 1,
                Mask::Le => bit | (bit - 1),
                Mask::Gt => !(bit | (bit - 1)),
                Mask::Ge => !(bit - 1),
            }),
            Special::Warp => u64::from(self.warp.index),
            Special::ParamBase => context.params as u64,
            Special::Grid => context.grid,
            Special::Clock(which) => self.pure(Helper::Clock, [u64::from(which), 0, 0, 0]),
            Special::Ntid(of) => axis(context.ntid, of),
            Special::Ctaid(of) => axis(context.ctaid, of),
            Special::Nctaid(of) => axis(context.nctaid, of),
            Special::ClusterId(of) => axis(context.clusterid, of),
            Special::NclusterId(of) => axis(context.nclusterid, of),
            Special::ClusterCtaid(of) => axis(context.cluster_ctaid, of),
            Special::ClusterNctaid(of) => axis(context.cluster_nctaid, of),
            Special::ClusterCtarank => u64::from(context.cluster_rank),
            Special::ClusterNctarank => u64::from(context.cluster_size),
            Special::IsExplicitCluster => u64::from(context.explicit_cluster),
            Special::Workspace(half) => u64::from(context.workspace[usize::from(half)]),
            Special::Nwarp => u64::from(context.nwarp),
            Special::Sm => u64::from(context.sm),
            Special::Nsm => u64::from(context.nsm),
            Special::DynamicShared => u64::from(context.dynamic_shared),
            Special::TotalShared | Special::AggrShared => u64::from(context.total_shared),
        }
    }

    // ---- operations ----

    fn inst(&mut self, inst: &Inst) -> Result<(), Stopped> {
        match &inst.op {
            Op::Load(memory) => return self.load(memory, inst),
            Op::Store(memory) => return self.store(memory, inst),
            Op::System(helper, mode) => return self.system(*helper, *mode, inst),
            Op::Fence => std::sync::atomic::fence(Ordering::SeqCst),
            Op::Pure(helper) => {
                let mut args = [0; 4];
                args.iter_mut().zip(&inst.src).for_each(|(arg, value)| *arg = self.value(*value, 64) as u64);
                let result = self.pure(*helper, args);
                self.set(inst.dst[0], u128::from(result));
            }
            Op::Unpack => {
                let (each, width) = (self.value(inst.src[1], 64) as u32, self.value(inst.src[2], 64) as u32);
                let whole = self.value(inst.src[0], width);
                for (reg, index) in inst.dst.iter().zip(0..) {
                    self.set(*reg, cut(whole.checked_shr(index * each).unwrap_or(0), each.max(8)));
                }
            }
            Op::Pack => {
                let each = self.scalar(inst.dst[0]).bits() / inst.src.len() as u32;
                let parts = inst
                    .src
                    .iter()
                    .zip(0..)
                    .map(|(value, index)| cut(self.value(*value, each), each) << (index * each));
                let whole = parts.fold(0, |whole, part| whole | part);
                self.set(inst.dst[0], whole);
            }
            Op::Int(IntOp::Carry { sub }, scalar) => {
                let [a, b] = [0, 1].map(|index| self.value(inst.src[index], scalar.bits()));
                let b = if *sub { cut(!b, scalar.bits()) } else { b };
                let sum = a + b + self.value(inst.src[2], 8);
                self.set(inst.dst[1], u128::from(sum >> scalar.bits() != 0));
                self.set(inst.dst[0], sum);
            }
            Op::Int(op, scalar) => {
                let to = self.scalar(inst.dst[0]).bits();
                let operands: Vec<u128> = inst.src.iter().map(|value| self.value(*value, scalar.bits())).collect();
                // Amounts of shifts have 32 bits, whatever is shifted.
                let amount = || self.value(inst.src[inst.src.len() - 1], 32) as u32;
                let result = match op {
                    IntOp::Div | IntOp::Rem => {
                        let mode = u64::from(scalar.signed()) | u64::from(*op == IntOp::Rem) << 1;
                        let [a, b] = [0, 1].map(|index| extended(operands[index], *scalar) as u64);
                        u128::from(self.pure(Helper::Divide, [a, b, mode, 0]))
                    }
                    _ => number::integer(*op, *scalar, to, &operands, amount),
                };
                self.set(inst.dst[0], result);
            }
            Op::Setp { compare, scalar, ftz, logic } => {
                let [a, b] = [0, 1].map(|index| self.value(inst.src[index], scalar.bits()));
                let mut result = number::compare(*compare, *scalar, *ftz, a, b);
                if let Some(logic) = logic {
                    let other = self.value(inst.src[2], 1) != 0;
                    result = match logic {
                        Logic::And => result && other,
                        Logic::Or => result || other,
                        Logic::Xor => result != other,
                    };
                }
                self.set(inst.dst[0], u128::from(result));
            }
            Op::Select => {
                let bits = self.scalar(inst.dst[0]).bits();
                let which = usize::from(self.value(inst.src[2], 1) == 0);
                self.set(inst.dst[0], self.value(inst.src[which], bits));
            }
            Op::Mov => {
                let bits = self.scalar(inst.dst[0]).bits();
                self.set(inst.dst[0], self.value(inst.src[0], bits));
            }
            op => {
                let operands: Vec<u128> =
                    inst.src.iter().map(|value| self.value(*value, number::source_bits(op))).collect();
                self.set(inst.dst[0], number::float(op, &operands));
            }
        }
        Ok(())
    }

    fn pure(&self, helper: Helper, args: [u64; 4]) -> u64 {
        // SAFETY: the functions of the table that are called without a context have this signature, see `helper`.
        let function: extern "C" fn(u64, u64, u64, u64) -> u64 =
            unsafe { std::mem::transmute(self.interpreter.helpers[helper as usize]) };
        function(args[0], args[1], args[2], args[3])
    }

    fn system(&mut self, helper: Helper, mode: u64, inst: &Inst) -> Result<(), Stopped> {
        for (index, value) in inst.src.iter().enumerate() {
            let wide = matches!(value, Val::Reg(reg) if self.scalar(*reg).bits() == 128);
            self.context.args[index] = self.value(*value, if wide { 128 } else { 64 });
        }
        (self.context.lane, self.context.site) = (u64::from(self.lane), u64::from(self.site));
        self.context.warp = self.warp;
        // SAFETY: the functions of the table that see the thread have this signature, see `helper`.
        let function: extern "C" fn(&mut Context, &mut Warp, u64) =
            unsafe { std::mem::transmute(self.interpreter.helpers[helper as usize]) };
        function(self.context, self.warp, mode);
        if self.context.trap != 0 {
            return Err(Stopped);
        }
        if let Some(dst) = inst.dst.first() {
            self.set(*dst, self.context.result);
        }
        Ok(())
    }

    // ---- memory ----

    fn resolve(&mut self, memory: &Memory, base: Val, bytes: u32, writes: bool) -> Result<*mut u8, Stopped> {
        let address = (self.value(base, 64) as u64).wrapping_add_signed(memory.offset);
        let address = match base {
            Val::Reg(reg) if self.scalar(reg).bits() == 32 => u64::from(address as u32),
            _ => address,
        };
        self.context.lane = u64::from(self.lane);
        self.context.warp = self.warp;
        let mode = u64::from(bytes) | (memory.space as u64) << 16 | (memory.access(writes) as u64) << 24;
        // SAFETY: this function of the table has this signature, see `helper`.
        let function: extern "C" fn(&mut Context, u64, u64, u64) -> u64 =
            unsafe { std::mem::transmute(self.interpreter.helpers[Helper::Resolve as usize]) };
        match function(self.context, address, mode, u64::from(self.site)) {
            0 => Err(Stopped),
            place => Ok(place as *mut u8),
        }
    }

    fn load(&mut self, memory: &Memory, inst: &Inst) -> Result<(), Stopped> {
        let each = memory.scalar.bytes();
        let place = self.resolve(memory, inst.src[0], each * inst.dst.len() as u32, false)?;
        for (reg, index) in inst.dst.iter().zip(0..) {
            // SAFETY: the machine found these bytes to be the program's.
            let value = unsafe {
                let place = place.add((index * each) as usize);
                if memory.is_ordered() { load_atomic(place, each) } else { read(place, each) }
            };
            let value = if memory.scalar.signed() { extended(value, memory.scalar) as u128 } else { value };
            self.set(*reg, value);
        }
        Ok(())
    }

    fn store(&mut self, memory: &Memory, inst: &Inst) -> Result<(), Stopped> {
        let (each, values) = (memory.scalar.bytes(), &inst.src[1..]);
        let place = self.resolve(memory, inst.src[0], each * values.len() as u32, true)?;
        let [x, y, z, _] = self.context.ntid;
        if memory.once && self.warp.index * 32 + self.lane != x * y * z - 1 {
            return Ok(());
        }
        for (value, index) in values.iter().zip(0..) {
            let value = self.value(*value, memory.scalar.bits());
            // SAFETY: as in `load`.
            unsafe {
                let place = place.add((index * each) as usize);
                if memory.is_ordered() { store_atomic(place, each, value) } else { write(place, each, value) }
            }
        }
        Ok(())
    }

    // ---- control ----

    fn trap(&mut self, kind: u64) -> Stopped {
        (self.context.trap, self.context.site) = (kind, u64::from(self.site));
        Stopped
    }

    fn end(&mut self, number: usize) -> Result<Option<u32>, Stopped> {
        let program = self.program;
        Ok(Some(match &program.blocks[number].end {
            Terminator::Open | Terminator::Exit => return Ok(self.wait(EXITED)),
            Terminator::Trap(kind) => return Err(self.trap(*kind)),
            Terminator::Jump(next) => *next,
            Terminator::Branch { reg, negated, then, other } => {
                if (self.get(*reg) != 0) != *negated {
                    *then
                } else {
                    *other
                }
            }
            Terminator::Table { index, targets } => {
                let index = self.value(*index, 32) as usize;
                self.turn(index, targets)?
            }
            Terminator::Sync(sync) => return Ok(self.wait(sync + 1)),
            Terminator::Yield { next, resume } => {
                self.context.fuel -= 1;
                if self.context.fuel == 0 {
                    self.context.fuel = FUEL;
                    return Ok(self.wait(program.sync_of_yield(*resume) + 1));
                }
                *next
            }
            Terminator::Call { callee, back } => self.enter(number, *callee, *back)?,
            Terminator::CallIndirect { pointer, callees, back } => {
                let pointer = self.value(*pointer, 64) as u64;
                let handle = |callee: u32| FUNCTION_HANDLE + u64::from(program.functions[callee as usize].image) * 16;
                match callees.iter().find(|callee| handle(**callee) == pointer) {
                    Some(callee) => self.enter(number, *callee, *back)?,
                    None => return Err(self.trap(TRAP_POINTER)),
                }
            }
            Terminator::Return => self.leave()?,
        }))
    }

    fn wait(&mut self, place: u32) -> Option<u32> {
        self.warp.resume[self.lane as usize] = place;
        None
    }

    /// The block that an index chooses from a list. An index past its end takes the last one.
    fn turn(&mut self, index: usize, targets: &[u32]) -> Result<u32, Stopped> {
        let target = targets.get(index).or(targets.last()).copied();
        target.ok_or_else(|| self.trap(TRAP_POINTER))
    }

    fn local(&self, offset: u64) -> *mut u8 {
        let base = u64::from(self.lane) * self.context.local_bytes;
        // SAFETY: offsets are within the lane's local memory: constants of the program, or checked by `frame_place` and `enter`.
        unsafe { self.warp.local.add((base + offset) as usize) }
    }

    /// Where the current frame is, which comes from memory that the thread can overwrite.
    fn frame_place(&mut self) -> Result<u64, Stopped> {
        let frame = self.get(FRAME) as u64;
        let size = self.interpreter.frames[self.function as usize];
        match frame.checked_add(size).is_some_and(|end| end <= self.context.local_bytes) {
            true => Ok(frame),
            false => Err(self.trap(TRAP_STACK)),
        }
    }

    fn move_saved(&mut self, block: usize, store: bool) -> Result<(), Stopped> {
        let interpreter = self.interpreter;
        let list = if store { &interpreter.saves[block] } else { &interpreter.restores[block] };
        let start = self.frame_place()? + self.program.functions[self.function as usize].frame.next_multiple_of(16);
        for (reg, index) in list.iter().zip(0..) {
            let (place, size) = (self.local(start + index * 16), size_of(self.program, *reg));
            // SAFETY: the frame has 16 bytes for each.
            unsafe { if store { write(place, size, self.get(*reg)) } else { self.set(*reg, read(place, size)) } }
        }
        Ok(())
    }

    fn enter(&mut self, block: usize, callee: u32, back: u32) -> Result<u32, Stopped> {
        if !self.interpreter.saves[block].is_empty() {
            self.move_saved(block, true)?;
        }
        let function = &self.program.functions[callee as usize];
        let id = function.returns.iter().position(|place| *place == back).unwrap_or(0) as u128;
        if !function.recursive {
            // SAFETY: the function's variables begin with 16 bytes for this.
            unsafe { write(self.local(function.base + 8), 4, id) };
            return Ok(function.entry);
        }
        let stack = (self.get(STACK) as u64).wrapping_add(15) & !15;
        let end = stack.wrapping_add(self.interpreter.frames[callee as usize]);
        if end > self.context.local_bytes || end < stack {
            return Err(self.trap(TRAP_STACK));
        }
        let frame = self.get(FRAME);
        // SAFETY: the frame is within the lane's local memory, and begins with 16 bytes for these.
        unsafe {
            write(self.local(stack), 8, frame);
            write(self.local(stack + 8), 4, id);
        }
        self.set(FRAME, u128::from(stack));
        self.set(STACK, u128::from(end));
        Ok(function.entry)
    }

    fn leave(&mut self) -> Result<u32, Stopped> {
        let function = &self.program.functions[self.function as usize];
        if function.returns.is_empty() {
            return Err(self.trap(TRAP_POINTER));
        }
        let id = if function.recursive {
            let frame = self.frame_place()?;
            // SAFETY: as in `enter`.
            let (before, id) = unsafe { (read(self.local(frame), 8), read(self.local(frame + 8), 4)) };
            self.set(STACK, u128::from(frame));
            self.set(FRAME, before);
            id
        } else {
            // SAFETY: as in `enter`.
            unsafe { read(self.local(function.base + 8), 4) }
        };
        self.turn(id as usize, &function.returns)
    }
}

/// # Safety
/// There are as many bytes, at most 16.
unsafe fn read(place: *const u8, bytes: u32) -> u128 {
    let mut value = [0; 16];
    // SAFETY: by the contract of the function.
    unsafe { std::ptr::copy_nonoverlapping(place, value.as_mut_ptr(), bytes as usize) };
    u128::from_le_bytes(value)
}

/// # Safety
/// The contract is that of [`read()`].
unsafe fn write(place: *mut u8, bytes: u32, value: u128) {
    // SAFETY: by the contract of the function.
    unsafe { std::ptr::copy_nonoverlapping(value.to_le_bytes().as_ptr(), place, bytes as usize) };
}

/// # Safety
/// The place is valid for, and aligned to, 1, 2, 4 or 8 bytes.
unsafe fn load_atomic(place: *mut u8, bytes: u32) -> u128 {
    // SAFETY: by the contract of the function.
    unsafe {
        match bytes {
            1 => u128::from(AtomicU8::from_ptr(place).load(Ordering::SeqCst)),
            2 => u128::from(AtomicU16::from_ptr(place.cast()).load(Ordering::SeqCst)),
            4 => u128::from(AtomicU32::from_ptr(place.cast()).load(Ordering::SeqCst)),
            _ => u128::from(AtomicU64::from_ptr(place.cast()).load(Ordering::SeqCst)),
        }
    }
}

/// # Safety
/// The contract is that of [`load_atomic`].
unsafe fn store_atomic(place: *mut u8, bytes: u32, value: u128) {
    // SAFETY: by the contract of the function.
    unsafe {
        match bytes {
            1 => AtomicU8::from_ptr(place).store(value as u8, Ordering::SeqCst),
            2 => AtomicU16::from_ptr(place.cast()).store(value as u16, Ordering::SeqCst),
            4 => AtomicU32::from_ptr(place.cast()).store(value as u32, Ordering::SeqCst),
            _ => AtomicU64::from_ptr(place.cast()).store(value as u64, Ordering::SeqCst),
        }
    }
}
