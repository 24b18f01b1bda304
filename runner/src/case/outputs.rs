//! Outputs of fixtures, and the places where a case may refer to them.

use std::collections::BTreeMap;

use crate::case::srun::Program;
use crate::case::{Case, Launch};
use crate::check::output::OutputWant;
use crate::expression::deferred;
use crate::expression::deferred::Deferred;

/// Outputs of fixtures, by fixture name and variable.
pub type Outputs = BTreeMap<String, BTreeMap<String, String>>;

/// Fills in the placeholders of `text` that refer to `outputs`, and to `scratch` if there is one.
pub fn fill(text: &mut String, outputs: &Outputs, scratch: Option<&str>) {
    deferred::fill(text, &|late| match late {
        Deferred::Output { fixture, output } => outputs.get(fixture)?.get(output).cloned(),
        Deferred::Scratch => scratch.map(str::to_owned),
    });
}

/// Fills fixture outputs into the places of `case` that may refer to them.
pub fn fill_case(case: &mut Case, outputs: &Outputs) {
    let fill = |text: &mut String| fill(text, outputs, None);
    match &mut case.launch {
        Launch::Argv { argv, .. } => argv.iter_mut().for_each(fill),
        Launch::Torchrun { args, .. } => args.iter_mut().for_each(fill),
        Launch::Srun(srun) => {
            srun.options.iter_mut().for_each(fill);
            match &mut srun.program {
                Program::Rank { argv: words } | Program::Torchrun { args: words, .. } => {
                    words.iter_mut().for_each(fill);
                }
            }
        }
    }
    case.env.values_mut().for_each(fill);
    for check in &mut case.expect.output {
        match &mut check.want {
            OutputWant::Contains(text) | OutputWant::Absent(text) => fill(text),
            OutputWant::Matches(_) => {}
        }
    }
}
