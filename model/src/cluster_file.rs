//! The cluster file: turns YAML, in long or short form, into a checked [`ClusterPlan`], and reports all mistakes at
//! once.
//!
//! FakeGPU's schema, read as real YAML. Its `policies:` section, which it accepted and ignored, is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use protocol::driver::Driver;
use protocol::ids::Rank;
use protocol::plan::{ClusterPlan, FabricPlan, NodePlan};
use protocol::profile::{self, GpuProfile};

use crate::checker::{Checker, find};
use crate::diagnostic::Diagnostic;
use crate::machine_section;
use crate::node::{Entry, Node, Value};
use crate::yaml;

/// Returns the text of a profile file, given its path as in the cluster file, or a sentence that says why it cannot.
pub type LoadProfile<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// The largest number of ranks in a cluster.
pub const MAX_RANKS: u32 = 4096;

/// The keys of each mapping in a cluster file.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    /// The file itself.
    pub file: &'static [&'static str],
    /// `cluster`.
    pub cluster: &'static [&'static str],
    /// An item of `nodes`.
    pub node: &'static [&'static str],
    /// An item of a node's `gpus`.
    pub gpu: &'static [&'static str],
    /// `fabric`.
    pub fabric: &'static [&'static str],
    /// `fabric.intra_node` and `fabric.inter_node`.
    pub link: &'static [&'static str],
    /// `machine`, where it is a mapping.
    pub machine: &'static [&'static str],
}

/// The keys that [`parse`] and [`from_node`] accept.
pub const KEYS: Keys = Keys {
    file: &["version", "cluster", "name", "nodes", "gpus_per_node", "profile", "fabric", "machine"],
    cluster: &["name", "default_backend"],
    node: &["id", "host", "ranks", "gpus"],
    gpu: &["profile"],
    fabric: &["intra_node", "inter_node"],
    link: &["type", "bandwidth_gbps", "latency_us", "oversubscription"],
    machine: machine_section::KEYS,
};

/// The default fabrics, if the file names none: (type, Gbit/s, us).
const DEFAULT_INTRA: (&str, f64, f64) = ("nvlink", 300.0, 3.0);
const DEFAULT_INTER: (&str, f64, f64) = ("infiniband", 200.0, 15.0);

/// The cluster that `text`, the content of `file`, describes.
///
/// # Errors
/// All mistakes of the file, in its order.
pub fn parse(file: &str, text: &str, load_profile: LoadProfile<'_>) -> Result<ClusterPlan, Vec<Diagnostic>> {
    let mut mistakes = Vec::new();
    let Some(node) = yaml::read_on::<Node>(file, text, &mut mistakes) else { return Err(mistakes) };
    match from_node(file, text, &node, "cluster", load_profile) {
        Ok(plan) if mistakes.is_empty() => Ok(plan),
        Ok(_) => Err(mistakes),
        Err(found) => {
            mistakes.extend(found);
            mistakes.sort_by_key(|mistake| mistake.span.start);
            Err(mistakes)
        }
    }
}

/// A cluster that is part of another file: `node` was read from `text`, the whole content of `file`. `name` is the
/// cluster's name unless it has its own.
///
/// # Errors
/// All mistakes of the cluster, in the order of the file.
pub fn from_node(
    file: &str,
    text: &str,
    node: &Node,
    name: &str,
    load_profile: LoadProfile<'_>,
) -> Result<ClusterPlan, Vec<Diagnostic>> {
    let mut reader =
        Reader { check: Checker::new(file, text), load_profile, loaded: BTreeMap::new(), custom: BTreeMap::new() };
    let plan = reader.cluster(node, name);
    let mistakes = reader.check.finish();
    match plan {
        Some(plan) if mistakes.is_empty() => Ok(plan),
        _ => Err(mistakes),
    }
}

struct Reader<'a> {
    check: Checker<'a>,
    load_profile: LoadProfile<'a>,
    /// Path as written -> profile id, `None` after a mistake.
    loaded: BTreeMap<String, Option<String>>,
    custom: BTreeMap<String, GpuProfile>,
}

/// A node as written: its ranks with their places, for the checks across all nodes.
struct WrittenNode {
    plan: NodePlan,
    ranks: Vec<(Rank, Range<usize>)>,
    complete: bool,
}

impl Reader<'_> {
    fn cluster(&mut self, node: &Node, default_name: &str) -> Option<ClusterPlan> {
        if let Value::Map(entries) = &node.value
            && let Some(policies) = find(entries, "policies")
        {
            self.check.mistake(&policies.key_span, "`policies` has no effect", "remove the section");
        }
        let known: Vec<&str> = KEYS.file.iter().copied().chain(["policies"]).collect();
        let Value::Map(entries) = &node.value else {
            let message = format!("a cluster must be a mapping, found {}", node.value.kind());
            self.check.mistake(&node.span, message, "the shortest is `{nodes: 2, gpus_per_node: 4, profile: h100}`");
            return None;
        };
        for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            let message = format!("unknown key `{}`", entry.key);
            self.check.mistake(&entry.key_span, message, yaml::did_you_mean(&entry.key, KEYS.file));
        }
        if let Some(version) = find(entries, "version")
            && version.node.value != Value::Integer(1)
        {
            self.check.mistake(&version.node.span, "`version` is not a known one", "write `version: 1`");
        }
        let (name, default_backend) = self.names(entries, default_name);
        let start = entries.first().map_or(node.span.clone(), |entry| entry.key_span.clone());
        let nodes_entry = self.check.required(entries, "nodes", &start, "nodes: 2");
        let short = nodes_entry.is_some_and(|entry| matches!(entry.node.value, Value::Integer(_)));
        let nodes = match nodes_entry {
            Some(entry) if short => self.short_nodes(entries, entry),
            Some(entry) => {
                for key in ["gpus_per_node", "profile"] {
                    if let Some(stray) = find(entries, key) {
                        let message = format!("`{key}` goes with `nodes: NUMBER` only");
                        self.check.mistake(&stray.key_span, message, "write `nodes: 2`, or list the gpus of each node");
                    }
                }
                self.long_nodes(&entry.node)
            }
            None => None,
        };
        let (intra_node, inter_node) =
            self.fabrics(entries, &start, short, nodes.as_ref().is_some_and(|nodes| nodes.len() > 1));
        let machine = find(entries, "machine").map(|entry| machine_section::read(&mut self.check, entry));
        let machine = match machine {
            Some(read) => Some(Box::new(read?)),
            None => None,
        };
        Some(ClusterPlan {
            name,
            default_backend,
            nodes: nodes?,
            intra_node: intra_node?,
            inter_node: inter_node?,
            custom_profiles: std::mem::take(&mut self.custom),
            machine,
        })
    }

    /// `cluster: {name, default_backend}`, or `name` alone.
    fn names(&mut self, entries: &[Entry], default_name: &str) -> (String, String) {
        let mut name = None;
        let mut backend = None;
        if let Some(entry) = find(entries, "name") {
            name = self.check.text("name", &entry.node).map(str::to_owned);
        }
        if let Some(section) = find(entries, "cluster")
            && let Some(fields) = self.check.mapping("cluster", &section.node, KEYS.cluster)
        {
            if let Some(entry) = find(fields, "name") {
                if find(entries, "name").is_some() {
                    self.check.mistake(&entry.key_span, "the name is given twice", "keep one of the two");
                }
                name = self.check.text("cluster.name", &entry.node).map(str::to_owned);
            }
            if let Some(entry) = find(fields, "default_backend") {
                backend = self.check.text("cluster.default_backend", &entry.node).map(str::to_owned);
            }
        }
        (name.unwrap_or_else(|| default_name.to_owned()), backend.unwrap_or_else(|| "nccl".to_owned()))
    }

    fn short_nodes(&mut self, entries: &[Entry], nodes: &Entry) -> Option<Vec<NodePlan>> {
        let count = self.check.integer("nodes", &nodes.node, 1, MAX_RANKS);
        let gpus = self.check.required(entries, "gpus_per_node", &nodes.key_span, "gpus_per_node: 4");
        let gpus = gpus.and_then(|entry| self.check.integer("gpus_per_node", &entry.node, 1, MAX_RANKS));
        let profile = self.check.required(entries, "profile", &nodes.key_span, "profile: h100");
        let profile = profile.and_then(|entry| self.profile(&entry.node));
        let (count, gpus, profile) = (count?, gpus?, profile?);
        if u64::from(count) * u64::from(gpus) > u64::from(MAX_RANKS) {
            let message = format!("{count} nodes of {gpus} GPUs are more than {MAX_RANKS} ranks");
            self.check.mistake(&nodes.node.span, message, "use fewer nodes or fewer `gpus_per_node`");
            return None;
        }
        let node = |index: u32| NodePlan {
            id: format!("node{index}"),
            host: "127.0.0.1".to_owned(),
            ranks: (index * gpus..(index + 1) * gpus).map(Rank).collect(),
            gpus: vec![profile.clone(); gpus as usize],
        };
        Some((0..count).map(node).collect())
    }

    fn long_nodes(&mut self, node: &Node) -> Option<Vec<NodePlan>> {
        let items = self.check.list(
            "nodes",
            node,
            "nodes: 2` or `nodes: [{id: node0, ranks: [0], gpus: [{profile: a100}]}]",
        )?;
        let mut ids = BTreeSet::new();
        let mut written = Vec::new();
        let mut complete = true;
        for item in items {
            match self.long_node(item, &mut ids) {
                Some(node) => {
                    complete &= node.complete;
                    written.push(node);
                }
                None => complete = false,
            }
        }
        self.check_ranks(&written, complete);
        Some(written.into_iter().map(|node| node.plan).collect())
    }

    fn long_node(&mut self, item: &Node, ids: &mut BTreeSet<String>) -> Option<WrittenNode> {
        let entries = self.check.mapping("nodes[]", item, KEYS.node)?;
        let start = entries.first().map_or(item.span.clone(), |entry| entry.key_span.clone());
        let mut complete = true;
        let id = self.check.required(entries, "id", &start, "id: node0");
        let id = id.and_then(|entry| Some((self.check.text("id", &entry.node)?, &entry.node.span)));
        if let Some((id, span)) = id
            && !ids.insert(id.to_owned())
        {
            self.check.mistake(span, format!("duplicate node id `{id}`"), "give each node its own id");
        }
        let host = find(entries, "host").and_then(|entry| self.check.text("host", &entry.node));
        let ranks_entry = self.check.required(entries, "ranks", &start, "ranks: [0, 1]");
        let ranks_list = ranks_entry.and_then(|entry| self.check.list("ranks", &entry.node, "ranks: [0, 1]"));
        let mut ranks = Vec::new();
        for node in ranks_list.unwrap_or_default() {
            match self.check.integer("rank", node, 0, MAX_RANKS - 1) {
                Some(rank) => ranks.push((Rank(rank), node.span.clone())),
                None => complete = false,
            }
        }
        let gpus_entry = self.check.required(entries, "gpus", &start, "gpus: [{profile: a100}]");
        let gpus_list = gpus_entry.and_then(|entry| self.check.list("gpus", &entry.node, "gpus: [{profile: a100}]"));
        let gpus: Vec<String> = gpus_list.unwrap_or_default().iter().filter_map(|gpu| self.gpu(gpu)).collect();
        if let (Some(entry), Some(ranks), Some(gpus)) = (gpus_entry, ranks_list, gpus_list)
            && ranks.len() != gpus.len()
        {
            let message = format!("{} gpus for {} ranks", gpus.len(), ranks.len());
            self.check.mistake(&entry.key_span, message, "list one gpu for each rank of the node");
        }
        complete &= ranks_list.is_some();
        let plan = NodePlan {
            id: id.map_or_else(String::new, |(id, _)| id.to_owned()),
            host: host.unwrap_or("127.0.0.1").to_owned(),
            ranks: ranks.iter().map(|(rank, _)| *rank).collect(),
            gpus,
        };
        Some(WrittenNode { plan, ranks, complete })
    }

    fn gpu(&mut self, item: &Node) -> Option<String> {
        if let Value::Text(text) = &item.value {
            self.check.mistake(&item.span, "a gpu must be a mapping", format!("write `- profile: {text}`"));
            return None;
        }
        let entries = self.check.mapping("gpus[]", item, KEYS.gpu)?;
        let entry = self.check.required(entries, "profile", &item.span, "profile: a100")?;
        self.profile(&entry.node)
    }

    /// Ranks must be unique and contiguous over all nodes. If a rank could not be read (`complete` is false), only duplicates are
    /// certain.
    fn check_ranks(&mut self, nodes: &[WrittenNode], complete: bool) {
        let all: Vec<&(Rank, Range<usize>)> = nodes.iter().flat_map(|node| &node.ranks).collect();
        let mut seen = BTreeSet::new();
        let mut unique = true;
        for (rank, span) in &all {
            if !seen.insert(*rank) {
                unique = false;
                self.check.mistake(
                    span,
                    format!("duplicate rank detected: {rank}"),
                    "list each rank once, on one node",
                );
            }
        }
        let last = all.len().saturating_sub(1) as u32;
        if complete
            && unique
            && let Some((rank, span)) = all.iter().find(|(rank, _)| rank.0 > last)
        {
            let missing: Vec<String> =
                (0..=last).filter(|number| !seen.contains(&Rank(*number))).map(|number| number.to_string()).collect();
            let message = format!("ranks must be contiguous from 0 to {last}; {rank} is beyond");
            self.check.mistake(span, message, format!("not given yet: {}", missing.join(", ")));
        }
    }

    fn profile(&mut self, node: &Node) -> Option<String> {
        let written = self.check.text("profile", node)?;
        let builtin = profile::builtin(written).map(|profile| profile.id.clone());
        // FakeGPU takes `a100.yaml` for `a100`, so a name without a directory is a file only where it is not a known id.
        let is_path = written.contains('/') || (builtin.is_none() && written.ends_with(".yaml"));
        if !is_path {
            if builtin.is_none() {
                self.check.mistake(
                    &node.span,
                    profile::unknown(written),
                    "a profile of your own is named by its path: `profile: ./my-gpu.yaml`",
                );
            }
            return builtin;
        }
        if let Some(known) = self.loaded.get(written) {
            return known.clone();
        }
        let id = self.load(written, &node.span);
        self.loaded.insert(written.to_owned(), id.clone());
        id
    }

    fn load(&mut self, path: &str, span: &Range<usize>) -> Option<String> {
        let text = match (self.load_profile)(path) {
            Ok(text) => text,
            Err(reason) => {
                let help = "the path is relative to the directory of this file";
                self.check.mistake(span, format!("cannot read the profile {path}: {reason}"), help);
                return None;
            }
        };
        let profile = match yaml::read::<GpuProfile>(path, &text) {
            Ok(profile) => profile,
            Err(mistakes) => {
                for mistake in mistakes {
                    let help = mistake.help.clone().unwrap_or_else(|| "compare it with a file of profiles/".to_owned());
                    self.check.mistake(span, mistake.to_string(), help);
                }
                return None;
            }
        };
        if let Some(reason) = incredible(&profile) {
            self.check.mistake(span, format!("{path}: {reason}"), "compare it with a file of profiles/");
            return None;
        }
        let id = profile.id.clone();
        let differs = |other: &GpuProfile| *other != profile;
        if profile::builtin(&id).is_some_and(differs) || self.custom.get(&id).is_some_and(differs) {
            let message = format!("{path} has the id `{id}` of another profile");
            self.check.mistake(span, message, "give it its own id");
            return None;
        }
        self.custom.insert(id.clone(), profile);
        Some(id)
    }

    fn fabrics(
        &mut self,
        entries: &[Entry],
        start: &Range<usize>,
        short: bool,
        several_nodes: bool,
    ) -> (Option<FabricPlan>, Option<FabricPlan>) {
        let example = "fabric: {intra_node: {type: nvlink, bandwidth_gbps: 300, latency_us: 3}}";
        let fabric =
            if short { find(entries, "fabric") } else { self.check.required(entries, "fabric", start, example) };
        let Some(fabric) = fabric else {
            return if short { (Some(plan(DEFAULT_INTRA)), Some(plan(DEFAULT_INTER))) } else { (None, None) };
        };
        let Some(fields) = self.check.mapping("fabric", &fabric.node, KEYS.fabric) else {
            return (None, None);
        };
        let mut section = |key: &str, required: bool, default: (&str, f64, f64)| match find(fields, key) {
            Some(entry) => self.fabric(key, entry),
            None if required => {
                let help = format!(
                    "add `{key}: {{type: {}, bandwidth_gbps: {}, latency_us: {}}}`",
                    default.0, default.1, default.2
                );
                self.check.mistake(&fabric.key_span, format!("`{key}` is missing"), help);
                None
            }
            None => Some(plan(default)),
        };
        let intra = section("intra_node", !short, DEFAULT_INTRA);
        let inter = section("inter_node", !short && several_nodes, DEFAULT_INTER);
        (intra, inter)
    }

    fn fabric(&mut self, what: &str, section: &Entry) -> Option<FabricPlan> {
        let fields = self.check.mapping(what, &section.node, KEYS.link)?;
        let kind = self.check.required(fields, "type", &section.key_span, "type: nvlink");
        let kind = kind.and_then(|entry| self.check.text("type", &entry.node));
        let bandwidth = self.check.required(fields, "bandwidth_gbps", &section.key_span, "bandwidth_gbps: 300");
        let bandwidth = bandwidth.and_then(|entry| self.check.number("bandwidth_gbps", &entry.node, false));
        let latency = self.check.required(fields, "latency_us", &section.key_span, "latency_us: 3");
        let latency = latency.and_then(|entry| self.check.number("latency_us", &entry.node, true));
        let oversubscription = match find(fields, "oversubscription") {
            Some(entry) => self.check.number("oversubscription", &entry.node, false),
            None => Some(1.0),
        };
        Some(FabricPlan {
            kind: kind?.to_owned(),
            bandwidth_gbps: bandwidth?,
            latency_us: latency?,
            oversubscription: oversubscription?,
        })
    }
}

fn plan((kind, bandwidth_gbps, latency_us): (&str, f64, f64)) -> FabricPlan {
    FabricPlan { kind: kind.to_owned(), bandwidth_gbps, latency_us, oversubscription: 1.0 }
}

/// Why a GPU like that cannot exist.
fn incredible(profile: &GpuProfile) -> Option<&'static str> {
    let capability = profile.compute_capability.split_once('.');
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if profile.id.is_empty() || profile.name.is_empty() {
        Some("`id` and `name` must not be empty")
    } else if profile.memory.bytes == 0 || profile.sm_count == 0 {
        Some("`memory.bytes` and `sm_count` must be above 0")
    } else if !capability.is_some_and(|(major, minor)| digits(major) && digits(minor)) {
        Some("`compute_capability` must look like \"9.0\"")
    } else if profile.driver.as_ref().is_some_and(|driver| Driver::parse(driver).is_none()) {
        Some(
            "`driver` must be a CUDA version that is known, \"13.0\", or a driver's version and its CUDA, \"580.95.05:13.0\"",
        )
    } else {
        None
    }
}
