//! The files that `ftest init` writes, as texts.

/// Where the suite is.
pub(super) const SUITE: &str = "suites/training.yaml";
/// Where the cluster is.
pub(super) const CLUSTER: &str = "clusters/small.yaml";
/// Where the workflow is.
pub(super) const WORKFLOW: &str = ".github/workflows/ftest.yml";

/// Maximum ranks of a first suite: on a laptop, each is a process with PyTorch.
const MOST: u32 = 16;

/// The answers that were found or given.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    /// The program, from the repository's root.
    pub(super) script: Option<String>,
    pub(super) nodes: u32,
    pub(super) gpus_per_node: u32,
    /// The value of `python` in the suite.
    pub(super) python: String,
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

    /// The first suite.
    pub(super) fn suite(&self) -> String {
        let Choice { script, nodes, gpus_per_node, python } = self;
        let (script, world) = (script.clone().unwrap_or_default(), nodes * gpus_per_node);
        let script = quoted(&format!("../{script}"));
        let place = self.place();
        format!(
            "# Runs the training program on a simulated cluster: `ftest {SUITE}`.\n\
             ftest: 1\n\
             suite: training\n\
             \n\
             clusters:\n  \
               small: {{ file: ../{CLUSTER} }}\n\
             \n\
             defaults:\n  \
               cluster: small\n  \
               # What the program imports. PyTorch comes without the NVIDIA packages.\n  \
               python: {python}\n  \
               timeout: {{ kill: 5m, idle: 30s }}\n\
             \n\
             cases:\n  \
               - id: trains\n    \
                 title: the program runs to its end on {place}\n    \
                 launch:\n      \
                   # Few steps of a small model are enough: add the arguments that make it so.\n      \
                   torchrun: {{ nnodes: {nodes}, nproc_per_node: {gpus_per_node}, script: {script}, args: [] }}\n    \
                 expect:\n      \
                   exit: {{ all: {{ code: 0 }} }}\n      \
                   report:\n        \
                     - {{ path: $.cluster.world_size, eq: {world} }}\n\
             \n  \
               - id: rank-killed\n    \
                 title: the other ranks notice when one dies in its first all_reduce\n    \
                 faults: [{{ at: {{ rank: {last}, collective: all_reduce }}, do: kill }}]\n    \
                 launch:\n      \
                   torchrun: {{ nnodes: {nodes}, nproc_per_node: {gpus_per_node}, script: {script}, args: [] }}\n    \
                 expect:\n      \
                   exit: {{ all: any }}\n      \
                   stderr: {{ contains: \"needs rank {last}, which will not arrive\" }}\n",
            last = world - 1,
        )
    }

    /// The cluster of the suite.
    pub(super) fn cluster(&self) -> String {
        format!(
            "# A cluster for suites, and for `ftest exec --cluster {CLUSTER} -- COMMAND`. docs/clusters.md has every field.\n\
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
             jobs:\n  \
               distributed:\n    \
                 runs-on: ubuntu-latest\n    \
                 timeout-minutes: 30\n    \
                 steps:\n      \
                   - uses: actions/checkout@v4\n      \
                   - uses: actions/cache@v4\n        \
                     with:\n          \
                       path: ~/.cache/ftest\n          \
                       key: ftest-${{{{ runner.os }}}}-${{{{ hashFiles('{SUITE}', 'requirements.txt', 'pyproject.toml') }}}}\n      \
                   # Or the file of a wheel, or the URL of a release's.\n      \
                   - run: pip install ftest\n      \
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
pub(in crate::commands) fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "./=_-".contains(letter);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "''")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite;

    #[test]
    fn nodes_and_gpus_are_read_or_refused_with_a_reason() {
        assert_eq!(place("2x4"), Ok((2, 4)));
        assert_eq!(place("1 X 2"), Ok((1, 2)));
        for (text, part) in [("0x2", "1 to 16"), ("5x4", "1 to 16"), ("2", "not like 2x4"), ("axb", "not like 2x4")] {
            assert!(place(text).unwrap_err().contains(part), "{text}");
        }
    }

    #[test]
    fn the_suite_is_one_and_says_what_was_chosen() {
        for (script, nodes, gpus_per_node) in [("train.py", 1, 2), ("a b/it's.py", 2, 4)] {
            let python = "[torch==2.15.0, numpy]".to_owned();
            let choice = Choice { script: Some(script.to_owned()), nodes, gpus_per_node, python };
            let root = tempfile::tempdir().unwrap();
            let file = root.path().join(SUITE);
            for (path, text) in [(SUITE, choice.suite()), (CLUSTER, choice.cluster()), (script, String::new())] {
                let path = root.path().join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            let suite = suite::load(&file).unwrap_or_else(|error| panic!("{error}\n{}", choice.suite()));
            assert_eq!(suite.cases.len(), 2);
            let world = format!("eq: {}", nodes * gpus_per_node);
            assert!(choice.suite().contains(&world), "{}", choice.suite());
        }
    }
}
