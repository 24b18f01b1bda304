//! Ranks that die or stand still without anybody having said so before: the case fails at once and names them.

use std::time::Duration;

use super::PATIENCE;
use super::place::{self, Attempt, Place};
use super::tally::Tally;

/// A verdict that comes later than this did not come at once.
const AT_ONCE: Duration = Duration::from_secs(20);

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

/// Runs the suite and looks at each attempt.
fn judge(
    place: &Place,
    acts: &[(&str, &str)],
    rest: &str,
    look: impl Fn(&Attempt, &str, &str) -> Result<(), String>,
) -> Result<Tally, String> {
    place.write("deaths.yaml", suite(acts, rest))?;
    let rounds = place.times(1, 3).to_string();
    let arguments = ["run", "deaths.yaml", "--no-fail-fast", "--repeat", &rounds, "--runs-dir", "runs"];
    let ended = place.run(&mut place.ftest(&arguments), 10 * PATIENCE)?;
    let mut tally = Tally::of("deaths");
    if let Err(why) = ended.expect(&[1]) {
        tally.fault(why);
    }
    let (_, attempts) = place::attempts(&place.path("runs"))?;
    for attempt in &attempts {
        let axis = |name: &str| {
            let (_, rest) = attempt.case.split_once(&format!("{name}="))?;
            rest.split([',', ']']).next()
        };
        let (act, victim) = (axis("act").unwrap_or_default(), axis("victim").unwrap_or_default());
        let act = act.parse().ok().and_then(|index: usize| acts.get(index)).map_or("?", |(name, _)| name);
        tally.add(&format!("rank {victim}, {act}"), attempt.took, look(attempt, act, victim));
    }
    let expected = (acts.len() * 4) * rounds.parse::<usize>().unwrap_or(1);
    if attempts.len() != expected {
        tally.fault(format!("{} attempts, expected {expected}: {}", attempts.len(), ended.text()));
    }
    Ok(tally)
}

/// A failed case that names the victim, and no other rank as the one that died.
fn named(attempt: &Attempt, act: &str, victim: &str) -> Result<(), String> {
    let said = attempt.failures.join("\n");
    if attempt.verdict != "failed" {
        return Err(format!("the verdict is {}: {said}", attempt.verdict));
    }
    if attempt.took > AT_ONCE {
        return Err(format!("the verdict came after {} s", attempt.took.as_secs()));
    }
    let word = act.split(' ').next().unwrap_or_default();
    let sentence = format!("rank {victim}: {}", if word == "code" { "code 7".to_owned() } else { word.to_owned() });
    if !said.contains(&sentence) {
        return Err(format!("`{sentence}` is not said: {said}"));
    }
    Ok(())
}

/// Deaths before the first call of NCCL.
pub(super) fn before_nccl(place: &Place) -> Result<Tally, String> {
    let acts = [
        ("SIGKILL", "kill -KILL $$"),
        ("SIGSEGV", "kill -SEGV $$"),
        ("SIGTERM", "kill -TERM $$"),
        ("code 7", "exit 7"),
        ("code 7 after a while", "sleep 0.3; exit 7"),
        ("SIGKILL after a while", "sleep 0.3; kill -KILL $$"),
    ];
    let mut tally = judge(place, &acts, "timeout: 60s", named)?;
    if !tally.failed() {
        tally.note("every victim named".to_owned());
    }
    Ok(tally)
}

/// Deaths at any moment of the work.
pub(super) fn at_work(place: &Place) -> Result<Tally, String> {
    let mut acts = Vec::new();
    for signal in ["KILL", "SEGV", "TERM"] {
        for after in ["0.005", "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2"] {
            acts.push((format!("SIG{signal} after {after} s"), format!("(sleep {after}; kill -{signal} $$) &")));
        }
    }
    if place.quick {
        acts = acts.into_iter().step_by(5).collect();
    }
    let acts: Vec<(&str, &str)> = acts.iter().map(|(name, act)| (name.as_str(), act.as_str())).collect();
    let mut tally = judge(place, &acts, "timeout: 60s", named)?;
    if !tally.failed() {
        tally.note("every victim named".to_owned());
    }
    Ok(tally)
}

/// Ranks that stand still.
pub(super) fn stopped(place: &Place) -> Result<Tally, String> {
    let acts = [
        ("after 0.05 s", "(sleep 0.05; kill -STOP $$) &"),
        ("after 0.5 s", "(sleep 0.5; kill -STOP $$) &"),
        ("after 2 s", "(sleep 2; kill -STOP $$) &"),
    ];
    let acts = &acts[..place.times(1, acts.len())];
    let mut tally = judge(place, acts, "timeout: { idle: 2s, kill: 60s }", |attempt, _, victim| {
        let said = attempt.failures.join("\n");
        if attempt.verdict != "timeout" {
            return Err(format!("the verdict is {}: {said}", attempt.verdict));
        }
        if attempt.took > AT_ONCE {
            return Err(format!("the verdict came after {} s", attempt.took.as_secs()));
        }
        let sentence = format!("for rank {victim}");
        if !said.contains(&sentence) {
            return Err(format!("`{sentence}` is not said: {said}"));
        }
        Ok(())
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
    pid = os.getppid() if os.environ['WHO'] == 'agent' else os.getpid()
    threading.Timer(float(os.environ['AFTER']), os.kill, (pid, signal.SIGKILL)).start()
torch.cuda.set_device(int(os.environ['LOCAL_RANK']))
dist.init_process_group('nccl')
while True:
    dist.all_reduce(torch.ones(1000, device='cuda'))
    torch.cuda.synchronize()
";

/// Workers and agents of torchrun that are killed.
pub(super) fn torchrun(place: &Place) -> Result<Tally, String> {
    let after = if place.quick { "'4'" } else { "'0', '4', '6'" };
    let suite = format!(
        "ftest: 1
suite: workers
cases:
  - id: one
    matrix: {{ axes: {{ who: [worker, agent], after: [{after}], victim: [1, 3] }} }}
    cluster: {{ nodes: 2, gpus_per_node: 2, profile: a100 }}
    python: {{ torch: '2.15.0' }}
    env: {{ WHO: '${{{{ matrix.who }}}}', AFTER: '${{{{ matrix.after }}}}', VICTIM: '${{{{ matrix.victim }}}}' }}
    timeout: 100s
    launch: {{ torchrun: {{ nnodes: 2, nproc_per_node: 2, script: workers.py }} }}
"
    );
    place.write("workers.py", SCRIPT)?;
    place.write("workers.yaml", suite)?;
    let ended =
        place.run(&mut place.ftest(&["run", "workers.yaml", "--no-fail-fast", "--runs-dir", "runs"]), 10 * PATIENCE)?;
    let mut tally = Tally::of("deaths");
    if let Err(why) = ended.expect(&[1]) {
        tally.fault(why);
    }
    for attempt in place::attempts(&place.path("runs"))?.1 {
        let said = attempt.failures.join("\n");
        let (victim, agent) =
            (if attempt.case.contains("victim=1") { 1 } else { 3 }, attempt.case.contains("who=agent"));
        let sentence = if agent { format!("launcher {}: SIGKILL", victim / 2) } else { format!("rank {victim}") };
        let outcome = match attempt.verdict.as_str() {
            "failed" if said.contains(&sentence) => Ok(()),
            "failed" => Err(format!("`{sentence}` is not said: {said}")),
            verdict => Err(format!("the verdict is {verdict}: {said}")),
        };
        tally.add(&attempt.case, attempt.took, outcome);
    }
    if !tally.failed() {
        tally.note("every victim named".to_owned());
    }
    Ok(tally)
}
