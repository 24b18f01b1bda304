//! The second body of a kernel: four neighboring lanes at once, as vectors where they differ, and as the first lane's numbers
//! where the shape determines the others. If they do not all take the same path, each continues alone in the first body.

mod access;
mod body;
mod exchange;
mod operation;
mod value;

pub(super) use exchange::meet;

use super::*;
use crate::analysis::shape::Shape;
use crate::runtime::state::LANES;

/// Which lanes the operands' values belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum View {
    /// One of four.
    Lane(u32),
    /// Four lanes of 32 bits in a vector.
    Four,
    /// Two lanes of 64 bits in a vector: the lower ones, or the upper ones.
    Half(usize),
}

/// Four neighboring lanes, and their registers.
pub(super) struct FourLanes {
    rows: Rows,
    view: View,
    lanes: [Lane; 4],
    /// The lanes that are still to run, those that run now among them.
    mask: Value,
    /// Where these lanes continue.
    resume: Value,
    /// Homes of the first lane for sizes 1, 2, 4, 8 and 16.
    home_base: [Value; 5],
    vectors: Vec<[Option<Variable>; 2]>,
    summaries: Vec<Option<[Variable; 2]>>,
    /// The results of single lanes: register, lane, value.
    results: Vec<(Reg, u32, Value)>,
}

/// How the two bodies are entered, and left.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    /// The second body, with the lanes that are still to run, the first of the four, and where they continue.
    pub(super) block: ir::Block,
    /// The first body, with the lanes that are still to run, and the one that is running.
    pub(super) single: ir::Block,
    /// All lanes of the warp began at this place, or [`APART`].
    pub(super) step: Value,
    /// Where to go when four lanes are done.
    pub(super) after: ir::Block,
    /// Where to go when all lanes are done.
    pub(super) done: ir::Block,
}

impl FourLanes {
    /// Begins the second body, whose lanes are the parameters of its first block.
    pub(super) fn new<B>(lowering: &mut Lowering<'_, B>, rows: Rows) -> Self {
        lowering.b.switch_to_block(rows.block);
        let [mask, lane, resume] = [0, 1, 2].map(|index| lowering.b.block_params(rows.block)[index]);
        lowering.blocks = lowering.program.blocks.iter().map(|_| lowering.b.create_block()).collect();
        let first = lowering.b.ins().uextend(types::I64, lane);
        let lanes = [0, 1, 2, 3].map(|index| {
            let number = lowering.b.ins().iadd_imm_s(first, index);
            lowering.lane_with_local(number)
        });
        let home_base = lowering.home_bases(lanes[0].number);
        let count = lowering.program.regs.len();
        Self {
            rows,
            view: View::Lane(0),
            lanes,
            mask,
            resume,
            home_base,
            vectors: vec![[None; 2]; count],
            summaries: vec![None; count],
            results: Vec::new(),
        }
    }
}

impl<'a> Lowering<'a, FourLanes> {
    /// From where the lanes stopped to their next synchronization; the function is complete then.
    pub(super) fn whole_body(mut self) -> FunctionBuilder<'a> {
        let FourLanes { rows, mask, resume, .. } = self.body;
        let lane = self.b.block_params(rows.block)[1];
        let start = self.b.create_block();
        self.resume_together(rows.single, [mask, lane], resume, start);
        self.b.switch_to_block(start);
        for reg in self.flow.zeroed.iter() {
            for lane in 0..LANES {
                let kind = self.variable_type(reg);
                let zero = self.zero(kind);
                self.body.results.push((reg, lane, zero));
            }
        }
        self.take_results();
        self.program_blocks();
        self.go_to_next(rows, [mask, lane, resume]);
        self.b
    }

    /// After four lanes: goes on to the next four if the warp is in step.
    fn go_to_next(&mut self, rows: Rows, [mask, lane, resume]: [Value; 3]) {
        let [apart, next, more] = [(); 3].map(|()| self.b.create_block());
        self.b.switch_to_block(rows.after);
        let is_apart = self.b.ins().icmp_imm_s(IntCC::Equal, rows.step, i64::from(APART as i32));
        self.b.ins().brif(is_apart, apart, &[], next, &[]);
        self.b.switch_to_block(next);
        let lane_after = self.b.ins().iadd_imm_s(lane, i64::from(LANES));
        let is_last = self.b.ins().icmp_imm_u(IntCC::Equal, lane_after, 32);
        self.b.ins().brif(is_last, rows.done, &[], more, &[]);
        self.b.switch_to_block(more);
        let all = self.b.ins().iconst(types::I32, 0xffff_ffff);
        let left = self.b.ins().ishl(all, lane_after);
        self.jump(rows.block, &[left, lane_after, resume]);
        self.b.switch_to_block(apart);
        let four = self.b.ins().iconst(types::I32, (1 << LANES) - 1);
        let four = self.b.ins().ishl(four, lane);
        let rest = self.b.ins().band_not(mask, four);
        let head = self.head;
        self.jump(head, &[rest]);
    }

    /// Goes to where the lanes stopped, if their registers still have the expected shapes: the lanes may have diverged.
    fn resume_together(&mut self, single: ir::Block, one: [Value; 2], resume: Value, start: ir::Block) {
        if self.program.syncs.is_empty() {
            return self.jump(start, &[]);
        }
        let fail = self.b.create_block();
        let stubs: Vec<ir::Block> = self.program.syncs.iter().map(|_| self.b.create_block()).collect();
        let call = |this: &mut Self, block| {
            BlockCall::new(block, std::iter::empty::<BlockArg>(), &mut this.b.func.dfg.value_lists)
        };
        let default = call(self, fail);
        let table: Vec<_> = std::iter::once(&start).chain(&stubs).map(|block| call(self, *block)).collect();
        let table = self.b.create_jump_table(JumpTableData::new(default, &table));
        self.b.ins().br_table(resume, table);
        self.b.switch_to_block(fail);
        self.jump(single, &one);
        for (sync, stub) in self.program.syncs.iter().zip(stubs) {
            self.b.switch_to_block(stub);
            let resume = sync.resume as usize;
            if !self.flow.reachable[resume] {
                self.jump(single, &one);
                continue;
            }
            let mut as_said = None;
            for reg in self.flow.loads[resume].iter() {
                let good = self.load_homes(reg);
                as_said = match (as_said, good) {
                    (Some(all), Some(good)) => Some(self.b.ins().band(all, good)),
                    (all, good) => all.or(good),
                };
            }
            let next = self.blocks[resume];
            match as_said {
                Some(all) => {
                    let all = self.b.ins().vall_true(all);
                    self.b.ins().brif(all, next, &[], single, &one.map(BlockArg::Value));
                }
                None => self.jump(next, &[]),
            }
        }
    }

    /// The number under which to resume a block in which lanes continue alone.
    fn number_alone(&self, block: u32) -> i64 {
        let index = self.flow.alone.iter().position(|alone| *alone == block).unwrap_or(0);
        (self.program.syncs.len() + 1 + index) as i64
    }

    /// A branch whose condition, by its shape, may differ between lanes.
    pub(super) fn branch_together(&mut self, index: usize, reg: Reg, yes: u32, no: u32) {
        let [all, any] = self.summary(reg);
        let (some, part) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(part);
        let (to_yes, to_no) = (self.blocks[yes as usize], self.blocks[no as usize]);
        self.b.ins().brif(all, to_yes, &[], some, &[]);
        self.b.switch_to_block(some);
        self.b.ins().brif(any, part, &[], to_no, &[]);
        self.b.switch_to_block(part);
        match self.shapes.and_then(|shapes| shapes.guarded(index)) {
            Some(block) => {
                self.is_rare = true;
                self.by_some(reg, block, block == yes);
                self.is_rare = false;
            }
            None => self.part(index, reg, yes, no),
        }
    }

    /// A short block that only the lanes run whose condition is as wanted; all continue together after it.
    fn by_some(&mut self, reg: Reg, block: u32, wanted: bool) {
        let program = self.program;
        let condition = self.four_int(Val::Reg(reg), 1);
        let bits = self.b.ins().vhigh_bits(types::I32, condition);
        let bits = if wanted { bits } else { self.b.ins().bnot(bits) };
        for lane in 0..LANES {
            let (run, next) = (self.new_block(), self.new_block());
            let bit = self.b.ins().band_imm_u(bits, 1 << lane);
            self.b.ins().brif(bit, run, &[], next, &[]);
            self.b.switch_to_block(run);
            for inst in &program.blocks[block as usize].insts {
                self.site = inst.site;
                self.one_lane(inst, lane);
                for (reg, lane, value) in std::mem::take(&mut self.body.results) {
                    if reg != SINK {
                        self.define_one_lane(reg, lane, value);
                    }
                }
            }
            self.jump(next, &[]);
            self.b.switch_to_block(next);
        }
        if let Terminator::Jump(next) = program.blocks[block as usize].end {
            let next = self.blocks[next as usize];
            self.jump(next, &[]);
        }
    }

    /// Each lane continues alone in the first body.
    fn part(&mut self, index: usize, reg: Reg, yes: u32, no: u32) {
        for reg in self.flow.parting[index].iter() {
            self.store_homes(reg);
        }
        let condition = self.four_int(Val::Reg(reg), 1);
        let [yes, no] = [yes, no].map(|block| {
            let number = self.number_alone(block);
            let number = self.b.ins().iconst(types::I32, number);
            self.b.ins().splat(types::I32X4, number)
        });
        let resume = self.b.ins().bitselect(condition, yes, no);
        self.store_resume(resume);
        let (head, mask) = (self.head, self.body.mask);
        self.jump(head, &[mask]);
    }

    pub(super) fn store_resume(&mut self, four: Value) {
        let at = self.home_base4();
        self.b.ins().store(loose(), four, at, offset_of!(Warp, resume) as i32);
    }

    // ---- operations ----

    fn inst_together(&mut self, inst: &Inst) {
        let steps = |reg: &Reg| *reg == SINK || self.shape(*reg) != Shape::Any;
        let by_first = inst.dst.iter().all(steps) && inst.dst.iter().any(|reg| *reg != SINK);
        match &inst.op {
            Op::Fence => self.inst(inst),
            Op::System(..) => self.each_lane(inst),
            Op::Store(memory) => self.store_together(memory, inst),
            _ if by_first => self.one_lane(inst, 0),
            Op::Load(memory) => self.load_together(memory, inst),
            _ => {
                if !self.in_vectors(inst) {
                    self.each_lane(inst);
                }
            }
        }
        self.take_results();
    }

    pub(super) fn each_lane(&mut self, inst: &Inst) {
        for lane in 0..LANES {
            self.one_lane(inst, lane);
        }
    }

    pub(super) fn one_lane(&mut self, inst: &Inst, lane: u32) {
        self.with_lane(lane, |this| this.inst(inst));
    }

    fn with_lane<T>(&mut self, lane: u32, body: impl FnOnce(&mut Self) -> T) -> T {
        self.with_view(View::Lane(lane), body)
    }

    fn with_view<T>(&mut self, view: View, body: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.body.view, view);
        let result = body(self);
        self.body.view = before;
        result
    }

    /// Puts together the results of single lanes.
    pub(super) fn take_results(&mut self) {
        let results = std::mem::take(&mut self.body.results);
        let mut done = Vec::new();
        for (reg, ..) in &results {
            if *reg == SINK || done.contains(reg) {
                continue;
            }
            done.push(*reg);
            // A lane may have set it several times: the last value counts.
            let of =
                |lane: u32| results.iter().rev().find(|(r, l, _)| r == reg && *l == lane).map(|(.., value)| *value);
            let Some(first) = of(0) else { continue };
            match self.shape(*reg) {
                Shape::Steps { .. } => self.define_first(*reg, first),
                Shape::Any => {
                    let all = [0, 1, 2, 3].map(|lane| of(lane).unwrap_or(first));
                    self.define_lanes(*reg, all);
                }
            }
        }
    }
}
