//! A kernel at each stage of its way, as text: `fakegpu-ptxas --emit`, and the goldens of the passes.

use std::fmt::Write;

use crate::analysis::Flow;
use crate::analysis::synchronization::points;
use crate::decode;
use crate::host::mistake::Checks;
use crate::ir::Program;
use crate::ir::print::ranges;
use crate::kernel::{self, KernelError};
use crate::pass::{self, Stage};
use crate::text::image::Image;
use crate::text::print;

impl Image {
    /// A kernel at a stage, as text.
    ///
    /// # Errors
    /// As [`Image::kernel`].
    pub fn emit(&self, name: &str, stage: Stage) -> Result<String, KernelError> {
        let entry = self.entry_named(name).ok_or_else(|| KernelError::Unknown(name.to_string()))?;
        if stage == Stage::Parsed {
            let item = &self.functions[entry.function as usize];
            let module = &self.modules[item.module as usize];
            return Ok(print::function(&module.ast().functions[item.index as usize], module.source()));
        }
        let (mut program, owners) = decode::decode(self, entry.function).map_err(Box::new)?;
        pass::transform(&mut program, stage);
        if stage < Stage::Shapes {
            return Ok(program.to_string());
        }
        let (shapes, flow) = pass::analyze(&program, &owners, true);
        Ok(match stage {
            Stage::Shapes => shapes.map_or("none: lanes run one by one\n".to_owned(), |shapes| shapes.to_string()),
            Stage::Liveness => liveness(&program, &flow),
            _ => {
                let syncs = points(&program, &flow);
                let code = kernel::generate(&program, &flow, &syncs, shapes.as_ref(), Checks::default(), true);
                let code = code.map_err(|message| KernelError::Code { kernel: name.to_string(), message })?;
                if stage == Stage::Cranelift { code.function } else { code.assembly }
            }
        })
    }
}

fn liveness(program: &Program, flow: &Flow) -> String {
    let mut text = String::new();
    let homes = || (0..program.regs.len() as u32).filter(|reg| flow.homes[*reg as usize].is_some());
    let or_none = |list: String| if list.is_empty() { "none".to_owned() } else { list };
    let _ = writeln!(text, "homes of {} bytes: {}", flow.home_bytes, or_none(ranges(homes())));
    let _ = writeln!(text, "zero at the beginning: {}", or_none(ranges(flow.zeroed.iter())));
    for block in (0..program.blocks.len()).filter(|block| flow.reachable[*block]) {
        let saved = |list: &[u32]| ranges(list.iter().copied());
        for (what, registers) in [
            ("loads", ranges(flow.loads[block].iter())),
            ("stores", ranges(flow.stores[block].iter())),
            ("stores where lanes part", ranges(flow.parting[block].iter())),
            ("saves", saved(&flow.saves[block])),
            ("restores", saved(&flow.restores[block])),
        ] {
            if !registers.is_empty() {
                let _ = writeln!(text, "b{block} {what} {registers}");
            }
        }
    }
    text
}
