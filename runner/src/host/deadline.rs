//! How long ftest waits for things: every deadline of the runner, and the defaults of those that a suite can set.

use std::time::Duration;

/// Default of `timeout.kill`: a case.
pub const CASE: Duration = Duration::from_secs(120);
/// Default of `timeout.slow`: a case that takes longer is reported as slow.
pub const SLOW: Duration = Duration::from_secs(30);
/// Default of `timeout.grace`: from SIGTERM to SIGKILL.
pub const GRACE: Duration = Duration::from_secs(3);
/// Default of `timeout.survivors`: the other ranks, after one failed.
pub const SURVIVORS: Duration = Duration::from_secs(10);
/// Default of a fixture's `timeout.kill`: one of its steps.
pub const FIXTURE_STEP: Duration = Duration::from_secs(60);

/// From the start of a coordinator until it listens.
pub const COORDINATOR_READY: Duration = Duration::from_secs(10);
/// An exchange with a coordinator, which gives its ranks one second to answer.
pub const COORDINATOR_ANSWER: Duration = Duration::from_secs(5);
/// From SIGTERM until a coordinator has written its report.
pub const COORDINATOR_REPORT: Duration = Duration::from_secs(10);

/// Processes and streams that outlive a program by less than this are helpers about to exit; by more, they were left
/// behind.
pub const LEAVING: Duration = Duration::from_millis(500);
/// From SIGABRT until a Python rank has printed its stacks and died.
pub const STACKS: Duration = Duration::from_secs(2);
/// From SIGKILL until a process is gone.
pub const KILLED: Duration = Duration::from_secs(5);
/// From SIGTERM until srun has canceled its step.
pub const SRUN: Duration = Duration::from_secs(2);
/// From the last event of a case that Slurm runs, or the request to end it, until its srun has ended.
pub const SRUN_ENDS: Duration = Duration::from_secs(60);
/// scancel, for a step whose task could not be started.
pub const SCANCEL: Duration = Duration::from_secs(10);
/// From a task's connection request until the coordinator, on another machine, accepts it.
pub const COORDINATOR_REACHED: Duration = Duration::from_secs(10);
/// How long the guard keeps killing what a killed ftest left.
pub const GUARD: Duration = Duration::from_secs(4);

/// How long a run waits for the machines that are to join it.
pub const MACHINES_JOIN: Duration = Duration::from_secs(600);
/// From an order to an agent until it answers: the start of a process, a look at hanging ranks, the end of a case.
pub const MACHINE: Duration = Duration::from_secs(30);

/// gdb with one process.
pub const GDB: Duration = Duration::from_secs(2);
/// gdb with all processes of a case.
pub const GDB_ALL: Duration = Duration::from_secs(10);
/// A question to a Python interpreter.
pub const PYTHON_ANSWER: Duration = Duration::from_secs(60);
/// From the end of its tools until the thread that makes a Python environment notices, before ftest looks for new tools.
pub const PYTHON_TOOLS: Duration = Duration::from_millis(200);
/// From the start of a warm process until it has imported PyTorch.
pub const WARM_READY: Duration = Duration::from_secs(120);
/// From a request to a warm process until the fork exists.
pub const WARM_START: Duration = Duration::from_secs(30);
