//! The report of `-q`, as text and as XML: one tree of items, each with its label and its element (nvsmi_device_v13.dtd).

use crate::gpu::{Gpu, Machine, or_na};
use crate::report::GPU;
use crate::report::Item::{self, Element, Field, Group, Leaf, Processes, Samples, SupportedClocks, Whole, XmlOnly};
use crate::{clock, field};

/// A part of a report, with its value.
enum Node {
    /// Label, element, value. An element without a label is in XML only.
    Value(&'static str, &'static str, String),
    Group(&'static str, &'static str, Vec<Node>),
    XmlOnly(Vec<Node>),
}

impl Item {
    fn element(&self) -> &'static str {
        match self {
            Leaf(_, element, ..) | Group(_, element, _) | Whole(_, element, ..) | Field(_, element, _) => element,
            Element(element, _) => element,
            SupportedClocks => "supported_clocks",
            Processes => "processes",
            Samples(section, ..) => section,
            XmlOnly(items) => items[0].element(),
        }
    }

    fn read(&self, gpu: &Gpu<'_>) -> Node {
        let all = |items: &[Item]| items.iter().map(|item| item.read(gpu)).collect();
        match *self {
            Leaf(label, element, unit, read) => Node::Value(label, element, or_na(read.read(gpu), unit)),
            Group(label, element, items) => Node::Group(label, element, all(items)),
            Whole(label, element, read, items) => match read.read(gpu) {
                Ok(_) => Node::Group(label, element, all(items)),
                Err(_) => Node::Value(label, element, "N/A".to_owned()),
            },
            Field(label, element, name) => {
                let field = field::find(name).expect("a field of the table");
                Node::Value(label, element, or_na(field.read.read(gpu), field.unit))
            }
            XmlOnly(items) => Node::XmlOnly(all(items)),
            Element(element, text) => Node::Value("", element, text.to_owned()),
            SupportedClocks => Node::Group("Supported Clocks", "supported_clocks", supported_clocks(gpu)),
            Processes => Node::Group("Processes", "processes", processes(gpu)),
            Samples(_, label, which, unit) => Node::Group(label, "", samples(gpu, which, unit)),
        }
    }
}

/// Their duration, their number, and their maximum, minimum and average.
fn samples(gpu: &Gpu<'_>, which: i32, unit: &'static str) -> Vec<Node> {
    let samples = gpu.nvml.samples(gpu.device, which).unwrap_or_default();
    // Power is in milliwatts.
    let show =
        |value: f64| if unit == "W" { format!("{:.2} {unit}", value / 1000.0) } else { format!("{value:.0} {unit}") };
    let values = || samples.iter().map(|sample| f64::from(sample.value));
    let [duration, most, least, average] = match (samples.first(), samples.last()) {
        (Some(first), Some(last)) => [
            format!("{:.2} sec", last.timestamp.saturating_sub(first.timestamp) as f64 / 1e6),
            show(values().fold(f64::MIN, f64::max)),
            show(values().fold(f64::MAX, f64::min)),
            show(values().sum::<f64>() / samples.len() as f64),
        ],
        _ => std::array::from_fn(|_| "N/A".to_owned()),
    };
    let count = if samples.is_empty() { "N/A".to_owned() } else { samples.len().to_string() };
    let rows = [("Duration", duration), ("Number of Samples", count), ("Max", most), ("Min", least), ("Avg", average)];
    rows.into_iter().map(|(label, value)| Node::Value(label, "", value)).collect()
}

fn supported_clocks(gpu: &Gpu<'_>) -> Vec<Node> {
    let mhz = |clock: &u32| format!("{clock} MHz");
    let of_memory = |memory: u32| {
        let graphics = gpu.nvml.graphics_clocks(gpu.device, memory).unwrap_or_default();
        let mut nodes = vec![Node::Value("Memory", "value", mhz(&memory))];
        nodes.extend(graphics.iter().map(|clock| Node::Value("    Graphics", "supported_graphics_clock", mhz(clock))));
        Node::Group("", "supported_mem_clock", nodes)
    };
    gpu.nvml.memory_clocks(gpu.device).unwrap_or_default().into_iter().map(of_memory).collect()
}

fn processes(gpu: &Gpu<'_>) -> Vec<Node> {
    let node = |(process, name): (crate::nvml::Process, String)| {
        Node::Group(
            "",
            "process_info",
            vec![
                Node::Value("GPU instance ID", "gpu_instance_id", "N/A".to_owned()),
                Node::Value("Compute instance ID", "compute_instance_id", "N/A".to_owned()),
                Node::Value("Process ID", "pid", process.pid.to_string()),
                Node::Value("    Type", "type", "C".to_owned()),
                Node::Value("    Name", "process_name", name),
                Node::Value("    Used GPU Memory", "used_memory", format!("{} MiB", process.used_memory >> 20)),
            ],
        )
    };
    gpu.processes().into_iter().map(node).collect()
}

/// Where values begin.
const COLUMN: usize = 55;

fn line(indent: usize, label: &str, value: &str) -> String {
    let label = format!("{:indent$}{label}", "");
    format!("{label:<COLUMN$}: {value}\n")
}

impl Node {
    fn text(&self, indent: usize) -> String {
        match self {
            Self::Value("", ..) | Self::XmlOnly(_) => String::new(),
            Self::Value(label, _, value) => line(indent, label, value),
            // The items of lists have no heading.
            Self::Group("", _, nodes) => nodes.iter().map(|node| node.text(indent)).collect(),
            Self::Group(label, _, nodes) if nodes.is_empty() => line(indent, label, "None"),
            Self::Group(label, _, nodes) => {
                let nodes: String = nodes.iter().map(|node| node.text(indent + 4)).collect();
                format!("{:indent$}{label}\n{nodes}", "")
            }
        }
    }

    fn xml(&self, depth: usize) -> String {
        let tabs = "\t".repeat(depth);
        match self {
            Self::Value("", element, value) => format!("{tabs}<{element}>\n{tabs}\t{value}\n{tabs}</{element}>\n"),
            Self::Value(_, "multiple_single_bit_retirement" | "double_bit_retirement", _) => self.retired(depth),
            Self::Value(_, element, value) => {
                // Numbers of the PCI bus are in hex without a prefix.
                let value = if element.starts_with("pci_") { value.trim_start_matches("0x") } else { value };
                format!("{tabs}<{element}>{}</{element}>\n", escape(value))
            }
            Self::XmlOnly(nodes) => nodes.iter().map(|node| node.xml(depth)).collect(),
            Self::Group(_, element, nodes) => {
                let nodes: String = nodes.iter().map(|node| node.xml(depth + 1)).collect();
                format!("{tabs}<{element}>\n{nodes}{tabs}</{element}>\n")
            }
        }
    }

    /// Retired pages form an element with their count and addresses.
    fn retired(&self, depth: usize) -> String {
        let Self::Value(_, element, count) = self else { return String::new() };
        let tabs = "\t".repeat(depth);
        let pages = if count == "N/A" { "N/A" } else { "" };
        format!(
            "{tabs}<{element}>\n{tabs}\t<retired_count>{count}</retired_count>\n\
             {tabs}\t<retired_pagelist>{pages}</retired_pagelist>\n{tabs}</{element}>\n"
        )
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// `-q`, with the elements in `sections` or, if there are none, all except the supported clocks.
pub(crate) fn text(machine: &Machine<'_>, sections: &[String]) -> String {
    let mut text = "\n==============NVSMI LOG==============\n\n".to_owned();
    text += &line(0, "Timestamp", &clock::long());
    text += &line(0, "Driver Version", &machine.driver);
    text += &line(0, "CUDA Version", &machine.cuda);
    text += &format!("\n{}", line(0, "Attached GPUs", &machine.gpus[0].count.to_string()));
    for gpu in &machine.gpus {
        text += &format!("GPU {}\n", gpu.pci.address());
        for item in GPU {
            let is_shown = match sections {
                [] => !matches!(item, SupportedClocks | Samples(..)),
                sections => sections.iter().any(|section| section == item.element()),
            };
            match item {
                _ if !is_shown => {}
                // The whole report leaves it out; it is shown only if the section is requested.
                XmlOnly(items) if !sections.is_empty() => {
                    text.extend(items.iter().map(|item| item.read(gpu).text(4)));
                }
                item => text += &item.read(gpu).text(4),
            }
        }
        text += "\n";
    }
    text
}

/// `-q -x`
pub(crate) fn xml(machine: &Machine<'_>) -> String {
    let mut text =
        "<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v13.dtd\">\n<nvidia_smi_log>\n"
            .to_owned();
    for (element, value) in [
        ("timestamp", clock::long()),
        ("driver_version", machine.driver.clone()),
        ("cuda_version", machine.cuda.clone()),
        ("attached_gpus", machine.gpus[0].count.to_string()),
    ] {
        text += &format!("\t<{element}>{value}</{element}>\n");
    }
    for gpu in &machine.gpus {
        let items = GPU.iter().filter(|item| !matches!(item, Samples(..)));
        let items: String = items.map(|item| item.read(gpu).xml(2)).collect();
        text += &format!("\t<gpu id=\"{}\">\n{items}\t</gpu>\n\n", gpu.pci.address());
    }
    text + "</nvidia_smi_log>\n"
}

/// `-q -u`: there are no S-class units, nor cards to host them.
pub(crate) fn units(machine: &Machine<'_>) -> String {
    let mut text = "\n==============NVSMI LOG==============\n\n".to_owned();
    text += &line(0, "Timestamp", &clock::long());
    text += &line(0, "Driver Version", &machine.driver);
    text += &line(0, "CUDA Version", &machine.cuda);
    text + "\n" + &line(0, "HIC Info", "N/A") + &line(0, "Attached Units", "0") + "\n"
}

/// `-q -u -x`
pub(crate) fn units_xml(machine: &Machine<'_>) -> String {
    format!(
        "<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_unit_v12.dtd\">\n<nvidia_smi_log>\n\
         \t<timestamp>{}</timestamp>\n\t<driver_version>{}</driver_version>\n\t<cuda_version>{}</cuda_version>\n\
         \t<hic_info>\n\t</hic_info>\n\t<attached_units>0</attached_units>\n</nvidia_smi_log>\n",
        clock::long(),
        machine.driver,
        machine.cuda
    )
}
