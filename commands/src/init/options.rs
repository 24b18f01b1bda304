//! The options of a program, read from its source, and values of them that make a run short.

use std::sync::LazyLock;

use regex::Regex;

/// How a program takes its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// `add_argument("--epochs", type=int)`.
    Argparse,
    /// `epochs = 10` at the top, and `--epochs=1`: a `configurator.py` that executes arguments as assignments.
    Assignments,
}

/// What the source says about options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    /// As they are written on a command line, with the dashes; of several spellings the longest.
    pub(super) named: Vec<Named>,
    /// Options that have to be given.
    pub(super) required: Vec<String>,
    /// Options and arguments that take any number of values.
    pub(super) many: Vec<String>,
    /// Required arguments without dashes, in order; whether each is a number.
    pub(super) positional: Vec<(String, bool)>,
    /// Arguments without dashes that may be left out.
    pub(super) optional: Vec<String>,
    /// Whether they are assignments.
    assignments: bool,
}

/// One option.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) default: Option<String>,
    is_flag: bool,
    /// The values that it can have, if those are listed.
    choices: Vec<String>,
}

static NAMES: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"^\s*["'][\w-]+["'](?:\s*,\s*["'][\w-]+["'])*"#).expect("a constant"));
static NAME: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#"["']([\w-]+)["']"#).expect("a constant"));
static DEFAULT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"default\s*=\s*(?:["']([^"']*)["']|([\w.]+))"#).expect("a constant"));
static MANY: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"nargs\s*=\s*(?:["'][+*]["']|(?:argparse\.)?REMAINDER)"#).expect("a constant"));
static OPTIONAL: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#"nargs\s*=\s*["']\?["']"#).expect("a constant"));
static CHOICES: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"choices\s*=\s*[\[(]([^\])]*)[\])]").expect("a constant"));
static ASSIGNMENT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?m)^(\w+) = (True|False|-?[\d.]+(?:e-?\d+)?|["'][^"']*["'])"#).expect("a constant")
});

/// The options in these sources: the program first, then what it imports of the repository.
pub(super) fn find(sources: &[String]) -> Options {
    let mut options = Options::default();
    if sources.first().is_some_and(|program| program.contains("configurator.py")) {
        options.assignments = true;
        for found in ASSIGNMENT.captures_iter(&sources[0]) {
            options.named.push(Named {
                name: found[1].to_owned(),
                default: Some(found[2].to_owned()),
                ..Named::default()
            });
        }
        return options;
    }
    // A module that the program imports may have options of its own, as a program.
    let own = sources.iter().take(1).filter(|program| program.contains("add_argument("));
    let own = own.chain(sources.iter().skip(1).filter(|_| !sources[0].contains("add_argument(")));
    for source in own {
        for piece in source.split("add_argument(").skip(1) {
            let call = up_to_close(piece);
            let Some(names) = NAMES.find(call) else { continue };
            let (names, rest) = call.split_at(names.end());
            let longest = NAME.captures_iter(names).map(|name| name[1].to_owned()).max_by_key(String::len);
            let Some(name) = longest else { continue };
            if MANY.is_match(rest) {
                options.many.push(name.clone());
            }
            if name.starts_with('-') {
                let is_flag = rest.contains("store_true") || rest.contains("store_false");
                let default = DEFAULT.captures(rest).and_then(|found| found.get(1).or(found.get(2)));
                let default = default.map(|default| default.as_str().to_owned());
                // The launchers of PyTorch 1 gave it.
                if rest.contains("required=True") && !is_same(&name, "--local_rank") {
                    options.required.push(name.clone());
                }
                let choices = CHOICES.captures(rest).map_or(Vec::new(), |found| {
                    let plain = |word: &str| word.trim().trim_matches(['"', '\'']).to_owned();
                    found[1].split(',').map(plain).collect()
                });
                options.named.push(Named { name, default, is_flag, choices });
            } else if !rest.contains("nargs") {
                options.positional.push((name, rest.contains("int")));
            } else if OPTIONAL.is_match(rest) {
                options.optional.push(name);
            }
        }
    }
    options
}

/// Pixels of the side of an image that is small and has several patches.
const SMALL_IMAGE: u32 = 64;
/// What programs call data that they make themselves: a value of an option, or an option.
const SYNTHETIC: &[&str] = &["synthetic", "dummy", "fake"];
const SYNTHETIC_FLAGS: &[&str] = &[
    "--synthetic",
    "--synthetic-data",
    "--use-synthetic-data",
    "--dummy",
    "--dummy-data",
    "--fake-data",
    "--use-fake-data",
];

/// Data that a program makes as many of as the real data set has: more than a short run is made of.
static ENDLESS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\bFakeData\(\s*\d{5,}").expect("a constant"));

/// `text` up to the parenthesis that closes the one before it.
fn up_to_close(text: &str) -> &str {
    let mut depth = 1;
    let end = text.find(|letter| {
        depth += match letter {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        depth == 0
    });
    &text[..end.unwrap_or(text.len())]
}

/// Option names, dashes and underscores alike, with the value that makes a run short on `world` ranks; in argparse programs
/// only those marked, because the others may mean anything there.
fn short(name: &str, world: u32) -> Option<(Style, String)> {
    use Style::{Argparse, Assignments};
    let name = name.trim_start_matches('-').replace('-', "_").to_ascii_lowercase();
    let (style, value) = match name.as_str() {
        "epochs" | "num_epochs" | "max_epoch" | "n_epochs" | "max_epochs" | "num_train_epochs" | "train_epochs"
        | "total_epochs" => (Argparse, 1),
        "max_iters" | "max_iter" | "max_steps" | "num_steps" | "max_train_steps" | "train_steps" | "total_steps"
        | "training_steps" | "num_iterations" | "n_iters" | "iterations" | "iters" | "steps" | "num_train_steps" => {
            (Argparse, 2)
        }
        "batch_size"
        | "train_batch_size"
        | "per_device_train_batch_size"
        | "batch_size_per_gpu"
        | "micro_batch_size"
        | "local_batch_size"
        | "device_batch_size" => (Argparse, 2),
        "global_batch_size" => (Argparse, 2 * world),
        "train_num_samples" | "num_train_samples" | "max_train_samples" | "num_samples" => (Argparse, 4 * world),
        "num_workers" | "workers" | "n_workers" => (Argparse, 1),
        "warmup_epochs" | "cooldown_epochs" | "warmup_iters" | "warmup_steps" => (Argparse, 0),
        "gradient_accumulation_steps" => (Assignments, world),
        "n_layer" | "n_layers" | "n_head" | "n_heads" | "n_kv_heads" => (Assignments, 2),
        "n_embd" | "dim" | "block_size" | "max_seq_len" => (Assignments, 64),
        "eval_iters" | "eval_interval" | "log_interval" => (Assignments, 1),
        "compile" => return Some((Assignments, "False".to_owned())),
        _ => return None,
    };
    Some((style, value.to_string()))
}

impl Named {
    /// Whether it is the size of images that the model is made for: `create_model(name, img_size=args.input_size)`.
    fn is_model_size(&self, texts: &[String]) -> bool {
        static MAKES: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\w*model\w*\(").expect("a constant"));
        let plain = self.name.trim_start_matches('-').replace('-', "_");
        let is_large = self
            .default
            .as_ref()
            .is_none_or(|size| size == "None" || size.parse::<u32>().is_ok_and(|size| size > SMALL_IMAGE));
        let passed = |call: &str| {
            ["img_size=args.", "image_size=args."].iter().any(|keyword| call.contains(&format!("{keyword}{plain}")))
        };
        let makes = |text: &String| MAKES.find_iter(text).any(|found| passed(up_to_close(&text[found.end()..])));
        plain.ends_with("_size") && self.choices.is_empty() && is_large && texts.iter().any(makes)
    }
}

impl Options {
    /// Whether the last of `arguments` is an option without its value: the line was cut there.
    pub(super) fn is_cut(&self, arguments: &[String]) -> bool {
        let Some(last) = arguments.last() else { return false };
        self.named.iter().any(|option| !option.is_flag && is_same(last, &option.name))
    }

    /// Whether a flag is given a value, which the program refuses: `--offload on`.
    pub(super) fn refuses(&self, arguments: &[String]) -> bool {
        let takes_words = !self.positional.is_empty() || self.many.iter().any(|name| !name.starts_with('-'));
        let is_flag = |word: &str| self.named.iter().any(|option| option.is_flag && is_same(word, &option.name));
        !takes_words && arguments.windows(2).any(|pair| is_flag(&pair[0]) && !pair[1].starts_with('-'))
    }

    /// The required options that `arguments` lack.
    pub(super) fn lacking<'o>(&'o self, arguments: &'o [String]) -> impl Iterator<Item = &'o str> {
        let names = self.required.iter().map(String::as_str);
        names.filter(|name| !arguments.iter().any(|word| is_same(word.split('=').next().unwrap_or_default(), name)))
    }

    /// `arguments`, changed and completed so that a run on `world` ranks is short. `texts` are the sources, in which a smaller
    /// model is looked for.
    pub(super) fn shortened(&self, arguments: &[String], world: u32, texts: &[String]) -> Vec<String> {
        let mut arguments = without_places(arguments);
        let is_endless = texts.iter().any(|text| ENDLESS.is_match(text));
        if is_endless {
            arguments.retain(|word| !SYNTHETIC_FLAGS.iter().any(|flag| is_same(word, flag)));
        } else {
            self.take_synthetic_data(&mut arguments);
        }
        for Named { name, default, is_flag, .. } in &self.named {
            let value = short(name, world).filter(|(style, _)| self.assignments || *style == Style::Argparse);
            // In assignments, a text stays a text.
            let is_number = |text: &String| text.parse::<f64>().is_ok();
            let value = value.filter(|_| {
                !is_flag && default.as_ref().is_none_or(|text| is_number(text) || text == "None" || text == "True")
            });
            if let Some((_, value)) = value {
                self.set(&mut arguments, name, &value);
            }
        }
        for name in ["--model", "--arch", "--model-name"] {
            let given = given(&arguments, name).or_else(|| self.default_of(name));
            if let Some(smaller) = given.and_then(|given| smaller(&given, texts)) {
                self.set(&mut arguments, name, &smaller);
            }
        }
        for option in self.named.iter().filter(|option| option.is_model_size(texts)) {
            self.set(&mut arguments, &option.name, &SMALL_IMAGE.to_string());
        }
        for name in ["--device", "--devices", "--gpus", "--gpu-ids"] {
            let is_list =
                |value: &String| value.contains(',') && value.split(',').all(|one| one.parse::<u32>().is_ok());
            if given(&arguments, name).is_some_and(|value| is_list(&value)) {
                let all: Vec<String> = (0..world).map(|gpu| gpu.to_string()).collect();
                self.set(&mut arguments, name, &all.join(","));
            }
        }
        let bare = arguments.iter().take_while(|word| !word.starts_with('-')).count();
        for (index, (name, is_number)) in self.positional.iter().enumerate() {
            let value = short(name, world).map_or("1".to_owned(), |(_, value)| value);
            if index < bare && *is_number {
                arguments[index] = value;
            } else if index >= bare && *is_number && index <= arguments.len() {
                arguments.insert(index, value);
            }
        }
        arguments
    }

    /// The value that makes a run short of an option or a setting of this name.
    pub(super) fn short(&self, name: &str, world: u32) -> Option<String> {
        short(name, world).filter(|(style, _)| *style == Style::Argparse).map(|(_, value)| value)
    }

    /// Where the program can make its data itself, it does, and the places of real data are left out.
    fn take_synthetic_data(&self, arguments: &mut Vec<String>) {
        let own = |word: &&String| SYNTHETIC.contains(&word.as_str());
        let flag = self
            .named
            .iter()
            .find(|option| option.is_flag && SYNTHETIC_FLAGS.iter().any(|flag| is_same(&option.name, flag)));
        let of_data = self.named.iter().filter(|option| option.name.contains("data"));
        let choice = of_data.into_iter().find_map(|option| Some((option, option.choices.iter().find(own)?)));
        match (choice, flag) {
            (Some((option, value)), _) => self.set(arguments, &option.name, value),
            (None, Some(flag)) if !arguments.contains(&flag.name) => arguments.push(flag.name.clone()),
            _ => return,
        }
        let words = std::mem::take(arguments);
        let mut words = words.into_iter().peekable();
        while let Some(word) = words.next() {
            let is_required =
                self.required.iter().any(|name| is_same(word.split('=').next().unwrap_or_default(), name));
            let is_place = |value: &str| value.starts_with('/') || value.contains("://");
            let inside = word.split_once('=').is_some_and(|(_, value)| is_place(value));
            let after = !word.contains('=') && words.peek().is_some_and(|next| is_place(next));
            if word.starts_with("--") && !is_required && (inside || after) {
                if after {
                    words.next();
                }
                continue;
            }
            arguments.push(word);
        }
    }

    /// Gives option `name` this value, in place of the one it has.
    pub(super) fn set(&self, arguments: &mut Vec<String>, name: &str, value: &str) {
        let same = |word: &str| is_same(word, name);
        for index in 0..arguments.len() {
            if let Some((word, _)) = arguments[index].clone().split_once('=').filter(|(word, _)| same(word)) {
                arguments[index] = format!("{word}={value}");
                return;
            }
            if arguments[index].starts_with('-') && same(&arguments[index]) {
                match arguments.get_mut(index + 1) {
                    Some(next) if !next.starts_with("--") => value.clone_into(next),
                    _ => arguments.insert(index + 1, value.to_owned()),
                }
                return;
            }
        }
        if self.assignments {
            arguments.push(format!("--{name}={value}"));
        } else {
            arguments.extend([name.to_owned(), value.to_owned()]);
        }
    }

    fn default_of(&self, name: &str) -> Option<String> {
        self.named.iter().find(|option| option.name == name)?.default.clone()
    }
}

/// Whether two words are one option: `--batch-size` and `--batch_size`.
fn is_same(word: &str, name: &str) -> bool {
    word.starts_with('-')
        && word.trim_start_matches('-').replace('-', "_") == name.trim_start_matches('-').replace('-', "_")
}

/// Arguments without options that name somebody's directory for results, or somebody's checkpoint.
fn without_places(arguments: &[String]) -> Vec<String> {
    const RESULTS: &[&str] = &["out", "save", "log", "resume", "checkpoint", "ckpt", "pretrained", "finetune"];
    let mut kept: Vec<String> = Vec::new();
    let mut words = arguments.iter().peekable();
    while let Some(word) = words.next() {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word.as_str(), words.peek().filter(|next| !next.starts_with('-')).map(|next| next.as_str())),
        };
        let is_place =
            value.is_some_and(|value| value.contains("path/to") || value.contains("://") || value.ends_with(".pth"));
        if word.starts_with("--") && is_place && RESULTS.iter().any(|part| name.contains(part)) {
            if !word.contains('=') {
                words.next();
            }
            continue;
        }
        kept.push(word.clone());
    }
    kept
}

fn given(arguments: &[String], name: &str) -> Option<String> {
    let at = arguments.iter().position(|word| word == name)?;
    arguments.get(at + 1).cloned()
}

/// A smaller model of the same kind that the sources name: `mae_vit_base_patch16` for `mae_vit_large_patch16`.
fn smaller(model: &str, texts: &[String]) -> Option<String> {
    const SIZES: &[&str] = &["tiny", "small", "base", "large", "huge", "giant"];
    let lower = model.to_ascii_lowercase();
    let candidates = if let Some(size) = SIZES.iter().position(|size| lower.contains(size)) {
        SIZES[..size].iter().map(|other| lower.replace(SIZES[size], other)).collect()
    } else if model.contains("-XL/") {
        vec![model.replace("-XL/", "-S/"), model.replace("-XL/", "-B/")]
    } else {
        Vec::new()
    };
    let is_named = |name: &&String| texts.iter().any(|text| text.contains(name.as_str()));
    candidates.iter().find(is_named).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_run_becomes_short_by_the_options_that_a_program_has() {
        let source = "parser.add_argument('save_every', type=int, help='x')\n\
            parser.add_argument('-b', '--batch-size', default=64, type=int,\n    help='per GPU')\n\
            parser.add_argument('--model', default='mae_vit_large_patch16', type=str)\n\
            parser.add_argument('--epochs', default=400, type=int)\nparser.add_argument('--steps', action='store_true')\n\
            parser.add_argument('--dim', default=400, type=int)\nparser.add_argument('--cfg', required=True)\n\
            parser.add_argument(\"--data-path\", type=str, required=True)\ndef mae_vit_base_patch16(): pass\n";
        let sources = [source.to_owned()];
        let options = find(&sources);
        assert_eq!(options.lacking(&words("--cfg=x")).collect::<Vec<_>>(), ["--data-path"]);
        assert_eq!(
            without_places(&words("--output_dir /path/to/save --resume=https://a/b.pth --data /path/to/x --eval")),
            words("--data /path/to/x --eval")
        );
        assert_eq!(options.positional, [("save_every".to_owned(), true)]);
        assert_eq!(
            options.shortened(&words("10 --epochs 90 --device 0,1,2,3"), 2, &sources).join(" "),
            "1 --epochs 1 --device 0,1 --batch-size 2 --model mae_vit_base_patch16"
        );
        assert_eq!(
            options.shortened(&[], 2, &sources).join(" "),
            "1 --batch-size 2 --epochs 1 --model mae_vit_base_patch16"
        );
    }

    #[test]
    fn data_are_made_by_the_program_and_images_small_where_it_can() {
        let choice = "p.add_argument('--dataset-type', default='auto', choices=['webdataset', 'synthetic'], help='x')\n\
            p.add_argument('--train-num-samples', type=int)\np.add_argument('--train-data', default=None)\n\
            p.add_argument('--work', required=True)\np.add_argument('--logs')\n";
        let flag = "p.add_argument('data', nargs='?')\np.add_argument('--dummy', action='store_true')\n";
        for (source, arguments, expected) in [
            (
                choice,
                "--train-data /data/x.tar --val=/data/y --work /w --logs ./logs --dataset-type webdataset",
                "--work /w --logs ./logs --dataset-type synthetic --train-num-samples 8",
            ),
            (flag, "--lr 1 --dummy", "--lr 1 --dummy"),
            (flag, "", "--dummy"),
            (
                "p.add_argument('--input-size', default=224, type=int)\nmodel = create_model(m, img_size=args.input_size)",
                "",
                "--input-size 64",
            ),
            (
                "p.add_argument('--force-image-size', nargs='+')\nmake_model(n(m), force_image_size=args.force_image_size)",
                "--force-image-size 112",
                "--force-image-size 64",
            ),
            ("p.add_argument('--image-size', default=256, choices=[256])\nmodel(image_size=args.image_size)", "", ""),
            ("p.add_argument('--input-size', default=224, type=int)\nResize(args.input_size)", "", ""),
            ("p.add_argument('--data')\n", "--data /data/x", "--data /data/x"),
        ] {
            let sources = [source.to_owned()];
            assert_eq!(find(&sources).shortened(&words(arguments), 2, &sources).join(" "), expected);
        }
    }

    #[test]
    fn a_flag_with_a_value_is_refused_unless_the_program_takes_words() {
        let flag = "p.add_argument('--offload', action='store_true')\np.add_argument('--size')\n";
        for (more, arguments, refused) in [
            ("", "--offload on --size 1", true),
            ("", "--size 1 --offload", false),
            ("p.add_argument('file')\n", "--offload on", false),
            ("p.add_argument('files', nargs='*')\n", "--offload on", false),
        ] {
            assert_eq!(find(&[format!("{flag}{more}")]).refuses(&words(arguments)), refused, "{more}{arguments}");
        }
    }

    #[test]
    fn assignments_are_options_where_a_configurator_reads_them() {
        let source = "max_iters = 600000\nn_layer = 12\ncompile = True\ndataset = 'openwebtext'\nlearning_rate = 6e-4\n\
            gradient_accumulation_steps = 5 * 8\nexec(open('configurator.py').read())\n";
        let sources = [source.to_owned()];
        let shortened = find(&sources).shortened(&words("config/x.py --max_iters=10"), 4, &sources);
        assert_eq!(
            shortened.join(" "),
            "config/x.py --max_iters=2 --n_layer=2 --compile=False --gradient_accumulation_steps=4"
        );
    }
}
