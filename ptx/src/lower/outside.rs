//! The code around the bodies of a kernel: its beginning and end, and which of the bodies each lane enters.

use super::*;
use crate::runtime::state::LANES;

/// No body: the code around them, which chooses the lanes that run.
pub(super) struct Outside {
    /// The lanes to run.
    mask: Value,
    /// The place where all lanes of the warp are, or [`APART`].
    step: Value,
    /// Where to go when four lanes are done.
    after: ir::Block,
}

/// Bytes of each recursive function's frame with what it saves.
fn frames(program: &Program, flow: &Flow) -> Vec<u64> {
    let frame = |(index, function): (usize, &FunctionInfo)| {
        let own = (0..program.blocks.len()).filter(|block| program.blocks[*block].function == index as u32);
        let most = own.map(|block| flow.saves[block].len()).max().unwrap_or(0);
        function.frame.next_multiple_of(16) + if function.recursive { most as u64 * 16 } else { 0 }
    };
    program.functions.iter().enumerate().map(frame).collect()
}

impl<'a> Lowering<'a, Outside> {
    pub(super) fn new(
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
        let (head, after) = (b.create_block(), b.create_block());
        let entry = b.create_block();
        b.append_block_params_for_function_params(entry);
        b.switch_to_block(entry);
        let [context, warp, mask, step] = [0, 1, 2, 3].map(|index| b.block_params(entry)[index]);
        let mut load = |base: Value, offset: usize| b.ins().load(types::I64, constant(), base, offset as i32);
        let memory = WarpMemory {
            slots: load(warp, offset_of!(Warp, slots)),
            local: load(warp, offset_of!(Warp, local)),
            local_bytes: load(context, offset_of!(Context, local_bytes)),
        };
        Self {
            program,
            flow,
            points,
            shapes,
            checks,
            b,
            classes: Classes::new(program),
            signatures: Signatures { pure, system, resolve },
            frames: frames(program, flow),
            context,
            warp,
            memory,
            head,
            blocks,
            function: 0,
            site: 0,
            group: None,
            is_rare: false,
            body: Outside { mask, step, after },
        }
    }

    pub(super) fn run(mut self, isa: &dyn TargetIsa) {
        let (head, mask) = (self.head, self.body.mask);
        self.b.append_block_param(head, types::I32);
        let (body, done) = (self.b.create_block(), self.b.create_block());
        let rows = if self.shapes.is_some() {
            Some(self.begin_rows(done))
        } else {
            self.jump(head, &[mask]);
            None
        };
        self.b.switch_to_block(head);
        let mask = self.b.block_params(head)[0];
        self.b.ins().brif(mask, body, &[], done, &[]);
        self.b.switch_to_block(done);
        match rows {
            Some(rows) => meet(&mut self, rows),
            None => self.come_back(None),
        }
        self.b.switch_to_block(body);
        let (mut mask, mut lane) = (mask, self.b.ins().ctz(mask));
        if let Some(rows) = rows {
            (mask, lane) = self.choose_body(rows, mask, lane);
        }
        let body = OneLane::new(&mut self, mask, lane);
        let mut one = self.with_body(body);
        one.whole_body();
        let mut b = match rows {
            Some(rows) => {
                let body = FourLanes::new(&mut one, rows);
                one.with_body(body).whole_body()
            }
            None => one.b,
        };
        b.seal_all_blocks();
        b.finalize(isa.frontend_config());
    }

    /// Begins with the first four lanes if all lanes of the warp are in step, else lane by lane.
    fn begin_rows(&mut self, done: ir::Block) -> Rows {
        let (block, single) = (self.b.create_block(), self.b.create_block());
        for _ in 0..3 {
            self.b.append_block_param(block, types::I32);
        }
        for _ in 0..2 {
            self.b.append_block_param(single, types::I32);
        }
        let Outside { mask, step, after } = self.body;
        let first = self.b.ins().iconst(types::I32, 0);
        let apart = self.b.ins().icmp_imm_s(IntCC::Equal, step, i64::from(APART as i32));
        let [mask, first, place] = [mask, first, step].map(BlockArg::Value);
        self.b.ins().brif(apart, self.head, &[mask], block, &[mask, first, place]);
        Rows { block, single, step, after, done }
    }

    /// Goes to the second body with four consecutive lanes that are at the same place. Otherwise continues in the first body with
    /// the lanes that are still to run and the one that is running.
    fn choose_body(&mut self, rows: Rows, mask: Value, lane: Value) -> (Value, Value) {
        let Rows { block, single, .. } = rows;
        let together = self.load_context(types::I32, offset_of!(Context, together));
        let wanted = self.b.ins().band(mask, together);
        let wanted = self.b.ins().ushr(wanted, lane);
        let wanted = self.b.ins().bnot(wanted);
        let missing = self.b.ins().band_imm_u(wanted, (1 << LANES) - 1);
        let odd = self.b.ins().band_imm_u(lane, i64::from(LANES) - 1);
        let not = self.b.ins().bor(missing, odd);
        let test = self.b.create_block();
        let one = [mask, lane].map(BlockArg::Value);
        self.b.ins().brif(not, single, &one, test, &[]);
        self.b.switch_to_block(test);
        let four = self.b.ins().ishl_imm_u(lane, 2);
        let four = self.b.ins().uextend(types::I64, four);
        let four = self.b.ins().iadd(self.warp, four);
        let all = self.b.ins().load(types::I32X4, loose(), four, offset_of!(Warp, resume) as i32);
        let first = self.b.ins().extractlane(all, 0);
        let same = self.b.ins().splat(types::I32X4, first);
        let same = self.b.ins().icmp(IntCC::Equal, all, same);
        let same = self.b.ins().vall_true(same);
        let four = [mask, lane, first].map(BlockArg::Value);
        self.b.ins().brif(same, block, &four, single, &one);
        self.b.switch_to_block(single);
        let params = self.b.block_params(single);
        (params[0], params[1])
    }
}
