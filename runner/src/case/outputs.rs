//! What fixtures gave, and where a case names it.

use std::collections::BTreeMap;

use crate::case::srun::Program;
use crate::case::{Case, Launch};
use crate::check::output::OutputWant;
use crate::expression::deferred;
use crate::expression::deferred::Deferred;

/// What fixtures gave, by name and variable.
pub type Outputs = BTreeMap<String, BTreeMap<String, String>>;

/// Puts the late values of `outputs`, and `scratch` where there is one, into `text`.
pub fn fill(text: &mut String, outputs: &Outputs, scratch: Option<&str>) {
    deferred::fill(text, &|late| match late {
        Deferred::Output { fixture, output } => outputs.get(fixture)?.get(output).cloned(),
        Deferred::Scratch => scratch.map(str::to_owned),
    });
}

/// Puts what fixtures gave into the places of `case` that may name it.
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
