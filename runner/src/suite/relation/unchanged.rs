//! A case as its relations find it.

use std::collections::BTreeMap;
use std::path::Path;

use protocol::plan::ClusterPlan;
use protocol::schedule::Schedule;

use crate::case::Launch;

/// What relations change of a case.
#[derive(Clone, Copy)]
pub(crate) struct Unchanged<'a> {
    pub(crate) launch: Option<&'a Launch>,
    pub(crate) cluster: Option<&'a ClusterPlan>,
    pub(crate) coordinator: bool,
    pub(crate) has_network: bool,
    pub(crate) schedule: Option<Schedule>,
    pub(crate) env: &'a BTreeMap<String, String>,
    pub(crate) env_unset: &'a [String],
    pub(crate) cwd: &'a Path,
}
