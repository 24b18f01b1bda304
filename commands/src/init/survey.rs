//! Surveys a repository: programs that torchrun could start, with the command lines that its documentation shows, and pytest
//! tests for them.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

use super::directories::{self, DEPTH};
use super::dotted;
use super::imports;
use super::launch_line::{self, LaunchLine};
use super::options::{self, Options};

/// Calls that mark a program as training on several GPUs.
const MARKS: &[&str] = &[
    "init_process_group",
    "DistributedDataParallel",
    "FullyShardedDataParallel",
    "fully_shard",
    "init_device_mesh",
    "Accelerator(",
    "import lightning",
    "import deepspeed",
];
/// Bytes; a larger file is not hand-written.
const LARGEST: u64 = 1 << 20;
/// Files whose command lines are read, besides programs.
const DOCUMENTS: &[&str] = &[".md", ".rst", ".sh", ".txt"];

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Survey {
    /// Programs for several GPUs, the likeliest first.
    pub(super) programs: Vec<Program>,
    /// Programs for one GPU, from the repository's root, likewise.
    pub(super) single: Vec<Program>,
    /// pytest files with tests that run on every rank, by path.
    pub(super) suites: Vec<String>,
    /// pytest files that use several GPUs in another way, by path.
    pub(super) tests: Vec<String>,
    /// Fields of a configuration that its texts show as options: `training.steps`.
    pub(super) dotted: BTreeSet<String>,
}

/// A program that could be started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Program {
    /// Its file, from the repository's root.
    pub(super) path: String,
    /// The directory that its command line is for, from the repository's root; empty for the root.
    pub(super) directory: String,
    /// Its name as a module there, if it is started as one.
    pub(super) module: Option<String>,
    /// Arguments that the documentation shows.
    pub(super) arguments: Vec<String>,
    /// How many processes its command line starts on a node.
    pub(super) processes: Option<u32>,
    /// It starts a process per GPU by itself (`torch.multiprocessing.spawn`), so under torchrun each rank would start ranks.
    pub(super) spawns: bool,
}

impl Program {
    /// A program that the user named, started from the root.
    pub(super) fn named(path: &str) -> Program {
        Program { path: path.to_owned(), ..Program::default() }
    }
}

impl Survey {
    /// Looks at the repository at `root`.
    ///
    /// # Errors
    /// One sentence if it cannot be read.
    pub(super) fn new(root: &Path) -> Result<Survey, String> {
        let mut found = Found::default();
        look(root, "", DEPTH, &mut found).map_err(|error| format!("{}: {error}", root.display()))?;
        let Found { files, mut suites, mut tests, lines, dotted } = found;
        let mut candidates: Vec<(i64, Program, bool)> = Vec::new();
        for file in &files {
            let best = best_line(file, &lines);
            // A library makes these calls, too, but cannot be started; a demonstration at its end is no program.
            let shows = file.demonstrates && is_in_a_package(root, &file.path);
            let uses_gpus = || file.is_program && (file.marks > 0 || leads_to_a_gpu(root, &file.path));
            if best.is_none() && (shows || !uses_gpus()) {
                continue;
            }
            let score = score(file, best.as_ref().map(|(line, _)| *line));
            let several = best.is_some() || file.marks > 0;
            let program = match best {
                Some((line, directory)) => Program {
                    path: file.path.clone(),
                    directory,
                    module: line.is_module.then(|| line.program.clone()),
                    arguments: line.arguments.clone(),
                    processes: line.processes,
                    spawns: line.is_plain,
                },
                None => Program {
                    directory: self_contained(root, &file.path),
                    spawns: file.spawns,
                    ..Program::named(&file.path)
                },
            };
            candidates.push((score, program, several));
        }
        candidates.sort_by_key(|(score, program, _)| (Reverse(*score), program.path.clone()));
        suites.sort();
        tests.sort();
        let of = |wanted: bool| {
            let chosen = candidates.iter().filter(|(_, _, several)| *several == wanted);
            chosen.map(|(_, program, _)| program.clone()).collect()
        };
        Ok(Survey { programs: of(true), single: of(false), suites, tests, dotted })
    }
}

/// How likely it is the program to start with, and to run as it is.
fn score(file: &PythonFile, line: Option<&LaunchLine>) -> i64 {
    let name = file.path.rsplit('/').next().unwrap_or_default();
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    let directories = file.path[..file.path.len() - name.len()].to_ascii_lowercase();
    let mut score = 2 * file.marks as i64 - 10 * file.path.matches('/').count() as i64;
    score += line.map_or(0, |line| 60 - 15 * cost(file, line).0.min(3) as i64);
    score -= if file.is_old { 60 } else { 0 };
    score -= if file.downloads { 30 } else { 0 };
    // Rather the variant of it that torchrun starts.
    score -= if line.is_none() && file.spawns { 1 } else { 0 };
    score += if has(&["train", "main"]) { 15 } else { 0 };
    score -= if has(&["eval", "test", "sample", "infer", "bench", "convert", "prepare", "export", "legacy", "toy"]) {
        30
    } else {
        0
    };
    score -= if ["legacy", "old", "archive", "record"].iter().any(|word| directories.contains(word)) { 30 } else { 0 };
    score
}

/// The command line to take for a program, and the directory that it is for: the one that lacks least, and of those the
/// shortest.
fn best_line<'l>(file: &PythonFile, lines: &'l [(String, LaunchLine)]) -> Option<(&'l LaunchLine, String)> {
    let fitting = lines.iter().filter_map(|(above, line)| Some((line, directory(&file.path, above, line)?)));
    // Of programs for one process, only their names are known.
    let fitting = fitting.filter(|(line, _)| !line.is_plain || file.spawns);
    fitting.min_by_key(|(line, _)| (line.is_plain, cost(file, line)))
}

/// What a command line lacks: placeholders, required options, several ranks, the will to train; then its length.
fn cost(file: &PythonFile, line: &LaunchLine) -> (usize, usize) {
    let starts_ranks = |word: &String| {
        let word = word.to_ascii_lowercase();
        word.starts_with('-') && ["distributed", "world", "ddp", "gpus", "nproc"].iter().any(|part| word.contains(part))
    };
    let is_for_another_node = line.arguments.windows(2).any(|pair| {
        let name = pair[0].trim_start_matches('-').replace('-', "_");
        matches!(name.as_str(), "rank" | "node_rank") && pair[1] != "0" || name == "world_size" && pair[1] != "1"
    });
    let is_alone = line.is_plain && (!line.arguments.iter().any(starts_ranks) || is_for_another_node);
    let is_no_training =
        |word: &String| ["--eval", "--test", "--resume", "--throughput"].iter().any(|no| word.starts_with(no));
    let other = if line.arguments.iter().any(is_no_training) { 2 } else { 0 };
    let is_wrong = file.options.is_cut(&line.arguments) || file.options.refuses(&line.arguments);
    let other = other + 2 * usize::from(is_wrong) + 3 * usize::from(is_alone);
    (line.placeholders + 2 * file.options.lacking(&line.arguments).count() + other, line.arguments.len())
}

/// The directory from which `line`, found in directory `above`, starts the program at `path`: `above` itself, the root, or
/// where the rest of the path begins.
fn directory(path: &str, above: &str, line: &LaunchLine) -> Option<String> {
    let wanted = match line.is_module {
        true => format!("{}.py", line.program.replace('.', "/")),
        false => line.program.trim_start_matches("./").to_owned(),
    };
    if path == format!("{above}{wanted}") {
        return Some(above.trim_end_matches('/').to_owned());
    }
    if path == wanted {
        return Some(String::new());
    }
    // Below a directory that the text tells to enter; a name alone is too little for that in another part of the repository.
    let prefix = path.strip_suffix(&wanted)?.strip_suffix('/')?;
    (wanted.contains('/') || prefix.starts_with(above)).then(|| prefix.to_owned())
}

/// The directory of a program that has requirements or a README of its own, else the root.
fn self_contained(root: &Path, path: &str) -> String {
    let Some((directory, _)) = path.rsplit_once('/') else { return String::new() };
    let own = ["requirements.txt", "README.md"].iter().any(|file| root.join(directory).join(file).is_file());
    if own { directory.to_owned() } else { String::new() }
}

/// Whether a program, or what it imports of its repository, uses a GPU.
fn leads_to_a_gpu(root: &Path, path: &str) -> bool {
    let sources = imports::follow(root, &root.join(path)).sources;
    sources.iter().any(|text| text.contains("import torch")) && sources.iter().any(|text| names_a_gpu(text))
}

fn is_in_a_package(root: &Path, path: &str) -> bool {
    let directory = path.rsplit_once('/').map(|(directory, _)| root.join(directory));
    directory.is_some_and(|directory| directory.join("__init__.py").is_file())
}

/// Whether what runs if the file is started only shows classes of the file: it calls some, but none of its functions, and reads
/// no arguments.
fn demonstrates(text: &str) -> bool {
    static CALL: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(\.?)\b(\w+)\(").expect("a constant"));
    let Some(start) = text.find("if __name__") else { return false };
    let (library, shown) = text.split_at(start);
    let reads = ["import argparse", "sys.argv", "import click", "import fire", "import hydra", "environ"]
        .iter()
        .any(|way| text.contains(way));
    let defines = |kind: &str, name: &str| {
        let ends = |rest: &str| rest.starts_with(['(', ':']);
        library.lines().any(|line| line.strip_prefix(kind).and_then(|rest| rest.strip_prefix(name)).is_some_and(ends))
    };
    let calls = || CALL.captures_iter(shown).filter(|call| call[1].is_empty()).map(|call| call[2].to_owned());
    !reads && calls().any(|name| defines("class ", &name)) && !calls().any(|name| defines("def ", &name))
}

/// A Python file that is no test.
#[derive(Debug)]
struct PythonFile {
    path: String,
    /// Number of [`MARKS`].
    marks: usize,
    is_program: bool,
    /// What runs is a demonstration of its classes.
    demonstrates: bool,
    spawns: bool,
    /// It imports a library that PyTorch has replaced.
    is_old: bool,
    /// It gets a model or a data set from somewhere.
    downloads: bool,
    options: Options,
}

/// Files, in the order of their directories.
#[derive(Default)]
struct Found {
    files: Vec<PythonFile>,
    suites: Vec<String>,
    tests: Vec<String>,
    /// With the directory of the file that each is in, and a `/`.
    lines: Vec<(String, LaunchLine)>,
    dotted: BTreeSet<String>,
}

fn look(directory: &Path, above: &str, depth: usize, found: &mut Found) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)?.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let (Ok(kind), place) = (entry.file_type(), format!("{above}{name}")) else { continue };
        if name.starts_with('.') {
            continue;
        }
        if kind.is_dir() {
            if depth > 0 && directories::may_be_own(&name) {
                // A file that cannot be read is not a program that can be run.
                let _ = look(&entry.path(), &format!("{place}/"), depth - 1, found);
            }
            continue;
        }
        let is_python = name.ends_with(".py") && name != "conftest.py";
        let is_read = is_python || DOCUMENTS.iter().any(|end| name.ends_with(end));
        if !kind.is_file() || !is_read || entry.metadata().is_ok_and(|meta| meta.len() > LARGEST) {
            continue;
        }
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        found.dotted.extend(dotted::shown(&text));
        if is_python && (name.starts_with("test_") || name.ends_with("_test.py")) {
            let is_marked = MARKS.iter().any(|mark| text.contains(mark));
            if text.contains("pytest.mark.cluster") {
                found.suites.push(place);
            } else if is_marked {
                found.tests.push(place);
            }
            continue;
        }
        found.lines.extend(launch_line::all(&text).into_iter().map(|line| (above.to_owned(), line)));
        if is_python {
            found.files.push(PythonFile {
                path: place,
                marks: MARKS.iter().filter(|mark| text.contains(*mark)).count(),
                is_program: is_program(&text),
                spawns: spawns(&text),
                demonstrates: demonstrates(&text),
                is_old: text.contains("import apex") || text.contains("from apex") || text.contains("import horovod"),
                downloads: ["from_pretrained(", "load_dataset(", "download=True"]
                    .iter()
                    .any(|call| text.contains(call)),
                options: options::find(std::slice::from_ref(&text)),
            });
        }
    }
    Ok(())
}

/// By CUDA, or by whatever accelerator there is.
fn names_a_gpu(text: &str) -> bool {
    text.contains("cuda") || text.contains("torch.accelerator")
}

fn is_program(text: &str) -> bool {
    text.contains("__main__")
        || text
            .lines()
            .any(|line| line.starts_with("dist.init_process_group") || line.starts_with("init_process_group"))
}

/// Whether what runs if the file is started starts processes that become ranks, as `torch.multiprocessing` and the standard
/// library do it.
fn spawns(text: &str) -> bool {
    static START: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?m)^[^#\n]*\b(?:mp|multiprocessing|ctx|context)\.(?:spawn|start_processes|Process)\(|^\s+spawn\(")
            .expect("a constant")
    });
    text.contains("init_process_group") && text.contains("multiprocessing") && START.is_match(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn programs_come_before_libraries_and_tests_are_apart() {
        let root = repository(&[
            ("lib/wrap.py", "DistributedDataParallel fully_shard init_device_mesh"),
            (
                "train.py",
                "dist.init_process_group('nccl')\nDistributedDataParallel(m)\nif __name__ == '__main__': main()",
            ),
            ("examples/fsdp.py", "fully_shard(m)\nif __name__ == '__main__': main()"),
            ("tests/test_train.py", "dist.init_process_group('gloo')"),
            ("tests/test_sum.py", "@pytest.mark.cluster(gpus_per_node=2)\ndef test_sum(rank): pass"),
            ("tests/test_plain.py", "def test_plain(): pass"),
            ("plain.py", "print(1)"),
            ("one.py", "import torch\nx.cuda()\nif __name__ == '__main__': main()"),
            (
                "two.py",
                "import torch\nx.to(torch.accelerator.current_accelerator())\nif __name__ == '__main__': main()",
            ),
            ("three.py", "from lib.model import net\nif __name__ == '__main__': net()"),
            ("lib/__init__.py", ""),
            ("lib/model.py", "import torch\ndevice = 'cuda'"),
            ("venv/lib/torch.py", "init_process_group"),
            (".hidden/x.py", "init_process_group"),
        ]);
        let survey = Survey::new(root.path()).unwrap();
        let paths = |programs: &[Program]| programs.iter().map(|program| program.path.clone()).collect::<Vec<_>>();
        assert_eq!(paths(&survey.programs), ["train.py", "examples/fsdp.py"]);
        assert_eq!(paths(&survey.single), ["one.py", "three.py", "two.py"]);
        assert_eq!(
            (survey.suites, survey.tests),
            (vec!["tests/test_sum.py".into()], vec!["tests/test_train.py".into()])
        );
        assert!(Survey::new(Path::new("/nowhere")).unwrap_err().starts_with("/nowhere: "));
    }

    #[test]
    fn a_program_that_starts_its_ranks_is_not_for_torchrun() {
        let (group, main) = ("dist.init_process_group('nccl')\n", "if __name__ == '__main__':\n    ");
        let imported = "import torch.multiprocessing as mp\n";
        let file = |start: &str| format!("{imported}{group}{main}{start}\n");
        let root = repository(&[
            ("multi.py", &file("mp.spawn(work, args=(2,), nprocs=2)")),
            ("multi_torchrun.py", &file("work()  # not mp.spawn(work)")),
            ("process.py", &file("mp.Process(target=work).start()")),
            ("name.py", &format!("from torch.multiprocessing import spawn\n{group}{main}spawn(work, nprocs=2)\n")),
            ("shown/loaded.py", &file("mp.spawn(load)")),
            ("shown/README.md", "torchrun --nproc_per_node 2 loaded.py"),
            ("images/main.py", &file("mp.spawn(work)")),
            (
                "images/README.md",
                "python main.py [images of some sort]\npython main.py --dummy\n\
                 python main.py --world-size 1 --rank 0 [images of some sort]\npython main.py --world-size 2 --rank 0",
            ),
            ("plain.py", &format!("{group}{main}work()")),
            ("README.md", "python plain.py --x"),
        ]);
        let survey = Survey::new(root.path()).unwrap();
        let found: Vec<_> =
            survey.programs.iter().map(|one| (one.path.as_str(), one.spawns, one.arguments.join(" "))).collect();
        let expected = [
            ("images/main.py", true, "--world-size 1 --rank 0"),
            ("shown/loaded.py", false, ""),
            ("multi_torchrun.py", false, ""),
            ("plain.py", false, ""),
            ("multi.py", true, ""),
            ("name.py", true, ""),
            ("process.py", true, ""),
        ];
        assert_eq!(found, expected.map(|(path, spawns, arguments)| (path, spawns, arguments.to_owned())));
    }

    #[test]
    fn a_demonstration_at_the_end_of_a_library_is_no_program() {
        let library = "class Net(Module):\n    def __init__(self): Accelerator()\n";
        let root = repository(&[
            ("pack/__init__.py", ""),
            ("pack/net.py", &format!("{library}if __name__ == '__main__':\n    print(Net(dim = 64).sample())\n")),
            (
                "pack/train.py",
                &format!("{library}def main(): pass\nif __name__ == '__main__':\n    Net()\n    main()\n"),
            ),
            ("pack/run.py", &format!("import argparse\n{library}if __name__ == '__main__':\n    Net()\n")),
            ("alone.py", &format!("{library}if __name__ == '__main__':\n    Net()\n")),
        ]);
        let survey = Survey::new(root.path()).unwrap();
        let paths: Vec<&str> = survey.programs.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(paths, ["pack/train.py", "alone.py", "pack/run.py"]);
    }

    #[test]
    fn what_the_documentation_starts_comes_first_and_from_where_it_is_started() {
        let root = repository(&[
            ("README.md", "torchrun --nproc_per_node=8 -m pack.main --data $DATA\n`torchrun jobs/big.py --size 9`"),
            ("src/pack/main.py", "init_process_group"),
            ("jobs/big.py", "print(1)"),
            ("small/README.md", "torchrun small.py 50 10\ntorchrun small.py 50 10 --more"),
            ("small/small.py", "print(1)"),
            ("other/loop.py", "init_process_group()\nif __name__ == '__main__': main()"),
        ]);
        let survey = Survey::new(root.path()).unwrap();
        let found: Vec<_> = survey
            .programs
            .iter()
            .map(|one| (one.path.as_str(), one.directory.as_str(), one.module.as_deref(), one.arguments.join(" ")))
            .collect();
        assert_eq!(
            found,
            [
                ("jobs/big.py", "", None, "--size 9".to_owned()),
                ("small/small.py", "small", None, "50 10".to_owned()),
                ("src/pack/main.py", "src", Some("pack.main"), String::new()),
                ("other/loop.py", "", None, String::new()),
            ]
        );
    }
}
