//! `machine` of a cluster file: the name of a preset, or what differs from one.

use protocol::plan::MachinePlan;
use timing::machine::{self, Transport};

use crate::checker::{Checker, find};
use crate::node::{Entry, Node, Value};
use crate::yaml::did_you_mean;

/// The keys of the mapping.
pub(crate) const KEYS: &[&str] = &["preset", "nvlinks", "nics", "nic_gbps", "transport", "gpudirect"];

/// What the entry says; `None` after a mistake.
pub(crate) fn read(check: &mut Checker<'_>, entry: &Entry) -> Option<MachinePlan> {
    if let Value::Text(name) = &entry.node.value {
        return Some(MachinePlan { preset: Some(preset(check, name, &entry.node)?), ..MachinePlan::default() });
    }
    let fields = check.mapping("machine", &entry.node, KEYS)?;
    let before = check.count();
    let plan = MachinePlan {
        preset: find(fields, "preset").and_then(|field| {
            let name = check.text("preset", &field.node)?.to_owned();
            preset(check, &name, &field.node)
        }),
        nvlinks: find(fields, "nvlinks").and_then(|field| check.integer("nvlinks", &field.node, 0, 64)),
        nics: find(fields, "nics").and_then(|field| check.integer("nics", &field.node, 1, 256)),
        nic_gbps: find(fields, "nic_gbps").and_then(|field| check.number("nic_gbps", &field.node, false)),
        transport: find(fields, "transport").and_then(|field| transport(check, &field.node)),
        gpudirect: find(fields, "gpudirect").and_then(|field| gpudirect(check, &field.node)),
    };
    // What could not be read is left out only where that was said.
    (check.count() == before).then_some(plan)
}

fn transport(check: &mut Checker<'_>, node: &Node) -> Option<String> {
    let name = check.text("transport", node)?;
    if Transport::by_name(name).is_some() {
        return Some(name.to_owned());
    }
    let names: Vec<&str> = Transport::ALL.iter().map(|transport| transport.name()).collect();
    check.mistake(&node.span, format!("`{name}` is no transport"), did_you_mean(name, &names));
    None
}

fn gpudirect(check: &mut Checker<'_>, node: &Node) -> Option<bool> {
    if let Value::Bool(on) = node.value {
        return Some(on);
    }
    let message = format!("`gpudirect` must be true or false, found {}", node.value.kind());
    check.mistake(&node.span, message, "write `gpudirect: false`");
    None
}

fn preset(check: &mut Checker<'_>, name: &str, node: &Node) -> Option<String> {
    if machine::preset(name).is_some() {
        return Some(name.to_owned());
    }
    let names: Vec<&str> = machine::presets().collect();
    check.mistake(&node.span, format!("`{name}` is no machine that the time model knows"), did_you_mean(name, &names));
    None
}
