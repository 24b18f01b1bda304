//! `ftest run --list`: the selected cases, for people and for programs.

use std::io::Write;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use runner::case::Case;
use runner::filter::shard::{Shard, Shards};
use runner::host::output;
use runner::record::event::CaseInfo;
use runner::verdict::exit_code::ExitCode;
use serde_json::json;

/// Version of the JSON list.
const VERSION: u32 = 1;

/// Whether and how cases are listed.
#[derive(Args, Clone, Debug)]
pub struct ListArgs {
    /// Only print the selected cases
    #[arg(long, help_heading = "Selecting")]
    pub list: bool,
    /// How --list prints them
    #[arg(long, value_enum, value_name = "FORMAT", requires = "list", help_heading = "Selecting")]
    pub format: Option<Format>,
    /// How many parts github-matrix splits the cases into: 5 or hash:5
    #[arg(
        long,
        value_name = "N",
        requires = "format",
        conflicts_with = "shard",
        required_if_eq("format", "github-matrix"),
        help_heading = "Selecting"
    )]
    pub shards: Option<Shards>,
}

/// What a list looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One id per line
    Text,
    /// One document with what a report knows of each case before it ran
    Json,
    /// A matrix for GitHub Actions with one entry per --shard that has cases: `{"include": [{"shard": "1/5", "part": 1, "cases": 12}]}`
    GithubMatrix,
}

/// Prints `cases`.
pub(super) fn list(arguments: &ListArgs, shard: Option<Shard>, cases: &[Arc<Case>]) -> ExitCode {
    let text = match arguments.format.unwrap_or(Format::Text) {
        Format::Text => cases.iter().map(|case| format!("{}\n", case.full_id())).collect(),
        Format::Json => {
            let cases: Vec<CaseInfo> = cases.iter().map(|case| CaseInfo::from(&**case)).collect();
            let shard = shard.map(|shard| shard.to_string());
            format!("{:#}\n", json!({ "version": VERSION, "shard": shard, "cases": cases }))
        }
        Format::GithubMatrix => {
            let ids: Vec<String> = cases.iter().map(|case| case.full_id()).collect();
            let parts = arguments.shards.into_iter().flat_map(Shards::parts);
            let counted = parts.map(|part| (part, part.select(&ids).into_iter().filter(|mine| *mine).count()));
            let include: Vec<_> = counted
                .filter(|(_, count)| *count > 0)
                .map(|(part, count)| json!({ "shard": part.to_string(), "part": part.part(), "cases": count }))
                .collect();
            format!("{}\n", json!({ "include": include }))
        }
    };
    // A closed pipe (`| head`) is the reader's choice.
    let _ = output::stdout().write_all(text.as_bytes());
    ExitCode::Passed
}
