//! State shared by the cases of a file, and the names that their templates see.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use model::diagnostic::Diagnostic;
use model::node::Node;
use protocol::plan::ClusterPlan;
use serde_json::json;

use super::fixture_definitions::Definitions;
use super::honored;
use super::reader::Reader;
use super::template;

/// State shared by the cases of a file.
pub(super) struct Shared<'a> {
    pub(super) reader: &'a Reader<'a>,
    pub(super) suite: String,
    /// Absolute directory of the suite file.
    pub(super) dir: PathBuf,
    /// The root of the Git repository that contains it.
    pub(super) repository: Option<PathBuf>,
    /// The clusters by name; `None` for one with mistakes.
    pub(super) clusters: BTreeMap<String, Option<ClusterPlan>>,
    /// The entries of `clusters`, by name, for those that extend them.
    pub(super) definitions: BTreeMap<String, Node>,
    /// Clusters that a case names or another cluster extends.
    pub(super) used: BTreeSet<String>,
    pub(super) defaults: Option<&'a Node>,
    pub(super) fixtures: Definitions<'a>,
    /// What `defaults` have that some case does not honor.
    pub(super) unhonored: honored::Defaults,
    /// The time that its cases may take together.
    pub(super) timeout: Option<std::time::Duration>,
    /// Limits of groups, by name.
    pub(super) groups: BTreeMap<String, u32>,
    /// Each case fully resolved, if requested.
    pub(super) explained: Option<Vec<String>>,
    /// Mistakes in cluster files, with the files' texts.
    pub(super) foreign: Vec<(String, Vec<Diagnostic>)>,
}

impl Shared<'_> {
    /// The names that templates see.
    pub(super) fn context(
        &self,
        matrix: serde_json::Value,
        case: serde_json::Value,
        cluster: Option<&ClusterPlan>,
    ) -> serde_json::Value {
        let env: BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let mut context = json!({ "matrix": matrix, "case": case, "suite": self.suite, "dir": self.dir, "env": env });
        if let Some(cluster) = cluster {
            context["cluster"] = crate::case::cluster::describe(cluster);
        }
        if let Some(repository) = &self.repository {
            context[template::REPOSITORY] = json!(repository);
        }
        context
    }
}
