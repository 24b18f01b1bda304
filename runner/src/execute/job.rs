//! Job control: Ctrl-Z stops ftest and everything that its cases run, `fg` or SIGCONT lets all go on.

use std::time::Instant;

use rustix::process::Signal;

use super::RunContext;
use super::clock;
use super::process_tree::kernel;
use super::process_tree::sweep::{Process, Sweep};

/// Passes over `/proc` until no process is found that still runs; a process that forks all the time could go on for ever.
const PASSES: usize = 16;

/// Stops all processes of the run, then this one. Returns once it was continued, after continuing the others.
pub fn pause(context: &RunContext) {
    let stopped = stop_all(&Sweep::new(context.cookie().clone()));
    pause_alone();
    for process in &stopped {
        process.signal(Signal::CONT);
    }
}

/// Stops this process, whose cases do not run. Returns once it was continued.
pub fn pause_alone() {
    let began = Instant::now();
    kernel::stop_here();
    clock::pass_over(began.elapsed());
}

/// Stops what the sweep finds, as long as it finds more; those that were stopped before are not among the result.
fn stop_all(sweep: &Sweep) -> Vec<Process> {
    let mut stopped: Vec<Process> = Vec::new();
    for _ in 0..PASSES {
        let running = sweep.find().into_iter().filter(|process| !matches!(process.state, 'T' | 't'));
        let new: Vec<Process> = running
            .filter(|process| !stopped.iter().any(|known| (known.pid, known.start) == (process.pid, process.start)))
            .filter(|process| process.signal(Signal::STOP))
            .collect();
        if new.is_empty() {
            break;
        }
        stopped.extend(new);
    }
    stopped
}
