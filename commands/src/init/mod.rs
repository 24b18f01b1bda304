//! `ftest init`: looks at a repository, asks at most three questions, writes a first suite, its cluster and a
//! workflow, runs the suite, again with packages that its program asked for, and says what it lacked if it did not pass.

mod again;
mod directories;
mod dotted;
mod files;
mod first_runs;
mod imports;
mod launch_line;
mod missing;
mod options;
mod overrides;
mod python;
mod survey;

use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use clap::Args;
use regex::Regex;
use runner::verdict::exit_code::ExitCode;

use self::files::{CLUSTER, Choice, EXAMPLE, EXAMPLE_PROGRAM, IMAGES, MAKE_IMAGES, SUITE, WORKFLOW};
use self::survey::{Program, Survey};

/// A word quoted as YAML needs it.
pub(super) use self::files::quoted;

/// Options that name a data set.
const DATA: &[&str] = &["data_path", "data_dir", "data", "dataset_path", "data_root", "dataset_dir", "imagenet_path"];

/// Where the suite's fixture makes images.
const IMAGES_DIR: &str = "${{ fixtures.images.DIR }}";
/// How many images a program trains on if it does not want more.
const IMAGES_OF_A_RUN: u32 = 8;
/// More would not be quick.
const MOST_IMAGES: u32 = 1024;

/// Arguments of `ftest init`.
#[derive(Args, Clone, Debug)]
pub struct InitArgs {
    /// Ask nothing: take what was found, and run the suite
    #[arg(long)]
    pub yes: bool,
    /// The repository [default: the working directory]
    #[arg(value_name = "DIRECTORY")]
    pub directory: Option<PathBuf>,
}

/// Runs the command. `run` runs a suite, in a time if there is one.
pub fn run(arguments: &InitArgs, run: impl FnMut(&Path, Option<Duration>) -> i32) -> i32 {
    let root = arguments.directory.clone().unwrap_or_default();
    let answers = match (arguments.yes, io::stdin().is_terminal()) {
        (true, _) => Answers::Yes,
        (false, true) => Answers::Asked,
        (false, false) => Answers::None,
    };
    match write(&root, answers) {
        Ok(Some(written)) => first_runs::first_runs(&root, written, run),
        Ok(None) => ExitCode::Passed as i32,
        Err(why) => {
            eprintln!("ftest init: {why}");
            ExitCode::Usage as i32
        }
    }
}

/// The value of `python` in a suite for a program of the repository at `root`.
pub(super) fn python_of(root: &Path, program: &str) -> String {
    let file = root.join(program);
    python::choose(root, Some(&file), &imports::follow(root, &file)).value
}

/// Who answers the questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answers {
    Asked,
    /// Every question gets its default.
    Yes,
    /// Nobody can answer: every question gets its default, except that nothing is run.
    None,
}

/// What was written, and from what.
struct Written {
    suite: PathBuf,
    survey: Survey,
    choice: Choice,
}

/// Writes the files; returns what was written if the suite is to be run now.
fn write(root: &Path, answers: Answers) -> Result<Option<Written>, String> {
    let looked_at = if root.as_os_str().is_empty() { Path::new(".") } else { root };
    let survey = Survey::new(looked_at)?;
    let [suite, cluster, workflow] = [SUITE, CLUSTER, WORKFLOW].map(|file| root.join(file));
    if suite.exists() {
        return Err(format!(
            "{} already exists; nothing was written. `ftest {}` runs it",
            suite.display(),
            suite.display()
        ));
    }
    if cluster.exists() {
        return Err(format!("{} already exists; nothing was written", cluster.display()));
    }
    list(&survey.suites, |file| format!("`ftest {file}` runs its tests with @pytest.mark.cluster"));
    list(&survey.tests, |_| {
        "a test in it with @pytest.mark.cluster runs on every rank (`ftest docs pytest`)".to_owned()
    });
    let found = survey.programs.first().or(survey.single.first());
    let gpus = if survey.programs.is_empty() && found.is_some() { 1 } else { 2 };
    let (program, nodes, gpus_per_node) = match answers {
        Answers::Asked => ask(&survey, gpus)?,
        _ => (found.cloned(), 1, gpus),
    };
    let is_example = program.is_none();
    let program = match program {
        Some(program) if !root.join(&program.path).is_file() => {
            return Err(format!("there is no {} in {}", program.path, looked_at.display()));
        }
        Some(program) => program,
        None => Program { directory: "suites".to_owned(), ..Program::named(EXAMPLE) },
    };
    if is_example {
        let example = root.join(EXAMPLE);
        println!(
            "no program found in {} that torchrun could start: none of its programs uses torch.distributed or a GPU",
            looked_at.display()
        );
        put(&example, EXAMPLE_PROGRAM)?;
        println!("wrote {}: a program to start from", example.display());
    }
    let choice = choose(looked_at, &survey, program, nodes, gpus_per_node);
    put(&cluster, &choice.cluster())?;
    println!("wrote {}: {}", cluster.display(), choice.place());
    put_images(root, &choice)?;
    put(&suite, &choice.suite())?;
    println!("wrote {}: {} on {}", suite.display(), choice.command(), choice.place());
    if let Some(note) = &choice.note {
        println!("note: {note}");
    }
    if workflow.exists() {
        println!("{} already exists; left as it is", workflow.display());
    } else {
        put(&workflow, &choice.workflow())?;
        println!("wrote {}: the suite on every push, once you name ftest's wheel in it", workflow.display());
    }
    let again = format!("ftest {}", suite.display());
    let is_wanted = match answers {
        Answers::Asked => is_yes(&question(&format!("Run it now (`{again}`)? [Y/n]"))?),
        Answers::Yes => true,
        Answers::None => false,
    };
    if !is_wanted {
        println!("next: {again}");
    }
    Ok(is_wanted.then_some(Written { suite, survey, choice }))
}

/// Says what the first of `files` are for, and how many more there are.
fn list(files: &[String], text: impl Fn(&str) -> String) {
    const MOST: usize = 3;
    for file in files.iter().take(MOST) {
        println!("found {file}: {}", text(file));
    }
    if files.len() > MOST {
        println!("found {} more like it", files.len() - MOST);
    }
}

/// All that the suite needs to say about `program`.
fn choose(root: &Path, survey: &Survey, program: Program, nodes: u32, gpus_per_node: u32) -> Choice {
    let file = root.join(&program.path);
    let imports = imports::follow(root, &file);
    let options = options::find(&imports.sources);
    let world = nodes * gpus_per_node;
    let mut arguments = options.shortened(&program.arguments, world, &imports.sources);
    let plain = |name: &str| name.trim_start_matches('-').replace('-', "_");
    let data = DATA.iter().find_map(|wanted| options.named.iter().find(|option| plain(&option.name) == *wanted));
    let bare = DATA.iter().any(|wanted| options.optional.iter().any(|name| name == wanted));
    let has_images = imports.sources.iter().any(|text| text.contains("ImageFolder("));
    let takes_images = has_images && (data.is_some() || bare);
    match data {
        Some(option) if takes_images => options.set(&mut arguments, &option.name, IMAGES_DIR),
        // In front, where no option takes it for its value.
        None if takes_images => match arguments.first_mut().filter(|word| !word.starts_with('-')) {
            Some(place) => IMAGES_DIR.clone_into(place),
            None => arguments.insert(0, IMAGES_DIR.to_owned()),
        },
        _ => {}
    }
    arguments.extend(overrides::choose(&imports.sources, &options, &arguments, world));
    dotted::shorten(&mut arguments, &survey.dotted, &imports.sources, &options, world);
    let images = takes_images.then(|| images_for(&imports.sources));
    let lacking = options.lacking(&arguments).collect::<Vec<_>>().join(", ");
    let lacking = (!lacking.is_empty()).then(|| format!("{} requires {lacking}: add it to `args`", program.path));
    let python = python::choose(root, Some(&file), &imports);
    let is_list = python.value.starts_with('[');
    let unknown = imports.unknown.iter().cloned().collect::<Vec<_>>().join(", ");
    let note = python.note.into_iter().chain((is_list && !unknown.is_empty()).then(|| {
        format!("{} also imports {unknown}: add their packages to `python` if it does not run without", program.path)
    }));
    let note = note.chain(lacking).reduce(|one, other| format!("{one}; {other}"));
    let python_path = imports.roots.iter().filter(|_| program.module.is_none());
    let python_path =
        python_path.map(|place| place.strip_prefix(root).unwrap_or(place).display().to_string()).collect();
    let has = |part: &str| imports.sources.iter().any(|text| text.contains(part));
    let takes_local_rank = has("add_argument(")
        && has("local_rank")
        && !has("LOCAL_RANK")
        && options.named.iter().any(|option| plain(&option.name) == "local_rank");
    Choice {
        program,
        arguments,
        nodes,
        gpus_per_node,
        python: python.value,
        note,
        python_path,
        images,
        takes_local_rank,
    }
}

/// Enough images for programs with these sources: a few, or as many as one of them takes the data set's length to a multiple of
/// (`len(dataset) // 256 * 256`).
fn images_for(sources: &[String]) -> u32 {
    static MULTIPLE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"len\([\w.]+\) // (\d+) \* (\d+)").expect("a constant"));
    let multiples = sources.iter().flat_map(|text| MULTIPLE.captures_iter(text));
    let multiples = multiples.filter(|found| found[1] == found[2]).filter_map(|found| found[1].parse().ok());
    multiples.filter(|multiple| *multiple <= MOST_IMAGES).max().unwrap_or(0).max(IMAGES_OF_A_RUN)
}

/// The program that makes images, if the suite needs it and it is not there.
fn put_images(root: &Path, choice: &Choice) -> Result<(), String> {
    let make = root.join(IMAGES);
    if choice.images.is_none() || make.exists() {
        return Ok(());
    }
    put(&make, MAKE_IMAGES)?;
    println!("wrote {}: a few images in place of the data set", make.display());
    Ok(())
}

fn ask(survey: &Survey, gpus: u32) -> Result<(Option<Program>, u32, u32), String> {
    let found: Vec<&Program> = survey.programs.iter().chain(&survey.single).collect();
    for other in found.iter().skip(1).take(4) {
        println!("also found: {}", other.path);
    }
    let default = found.first().map(|program| program.path.clone()).unwrap_or_default();
    let path = question(&format!("Which program does torchrun start? [{default}]"))?;
    let path = if path.is_empty() { default } else { path };
    let known = found.into_iter().find(|program| program.path == path).cloned();
    let program = known.or_else(|| (!path.is_empty()).then(|| Program::named(&path)));
    loop {
        let usual = format!("1x{gpus}");
        let place = question(&format!("On how many nodes, with how many GPUs each? [{usual}]"))?;
        match files::place(if place.is_empty() { &usual } else { &place }) {
            Ok((nodes, gpus)) => return Ok((program, nodes, gpus)),
            Err(why) => println!("{why}"),
        }
    }
}

fn question(text: &str) -> Result<String, String> {
    print!("{text} ");
    let _ = io::stdout().flush();
    let mut line = String::new();
    match io::stdin().lock().read_line(&mut line) {
        Ok(0) => Err("no answer; stopping here".to_owned()),
        Ok(_) => Ok(line.trim().to_owned()),
        Err(error) => Err(format!("no answer: {error}")),
    }
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.to_ascii_lowercase().as_str(), "" | "y" | "yes")
}

fn put(file: &Path, text: &str) -> Result<(), String> {
    let wrong = |error: io::Error| format!("{}: {error}", file.display());
    fs::create_dir_all(file.parent().unwrap_or(Path::new("."))).map_err(wrong)?;
    // Never overwrites a file that appeared in the meantime.
    let mut new = fs::File::create_new(file).map_err(wrong)?;
    new.write_all(text.as_bytes()).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use runner::suite;

    #[test]
    fn the_suite_is_one_and_says_what_was_chosen() {
        let files = [
            (
                "train.py",
                "from torchvision.datasets import ImageFolder\np.add_argument('--data-path')\nImageFolder(a)\n",
            ),
            ("a b/it's.py", "from pack import x\n"),
            ("pack/__init__.py", "import yaml\n"),
            (
                "bare.py",
                "p.add_argument('data', nargs='?')\np.add_argument('--dummy', action='store_true')\n\
                 if a.dummy:\n    d = datasets.FakeData(1281167, (3, 224, 224))\nd = ImageFolder(a.data)\n",
            ),
            ("old.py", "p.add_argument('--local_rank', type=int)\np.add_argument('--epochs', type=int)\n"),
        ];
        for (program, nodes, gpus_per_node, images) in [
            (Program::named("train.py"), 1, 2, true),
            (Program::named("a b/it's.py"), 2, 4, false),
            (Program { directory: "a b".to_owned(), ..Program::named("a b/it's.py") }, 1, 1, false),
            (Program::named("old.py"), 1, 2, false),
            (Program { module: Some("train".to_owned()), ..Program::named("train.py") }, 1, 2, true),
            (Program { spawns: true, ..Program::named("old.py") }, 1, 2, false),
            (Program { spawns: true, arguments: vec!["--dummy".into()], ..Program::named("bare.py") }, 1, 2, true),
        ] {
            let root = tempfile::tempdir().unwrap();
            fs::create_dir(root.path().join(".git")).unwrap();
            for (path, text) in files {
                put(&root.path().join(path), text).unwrap();
            }
            let survey = Survey::new(root.path()).unwrap();
            let choice = choose(root.path(), &survey, program, nodes, gpus_per_node);
            assert_eq!(choice.images, images.then_some(8));
            put(&root.path().join(SUITE), &choice.suite()).unwrap();
            put(&root.path().join(CLUSTER), &choice.cluster()).unwrap();
            let read = |text: &str| {
                suite::parse(&root.path().join(SUITE), text, &root.path().join("suites"))
                    .unwrap_or_else(|error| panic!("{error}\n{text}"))
            };
            let suite = read(&choice.suite());
            assert_eq!((suite.cases.len(), suite.cases[0].uses.len()), (1, usize::from(images)));
            // An end with code 0 alone is not enough.
            let has = |path: &str| choice.suite().contains(path);
            assert!(!has("--dummy"), "{}", choice.suite());
            assert_eq!(has("communicator_inits"), choice.world() > 1, "{}", choice.suite());
            assert_eq!(has("alloc.calls"), choice.world() == 1, "{}", choice.suite());
            // What it says to uncomment is right.
            let related = choice
                .suite()
                .replace("    # holds_under", "    holds_under")
                .replace("    # compared", "    compared");
            let relations = read(&related).cases[0].holds_under.as_ref().map(|relations| relations.relations.len());
            assert_eq!(relations, Some(if choice.suite().contains("{ ranks: 1 }") { 2 } else { 1 }));
            if choice.world() > 1 {
                assert_eq!(
                    read(&choice.suite().replace("  # - id", "  - id").replace("  #   ", "    ")).cases.len(),
                    2
                );
            }
        }
    }

    #[test]
    fn a_sampler_that_rounds_down_gets_enough_images() {
        for (source, images) in [
            ("n = int(math.floor(len(self.dataset) // 256 * 256 / self.num_replicas))", 256),
            ("n = len(dataset) // 4 * 4", 8),
            ("n = len(dataset) // 50000 * 50000", 8),
            ("n = len(dataset) // 256", 8),
        ] {
            assert_eq!(images_for(&[String::new(), source.to_owned()]), images, "{source}");
        }
    }

    #[test]
    fn nodes_and_gpus_are_read_or_refused_with_a_reason() {
        assert_eq!(files::place("2x4"), Ok((2, 4)));
        assert_eq!(files::place("1 X 2"), Ok((1, 2)));
        for (text, part) in [("0x2", "1 to 16"), ("5x4", "1 to 16"), ("2", "not like 2x4"), ("axb", "not like 2x4")] {
            assert!(files::place(text).unwrap_err().contains(part), "{text}");
        }
    }
}
