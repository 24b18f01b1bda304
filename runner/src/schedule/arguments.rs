//! The options that control a run: how many cases run at once, in which order, how often, and when to stop.

use clap::Args;
use protocol::schedule::Schedule;

use super::rounds::Rounds;
use super::slurm;

/// How a run goes.
#[derive(Args, Clone, Debug, Default)]
pub struct PaceArgs {
    /// CPU slots; a case takes `resources.cpus` of them [default: the number of cores]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Running")]
    pub jobs: Option<u32>,
    /// Start no more cases after N that did not pass: `--fail-fast` is 1, and the default unless CI is set
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1",
        value_parser = clap::value_parser!(u32).range(1..),
        conflicts_with = "no_fail_fast",
        help_heading = "Running"
    )]
    pub fail_fast: Option<u32>,
    /// Continue after cases that did not pass
    #[arg(long, help_heading = "Running")]
    pub no_fail_fast: bool,
    /// Run every case N times, whatever the result, without `retries`
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..),
        conflicts_with = "stress",
        help_heading = "Running"
    )]
    pub repeat: Option<u32>,
    /// Run all cases again and again, N times or for a time (10m), until one does not pass; --no-fail-fast continues
    #[arg(long, value_name = "N|TIME", help_heading = "Running")]
    pub stress: Option<Rounds>,
    /// Try every case with N seeds of delays, and report those that end differently than without delays
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..),
        conflicts_with_all = ["repeat", "stress", "schedule"],
        help_heading = "Running"
    )]
    pub chaos: Option<u32>,
    /// Run every case with these delays: a seed, and the longest delay [default: 5ms]
    #[arg(long, value_name = "SEED[:TIME]", help_heading = "Running")]
    pub schedule: Option<Schedule>,
    /// Start cases in a random order, or in that of SEED; reports keep the order of the suites
    #[arg(long, value_name = "SEED", num_args = 0..=1, require_equals = true, help_heading = "Running")]
    pub shuffle: Option<Option<u64>>,
}

/// Where cases run.
#[derive(Args, Clone, Debug, Default)]
pub struct ExecutorArgs {
    /// Start each case with srun: as a step of the allocation that ftest runs in, else as a job of its own
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with_all = ["list", "watch", "drive", "no_capture", "debug_rank", "repeat", "stress", "chaos"],
        help_heading = "Running"
    )]
    pub executor: Option<Executor>,
    /// With --executor: an option for srun, such as --srun=--partition=debug; may be repeated
    #[arg(long, value_name = "OPTION", requires = "executor", allow_hyphen_values = true, help_heading = "Running")]
    pub srun: Vec<String>,
}

/// What starts cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Executor {
    /// Slurm's srun.
    Slurm,
}

impl ExecutorArgs {
    /// CPU slots: those of the allocation, if cases run as its steps.
    pub fn slots(&self, pace: &PaceArgs) -> u32 {
        let of_allocation = self.executor.filter(|_| pace.jobs.is_none()).and_then(|Executor::Slurm| slurm::slots());
        of_allocation.unwrap_or_else(|| pace.slots())
    }
}

impl PaceArgs {
    /// CPU slots.
    pub fn slots(&self) -> u32 {
        self.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32))
    }

    /// How often cases run.
    pub fn rounds(&self) -> Rounds {
        self.stress.or(self.repeat.map(Rounds::Count)).unwrap_or_default()
    }

    /// The number of cases that did not pass after which no other is started.
    pub fn fail_fast(&self, in_ci: bool) -> Option<u32> {
        let default = if self.stress.is_some() {
            Some(1)
        } else if self.repeat.is_some() || in_ci {
            None
        } else {
            Some(1)
        };
        if self.no_fail_fast { None } else { self.fail_fast.or(default) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_a_run_stops_by_table() {
        let plain = PaceArgs::default();
        let given = PaceArgs { fail_fast: Some(3), ..PaceArgs::default() };
        let repeat = PaceArgs { repeat: Some(5), ..PaceArgs::default() };
        let stress = PaceArgs { stress: Some(Rounds::Count(5)), ..PaceArgs::default() };
        let on = PaceArgs { no_fail_fast: true, ..stress.clone() };
        for (arguments, at_desk, in_ci) in [
            (&plain, Some(1), None),
            (&given, Some(3), Some(3)),
            (&repeat, None, None),
            (&stress, Some(1), Some(1)),
            (&on, None, None),
        ] {
            assert_eq!((arguments.fail_fast(false), arguments.fail_fast(true)), (at_desk, in_ci), "{arguments:?}");
        }
    }
}
