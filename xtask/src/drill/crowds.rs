//! Many at once: concurrent runs, and ranks in one cluster.

use std::fs;

use super::attempts;
use super::command::PATIENCE;
use super::tally::Tally;
use super::workspace::Workspace;

/// Runs at the same time.
const RUNS: usize = 8;

/// Eight concurrent runs of native suites: each with half of the cases, or (with `--long`) all of them.
pub(super) fn eight(workspace: &Workspace) -> Result<Tally, String> {
    let mut tally = Tally::new("runs");
    for round in 0..workspace.times(1, 1, 3) {
        let filter = if workspace.quick() { "case(/^(one-sided|streams|memory)/)" } else { "all()" };
        let mut runs = Vec::new();
        for number in 0..RUNS {
            let shard = if workspace.long() { "1/1".to_owned() } else { format!("{}/2", number % 2 + 1) };
            let runs_dir = workspace.path(&format!("runs-{round}-{number}"));
            let directory = runs_dir.to_string_lossy().into_owned();
            let mut command = workspace.ftest(&[
                "run",
                "smoke",
                "dist",
                "-E",
                filter,
                "--shard",
                &shard,
                "-j1",
                "--no-fail-fast",
                "--runs-dir",
                &directory,
            ]);
            runs.push((runs_dir, workspace.start(command.current_dir(&workspace.root))?));
        }
        for (runs_dir, run) in runs {
            let ended = run.end(10 * PATIENCE)?;
            let outcome = ended.expect(&[0]).and_then(|()| match attempts::attempts(&runs_dir)?.1.len() {
                0 => Err("no case was run".to_owned()),
                _ => Ok(()),
            });
            tally.add("a run", ended.took, outcome);
            let _ = fs::remove_dir_all(runs_dir);
        }
    }
    Ok(tally)
}

/// Native ranks that sum over all of them, in shared memory and over sockets.
pub(super) fn hundreds(workspace: &Workspace) -> Result<Tally, String> {
    let mut tally = Tally::new("runs");
    let sizes: &[usize] = if workspace.quick() { &[64] } else { &[64, 256, 1024] };
    for size in sizes {
        let text = format!(
            "ftest: 1
suite: hundreds
cases:
  - id: sums
    cluster: {{ nodes: {}, gpus_per_node: 8, profile: a100 }}
    timeout: 300s
    launch: {{ argv: [fixture-collectives, all_reduce, int32, sum, '1024', '3'], ranks: {size} }}
    expect:
      report: [{{ path: $.cluster.world_size, eq: {size} }}]
",
            size / 8
        );
        workspace.write("hundreds.yaml", text)?;
        // As in most shells.
        let mut command = workspace.ftest_after("ulimit -S -n 1024", &["run", "hundreds.yaml"]);
        let ended = workspace.run(&mut command, 3 * PATIENCE)?;
        tally.add(&format!("{size} ranks"), ended.took, ended.expect(&[0]));
    }
    Ok(tally)
}
