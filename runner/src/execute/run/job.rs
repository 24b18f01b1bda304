//! Job control: Ctrl-Z stops ftest and everything that its cases run; `fg` or SIGCONT continues all of it.

use std::time::Instant;

use rustix::process::Signal;

use super::clock;
use crate::execute::RunContext;
use crate::execute::process_tree::kernel;
use crate::execute::process_tree::sweep::{Process, Sweep};

/// Maximum passes over `/proc` to find processes that still run; a process that keeps forking could go on forever.
const PASSES: usize = 16;

/// Stops all processes of the run, then this one. Returns after this process was continued and has continued the
/// others.
pub fn pause(context: &RunContext) {
    let stopped = stop_all(&Sweep::new(context.cookie().clone()));
    pause_alone();
    for process in &stopped {
        process.signal(Signal::CONT);
    }
}

/// Stops this process while no case runs. Returns after it was continued.
pub fn pause_alone() {
    let began = Instant::now();
    kernel::stop_here();
    clock::pass_over(began.elapsed());
}

/// Stops the processes that the sweep finds, until it finds no more; processes that were already stopped are not in the
/// result.
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
