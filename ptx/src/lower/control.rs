//! Blocks and their ends: jumps, calls, returns, traps and synchronizations.

use super::*;

impl<'a, B> Lowering<'a, B>
where
    Self: Body,
{
    pub(super) fn block(&mut self, index: usize) {
        let program = self.program;
        let block = &program.blocks[index];
        self.function = block.function;
        self.site = block.site;
        let target = self.blocks[index];
        self.b.switch_to_block(target);
        if !self.flow.restores[index].is_empty() {
            self.move_saved(index, false);
        }
        for (at, inst) in block.insts.iter().enumerate() {
            self.site = inst.site;
            self.check_group(&block.insts, at);
            self.carry_out(inst);
        }
        self.site = block.site;
        self.group = None;
        self.terminator(index);
    }

    /// A branch that all lanes of the body take alike.
    pub(super) fn branch_alike(&mut self, reg: Reg, yes: u32, no: u32) {
        let condition = self.read(reg);
        let (yes, no) = (self.blocks[yes as usize], self.blocks[no as usize]);
        self.b.ins().brif(condition, yes, &[], no, &[]);
    }

    /// Stores the registers that a recursive call keeps into the caller's frame, or loads them from there.
    fn move_saved(&mut self, block: usize, store: bool) {
        let function = self.program.blocks[block].function as usize;
        let list = if store { self.flow.saves[block].clone() } else { self.flow.restores[block].clone() };
        let at = self.frame_place(function);
        let start = self.program.functions[function].frame.next_multiple_of(16);
        for (index, reg) in list.into_iter().enumerate() {
            let offset = (start + index as u64 * 16) as i32;
            if store {
                let value = self.read(reg);
                self.b.ins().store(checked(), value, at, offset);
            } else {
                let kind = self.variable_type(reg);
                let value = self.b.ins().load(kind, checked(), at, offset);
                self.define(reg, value);
            }
        }
    }

    /// Where the current frame is. It was checked when it was made, but its address has since come back from local memory, which
    /// the thread can overwrite.
    fn frame_place(&mut self, function: usize) -> Value {
        let frame = self.read(FRAME);
        let limit = self.load_context(types::I64, offset_of!(Context, local_bytes));
        let highest = self.b.ins().iadd_imm_s(limit, -(self.frames[function] as i64));
        let over = self.b.ins().icmp(IntCC::SignedGreaterThan, frame, highest);
        let below = self.b.ins().icmp_imm_s(IntCC::SignedLessThan, frame, 0);
        let bad = self.b.ins().bor(over, below);
        self.trap_if(bad, TRAP_STACK);
        let local = self.lane().local;
        self.b.ins().iadd(local, frame)
    }

    fn trap_if(&mut self, condition: Value, kind: u64) {
        let (bad, good) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(bad);
        self.b.ins().brif(condition, bad, &[], good, &[]);
        self.b.switch_to_block(bad);
        self.trap(kind);
        self.b.switch_to_block(good);
    }

    pub(super) fn trap(&mut self, kind: u64) {
        let kind = self.b.ins().iconst(types::I64, kind as i64);
        self.b.ins().store(trusted(), kind, self.context, offset_of!(Context, trap) as i32);
        let site = self.site_value();
        self.b.ins().store(trusted(), site, self.context, offset_of!(Context, site) as i32);
        self.leave();
    }

    fn terminator(&mut self, index: usize) {
        let program = self.program;
        match &program.blocks[index].end {
            Terminator::Open | Terminator::Exit => {
                self.set_resume(EXITED);
                self.go_to_head();
            }
            Terminator::Trap(kind) => self.trap(*kind),
            Terminator::Jump(next) => {
                let next = self.blocks[*next as usize];
                self.jump(next, &[]);
            }
            Terminator::Branch { reg, negated, then, other } => {
                let (yes, no) = if *negated { (*other, *then) } else { (*then, *other) };
                self.branch(index, *reg, yes, no);
            }
            Terminator::Table { index, targets } => {
                let index = self.int(*index, 32);
                // Past the end of the list, the behavior is undefined; the last label is used.
                self.table(index, targets);
            }
            Terminator::Sync(sync) => self.arrive(index, *sync),
            Terminator::Yield { next, resume } => {
                let at = offset_of!(Context, fuel) as i32;
                let fuel = self.b.ins().load(types::I64, trusted(), self.context, at);
                let fuel = self.b.ins().iadd_imm_s(fuel, -1);
                self.b.ins().store(trusted(), fuel, self.context, at);
                let empty = self.b.create_block();
                self.b.set_cold_block(empty);
                let next = self.blocks[*next as usize];
                self.b.ins().brif(fuel, next, &[], empty, &[]);
                self.b.switch_to_block(empty);
                let full = self.b.ins().iconst(types::I64, FUEL);
                self.b.ins().store(trusted(), full, self.context, at);
                let sync = program.sync_of_yield(*resume);
                self.arrive(index, sync);
            }
            Terminator::Call { callee, back } => {
                self.call_frame(index, *callee, *back);
                let entry = self.blocks[program.functions[*callee as usize].entry as usize];
                self.jump(entry, &[]);
            }
            Terminator::CallIndirect { pointer, callees, back } => {
                let pointer = self.int(*pointer, 64);
                for callee in callees {
                    let image = program.functions[*callee as usize].image;
                    let handle = crate::text::image::FUNCTION_HANDLE + u64::from(image) * 16;
                    let same = self.b.ins().icmp_imm_s(IntCC::Equal, pointer, handle as i64);
                    let (yes, no) = (self.b.create_block(), self.b.create_block());
                    self.b.ins().brif(same, yes, &[], no, &[]);
                    self.b.switch_to_block(yes);
                    self.call_frame(index, *callee, *back);
                    let entry = self.blocks[program.functions[*callee as usize].entry as usize];
                    self.jump(entry, &[]);
                    self.b.switch_to_block(no);
                }
                self.trap(crate::runtime::state::TRAP_POINTER);
            }
            Terminator::Return => {
                let function = &program.functions[program.blocks[index].function as usize];
                if function.returns.is_empty() {
                    self.trap(crate::runtime::state::TRAP_POINTER);
                    return;
                }
                let id = if function.recursive {
                    let at = self.frame_place(program.blocks[index].function as usize);
                    let frame = self.read(FRAME);
                    let id = self.b.ins().load(types::I32, checked(), at, 8);
                    let before = self.b.ins().load(types::I64, checked(), at, 0);
                    self.define(STACK, frame);
                    self.define(FRAME, before);
                    id
                } else {
                    let local = self.lane().local;
                    self.b.ins().load(types::I32, checked(), local, function.base as i32 + 8)
                };
                let targets = function.returns.clone();
                self.table(id, &targets);
            }
        }
    }

    pub(super) fn table(&mut self, index: Value, targets: &[u32]) {
        let Some((last, _)) = targets.split_last() else { return self.trap(crate::runtime::state::TRAP_POINTER) };
        if targets.iter().all(|t| t == last) {
            let block = self.blocks[*last as usize];
            return self.jump(block, &[]);
        }
        // A separate block for each path: two paths from one instruction to one block would pass its arguments twice.
        let ways: Vec<(ir::Block, u32)> =
            targets.iter().chain([last]).map(|target| (self.b.create_block(), *target)).collect();
        let calls: Vec<BlockCall> = ways
            .iter()
            .map(|(way, _)| BlockCall::new(*way, std::iter::empty::<BlockArg>(), &mut self.b.func.dfg.value_lists))
            .collect();
        let table = self.b.create_jump_table(JumpTableData::new(calls[targets.len()], &calls[..targets.len()]));
        self.b.ins().br_table(index, table);
        for (way, target) in ways {
            self.b.switch_to_block(way);
            let block = self.blocks[target as usize];
            self.jump(block, &[]);
        }
    }

    /// What a call leaves for its return: where to continue, and the frame of a recursive function.
    fn call_frame(&mut self, block: usize, callee: u32, back: u32) {
        let program = self.program;
        if !self.flow.saves[block].is_empty() {
            self.move_saved(block, true);
        }
        let function = &program.functions[callee as usize];
        let id = function.returns.iter().position(|r| *r == back).unwrap_or(0);
        let id = self.b.ins().iconst(types::I32, id as i64);
        if function.recursive {
            let stack = self.read(STACK);
            let aligned = self.b.ins().iadd_imm_s(stack, 15);
            let stack = self.b.ins().band_imm_s(aligned, -16);
            let frame = self.read(FRAME);
            let end = self.b.ins().iadd_imm_s(stack, self.frames[callee as usize] as i64);
            let limit = self.load_context(types::I64, offset_of!(Context, local_bytes));
            let over = self.b.ins().icmp(IntCC::UnsignedGreaterThan, end, limit);
            // `stackrestore` takes any number.
            let wraps = self.b.ins().icmp(IntCC::UnsignedLessThan, end, stack);
            let bad = self.b.ins().bor(over, wraps);
            self.trap_if(bad, TRAP_STACK);
            let local = self.lane().local;
            let at = self.b.ins().iadd(local, stack);
            self.b.ins().store(checked(), frame, at, 0);
            self.b.ins().store(checked(), id, at, 8);
            self.define(FRAME, stack);
            self.define(STACK, end);
        } else {
            let local = self.lane().local;
            self.b.ins().store(checked(), id, local, function.base as i32 + 8);
        }
    }

    fn arrive(&mut self, block: usize, sync: u32) {
        let flow = self.flow;
        for reg in flow.stores[block].iter() {
            self.store_home(reg);
        }
        self.set_resume(sync + 1);
        self.go_to_head();
    }
}
