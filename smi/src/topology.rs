//! `topo`: how GPUs are connected to each other and to the host.

use crate::gpu::{Gpu, Machine};
use crate::nvlink;
use crate::subcommand::{Answer, Given, Subcommand, answers, answers_for, value};

const LEGEND: &str = "
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
";
const LINKS_LEGEND: &str = "  NV#  = Connection traversing a bonded set of # NVLinks\n";

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

/// `NVML_P2P_CAPS_INDEX_NVLINK`
const NVLINK: i32 = 2;

/// `NVML_TOPOLOGY_*` in steps of ten: the name in `topo -m`, and the description in `-n` and `-p`.
const LEVELS: [(&str, &str); 6] = [
    ("PIX", "by way of an single on-board PCIe switch"),
    ("PIX", "by way of a single PCIe switch"),
    ("PXB", "by way of potentially multiple PCIe switches"),
    ("PHB", "by the same PCIe host bridge"),
    ("NODE", "by way of an on-CPU interconnect between PCIe host bridges"),
    ("SYS", "by way of an SMP interconnect link between NUMA nodes"),
];

pub(crate) static TOPO: Subcommand = Subcommand {
    name: "topo",
    about: "Display topological information about the system.",
    options: &[
        value(&["-i", "--id"], "GPUs for the options that ask for one or two"),
        answers(&["-m", "--matrix"], "Display the GPUDirect communication matrix", |machine, given| {
            unless_chosen(given, || (matrix(machine, true), 0))
        }),
        answers(&["-mp", "--matrix_pci"], "Display the matrix of PCI only", |machine, given| {
            unless_chosen(given, || (matrix(machine, false), 0))
        }),
        answers_for(&["-p2p", "--p2pstatus"], "Display peer to peer status: r, w, n, a or p", |machine, given| {
            let word = given.get("-p2p").unwrap_or_default();
            match ["r", "w", "n", "a", "p"].iter().position(|known| *known == word) {
                Some(capability) => (peers(machine, capability as i32), 0),
                None => ("Invalid p2p capability index specified at the command-line\n".to_owned(), 2),
            }
        }),
        answers_for(&["-n", "--nearest_gpus"], "Display the nearest GPUs for a path, 0 to 5, with -i", nearest),
        answers(&["-p", "--gpu_path"], "Display the path between two GPUs, with -i", |machine, given| {
            match chosen(machine, given).as_deref() {
                Some([one, two]) => {
                    let level = level(one, two).map_or("in no known way", |level| LEVELS[level].1);
                    (format!("Device {} is connected to device {} {level}.\n\n", one.index, two.index), 0)
                }
                _ => {
                    let text = "Path command line flag must be used in conjection with the -i argument which must be two \
                                GPU identifiers.\n\n";
                    (text.to_owned(), 2)
                }
            }
        }),
        answers_for(&["-c", "--cpu"], "Display all GPUs with an affinity to a CPU", |machine, given| {
            let word = given.get("-c").unwrap_or_default();
            let Ok(cpu) = word.parse::<usize>() else {
                return (format!("Option \"{word}\" is invalid for \"-c\".\n"), 2);
            };
            let near = |gpu: &&Gpu<'_>| affinity(gpu, CPUS).is_some_and(|cpus| cpus.contains(&cpu));
            let near: Vec<String> = machine.gpus.iter().filter(near).map(|gpu| gpu.index.to_string()).collect();
            if near.is_empty() {
                return ("Failed to display GPUs with affinity for a given CPU information\n\n".to_owned(), 255);
            }
            (format!("The GPUs that have an affinity with CPU {cpu} are:\n{}\n\n", near.join(", ")), 0)
        }),
        answers(&["-C", "--get-numa-id-of-nearby-cpu"], "NUMA ID of the nearest CPU, with -i", |machine, given| {
            let without = "NUMA ID of nearest CPU must be used in conjunction with the -i argument which must be a single \
                           identifier.\n\n";
            of_one(machine, given, without, |gpu| match affinity(gpu, MEMORY).as_deref() {
                Some([node]) => (format!("NUMA IDs of closest CPU: {node}\n"), 0),
                _ => ("Failed to display NUMA ID of nearest CPU\n\n".to_owned(), 255),
            })
        }),
        answers(&["-M", "--get-numa-id-of-nearby-mem"], "NUMA ID of the nearest memory, with -i", |machine, given| {
            let without = "NUMA ID of nearest memory must be used in conjunction with the -i argument which must be a \
                           single identifier.\n\n";
            of_one(machine, given, without, |gpu| {
                let nodes = affinity(gpu, MEMORY).map_or_else(|| "N/A".to_owned(), |nodes| ranges(&nodes));
                (format!("NUMA IDs of closest memory: {nodes}\n"), 0)
            })
        }),
        answers(&["-gnid", "--gpu-numa-id"], "NUMA ID of a GPU, with -i", |machine, given| {
            let without = "GPU NUMA ID command must be used in conjunction with the -i argument which must be a single \
                           identifier.\n\n";
            of_one(machine, given, without, |gpu| (format!("{}\n", own_node(gpu)), 0))
        }),
    ],
    alone: None,
    chooses: false,
};

const CPUS: &str = "nvmlDeviceGetCpuAffinityWithinScope";
const MEMORY: &str = "nvmlDeviceGetMemoryAffinity";

fn affinity(gpu: &Gpu<'_>, function: &str) -> Option<Vec<usize>> {
    gpu.nvml.affinity(gpu.device, function).ok()
}

fn own_node(gpu: &Gpu<'_>) -> String {
    gpu.nvml.number(gpu.device, "nvmlDeviceGetNumaNodeId").map_or_else(|_| "N/A".to_owned(), |node| node.to_string())
}

/// The GPUs that `-i` names, if all of them exist.
fn chosen<'a, 'b>(machine: &'a Machine<'b>, given: &Given) -> Option<Vec<&'a Gpu<'b>>> {
    given.get("-i")?.split(',').map(|name| machine.gpus.iter().find(|gpu| gpu.is_called(name.trim()))).collect()
}

fn of_one(machine: &Machine<'_>, given: &Given, without: &str, show: impl Fn(&Gpu<'_>) -> Answer) -> Answer {
    match chosen(machine, given).as_deref() {
        Some([gpu]) => show(gpu),
        _ => (without.to_owned(), 2),
    }
}

fn unless_chosen(given: &Given, show: impl Fn() -> Answer) -> Answer {
    match given.get("-i") {
        Some(_) => ("The -i command line argument must be used in conjunction with -n or -p.\n\n".to_owned(), 255),
        None => show(),
    }
}

/// `topo -n`
fn nearest(machine: &Machine<'_>, given: &Given) -> Answer {
    let word = given.get("-n").unwrap_or_default();
    let Ok(wanted) = word.parse::<usize>() else { return (format!("Option \"{word}\" is invalid for \"-n\".\n"), 2) };
    let without = "Nearest GPUs argument must be used in conjunction with the -i argument which must be a single \
                   identifier.\n\n";
    of_one(machine, given, without, |gpu| {
        let Some((_, way)) = LEVELS.get(wanted) else {
            return ("Failed to display the nearest GPUs\n\n".to_owned(), 255);
        };
        let others = machine.gpus.iter().filter(|other| other.index != gpu.index && level(gpu, other) == Some(wanted));
        let others: Vec<String> = others.map(|other| other.index.to_string()).collect();
        let index = gpu.index;
        if others.is_empty() {
            return (format!("Device {index} is not connected to other devices {way}.\n\n"), 0);
        }
        (format!("Device {index} is connected {way} to device(s): {}\n\n", others.join(", ")), 0)
    })
}

/// The host path between two GPUs, as an index into [`LEVELS`].
fn level(one: &Gpu<'_>, two: &Gpu<'_>) -> Option<usize> {
    let ancestor = one.nvml.between(one.device, two.device, "nvmlDeviceGetTopologyCommonAncestor").ok()?;
    usize::try_from(ancestor / 10).ok().filter(|level| *level < LEVELS.len())
}

/// The connection between two GPUs, with or without their links.
fn between(one: &Gpu<'_>, two: &Gpu<'_>, with_links: bool) -> String {
    let links = if with_links { nvlink::up(one).len().min(nvlink::up(two).len()) } else { 0 };
    // Every pair shares the links of a switch.
    if links > 0 && one.nvml.peer_status(one.device, two.device, NVLINK) == Ok(0) {
        return format!("NV{links}");
    }
    level(one, two).map_or("N/A", |level| LEVELS[level].0).to_owned()
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

/// `topo -m`, or `-mp` without links.
fn matrix(machine: &Machine<'_>, with_links: bool) -> String {
    let mut text = "\t\u{1b}[4m".to_owned();
    for gpu in &machine.gpus {
        text += &format!("GPU{}\t", gpu.index);
    }
    text += "CPU Affinity\tNUMA Affinity\tGPU NUMA ID\u{1b}[0m\n";
    for one in &machine.gpus {
        text += &format!("GPU{}\t", one.index);
        for two in &machine.gpus {
            text += &if one.index == two.index {
                " X \t".to_owned()
            } else {
                format!("{}\t", between(one, two, with_links))
            };
        }
        let near = |name| affinity(one, name).map_or_else(|| "N/A".to_owned(), |set| ranges(&set));
        text += &format!("{}\t{}\t\t{}\n", near(CPUS), near(MEMORY), own_node(one));
    }
    text + LEGEND + if with_links { LINKS_LEGEND } else { "" }
}

/// `topo -p2p`
fn peers(machine: &Machine<'_>, capability: i32) -> String {
    let mut text = " \t\u{1b}[4m".to_owned();
    for gpu in &machine.gpus {
        text += &format!("GPU{}\t", gpu.index);
    }
    text += "\u{1b}[0m\n";
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbors_are_a_range() {
        assert_eq!(ranges(&[0, 1, 2, 3, 8, 10, 11]), "0-3,8,10-11");
        assert_eq!(ranges(&[]), "");
    }
}
