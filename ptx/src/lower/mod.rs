//! Lowers operations to Cranelift's IR. One function per kernel runs the lanes in its mask, each from where it stopped to its
//! next synchronization. Values that other lanes or a later call need are in homes, all others in processor registers.

mod body;
mod call;
mod classes;
mod control;
mod float;
mod four;
mod group;
mod integer;
mod memory;
mod one;
mod operation;
mod outside;
mod registers;
mod special;
mod vector;

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

use body::{Body, Lane};
use classes::Classes;
use four::{FourLanes, Rows, meet};
use group::Group;
use one::OneLane;
use outside::Outside;

/// The function of a kernel. With shapes, it has a body for four lanes at once as well.
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
    Lowering::<Outside>::new(program, flow, points, shapes, checks, builder, call_conv).run(isa);
    function
}

/// The function of a kernel while it is written: what its bodies share, and the one that is being lowered.
struct Lowering<'a, B> {
    program: &'a Program,
    flow: &'a Flow,
    points: &'a [Point],
    shapes: Option<&'a Shapes>,
    checks: Checks,
    b: FunctionBuilder<'a>,
    classes: Classes,
    signatures: Signatures,
    /// Bytes of each recursive function's frame with what it saves.
    frames: Vec<u64>,
    context: Value,
    warp: Value,
    memory: WarpMemory,
    /// Where the function goes on with the lanes that are still to run.
    head: ir::Block,
    /// The blocks of the program in this body.
    blocks: Vec<ir::Block>,
    function: u32,
    site: u32,
    group: Option<Group>,
    /// Whether the code being lowered runs rarely.
    is_rare: bool,
    body: B,
}

/// The signatures of the functions that code calls.
struct Signatures {
    pure: SigRef,
    system: SigRef,
    resolve: SigRef,
}

/// Where a warp's values and memory are.
#[derive(Clone, Copy)]
struct WarpMemory {
    /// The homes of registers.
    slots: Value,
    /// The local memory of the first lane, and the bytes from each lane's to the next one's.
    local: Value,
    local_bytes: Value,
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

/// How a vector of consecutive elements is accessed, which has the alignment of one element.
fn loose() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

/// How the program's own accesses are made, which were checked.
fn checked() -> MemFlagsData {
    MemFlagsData::trusted()
}

impl<'a, B> Lowering<'a, B> {
    /// The same function with another body.
    fn with_body<C>(self, body: C) -> Lowering<'a, C> {
        let Self {
            program, flow, points, shapes, checks, b, classes, signatures, frames, context, warp, memory, ..
        } = self;
        let Self { head, blocks, function, site, group, is_rare, .. } = self;
        Lowering {
            program,
            flow,
            points,
            shapes,
            checks,
            b,
            classes,
            signatures,
            frames,
            context,
            warp,
            memory,
            head,
            blocks,
            function,
            site,
            group,
            is_rare,
            body,
        }
    }

    /// Ends the function, which returns where all lanes of the warp are, if that is one place and known.
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

    /// A lane's homes for sizes 1, 2, 4, 8 and 16.
    fn home_bases(&mut self, lane: Value) -> [Value; 5] {
        [0, 1, 2, 3, 4].map(|size| {
            let scaled = self.b.ins().ishl_imm_u(lane, size);
            self.b.ins().iadd(self.memory.slots, scaled)
        })
    }

    /// A lane by its number.
    fn lane_with_local(&mut self, number: Value) -> Lane {
        let mine = self.b.ins().imul(number, self.memory.local_bytes);
        Lane { number, local: self.b.ins().iadd(self.memory.local, mine) }
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
}
