//! The machine and its GPUs, and how values are read: each [`Read`] is data that is turned into NVML queries here.

use crate::nvml::{Code, Device, Nvml, Pci, Process};
use crate::{Failure, clock};

/// The requested GPUs.
pub(crate) struct Machine<'a> {
    pub(crate) nvml: &'a Nvml,
    pub(crate) gpus: Vec<Gpu<'a>>,
    pub(crate) driver: String,
    /// "13.0"
    pub(crate) cuda: String,
}

/// One GPU.
pub(crate) struct Gpu<'a> {
    pub(crate) nvml: &'a Nvml,
    pub(crate) device: Device,
    pub(crate) index: usize,
    /// GPUs of the machine.
    pub(crate) count: usize,
    pub(crate) pci: Pci,
}

/// A value without its unit, or why there is none.
pub(crate) type Reading = Result<String, Code>;

/// How a value is read. Functions are named without `nvmlDevice`.
#[derive(Clone, Copy)]
pub(crate) enum Read {
    /// A text.
    Text(&'static str),
    /// A number.
    Number(&'static str),
    /// The nth number that a function returns, as a word.
    Word(&'static str, usize, &'static [&'static str]),
    /// The nth number that a function returns.
    Nth(&'static str, usize),
    /// A number for a clock: graphics 0, SM 1, memory 2, video 3.
    Clock(&'static str, i32),
    /// A function's result in milliwatts, shown in watts.
    Watts(&'static str),
    /// A field value in milliwatts, shown in watts.
    WattsOf(u32),
    /// A field value, signed or not.
    Value(u32),
    /// The nth of total, used and free memory, MiB; 3 is reserved memory.
    Memory(usize),
    /// The same for BAR1.
    Bar1(usize),
    /// A field value in nanoseconds, shown in microseconds.
    Microseconds(u32),
    /// Whether the clocks are throttled for this reason.
    Reason(u64),
    /// Errors: 0 corrected or 1 uncorrected, 0 volatile or 1 aggregate, where; `None` is everywhere.
    Ecc(i32, i32, Option<i32>),
    /// Anything else.
    Of(fn(&Gpu<'_>) -> Reading),
    /// The same text on every GPU.
    Fixed(&'static str),
    /// Not available from NVML on these machines.
    Nothing,
}

const MIB: u64 = 1 << 20;
const NOT_SUPPORTED: Code = Code(3);

fn watts(milliwatts: u64) -> String {
    format!("{}.{:02}", milliwatts / 1000, milliwatts % 1000 / 10)
}

fn word(words: &[&str], number: u32) -> Reading {
    words.get(number as usize).map(|word| (*word).to_owned()).ok_or(Code(999))
}

impl Read {
    /// Asks for it.
    pub(crate) fn read(self, gpu: &Gpu<'_>) -> Reading {
        let (nvml, device) = (gpu.nvml, gpu.device);
        let name = |function: &str| format!("nvmlDevice{function}");
        match self {
            Self::Text(function) => nvml.text(device, &name(function)),
            Self::Number(function) => nvml.number(device, &name(function)).map(|number| number.to_string()),
            Self::Word(function, nth, words) => {
                nvml.numbers::<4>(device, &name(function)).and_then(|numbers| word(words, numbers[nth]))
            }
            Self::Nth(function, nth) => {
                nvml.numbers::<4>(device, &name(function)).map(|numbers| numbers[nth].to_string())
            }
            Self::Clock(function, which) => nvml.long(device, &name(function), [which]).map(|mhz| mhz.to_string()),
            Self::Watts(function) => nvml.number(device, &name(function)).map(|number| watts(u64::from(number))),
            Self::WattsOf(field) => nvml.field(device, field, 0).map(watts),
            Self::Microseconds(field) => nvml.field(device, field, 0).map(|time| (time / 1000).to_string()),
            Self::Value(field) => nvml.field(device, field, 0).map(|bits| (bits as u32 as i32).to_string()),
            Self::Memory(nth) => {
                let memory = nvml.memory(device)?;
                let bytes = [memory.total, memory.used, memory.free, memory.reserved][nth];
                Ok((bytes / MIB).to_string())
            }
            Self::Bar1(nth) => {
                let [total, free, used] = nvml.bar1(device)?;
                Ok(([total, used, free][nth] / MIB).to_string())
            }
            Self::Reason(bit) => {
                let reasons = nvml.long(device, "nvmlDeviceGetCurrentClocksEventReasons", [])?;
                Ok(if reasons & bit == 0 { "Not Active" } else { "Active" }.to_owned())
            }
            Self::Ecc(error, counter, None) => {
                nvml.long(device, "nvmlDeviceGetTotalEccErrors", [error, counter]).map(|count| count.to_string())
            }
            Self::Ecc(error, counter, Some(place)) => nvml
                .long(device, "nvmlDeviceGetMemoryErrorCounter", [error, counter, place])
                .map(|count| count.to_string()),
            Self::Of(body) => body(gpu),
            Self::Fixed(text) => Ok(text.to_owned()),
            Self::Nothing => Err(NOT_SUPPORTED),
        }
    }
}

/// `NVML_BRAND_*`
const BRANDS: &[&str] = &[
    "Unknown",
    "Quadro",
    "Tesla",
    "NVS",
    "Grid",
    "GeForce",
    "Titan",
    "NVIDIA Virtual Applications",
    "NVIDIA Virtual PC",
    "NVIDIA Virtual Compute Server",
    "NVIDIA RTX Virtual Workstation",
    "NVIDIA Cloud Gaming",
    "Quadro RTX",
    "NVIDIA RTX",
    "NVIDIA",
    "GeForce RTX",
    "Titan RTX",
];

/// `NVML_DEVICE_ARCH_*`
const ARCHITECTURES: &[&str] = &[
    "Unknown",
    "Unknown",
    "Kepler",
    "Maxwell",
    "Pascal",
    "Volta",
    "Turing",
    "Ampere",
    "Ada Lovelace",
    "Hopper",
    "Blackwell",
];

impl<'a> Machine<'a> {
    /// All GPUs of the machine, or those that `wanted` names by index, UUID, serial number or PCI address.
    ///
    /// # Errors
    /// "No devices were found".
    pub(crate) fn find(nvml: &'a Nvml, wanted: Option<&[String]>) -> Result<Self, Failure> {
        let failed = |code: Code| Failure { message: nvml.explain(code), code: u8::try_from(code.0).unwrap_or(255) };
        let devices = nvml.devices().map_err(failed)?;
        let count = devices.len();
        let mut gpus = Vec::new();
        let mut reasons = Vec::new();
        for (index, (device, usable)) in devices.into_iter().enumerate() {
            gpus.push(Gpu { nvml, device, index, count, pci: nvml.pci(device).map_err(failed)? });
            reasons.push(usable);
        }
        if let Some(wanted) = wanted {
            let mut chosen = Vec::new();
            for name in wanted {
                let place = gpus.iter().position(|gpu| gpu.is_called(name)).ok_or_else(Failure::no_devices)?;
                chosen.push(gpus.remove(place));
            }
            chosen.sort_by_key(|gpu| gpu.index);
            gpus = chosen;
        }
        for gpu in &gpus {
            reasons[gpu.index].map_err(|code| gpu.no_handle(code))?;
        }
        if gpus.is_empty() {
            return Err(Failure::no_devices());
        }
        let driver = match nvml.system_text("nvmlSystemGetDriverVersion") {
            Err(NOT_SUPPORTED) => "N/A".to_owned(),
            driver => driver.map_err(failed)?,
        };
        let cuda = nvml.cuda_version().map_err(failed)?;
        Ok(Self { nvml, gpus, driver, cuda: format!("{}.{}", cuda / 1000, cuda % 1000 / 10) })
    }
}

impl Gpu<'_> {
    /// The line above the information about it: "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-...)".
    pub(crate) fn title(&self) -> String {
        format!("GPU {}: {} (UUID: {})\n", self.index, self.name(), self.uuid())
    }

    /// Whether `-i name` refers to this GPU.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        let address = |text: &str| {
            let (domain, rest) = text.split_once(':').filter(|(_, rest)| rest.contains(':')).unwrap_or(("0", text));
            Some((u32::from_str_radix(domain, 16).ok()?, rest.to_ascii_lowercase()))
        };
        name.parse() == Ok(self.index)
            || self.nvml.text(self.device, "nvmlDeviceGetUUID").is_ok_and(|uuid| uuid == name)
            || self.nvml.text(self.device, "nvmlDeviceGetSerial").is_ok_and(|serial| serial == name)
            || (name.contains(':') && address(name) == address(&self.pci.address()))
    }

    /// Why nothing can be shown about it.
    fn no_handle(&self, code: Code) -> Failure {
        let (address, why) = (self.pci.short_address(), self.nvml.explain(code));
        let advice = if code == Code::LOST { ".  Reboot the system to recover this GPU" } else { "" };
        Failure {
            message: format!("Unable to determine the device handle for GPU {address}: {why}{advice}"),
            code: u8::try_from(code.0).unwrap_or(255),
        }
    }

    pub(crate) fn name(&self) -> String {
        Read::Text("GetName").read(self).unwrap_or_else(|_| "Unknown".to_owned())
    }

    pub(crate) fn uuid(&self) -> String {
        Read::Text("GetUUID").read(self).unwrap_or_else(|_| "Unknown".to_owned())
    }

    pub(crate) fn brand(&self) -> Reading {
        word(BRANDS, self.nvml.number(self.device, "nvmlDeviceGetBrand")?)
    }

    pub(crate) fn architecture(&self) -> Reading {
        word(ARCHITECTURES, self.nvml.number(self.device, "nvmlDeviceGetArchitecture")?)
    }

    /// "P0"
    pub(crate) fn performance_state(&self) -> Reading {
        self.nvml.number(self.device, "nvmlDeviceGetPerformanceState").map(|state| format!("P{state}"))
    }

    /// "9.0"
    pub(crate) fn compute_capability(&self) -> Reading {
        let [major, minor] = self.nvml.numbers(self.device, "nvmlDeviceGetCudaComputeCapability")?;
        Ok(format!("{major}.{minor}"))
    }

    /// "0x19", with two digits.
    pub(crate) fn pci_bus(&self) -> Reading {
        Ok(format!("0x{:02X}", self.pci.bus))
    }

    pub(crate) fn pci_device(&self) -> Reading {
        Ok(format!("0x{:02X}", self.pci.device))
    }

    pub(crate) fn pci_domain(&self) -> Reading {
        Ok(format!("0x{:04X}", self.pci.domain))
    }

    pub(crate) fn pci_device_id(&self) -> Reading {
        Ok(format!("0x{:08X}", self.pci.device_id))
    }

    pub(crate) fn pci_subsystem_id(&self) -> Reading {
        Ok(format!("0x{:08X}", self.pci.subsystem_id))
    }

    /// The nth of class and subclass.
    pub(crate) fn pci_class(&self, nth: usize) -> Reading {
        self.nvml.pci_class(self.device).map(|classes| format!("0x{:X}", classes[nth]))
    }

    /// A mask, as "0x0000000000000001".
    pub(crate) fn mask(&self, function: &str) -> Reading {
        self.nvml.long(self.device, function, []).map(|mask| format!("0x{mask:016X}"))
    }

    /// Degrees below the highest operating temperature.
    pub(crate) fn margin(&self) -> Reading {
        self.nvml.versioned(self.device, "nvmlDeviceGetMarginTemperature").map(|margin| (margin as i32).to_string())
    }

    /// KB/s: 0 is what the GPU sends, 1 what it receives.
    pub(crate) fn throughput(&self, which: i32) -> Reading {
        self.nvml.long(self.device, "nvmlDeviceGetPcieThroughput", [which]).map(|kilobytes| kilobytes.to_string())
    }

    /// The nth count of `nvmlEccSramErrorStatus_v1_t`.
    pub(crate) fn sram_errors(&self, nth: usize) -> Reading {
        self.nvml.sram_errors(self.device).map(|(counts, _)| counts[nth].to_string())
    }

    /// Whether there are so many SRAM errors that the GPU should be replaced.
    pub(crate) fn sram_threshold(&self) -> Reading {
        self.nvml.sram_errors(self.device).map(|(_, is_exceeded)| if is_exceeded { "Yes" } else { "No" }.to_owned())
    }

    /// Pages retired for a cause, 0 or 1.
    pub(crate) fn retired(&self, cause: i32) -> Reading {
        self.nvml.retired_pages(self.device, cause).map(|pages| pages.len().to_string())
    }

    pub(crate) fn timestamp(&self) -> Reading {
        Ok(clock::short())
    }

    /// Processes with a compute context, and their names.
    pub(crate) fn processes(&self) -> Vec<(Process, String)> {
        let processes = self.nvml.processes(self.device).unwrap_or_default();
        let name = |process: &Process| self.nvml.process_name(process.pid).unwrap_or_else(|_| "[Not Found]".to_owned());
        processes.iter().map(|process| (*process, name(process))).collect()
    }
}

/// How a missing value appears in a report.
pub(crate) fn or_na(reading: Reading, unit: &str) -> String {
    match reading {
        Ok(value) if unit.is_empty() => value,
        Ok(value) => format!("{value} {unit}"),
        Err(code) => missing(code).to_owned(),
    }
}

/// Why there is no value.
pub(crate) fn missing(code: Code) -> &'static str {
    match code {
        Code::NO_PERMISSION => "Insufficient Permissions",
        Code::LOST => "GPU is lost",
        Code(999) => "Unknown Error",
        _ => "N/A",
    }
}
