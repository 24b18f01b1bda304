//! The cluster report: what the coordinator writes and `ftest` checks.
