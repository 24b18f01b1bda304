//! The order of sums of products: compilers write one sum after the other, each waiting for its last product. Here neighboring
//! sums are interleaved, so that the processor has several in flight and finds shared values still in registers.

use std::collections::HashMap;

use crate::ir::*;

/// How many sums take turns. Their results and factors fit into 16 vector registers.
const WIDTH: usize = 4;

/// Interleaves each block's consecutive fused multiply-adds. No result changes: each sum keeps its order, and sums only take
/// turns if none reads or writes what another one writes.
pub(crate) fn interleave(program: &mut Program) {
    for block in &mut program.blocks {
        let all = std::mem::take(&mut block.insts);
        block.insts.reserve(all.len());
        let mut sums = Sums::default();
        for inst in all {
            if !is_product(&inst) {
                sums.flush(&mut block.insts);
                block.insts.push(inst);
            } else if let Err(inst) = sums.take(inst) {
                sums.flush(&mut block.insts);
                // The first product of a new group does not conflict with anything.
                let _ = sums.take(inst).map_err(|inst| block.insts.push(inst));
            }
        }
        sums.flush(&mut block.insts);
    }
}

fn is_product(inst: &Inst) -> bool {
    matches!(inst.op, Op::Float { op: FloatOp::Fma, .. }) && matches!(inst.dst[..], [dst] if dst != SINK)
}

/// Chains of products, each added to the previous result.
#[derive(Default)]
struct Sums {
    chains: Vec<Vec<Inst>>,
    /// The chain that writes a register.
    writers: HashMap<Reg, usize>,
    /// The chain that reads a register, `None` for several.
    readers: HashMap<Reg, Option<usize>>,
}

impl Sums {
    /// Returns the product if it is not independent of the other chains.
    fn take(&mut self, inst: Inst) -> Result<(), Inst> {
        let reads: Vec<Reg> = inst
            .src
            .iter()
            .filter_map(|value| match value {
                Val::Reg(reg) => Some(*reg),
                _ => None,
            })
            .collect();
        let dst = inst.dst[0];
        let added = match inst.src[2] {
            Val::Reg(reg) => self.writers.get(&reg).copied(),
            _ => None,
        };
        let chain = added.unwrap_or(self.chains.len());
        let is_own = |writer: Option<&usize>| writer.is_none_or(|writer| *writer == chain);
        let is_read_elsewhere = self.readers.get(&dst).is_some_and(|reader| *reader != Some(chain));
        if !reads.iter().all(|reg| is_own(self.writers.get(reg)))
            || !is_own(self.writers.get(&dst))
            || is_read_elsewhere
        {
            return Err(inst);
        }
        for reg in reads {
            self.readers
                .entry(reg)
                .and_modify(|reader| *reader = reader.filter(|reader| *reader == chain))
                .or_insert(Some(chain));
        }
        self.writers.insert(dst, chain);
        match self.chains.get_mut(chain) {
            Some(chain) => chain.push(inst),
            None => self.chains.push(vec![inst]),
        }
        Ok(())
    }

    fn flush(&mut self, out: &mut Vec<Inst>) {
        let mut chains = std::mem::take(&mut self.chains).into_iter().map(Vec::into_iter);
        loop {
            let mut turn: Vec<_> = chains.by_ref().take(WIDTH).collect();
            if turn.is_empty() {
                break;
            }
            while turn.iter().any(|chain| chain.len() > 0) {
                out.extend(turn.iter_mut().filter_map(Iterator::next));
            }
        }
        self.writers.clear();
        self.readers.clear();
    }
}
