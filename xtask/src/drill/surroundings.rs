//! Environments with few resources for ftest. A run passes there, or is broken with a message that names what is
//! missing; a program is never blamed for it.

use super::command::PATIENCE;
use super::tally::Tally;
use super::workspace::Workspace;

const SUITE: &str = "ftest: 1
suite: poor
cases:
  - id: sums
    cluster: { nodes: 1, gpus_per_node: 2, profile: a100 }
    timeout: 60s
    launch: { argv: [fixture-collectives, all_reduce], ranks: 2 }
";

/// What the shell does first, and the message of a broken run; empty if the run must pass.
const WAYS: &[(&str, &str)] = &[
    // Not even root can make a file in /proc.
    ("export HOME=/proc; unset XDG_CACHE_HOME", "FTEST_CACHE_DIR"),
    ("export HOME=/dev/null; unset XDG_CACHE_HOME", "FTEST_CACHE_DIR"),
    ("export HOME=/dev/null/home; unset XDG_CACHE_HOME", "FTEST_CACHE_DIR"),
    ("export HOME=; unset XDG_CACHE_HOME", "FTEST_CACHE_DIR"),
    ("unset HOME XDG_CACHE_HOME", "FTEST_CACHE_DIR"),
    ("export XDG_CACHE_HOME=/proc", "FTEST_CACHE_DIR"),
    ("export FTEST_CACHE_DIR=/proc", "FTEST_CACHE_DIR"),
    ("export FTEST_RUNS_DIR=/proc", ""),
    ("export FTEST_HOME=/proc", "FTEST_HOME"),
    ("export TMPDIR=/proc", "TMPDIR"),
    ("export TMPDIR=/dev/null/directory", "TMPDIR"),
    ("export TMPDIR=/dev/null", "TMPDIR"),
    ("export TMPDIR=", ""),
    ("unset TMPDIR", ""),
    ("export PATH=", ""),
    ("export PATH=/proc:/dev/null:.", ""),
    ("export LD_LIBRARY_PATH=/proc LANG=tr_TR.UTF-8 LC_ALL=tr_TR.UTF-8", ""),
    ("export CI=1 TERM=dumb COLUMNS=1 LINES=0", ""),
    ("unset $(compgen -e | grep -v -e ^FTEST_HOME$ -e ^HOME$)", ""),
    ("umask 777", "ermission"),
    ("umask 077", ""),
    ("ulimit -v 50000", "ulimit -v"),
    ("ulimit -v 200000", "ulimit -v"),
    ("ulimit -v 1000000", "ulimit -v"),
    ("ulimit -v 20000000", "ulimit -v"),
    ("ulimit -f 4", "ulimit -f"),
    ("ulimit -f 100", "ulimit -f"),
    ("ulimit -f 100000", "ulimit -f"),
    ("ulimit -n 10", "escriptor"),
    ("ulimit -n 32", "escriptor"),
    ("ulimit -n 64", "escriptor"),
    ("ulimit -n 256", "escriptor"),
    ("ulimit -s 128", ""),
    ("ulimit -s unlimited", ""),
    ("ulimit -c unlimited", ""),
    ("ulimit -l 0", ""),
    ("ulimit -q 0", ""),
    ("ulimit -i 0", ""),
    ("ulimit -t 60", ""),
    ("exec < /dev/full", ""),
    ("exec <&-", ""),
    ("trap '' TERM INT HUP PIPE CHLD", ""),
    ("nice -n 19 true; renice -n 19 $$ > /dev/null", ""),
];

pub(super) fn poor(workspace: &Workspace) -> Result<Tally, String> {
    let suite = workspace.write("poor.yaml", SUITE)?;
    let mut tally = Tally::new("runs");
    let rounds = workspace.times(1, 3, 3);
    let (mut passed, mut broken) = (0, 0);
    for (before, says) in WAYS {
        for _ in 0..rounds {
            let arguments = ["run", &*suite.to_string_lossy(), "--runs-dir", "runs"];
            let ended = workspace.run(&mut workspace.ftest_after(before, &arguments), PATIENCE)?;
            let codes: &[i32] = if says.is_empty() { &[0] } else { &[0, 3] };
            let outcome = ended.expect(codes).and_then(|()| match ended.code() {
                0 => Ok(()),
                _ if ended.text().contains(says) => Ok(()),
                code => Err(format!("ended with {code} and does not name `{says}`: {}", ended.text())),
            });
            *(if ended.code() == 0 { &mut passed } else { &mut broken }) += 1;
            tally.add(before, ended.took, outcome);
        }
    }
    tally.note(format!("{passed} passed, {broken} broken with what is missing"));
    Ok(tally)
}
