//! Settings that a program keeps in configuration files (yacs), which one of its options overrides: `--opts TRAIN.EPOCHS 1`.

use std::sync::LazyLock;

use regex::Regex;

use super::options::Options;

/// Where overrides go.
static MERGED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"merge_from_list\(\s*(?:\w+\.)*(\w+)\s*\)").expect("a constant"));
/// A setting and its number: `_C.TRAIN.EPOCHS = 300`.
static SETTING: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?m)^_?\w+\.((?:[A-Z][A-Z0-9_]*\.)*[A-Z][A-Z0-9_]*)[ ]*=[ ]*(\d+)[ ]*(?:#.*)?$").expect("a constant")
});

/// The words that shorten a run on `world` ranks, to be appended to `arguments`; none if the program has no such option.
pub(super) fn choose(sources: &[String], options: &Options, arguments: &[String], world: u32) -> Vec<String> {
    let names = sources.iter().flat_map(|text| MERGED.captures_iter(text).map(|found| found[1].to_owned()));
    let Some(name) = names.into_iter().find_map(|name| options.many.iter().find(|many| plain(many) == name)) else {
        return Vec::new();
    };
    let mut words: Vec<String> = Vec::new();
    for found in sources.iter().flat_map(|text| SETTING.captures_iter(text)) {
        let key = &found[1];
        let last = key.rsplit('.').next().unwrap_or_default();
        let is_option = options.named.iter().any(|option| plain(&option.name).eq_ignore_ascii_case(last));
        let given = words.iter().chain(arguments).any(|word| word == key);
        let Some(value) = options.short(last, world) else { continue };
        if !is_option && !given && found[2] != value {
            words.extend([key.to_owned(), value]);
        }
    }
    // After the last option, its values may follow; elsewhere, the option comes first.
    let is_last = arguments.iter().rfind(|word| word.starts_with('-')).is_some_and(|word| word == name);
    if !words.is_empty() && name.starts_with('-') && !is_last {
        words.insert(0, name.clone());
    }
    words
}

fn plain(name: &str) -> String {
    name.trim_start_matches('-').replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::super::options;
    use super::*;

    #[test]
    fn settings_of_a_configuration_are_overridden_where_an_option_does_that() {
        let settings = "_C.TRAIN.EPOCHS = 300\n_C.TRAIN.WARMUP_EPOCHS = 20  # long\n_C.DATA.BATCH_SIZE = 128\n\
            _C.DATA.NUM_WORKERS = 8\n_C.DATA.NAME = 'x'\n_C.TRAIN.LR = 5e-4\n_C.TRAIN.SEED = 7\n";
        let merges = "config.merge_from_list(args.opts)\n";
        let expected = "TRAIN.EPOCHS 1 TRAIN.WARMUP_EPOCHS 0 DATA.NUM_WORKERS 1";
        for (parser, merges, arguments, words) in [
            ("p.add_argument('--opts', default=None, nargs='+')", merges, "--cfg x", format!("--opts {expected}")),
            ("p.add_argument('opts', nargs=argparse.REMAINDER)", merges, "", expected.to_owned()),
            (
                "p.add_argument('--opts', nargs='*')",
                merges,
                "--opts DATA.NUM_WORKERS 2",
                "TRAIN.EPOCHS 1 TRAIN.WARMUP_EPOCHS 0".to_owned(),
            ),
            ("p.add_argument('--opts', nargs='+')", "", "", String::new()),
            ("p.add_argument('--names', nargs='+')", merges, "", String::new()),
        ] {
            let parser = format!("{parser}\np.add_argument('--batch-size', type=int)\n");
            let sources = [parser, settings.to_owned(), merges.to_owned()];
            let arguments: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
            assert_eq!(choose(&sources, &options::find(&sources), &arguments, 2).join(" "), words, "{sources:?}");
        }
    }
}
