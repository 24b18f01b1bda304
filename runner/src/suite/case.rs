//! One item of `cases`, merged with `defaults`, once per matrix combination.

use crate::suite::surroundings::{read_env, read_python};
use std::collections::BTreeMap;
use std::sync::Arc;

use model::node::{Node, Value};
use protocol::plan::ClusterPlan;
use protocol::{clock, sanitizer};
use serde_json::json;

use crate::case::network::Network;
use crate::case::policy::Retries;
use crate::case::python::PythonNeed;
use crate::case::{Case, Launch, Resources, Timeout, Transport, Warm};
use crate::suite::language::keys;
use crate::suite::language::needs::Has;
use crate::suite::matrix::{self, Combination};
use crate::suite::reader::{EXTENSION, Mapping, Reader, did_you_mean};
use crate::suite::{
    Shared, Span, cluster, directory, expect, explain, fault, fixture, gpu, honored, kill, launch, lint, network,
    policy, relation, requires, slug, template, variables,
};

/// The cases that one item expands to, each with the place of its id.
pub(super) fn read(shared: &mut Shared<'_>, node: &Node) -> Vec<(Case, Span)> {
    let reader = shared.reader;
    let Some(raw) = reader.section(&keys::CASE, node) else { return Vec::new() };
    let id_node = raw.required("id", "id: my-case");
    let id = id_node.and_then(|node| slug(reader, "id", node)).unwrap_or_default();
    let combinations = matrix::expand(reader, raw.get("matrix"));
    lint::case(reader, node, shared.defaults);
    let mut users: Vec<&Node> = vec![node];
    users.extend(shared.defaults);
    users.extend(shared.fixtures.by_name.values().map(|fixture| fixture.node));
    matrix::computed(reader, raw.get("matrix"), &users);
    let mut cases = Vec::new();
    for combination in combinations {
        if let Some(case) = expand(shared, node, &id, combination) {
            cases.push((case, id_node.map_or(node.span.clone(), |node| node.span.clone())));
        }
    }
    cases
}

fn expand(shared: &mut Shared<'_>, node: &Node, id: &str, combination: Combination) -> Option<Case> {
    let reader = shared.reader;
    let full_id = format!("{id}{}", matrix::suffix(&combination));
    let about = json!({ "id": full_id, "name": id });
    // The cluster comes first, because the rest may refer to it.
    let context = shared.context(json!(combination), about.clone(), None);
    let cluster_node =
        entry(node, "cluster").or_else(|| shared.defaults.and_then(|defaults| entry(defaults, "cluster")));
    let cluster = match cluster_node {
        Some(Node { value: Value::Null, .. }) | None => None,
        Some(wanted) => {
            let rendered = template::render(reader, wanted, &context);
            let Some(plan) = cluster::resolve(shared, &rendered, id) else {
                // Of what else the case says, only the keys do not depend on it.
                reader.section(&keys::CASE, node)?.finish();
                return None;
            };
            Some(plan)
        }
    };
    let context = Arc::new(shared.context(json!(combination), about, cluster.as_ref()));
    let rendered =
        template::render_case(reader, &without(node, |key| key == "matrix" || key.starts_with(EXTENSION)), &context);
    let case = reader.section(&keys::CASE, &rendered)?;
    let defaults_node = shared
        .defaults
        .map(|defaults| template::render(reader, &without(defaults, |key| key.starts_with(EXTENSION)), &context));
    let defaults = defaults_node.as_ref().and_then(|node| reader.section(&keys::DEFAULTS, node));
    case.get("id");
    case.get("matrix");
    let layers: Vec<&Mapping<'_, '_>> = defaults.iter().chain([&case]).collect();

    let common = Common::read(shared, &layers);
    let uses = fixture::resolve(shared, &layers, &context);
    for node in defaults_node.iter().chain([&rendered]) {
        fixture::check_case(shared, node, &uses);
    }
    let cwd = directory::of_case(shared, &layers);
    let title = case.get("title").and_then(|node| reader.string("title", node));
    let mut python = common.python;
    let requires = requires::read(reader, &layers, &mut python);
    let launch = case
        .required("launch", "launch: {argv: [program, argument]}")
        .and_then(|node| launch::read(shared, node, &cwd, cluster.as_ref()));
    let (launch, warm) = launch.map_or((None, Warm::Possible), |(launch, warm)| (Some(launch), warm));
    // After a mistake in `launch`, nothing is known about ranks, so no rank can be wrong.
    let world = launch.as_ref().map_or(Some(u32::MAX), Launch::world_size);
    let kill = case.get("kill").map(|node| kill::read(reader, node, world, cluster.as_ref())).unwrap_or_default();
    let coordinated = cluster.as_ref().filter(|_| common.coordinator != Some(false));
    let has = Has {
        cluster: cluster.is_some(),
        coordinator: coordinated.is_some(),
        launch: launch.as_ref().map(honored::of_launch),
        modeled_clock: common.is_clock_modeled,
    };
    honored::case(reader, &rendered, has);
    if let Some(node) = &defaults_node {
        shared.unhonored.note(node, has);
    }
    for (layer, node) in [(true, defaults_node.as_ref()), (false, Some(&rendered))] {
        let has = variables::Has { launch: launch.as_ref(), cluster: has.cluster, coordinator: has.coordinator };
        if let Some(env) = node.and_then(|node| entry(node, "env")) {
            variables::of_case(reader, env, has, layer);
        }
        if let Some(names) = node.and_then(|node| entry(node, "env_inherit")) {
            variables::inherited(reader, names);
        }
    }
    if coordinated.is_none()
        && let (Some(_), Some(node)) = (&cluster, entry(node, "cluster"))
    {
        lint::links_without_times(shared, node);
    }
    let mut faults = case.get("faults").map(|node| fault::read(reader, node, world, coordinated)).unwrap_or_default();
    if let Some(entry) = case.entry("gpu") {
        gpu::read(reader, entry, coordinated, &mut faults);
    }
    if let (None, Some(launch), Some(node)) = (&cluster, &launch, entry(&rendered, "launch")) {
        lint::torch_without_gpus(reader, node, launch, python.as_ref());
    }
    let network = read_network(reader, &layers, &case, world, coordinated);
    if let (Some(_), Some(Launch::Srun(_)), Some(node)) = (&network, &launch, entry(&rendered, "launch")) {
        let help = "Slurm places ranks on machines of its own: leave `network` out, or use `argv` or `torchrun`";
        reader.mistake(&node.span, "`srun` with `network`", help);
    }
    let place = reader.place(entry(node, "id").map_or(&node.span, |id| &id.span));
    let expect = expect::read(shared, case.get("expect"), &place, &full_id, world, Arc::clone(&context));
    lint::expectations(reader, entry(node, "expect"), &expect);
    let deterministic = case.get("deterministic").and_then(|node| policy::read_deterministic(reader, node));
    if let (Some(_), Some(entry)) = (&deterministic, case.entry("kill").filter(|_| !kill.is_empty())) {
        reader.mistake(
            &entry.key_span,
            "`kill` in a `deterministic` case",
            "when a signal arrives differs from run to run; end a rank with `faults: [{at: ..., do: kill}]`",
        );
    }
    let case_schedule = case.get("schedule").and_then(|node| policy::read_schedule(reader, node));
    let holds_under = relation::read(
        shared,
        &case,
        relation::Unchanged {
            launch: launch.as_ref(),
            cluster: cluster.as_ref(),
            coordinator: coordinated.is_some(),
            has_network: network.is_some(),
            schedule: case_schedule,
            env: &common.env,
            env_unset: &common.env_unset,
            cwd: &cwd,
        },
    );
    let xfail = case.get("xfail").and_then(|node| policy::read_xfail(reader, node, &context));
    case.finish();
    if let Some(defaults) = defaults {
        defaults.finish();
    }
    if shared.explained.is_some() {
        let mut notes = vec![place.to_string()];
        if !combination.is_empty() {
            let values = combination.iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>();
            notes.push(format!("matrix: {}", values.join(", ")));
        }
        if let Some(cluster) = &cluster {
            let (nodes, gpus) = (cluster.nodes.len(), cluster.world_size());
            notes.push(format!("the cluster `{}` has nodes: {nodes}, GPUs: {gpus}", cluster.name));
        }
        let id = format!("{}/{full_id}", shared.suite);
        let text = explain::case(reader, &id, &rendered, defaults_node.as_ref(), &notes);
        shared.explained.get_or_insert_default().push(text);
    }
    Some(Case {
        id: full_id,
        title,
        tags: common.tags,
        suite: shared.suite.clone(),
        place,
        matrix: combination,
        coordinator: common.coordinator.unwrap_or(true) && cluster.is_some(),
        cluster,
        transport: if network.is_some() { Transport::Tcp } else { common.transport },
        network,
        env: common.env,
        env_unset: common.env_unset,
        env_inherit: common.env_inherit,
        suite_timeout: shared.timeout,
        timeout: common.timeout,
        requires,
        python,
        resources: common.resources,
        launch: launch?,
        warm,
        kill,
        faults,
        uses,
        retries: common.retries,
        xfail,
        expect,
        allow_gaps: common.allow_gaps,
        sanitize: common.sanitize,
        is_clock_modeled: common.is_clock_modeled,
        schedule: case_schedule,
        shared: None,
        starts_reversed: false,
        has_other_clock: false,
        is_compared: deterministic.is_some(),
        deterministic,
        records_steps: holds_under.as_ref().is_some_and(|relations| relations.records_steps()),
        records_tensors: holds_under.as_ref().is_some_and(|relations| relations.tensors.is_some()),
        holds_under,
        dir: shared.dir.clone(),
        cwd,
    })
}

/// The case's network, or else that of `defaults`. Its ranks cannot share a socket file.
fn read_network(
    reader: &Reader<'_>,
    layers: &[&Mapping<'_, '_>],
    case: &Mapping<'_, '_>,
    world: Option<u32>,
    cluster: Option<&ClusterPlan>,
) -> Option<Network> {
    let node = layers.iter().filter_map(|layer| layer.get("network")).next_back()?;
    if let Some(entry) = case.entry("transport")
        && matches!(&entry.node.value, Value::Text(text) if text == "unix")
    {
        let help = "leave it out: nodes that are apart reach the coordinator over tcp";
        reader.mistake(&entry.key_span, "`transport: unix` with `network`", help);
    }
    network::read(reader, node, world, cluster?)
}

/// The keys that `defaults` and cases share. A case's value wins; lists and environments are combined.
struct Common {
    tags: Vec<String>,
    env: BTreeMap<String, String>,
    env_unset: Vec<String>,
    env_inherit: Option<Vec<String>>,
    timeout: Timeout,
    transport: Transport,
    coordinator: Option<bool>,
    python: Option<PythonNeed>,
    resources: Resources,
    allow_gaps: Vec<String>,
    sanitize: Option<Vec<&'static str>>,
    is_clock_modeled: bool,
    retries: Option<Retries>,
}

impl Common {
    fn read(shared: &Shared<'_>, layers: &[&Mapping<'_, '_>]) -> Common {
        let reader = shared.reader;
        let mut common = Common {
            tags: Vec::new(),
            env: BTreeMap::new(),
            env_unset: Vec::new(),
            env_inherit: None,
            timeout: Timeout::default(),
            transport: Transport::Unix,
            coordinator: None,
            python: None,
            resources: Resources::default(),
            allow_gaps: Vec::new(),
            sanitize: None,
            is_clock_modeled: false,
            retries: None,
        };
        for layer in layers {
            layer.get("cluster");
            common.tags.extend(layer.get("tags").and_then(|node| reader.texts("tags", node)).unwrap_or_default());
            common
                .allow_gaps
                .extend(layer.get("allow_gaps").and_then(|node| reader.texts("allow_gaps", node)).unwrap_or_default());
            if let Some(node) = layer.get("env") {
                read_env(reader, node, &mut common.env, &mut common.env_unset);
            }
            if let Some(items) = layer.get("sanitize").and_then(|node| reader.list("sanitize", node)) {
                let words = items.iter().filter_map(|item| reader.choice("sanitize", item, sanitizer::WORDS));
                common.sanitize = Some(words.map(|word| sanitizer::WORDS[word]).collect());
            }
            if let Some(word) = layer.get("clock").and_then(|node| reader.choice("clock", node, clock::WORDS)) {
                common.is_clock_modeled = clock::WORDS[word] == clock::MODELED;
            }
            if let Some(node) = layer.get("env_inherit") {
                common.env_inherit = reader.texts("env_inherit", node);
            }
            if let Some(node) = layer.get("timeout") {
                common.timeout = read_timeout(reader, node, common.timeout);
            }
            if let Some(index) =
                layer.get("transport").and_then(|node| reader.choice("transport", node, &["unix", "tcp"]))
            {
                common.transport = [Transport::Unix, Transport::Tcp][index];
            }
            if let Some(node) = layer.get("coordinator") {
                common.coordinator = reader.boolean("coordinator", node);
            }
            if let Some(node) = layer.get("retries") {
                common.retries = policy::read_retries(reader, node);
            }
            if let Some(node) = layer.get("python") {
                common.python = read_python(reader, node, &shared.dir);
            }
            if let Some(resources) = layer.get("resources").and_then(|node| reader.section(&keys::RESOURCES, node)) {
                if let Some(cpus) = resources.get("cpus").and_then(|node| reader.integer("cpus", node, 1, 1024)) {
                    common.resources.cpus = cpus;
                }
                if let Some(bytes) = resources.get("memory").and_then(|node| reader.size("memory", node)) {
                    common.resources.memory = bytes;
                }
                if let Some(node) = resources.get("groups") {
                    common.resources.groups = read_groups(shared, node);
                }
                resources.finish();
            }
        }
        common.tags.sort_unstable();
        common.tags.dedup();
        common
    }
}

fn read_timeout(reader: &Reader<'_>, node: &Node, before: Timeout) -> Timeout {
    let mut timeout = before;
    if !matches!(node.value, Value::Map(_)) {
        timeout.kill = reader.duration("timeout", node).unwrap_or(timeout.kill);
        timeout.slow = timeout.slow.min(timeout.kill);
        return timeout;
    }
    let Some(mapping) = reader.section(&keys::TIMEOUT, node) else { return timeout };
    for (key, value) in [("slow", &mut timeout.slow), ("kill", &mut timeout.kill), ("grace", &mut timeout.grace)] {
        if let Some(duration) = mapping.get(key).and_then(|node| reader.duration(key, node)) {
            *value = duration;
        }
    }
    for (key, value) in [("idle", &mut timeout.idle), ("survivors", &mut timeout.survivors)] {
        let Some(node) = mapping.get(key) else { continue };
        *value = match &node.value {
            Value::Text(text) if text == "never" => None,
            _ => reader.duration(key, node).or(*value),
        };
    }
    if let Some(node) = mapping.get("idle")
        && timeout.idle.is_some_and(|idle| idle >= timeout.kill)
    {
        reader.mistake(&node.span, "`idle` is not shorter than `kill`", "a hang would never be noticed");
    }
    if mapping.get("slow").is_some() && timeout.slow > timeout.kill {
        reader.mistake(&node.span, "`slow` is longer than `kill`", "a case is ended before it is that slow");
    }
    timeout.slow = timeout.slow.min(timeout.kill);
    mapping.finish();
    timeout
}

/// The named groups, each with its limit.
fn read_groups(shared: &Shared<'_>, node: &Node) -> BTreeMap<String, u32> {
    let reader = shared.reader;
    let names = reader.texts("groups", node).unwrap_or_default();
    let mut groups = BTreeMap::new();
    for (name, item) in names.into_iter().zip(reader.list("groups", node).unwrap_or_default()) {
        match shared.groups.get(&name) {
            Some(max) => drop(groups.insert(name, *max)),
            None => {
                let known = shared.groups.keys().map(String::as_str);
                let help = if shared.groups.is_empty() {
                    format!("define it at the top: `groups: {{{name}: {{max: 1}}}}`")
                } else {
                    did_you_mean(&name, known)
                };
                reader.mistake(&item.span, format!("unknown group `{name}`"), help);
            }
        }
    }
    groups
}

fn entry<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    match &node.value {
        Value::Map(entries) => entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node),
        _ => None,
    }
}

fn without(node: &Node, leave_out: impl Fn(&str) -> bool) -> Node {
    let value = match &node.value {
        Value::Map(entries) => Value::Map(entries.iter().filter(|entry| !leave_out(&entry.key)).cloned().collect()),
        other => other.clone(),
    };
    Node { value, span: node.span.clone() }
}
