//! `topo -m`, `topo -p2p` and `nvlink -s`: how GPUs are connected.

use crate::Failure;
use crate::gpu::{Gpu, Machine};

const LEGEND: &str = "
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
";

const PEER_LEGEND: &str = "
Legend:

  X    = Self
  OK   = Status Ok
  CNS  = Chipset not supported
  GNS  = GPU not supported
  TNS  = Topology not supported
  NS   = Not supported
  U    = Unknown
";

/// `NVML_NVLINK_MAX_LINKS`
const MAX_LINKS: i32 = 18;
/// `NVML_P2P_CAPS_INDEX_NVLINK`
const NVLINK: i32 = 2;
/// `NVML_FI_DEV_NVLINK_GET_SPEED`
const SPEED: u32 = 164;

/// Links that are up.
fn links_of(gpu: &Gpu<'_>) -> usize {
    (0..MAX_LINKS).filter(|link| gpu.nvml.long(gpu.device, "nvmlDeviceGetNvLinkState", [*link]) == Ok(1)).count()
}

/// What is between two GPUs.
fn between(one: &Gpu<'_>, two: &Gpu<'_>) -> String {
    let links = links_of(one).min(links_of(two));
    // Every pair shares the links of a switch.
    if links > 0 && one.nvml.peer_status(one.device, two.device, NVLINK) == Ok(0) {
        return format!("NV{links}");
    }
    match one.nvml.between(one.device, two.device, "nvmlDeviceGetTopologyCommonAncestor") {
        Ok(0 | 10) => "PIX",
        Ok(20) => "PXB",
        Ok(30) => "PHB",
        Ok(40) => "NODE",
        _ => "SYS",
    }
    .to_owned()
}

/// "0-23,48-71"
fn ranges(numbers: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let show =
        |(first, last): &(usize, usize)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    ranges.iter().map(show).collect::<Vec<_>>().join(",")
}

/// A column of two tab stops, as wide as its heading.
fn wide(text: &str) -> String {
    format!("{text}{}", if text.len() < 8 { "\t\t" } else { "\t" })
}

/// `topo -m`
pub(crate) fn matrix(machine: &Machine<'_>) -> String {
    let mut text = "\t\u{1b}[4m".to_owned();
    for gpu in &machine.gpus {
        text += &format!("GPU{}\t", gpu.index);
    }
    text += "CPU Affinity\tNUMA Affinity\tGPU NUMA ID\u{1b}[0m\n";
    for one in &machine.gpus {
        text += &format!("GPU{}\t", one.index);
        for two in &machine.gpus {
            text += &if one.index == two.index { " X \t".to_owned() } else { format!("{}\t", between(one, two)) };
        }
        let near = |name| match one.nvml.affinity(one.device, name) {
            Ok(set) => wide(&ranges(&set)),
            Err(_) => wide("N/A"),
        };
        let own = one.nvml.number(one.device, "nvmlDeviceGetNumaNodeId").map(|node| node.to_string());
        text += &near("nvmlDeviceGetCpuAffinityWithinScope");
        text += &near("nvmlDeviceGetMemoryAffinity");
        text += &format!("{}\n", own.unwrap_or_else(|_| "N/A".to_owned()));
    }
    text + LEGEND
}

/// `topo -p2p`
pub(crate) fn peers(machine: &Machine<'_>, capability: i32) -> String {
    let mut text = " \t".to_owned();
    for gpu in &machine.gpus {
        text += &format!("GPU{}\t", gpu.index);
    }
    text += "\n";
    for one in &machine.gpus {
        text += &format!(" GPU{}\t", one.index);
        for two in &machine.gpus {
            let status = if one.index == two.index {
                "X"
            } else {
                match one.nvml.peer_status(one.device, two.device, capability) {
                    Ok(0) => "OK",
                    Ok(1) => "CNS",
                    Ok(2) => "GNS",
                    Ok(3) => "TNS",
                    Ok(4 | 5) => "NS",
                    _ => "U",
                }
            };
            text += &format!("{status}\t");
        }
        text += "\n";
    }
    text + PEER_LEGEND
}

/// `nvlink -s`
///
/// # Errors
/// nvidia-smi's where no GPU has links.
pub(crate) fn links(machine: &Machine<'_>) -> Result<String, Failure> {
    let mut text = String::new();
    for gpu in &machine.gpus {
        text += &format!("GPU {}: {} (UUID: {})\n", gpu.index, gpu.name(), gpu.uuid());
        let states: Vec<_> =
            (0..MAX_LINKS).map(|link| gpu.nvml.long(gpu.device, "nvmlDeviceGetNvLinkState", [link])).collect();
        if states.iter().all(Result::is_err) {
            continue;
        }
        if !states.contains(&Ok(1)) {
            text += "NVML: Unable to retrieve NVLink information as all links are inActive\n";
            continue;
        }
        for (link, _) in states.iter().enumerate().filter(|(_, state)| **state == Ok(1)) {
            let speed = gpu.nvml.field(gpu.device, SPEED, link as u32);
            let speed = speed.map_or_else(|_| "<inactive>".to_owned(), |mbps| format!("{} GB/s", mbps as f64 / 1000.0));
            text += &format!("\t Link {link}: {speed}\n");
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbors_are_a_range() {
        assert_eq!(ranges(&[0, 1, 2, 3, 8, 10, 11]), "0-3,8,10-11");
        assert_eq!(ranges(&[]), "");
        assert_eq!((wide("0-7"), wide("0-23,48-71")), ("0-7\t\t".to_owned(), "0-23,48-71\t".to_owned()));
    }
}
