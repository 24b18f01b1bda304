//! The list of nvidia-smi's subcommands.

use crate::answers;
use crate::nvlink;
use crate::subcommand::Subcommand;
use crate::topology;

static ALL: &[&Subcommand] = &[
    &topology::TOPO,
    &nvlink::NVLINK,
    &answers::CLOCKS,
    &answers::COMPUTE_POLICY,
    &answers::MIG,
    &answers::VGPU,
    &answers::DRAIN,
    &answers::C2C,
    &answers::GPM,
    &answers::PCI,
    &answers::CONF_COMPUTE,
    &answers::POWER_HINT,
    &answers::BOOST_SLIDER,
    &answers::BASE_CLOCKS,
];

/// The one of this name.
pub(crate) fn find(name: &str) -> Option<&'static Subcommand> {
    ALL.iter().copied().find(|subcommand| subcommand.name == name)
}

/// All of them.
pub(crate) fn all() -> impl Iterator<Item = &'static Subcommand> {
    ALL.iter().copied()
}
