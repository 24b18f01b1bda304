//! ftest, its guard and its coordinator die in many orders, and all at once: no rank outlives them.
//! `cargo test -p commands --test integration -- lifelines:: --include-ignored` plays every order.

use std::fs;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::program;
use crate::waiting::until;

/// Ranks that compute and never call NCCL, each with a child in a session of its own, which nobody has started but itself.
const SUITE: &str = "ftest: 1
suite: s
clusters: {c: {nodes: 1, gpus_per_node: 2, profile: a100}}
defaults: {timeout: {kill: 500s}}
cases:
- id: ranks
  cluster: c
  coordinator: true
  launch: {argv: [sh, -c, 'setsid sleep 987 & echo $! > child.$RANK.new; mv child.$RANK.new child.$RANK; echo $$ > rank.$RANK.new; mv rank.$RANK.new rank.$RANK; exec sleep 987'], ranks: 2}
";

/// Who dies, in order; those of one group in the same moment.
type Order<'a> = &'a [&'a [Who]];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Runner,
    Guard,
    Coordinator,
}

/// An ftest at work on the suite.
struct Run {
    place: tempfile::TempDir,
    runner: Child,
}

impl Run {
    fn start() -> Run {
        let place = tempfile::tempdir_in("/tmp").unwrap();
        fs::write(place.path().join("s.yaml"), SUITE).unwrap();
        let mut command = program::ftest();
        command.arg("run").arg(place.path().join("s.yaml")).arg("--runs-dir").arg(place.path().join("runs"));
        command.env("TMPDIR", place.path()).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(fs::File::create(place.path().join("stderr")).unwrap());
        let runner = command.spawn().unwrap();
        Run { place, runner }
    }

    /// A process that wrote its number there.
    fn outcome(&self, name: &str) -> i32 {
        let path = self.place.path().join(name);
        let written = until(&format!("{name} starts"), || {
            let runs = runs(self.runner.id() as i32);
            let written = fs::read_to_string(&path).ok();
            if !runs && written.is_none() {
                panic!("ftest ended: {}", fs::read_to_string(self.place.path().join("stderr")).unwrap_or_default());
            }
            written
        });
        written.trim().parse().unwrap()
    }

    /// The process; none when `over` came before it was there.
    fn find(&self, who: Who, over: impl Fn() -> bool) -> Option<i32> {
        let runner = self.runner.id() as i32;
        let is = |pid: &i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line);
            let own = line.contains(&*self.place.path().to_string_lossy());
            let word = if who == Who::Guard { "__guard" } else { "fakegpu-coordinator" };
            own && line.contains(word) && parent(*pid) == Some(runner) && runs(*pid)
        };
        match who {
            Who::Runner => Some(runner),
            _ => until(&format!("{who:?} is there"), || match processes().into_iter().find(is) {
                None if over() => Some(None),
                found => found.map(Some),
            }),
        }
    }
}

impl Drop for Run {
    /// What a failed test leaves runs for a quarter of an hour.
    fn drop(&mut self) {
        let place = self.place.path().as_os_str().as_encoded_bytes().to_vec();
        for pid in processes() {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            if environment.windows(place.len()).any(|part| part == place) {
                signal(pid, Signal::KILL);
            }
        }
        let _ = self.runner.wait();
    }
}

fn processes() -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The state and the parent of a process that is there.
fn stat(pid: i32) -> Option<(char, i32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn parent(pid: i32) -> Option<i32> {
    stat(pid).map(|(_, parent)| parent)
}

fn runs(pid: i32) -> bool {
    stat(pid).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}

fn signal(pid: i32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(pid).unwrap(), signal);
}

/// Plays an order of deaths. Ranks must be gone afterwards, and with `all` also what they started themselves.
fn play(order: Order<'_>, all: bool) {
    let mut run = Run::start();
    let ranks = ["rank.0", "rank.1"].map(|name| run.outcome(name));
    let children = ["child.0", "child.1"].map(|name| run.outcome(name));
    let mut seats = [Who::Runner, Who::Guard, Who::Coordinator].map(|who| (who, run.find(who, || false).unwrap()));
    for moment in order {
        let over = || !ranks.iter().any(|pid| runs(*pid));
        for (who, pid) in &mut seats {
            // A guard that died is replaced while there is a runner; what the deaths before have ended cannot be killed.
            if *who == Who::Guard && runs(run.runner.id() as i32) {
                *pid = run.find(*who, over).unwrap_or(*pid);
            }
        }
        let victims = seats.iter().filter(|(who, pid)| moment.contains(who) && runs(*pid));
        let victims: Vec<i32> = victims.map(|(_, pid)| *pid).collect();
        // Who is stopped does nothing before it is killed.
        victims.iter().for_each(|pid| signal(*pid, Signal::STOP));
        victims.iter().for_each(|pid| signal(*pid, Signal::KILL));
        for pid in victims {
            until("a victim dies", || (!runs(pid)).then_some(()));
        }
        if moment.contains(&Who::Runner) {
            run.runner.wait().unwrap();
        }
    }
    run.is_over(&format!("{order:?}"), ranks, children, all);
    println!("killed {order:?}");
}

/// Kills all three one after the other; with `unaware`, nobody notices how the others go.
fn one_by_one(order: [Who; 3], unaware: bool) {
    let mut run = Run::start();
    let ranks = ["rank.0", "rank.1"].map(|name| run.outcome(name));
    let children = ["child.0", "child.1"].map(|name| run.outcome(name));
    let victims = order.map(|who| run.find(who, || false).unwrap());
    if unaware {
        victims.iter().for_each(|pid| signal(*pid, Signal::STOP));
    }
    for (who, pid) in order.into_iter().zip(victims) {
        signal(pid, Signal::KILL);
        if who == Who::Runner {
            run.runner.wait().unwrap();
        }
        until(&format!("{who:?} dies"), || (!runs(pid)).then_some(()));
    }
    run.is_over(&format!("{order:?}, unaware: {unaware}"), ranks, children, false);
}

impl Run {
    /// Ranks are gone after `deaths`, and with `all` also what they started themselves; nothing of ftest is left.
    fn is_over(&self, deaths: &str, ranks: [i32; 2], children: [i32; 2], all: bool) {
        for pid in ranks {
            until(&format!("{deaths}: the ranks go"), || (!runs(pid)).then_some(()));
        }
        for pid in children {
            if all {
                until(&format!("{deaths}: what the ranks started goes"), || (!runs(pid)).then_some(()));
            }
            signal(pid, Signal::KILL);
        }
        let left = |pid: &i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let ours = String::from_utf8_lossy(&line).contains(&*self.place.path().to_string_lossy());
            ours && runs(*pid)
        };
        until(&format!("{deaths}: nobody is left"), || (!processes().iter().any(left)).then_some(()));
    }
}

#[test]
fn whoever_is_left_ends_everything() {
    use Who::{Coordinator, Guard, Runner};
    play(&[&[Runner]], true);
    play(&[&[Guard], &[Runner]], true);
    play(&[&[Coordinator]], true);
    play(&[&[Coordinator, Guard]], true);
    play(&[&[Runner, Guard]], true);
    play(&[&[Runner, Coordinator]], true);
}

#[test]
fn ranks_go_in_every_order_of_deaths() {
    use Who::{Coordinator, Guard, Runner};
    // Only what a rank started itself may stay when no process is left that knows of it.
    play(&[&[Runner, Guard, Coordinator]], false);
    play(&[&[Guard], &[Guard], &[Runner, Coordinator]], true);
    play(&[&[Guard], &[Runner, Guard, Coordinator]], false);
}

#[test]
fn ranks_go_whoever_dies_first_second_and_last() {
    use Who::{Coordinator, Guard, Runner};
    let orders = [
        [Runner, Guard, Coordinator],
        [Runner, Coordinator, Guard],
        [Guard, Runner, Coordinator],
        [Guard, Coordinator, Runner],
        [Coordinator, Runner, Guard],
        [Coordinator, Guard, Runner],
    ];
    for order in orders {
        one_by_one(order, false);
        one_by_one(order, true);
    }
}

/// One after the other in every order, and every two and all three in one moment.
#[test]
#[ignore = "takes a minute; `cargo xtask drill` runs it"]
fn every_order() {
    use Who::{Coordinator, Guard, Runner};
    let all = [Runner, Guard, Coordinator];
    for first in all {
        // A guard alone is replaced, and the run goes on.
        if first != Guard {
            play(&[&[first]], true);
        }
        for second in all.into_iter().filter(|who| *who != first) {
            play(&[&[first], &[second]], true);
            let third = all.into_iter().find(|who| ![first, second].contains(who)).unwrap();
            // Who is left may die before it has ended what the ranks started themselves; the ranks go with their runner.
            play(&[&[first], &[second], &[third]], false);
            play(&[&[first], &[second, third]], false);
            play(&[&[first, second], &[third]], false);
        }
    }
    for pair in [[Runner, Guard], [Runner, Coordinator], [Guard, Coordinator]] {
        play(&[&pair], true);
    }
    play(&[&all], false);
}
