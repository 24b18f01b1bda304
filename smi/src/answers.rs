//! The subcommands for features that simulated GPUs do not have: MIG instances, vGPUs, chip-to-chip links, confidential
//! computing, policies, states that require an administrator. They print what nvidia-smi 550.163.01 prints for the simulated NVML
//! (`fixtures/monitors/nvidia_smi.py` compares).

use crate::gpu::Machine;
use crate::subcommand::{Answer, Given, Subcommand, answers, answers_for, value};

/// `NVML_ERROR_INVALID_ARGUMENT`, `_NOT_SUPPORTED`, `_NO_PERMISSION` and `_UNKNOWN` as return values.
const INVALID: u8 = 2;
const UNSUPPORTED: u8 = 3;
const DENIED: u8 = 4;
const FAILED: u8 = 255;

const IDS: &str = "Enumeration index, PCI bus ID or UUID; comma separated for several GPUs";

fn answer(text: &str, code: u8) -> Answer {
    (format!("{text}\n"), code)
}

pub(crate) static CLOCKS: Subcommand = Subcommand {
    name: "clocks",
    about: "Control and query clock information.",
    options: &[
        value(&["-i", "--id"], IDS),
        answers(&["--sync-boost-list"], "List all synchronous boost groups", |_, _| {
            answer("Synchronized boost is currently disabled.", UNSUPPORTED)
        }),
        answers_for(&["--sync-boost-remove"], "Remove a synchronous boost group", |_, given| {
            let group = given.get("--sync-boost-remove").unwrap_or_default();
            let text = format!("Got error Not Supported while trying to remove synchronized boost group id {group}.");
            answer(&text, UNSUPPORTED)
        }),
        answers_for(
            &["-som", "--sparse-operation-mode"],
            "Enable or disable Sparse Operation Mode: 0/DISABLED, 1/ENABLED",
            |machine, given| match given.get("-som") {
                Some(mode @ ("0" | "1")) => {
                    let (word, gpu) = (if mode == "1" { "Enabled" } else { "Disabled" }, machine.gpus[0].index);
                    let text = format!("Unable to set Sparse Operation Mode to '{word}' for GPU {gpu}: Not Supported");
                    answer(&text, UNSUPPORTED)
                }
                _ => answer("Input should be 0 or 1. See nvidia-smi clocks -h.", INVALID),
            },
        ),
    ],
    alone: None,
    chooses: true,
};

pub(crate) static COMPUTE_POLICY: Subcommand = Subcommand {
    name: "compute-policy",
    about: "Control and list compute policies.",
    options: &[
        value(&["-i", "--id"], IDS),
        answers(&["-l", "--list"], "List all compute policies", |machine, _| {
            let line = "+-------------------------------------+\n";
            let gpu = machine.gpus[0].index;
            let text = format!(
                "{line}| GPU compute policies:               |\n| GPU     Name           Value        |\n\
                 |=====================================|\nFailed to get compute policies for GPU {gpu} : Not Supported\n\
                 Failed to retrieve compute policies for requested devices : Not Supported"
            );
            answer(&text, UNSUPPORTED)
        }),
        answers_for(
            &["--set-timeslice"],
            "Set timeslice config for a GPU: 0=DEFAULT, 1=SHORT, 2=MEDIUM, 3=LONG",
            |machine, given| {
                let words = ["Default", "Short", "Medium", "Long"];
                let number = given.get("--set-timeslice").and_then(|value| value.parse::<usize>().ok());
                let Some(word) = number.and_then(|number| words.get(number)) else {
                    return answer("Input should be 0, 1, 2 or 3. See nvidia-smi compute-policy -h.", INVALID);
                };
                let gpu = machine.gpus[0].index;
                let text = format!(
                    "Failed to set timeslice policy with value {word} for GPU {gpu} : Not Supported\n\
                     Failed to set timeslice for requested devices : Not Supported"
                );
                answer(&text, UNSUPPORTED)
            },
        ),
    ],
    alone: None,
    chooses: true,
};

fn no_instances(_: &Machine<'_>, _: &Given) -> Answer {
    answer("No MIG-enabled devices found.", 0)
}

pub(crate) static MIG: Subcommand = Subcommand {
    name: "mig",
    about: "Multi Instance GPU management.",
    options: &[
        value(&["-i", "--id"], IDS),
        value(&["-gi", "--gpu-instance-id"], "GPU instance IDs"),
        value(&["-ci", "--compute-instance-id"], "Compute instance IDs"),
        answers(&["-lgi", "--list-gpu-instances"], "List GPU instances", no_instances),
        answers(&["-lci", "--list-compute-instances"], "List compute instances", no_instances),
        answers(&["-lcip", "--list-compute-instance-profiles"], "List compute instance profiles", no_instances),
        answers_for(&["-cgi", "--create-gpu-instance"], "Create GPU instances for these profiles", no_instances),
        answers(&["-dgi", "--destroy-gpu-instance"], "Destroy GPU instances", no_instances),
        answers(&["-dci", "--destroy-compute-instance"], "Destroy compute instances", no_instances),
        answers(
            &["-C", "--default-compute-instance"],
            "Create compute instances with the default profile",
            no_instances,
        ),
    ],
    alone: None,
    chooses: true,
};

pub(crate) static VGPU: Subcommand = Subcommand {
    name: "vgpu",
    about: "vGPU information.",
    options: &[
        value(&["-i", "--id"], IDS),
        answers(&["-q", "--query"], "Display detailed information", no_vgpu),
        answers(&["-s", "--supported"], "Display supported vGPU types", no_vgpu),
        answers(&["-c", "--creatable"], "Display creatable vGPU types", no_vgpu),
    ],
    alone: Some(no_vgpu),
    chooses: true,
};

fn no_vgpu(_: &Machine<'_>, _: &Given) -> Answer {
    answer("No supported devices in vGPU mode", 0)
}

/// The GPU that `-p` names, and an answer about it.
fn of_pci(machine: &Machine<'_>, given: &Given, about: fn(&str) -> Answer) -> Answer {
    let Some(wanted) = given.get("-p") else { return answer("Must specify -p with this option.", INVALID) };
    match machine.gpus.iter().find(|gpu| gpu.is_called(wanted)) {
        Some(gpu) => about(&gpu.pci.address()),
        None => answer("Failed to parse device specified at the command-line", INVALID),
    }
}

pub(crate) static DRAIN: Subcommand = Subcommand {
    name: "drain",
    about: "Display drain state information about the system as well as remove and discover devices.",
    options: &[
        value(&["-p", "--pciid"], "PCI address of a GPU, as 0000:01:00.0"),
        answers(&["-q", "--query"], "Query the drain state of the GPU", |machine, given| {
            of_pci(machine, given, |address| {
                answer(&format!("The current drain state of GPU {address} is: not draining."), 0)
            })
        }),
        answers_for(&["-m", "--modify"], "Modify the drain state: 0 = not draining, 1 = draining", |machine, given| {
            of_pci(machine, given, |_| answer("Failed to modify the GPU drain state.", FAILED))
        }),
        answers(&["-r", "--remove"], "If possible, remove the GPU", |machine, given| {
            of_pci(machine, given, |_| answer("Failed to remove the specified GPU.", FAILED))
        }),
        answers(&["-d", "--discover"], "Discover all GPUs that had been removed", |_, _| {
            answer("Failed to perform a PCI discover for GPUs.", FAILED)
        }),
    ],
    alone: None,
    chooses: false,
};

fn no_chip_to_chip(_: &Machine<'_>, _: &Given) -> Answer {
    answer("No Devices support C2C.", UNSUPPORTED)
}

pub(crate) static C2C: Subcommand = Subcommand {
    name: "c2c",
    about: "Display C2C Link information",
    options: &[
        value(&["-i", "--id"], IDS),
        value(&["-l", "--link"], "Limit a command to a specific link"),
        answers(&["-s", "--status"], "Display link state (active/inactive)", no_chip_to_chip),
    ],
    alone: None,
    chooses: true,
};

pub(crate) static GPM: Subcommand = Subcommand {
    name: "gpm",
    about: "Display GPU Performance Monitoring information.",
    options: &[
        value(&["-i", "--id"], IDS),
        answers_for(&["-s", "--set-stream-state"], "Set GPU Performance Monitoring Stream State", |_, given| {
            let failed = "Failed to set GPU performance monitoring stream state";
            match given.get("-s") {
                Some("0" | "1") => answer(&format!("{failed}: Insufficient Permissions"), DENIED),
                _ => answer(&format!("{failed}: Invalid Argument"), INVALID),
            }
        }),
        answers(&["-g", "--get-stream-state"], "Get GPU Performance Monitoring Stream State", |_, _| {
            answer("GPM stream state: DISABLED", 0)
        }),
    ],
    alone: None,
    chooses: true,
};

pub(crate) static PCI: Subcommand = Subcommand {
    name: "pci",
    about: "Display PCI information",
    options: &[
        value(&["-i", "--id"], IDS),
        answers(&["-gErrCnt", "--getErrorCounters"], "Query PCI error counters", |machine, _| {
            let mut text = String::new();
            for gpu in &machine.gpus {
                text += &gpu.title();
                for (name, field) in [("REPLAY_COUNTER:", 94), ("REPLAY_ROLLOVER_COUNTER:", 95)] {
                    let count = gpu.nvml.field(gpu.device, field, 0);
                    let count = count.map_or_else(|_| "error".to_owned(), |count| count.to_string());
                    text += &format!("    {name:<24} {count}\n");
                }
            }
            (text, 0)
        }),
        answers(&["-cErrCnt", "--clearErrorCounters"], "Clear PCI error counters", |machine, _| {
            (machine.gpus[0].title(), DENIED)
        }),
    ],
    alone: None,
    chooses: true,
};

pub(crate) static CONF_COMPUTE: Subcommand = Subcommand {
    name: "conf-compute",
    about: "Display Confidential Compute information.",
    options: &[
        value(&["-i", "--id"], IDS),
        answers(&["-f", "--get-cc-feature"], "Display Confidential Compute feature status", |_, _| {
            answer("CC status: OFF", 0)
        }),
        answers(&["-e", "--get-environment"], "Display Confidential Compute environment", |_, _| {
            answer("CC Environment: UNAVAILABLE", 0)
        }),
        answers(&["-d", "--get-devtools-mode"], "Display Confidential Compute DevTools Mode", |_, _| {
            answer("DevTools Mode: OFF", 0)
        }),
        answers(&["-gc", "--get-cpu-caps"], "Display Confidential Compute CPU Capability", |_, _| {
            answer("Failed to display Conf. Compute CPU capabilities: Not Supported", UNSUPPORTED)
        }),
        answers(&["-gg", "--get-gpus-caps"], "Display Confidential Compute GPUs Capability", |_, _| {
            answer("Failed to display Conf. Compute GPUs capabilities: Not Supported", UNSUPPORTED)
        }),
        answers(&["-gm", "--get-mem-size-info"], "Display Confidential Compute memory sizes", |machine, _| {
            let title = machine.gpus[0].title();
            answer(&format!("{title}Failed to display Conf. Compute GPU Memory Size Info: Not Supported"), UNSUPPORTED)
        }),
        answers(&["-grs", "--get-gpus-ready-state"], "Display Confidential Compute GPUs Ready State", |_, _| {
            answer("Failed to display Conf. Compute GPUs Ready State: Not Supported", UNSUPPORTED)
        }),
        answers_for(&["-srs", "--set-gpus-ready-state"], "Set Confidential Compute GPUs Ready State", |_, _| {
            answer("Failed to set Conf. Compute GPUs Ready State: Not Supported", UNSUPPORTED)
        }),
    ],
    alone: None,
    chooses: true,
};

pub(crate) static POWER_HINT: Subcommand = Subcommand {
    name: "power-hint",
    about: "Scale the power usage by clocks, temperature and workload.",
    options: &[
        value(&["-i", "--id"], IDS),
        answers(&["-l", "--list-info"], "List supported input values", |_, _| answer("No supported devices found", 0)),
    ],
    alone: None,
    chooses: true,
};

pub(crate) static BOOST_SLIDER: Subcommand = Subcommand {
    name: "boost-slider",
    about: "Control and list all boost sliders.",
    options: &[
        value(&["-i", "--id"], IDS),
        answers(&["-l", "--list"], "List all boost sliders", |_, _| {
            let line = "+-------------------------------------------------+\n";
            let text = format!(
                "{line}| GPU Boost Slider                                |\n\
                 | GPU     Slider       Max Value    Current Value |\n\
                 |=================================================|\n\
                 |   No supported devices found                    |\n{line}"
            );
            (text, 0)
        }),
        answers_for(&["--vboost"], "Set video boost slider from 0 to max value", |machine, _| {
            let line = |index: usize| format!("Warning: GPU {index} is not supporting this feature: Not Supported\n");
            (machine.gpus.iter().map(|gpu| line(gpu.index)).collect(), 0)
        }),
    ],
    alone: None,
    chooses: true,
};

pub(crate) static BASE_CLOCKS: Subcommand = Subcommand {
    name: "base-clocks",
    about: "Query GPU base clocks.",
    options: &[value(&["-i", "--id"], IDS)],
    alone: Some(|machine, _| {
        let line = |index: usize| format!("GPU {index}:\n\tGraphics: \tNot Supported\n");
        (machine.gpus.iter().map(|gpu| line(gpu.index)).collect(), 0)
    }),
    chooses: true,
};
