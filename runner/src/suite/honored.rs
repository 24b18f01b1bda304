//! Keys that a case has and cannot honor: a coordinator's without a coordinator, a rank's without ranks. The tables of keys say what
//! each needs. Below `defaults` such a key does not concern the case, but no case at all is a mistake.

use std::cell::RefCell;
use std::collections::BTreeMap;

use model::node::{Entry, Node, Value};

use crate::case::Launch;
use crate::case::variables::Kind;
use crate::expression;
use crate::suite::language::needs::{Has, HasLaunch};
use crate::suite::language::{Section, expect as language, keys};
use crate::suite::path::query::{Query, Selector};
use crate::suite::reader::Reader;
use crate::suite::{Span, path, template};

/// The keys of `defaults` that some case does not honor.
#[derive(Debug, Default)]
pub(super) struct Defaults {
    /// What no case has had so far, by place; `None` once one has.
    missing: RefCell<BTreeMap<usize, (Span, Option<Missing>)>>,
}

/// What is missing, and what to do.
type Missing = (String, String);

/// What this launch has.
pub(super) fn of_launch(launch: &Launch) -> HasLaunch {
    let kind = launch.kind();
    HasLaunch { ranks: kind != Kind::Plain, launcher: kind != Kind::Ranks }
}

/// Reports what the case in `node` has and cannot honor.
pub(super) fn case(reader: &Reader<'_>, node: &Node, has: Has) {
    each(node, &mut |section, entry| {
        if let Some((message, help)) = missing(section, entry, has) {
            reader.mistake(&entry.key_span, message, help);
        }
    });
    let Some(expect) = find(node, "expect") else { return };
    reports(reader, expect, has);
    streams(reader, expect, has);
    if !has.modeled_clock {
        times(reader, expect);
    }
}

impl Defaults {
    /// Looks at what `node`, the `defaults` of a suite, has for one case.
    pub(super) fn note(&self, node: &Node, has: Has) {
        let mut known = self.missing.borrow_mut();
        each(node, &mut |section, entry| {
            let Some(key) = section.key(&entry.key) else { return };
            // A mistake in `launch` hides what the case has.
            let wanted = key
                .needs
                .missing(Has { cluster: false, coordinator: false, launch: None, modeled_clock: false })
                .is_some();
            if wanted || key.needs.missing(has).is_some() {
                let now = missing(section, entry, has);
                let slot = known.entry(entry.key_span.start).or_insert_with(|| (entry.key_span.clone(), now.clone()));
                if now.is_none() {
                    slot.1 = None;
                }
            }
        });
    }

    /// Reports the keys that no case honors.
    pub(super) fn finish(&self, reader: &Reader<'_>) {
        for (span, missing) in self.missing.borrow().values() {
            if let Some((message, help)) = missing {
                reader.mistake(span, format!("{message}: no case honors this default"), help.clone());
            }
        }
    }
}

fn missing(section: &Section, entry: &Entry, has: Has) -> Option<Missing> {
    let (what, help) = section.key(&entry.key)?.needs.missing(has)?;
    Some((format!("`{}` without {what}", entry.key), help))
}

/// Every key of a case, of its `timeout`, its `expect` and its `exit`.
fn each(node: &Node, see: &mut dyn FnMut(&'static Section, &Entry)) {
    let expect = find(node, "expect");
    let places = [
        (&keys::CASE, Some(node)),
        (&keys::TIMEOUT, find(node, "timeout")),
        (&language::EXPECT, expect),
        (&language::EXIT, expect.and_then(|expect| find(expect, "exit"))),
    ];
    for (section, node) in places {
        entries(node).iter().for_each(|entry| see(section, entry));
    }
}

/// Reports checks of the cluster report without a coordinator, which writes it.
fn reports(reader: &Reader<'_>, expect: &Node, has: Has) {
    if has.coordinator {
        return;
    }
    let what = if has.cluster { "a coordinator" } else { "a cluster" };
    let help = "the coordinator writes the cluster report; `of: device` reads those of the devices";
    for key in ["report", "snapshot", "perf"] {
        // Without a cluster the key itself is a mistake.
        if !has.cluster && key != "perf" {
            continue;
        }
        for item in items(find(expect, key)) {
            let of_device = matches!(find(item, "of").map(|of| &of.value), Some(Value::Text(of)) if of == "device");
            let of_rank = key == "report" && find(item, "rank").is_some();
            let of_captures = find(item, "metric")
                .is_some_and(|metric| matches!(&metric.value, Value::Text(text) if template::uses_captures(text)));
            if !of_captures && (!has.cluster || !of_device && !of_rank) {
                reader.mistake(&item.span, format!("`{key}` without {what}"), help);
            }
        }
    }
    for item in items(find(expect, "invariants")) {
        let that = find(item, "that").unwrap_or(item);
        let Value::Text(text) = &that.value else { continue };
        for name in expression::names(text).unwrap_or_default() {
            let what = match name.as_str() {
                "report" => what,
                "devices" | "cluster" if !has.cluster => "a cluster",
                _ => continue,
            };
            reader.mistake(&that.span, format!("`{name}` without {what}"), "nothing has a value for it");
        }
    }
}

/// Reports checks of modeled times without the clock that tells them.
fn times(reader: &Reader<'_>, expect: &Node) {
    let help = "add `clock: modeled` to the case: else nothing tells the times of its GPUs";
    let refuse = |node: &Node| reader.mistake(&node.span, "modeled times without the modeled clock", help);
    for (key, paths) in [("report", "path"), ("perf", "metric"), ("snapshot", "select")] {
        for item in items(find(expect, key)) {
            let is_absent = matches!(find(item, "exists").map(|node| &node.value), Some(Value::Bool(false)));
            for path in items(find(item, paths)).iter().filter(|_| !is_absent) {
                if let Value::Text(text) = &path.value
                    && path::parse(text).is_ok_and(|(_, query)| names_time(&query))
                {
                    refuse(path);
                }
            }
        }
    }
    for item in items(find(expect, "invariants")) {
        let that = find(item, "that").unwrap_or(item);
        let Value::Text(text) = &that.value else { continue };
        let used = ["report", "devices"].into_iter().flat_map(|name| expression::uses(text, name).unwrap_or_default());
        if used.flatten().any(|name| is_time(&name)) {
            refuse(that);
        }
    }
}

/// Whether a path names a field that only the modeled clock fills.
fn names_time(query: &Query) -> bool {
    query.segments.iter().flat_map(|segment| &segment.selectors).any(|selector| match selector {
        Selector::Name(name, _) => is_time(name),
        Selector::Filter(queries) => queries.iter().any(names_time),
        Selector::Any | Selector::Items => false,
    })
}

/// The fields of both reports that only the modeled clock fills.
fn is_time(name: &str) -> bool {
    matches!(name, "time" | "host_time_ns")
}

/// Reports checks of the launcher's output where every process is a rank.
fn streams(reader: &Reader<'_>, expect: &Node, has: Has) {
    if has.launch.is_none_or(|launch| launch.launcher) {
        return;
    }
    for item in ["stdout", "stderr"].iter().flat_map(|key| items(find(expect, key))) {
        if let Some(rank) = find(item, "rank")
            && matches!(&rank.value, Value::Text(text) if text == "launcher")
        {
            let help = "with `ranks` every process is a rank: write a rank, `any` or `all`";
            reader.mistake(&rank.span, "`launcher` without a launcher", help);
        }
    }
}

fn entries(node: Option<&Node>) -> &[Entry] {
    match node.map(|node| &node.value) {
        Some(Value::Map(entries)) => entries,
        _ => &[],
    }
}

fn find<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    entries(Some(node)).iter().find(|entry| entry.key == key).map(|entry| &entry.node)
}

/// A list's items, or the one item that is not in a list.
fn items(node: Option<&Node>) -> &[Node] {
    match node {
        Some(Node { value: Value::List(items), .. }) => items,
        Some(node) => std::slice::from_ref(node),
        None => &[],
    }
}
