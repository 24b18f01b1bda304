//! The options of a preflight on the command line of `ftest exec`.

use std::path::PathBuf;

use clap::Args;
use protocol::assume;

/// The options of a preflight.
#[derive(Args, Clone, Debug)]
pub struct PreflightArgs {
    /// Only plan: run the command without computing anything, and report on which GPUs its memory fits
    #[arg(long, conflicts_with_all = ["report", "allow"], help_heading = "Preflight")]
    pub preflight: bool,
    /// The GPUs that it must fit on: the command runs on each, `h100,l40s` [default: the devices as they are]
    #[arg(long, value_name = "ID,...", value_delimiter = ',', requires = "preflight", help_heading = "Preflight")]
    pub profiles: Vec<String>,
    /// Run with this value of an environment variable, which also replaces `{NAME}` in CMD; given several times, report how memory grows
    #[arg(long, value_name = "NAME=NUMBER", requires = "preflight", help_heading = "Preflight")]
    pub probe: Vec<String>,
    /// What to take for granted of numbers that are not computed: `balanced` choices, such as the experts of a token, which are all chosen
    /// equally often; `zeros` where the program compares floating-point numbers, such as the norm of the gradients
    #[arg(
        long,
        value_name = "WHAT,...",
        value_delimiter = ',',
        value_parser = clap::builder::PossibleValuesParser::new(assume::WORDS),
        requires = "preflight",
        help_heading = "Preflight"
    )]
    pub assume: Vec<String>,
    /// Also run on smaller GPUs, until the smallest on which it fits is found
    #[arg(long, requires = "preflight", help_heading = "Preflight")]
    pub smallest: bool,
    /// Run these ranks of a job (--of), one after the other, each with what rank 0 and the ranks before it send: numbers, `first`,
    /// `middle`, `last`, separated by commas; or `each-stage`, the first rank of each of --stages
    #[arg(
        long,
        value_name = "RANK,...",
        value_delimiter = ',',
        requires_all = ["preflight", "size"],
        group = "ranks_alone",
        help_heading = "Preflight"
    )]
    pub ranks: Vec<String>,
    /// The number of pipeline stages of that job, each of which has consecutive ranks
    #[arg(long, value_name = "P", requires_all = ["preflight", "size"], help_heading = "Preflight")]
    pub stages: Option<u32>,
    /// Stop each of the ranks when it has made this many steps with each of its optimizers, at least 2, and begins the next backward pass
    #[arg(long, value_name = "N", value_parser = steps, requires_all = ["preflight", "size"], help_heading = "Preflight")]
    pub steps: Option<u32>,
    /// Write the preflight's report to this file as JSON, and next to it as Markdown (.md)
    #[arg(long, value_name = "FILE", requires = "preflight", help_heading = "Preflight")]
    pub preflight_report: Option<PathBuf>,
}

fn steps(word: &str) -> Result<u32, String> {
    match word.parse() {
        Ok(steps) if steps >= 2 => Ok(steps),
        _ => Err("write 2 or more: the first step makes the optimizer's state, and the second has it beside all else"
            .to_owned()),
    }
}
