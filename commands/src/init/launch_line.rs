//! Command lines of torchrun and its relatives, and of programs that are started as they are, as READMEs, shell scripts and
//! docstrings show them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// The launchers; each may also be the end of a path.
const LAUNCHERS: &[&str] = &["torchrun", "torch.distributed.run", "torch.distributed.launch"];
/// What ends a command.
const ENDS: &[&str] = &["|", "||", "&&", "&", ";", ">", ">>", "2>&1", "#", "python", "python3", "torchrun", "```"];

/// A program and how it is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LaunchLine {
    /// By Python, not by a launcher.
    pub(super) is_plain: bool,
    /// How many processes the launcher starts on a node, if the line has a number.
    pub(super) processes: Option<u32>,
    /// A path, or with `-m` the name of a module.
    pub(super) program: String,
    pub(super) is_module: bool,
    /// Without those that are placeholders.
    pub(super) arguments: Vec<String>,
    /// How many words were placeholders: `$DATA`, `<path>`.
    pub(super) placeholders: usize,
}

/// The launch lines in `text`, in order.
pub(super) fn all(text: &str) -> Vec<LaunchLine> {
    let mut joined = String::new();
    for line in text.lines() {
        // People leave spaces after a backslash, which a shell would not forgive.
        match line.trim_end().strip_suffix('\\') {
            Some(part) => joined.extend([part, " "]),
            None => joined.extend([line, "\n"]),
        }
    }
    let mut values = BTreeMap::new();
    let mut found = Vec::new();
    for line in joined.lines() {
        if let Some((name, value)) = assigned(line) {
            values.insert(name, value);
        } else {
            found.extend(of_line(&with_values(line, &values)));
        }
    }
    found
}

/// The variable that a line of a shell script sets, and to what: `SIZE=${SIZE:-"small"}`.
fn assigned(line: &str) -> Option<(&str, String)> {
    static SET: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#"^\s*(?:export\s+)?([A-Za-z_]\w*)=(?:\$\{(\w+):?-([^}]*)\}|([^\s$]+))\s*(?:#.*)?$"#)
            .expect("a constant")
    });
    let found = SET.captures(line)?;
    let (name, value) = (found.get(1)?.as_str(), found.get(3).or(found.get(4))?.as_str().trim_matches(['"', '\'']));
    let is_own = found.get(2).is_none_or(|other| other.as_str() == name);
    (is_own && !value.is_empty() && !is_placeholder(value)).then(|| (name, value.to_owned()))
}

/// `line` with the values of variables that are known, and without what its caller adds.
fn with_values(line: &str, values: &BTreeMap<&str, String>) -> String {
    static USE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\$(?:\{(\w+)(?::-([^}$]+))?\}|([A-Za-z_]\w*))").expect("a constant"));
    let line = USE.replace_all(line, |used: &Captures<'_>| {
        let name = used.get(1).or(used.get(3)).map_or("", |name| name.as_str());
        let default = used.get(2).map(|default| default.as_str().to_owned());
        values.get(name).cloned().or(default).unwrap_or_else(|| used[0].to_owned())
    });
    line.replace(" \"$@\"", "").replace(" $@", "")
}

fn of_line(line: &str) -> Option<LaunchLine> {
    let is_launched = ["torchrun", "torch.distributed.", "accelerate"].iter().any(|word| line.contains(word));
    if !is_launched && !line.contains("python") && !line.contains("deepspeed") {
        return None;
    }
    let line = line.trim().trim_matches('`');
    let words = shlex::split(line).unwrap_or_else(|| line.split_whitespace().map(str::to_owned).collect());
    // Options and files of other commands have this name, too.
    let deepspeed = command(&words).filter(|first| words[*first] == "deepspeed");
    if !is_launched && deepspeed.is_none() {
        return of_python(&words);
    }
    let is_launcher = |index: usize| {
        let word = words[index].trim_start_matches('`');
        LAUNCHERS.iter().any(|launcher| word == *launcher || word.ends_with(&format!("/{launcher}")))
            || word == "launch" && index > 0 && words[index - 1].ends_with("accelerate")
            || deepspeed == Some(index)
    };
    let start = (0..words.len()).find(|index| is_launcher(*index))? + 1;
    let end = words[start..].iter().position(|word| ENDS.contains(&word.as_str())).map_or(words.len(), |at| start + at);
    // Pipes within `$(nvidia-smi -L | wc -l)` come before the program.
    let end = if words[start..end].iter().any(|word| word.contains("$(")) { words.len() } else { end };
    let words = &words[start..end];
    // Everything before the program is an option of the launcher.
    let module = words.iter().position(|word| word == "-m" || word == "--module");
    let script = words.iter().position(|word| is_script(word));
    let (program, is_module, rest) = match (module, script) {
        (Some(module), script) if script.is_none_or(|script| module < script) => {
            (words.get(module + 1)?, true, module + 2)
        }
        (_, Some(script)) => (&words[script], false, script + 1),
        _ => return None,
    };
    let line = launched(program, &words[rest..])?;
    Some(LaunchLine { is_module, processes: processes(&words[..rest]), ..line })
}

/// `python train.py ...`.
fn of_python(words: &[String]) -> Option<LaunchLine> {
    let is_python = |word: &String| ["python", "python3"].contains(&word.trim_start_matches('`'));
    let start = command(words).filter(|first| is_python(&words[*first]))? + 1;
    let script = start + words[start..].iter().position(|word| word != "-u")?;
    let line = launched(words.get(script).filter(|word| is_script(word))?, &words[script + 1..])?;
    Some(LaunchLine { is_plain: true, ..line })
}

/// The word that is the command, behind the prompt and the variables that the line sets.
fn command(words: &[String]) -> Option<usize> {
    words.iter().position(|word| word != "$" && (!word.contains('=') || word.starts_with('-')))
}

fn launched(program: &str, rest: &[String]) -> Option<LaunchLine> {
    let program = program.trim_matches('`').trim_end_matches([')', ',', '.']);
    if program.contains(['$', '<', '{', '*']) {
        return None;
    }
    let (arguments, placeholders) = arguments(rest);
    let program = program.to_owned();
    Some(LaunchLine { is_plain: false, processes: None, program, is_module: false, arguments, placeholders })
}

/// The number of processes among the options of a launcher.
fn processes(options: &[String]) -> Option<u32> {
    const NAMES: &[&str] =
        &["--nproc_per_node", "--nproc-per-node", "--num_processes", "--num-processes", "--num_gpus", "--num-gpus"];
    let number = options.iter().zip(options.iter().skip(1).map(Some).chain([None])).find_map(|(word, next)| {
        let (name, value) =
            word.split_once('=').map_or((word.as_str(), next.cloned()), |(name, value)| (name, Some(value.to_owned())));
        value.filter(|_| NAMES.contains(&name))
    });
    number?.parse().ok()
}

fn is_script(word: &str) -> bool {
    word.trim_matches('`').trim_end_matches([')', ',']).ends_with(".py") && !word.starts_with('-')
}

/// Arguments without the placeholders, and the options that these belong to.
fn arguments(words: &[String]) -> (Vec<String>, usize) {
    let mut kept: Vec<String> = Vec::new();
    let mut placeholders = 0;
    let mut words = words.iter().map(|word| word.trim_matches('`')).take_while(|word| !ENDS.contains(word));
    while let Some(word) = words.next() {
        let word = with_port(word);
        if !is_placeholder(&word) {
            kept.push(word);
            continue;
        }
        placeholders += 1;
        if kept.last().is_some_and(|before| before.starts_with("--") && !before.contains('=')) {
            kept.pop();
        }
        // `[a folder with images]`, of several words.
        if word.starts_with('[') && !word.contains(']') {
            let _ = words.find(|word| word.ends_with(']'));
        }
    }
    (kept, placeholders)
}

/// An address of this machine with a word for its port: one is as good as another.
fn with_port(word: &str) -> String {
    static PORT: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"((?:localhost|127\.0\.0\.1):)[A-Z_]+$").expect("a constant"));
    PORT.replace(word, "${1}29501").into_owned()
}

fn is_placeholder(word: &str) -> bool {
    // `{0000..2175}` are the parts of a data set.
    static RANGE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\{\d+\.\.\d+\}").expect("a constant"));
    let value = word.split_once('=').map_or(word, |(_, value)| value);
    let value = RANGE.replace_all(value, "0");
    value.contains(['$', '<', '>', '{', '}']) || value.contains("...") || value.starts_with('[') || value.contains('…')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_and_arguments_are_read_as_people_write_them() {
        let line = |text: &str| {
            let found: Vec<LaunchLine> = all(text).into_iter().filter(|line| !line.is_plain).collect();
            assert!(found.len() <= 1, "{text}: {found:?}");
            found
                .into_iter()
                .next()
                .map(|line| (line.program, line.is_module, line.arguments.join(" "), line.placeholders))
        };
        for (text, program, is_module, arguments, placeholders) in [
            ("$ torchrun --standalone --nproc_per_node=4 train.py", "train.py", false, "", 0),
            ("`torchrun --nproc_per_node 2 example.py --mixed-precision`", "example.py", false, "--mixed-precision", 0),
            ("torchrun --nnodes 1 \\\n  --nproc_per_node 8 \\  \n  a/b.py 50 10\n", "a/b.py", false, "50 10", 0),
            ("torchrun --nproc_per_node=8 train.py \\\npython train.py \\\n```", "train.py", false, "", 0),
            (
                "python -m torch.distributed.launch --nproc_per_node=8 --use_env main.py --data /path/to/x --name $NAME",
                "main.py",
                false,
                "--data /path/to/x",
                1,
            ),
            (
                "python3 -m torch.distributed.run --nproc_per_node 8 -m package.main --out=<dir> --lr 1e-3 | tee log",
                "package.main",
                true,
                "--lr 1e-3",
                1,
            ),
            (
                "torchrun --standalone --nproc_per_node=$(nvidia-smi -L | wc -l) train_gpt.py",
                "train_gpt.py",
                false,
                "",
                0,
            ),
            (
                "torchrun a.py --data '/data/part-{0000..2175}.tar' --out={name} --size {small,large}",
                "a.py",
                false,
                "--data /data/part-{0000..2175}.tar",
                2,
            ),
            (
                "SIZE=${SIZE:-\"small\"}\nDATA=$1\nexport OUT='out dir'\nSEED=1 # fixed\nOTHER=${SIZE:-x}\n\
                 torchrun --nproc_per_node=${N} a.py --size ${SIZE} --seed=$SEED --data $DATA --other $OTHER \"$@\"",
                "a.py",
                false,
                "--size small --seed=1",
                2,
            ),
            ("accelerate launch --multi_gpu train.py --steps 3 && echo done", "train.py", false, "--steps 3", 0),
            ("deepspeed train.py --deepspeed --steps 2", "train.py", false, "--deepspeed --steps 2", 0),
            ("OMP_NUM_THREADS=1 /opt/bin/torchrun x.py \"two words\"", "x.py", false, "two words", 0),
        ] {
            let expected = (program.to_owned(), is_module, arguments.to_owned(), placeholders);
            assert_eq!(line(text), Some(expected), "{text}");
        }
        for text in
            ["torchrun sets this variable", "we use torchrun (see train.py)".get(..15).unwrap(), "torchrun $SCRIPT"]
        {
            assert_eq!(line(text), None, "{text}");
        }
    }

    #[test]
    fn programs_that_start_their_ranks_have_lines_too() {
        let plain = |text: &str| {
            let line = all(text).into_iter().find(|line| line.is_plain)?;
            Some((line.program, line.arguments.join(" "), line.placeholders))
        };
        for (text, program, arguments, placeholders) in [
            (
                "python main.py -a resnet50 --dist-url 'tcp://127.0.0.1:FREEPORT' --world-size 1 --rank 0 [a folder with images] --x",
                "main.py",
                "-a resnet50 --dist-url tcp://127.0.0.1:29501 --world-size 1 --rank 0 --x",
                1,
            ),
            ("$ X=1 python3 -u a/b.py [DIR] --y", "a/b.py", "--y", 1),
            ("  `python multi.py 50 10`", "multi.py", "50 10", 0),
        ] {
            assert_eq!(plain(text), Some((program.to_owned(), arguments.to_owned(), placeholders)), "{text}");
        }
        for text in [
            "run it with python main.py",
            "python -m pack.main",
            "python $SCRIPT",
            "python -c 'a.py'",
            "pip install deepspeed a.py",
        ] {
            assert_eq!(plain(text), None, "{text}");
        }
    }

    #[test]
    fn the_number_of_processes_is_that_of_the_launcher() {
        for (text, number) in [
            ("torchrun --nproc_per_node=${2:-4} ${1:-a.py} --num_processes 3", Some(4)),
            ("torchrun --nproc-per-node 8 a.py", Some(8)),
            ("N=2\ntorchrun --nproc_per_node $N a.py", Some(2)),
            ("accelerate launch --num_processes 2 a.py", Some(2)),
            ("X=1 deepspeed --num_gpus 4 a.py --deepspeed_config ds.json", Some(4)),
            ("torchrun --nproc_per_node=gpu a.py", None),
            ("torchrun a.py --nproc_per_node=2", None),
        ] {
            let found: Vec<_> = all(text).into_iter().map(|line| (line.program, line.processes)).collect();
            assert_eq!(found, [("a.py".to_owned(), number)], "{text}");
        }
    }
}
