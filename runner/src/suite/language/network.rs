//! The keys of `network`: nodes that are apart.

use super::when::WHEN;
use super::{Key, Rule, Section, Shape, optional, or, required};

const ENDS: Shape = Shape::List(2, &Shape::Text);

/// What one link is like.
static LINK_KEYS: &[Key] = &[
    or("delay", Shape::Duration, "none", "how long a packet takes, one way"),
    or("loss", Shape::NotNegative, "0", "percent of packets that are lost"),
    or(
        "gbps",
        Shape::Positive,
        "as fast as the machine can",
        "Gbit/s in each direction; packets that wait longer than 200 ms are dropped",
    ),
];

pub(crate) static NETWORK: Section = Section {
    name: "network",
    what: "`network`",
    about: "Nodes that are [apart](#network). What is written here holds for every link between two nodes.",
    keys: &[
        LINK_KEYS,
        &[
            or("seed", Shape::Integer(0, u32::MAX), "0", "a different seed loses different packets"),
            optional("links", Shape::List(0, &Shape::Section(&LINK)), "links that are different"),
            optional("cuts", Shape::List(0, &Shape::Section(&CUT)), "links that go down at some point"),
        ],
    ],
    rules: &[],
};

pub(crate) static LINK: Section = Section {
    name: "network_link",
    what: "a link",
    about: "One link. Keys that are left out have the values of `network`, or of a perfect link if it leads to the coordinator.",
    keys: &[&[required("between", ENDS, "its two ends: ids of nodes, or `coordinator`")], LINK_KEYS],
    rules: &[],
};

pub(crate) static CUT: Section = Section {
    name: "cut",
    what: "a cut",
    about: "What is cut, when, and for how long. A cut that is never triggered fails the case.",
    keys: &[&[
        optional("between", ENDS, "the two ends of a link: ids of nodes, or `coordinator`"),
        optional("node", Shape::Text, "the id of a node: all its links, including the one to the coordinator"),
        required("when", Shape::Section(&WHEN), "the trigger; without `rank`, rank 0's stdout"),
        or("for", Shape::Duration, "to the end", "how long"),
        or(
            "reset",
            Shape::Bool,
            "`false`",
            "connections over it are reset at both ends, as by a firewall; else nothing is answered",
        ),
    ]],
    rules: &[Rule::OneOf(&["between", "node"])],
};
