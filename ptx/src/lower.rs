//! Operations to Cranelift's IR. One function per kernel runs the lanes that its mask names, each from where it stopped to its next
//! synchronisation; values that other lanes or a later call need are in homes, all others in registers of the processor.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::immediates::{Ieee32, Ieee64};
use cranelift_codegen::ir::{
    self, AbiParam, BlockArg, BlockCall, Function, InstBuilder, JumpTableData, MemFlagsData, SigRef, Signature, Type,
    UserFuncName, Value, types,
};
use cranelift_codegen::isa::{CallConv, TargetIsa};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext, Variable};

use crate::decode::{FRAME, STACK};
use crate::flow::{self, Flow, sync_of_yield};
use crate::helper::Helper;
use crate::ir::*;
use crate::machine::{Context, EXITED, FUEL, SiteCache, TRAP_STACK, Warp};
use crate::types::Scalar;

pub(crate) fn lower(program: &Program, flow: &Flow, isa: &dyn TargetIsa) -> Function {
    let call_conv = isa.default_call_conv();
    let mut signature = Signature::new(call_conv);
    for kind in [types::I64, types::I64, types::I32] {
        signature.params.push(AbiParam::new(kind));
    }
    let mut function = Function::with_name_signature(UserFuncName::user(0, 0), signature);
    let mut context = FunctionBuilderContext::new();
    let builder = FunctionBuilder::new(&mut function, &mut context);
    Lowering::new(program, flow, builder, call_conv).run(isa);
    function
}

struct Lowering<'a> {
    program: &'a Program,
    flow: &'a Flow,
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

/// The program's own accesses were checked; they can be of any alignment where homes of wide types are.
fn checked() -> MemFlagsData {
    MemFlagsData::trusted()
}

impl<'a> Lowering<'a> {
    fn new(program: &'a Program, flow: &'a Flow, mut b: FunctionBuilder<'a>, call_conv: CallConv) -> Self {
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
        let head = b.create_block();
        Self {
            program,
            flow,
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
        self.jump(head, &[mask]);
        self.b.switch_to_block(head);
        let mask = self.b.block_params(head)[0];
        let (body, done) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(mask, body, &[], done, &[]);
        self.b.switch_to_block(done);
        self.b.ins().return_(&[]);
        self.b.switch_to_block(body);
        let lane = self.b.ins().ctz(mask);
        let less = self.b.ins().iadd_imm_s(mask, -1);
        self.rest = self.b.ins().band(mask, less);
        self.lane = self.b.ins().uextend(types::I64, lane);
        for (index, base) in [0, 1, 2, 3, 4].into_iter().zip(0..5) {
            let scaled = self.b.ins().ishl_imm_u(self.lane, index);
            self.home_base[base] = self.b.ins().iadd(self.slots, scaled);
        }
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
        self.b.seal_all_blocks();
        self.b.finalize(isa.frontend_config());
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
        if self.program.syncs.is_empty() {
            self.jump(start, &[]);
            return;
        }
        let four = self.home_base4();
        let resume = self.b.ins().load(types::I32, trusted(), four, offset_of!(Warp, resume) as i32);
        let fail = self.b.create_block();
        let mut targets = vec![start];
        for sync in &self.program.syncs {
            let _ = sync;
            targets.push(self.b.create_block());
        }
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
        for (sync, stub) in self.program.syncs.iter().zip(&targets[1..]) {
            self.b.switch_to_block(*stub);
            let resume = sync.resume as usize;
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

    fn variable_type(&self, reg: Reg) -> Type {
        let bits = self.program.regs[reg as usize].scalar.bits();
        match (self.float[reg as usize], bits) {
            (true, 32) => types::F32,
            (true, 64) => types::F64,
            _ => int_type(bits),
        }
    }

    fn variable(&mut self, reg: Reg) -> Variable {
        if let Some(variable) = self.variables[reg as usize] {
            return variable;
        }
        let kind = self.variable_type(reg);
        let variable = self.b.declare_var(kind);
        self.variables[reg as usize] = Some(variable);
        variable
    }

    /// Sets a register to a value that has its type.
    fn define(&mut self, reg: Reg, value: Value) {
        if reg != SINK {
            let variable = self.variable(reg);
            self.b.def_var(variable, value);
        }
    }

    /// Sets a register to an integer of any width (cut or zero-extended) or a float of its width.
    fn set(&mut self, reg: Reg, value: Value) {
        if reg == SINK {
            return;
        }
        let want = self.variable_type(reg);
        let value = self.coerce(value, want, false);
        self.define(reg, value);
    }

    /// As `set`, for results of f32 arithmetic: NaN becomes the one that PTX gives.
    fn set_float(&mut self, reg: Reg, value: Value) {
        if reg == SINK {
            return;
        }
        let want = self.variable_type(reg);
        let value = self.coerce(value, want, true);
        self.define(reg, value);
    }

    fn canonical(&mut self, value: Value) -> Value {
        let nan = self.b.ins().f32const(Ieee32::with_bits(0x7fff_ffff));
        let ordered = self.b.ins().fcmp(FloatCC::Equal, value, value);
        self.b.ins().select(ordered, value, nan)
    }

    fn coerce(&mut self, value: Value, want: Type, arithmetic: bool) -> Value {
        let have = self.b.func.dfg.value_type(value);
        if have == want {
            return value;
        }
        if have.is_float() {
            let value = if arithmetic && have == types::F32 { self.canonical(value) } else { value };
            let bits = self.b.ins().bitcast(int_type(have.bits()), MemFlagsData::new(), value);
            return self.coerce(bits, want, false);
        }
        if want.is_float() {
            let bits = self.coerce(value, int_type(want.bits()), false);
            return self.b.ins().bitcast(want, MemFlagsData::new(), bits);
        }
        if have.bits() > want.bits() { self.b.ins().ireduce(want, value) } else { self.b.ins().uextend(want, value) }
    }

    fn read(&mut self, reg: Reg) -> Value {
        let variable = self.variable(reg);
        self.b.use_var(variable)
    }

    fn home_offset(&self, reg: Reg) -> Option<(u32, usize)> {
        let offset = self.flow.homes[reg as usize]?;
        Some((offset, flow::size_of(self.program, reg).trailing_zeros() as usize))
    }

    fn load_home(&mut self, reg: Reg) -> Value {
        let kind = self.variable_type(reg);
        match self.home_offset(reg) {
            Some((offset, size)) => {
                let base = self.home_base[size];
                self.b.ins().load(kind, trusted(), base, offset as i32)
            }
            None => self.zero(kind),
        }
    }

    fn store_home(&mut self, reg: Reg) {
        let Some((offset, size)) = self.home_offset(reg) else { return };
        let mut value = self.read(reg);
        if self.arithmetic[reg as usize] && self.b.func.dfg.value_type(value) == types::F32 {
            value = self.canonical(value);
        }
        let base = self.home_base[size];
        self.b.ins().store(trusted(), value, base, offset as i32);
    }

    /// A value as an integer of `bits`.
    fn int(&mut self, value: Val, bits: u32) -> Value {
        let kind = int_type(bits);
        match value {
            Val::Reg(reg) => {
                let value = self.read(reg);
                let arithmetic = self.arithmetic[reg as usize];
                self.coerce(value, kind, arithmetic)
            }
            Val::Imm(value) if kind == types::I128 => {
                let low = self.b.ins().iconst(types::I64, value as i64);
                let high = self.b.ins().iconst(types::I64, 0);
                self.b.ins().iconcat(low, high)
            }
            Val::Imm(value) => {
                let value = crate::decode::truncate(value, kind.bits());
                self.b.ins().iconst(kind, value as i64)
            }
            other => {
                let value = self.wide(other);
                self.coerce(value, kind, false)
            }
        }
    }

    /// A value as a float.
    fn float(&mut self, value: Val, double: bool) -> Value {
        match value {
            Val::Imm(bits) if double => self.b.ins().f64const(Ieee64::with_bits(bits)),
            Val::Imm(bits) => self.b.ins().f32const(Ieee32::with_bits(bits as u32)),
            Val::Reg(reg) => {
                let value = self.read(reg);
                self.coerce(value, if double { types::F64 } else { types::F32 }, false)
            }
            other => {
                let value = self.wide(other);
                self.coerce(value, if double { types::F64 } else { types::F32 }, false)
            }
        }
    }

    /// Addresses and special registers.
    fn wide(&mut self, value: Val) -> Value {
        match value {
            Val::Global(index, offset) => {
                let globals = self.load_context(types::I64, offset_of!(Context, globals));
                let address = self.load_from(types::I64, constant(), globals, index as usize * 8);
                self.b.ins().iadd_imm_s(address, offset)
            }
            Val::Shared(index, offset) => {
                let at = self.program.shared[index as usize].offset as i64 + offset;
                self.b.ins().iconst(types::I64, at)
            }
            Val::Local(offset) => {
                let function = &self.program.functions[self.function as usize];
                if function.recursive {
                    let frame = self.read(FRAME);
                    self.b.ins().iadd_imm_s(frame, offset)
                } else {
                    self.b.ins().iconst(types::I64, function.base as i64 + offset)
                }
            }
            Val::Param(offset) => self.b.ins().iconst(types::I64, offset),
            Val::Function(index) => {
                let handle = crate::image::FUNCTION_HANDLE + u64::from(index) * 16;
                self.b.ins().iconst(types::I64, handle as i64)
            }
            Val::Special(special) => self.special(special),
            Val::Reg(_) | Val::Imm(_) => self.int(value, 64),
        }
    }

    fn special(&mut self, special: Special) -> Value {
        let array = |base: usize, axis: u8| base + usize::from(axis.min(3)) * 4;
        let offset = match special {
            Special::Tid(axis) if axis < 3 => {
                let table = self.load_from(types::I64, constant(), self.warp, offset_of!(Warp, threads));
                let scaled = self.b.ins().ishl_imm_u(self.lane, 2);
                let at = self.b.ins().iadd(table, scaled);
                let value = self.load_from(types::I32, constant(), at, usize::from(axis) * 128);
                return self.b.ins().uextend(types::I64, value);
            }
            Special::Tid(_) | Special::Zero | Special::CurrentGraphExec | Special::ReservedShared(_) => {
                return self.b.ins().iconst(types::I64, 0);
            }
            Special::Lane => return self.lane,
            Special::LaneMask(mask) => {
                let one = self.b.ins().iconst(types::I32, 1);
                let lane = self.b.ins().ireduce(types::I32, self.lane);
                let bit = self.b.ins().ishl(one, lane);
                let below = self.b.ins().iadd_imm_s(bit, -1);
                let value = match mask {
                    Mask::Eq => bit,
                    Mask::Lt => below,
                    Mask::Le => self.b.ins().bor(bit, below),
                    Mask::Gt => {
                        let le = self.b.ins().bor(bit, below);
                        self.b.ins().bnot(le)
                    }
                    Mask::Ge => self.b.ins().bnot(below),
                };
                return self.b.ins().uextend(types::I64, value);
            }
            Special::Warp => {
                let value = self.load_from(types::I32, constant(), self.warp, offset_of!(Warp, index));
                return self.b.ins().uextend(types::I64, value);
            }
            Special::ParamBase => return self.load_context(types::I64, offset_of!(Context, params)),
            Special::Grid => return self.load_context(types::I64, offset_of!(Context, grid)),
            Special::Clock(which) => {
                let mode = self.b.ins().iconst(types::I64, i64::from(which));
                return self.call_pure(Helper::Clock, &[mode]);
            }
            Special::Ntid(axis) => array(offset_of!(Context, ntid), axis),
            Special::Ctaid(axis) => array(offset_of!(Context, ctaid), axis),
            Special::Nctaid(axis) => array(offset_of!(Context, nctaid), axis),
            Special::ClusterId(axis) => array(offset_of!(Context, clusterid), axis),
            Special::NclusterId(axis) => array(offset_of!(Context, nclusterid), axis),
            Special::ClusterCtaid(axis) => array(offset_of!(Context, cluster_ctaid), axis),
            Special::ClusterNctaid(axis) => array(offset_of!(Context, cluster_nctaid), axis),
            Special::ClusterCtarank => offset_of!(Context, cluster_rank),
            Special::ClusterNctarank => offset_of!(Context, cluster_size),
            Special::IsExplicitCluster => offset_of!(Context, explicit_cluster),
            Special::Nwarp => offset_of!(Context, nwarp),
            Special::Sm => offset_of!(Context, sm),
            Special::Nsm => offset_of!(Context, nsm),
            Special::DynamicShared => offset_of!(Context, dynamic_shared),
            Special::TotalShared | Special::AggrShared => offset_of!(Context, total_shared),
        };
        let value = self.load_context(types::I32, offset);
        self.b.ins().uextend(types::I64, value)
    }

    // ---- calls ----

    fn helper(&mut self, helper: Helper) -> Value {
        let table = self.load_context(types::I64, offset_of!(Context, helpers));
        self.load_from(types::I64, constant(), table, helper as usize * 8)
    }

    fn call_pure(&mut self, helper: Helper, args: &[Value]) -> Value {
        let function = self.helper(helper);
        let mut all = args.to_vec();
        while all.len() < 4 {
            all.push(self.b.ins().iconst(types::I64, 0));
        }
        let call = self.b.ins().call_indirect(self.pure, function, &all);
        self.b.inst_results(call)[0]
    }

    /// Leaves the function: the context says why.
    fn leave(&mut self) {
        self.b.ins().store(trusted(), self.lane, self.context, offset_of!(Context, lane) as i32);
        self.b.ins().return_(&[]);
    }

    fn site_value(&mut self) -> Value {
        self.b.ins().iconst(types::I64, i64::from(self.site))
    }

    fn system(&mut self, helper: Helper, mode: u64, inst: &Inst) {
        for (index, value) in inst.src.iter().enumerate() {
            let bits = match value {
                Val::Reg(reg) => self.program.regs[*reg as usize].scalar.bits(),
                _ => 64,
            };
            let at = (offset_of!(Context, args) + index * 16) as i32;
            let value = if bits == 128 { self.int(*value, 128) } else { self.int(*value, 64) };
            self.b.ins().store(trusted(), value, self.context, at);
        }
        self.b.ins().store(trusted(), self.lane, self.context, offset_of!(Context, lane) as i32);
        let site = self.site_value();
        let at = offset_of!(Context, site) as i32;
        self.b.ins().store(trusted(), site, self.context, at);
        let function = self.helper(helper);
        let mode = self.b.ins().iconst(types::I64, mode as i64);
        let (context, warp) = (self.context, self.warp);
        self.b.ins().call_indirect(self.system, function, &[context, warp, mode]);
        let trap = self.b.ins().load(types::I64, trusted(), context, offset_of!(Context, trap) as i32);
        let (bad, good) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(bad);
        self.b.ins().brif(trap, bad, &[], good, &[]);
        self.b.switch_to_block(bad);
        self.b.ins().return_(&[]);
        self.b.switch_to_block(good);
        if let Some(dst) = inst.dst.first().filter(|d| **d != SINK) {
            let kind = int_type(self.program.regs[*dst as usize].scalar.bits());
            let value = self.b.ins().load(kind, trusted(), context, offset_of!(Context, result) as i32);
            self.set(*dst, value);
        }
    }

    /// The host address of an access, checked.
    fn resolve(&mut self, memory: &Memory, base: Val, bytes: u32, write: bool) -> Value {
        let base = self.int(base, 64);
        let address = if memory.offset == 0 { base } else { self.b.ins().iadd_imm_s(base, memory.offset) };
        let shift = i64::from(bytes.trailing_zeros());
        let (slow, good) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(slow);
        self.b.append_block_param(good, types::I64);
        let (fits, host) = match memory.space {
            Place3::Global | Place3::Generic => {
                let sites = self.load_context(types::I64, offset_of!(Context, sites));
                let at = self.site as usize * size_of::<SiteCache>();
                let lowest = self.b.ins().load(types::I64, trusted(), sites, (at + offset_of!(SiteCache, low)) as i32);
                let count = self.b.ins().load(types::I64, trusted(), sites, (at + offset_of!(SiteCache, count)) as i32);
                let distance = self.b.ins().isub(address, lowest);
                let turned = if shift == 0 { distance } else { self.b.ins().rotr_imm_u(distance, shift) };
                (self.b.ins().icmp(IntCC::UnsignedLessThan, turned, count), address)
            }
            Place3::Shared | Place3::Local | Place3::KernelParam => {
                let (start, length) = match memory.space {
                    Place3::Shared => {
                        let start = self.load_context(types::I64, offset_of!(Context, shared));
                        (start, self.load_context(types::I64, offset_of!(Context, shared_bytes)))
                    }
                    Place3::Local => (self.local, self.load_context(types::I64, offset_of!(Context, local_bytes))),
                    _ => {
                        let start = self.load_context(types::I64, offset_of!(Context, params));
                        (start, self.load_context(types::I64, offset_of!(Context, param_bytes)))
                    }
                };
                let turned = if shift == 0 { address } else { self.b.ins().rotr_imm_u(address, shift) };
                let limit = if shift == 0 { length } else { self.b.ins().ushr_imm_u(length, shift) };
                (self.b.ins().icmp(IntCC::UnsignedLessThan, turned, limit), self.b.ins().iadd(start, address))
            }
        };
        self.b.ins().brif(fits, good, &[BlockArg::Value(host)], slow, &[]);
        self.b.switch_to_block(slow);
        self.b.ins().store(trusted(), self.lane, self.context, offset_of!(Context, lane) as i32);
        let site = self.site_value();
        let mode = u64::from(bytes) | (memory.space as u64) << 16 | u64::from(write) << 24;
        let mode = self.b.ins().iconst(types::I64, mode as i64);
        let warp_at = offset_of!(Context, warp) as i32;
        self.b.ins().store(trusted(), self.warp, self.context, warp_at);
        let function = self.helper(Helper::Resolve);
        let context = self.context;
        let call = self.b.ins().call_indirect(self.resolve, function, &[context, address, mode, site]);
        let host = self.b.inst_results(call)[0];
        let bad = self.b.create_block();
        self.b.set_cold_block(bad);
        self.b.ins().brif(host, good, &[BlockArg::Value(host)], bad, &[]);
        self.b.switch_to_block(bad);
        self.b.ins().return_(&[]);
        self.b.switch_to_block(good);
        self.b.block_params(good)[0]
    }

    fn load(&mut self, memory: &Memory, inst: &Inst) {
        let bits = memory.scalar.bits();
        let each = memory.scalar.bytes();
        let host = self.resolve(memory, inst.src[0], each * inst.dst.len() as u32, false);
        let ordered = memory.strong && memory.space != Place3::Shared && memory.space != Place3::Local && bits <= 64;
        for (index, dst) in inst.dst.iter().enumerate() {
            if *dst == SINK {
                continue;
            }
            let offset = (index as u32 * each) as i32;
            let want = self.variable_type(*dst);
            let kind = if want.bits() == bits { want } else { int_type(bits) };
            let value = if ordered {
                let at = if offset == 0 { host } else { self.b.ins().iadd_imm_s(host, i64::from(offset)) };
                self.b.ins().atomic_load(int_type(bits), trusted(), at)
            } else {
                self.b.ins().load(kind, checked(), host, offset)
            };
            let value = if memory.scalar.signed() && want.is_int() && want.bits() > bits {
                self.b.ins().sextend(want, value)
            } else {
                value
            };
            self.set(*dst, value);
        }
    }

    fn store(&mut self, memory: &Memory, inst: &Inst) {
        let bits = memory.scalar.bits();
        let each = memory.scalar.bytes();
        let values = &inst.src[1..];
        let host = self.resolve(memory, inst.src[0], each * values.len() as u32, true);
        let ordered = memory.strong && memory.space != Place3::Shared && memory.space != Place3::Local && bits <= 64;
        for (index, value) in values.iter().enumerate() {
            let offset = (index as u32 * each) as i32;
            let value = match value {
                Val::Reg(reg) if self.float[*reg as usize] && self.variable_type(*reg).bits() == bits && !ordered => {
                    let value = self.read(*reg);
                    if self.arithmetic[*reg as usize] && bits == 32 { self.canonical(value) } else { value }
                }
                other => self.int(*other, bits.max(8)),
            };
            if ordered {
                let at = if offset == 0 { host } else { self.b.ins().iadd_imm_s(host, i64::from(offset)) };
                self.b.ins().atomic_store(trusted(), value, at);
            } else {
                self.b.ins().store(checked(), value, host, offset);
            }
        }
    }

    // ---- blocks ----

    fn block(&mut self, index: usize) {
        let program = self.program;
        let block = &program.blocks[index];
        self.function = block.function;
        self.site = block.site;
        let target = self.blocks[index];
        self.b.switch_to_block(target);
        if !self.flow.restores[index].is_empty() {
            self.move_saved(index, false);
        }
        for inst in &block.insts {
            self.site = inst.site;
            self.inst(inst);
        }
        self.site = block.site;
        self.terminator(index);
    }

    /// Registers that a recursive call keeps in the caller's frame.
    fn move_saved(&mut self, block: usize, store: bool) {
        let function = self.program.blocks[block].function as usize;
        let list = if store { self.flow.saves[block].clone() } else { self.flow.restores[block].clone() };
        let frame = self.read(FRAME);
        let at = self.b.ins().iadd(self.local, frame);
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

    fn go_to_head(&mut self) {
        let (head, rest) = (self.head, self.rest);
        self.jump(head, &[rest]);
    }

    fn set_resume(&mut self, value: u32) {
        let value = self.b.ins().iconst(types::I32, i64::from(value));
        let at = self.home_base4();
        self.b.ins().store(trusted(), value, at, offset_of!(Warp, resume) as i32);
    }

    fn trap_if(&mut self, condition: Value, kind: u64) {
        let (bad, good) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(bad);
        self.b.ins().brif(condition, bad, &[], good, &[]);
        self.b.switch_to_block(bad);
        self.trap(kind);
        self.b.switch_to_block(good);
    }

    fn trap(&mut self, kind: u64) {
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
                let condition = self.read(*reg);
                let (mut yes, mut no) = (self.blocks[*then as usize], self.blocks[*other as usize]);
                if *negated {
                    std::mem::swap(&mut yes, &mut no);
                }
                self.b.ins().brif(condition, yes, &[], no, &[]);
            }
            Terminator::Table { index, targets } => {
                let index = self.int(*index, 32);
                // Behind the end of the list the behaviour is not defined: the last label serves.
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
                let sync = sync_of_yield(program, *resume);
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
                    let handle = crate::image::FUNCTION_HANDLE + u64::from(image) * 16;
                    let same = self.b.ins().icmp_imm_s(IntCC::Equal, pointer, handle as i64);
                    let (yes, no) = (self.b.create_block(), self.b.create_block());
                    self.b.ins().brif(same, yes, &[], no, &[]);
                    self.b.switch_to_block(yes);
                    self.call_frame(index, *callee, *back);
                    let entry = self.blocks[program.functions[*callee as usize].entry as usize];
                    self.jump(entry, &[]);
                    self.b.switch_to_block(no);
                }
                self.trap(crate::machine::TRAP_POINTER);
            }
            Terminator::Return => {
                let function = &program.functions[program.blocks[index].function as usize];
                if function.returns.is_empty() {
                    self.trap(crate::machine::TRAP_POINTER);
                    return;
                }
                let id = if function.recursive {
                    let frame = self.read(FRAME);
                    let at = self.b.ins().iadd(self.local, frame);
                    let id = self.b.ins().load(types::I32, checked(), at, 8);
                    let before = self.b.ins().load(types::I64, checked(), at, 0);
                    self.define(STACK, frame);
                    self.define(FRAME, before);
                    id
                } else {
                    let local = self.local;
                    self.b.ins().load(types::I32, checked(), local, function.base as i32 + 8)
                };
                let targets = function.returns.clone();
                self.table(id, &targets);
            }
        }
    }

    fn table(&mut self, index: Value, targets: &[u32]) {
        let Some((last, _)) = targets.split_last() else { return self.trap(crate::machine::TRAP_POINTER) };
        if targets.iter().all(|t| t == last) {
            let block = self.blocks[*last as usize];
            return self.jump(block, &[]);
        }
        let calls: Vec<BlockCall> = targets
            .iter()
            .map(|t| {
                let block = self.blocks[*t as usize];
                BlockCall::new(block, std::iter::empty::<BlockArg>(), &mut self.b.func.dfg.value_lists)
            })
            .collect();
        let table = self.b.create_jump_table(JumpTableData::new(calls[calls.len() - 1], &calls));
        self.b.ins().br_table(index, table);
    }

    /// What a call leaves for its return: where to go on, and the frame of a recursive function.
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
            let end = self.b.ins().iadd_imm_s(stack, self.local_bytes[callee as usize] as i64);
            let limit = self.load_context(types::I64, offset_of!(Context, local_bytes));
            let over = self.b.ins().icmp(IntCC::UnsignedGreaterThan, end, limit);
            self.trap_if(over, TRAP_STACK);
            let at = self.b.ins().iadd(self.local, stack);
            self.b.ins().store(checked(), frame, at, 0);
            self.b.ins().store(checked(), id, at, 8);
            self.define(FRAME, stack);
            self.define(STACK, end);
        } else {
            let local = self.local;
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

    // ---- operations ----

    fn bits_of(&self, reg: Reg) -> u32 {
        if reg == SINK { 64 } else { self.program.regs[reg as usize].scalar.bits() }
    }

    fn inst(&mut self, inst: &Inst) {
        let dst = inst.dst.first().copied().unwrap_or(SINK);
        match &inst.op {
            Op::Mov => {
                if let Val::Reg(from) = inst.src[0]
                    && dst != SINK
                    && self.float[from as usize]
                    && self.float[dst as usize]
                {
                    let value = self.read(from);
                    self.set(dst, value);
                    return;
                }
                let value = self.int(inst.src[0], self.bits_of(dst));
                self.set(dst, value);
            }
            Op::Int(op, scalar) => self.int_op(*op, *scalar, inst),
            Op::Float { op, double, ftz, sat } => self.float_op(*op, *double, *ftz, *sat, inst),
            Op::Setp { compare, scalar, ftz, logic } => {
                let value = self.compare(*compare, *scalar, *ftz, inst);
                let value = match logic {
                    None => value,
                    Some((logic, _)) => {
                        let other = self.int(inst.src[2], 8);
                        match logic {
                            Logic::And => self.b.ins().band(value, other),
                            Logic::Or => self.b.ins().bor(value, other),
                            Logic::Xor => self.b.ins().bxor(value, other),
                        }
                    }
                };
                self.set(dst, value);
            }
            Op::Select => {
                let condition = self.int(inst.src[2], 8);
                if dst != SINK && self.variable_type(dst).is_float() {
                    let double = self.variable_type(dst) == types::F64;
                    let (a, b) = (self.float(inst.src[0], double), self.float(inst.src[1], double));
                    let value = self.b.ins().select(condition, a, b);
                    self.set(dst, value);
                } else {
                    let bits = self.bits_of(dst);
                    let (a, b) = (self.int(inst.src[0], bits), self.int(inst.src[1], bits));
                    let value = self.b.ins().select(condition, a, b);
                    self.set(dst, value);
                }
            }
            Op::FromInt { scalar, double } => {
                let value = self.int(inst.src[0], scalar.bits());
                let kind = if *double { types::F64 } else { types::F32 };
                let value = if scalar.signed() {
                    self.b.ins().fcvt_from_sint(kind, value)
                } else {
                    self.b.ins().fcvt_from_uint(kind, value)
                };
                self.set(dst, value);
            }
            Op::ToInt { scalar, double, ftz } => {
                let value = self.float(inst.src[0], *double);
                let value = if *ftz && !*double { self.flush(value) } else { value };
                let kind = int_type(scalar.bits());
                let result = if scalar.signed() {
                    self.b.ins().fcvt_to_sint_sat(kind, value)
                } else {
                    self.b.ins().fcvt_to_uint_sat(kind, value)
                };
                let result = if *double || scalar.bits() == 64 {
                    // NaN becomes the number with only the highest bit.
                    let ordered = self.b.ins().fcmp(FloatCC::Equal, value, value);
                    let highest = self.b.ins().iconst(kind, (1u64 << (scalar.bits() - 1)) as i64);
                    self.b.ins().select(ordered, result, highest)
                } else {
                    result
                };
                self.set(dst, result);
            }
            Op::Promote { ftz } => {
                let value = self.float(inst.src[0], false);
                let value = if *ftz { self.flush(value) } else { value };
                let value = self.b.ins().fpromote(types::F64, value);
                self.set(dst, value);
            }
            Op::Demote { ftz } => {
                let value = self.float(inst.src[0], true);
                let value = self.b.ins().fdemote(types::F32, value);
                let value = if *ftz { self.flush(value) } else { value };
                self.set_float(dst, value);
            }
            Op::FromBf16 => {
                let value = self.int(inst.src[0], 32);
                let value = self.b.ins().ishl_imm_u(value, 16);
                self.set(dst, value);
            }
            Op::ToBf16 { pair } => {
                let first = self.int(inst.src[0], 32);
                let first = self.round_bf16(first);
                let value = if *pair {
                    let second = self.int(inst.src[1], 32);
                    let second = self.round_bf16(second);
                    let up = self.b.ins().ishl_imm_u(first, 16);
                    self.b.ins().bor(up, second)
                } else {
                    first
                };
                self.set(dst, value);
            }
            Op::Pack => {
                let bits = self.bits_of(dst);
                let each = bits / inst.src.len() as u32;
                if bits == 128 && each == 64 {
                    let (low, high) = (self.int(inst.src[0], 64), self.int(inst.src[1], 64));
                    let value = self.b.ins().iconcat(low, high);
                    return self.set(dst, value);
                }
                let kind = int_type(bits);
                let mut all: Option<Value> = None;
                for (index, value) in inst.src.iter().enumerate() {
                    let part = self.int(*value, each);
                    let part = self.coerce(part, kind, false);
                    let part = if index == 0 { part } else { self.shift_up(part, index as u32 * each) };
                    all = Some(all.map_or(part, |all| self.b.ins().bor(all, part)));
                }
                if let Some(all) = all {
                    self.set(dst, all);
                }
            }
            Op::Unpack => {
                let (Val::Imm(each), Val::Imm(width)) = (inst.src[1], inst.src[2]) else { return };
                let whole = self.int(inst.src[0], width as u32);
                for (index, dst) in inst.dst.iter().enumerate() {
                    if *dst == SINK {
                        continue;
                    }
                    let value = if index == 0 {
                        whole
                    } else {
                        let amount = self.b.ins().iconst(types::I32, (index as u64 * each) as i64);
                        self.b.ins().ushr(whole, amount)
                    };
                    let value = self.coerce(value, int_type(each as u32), false);
                    self.set(*dst, value);
                }
            }
            Op::Load(memory) => self.load(memory, inst),
            Op::Store(memory) => self.store(memory, inst),
            Op::Pure(helper) => {
                let args: Vec<Value> = inst.src.iter().map(|value| self.int(*value, 64)).collect();
                let value = self.call_pure(*helper, &args);
                self.set(dst, value);
            }
            Op::System(helper, mode) => self.system(*helper, *mode, inst),
            Op::Fence => {
                self.b.ins().fence();
            }
        }
    }

    fn shift_up(&mut self, value: Value, by: u32) -> Value {
        let amount = self.b.ins().iconst(types::I32, i64::from(by));
        self.b.ins().ishl(value, amount)
    }

    /// To nearest even, in the low half.
    fn round_bf16(&mut self, bits: Value) -> Value {
        let odd = self.b.ins().ushr_imm_u(bits, 16);
        let odd = self.b.ins().band_imm_u(odd, 1);
        let up = self.b.ins().iadd_imm_s(odd, 0x7fff);
        let sum = self.b.ins().iadd(bits, up);
        let rounded = self.b.ins().ushr_imm_u(sum, 16);
        let magnitude = self.b.ins().band_imm_u(bits, 0x7fff_ffff);
        let nan = self.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThan, magnitude, 0x7f80_0000);
        let code = self.b.ins().iconst(types::I32, 0x7fff);
        self.b.ins().select(nan, code, rounded)
    }

    /// A subnormal f32 to zero of its sign.
    fn flush(&mut self, value: Value) -> Value {
        let magnitude = self.b.ins().fabs(value);
        let normal = self.b.ins().f32const(f32::MIN_POSITIVE);
        let small = self.b.ins().fcmp(FloatCC::LessThan, magnitude, normal);
        let zero = self.b.ins().f32const(0.0);
        let zero = self.b.ins().fcopysign(zero, value);
        self.b.ins().select(small, zero, value)
    }

    fn float_op(&mut self, op: FloatOp, double: bool, ftz: bool, sat: bool, inst: &Inst) {
        let ftz = ftz && !double;
        let values: Vec<Value> = inst
            .src
            .iter()
            .map(|value| {
                let value = self.float(*value, double);
                if ftz { self.flush(value) } else { value }
            })
            .collect();
        let ins = self.b.ins();
        let (a, b) = (values[0], *values.get(1).unwrap_or(&values[0]));
        let result = match op {
            FloatOp::Add => ins.fadd(a, b),
            FloatOp::Sub => ins.fsub(a, b),
            FloatOp::Mul => ins.fmul(a, b),
            FloatOp::Fma => ins.fma(a, b, values[2]),
            FloatOp::Div => ins.fdiv(a, b),
            FloatOp::Sqrt => ins.sqrt(a),
            FloatOp::Neg => ins.fneg(a),
            FloatOp::Abs => ins.fabs(a),
            FloatOp::Round(Rounding::Nearest) => ins.nearest(a),
            FloatOp::Round(Rounding::Zero) => ins.trunc(a),
            FloatOp::Round(Rounding::Down) => ins.floor(a),
            FloatOp::Round(Rounding::Up) => ins.ceil(a),
            FloatOp::Min { nan } | FloatOp::Max { nan } => {
                let least = if matches!(op, FloatOp::Min { .. }) { ins.fmin(a, b) } else { ins.fmax(a, b) };
                if nan {
                    least
                } else {
                    // A number wins over NaN.
                    let a_is = self.b.ins().fcmp(FloatCC::Equal, a, a);
                    let b_is = self.b.ins().fcmp(FloatCC::Equal, b, b);
                    let one = self.b.ins().select(a_is, least, b);
                    self.b.ins().select(b_is, one, a)
                }
            }
        };
        let result = if ftz { self.flush(result) } else { result };
        let result = if sat { self.saturate(result, double) } else { result };
        let dst = inst.dst[0];
        if double || matches!(op, FloatOp::Neg | FloatOp::Abs) {
            self.set(dst, result)
        } else {
            self.set_float(dst, result)
        }
    }

    /// To [+0, 1]; NaN to +0.
    fn saturate(&mut self, value: Value, double: bool) -> Value {
        let (zero, one) = if double {
            (self.b.ins().f64const(0.0), self.b.ins().f64const(1.0))
        } else {
            (self.b.ins().f32const(0.0), self.b.ins().f32const(1.0))
        };
        let above = self.b.ins().fcmp(FloatCC::GreaterThan, value, zero);
        let value = self.b.ins().select(above, value, zero);
        let below = self.b.ins().fcmp(FloatCC::LessThan, value, one);
        self.b.ins().select(below, value, one)
    }

    fn compare(&mut self, compare: Compare, scalar: Scalar, ftz: bool, inst: &Inst) -> Value {
        if scalar.float() {
            let double = scalar == Scalar::F64;
            let (mut a, mut b) = (self.float(inst.src[0], double), self.float(inst.src[1], double));
            if ftz && !double {
                (a, b) = (self.flush(a), self.flush(b));
            }
            let code = match compare {
                Compare::Eq => FloatCC::Equal,
                Compare::Ne => FloatCC::OrderedNotEqual,
                Compare::Lt => FloatCC::LessThan,
                Compare::Le => FloatCC::LessThanOrEqual,
                Compare::Gt => FloatCC::GreaterThan,
                Compare::Ge => FloatCC::GreaterThanOrEqual,
                Compare::Equ => FloatCC::UnorderedOrEqual,
                Compare::Neu => FloatCC::NotEqual,
                Compare::Ltu => FloatCC::UnorderedOrLessThan,
                Compare::Leu => FloatCC::UnorderedOrLessThanOrEqual,
                Compare::Gtu => FloatCC::UnorderedOrGreaterThan,
                Compare::Geu => FloatCC::UnorderedOrGreaterThanOrEqual,
                Compare::Num => FloatCC::Ordered,
                Compare::Nan => FloatCC::Unordered,
            };
            return self.b.ins().fcmp(code, a, b);
        }
        let bits = scalar.bits();
        let (a, b) = (self.int(inst.src[0], bits), self.int(inst.src[1], bits));
        let signed = scalar.signed();
        let code = match (compare, signed) {
            (Compare::Eq, _) => IntCC::Equal,
            (Compare::Ne, _) => IntCC::NotEqual,
            (Compare::Lt, true) => IntCC::SignedLessThan,
            (Compare::Le, true) => IntCC::SignedLessThanOrEqual,
            (Compare::Gt, true) => IntCC::SignedGreaterThan,
            (Compare::Ge, true) => IntCC::SignedGreaterThanOrEqual,
            (Compare::Lt, false) => IntCC::UnsignedLessThan,
            (Compare::Le, false) => IntCC::UnsignedLessThanOrEqual,
            (Compare::Gt, false) => IntCC::UnsignedGreaterThan,
            _ => IntCC::UnsignedGreaterThanOrEqual,
        };
        self.b.ins().icmp(code, a, b)
    }

    fn int_op(&mut self, op: IntOp, scalar: Scalar, inst: &Inst) {
        let bits = scalar.bits();
        let kind = int_type(bits);
        let dst = inst.dst[0];
        let signed = scalar.signed();
        if let IntOp::Shl | IntOp::Shr = op {
            let value = self.shift(op == IntOp::Shl, scalar, inst);
            return self.set(dst, value);
        }
        if op == IntOp::Extend {
            let value = self.int(inst.src[0], bits.max(8));
            let want = int_type(self.bits_of(dst));
            let have = self.b.func.dfg.value_type(value);
            let value = if want.bits() > have.bits() && signed {
                self.b.ins().sextend(want, value)
            } else {
                self.coerce(value, want, false)
            };
            return self.set(dst, value);
        }
        if let IntOp::Funnel { left, wrap } = op {
            let value = self.funnel(left, wrap, inst);
            return self.set(dst, value);
        }
        if let IntOp::Lop3(table) = op {
            let values: Vec<Value> = inst.src.iter().map(|v| self.int(*v, 32)).collect();
            let value = self.lop3(table, &values);
            return self.set(dst, value);
        }
        let a = self.int(inst.src[0], bits);
        let b = inst.src.get(1).map(|value| self.int(*value, bits));
        let b = b.unwrap_or(a);
        let value = match op {
            IntOp::Add => self.b.ins().iadd(a, b),
            IntOp::Sub => self.b.ins().isub(a, b),
            IntOp::Mul => self.b.ins().imul(a, b),
            IntOp::MulHi if signed => self.b.ins().smulhi(a, b),
            IntOp::MulHi => self.b.ins().umulhi(a, b),
            IntOp::MulWide => {
                let wide = int_type(bits * 2);
                let (a, b) = if signed {
                    (self.b.ins().sextend(wide, a), self.b.ins().sextend(wide, b))
                } else {
                    (self.b.ins().uextend(wide, a), self.b.ins().uextend(wide, b))
                };
                self.b.ins().imul(a, b)
            }
            IntOp::Div | IntOp::Rem => {
                let (a, b) = if signed && bits < 64 {
                    (self.b.ins().sextend(types::I64, a), self.b.ins().sextend(types::I64, b))
                } else {
                    (self.coerce(a, types::I64, false), self.coerce(b, types::I64, false))
                };
                let mode = u64::from(signed) | u64::from(op == IntOp::Rem) << 1;
                let mode = self.b.ins().iconst(types::I64, mode as i64);
                self.call_pure(Helper::Divide, &[a, b, mode])
            }
            IntOp::Min if signed => self.b.ins().smin(a, b),
            IntOp::Min => self.b.ins().umin(a, b),
            IntOp::Max if signed => self.b.ins().smax(a, b),
            IntOp::Max => self.b.ins().umax(a, b),
            IntOp::And => self.b.ins().band(a, b),
            IntOp::Or => self.b.ins().bor(a, b),
            IntOp::Xor => self.b.ins().bxor(a, b),
            IntOp::Not => self.b.ins().bnot(a),
            IntOp::Cnot => {
                let zero = self.b.ins().icmp_imm_u(IntCC::Equal, a, 0);
                self.coerce(zero, kind, false)
            }
            IntOp::Neg => self.b.ins().ineg(a),
            IntOp::Abs => self.b.ins().iabs(a),
            IntOp::Popc => self.b.ins().popcnt(a),
            IntOp::Clz => self.b.ins().clz(a),
            IntOp::Brev => self.b.ins().bitrev(a),
            IntOp::AddSat | IntOp::SubSat => {
                let (wide_a, wide_b) = (self.b.ins().sextend(types::I64, a), self.b.ins().sextend(types::I64, b));
                let sum = if op == IntOp::AddSat {
                    self.b.ins().iadd(wide_a, wide_b)
                } else {
                    self.b.ins().isub(wide_a, wide_b)
                };
                let high = self.b.ins().iconst(types::I64, i64::from(i32::MAX));
                let low = self.b.ins().iconst(types::I64, i64::from(i32::MIN));
                let value = self.b.ins().smin(sum, high);
                self.b.ins().smax(value, low)
            }
            IntOp::Carry { sub } => {
                let c = self.int(inst.src[2], 8);
                let c = self.coerce(c, kind, false);
                // Subtraction is a + !b + carry, as hardware has it: nvcc's own division adds behind a subtraction.
                let b = if sub { self.b.ins().bnot(b) } else { b };
                let first = self.b.ins().iadd(a, b);
                let over = self.b.ins().icmp(IntCC::UnsignedLessThan, first, a);
                let value = self.b.ins().iadd(first, c);
                let again = self.b.ins().icmp(IntCC::UnsignedLessThan, value, first);
                let carry = self.b.ins().bor(over, again);
                self.set(inst.dst[1], carry);
                value
            }
            IntOp::Shl | IntOp::Shr | IntOp::Extend | IntOp::Funnel { .. } | IntOp::Lop3(_) => a,
        };
        self.set(dst, value);
    }

    fn shift(&mut self, left: bool, scalar: Scalar, inst: &Inst) -> Value {
        let bits = scalar.bits();
        let kind = int_type(bits);
        let a = self.int(inst.src[0], bits);
        let signed = scalar.signed();
        if let Val::Imm(amount) = inst.src[1] {
            let amount = amount as u32;
            if amount >= bits {
                if left || !signed {
                    return self.zero(kind);
                }
                return self.b.ins().sshr_imm_u(a, i64::from(bits - 1));
            }
            let amount = i64::from(amount);
            return match (left, signed) {
                (true, _) => self.b.ins().ishl_imm_u(a, amount),
                (false, true) => self.b.ins().sshr_imm_u(a, amount),
                (false, false) => self.b.ins().ushr_imm_u(a, amount),
            };
        }
        let amount = self.int(inst.src[1], 32);
        if !left && signed {
            let most = self.b.ins().iconst(types::I32, i64::from(bits - 1));
            let amount = self.b.ins().umin(amount, most);
            return self.b.ins().sshr(a, amount);
        }
        let shifted = if left { self.b.ins().ishl(a, amount) } else { self.b.ins().ushr(a, amount) };
        let zero = self.zero(kind);
        let inside = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, amount, i64::from(bits));
        self.b.ins().select(inside, shifted, zero)
    }

    fn funnel(&mut self, left: bool, wrap: bool, inst: &Inst) -> Value {
        let (a, b) = (self.int(inst.src[0], 32), self.int(inst.src[1], 32));
        let (low, high) = (self.b.ins().uextend(types::I64, a), self.b.ins().uextend(types::I64, b));
        let high = self.b.ins().ishl_imm_u(high, 32);
        let both = self.b.ins().bor(high, low);
        let amount = self.int(inst.src[2], 32);
        let amount = if wrap {
            self.b.ins().band_imm_u(amount, 31)
        } else {
            let most = self.b.ins().iconst(types::I32, 32);
            self.b.ins().umin(amount, most)
        };
        let shifted = if left {
            let up = self.b.ins().ishl(both, amount);
            self.b.ins().ushr_imm_u(up, 32)
        } else {
            self.b.ins().ushr(both, amount)
        };
        self.b.ins().ireduce(types::I32, shifted)
    }

    /// Bit i of the table is the result for a, b, c being the bits of i from the highest.
    fn lop3(&mut self, table: u8, v: &[Value]) -> Value {
        let low = self.two(table & 15, v[1], v[2]);
        let high = self.two(table >> 4, v[1], v[2]);
        if table & 15 == table >> 4 {
            return low;
        }
        let yes = self.b.ins().band(v[0], high);
        let no = self.b.ins().band_not(low, v[0]);
        self.b.ins().bor(yes, no)
    }

    fn two(&mut self, table: u8, b: Value, c: Value) -> Value {
        let one = |this: &mut Self, table: u8| match table {
            0 => this.b.ins().iconst(types::I32, 0),
            1 => this.b.ins().bnot(c),
            2 => c,
            _ => this.b.ins().iconst(types::I32, 0xffff_ffff),
        };
        match table {
            0 => self.b.ins().iconst(types::I32, 0),
            15 => self.b.ins().iconst(types::I32, 0xffff_ffff),
            6 => self.b.ins().bxor(b, c),
            8 => self.b.ins().band(b, c),
            14 => self.b.ins().bor(b, c),
            _ => {
                let (low, high) = (one(self, table & 3), one(self, table >> 2));
                let yes = self.b.ins().band(b, high);
                let no = self.b.ins().band_not(low, b);
                self.b.ins().bor(yes, no)
            }
        }
    }
}

/// Which registers are better kept as floats, and which have results of f32 arithmetic.
fn classes(program: &Program) -> (Vec<bool>, Vec<bool>) {
    let mut votes = vec![0i32; program.regs.len()];
    let mut arithmetic = vec![false; program.regs.len()];
    for (reg, info) in program.regs.iter().enumerate() {
        votes[reg] = i32::from(info.scalar.float()) * 2;
    }
    let vote = |votes: &mut Vec<i32>, reg: Reg, by: i32| {
        if reg != SINK {
            votes[reg as usize] += by;
        }
    };
    let src = |votes: &mut Vec<i32>, inst: &Inst, by: i32| {
        for value in &inst.src {
            if let Val::Reg(reg) = value {
                votes[*reg as usize] += by;
            }
        }
    };
    for inst in program.blocks.iter().flat_map(|block| &block.insts) {
        let dst = inst.dst.first().copied().unwrap_or(SINK);
        match &inst.op {
            Op::Float { op, double, .. } => {
                vote(&mut votes, dst, 1);
                src(&mut votes, inst, 1);
                if !double && dst != SINK && !matches!(op, FloatOp::Neg | FloatOp::Abs) {
                    arithmetic[dst as usize] = true;
                }
            }
            Op::Demote { .. } => {
                vote(&mut votes, dst, 1);
                src(&mut votes, inst, 1);
                if dst != SINK {
                    arithmetic[dst as usize] = true;
                }
            }
            Op::FromInt { .. } => vote(&mut votes, dst, 1),
            Op::Promote { .. } => {
                vote(&mut votes, dst, 1);
                src(&mut votes, inst, 1);
            }
            Op::FromBf16 => vote(&mut votes, dst, 1),
            Op::ToInt { .. } => src(&mut votes, inst, 1),
            Op::Setp { scalar, .. } if scalar.float() => src(&mut votes, inst, 1),
            Op::Mov | Op::Select | Op::Load(_) | Op::Store(_) => {}
            _ => {
                inst.dst.iter().for_each(|reg| vote(&mut votes, *reg, -1));
                src(&mut votes, inst, -1);
            }
        }
    }
    let float =
        votes.iter().zip(&program.regs).map(|(v, info)| *v > 0 && matches!(info.scalar.bits(), 32 | 64)).collect();
    (float, arithmetic)
}
