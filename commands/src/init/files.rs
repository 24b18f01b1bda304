//! The files that `ftest init` writes, as texts.

use super::survey::Program;

/// Where the suite is.
pub(super) const SUITE: &str = "suites/training.yaml";
/// Where the cluster is.
pub(super) const CLUSTER: &str = "clusters/small.yaml";
/// Where the workflow is.
pub(super) const WORKFLOW: &str = ".github/workflows/ftest.yml";
/// Where the program of the fixture is that makes images.
pub(super) const IMAGES: &str = "suites/make_images.py";
/// That program.
pub(super) const MAKE_IMAGES: &str = include_str!("make_images.py");
/// Where a program to start from is, in a repository without one.
pub(super) const EXAMPLE: &str = "suites/example.py";
/// That program.
pub(super) const EXAMPLE_PROGRAM: &str = include_str!("../../../docs/example/train.py");

/// Maximum ranks of a first suite: on a laptop, each is a process with PyTorch.
const MOST: u32 = 16;

/// The answers that were found or given.
#[derive(Clone, Debug, Default)]
pub(super) struct Choice {
    pub(super) program: Program,
    /// Its arguments in the suite.
    pub(super) arguments: Vec<String>,
    pub(super) nodes: u32,
    pub(super) gpus_per_node: u32,
    /// The value of `python` in the suite.
    pub(super) python: String,
    /// What a reader should know about it.
    pub(super) note: Option<String>,
    /// Directories for `PYTHONPATH`, from the repository's root.
    pub(super) python_path: Vec<String>,
    /// How many images a fixture makes for it to train on, if any.
    pub(super) images: Option<u32>,
    /// Whether it takes its local rank as an argument, as the launcher of PyTorch 1 gave it.
    pub(super) takes_local_rank: bool,
}

/// `2x4`: nodes, and GPUs per node.
///
/// # Errors
/// One sentence.
pub(super) fn place(text: &str) -> Result<(u32, u32), String> {
    let numbers = text.split_once(['x', 'X', '*']).map(|(nodes, gpus)| (nodes.trim().parse(), gpus.trim().parse()));
    match numbers {
        Some((Ok(nodes), Ok(gpus))) if nodes > 0 && gpus > 0 && u32::saturating_mul(nodes, gpus) <= MOST => {
            Ok((nodes, gpus))
        }
        Some((Ok(_), Ok(_))) => Err(format!("`{text}`: 1 to {MOST} GPUs in all, please")),
        _ => Err(format!("`{text}` is not like 2x4: nodes, then GPUs of each")),
    }
}

impl Choice {
    /// In words.
    pub(super) fn place(&self) -> String {
        let gpus = if self.gpus_per_node == 1 { "GPU" } else { "GPUs" };
        match self.nodes {
            1 => format!("one node with {} {gpus}", self.gpus_per_node),
            nodes => format!("{nodes} nodes with {} {gpus} each", self.gpus_per_node),
        }
    }

    pub(super) fn world(&self) -> u32 {
        self.nodes * self.gpus_per_node
    }

    /// The program as it is started, on one line.
    pub(super) fn command(&self) -> String {
        let name = self.program.module.as_ref().map_or_else(|| self.script(), |module| format!("-m {module}"));
        [name].iter().chain(&self.arguments).cloned().collect::<Vec<_>>().join(" ")
    }

    /// The program from its directory.
    fn script(&self) -> String {
        let below = self.program.path.strip_prefix(&self.program.directory).unwrap_or(&self.program.path);
        below.trim_start_matches('/').to_owned()
    }

    fn launch(&self) -> String {
        let words = |all: &[String]| all.iter().map(|one| quoted(one)).collect::<Vec<_>>().join(", ");
        let Choice { nodes, gpus_per_node, .. } = self;
        match &self.program.module {
            Some(module) => {
                let start = ["torchrun", "--standalone"].map(str::to_owned);
                // torchrun takes no argument after `--` for its own.
                let rest = [&format!("--nproc_per_node={gpus_per_node}"), "-m", "--", module].map(str::to_owned);
                format!("argv: [{}]", words(&[&start[..], &rest, &self.arguments].concat()))
            }
            None if self.program.spawns => {
                format!("argv: [python, {}]", words(&[&[self.script()], &self.arguments[..]].concat()))
            }
            None if self.takes_local_rank => {
                let shell = "exec python \"$0\" --local_rank=\"$LOCAL_RANK\" \"$@\"";
                let words = words(&[&[self.script()], &self.arguments[..]].concat());
                format!("argv: [sh, -c, '{shell}', {words}]\n      ranks: {}", self.world())
            }
            None => format!(
                "torchrun: {{ nnodes: {nodes}, nproc_per_node: {gpus_per_node}, script: {}, args: [{}] }}",
                quoted(&self.script()),
                words(&self.arguments)
            ),
        }
    }

    /// The first suite.
    pub(super) fn suite(&self) -> String {
        let Choice { python, .. } = self;
        let (world, place, launch) = (self.world(), self.place(), self.launch());
        let cwd = match self.program.directory.as_str() {
            "suites" => ".".to_owned(),
            directory => quoted(format!("../{directory}").trim_end_matches('/')),
        };
        let note = self.note.as_ref().map(|note| format!("  # {note}.\n")).unwrap_or_default();
        let path = |one: &String| format!("${{{{ repository }}}}/{one}").trim_end_matches('/').to_owned();
        let env = match self.python_path.as_slice() {
            [] => String::new(),
            places => {
                let places: Vec<String> = places.iter().map(path).collect();
                format!("  env: {{ PYTHONPATH: \"{}\" }}\n", places.join(":"))
            }
        };
        let fixtures = self.images.map_or(String::new(), |number| {
            format!(
                "\nfixtures:\n  # A few images in the place of the data set: DIR/train and DIR/val.\n  images:\n    \
                     scope: suite\n    cwd: .\n    \
                     setup: {{ argv: [python3, make_images.py, \"${{{{ dir.scratch }}}}\", '{number}'] }}\n    \
                     outputs: [DIR]\n"
            )
        });
        let uses = if self.images.is_some() { "    uses: [images]\n" } else { "" };
        // A program that gives up early may end with code 0, too.
        let (comment, check, because) = match world {
            1 => ("It used the GPU.", "\"$[*].devices[*].alloc.calls\", of: device, any: { gt: 0 }", "it used a GPU"),
            _ => ("The ranks met in NCCL.", "\"$.ranks[*].communicator_inits\", all: { gt: 0 }", "its ranks met"),
        };
        let report = format!(
            "      # {comment}\n      report:\n        - {{ path: {check}, because: the program ended before {because}; its output says why }}\n"
        );
        // A launch that starts ranks by itself has their number in its arguments, or takes all GPUs.
        let is_one_process = self.program.module.is_some() || self.program.spawns;
        let (question, relations) = match world > 1 && !is_one_process {
            true => ("on one GPU, and if new memory holds something else", "[{ ranks: 1 }, fresh-memory]"),
            false => ("if new memory holds something else", "[fresh-memory]"),
        };
        let relations = format!(
            "    # Next: is the result the same {question}? `ftest relations {SUITE}` tries what could matter.\n    \
                 # holds_under: {relations}\n    \
                 # compared: {{ numbers: 'loss[ :=]+(?P<loss>[0-9.]+)' }}\n"
        );
        let next = match world {
            1 => String::new(),
            _ => format!(
                "\n  # Next: what do the others do when a rank dies in its first all_reduce?\n  \
                   # - id: rank-killed\n  \
                   #   faults: [{{ at: {{ rank: {last}, collective: all_reduce }}, do: kill }}]\n{again}  \
                   #   launch:\n  \
                   #     {launch}\n  \
                   #   expect:\n  \
                   #     exit: {{ all: any }}\n  \
                   #     stderr: {{ contains: \"needs rank {last}, which will not arrive\" }}\n",
                last = world - 1,
                launch = launch.replace("\n    ", "\n  #   "),
                again = if self.images.is_some() { "  #   uses: [images]\n" } else { "" },
            ),
        };
        format!(
            "# Runs the training program on a simulated cluster: `ftest {SUITE}`.\n\
             ftest: 1\n\
             suite: training\n\
             \n\
             clusters:\n  \
               small: {{ file: ../{CLUSTER} }}\n\
             {fixtures}\
             \n\
             defaults:\n  \
               cluster: small\n  \
               # Where the program runs.\n  \
               cwd: {cwd}\n\
             {env}  \
               # What the program imports. PyTorch comes without the NVIDIA packages.\n\
             {note}  \
               python: {python}\n  \
               timeout: {{ kill: 5m, idle: 60s }}\n\
             \n\
             cases:\n  \
               - id: trains\n    \
                 title: the program runs to its end on {place}\n\
             {uses}    \
                 launch:\n      \
                   # Few steps of a small model are enough: add the arguments that make it so.\n      \
                   {launch}\n    \
                 expect:\n      \
                   exit: {{ all: {{ code: 0 }} }}\n\
             {report}\
             {relations}\
             {next}"
        )
    }

    /// The cluster of the suite.
    pub(super) fn cluster(&self) -> String {
        format!(
            "# A cluster for suites, and for `ftest exec --cluster {CLUSTER} -- COMMAND`. `ftest docs clusters` has every field.\n\
             nodes: {}\n\
             gpus_per_node: {}\n\
             profile: h100\n",
            self.nodes, self.gpus_per_node
        )
    }

    /// The workflow that runs the suite on every push.
    pub(super) fn workflow(&self) -> String {
        format!(
            "# Runs {SUITE} on every push.\n\
             name: ftest\n\
             on:\n  \
               push:\n  \
               pull_request:\n\
             permissions:\n  \
               contents: read\n\
             env:\n  \
               # Fill in: a URL or a path of ftest's wheel. No package index has ftest (the `ftest` of PyPI is another program):\n  \
               # `packaging/wheel DIRECTORY` in a checkout of ftest makes the file.\n  \
               FTEST_WHEEL: \"\"\n\
             jobs:\n  \
               distributed:\n    \
                 runs-on: ubuntu-latest\n    \
                 timeout-minutes: 30\n    \
                 steps:\n      \
                   - uses: actions/checkout@v4\n      \
                   - uses: actions/cache@v4\n        \
                     with:\n          \
                       path: ~/.cache/ftest\n          \
                       key: ftest-${{{{ runner.os }}}}-${{{{ hashFiles('{SUITE}', '**/requirements.txt', 'pyproject.toml') }}}}\n      \
                   - run: pip install \"${{FTEST_WHEEL:?fill it in, in {WORKFLOW}}}\"\n      \
                   - run: ftest {SUITE} --no-fail-fast --junit junit.xml --html report.html\n      \
                   - uses: actions/upload-artifact@v4\n        \
                     if: always()\n        \
                     with:\n          \
                       name: ftest\n          \
                       include-hidden-files: true\n          \
                       path: |\n            \
                         junit.xml\n            \
                         report.html\n            \
                         .ftest/runs\n"
        )
    }
}

/// A word quoted as YAML needs it.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "./=_-".contains(letter);
    let is_text = word.starts_with(|letter: char| letter.is_ascii_alphabetic() || "./_".contains(letter))
        || word.starts_with("--");
    let is_constant = matches!(
        word.to_ascii_lowercase().as_str(),
        "true" | "false" | "null" | "yes" | "no" | "on" | "off" | ".nan" | ".inf"
    );
    if is_text && !is_constant && word.chars().all(is_plain) && word.parse::<f64>().is_err() && word != "." {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "''"))
    }
}
