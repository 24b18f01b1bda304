//! The keys of a cluster. `model::cluster_file` reads them; a test holds both together.

use super::{Needs, Rule, Section, Shape, optional, or, required};

const MAX_RANKS: u32 = model::cluster_file::MAX_RANKS;

pub(crate) static CLUSTER: Section = Section {
    name: "cluster",
    what: "a cluster",
    about: "Simulated machines: see [clusters](clusters.md).",
    keys: &[&[
        optional("file", Shape::Text, "a cluster file, from the suite's directory; no other key is allowed then"),
        optional(
            "extends",
            Shape::Text,
            "a cluster under `clusters`, written out there, that supplies the keys missing here; within `fabric`, either of its \
             two. Cannot be chained",
        ),
        optional("version", Shape::Exactly(1), "version of cluster files"),
        optional("name", Shape::Text, "its name; else the name under `clusters`, or the case's id"),
        optional("cluster", Shape::Section(&NAMES), "the same, in the long form"),
        optional(
            "nodes",
            Shape::Either(&[Shape::Integer(1, MAX_RANKS), Shape::List(1, &Shape::Section(&NODE))]),
            "their number, or each of them",
        ),
        optional("gpus_per_node", Shape::Integer(1, MAX_RANKS), "with a number of `nodes`: GPUs of each"),
        optional("profile", Shape::Text, "with a number of `nodes`: the profile of every GPU"),
        optional("fabric", Shape::Section(&FABRIC), "what connects GPUs and nodes"),
        optional(
            "machine",
            Shape::Either(&[Shape::Text, Shape::Section(&MACHINE)]),
            "the machines, for [modeled times](time.md): a preset's name, or what differs from it; that of the GPU's profile if \
             it is left out",
        ),
    ]],
    rules: &[Rule::With("gpus_per_node", "nodes"), Rule::With("profile", "nodes")],
};

pub(crate) static NAMES: Section = Section {
    name: "cluster_names",
    what: "`cluster`",
    about: "Names of a cluster.",
    keys: &[&[
        optional("name", Shape::Text, "its name"),
        or("default_backend", Shape::Text, "nccl", "free text for the report"),
    ]],
    rules: &[],
};

pub(crate) static NODE: Section = Section {
    name: "node",
    what: "a node",
    about: "One machine.",
    keys: &[&[
        required("id", Shape::Text, "unique"),
        or("host", Shape::Text, "127.0.0.1", "free text"),
        required(
            "ranks",
            Shape::List(1, &Shape::Integer(0, MAX_RANKS - 1)),
            "global ranks: over all nodes unique and contiguous from 0",
        ),
        required("gpus", Shape::List(1, &Shape::Section(&GPU)), "one per rank, in the same order"),
    ]],
    rules: &[],
};

pub(crate) static GPU: Section = Section {
    name: "gpu",
    what: "a gpu",
    about: "One GPU.",
    keys: &[&[required("profile", Shape::Text, "an id of `ftest profiles`, or the path of a profile file")]],
    rules: &[],
};

pub(crate) static FABRIC: Section = Section {
    name: "fabric",
    what: "`fabric`",
    about: "What connects GPUs and nodes.",
    keys: &[&[
        optional("intra_node", Shape::Section(&LINKS), "between the GPUs of a node"),
        optional("inter_node", Shape::Section(&LINKS), "between nodes"),
    ]],
    rules: &[],
};

pub(crate) static MACHINE: Section = Section {
    name: "machine",
    what: "`machine`",
    about: "What a machine of the cluster differs in from a preset.",
    keys: &[&[
        optional(
            "preset",
            Shape::Text,
            "`dgx-v100`, `dgx-a100`, `dgx-h100`, `hgx-h200`, `dgx-b200`, `gb200-nvl72`, `p4d`, `p5`, `a3` or `pcie-box`",
        ),
        optional("nvlinks", Shape::Integer(0, 64), "NVLinks of each GPU"),
        optional("nics", Shape::Integer(1, 256), "NICs of each node"),
        optional("nic_gbps", Shape::Positive, "Gbit/s of one NIC"),
        optional(
            "transport",
            Shape::Text,
            "`infiniband`, `roce`, `gib`, `efa1`, `efa2`, `efa3`, `tcpx`, `tcpxo`, `slingshot` or `sockets`",
        ),
        optional("gpudirect", Shape::Bool, "whether a NIC reads and writes the GPU's memory itself"),
    ]],
    rules: &[],
};

/// What only the coordinator computes with.
const TIMES: Needs = Needs::Else(
    "with a coordinator, which computes times; `type` says where there is NVLink",
    "noted by `ftest check`: `inter_node` without a coordinator",
);

pub(crate) static LINKS: Section = Section {
    name: "links",
    what: "a fabric",
    about: "One kind of link.",
    keys: &[&[
        required("type", Shape::Text, "`nvlink`, `infiniband`, ..."),
        required("bandwidth_gbps", Shape::Positive, "Gbit/s").needs(TIMES),
        required("latency_us", Shape::NotNegative, "microseconds").needs(TIMES),
        or("oversubscription", Shape::Positive, "1", "factor by which the link is oversubscribed").needs(TIMES),
    ]],
    rules: &[],
};

#[cfg(test)]
mod tests {
    use model::cluster_file::KEYS;

    use super::*;

    #[test]
    fn the_model_reads_these_keys() {
        for (section, ours, known) in [
            (&CLUSTER, &["file", "extends"][..], KEYS.file),
            (&NAMES, &[], KEYS.cluster),
            (&NODE, &[], KEYS.node),
            (&GPU, &[], KEYS.gpu),
            (&FABRIC, &[], KEYS.fabric),
            (&LINKS, &[], KEYS.link),
            (&MACHINE, &[], KEYS.machine),
        ] {
            let mut keys: Vec<&str> = section.keys().map(|key| key.name).filter(|name| !ours.contains(name)).collect();
            let mut known = known.to_vec();
            keys.sort_unstable();
            known.sort_unstable();
            assert_eq!(keys, known, "{}", section.name);
        }
    }
}
