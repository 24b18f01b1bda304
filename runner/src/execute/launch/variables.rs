//! The `FAKEGPU_*` variables of the environment, checked before anything starts.

use protocol::driver::Driver;
use protocol::env::{self, BadValue, Scope, Variable};
use protocol::sanitizer::Sanitizers;
use protocol::schedule::Schedule;

use super::profiles::{MOST, known, listed};
use crate::suite;

/// Variables whose value must be one of the words in `values`.
const CHOICES: [Variable; 10] = [
    env::MODE,
    env::OOM_POLICY,
    env::UNSUPPORTED_API,
    env::EVENT_CLOCK,
    env::CLOCK,
    env::DIST_MODE,
    env::COORDINATOR_TRANSPORT,
    env::CPU_GEMM_MODE,
    env::COMPUTE,
    env::NCCL_FAULT_OPERATION,
];

/// Checks a value against its variable; free text always passes.
///
/// # Errors
/// [`BadValue`].
pub fn check(variable: &Variable, value: &str) -> Result<(), BadValue> {
    let number = |min, max| variable.integer(value, min, max).map(drop);
    match variable.name {
        name if CHOICES.iter().any(|choice| choice.name == name) => {
            let words: Vec<&str> = variable.values.split(", ").collect();
            variable.choose(value, &words).map(drop)
        }
        name if name == env::SANITIZE.name => Sanitizers::parse(value).map(drop),
        name if name == env::SCHEDULE.name => value.parse::<Schedule>().map(drop).map_err(|_| variable.bad(value)),
        name if name == env::STRICT_COMPAT.name
            || name == env::TERMINAL_REPORT.name
            || name == env::STAGING_FORCE_SOCKET.name =>
        {
            variable.switch(value).map(drop)
        }
        name if name == env::DRIVER.name => {
            let known = Driver::parse(value).map(drop);
            known.ok_or_else(|| BadValue { expected: Driver::expected(), ..variable.bad(value) })
        }
        name if name == env::DEVICE_COUNT.name => number(1, MOST),
        name if name == env::STAGING_CHUNK_BYTES.name
            || name == env::STAGING_MAX_BYTES.name
            || name == env::COORDINATOR_TIMEOUT_MS.name
            || name == env::NCCL_FAULT_SEQNO.name =>
        {
            number(1, u64::MAX)
        }
        name if name == env::NCCL_FAULT_RANK.name || name == env::COORDINATOR_IDLE_MS.name => {
            number(0, u64::from(u32::MAX))
        }
        name if name == env::CPU_GEMM_MAX_OPS.name => number(0, u64::MAX),
        name if name == env::CLUSTER_REPORT_MAX_OPERATIONS.name => number(0, 1_000_000),
        name if name == env::PROFILE.name => known(variable, value, value).map(drop),
        name if name == env::PROFILES.name => listed(value).map(drop),
        _ => Ok(()),
    }
}

/// Checks every `FAKEGPU_*` variable of our own environment, so that a bad value is reported before anything starts.
///
/// # Errors
/// The first [`BadValue`], in the order of the documentation.
pub fn check_environment() -> Result<(), BadValue> {
    for variable in env::ALL.iter().filter(|variable| variable.name.starts_with("FAKEGPU_")) {
        if let Some(value) = std::env::var_os(variable.name).filter(|value| !value.is_empty()) {
            let Some(value) = value.to_str() else { return Err(variable.bad(&value.to_string_lossy())) };
            check(variable, value)?;
        }
    }
    Ok(())
}

/// What is worth knowing about the variables of our own environment: misspelled names, and with `cases` settings that cases do not
/// see.
pub fn notes(cases: bool) -> Vec<String> {
    // A case that runs ftest has what its own ftest has set.
    if std::env::var_os(env::COOKIE.name).is_some() {
        return Vec::new();
    }
    let mut names: Vec<String> = std::env::vars_os()
        .filter(|(_, value)| !value.is_empty())
        .filter_map(|(name, _)| name.into_string().ok())
        .collect();
    names.sort_unstable();
    names.iter().filter_map(|name| note(name, cases)).collect()
}

fn note(name: &str, cases: bool) -> Option<String> {
    if let Some(near) = suite::variables::misspelled(name) {
        let near = near.map_or_else(|| "nothing reads it".to_owned(), |near| format!("did you mean {near}?"));
        return Some(format!("unknown variable {name}; {near}"));
    }
    let variable = env::ALL.iter().find(|variable| variable.name == name).filter(|_| cases)?;
    match variable.scope {
        Scope::Cluster | Scope::Coordinator | Scope::OwnCoordinator => {
            Some(format!("cases do not see {name}: set it in `env` of the suite"))
        }
        Scope::Key(advice) => Some(format!("cases do not see {name}: {advice}")),
        Scope::RealGpus => Some(format!("cases do not see {name}: their GPUs are simulated")),
        Scope::Inherited | Scope::Ftest(_) | Scope::Run(_) | Scope::Ours => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_does_not_pass_on_is_noted() {
        let said = |name: &str, cases| note(name, cases).unwrap_or_default();
        assert_eq!(said("FAKEGPU_COMPUTE", true), "cases do not see FAKEGPU_COMPUTE: set it in `env` of the suite");
        assert_eq!(said("FAKEGPU_COMPUTE", false), "");
        assert!(said("FAKEGPU_SANITIZE", true).contains("write `sanitize:"));
        assert_eq!(said("FAKEGPU_COMPUT", false), "unknown variable FAKEGPU_COMPUT; did you mean FAKEGPU_COMPUTE?");
        assert_eq!(said("FTEST_PYTHN", true), "unknown variable FTEST_PYTHN; did you mean FTEST_PYTHON?");
        for name in ["FTEST_PYTHON", "FTEST_MY_OWN", "FTEST_NVIDIA_SMI", "HOME", "FTEST_PYTHON_OF_MINE"] {
            assert_eq!(said(name, true), "", "{name}");
        }
    }

    #[test]
    fn every_value_that_the_shim_would_refuse_is_refused_before_the_start() {
        for (variable, good, bad, says) in [
            (&env::COMPUTE, "skip", "gpu", "expected cpu, skip"),
            (&env::SANITIZE, "races,init", "races,inti", "did you mean `init`?"),
            (&env::SANITIZE, "none", "all", "expected races, init, finite, replicas, memory, shared-races, sync, none"),
            (&env::SCHEDULE, "7:5ms", "7:5", "expected a seed, or a seed and the longest delay: 7:5ms"),
            (&env::SCHEDULE, "7", "x", "FAKEGPU_SCHEDULE=x"),
            (&env::NCCL_FAULT_OPERATION, "reduce", "reduc", "did you mean `reduce`?"),
            (&env::CLOCK, "modeled", "model", "expected real, modeled, fast; did you mean `modeled`?"),
            (&env::EVENT_CLOCK, "wall", "wal", "expected work, wall; did you mean `wall`?"),
            (&env::COORDINATOR_IDLE_MS, "0", "soon", "FAKEGPU_COORDINATOR_IDLE_MS=soon"),
        ] {
            assert_eq!(check(variable, good), Ok(()), "{good}");
            let error = check(variable, bad).unwrap_err().to_string();
            assert!(error.starts_with(variable.name) && error.contains(says), "{error}");
        }
    }
}
