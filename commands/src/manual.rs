//! The parts of docs/*.md that are generated from the program: between `<!-- generated: NAME -->` and `<!-- /generated
//! -->`. NAME is `commands`, `options COMMAND`, `launch variables`, `exit codes`, `events` or `findings`.

use clap::{Arg, Command, CommandFactory};
use protocol::finding;
use runner::case::variables;
use runner::record;
use runner::verdict::exit_code;

use crate::cli::Cli;
use crate::fgpu::FgpuArgs;

const OPEN: &str = "<!-- generated: ";
const END: &str = " -->";
const CLOSE: &str = "<!-- /generated -->";

/// `markdown` with its generated parts regenerated.
///
/// # Errors
/// A message if a part has no end or an unknown name.
pub fn fill(markdown: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = markdown;
    while let Some(start) = rest.find(OPEN) {
        let from = &rest[start..];
        let header = from.find(END).ok_or_else(|| format!("`{OPEN}` without `{END}`"))? + END.len();
        let name = &from[OPEN.len()..header - END.len()];
        let end = from.find(CLOSE).ok_or_else(|| format!("`{name}` without `{CLOSE}`"))?;
        out.push_str(&rest[..start + header]);
        out.push('\n');
        out.push_str(&part(name).ok_or_else(|| format!("nothing is generated under the name `{name}`"))?);
        out.push_str(CLOSE);
        rest = &from[end + CLOSE.len()..];
    }
    out.push_str(rest);
    Ok(out)
}

fn part(name: &str) -> Option<String> {
    if let Some(words) = name.strip_prefix("options ") {
        return Some(options(&command(words)?));
    }
    match name {
        "commands" => Some(commands()),
        "launch variables" => Some(variables::table()),
        "exit codes" => Some(exit_codes()),
        "events" => Some(record::schema::table()),
        "findings" => Some(findings()),
        _ => None,
    }
}

/// Every kind of finding.
fn findings() -> String {
    let section = |row: &finding::Row| {
        format!(
            "### {}\n\n{}\n\n- For example: {} (`{}` in ftest's suites)\n- On a cluster: {}\n- To fix it: {}\n\n",
            row.word,
            row.meaning.trim(),
            row.example,
            row.case,
            row.hardware,
            row.fix
        )
    };
    finding::KINDS.iter().map(section).collect()
}

/// The commands that have their own options, as `options NAME` takes them.
pub fn commands_with_options() -> Vec<String> {
    let cli = Cli::command();
    let named = cli.get_subcommands().filter(|command| !command.is_hide_set());
    let mut names: Vec<String> =
        named.filter(|command| shown(command).next().is_some()).map(|command| command.get_name().to_owned()).collect();
    names.push("fgpu".to_owned());
    names
}

fn command(name: &str) -> Option<Command> {
    match name {
        "ftest" => Some(Cli::command()),
        "fgpu" => Some(FgpuArgs::command()),
        name => Cli::command().find_subcommand(name).cloned(),
    }
}

fn shown(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|argument| !argument.is_hide_set())
}

fn commands() -> String {
    let cli = Cli::command();
    let rows = cli.get_subcommands().filter(|command| !command.is_hide_set()).map(|command| {
        let words: Vec<String> = command.get_positionals().map(operand).collect();
        let inner: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        let call = [command.get_name().to_owned(), inner.join("|"), words.join(" ")]
            .into_iter()
            .filter(|word| !word.is_empty())
            .collect::<Vec<_>>()
            .join(" ");
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        row(&[format!("`ftest {call}`"), about])
    });
    format!("| command | |\n|---|---|\n{}", rows.collect::<String>())
}

fn operand(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default();
    let name = names.first().map_or_else(|| argument.get_id().as_str().to_uppercase(), ToString::to_string);
    let many = argument.get_num_args().is_some_and(|range| range.max_values() > 1)
        || matches!(argument.get_action(), clap::ArgAction::Append);
    let name = if many { format!("{name}...") } else { name };
    if argument.is_required_set() { name } else { format!("[{name}]") }
}

fn options(command: &Command) -> String {
    let rows = shown(command).map(|argument| {
        let call = if argument.is_positional() { format!("`{}`", operand(argument)) } else { flags(argument) };
        let mut about = argument.get_help().map(ToString::to_string).unwrap_or_default();
        let values: Vec<String> = argument
            .get_possible_values()
            .iter()
            .filter(|value| !value.is_hide_set() && argument.get_action().takes_values())
            .map(|value| format!("`{}`", value.get_name()))
            .collect();
        if !values.is_empty() {
            about.push_str(&format!(": {}", values.join(", ")));
        }
        let defaults: Vec<String> =
            argument.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy())).collect();
        if !defaults.is_empty() && argument.get_action().takes_values() {
            about.push_str(&format!(" (default {})", defaults.join(" ")));
        }
        row(&[call, about])
    });
    format!("| | |\n|---|---|\n{}", rows.collect::<String>())
}

fn flags(argument: &Arg) -> String {
    let value = argument
        .get_value_names()
        .filter(|_| argument.get_action().takes_values())
        .and_then(|names| names.first())
        .map(|name| if argument.is_require_equals_set() { format!("[={name}]") } else { format!(" {name}") })
        .unwrap_or_default();
    let short = argument.get_short().map(|short| format!("`-{short}`"));
    let long = argument.get_long().map(|long| format!("`--{long}{value}`"));
    short.into_iter().chain(long).collect::<Vec<_>>().join(", ")
}

fn exit_codes() -> String {
    let rows =
        exit_code::MEANINGS.iter().map(|(code, meaning)| row(&[(*code as u8).to_string(), (*meaning).to_owned()]));
    format!("| | `ftest run`, `check`, `explain`, `fmt` |\n|---|---|\n{}", rows.collect::<String>())
}

fn row(cells: &[String]) -> String {
    format!("| {} |\n", cells.iter().map(|cell| cell.replace('|', "\\|")).collect::<Vec<_>>().join(" | "))
}
