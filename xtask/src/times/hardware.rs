//! From the words in which people publish their hardware to a machine.

use serde_json::Value;
use timing::machine::{Machine, Shape, Transport};
use timing::{Launch, Settings};

/// The machine that a table's `hardware` describes.
pub(super) fn machine(hardware: &Value) -> Result<Machine, String> {
    let text = |key: &str| hardware.get(key).and_then(Value::as_str).unwrap_or_default();
    let number = |key: &str| hardware.get(key).and_then(Value::as_f64).ok_or_else(|| format!("`{key}` is missing"));
    let gpu = text("gpu");
    let capability = capability(gpu).ok_or_else(|| format!("`{gpu}` is no GPU that the model knows"))?;
    let (shape, links, link_gbytes) = nvlink(text("intra"));
    let pcie_gbytes = match text("intra") {
        intra if intra.contains("PCIe5") => 48.0,
        intra if intra.contains("PCIe4") => 24.0,
        _ if capability >= 90 => 48.0,
        _ if capability >= 80 => 24.0,
        _ => 12.0,
    };
    Ok(Machine {
        name: gpu.to_owned(),
        capability,
        nodes: number("nodes")? as u32,
        gpus_per_node: number("gpus_per_node")? as u32,
        shape,
        links,
        link_gbytes,
        pcie_gbytes,
        nics: number("nics_per_node")? as u32,
        nic_gbps: number("nic_gbps")?,
        transport: transport(text("network"), capability),
        gpudirect: true,
        amd: text("cpu").contains("AMD"),
    })
}

/// Compute capability times 10 of the lowest GPU that is named.
fn capability(gpu: &str) -> Option<u32> {
    const KNOWN: [(&str, u32); 9] = [
        ("V100", 70),
        ("2080", 75),
        ("A100", 80),
        ("A10G", 86),
        ("4090", 89),
        ("H100", 90),
        ("H200", 90),
        ("RTX 6000D", 120),
        ("B200", 100),
    ];
    // A GH200 is a Hopper, a GB200 is a Blackwell.
    if gpu.contains("GH200") {
        return Some(90);
    }
    KNOWN.iter().find(|(name, _)| gpu.contains(name)).map(|(_, capability)| *capability)
}

/// Shape, links per GPU, and GB/s of a link as NCCL counts it.
fn nvlink(intra: &str) -> (Shape, u32, f64) {
    let generation: [(&str, u32, f64); 4] =
        [("NVLink5", 18, 40.1), ("NVLink4", 18, 20.6), ("NVLink3", 12, 20.0), ("NVLink2", 6, 20.0)];
    let Some((_, links, rate)) = generation.iter().find(|(name, ..)| intra.contains(name)) else {
        return (Shape::None, 0, 0.0);
    };
    let shape = match intra {
        _ if !intra.contains("NVSwitch") => Shape::Direct,
        _ if intra.contains("NVLink3") => Shape::Switch,
        _ => Shape::MulticastSwitch,
    };
    (shape, if intra.contains("2 links") { 2 } else { *links }, *rate)
}

fn transport(network: &str, capability: u32) -> Transport {
    const KNOWN: [(&str, Transport); 8] = [
        ("TCP sockets", Transport::Sockets),
        ("TCP over", Transport::Sockets),
        ("or sockets", Transport::Sockets),
        ("TCPXO", Transport::Tcpxo),
        ("TCPX", Transport::Tcpx),
        ("gIB", Transport::Gib),
        ("Slingshot", Transport::Slingshot),
        ("RoCE", Transport::Roce),
    ];
    if network.contains("EFA") {
        return match capability {
            0..90 => Transport::Efa1,
            90..100 => Transport::Efa2,
            _ => Transport::Efa3,
        };
    }
    let known = KNOWN.iter().find(|(name, _)| network.contains(name));
    known.map_or(Transport::InfiniBand, |(_, transport)| *transport)
}

/// NCCL's version and variables.
pub(super) fn settings(hardware: &Value) -> Result<Settings, String> {
    let text = |key: &str| hardware.get(key).and_then(Value::as_str).unwrap_or_default();
    let variables = text("env").split_whitespace().filter_map(|word| word.split_once('='));
    let minor = text("nccl").strip_prefix("2.").and_then(|rest| rest.split('.').next()?.parse().ok());
    Ok(Settings::read(variables)?.with_version(minor))
}

pub(super) fn launch(text: &str) -> Launch {
    match text {
        _ if text.contains("torchrun") => Launch::PyTorch,
        _ if text.contains("XLA") => Launch::Xla,
        _ if text.starts_with("one process") => Launch::OneProcess,
        _ => Launch::ProcessPerGpu,
    }
}
