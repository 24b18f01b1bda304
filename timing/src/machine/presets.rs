//! Machines by name.

use super::{Machine, Shape, Transport};

/// One row of [`PRESETS`].
struct Preset {
    name: &'static str,
    /// Its GPU; `None` if that may be any.
    gpu: Option<&'static str>,
    capability: u32,
    gpus: u32,
    shape: Shape,
    links: u32,
    link_gbytes: f64,
    pcie_gbytes: f64,
    nics: u32,
    nic_gbps: f64,
    transport: Transport,
    amd: bool,
}

/// Machines by name. Sources: NVIDIA's data sheets of the systems, the instance pages of AWS (p4d, p5) and Google Cloud
/// (a3-highgpu-8g); rates of links as NCCL 2.30 counts them (`src/graph/topo.h`).
#[rustfmt::skip]
const PRESETS: &[Preset] = &[
    Preset { name: "dgx-v100", gpu: Some("v100"), capability: 70, gpus: 8, shape: Shape::Direct, links: 6, link_gbytes: 20.0, pcie_gbytes: 12.0, nics: 4, nic_gbps: 100.0, transport: Transport::InfiniBand, amd: false },
    Preset { name: "dgx-a100", gpu: Some("a100"), capability: 80, gpus: 8, shape: Shape::Switch, links: 12, link_gbytes: 20.0, pcie_gbytes: 24.0, nics: 8, nic_gbps: 200.0, transport: Transport::InfiniBand, amd: true },
    Preset { name: "dgx-h100", gpu: Some("h100"), capability: 90, gpus: 8, shape: Shape::MulticastSwitch, links: 18, link_gbytes: 20.6, pcie_gbytes: 48.0, nics: 8, nic_gbps: 400.0, transport: Transport::InfiniBand, amd: false },
    Preset { name: "hgx-h200", gpu: Some("h200"), capability: 90, gpus: 8, shape: Shape::MulticastSwitch, links: 18, link_gbytes: 20.6, pcie_gbytes: 48.0, nics: 8, nic_gbps: 400.0, transport: Transport::InfiniBand, amd: false },
    Preset { name: "dgx-b200", gpu: Some("b200"), capability: 100, gpus: 8, shape: Shape::MulticastSwitch, links: 18, link_gbytes: 40.1, pcie_gbytes: 48.0, nics: 8, nic_gbps: 400.0, transport: Transport::InfiniBand, amd: false },
    Preset { name: "gb200-nvl72", gpu: Some("b200"), capability: 100, gpus: 72, shape: Shape::MulticastSwitch, links: 18, link_gbytes: 40.1, pcie_gbytes: 48.0, nics: 72, nic_gbps: 400.0, transport: Transport::InfiniBand, amd: false },
    Preset { name: "p4d", gpu: Some("a100"), capability: 80, gpus: 8, shape: Shape::Switch, links: 12, link_gbytes: 20.0, pcie_gbytes: 24.0, nics: 4, nic_gbps: 100.0, transport: Transport::Efa1, amd: false },
    Preset { name: "p5", gpu: Some("h100"), capability: 90, gpus: 8, shape: Shape::MulticastSwitch, links: 18, link_gbytes: 20.6, pcie_gbytes: 48.0, nics: 32, nic_gbps: 100.0, transport: Transport::Efa2, amd: true },
    Preset { name: "a3", gpu: Some("h100"), capability: 90, gpus: 8, shape: Shape::MulticastSwitch, links: 18, link_gbytes: 20.6, pcie_gbytes: 48.0, nics: 4, nic_gbps: 200.0, transport: Transport::Tcpx, amd: false },
    Preset { name: "pcie-box", gpu: None, capability: 89, gpus: 4, shape: Shape::None, links: 0, link_gbytes: 0.0, pcie_gbytes: 24.0, nics: 1, nic_gbps: 100.0, transport: Transport::Roce, amd: true },
];

/// The names that [`preset`] knows.
pub fn presets() -> impl Iterator<Item = &'static str> {
    PRESETS.iter().map(|preset| preset.name)
}

/// The profile of the GPUs of a machine by its name; `None` if they may be any.
pub fn gpu(name: &str) -> Option<&'static str> {
    PRESETS.iter().find(|preset| preset.name == name)?.gpu
}

/// The machine that a GPU is usually found in.
pub(super) fn of_gpu(gpu: &str) -> &'static str {
    match gpu {
        // They have boards like its.
        "b100" | "b300" => "dgx-b200",
        _ => PRESETS.iter().find(|preset| preset.gpu == Some(gpu)).map_or("pcie-box", |preset| preset.name),
    }
}

/// One full node of a machine by its name.
pub fn preset(name: &str) -> Option<Machine> {
    let preset = PRESETS.iter().find(|preset| preset.name == name)?;
    Some(Machine {
        name: preset.name.to_owned(),
        capability: preset.capability,
        nodes: 1,
        gpus_per_node: preset.gpus,
        shape: preset.shape,
        links: preset.links,
        link_gbytes: preset.link_gbytes,
        pcie_gbytes: preset.pcie_gbytes,
        nics: preset.nics,
        nic_gbps: preset.nic_gbps,
        transport: preset.transport,
        gpudirect: true,
        amd: preset.amd,
    })
}
