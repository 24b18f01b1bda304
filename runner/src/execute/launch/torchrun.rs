//! torchrun as a launcher: its command line, where it logs its workers, and what its summary reports about their exits.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use crate::observation::Exit;

/// The variable from which torchrun takes the address of node 0 if no option has it.
pub const MASTER: &str = "PET_MASTER_ADDR";

/// Ends torchrun's own options. Without it, torchrun refuses arguments of the program that abbreviate several of those: `--logs`.
pub const END: &str = "--";

/// What to run.
#[derive(Clone, Debug)]
pub struct Torchrun<'a> {
    /// The interpreter.
    pub python: &'a Path,
    /// Ranks per node.
    pub nproc_per_node: u32,
    /// Nodes.
    pub nnodes: u32,
    /// The program.
    pub script: &'a Path,
    /// Its arguments.
    pub arguments: &'a [String],
    /// How many times workers may be restarted.
    pub max_restarts: u32,
    /// Address of node 0 for the others; used with several nodes. If absent, a variable ([`MASTER`]) has it.
    pub master: Option<IpAddr>,
    /// Its port there.
    pub port: u16,
    /// Contains a log directory for every node.
    pub logs: &'a Path,
    /// Whether workers also write to the launcher's stdout.
    pub tee: bool,
}

impl Torchrun<'_> {
    /// The command of one node, or of any node if the node is left to [`variables`].
    pub fn argv(&self, node: Option<u32>) -> Vec<OsString> {
        let mut argv: Vec<OsString> = vec![self.python.into(), "-m".into(), "torch.distributed.run".into()];
        let mut flag = |name: &str, value: &dyn std::fmt::Display| argv.push(format!("--{name}={value}").into());
        flag("nproc-per-node", &self.nproc_per_node);
        flag("nnodes", &self.nnodes);
        flag("max-restarts", &self.max_restarts);
        if self.nnodes == 1 {
            // Port 0: torchrun takes a free one and passes it to its workers.
            flag("rdzv-backend", &"c10d");
            flag("rdzv-endpoint", &"localhost:0");
        } else {
            // The static rendezvous gives node N the ranks of node N, regardless of the order in which launchers start.
            flag("rdzv-backend", &"static");
            if let Some(node) = node {
                flag("node-rank", &node);
            }
            if let Some(master) = &self.master {
                flag("master-addr", master);
            }
            flag("master-port", &self.port);
        }
        if let Some(node) = node {
            flag("log-dir", &log_directory(self.logs, node).display());
        }
        flag("redirects", &3);
        if self.tee {
            flag("tee", &3);
        }
        argv.push(END.into());
        argv.push(self.script.into());
        argv.extend(self.arguments.iter().map(OsString::from));
        argv
    }
}

/// Where torchrun's own options end in a command that [`Torchrun::argv`] made, whose program has this many arguments.
pub fn end_of_options(argv: &[OsString], arguments: usize) -> usize {
    argv.len().saturating_sub(arguments + 2)
}

/// The variables that tell the torchrun of `node` its place and where to log, below `scratch`; torchrun reads options from
/// variables, too.
pub fn variables(scratch: &Path, node: u32) -> [(&'static str, OsString); 2] {
    [("PET_NODE_RANK", node.to_string().into()), ("PET_LOG_DIR", log_directory(scratch, node).into())]
}

/// Where the torchrun of `node` logs.
fn log_directory(scratch: &Path, node: u32) -> PathBuf {
    scratch.join(format!("torchrun-{node}"))
}

/// The stdout and stderr files of a worker in its last attempt; `None` if it never started.
pub fn logs_of(scratch: &Path, node: u32, local_rank: u32) -> Option<(PathBuf, PathBuf)> {
    // LOGS/{run id}_{random}/attempt_{n}/{local rank}/stdout.log (torch/distributed/elastic/multiprocessing/api.py).
    let mut last: Option<(u32, PathBuf)> = None;
    for run in std::fs::read_dir(log_directory(scratch, node)).ok()?.flatten() {
        let Ok(attempts) = std::fs::read_dir(run.path()) else { continue };
        for attempt in attempts.flatten() {
            let name = attempt.file_name();
            let Some(number) = name.to_str().and_then(|name| name.strip_prefix("attempt_")?.parse().ok()) else {
                continue;
            };
            let worker = attempt.path().join(local_rank.to_string());
            if worker.is_dir() && last.as_ref().is_none_or(|(seen, _)| *seen < number) {
                last = Some((number, worker));
            }
        }
    }
    let (_, worker) = last?;
    Some((worker.join("stdout.log"), worker.join("stderr.log")))
}

/// The exits of failed workers, by global rank, as listed in torchrun's last summary on stderr.
pub fn failures(stderr: &[u8]) -> BTreeMap<u32, Exit> {
    let text = String::from_utf8_lossy(stderr);
    let mut failures = BTreeMap::new();
    let mut rank = None;
    for line in text.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let mut words = value.split_ascii_whitespace();
        match (key.trim(), words.next().and_then(|word| word.parse::<i32>().ok())) {
            ("rank", Some(number)) => rank = u32::try_from(number).ok(),
            ("exitcode", Some(code)) => {
                if let Some(rank) = rank.take() {
                    failures.insert(rank, if code < 0 { Exit::Signal(-code) } else { Exit::Code(code) });
                }
            }
            _ => {}
        }
    }
    failures
}

/// A teed line as the worker wrote it, and its local rank: torchrun puts `[role local-rank]:` before it.
pub fn teed(line: &[u8]) -> Option<(u32, &[u8])> {
    let rest = line.strip_prefix(b"[default")?;
    let end = rest.windows(2).position(|pair| pair == b"]:")?;
    let local_rank = std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
    Some((local_rank, &rest[end + 2..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_gives_codes_and_signals() {
        let stderr = b"W1121 run.py:1] x\n============\nt.py FAILED\n------\nFailures:\n[1]:\n  time      : 2026-11-21_00:00:00\n  host      : h\n  rank      : 3 (local_rank: 1)\n  exitcode  : 7 (pid: 12)\n  error_file: <N/A>\n------\nRoot Cause (first observed failure):\n[0]:\n  rank      : 2 (local_rank: 0)\n  exitcode  : -9 (pid: 11)\n";
        let expected = BTreeMap::from([(2, Exit::Signal(9)), (3, Exit::Code(7))]);
        assert_eq!(failures(stderr), expected);
        assert!(failures(b"rank: nothing\nexitcode : 3\n").is_empty());
    }

    #[test]
    fn arguments_of_the_program_are_not_torchruns() {
        let arguments = ["--logs".to_owned(), "x".to_owned()];
        let command = Torchrun {
            python: Path::new("python"),
            nproc_per_node: 2,
            nnodes: 1,
            script: Path::new("train.py"),
            arguments: &arguments,
            max_restarts: 0,
            master: None,
            port: 1,
            logs: Path::new("/logs"),
            tee: false,
        };
        let argv = command.argv(Some(0));
        let end = end_of_options(&argv, arguments.len());
        assert_eq!(argv[end..], ["--", "train.py", "--logs", "x"]);
        assert_eq!(argv[end - 1], "--redirects=3");
    }

    #[test]
    fn a_teed_line_gives_its_worker() {
        assert_eq!(teed(b"[default3]:step 1"), Some((3, &b"step 1"[..])));
        assert_eq!(teed(b"step 1"), None);
    }

    #[test]
    fn the_last_attempt_counts() {
        let root = tempfile::tempdir().unwrap();
        for attempt in [0, 2, 10] {
            std::fs::create_dir_all(root.path().join(format!("torchrun-1/none_x/attempt_{attempt}/0"))).unwrap();
        }
        let (stdout, _) = logs_of(root.path(), 1, 0).unwrap();
        assert!(stdout.ends_with("attempt_10/0/stdout.log"));
        assert_eq!(logs_of(root.path(), 1, 4), None);
    }
}
