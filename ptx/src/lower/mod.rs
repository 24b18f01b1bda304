//! Lowers operations to Cranelift's IR. One function per kernel runs the lanes in its mask, each from where it stopped to its
//! next synchronization. Values that other lanes or a later call need are in homes, all others in processor registers.

mod call;
mod control;
mod float;
mod four;
mod group;
mod integer;
mod memory;
mod operation;
mod registers;
mod special;

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::immediates::{Ieee32, Ieee64};
use cranelift_codegen::ir::{
    self, AbiParam, BlockArg, BlockCall, Function, InstBuilder, JumpTableData, MemFlagsData, SigRef, Signature, Type,
    UserFuncName, Value, types,
};
use cranelift_codegen::isa::{CallConv, TargetIsa};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext, Variable};

use crate::analysis::Flow;
use crate::analysis::homes;
use crate::analysis::shape::Shapes;
use crate::analysis::synchronization::Point;
use crate::host::mistake::Checks;
use crate::ir::*;
use crate::number::Scalar;
use crate::runtime::helper::Helper;
use crate::runtime::state::{APART, Context, EXITED, FUEL, SiteCache, TRAP_STACK, Warp};

use four::View;
use registers::classes;

/// With shapes, for four lanes at once as well.
pub(crate) fn lower(
    program: &Program,
    flow: &Flow,
    points: &[Point],
    shapes: Option<&Shapes>,
    checks: Checks,
    isa: &dyn TargetIsa,
) -> Function {
    let call_conv = isa.default_call_conv();
    let mut signature = Signature::new(call_conv);
    for kind in [types::I64, types::I64, types::I32, types::I32] {
        signature.params.push(AbiParam::new(kind));
    }
    signature.returns.push(AbiParam::new(types::I32));
    let mut function = Function::with_name_signature(UserFuncName::user(0, 0), signature);
    let mut context = FunctionBuilderContext::new();
    let builder = FunctionBuilder::new(&mut function, &mut context);
    Lowering::new(program, flow, points, shapes, checks, builder, call_conv).run(isa);
    function
}

struct Lowering<'a> {
    program: &'a Program,
    flow: &'a Flow,
    points: &'a [Point],
    shapes: Option<&'a Shapes>,
    checks: Checks,
    b: FunctionBuilder<'a>,
    blocks: Vec<ir::Block>,
    variables: Vec<Option<Variable>>,
    float: Vec<bool>,
    arithmetic: Vec<bool>,
    context: Value,
    warp: Value,
    lane: Value,
    rest: Value,
    slots: Value,
    /// Homes of this lane for sizes 1, 2, 4, 8 and 16.
    home_base: [Value; 5],
    local: Value,
    head: ir::Block,
    pure: SigRef,
    system: SigRef,
    resolve: SigRef,
    function: u32,
    site: u32,
    local_bytes: Vec<u64>,
    // Of the second body.
    view: View,
    entry: Option<four::Entry>,
    vectors: Vec<[Option<Variable>; 2]>,
    summaries: Vec<Option<[Variable; 2]>>,
    group: Option<group::Group>,
    /// The code being lowered runs rarely.
    is_rare: bool,
    /// The results of single lanes: register, lane, value.
    results: Vec<(Reg, u32, Value)>,
    lanes: [Value; 4],
    locals: [Value; 4],
    /// The lanes that are still to run, those that run now among them.
    mask: Value,
    /// Where to go when four lanes are done.
    after: ir::Block,
}

fn int_type(bits: u32) -> Type {
    match bits {
        0..=8 => types::I8,
        16 => types::I16,
        32 => types::I32,
        64 => types::I64,
        _ => types::I128,
    }
}

fn trusted() -> MemFlagsData {
    MemFlagsData::trusted()
}

fn constant() -> MemFlagsData {
    MemFlagsData::trusted().with_readonly().with_can_move()
}

/// A vector of consecutive elements, with the alignment of one element.
fn loose() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

/// The program's own accesses were checked; they can be of any alignment where homes of wide types are.
fn checked() -> MemFlagsData {
    MemFlagsData::trusted()
}

impl<'a> Lowering<'a> {
    fn new(
        program: &'a Program,
        flow: &'a Flow,
        points: &'a [Point],
        shapes: Option<&'a Shapes>,
        checks: Checks,
        mut b: FunctionBuilder<'a>,
        call_conv: CallConv,
    ) -> Self {
        let blocks = program.blocks.iter().map(|_| b.create_block()).collect();
        let signature = |params: usize, returns: bool| {
            let mut signature = Signature::new(call_conv);
            signature.params.extend(std::iter::repeat_n(AbiParam::new(types::I64), params));
            if returns {
                signature.returns.push(AbiParam::new(types::I64));
            }
            signature
        };
        let pure = b.import_signature(signature(4, true));
        let system = b.import_signature(signature(3, false));
        let resolve = b.import_signature(signature(4, true));
        let none = Value::from_u32(0);
        let (float, arithmetic) = classes(program);
        let (head, after) = (b.create_block(), b.create_block());
        Self {
            program,
            flow,
            points,
            shapes,
            checks,
            b,
            blocks,
            variables: vec![None; program.regs.len()],
            float,
            arithmetic,
            context: none,
            warp: none,
            lane: none,
            rest: none,
            slots: none,
            home_base: [none; 5],
            local: none,
            head,
            pure,
            system,
            resolve,
            function: 0,
            site: 0,
            local_bytes: Vec::new(),
            view: View::Alone,
            entry: None,
            vectors: vec![[None; 2]; program.regs.len()],
            summaries: vec![None; program.regs.len()],
            group: None,
            is_rare: false,
            results: Vec::new(),
            lanes: [none; 4],
            locals: [none; 4],
            mask: none,
            after,
        }
    }

    fn run(mut self, isa: &dyn TargetIsa) {
        self.frames();
        let entry = self.b.create_block();
        self.b.append_block_params_for_function_params(entry);
        self.b.switch_to_block(entry);
        let params = self.b.block_params(entry).to_vec();
        (self.context, self.warp) = (params[0], params[1]);
        let mask = params[2];
        self.slots = self.load_from(types::I64, constant(), self.warp, offset_of!(Warp, slots));
        let local = self.load_from(types::I64, constant(), self.warp, offset_of!(Warp, local));
        let local_bytes = self.load_context(types::I64, offset_of!(Context, local_bytes));
        let head = self.head;
        self.b.append_block_param(head, types::I32);
        let (body, done) = (self.b.create_block(), self.b.create_block());
        if self.shapes.is_some() {
            self.begin_rows(mask, params[3], done);
        } else {
            self.jump(head, &[mask]);
        }
        self.b.switch_to_block(head);
        let mask = self.b.block_params(head)[0];
        self.b.ins().brif(mask, body, &[], done, &[]);
        self.b.switch_to_block(done);
        match self.entry {
            Some(entry) => self.meet(entry),
            None => self.come_back(None),
        }
        self.b.switch_to_block(body);
        let (mut mask, mut lane) = (mask, self.b.ins().ctz(mask));
        if self.entry.is_some() {
            (mask, lane) = self.choose_body(mask, lane);
        }
        let less = self.b.ins().iadd_imm_s(mask, -1);
        self.rest = self.b.ins().band(mask, less);
        self.lane = self.b.ins().uextend(types::I64, lane);
        self.home_bases();
        let mine = self.b.ins().imul(self.lane, local_bytes);
        self.local = self.b.ins().iadd(local, mine);
        let start = self.b.create_block();
        self.dispatch(start);
        self.b.switch_to_block(start);
        for reg in self.flow.zeroed.iter() {
            let kind = self.variable_type(reg);
            let value =
                if reg == STACK { self.b.ins().iconst(types::I64, self.program.local as i64) } else { self.zero(kind) };
            self.define(reg, value);
        }
        let first = self.blocks[self.program.functions[0].entry as usize];
        self.jump(first, &[]);
        for index in 0..self.program.blocks.len() {
            if self.flow.reachable[index] {
                self.block(index);
            }
        }
        self.second_body(local, local_bytes);
        self.b.seal_all_blocks();
        self.b.finalize(isa.frontend_config());
    }

    /// Returns where all lanes of the warp are, if that is one place and known.
    fn come_back(&mut self, place: Option<Value>) {
        let place = place.unwrap_or_else(|| self.b.ins().iconst(types::I32, i64::from(APART)));
        self.b.ins().return_(&[place]);
    }

    fn new_block(&mut self) -> ir::Block {
        let block = self.b.create_block();
        if self.is_rare {
            self.b.set_cold_block(block);
        }
        block
    }

    fn home_bases(&mut self) {
        for size in 0..5 {
            let scaled = self.b.ins().ishl_imm_u(self.lane, size);
            self.home_base[size as usize] = self.b.ins().iadd(self.slots, scaled);
        }
    }

    /// Bytes of each recursive function's frame with what it saves.
    fn frames(&mut self) {
        self.local_bytes = self.program.functions.iter().map(|f| f.frame.next_multiple_of(16)).collect();
        for (index, function) in self.program.functions.iter().enumerate() {
            let own = |block: &usize| self.program.blocks[*block].function == index as u32;
            let most = (0..self.program.blocks.len()).filter(own).map(|b| self.flow.saves[b].len()).max().unwrap_or(0);
            if function.recursive {
                self.local_bytes[index] += most as u64 * 16;
            }
        }
    }

    fn dispatch(&mut self, start: ir::Block) {
        if self.program.syncs.is_empty() && self.flow.alone.is_empty() {
            self.jump(start, &[]);
            return;
        }
        let four = self.home_base4();
        let resume = self.b.ins().load(types::I32, trusted(), four, offset_of!(Warp, resume) as i32);
        let fail = self.b.create_block();
        let mut targets = vec![start];
        let resumes: Vec<u32> =
            self.program.syncs.iter().map(|sync| sync.resume).chain(self.flow.alone.iter().copied()).collect();
        targets.extend(resumes.iter().map(|_| self.b.create_block()));
        let call = |this: &mut Self, block| {
            BlockCall::new(block, std::iter::empty::<BlockArg>(), &mut this.b.func.dfg.value_lists)
        };
        let default = call(self, fail);
        let table: Vec<_> = targets.iter().map(|block| call(self, *block)).collect();
        let table = self.b.create_jump_table(JumpTableData::new(default, &table));
        self.b.ins().br_table(resume, table);
        self.b.switch_to_block(fail);
        let (head, rest) = (self.head, self.rest);
        self.jump(head, &[rest]);
        for (resume, stub) in resumes.into_iter().zip(&targets[1..]) {
            self.b.switch_to_block(*stub);
            let resume = resume as usize;
            if self.flow.reachable[resume] {
                for reg in self.flow.loads[resume].iter() {
                    let value = self.load_home(reg);
                    self.define(reg, value);
                }
                let next = self.blocks[resume];
                self.jump(next, &[]);
            } else {
                self.jump(head, &[rest]);
            }
        }
    }

    /// warp + lane * 4
    fn home_base4(&mut self) -> Value {
        let scaled = self.b.ins().ishl_imm_u(self.lane, 2);
        self.b.ins().iadd(self.warp, scaled)
    }

    fn jump(&mut self, block: ir::Block, args: &[Value]) {
        let args: Vec<BlockArg> = args.iter().map(|v| BlockArg::Value(*v)).collect();
        self.b.ins().jump(block, &args);
    }

    fn load_from(&mut self, kind: Type, flags: MemFlagsData, base: Value, offset: usize) -> Value {
        self.b.ins().load(kind, flags, base, offset as i32)
    }

    fn load_context(&mut self, kind: Type, offset: usize) -> Value {
        self.load_from(kind, constant(), self.context, offset)
    }

    fn zero(&mut self, kind: Type) -> Value {
        match kind {
            types::F32 => self.b.ins().f32const(0.0),
            types::F64 => self.b.ins().f64const(0.0),
            types::I128 => {
                let zero = self.b.ins().iconst(types::I64, 0);
                self.b.ins().iconcat(zero, zero)
            }
            kind => self.b.ins().iconst(kind, 0),
        }
    }

    // ---- registers ----

    // ---- calls ----

    // ---- blocks ----

    // ---- operations ----
}
