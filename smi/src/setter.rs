//! Options that change a GPU. Nobody is root on a simulated machine, so nothing changes: the answers are nvidia-smi's messages
//! and return values for settings already in effect, features that the GPU lacks, and changes that require an administrator. They
//! are those of nvidia-smi 550.163.01, run on the simulated NVML (`fixtures/monitors/nvidia_smi.py` compares).

use crate::Failure;
use crate::gpu::{Gpu, Machine};

/// The outcome of an option for one GPU.
enum Outcome {
    /// There is nothing to do.
    Done(String),
    /// The GPU cannot.
    Warning(String),
    /// It ends here, with this return value.
    Refused(String, u8),
}

use Outcome::{Done, Refused, Warning};

/// An option that changes a GPU.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Setter {
    /// Short and long.
    names: &'static [&'static str],
    takes_value: bool,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Persistence,
    Ecc,
    EccErrors,
    Compute,
    Reset,
    GpuClocks,
    MemoryClocks,
    ApplicationClocks,
    ClocksBack,
    PowerLimit,
    Accounting,
    AccountedApps,
    Instances,
    TargetTemperature,
}

const fn setter(names: &'static [&'static str], takes_value: bool, kind: Kind) -> Setter {
    Setter { names, takes_value, kind }
}

static SETTERS: &[Setter] = &[
    setter(&["-pm", "--persistence-mode"], true, Kind::Persistence),
    setter(&["-e", "--ecc-config"], true, Kind::Ecc),
    setter(&["-p", "--reset-ecc-errors"], true, Kind::EccErrors),
    setter(&["-c", "--compute-mode"], true, Kind::Compute),
    setter(&["-r", "--gpu-reset"], false, Kind::Reset),
    setter(&["-lgc", "--lock-gpu-clocks"], true, Kind::GpuClocks),
    setter(&["-rgc", "--reset-gpu-clocks"], false, Kind::ClocksBack),
    setter(&["-lmc", "--lock-memory-clocks"], true, Kind::MemoryClocks),
    setter(&["-rmc", "--reset-memory-clocks"], false, Kind::ClocksBack),
    setter(&["-ac", "--applications-clocks"], true, Kind::ApplicationClocks),
    setter(&["-rac", "--reset-applications-clocks"], false, Kind::ClocksBack),
    setter(&["-pl", "--power-limit"], true, Kind::PowerLimit),
    setter(&["-am", "--accounting-mode"], true, Kind::Accounting),
    setter(&["-caa", "--clear-accounted-apps"], false, Kind::AccountedApps),
    setter(&["-mig", "--multi-instance-gpu"], true, Kind::Instances),
    setter(&["-gtt", "--gpu-target-temp"], true, Kind::TargetTemperature),
];

impl Setter {
    /// The one of this name.
    pub(crate) fn find(option: &str) -> Option<&'static Self> {
        SETTERS.iter().find(|setter| setter.names.contains(&option))
    }

    /// Whether a value follows.
    pub(crate) fn takes_value(&self) -> bool {
        self.takes_value
    }

    /// What nvidia-smi prints, with its return value if that is not 0. `is_strict`: whether an operation that a GPU
    /// does not support is an error.
    ///
    /// # Errors
    /// nvidia-smi's error for an invalid value, for changes that require an administrator and, if strict, for
    /// unsupported operations.
    pub(crate) fn apply(&self, machine: &Machine<'_>, value: &str, is_strict: bool) -> Result<String, Failure> {
        let mut text = String::new();
        for gpu in &machine.gpus {
            let (line, code) = match self.on(gpu, value)? {
                Done(line) => (line, None),
                Warning(line) if is_strict => (line, Some(3)),
                Warning(line) => (format!("{line}\nTreating as warning and moving on."), None),
                Refused(line, code) => (line, Some(code)),
            };
            text += &format!("{line}\n");
            if let Some(code) = code {
                return Err(Failure { message: text + "Terminating early due to previous errors.", code });
            }
        }
        Ok(text + "All done.\n")
    }

    /// # Errors
    /// For a value that cannot be read.
    fn on(&self, gpu: &Gpu<'_>, value: &str) -> Result<Outcome, Failure> {
        let address = gpu.pci.address();
        let denied = |what: &str| Refused(format!("{what} for GPU {address}: Insufficient Permissions"), 4);
        let invalid = |what: &str| Refused(format!("Invalid {what}: {value}"), 2);
        let no_clocks =
            || Refused(format!("The current user does not have permission to change clocks for GPU {address}."), 4);
        let is_clocks = |counts: &[usize]| {
            let numbers: Vec<&str> = value.split(',').collect();
            counts.contains(&numbers.len()) && numbers.iter().all(|number| number.parse::<u32>().is_ok())
        };
        let number = || {
            value.parse::<f64>().map_err(|_| {
                let option = self.names[0];
                Failure::argument(format!(
                    "ERROR: Option {value} is invalid for {option}. Please run 'nvidia-smi -h' for help.\n"
                ))
            })
        };
        let state = |function: &str| gpu.nvml.numbers::<2>(gpu.device, function).map(|numbers| numbers[0] != 0);
        Ok(match self.kind {
            Kind::Persistence => match switch(value) {
                None => invalid("persistence mode"),
                Some(wanted) if state("nvmlDeviceGetPersistenceMode") == Ok(wanted) => {
                    Done(format!("Persistence mode is already {} for GPU {address}.", able(wanted)))
                }
                Some(_) => denied("Unable to set persistence mode"),
            },
            Kind::Ecc => match (switch(value), state("nvmlDeviceGetEccMode")) {
                (None, _) => invalid("ECC configuration code"),
                (_, Err(_)) => Warning(format!("ECC features not supported for GPU {address}.")),
                (Some(wanted), Ok(now)) if wanted == now => {
                    Done(format!("ECC support is already {} for GPU {address}.", able(wanted)))
                }
                _ => denied("Unable to set ECC config"),
            },
            Kind::EccErrors => match value {
                "0" | "VOLATILE" | "1" | "AGGREGATE" => denied("Unable to clear ECC errors"),
                _ => invalid("ECC type"),
            },
            Kind::Compute => match value {
                "0" | "DEFAULT" => Done(format!("Compute mode is already set to DEFAULT for GPU {address}.")),
                "1" | "EXCLUSIVE_THREAD" | "2" | "PROHIBITED" | "3" | "EXCLUSIVE_PROCESS" => {
                    denied("Unable to set the compute mode")
                }
                _ => invalid("compute mode"),
            },
            Kind::Reset => Refused(format!("Unable to reset GPU {address}: Insufficient Permissions"), 4),
            Kind::GpuClocks if is_clocks(&[1, 2]) || value.starts_with("tdp") => no_clocks(),
            Kind::GpuClocks => Refused(
                format!(
                    "Specified clocks \"{value}\" are not valid. Please format input as 'gpuClkMin,gpuClkMax' or 'gpuClkVal' e.g. \
                     '--lock-gpu-clocks=1500,1500', '--lock-gpu-clocks=1500', or '--lock-gpu-clocks=tdp,unlimited'"
                ),
                2,
            ),
            Kind::MemoryClocks if is_clocks(&[1, 2]) => no_clocks(),
            Kind::MemoryClocks => Refused(
                format!(
                    "Specified clocks \"{value}\" are not valid. Please format input as 'memClkMin,memClkMax' or 'memClkVal' e.g. \
                     --lock-memory-clocks=5100,5100 or --lock-memory-clocks=5100"
                ),
                2,
            ),
            Kind::ApplicationClocks if is_clocks(&[2]) => no_clocks(),
            Kind::ApplicationClocks => Refused(
                format!(
                    "Specified clocks \"{value}\" are not valid. Please format input as memClk,smClk e.g. \
                     --applications-clocks=2000,300"
                ),
                2,
            ),
            Kind::ClocksBack => no_clocks(),
            Kind::PowerLimit => {
                let wanted = number()?;
                match gpu.nvml.numbers::<2>(gpu.device, "nvmlDeviceGetPowerManagementLimitConstraints") {
                    Ok(limits) if !(f64::from(limits[0])..=f64::from(limits[1])).contains(&(wanted * 1000.0)) => {
                        let [least, most] = limits.map(|limit| f64::from(limit) / 1000.0);
                        Refused(
                            format!(
                                "Provided power limit {wanted:.2} W is not a valid power limit which should be between \
                                 {least:.2} W and {most:.2} W for GPU {address}"
                            ),
                            2,
                        )
                    }
                    _ => denied("Failed to set power management limit"),
                }
            }
            Kind::Accounting => match switch(value) {
                None => invalid("accounting mode"),
                Some(wanted) if state("nvmlDeviceGetAccountingMode") == Ok(wanted) => {
                    Done(format!("Accounting Mode is already {} for GPU {address}.", able(wanted)))
                }
                Some(_) => denied("Unable to set Accounting Mode"),
            },
            Kind::AccountedApps => denied("Unable to clear Accounted PIDs"),
            Kind::Instances => match switch(value) {
                None => invalid("MIG Mode"),
                Some(wanted) => denied(&format!("Unable to {} MIG Mode", if wanted { "enable" } else { "disable" })),
            },
            Kind::TargetTemperature => {
                number()?;
                Warning(format!("GPU Target Temperature Threshold not supported for GPU {address}."))
            }
        })
    }
}

/// `0/DISABLED` or `1/ENABLED`.
fn switch(value: &str) -> Option<bool> {
    match value {
        "0" | "DISABLED" => Some(false),
        "1" | "ENABLED" => Some(true),
        _ => None,
    }
}

fn able(is_on: bool) -> &'static str {
    if is_on { "Enabled" } else { "Disabled" }
}
