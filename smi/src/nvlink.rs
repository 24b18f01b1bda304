//! `nvlink`: links, their capabilities, remote ends and errors.

use crate::gpu::{Gpu, Machine};
use crate::nvml::Code;
use crate::subcommand::{Answer, Given, Subcommand, answers, answers_for, value};

/// `NVML_NVLINK_MAX_LINKS`
const MAX_LINKS: i32 = 18;
/// `NVML_FI_DEV_NVLINK_GET_SPEED`
const SPEED: u32 = 164;
/// `NVML_NVLINK_CAP_*`, in their order.
const CAPABILITIES: [&str; 6] = [
    "P2P is supported",
    "Access to system memory supported",
    "P2P atomics supported",
    "System memory atomics supported",
    "SLI is supported",
    "Link is supported",
];
/// `NVML_NVLINK_ERROR_DL_*`, the first of them.
const ERRORS: [&str; 3] = ["Replay Errors", "Recovery Errors", "CRC Errors"];

pub(crate) static NVLINK: Subcommand = Subcommand {
    name: "nvlink",
    about: "Display NvLink information.",
    options: &[
        value(&["-i", "--id"], "Enumeration index, PCI bus ID or UUID"),
        value(&["-l", "--link"], "Limit a command to a specific link"),
        answers(&["-s", "--status"], "Display link state (active/inactive)", status),
        answers(&["-c", "--capabilities"], "Display link capabilities", |machine, given| {
            per_link(machine, given, |gpu, link, text| {
                for (number, name) in CAPABILITIES.iter().enumerate() {
                    let has = gpu.nvml.long(gpu.device, "nvmlDeviceGetNvLinkCapability", [link, number as i32])? != 0;
                    *text += &format!("\t Link {link}, {name}: {has}\n");
                }
                Ok(())
            })
        }),
        answers(&["-p", "--pcibusid"], "Display remote node PCI bus ID for a link", |machine, given| {
            per_link(machine, given, |gpu, link, text| {
                let address = gpu.nvml.link_end(gpu.device, link)?.address();
                *text += &format!("\t Link {link}: {address}\n");
                Ok(())
            })
        }),
        answers(&["-R", "--remotelinkinfo"], "Display remote device PCI bus ID and NvLink ID", |machine, given| {
            per_link(machine, given, |_, link, text| {
                *text += &format!("\t Link {link}: Not Supported\n");
                Ok(())
            })
        }),
        answers(&["-e", "--errorcounters"], "Display error counters for a link", |machine, given| {
            per_link(machine, given, |gpu, link, text| {
                for (number, name) in ERRORS.iter().enumerate() {
                    let count = gpu.nvml.long(gpu.device, "nvmlDeviceGetNvLinkErrorCounter", [link, number as i32])?;
                    *text += &format!("\t Link {link}: {name}: {count}\n");
                }
                *text += "\n";
                Ok(())
            })
        }),
        answers(&["-ec", "--crcerrorcounters"], "Display per-lane CRC error counters", |machine, _| {
            of_first(machine, "NVML: Unable to retrieve NvLink ECC error counter for link 0: Not Supported", 3)
        }),
        answers(&["-re", "--reseterrorcounters"], "Reset all error counters to zero", |machine, _| {
            let denied = "NVML: Unable to reset NvLink link error counters for link 0: Insufficient Permissions";
            of_first(machine, denied, 4)
        }),
        answers_for(
            &["-gt", "--getthroughput"],
            "Display link throughput counters: d for data, r with protocol overhead",
            |machine, given| {
                let kind = match given.get("-gt") {
                    Some("d") => "Data",
                    Some("r") => "Raw",
                    _ => return of_first(machine, "Failed to get throughput counters", 2),
                };
                per_link(machine, given, |_, link, text| {
                    *text += &format!("\t Link {link}: {kind} Tx: N/A\n\t Link {link}: {kind} Rx: N/A\n");
                    Ok(())
                })
            },
        ),
        answers_for(&["-g", "--getcounters"], "Deprecated; use -gt", |machine, _| {
            let text = "Warning: Getting counters using option -g is deprecated. \nPlease use option -gt instead.\n";
            of_first(machine, text, 3)
        }),
        answers_for(&["-sc", "--setcontrol"], "Deprecated", |machine, _| {
            of_first(machine, "Warning: Setting counter control is deprecated!\n", 3)
        }),
        answers(&["-gLowPwrInfo", "--getLowPowerInfo"], "Get NvLink Low Power Info", |machine, given| {
            per_link(machine, given, |_, link, text| {
                *text += &format!("\t Link {link}: Low Power Mode: N/A\n\t Link {link}: Low Power Threshold: N/A\n\n");
                Ok(())
            })
        }),
        answers_for(&["-sLowPwrThres", "--setLowPowerThreshold"], "Set NvLink Low Power Threshold", |machine, _| {
            of_first(machine, "\t Low Power Threshold: Insufficient permissions ", 4)
        }),
        answers(&["-gBwMode", "--getBandwidthMode"], "Get NvLink Bandwidth mode", |_, _| {
            ("Unable to read nvlink bandwidth mode\n".to_owned(), 3)
        }),
        answers_for(&["-sBwMode", "--setBandwidthMode"], "Set NvLink Bandwidth mode", |_, given| {
            let mode = given.get("-sBwMode").unwrap_or_default();
            (format!("Unable to set nvlink bandwidth mode {mode}\n"), 3)
        }),
        answers(&["-cBridge", "--checkBridge"], "Check NvLink Bridge presence", |machine, _| {
            (machine.gpus.iter().filter(|gpu| has_links(gpu)).map(Gpu::title).collect(), 0)
        }),
    ],
    alone: None,
    chooses: true,
};

fn has_links(gpu: &Gpu<'_>) -> bool {
    (0..MAX_LINKS).any(|link| gpu.nvml.long(gpu.device, "nvmlDeviceGetNvLinkState", [link]).is_ok())
}

/// The links of a GPU that are up.
pub(crate) fn up(gpu: &Gpu<'_>) -> Vec<i32> {
    let is_up = |link: &i32| gpu.nvml.long(gpu.device, "nvmlDeviceGetNvLinkState", [*link]) == Ok(1);
    (0..MAX_LINKS).filter(is_up).collect()
}

/// The title of the first GPU that has links, a line and a return value; empty if none has links.
fn of_first(machine: &Machine<'_>, line: &str, code: u8) -> Answer {
    match machine.gpus.iter().find(|gpu| has_links(gpu)) {
        Some(gpu) => (format!("{}{line}\n", gpu.title()), code),
        None => (String::new(), 0),
    }
}

/// The link given with `-l`, else all. `None` for a value that is not a number.
fn wanted(given: &Given) -> Option<Option<i32>> {
    given.get("-l").map_or(Some(None), |link| link.parse().ok().map(Some))
}

/// Something about each link that is up, of the GPUs that have links.
fn per_link(
    machine: &Machine<'_>,
    given: &Given,
    show: impl Fn(&Gpu<'_>, i32, &mut String) -> Result<(), Code>,
) -> Answer {
    let Some(wanted) = wanted(given) else { return no_number(given) };
    let mut text = String::new();
    for gpu in machine.gpus.iter().filter(|gpu| has_links(gpu)) {
        text += &gpu.title();
        for link in up(gpu).into_iter().filter(|link| wanted.is_none_or(|wanted| wanted == *link)) {
            if let Err(code) = show(gpu, link, &mut text) {
                text += &format!("\t Link {link}: {}\n", gpu.nvml.explain(code));
            }
        }
    }
    (text, 0)
}

fn no_number(given: &Given) -> Answer {
    let value = given.get("-l").unwrap_or_default();
    (format!("Option \"{value}\" is invalid for \"-l\".\n"), 2)
}

fn status(machine: &Machine<'_>, given: &Given) -> Answer {
    let Some(wanted) = wanted(given) else { return no_number(given) };
    let mut text = String::new();
    for gpu in machine.gpus.iter().filter(|gpu| has_links(gpu)) {
        text += &gpu.title();
        let up = up(gpu);
        if up.is_empty() {
            text += "NVML: Unable to retrieve NVLink information as all links are inActive\n";
        } else if let Some(link) = wanted.filter(|wanted| !up.contains(wanted)) {
            text += &format!("NVML: Unable to retrieve NVLink information for link {link} - inActive\n");
        }
        for link in up.into_iter().filter(|link| wanted.is_none_or(|wanted| wanted == *link)) {
            let speed = gpu.nvml.field(gpu.device, SPEED, link as u32);
            let speed = speed.map_or_else(|_| "<inactive>".to_owned(), |mbps| format!("{} GB/s", mbps as f64 / 1000.0));
            text += &format!("\t Link {link}: {speed}\n");
        }
    }
    (text, 0)
}
