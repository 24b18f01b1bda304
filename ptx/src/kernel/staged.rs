//! A kernel's program on its way from stage to stage, as text: `fakegpu-ptxas --emit` and the goldens of the passes print it, and one
//! that was printed can be read and go on.

use std::fmt::Write;

use crate::analysis::Flow;
use crate::analysis::synchronization::points;
use crate::host::mistake::Checks;
use crate::ir::Program;
use crate::ir::print::ranges;
use crate::ir::read::read;
use crate::kernel::{self, KernelError};
use crate::pass::{self, Stage};
use crate::text::error::{ParseError, Place};

/// A kernel's program at a stage.
#[derive(Debug)]
pub struct StagedProgram {
    name: String,
    stage: Stage,
    /// The line that names kernel and stage, if it was read.
    place: Place,
    program: Program,
    owners: Vec<u32>,
}

impl StagedProgram {
    pub(super) fn decoded(name: &str, (program, owners): (Program, Vec<u32>)) -> Self {
        Self { name: name.to_owned(), stage: Stage::Decoded, place: Place::default(), program, owners }
    }

    /// The programs of a text as `fakegpu-ptxas --emit` prints them, each below a line `// KERNEL: STAGE`. `None` if the text does not
    /// begin with such a line: it is PTX then.
    ///
    /// # Errors
    /// If a stage is none of a program, or what is below it is not a program.
    pub fn read_all(text: &str) -> Option<Result<Vec<Self>, ParseError>> {
        let lines: Vec<&str> = text.lines().collect();
        let titles: Vec<usize> = (0..lines.len()).filter(|number| title(lines[*number]).is_some()).collect();
        let begins_with_title = titles.first() == Some(&0);
        let ends = titles.iter().skip(1).copied().chain([lines.len()]);
        begins_with_title.then(|| titles.iter().zip(ends).map(|(from, to)| Self::read(&lines[..to], *from)).collect())
    }

    /// The program whose title is the line `from`, and which ends with the lines.
    fn read(lines: &[&str], from: usize) -> Result<Self, ParseError> {
        let above = from as u32 + 1;
        let place = Place { line: above, column: 1 };
        let (name, stage) = title(lines[from]).unwrap_or(("", Stage::Parsed));
        if !stage.is_program() {
            let message = format!("`{}` is no stage of a program; {}", stage.name(), programs());
            return Err(ParseError { place, message });
        }
        let (program, owners) = read(&lines[from + 1..].join("\n"), above)?;
        Ok(Self { name: name.to_owned(), stage, place, program, owners })
    }

    /// The kernel's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The program at this stage or a later one, as text.
    ///
    /// # Errors
    /// If the stage is before that of the program, or the code generator fails.
    pub fn emit(mut self, stage: Stage) -> Result<String, KernelError> {
        if stage < self.stage {
            let message = format!("{} is at the stage `{}`, behind `{}`", self.name, self.stage.name(), stage.name());
            return Err(ParseError { place: self.place, message }.into());
        }
        pass::transform(&mut self.program, self.stage, stage);
        if stage.is_program() {
            return Ok(self.program.to_string());
        }
        let Self { name, program, owners, .. } = self;
        let (shapes, flow) = pass::analyze(&program, &owners, true);
        Ok(match stage {
            Stage::Shapes => shapes.map_or("none: lanes run one by one\n".to_owned(), |shapes| shapes.to_string()),
            Stage::Liveness => liveness(&program, &flow),
            _ => {
                let syncs = points(&program, &flow);
                let code = kernel::generate(&program, &flow, &syncs, shapes.as_ref(), Checks::default(), true);
                let code = code.map_err(|message| KernelError::Code { kernel: name, message })?;
                if stage == Stage::Cranelift { code.function } else { code.assembly }
            }
        })
    }
}

/// The kernel and the stage that a line names.
fn title(line: &str) -> Option<(&str, Stage)> {
    let (name, stage) = line.strip_prefix("// ")?.split_once(": ")?;
    Some((name, Stage::named(stage)?))
}

fn programs() -> String {
    let names: Vec<&str> = Stage::ALL.into_iter().filter(|stage| stage.is_program()).map(Stage::name).collect();
    format!("those are {}", names.join(", "))
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
