//! Ranks that die or stop unannounced: the case fails at once and names them.

use std::time::Duration;

use super::attempts::{self, Attempt};
use super::command::PATIENCE;
use super::tally::Tally;
use super::workspace::Workspace;

/// A verdict that comes later than this did not come immediately, even on a loaded machine.
const AT_ONCE: Duration = Duration::from_secs(20);
/// The others wait for the dead rank until they are ended. By default they have ten seconds, which would take most of a
/// row's time.
const DEADLINES: &str = "timeout: { kill: 60s, grace: 1s, survivors: 2s }";

/// A suite in which rank `victim` of four does `act` before or while it works.
fn suite(acts: &[(&str, &str)], rest: &str) -> String {
    let ids: Vec<String> = acts.iter().enumerate().map(|(index, (_, act))| format!("'{index}': '{act}'")).collect();
    let names: Vec<String> = (0..acts.len()).map(|index| format!("'{index}'")).collect();
    format!(
        "ftest: 1
suite: deaths
defaults:
  cluster: {{ nodes: 2, gpus_per_node: 2, profile: a100 }}
cases:
  - id: one
    matrix: {{ axes: {{ act: [{}], victim: [0, 1, 2, 3] }}, max: 1000 }}
    {rest}
    env: {{ ACT: \"${{{{ {{{}}}[matrix.act] }}}}\", VICTIM: \"${{{{ matrix.victim }}}}\" }}
    launch:
      argv: [bash, -c, 'if [ $RANK = $VICTIM ]; then eval \"$ACT\"; fi; exec fixture-bench -b 256K -e 256K -n 1000000 -c 0']
      ranks: 4
",
        names.join(", "),
        ids.join(", ")
    )
}

/// Runs the suite and checks each attempt.
fn judge(
    workspace: &Workspace,
    acts: &[(&str, &str)],
    rest: &str,
    look: impl Fn(&Attempt, &str, &str) -> Result<(), String>,
) -> Result<Tally, String> {
    workspace.write("deaths.yaml", suite(acts, rest))?;
    // Most of a case is waiting.
    let arguments = ["run", "deaths.yaml", "--no-fail-fast", "-j4", "--runs-dir", "runs"];
    let ended = workspace.run(&mut workspace.ftest(&arguments), 10 * PATIENCE)?;
    let mut tally = Tally::new("deaths");
    if let Err(why) = ended.expect(&[1]) {
        tally.fault(why);
    }
    let (_, attempts) = attempts::attempts(&workspace.path("runs"))?;
    for attempt in &attempts {
        let axis = |name: &str| {
            let (_, rest) = attempt.case.split_once(&format!("{name}="))?;
            rest.split([',', ']']).next()
        };
        let (act, victim) = (axis("act").unwrap_or_default(), axis("victim").unwrap_or_default());
        let act = act.parse().ok().and_then(|index: usize| acts.get(index)).map_or("?", |(name, _)| name);
        tally.add(&format!("rank {victim}, {act}"), attempt.took, look(attempt, act, victim));
    }
    let expected = acts.len() * 4;
    if attempts.len() != expected {
        tally.fault(format!("{} attempts, expected {expected}: {}", attempts.len(), ended.text()));
    }
    Ok(tally)
}

/// Whether the case failed and named the victim, and no other rank, as the one that died.
fn named(attempt: &Attempt, act: &str, victim: &str) -> Result<(), String> {
    let printed = attempt.failures.join("\n");
    if attempt.verdict != "failed" {
        return Err(format!("the verdict is {}: {printed}", attempt.verdict));
    }
    if attempt.took > AT_ONCE {
        return Err(format!("the verdict came after {} s", attempt.took.as_secs()));
    }
    let end = act.strip_suffix(" later").unwrap_or(act);
    let end = end.split_once(" after ").map_or(end, |(end, _)| end);
    // "exit: rank 1, rank 2 end with code 0 | code 7"
    let rank = format!("rank {victim}");
    let blamed =
        |failure: &String| failure.split_once(" | ").is_some_and(|(who, how)| who.contains(&rank) && how == end);
    if attempt.failures.iter().any(blamed) { Ok(()) } else { Err(format!("`{rank}: {end}` is not said: {printed}")) }
}

/// Deaths before the first call of NCCL.
pub(super) fn before_nccl(workspace: &Workspace) -> Result<Tally, String> {
    let acts = [
        ("SIGKILL", "kill -KILL $$"),
        ("SIGABRT", "kill -ABRT $$"),
        ("SIGTERM", "kill -TERM $$"),
        ("code 7", "exit 7"),
        ("code 7 later", "sleep 0.3; exit 7"),
        ("SIGKILL later", "sleep 0.3; kill -KILL $$"),
    ];
    let mut tally = judge(workspace, &acts, DEADLINES, named)?;
    if !tally.failed() {
        tally.note("every victim named".to_owned());
    }
    Ok(tally)
}

/// Deaths at any moment of the work.
pub(super) fn at_work(workspace: &Workspace) -> Result<Tally, String> {
    let mut acts = Vec::new();
    for signal in ["KILL", "ABRT", "TERM"] {
        for after in ["0.005", "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2"] {
            acts.push((format!("SIG{signal} after {after} s"), format!("(sleep {after}; kill -{signal} $$) &")));
        }
    }
    if workspace.quick() {
        acts = acts.into_iter().step_by(5).collect();
    }
    let acts: Vec<(&str, &str)> = acts.iter().map(|(name, act)| (name.as_str(), act.as_str())).collect();
    let mut tally = judge(workspace, &acts, DEADLINES, named)?;
    if !tally.failed() {
        tally.note("every victim named".to_owned());
    }
    Ok(tally)
}

/// The ranks that others wait for, according to a hang's message: "... wait in all_reduce(...), for ranks 0 and 2; rank 0
/// ...".
fn missed(printed: &str) -> &str {
    let (_, rest) = printed.split_once(" for rank").unwrap_or_default();
    rest.split(';').next().unwrap_or_default()
}

/// Ranks that stop.
pub(super) fn stopped(workspace: &Workspace) -> Result<Tally, String> {
    let acts = [
        ("after 0.05 s", "(sleep 0.05; kill -STOP $$) &"),
        ("after 0.5 s", "(sleep 0.5; kill -STOP $$) &"),
        ("after 2 s", "(sleep 2; kill -STOP $$) &"),
    ];
    let acts = &acts[..workspace.times(1, acts.len(), acts.len())];
    let mut tally = judge(workspace, acts, "timeout: { idle: 2s, kill: 20s, grace: 1s }", |attempt, _, victim| {
        let printed = attempt.failures.join("\n");
        if attempt.verdict != "timeout" {
            return Err(format!("the verdict is {}: {printed}", attempt.verdict));
        }
        let stopped = format!("rank {victim} is stopped by a signal");
        if printed.contains(&stopped) || missed(&printed).contains(victim) {
            Ok(())
        } else {
            Err(format!("rank {victim} is not named: {printed}"))
        }
    })?;
    if !tally.failed() {
        tally.note("every victim named".to_owned());
    }
    Ok(tally)
}

/// A worker or its agent is killed while the others are in a collective.
const SCRIPT: &str = "
import os, signal, threading, torch, torch.distributed as dist
rank = int(os.environ['RANK'])
if rank == int(os.environ['VICTIM']):
    pid = os.getppid() if os.environ['PROCESS'] == 'agent' else os.getpid()
    threading.Timer(float(os.environ['AFTER']), os.kill, (pid, signal.SIGKILL)).start()
torch.cuda.set_device(int(os.environ['LOCAL_RANK']))
dist.init_process_group('nccl')
while True:
    dist.all_reduce(torch.ones(1000, device='cuda'))
    torch.cuda.synchronize()
";

/// Workers and agents of torchrun that are killed.
pub(super) fn torchrun(workspace: &Workspace) -> Result<Tally, String> {
    let after = if workspace.quick() { "'4'" } else { "'0', '5'" };
    let suite = format!(
        "ftest: 1
suite: workers
cases:
  - id: one
    matrix: {{ axes: {{ process: [worker, agent], after: [{after}], victim: [1, 3] }} }}
    cluster: {{ nodes: 2, gpus_per_node: 2, profile: a100 }}
    python: {{ torch: '2.15.0' }}
    env: {{ PROCESS: '${{{{ matrix.process }}}}', AFTER: '${{{{ matrix.after }}}}', VICTIM: '${{{{ matrix.victim }}}}' }}
    timeout: 100s
    launch: {{ torchrun: {{ nnodes: 2, nproc_per_node: 2, script: workers.py }} }}
"
    );
    workspace.write("workers.py", SCRIPT)?;
    workspace.write("workers.yaml", suite)?;
    let ended = workspace
        .run(&mut workspace.ftest(&["run", "workers.yaml", "--no-fail-fast", "--runs-dir", "runs"]), 10 * PATIENCE)?;
    let mut tally = Tally::new("deaths");
    if let Err(why) = ended.expect(&[1]) {
        tally.fault(why);
    }
    for attempt in attempts::attempts(&workspace.path("runs"))?.1 {
        let printed = attempt.failures.join("\n");
        let victim = if attempt.case.contains("victim=1") { 1 } else { 3 };
        let agent = attempt.case.contains("process=agent");
        let name = if agent { format!("launcher {}", victim / 2) } else { format!("rank {victim}") };
        // torchrun itself reports which of its workers was killed, and exits with 1.
        let named =
            attempt.failures.iter().any(|failure| failure.contains(&name) && (!agent || failure.ends_with("SIGKILL")));
        let outcome = match attempt.verdict.as_str() {
            "failed" if named => Ok(()),
            "failed" => Err(format!("{name} is not named: {printed}")),
            verdict => Err(format!("the verdict is {verdict}: {printed}")),
        };
        tally.add(&attempt.case, attempt.took, outcome);
    }
    if !tally.failed() {
        tally.note("every victim named".to_owned());
    }
    Ok(tally)
}
