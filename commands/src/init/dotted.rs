//! Options that name a field of a program's configuration: `--training.steps 2` (tyro, jsonargparse and their like).

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use super::imports;
use super::options::Options;

/// Libraries that make such options of dataclasses.
const PARSERS: &[&str] = &["tyro", "jsonargparse", "simple_parsing", "pyrallis", "draccus"];

/// The options of this kind that `text` shows, without the dashes: `training.steps`.
pub(super) fn shown(text: &str) -> impl Iterator<Item = String> {
    static SHOWN: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"--((?:[a-z_]\w*\.)+[a-z_]\w*)").expect("a constant"));
    SHOWN.captures_iter(text).map(|found| found[1].to_owned())
}

/// Sets in `arguments` what shortens a run on `world` ranks: of the options that the repository shows those that the sources still
/// have. Nothing if no library in them makes such options.
pub(super) fn shorten(
    arguments: &mut Vec<String>,
    shown: &BTreeSet<String>,
    sources: &[String],
    options: &Options,
    world: u32,
) {
    if !PARSERS.iter().any(|parser| sources.iter().any(|text| imports::mentions(text, parser))) {
        return;
    }
    let is_there =
        |group: &str, field: &str| class_of(group, sources).is_some_and(|class| has_number(&class, field, sources));
    // In another group, a field of that name may mean anything.
    let names = shown.iter().filter_map(|name| parts(name));
    let names = names.filter(|(group, field, _)| group.starts_with("train") && is_there(group, field));
    // Texts also show a field by a longer name, which is that of another program.
    let mut names: Vec<(&str, &str, &String)> = names.collect();
    names.sort_by_key(|(group, field, name)| (*group, *field, name.len()));
    names.dedup_by_key(|(group, field, _)| (*group, *field));
    let steps_are_enough = names.iter().any(|(_, field, _)| field.ends_with("steps"));
    for (_, field, name) in names {
        // Some programs refuse both.
        if steps_are_enough && field.ends_with("epochs") {
            continue;
        }
        if let Some(value) = options.short(field, world).or_else(|| tokens(field)) {
            options.set(arguments, &format!("--{name}"), &value);
        }
    }
}

/// Tokens of a sequence, and of what a rank takes at once.
fn tokens(field: &str) -> Option<String> {
    const SEQUENCE: u32 = 256;
    let value = match field {
        "seq_len" | "seq_length" | "sequence_length" | "max_seq_len" | "max_seq_length" | "context_length"
        | "max_context_length" => SEQUENCE,
        _ if ["num_tokens_per_microbatch", "num_tokens_per_batch", "tokens_per_microbatch", "tokens_per_batch"]
            .iter()
            .any(|start| field.starts_with(start)) =>
        {
            2 * SEQUENCE
        }
        _ => return None,
    };
    Some(value.to_string())
}

/// The last two parts of a name, and the name.
fn parts(name: &String) -> Option<(&str, &str, &String)> {
    let (groups, field) = name.rsplit_once('.')?;
    Some((groups.rsplit('.').next().unwrap_or(groups), field, name))
}

/// The class of a field that is a group of others: `training: TrainingConfig = ...`.
fn class_of(group: &str, sources: &[String]) -> Option<String> {
    let field = Regex::new(&format!(r"(?m)^\s+{group}\s*:\s*(?:\w+\[)?(?:\w+\.)*(\w+)")).ok()?;
    sources.iter().find_map(|text| Some(field.captures(text)?[1].to_owned()))
}

/// Whether a class has such a field of numbers.
fn has_number(class: &str, field: &str, sources: &[String]) -> bool {
    let (Ok(class), Ok(field)) = (
        Regex::new(&format!(r"(?m)^( *)class {class}\b")),
        Regex::new(&format!(r"^\s+{field}\s*:\s*(?:int|Optional\[int\])\b")),
    ) else {
        return false;
    };
    let in_class = |text: &str| {
        class.captures_iter(text).any(|found| {
            let (indent, start) = (found[1].len(), found.get(0).map_or(0, |whole| whole.end()));
            let is_inside = |line: &&str| line.trim().is_empty() || line.len() - line.trim_start().len() > indent;
            text[start..].lines().skip(1).take_while(is_inside).any(|line| field.is_match(line))
        })
    };
    sources.iter().any(|text| in_class(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_the_repository_shows_and_still_has_are_set() {
        let program = "import tyro\nclass Trainer:\n    class Config:\n        training: TrainingConfig = field()\n\
            \x20       check: Annotated[CheckConfig, x]\n        train: check.CheckConfig\n"
            .to_owned();
        let fields = "@dataclass\nclass TrainingConfig:\n    \"\"\"x\n\n    y\"\"\"\n\n    steps: int = 10000\n    seq_len: int = 2048\n    tokens_per_batch_of_a_rank: int = 9\n    name: str = ''\n\
            class CheckConfig:\n    steps: int = 1\n    epochs: int = 1\nclass Other:\n    batch_size: int = 1\n"
            .to_owned();
        let scripts = "run --training.steps 10 --training.batch_size=8 --training.name x --check.steps 3 --train.epochs 9 --model.dim 9\n\
            --trainer.training.steps --training.seq_len 4096 --training.tokens_per_batch_of_a_rank 1";
        let shown: BTreeSet<String> = shown(scripts).collect();
        assert_eq!(shown.len(), 9);
        let sources = [program, fields];
        // A text shows steps that this one no longer has.
        let epochs =
            ["import tyro\n    train: Args\n    training: Args\nclass Args:\n    epochs: int = 9\n".to_owned()];
        for (sources, arguments, expected) in [
            (
                &sources[..],
                "--module x",
                "--module x --training.seq_len 256 --training.steps 2 --training.tokens_per_batch_of_a_rank 512",
            ),
            (
                &sources,
                "--training.steps=5 --seed 1 --training.seq_len 9 --training.tokens_per_batch_of_a_rank=9",
                "--training.steps=2 --seed 1 --training.seq_len 256 --training.tokens_per_batch_of_a_rank=512",
            ),
            (&sources[1..], "--module x", "--module x"),
            (&epochs, "", "--train.epochs 1"),
        ] {
            let mut arguments: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
            shorten(&mut arguments, &shown, sources, &Options::default(), 2);
            assert_eq!(arguments.join(" "), expected);
        }
    }
}
