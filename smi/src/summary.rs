//! The table that nvidia-smi prints without arguments, the list of `-L`, and the versions.

use crate::clock;
use crate::field::COMPUTE_MODES;
use crate::gpu::Read::{self, Memory, Nth, Number, Word};
use crate::gpu::{Gpu, Machine, Reading};
use crate::nvml::Code;

const LINE: &str = "+-----------------------------------------------------------------------------------------+\n";
const COLUMNS: &str = "+-----------------------------------------+------------------------+----------------------+\n";
const HEADER: &str = "\
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
";
const PROCESSES: &str = "\
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
";

/// The longest name of a GPU or process that the table shows in full.
const NAME: usize = 27;
const PROCESS: usize = 32;

/// "ERR!" for a value that should be there.
fn or(reading: Reading, other: &str) -> String {
    reading.unwrap_or_else(|code| if is_error(code) { "ERR!".to_owned() } else { other.to_owned() })
}

fn is_error(code: Code) -> bool {
    matches!(code, Code::LOST | Code(999))
}

/// Watts without decimals, "119W".
fn watts(reading: Reading) -> String {
    let whole = |watts: String| watts.parse::<f64>().map_or(watts, |watts| format!("{}W", watts.floor()));
    or(reading.map(whole), "N/A")
}

/// A text cut at its end.
fn begin(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        text.to_owned()
    } else {
        text.chars().take(most - 3).chain("...".chars()).collect()
    }
}

/// A text cut at its beginning.
fn end(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most { text.to_owned() } else { "...".chars().chain(text.chars().skip(count - (most - 3))).collect() }
}

fn rows(gpu: &Gpu<'_>) -> String {
    let get = |read: Read| read.read(gpu);
    let on = |reading: Reading| or(reading, "N/A").replace("Enabled", "On").replace("Disabled", "Off");
    let persistence = on(get(Word("GetPersistenceMode", 0, &["Disabled", "Enabled"])));
    let display = on(get(Word("GetDisplayActive", 0, &["Disabled", "Enabled"])));
    let ecc = match get(Word("GetEccMode", 0, &["Off", "On"])).as_deref() {
        Ok("On") => or(get(Read::Ecc(1, 0, None)), "N/A"),
        Ok(off) => off.to_owned(),
        Err(code) => or(Err(*code), "N/A"),
    };
    let fan = get(Number("GetFanSpeed")).map(|speed| format!("{speed}%"));
    let temperature = gpu.nvml.long(gpu.device, "nvmlDeviceGetTemperature", [0]).map(|degrees| format!("{degrees}C"));
    let mebibytes = |nth| or(get(Memory(nth)).map(|memory| format!("{memory}MiB")), "N/A");
    let busy = get(Nth("GetUtilizationRates", 0)).map(|percent| format!("{percent}%"));
    let compute = or(get(Word("GetComputeMode", 0, COMPUTE_MODES)), "N/A").replace("Exclusive_", "E. ");
    let mig = or(get(Word("GetMigMode", 0, &["Disabled", "Enabled"])), "N/A");
    let mut text = format!(
        "| {:>3}  {:<31}{:<4}|   {:<16}{:>4} |{:>21} |\n",
        gpu.index,
        begin(&gpu.name(), NAME),
        persistence,
        gpu.pci.address(),
        display,
        ecc
    );
    text += &format!(
        "|{:>4}{:>6}{:>6}{:>16} / {:>5} |{:>11} / {:>9} |{:>8}{:>13} |\n",
        or(fan, "N/A"),
        or(temperature, "N/A"),
        or(gpu.performance_state(), "N/A"),
        watts(get(Read::Watts("GetPowerUsage"))),
        watts(get(Read::Watts("GetEnforcedPowerLimit"))),
        mebibytes(1),
        mebibytes(0),
        or(busy, "N/A"),
        compute
    );
    text + &format!("|{:41}|{:24}|{mig:>21} |\n", "", "")
}

/// The table.
pub(crate) fn table(machine: &Machine<'_>) -> String {
    let driver = &machine.driver;
    let mut text = format!("{}       \n{LINE}", clock::long());
    text += &format!("| NVIDIA-SMI {driver:<23}Driver Version: {driver:<15}CUDA Version: {:<9}|\n", machine.cuda);
    text += &format!("{COLUMNS}{HEADER}");
    for gpu in &machine.gpus {
        text += &format!("{}{COLUMNS}", rows(gpu));
    }
    text += &format!("\n{LINE}{PROCESSES}");
    let mut is_empty = true;
    for gpu in &machine.gpus {
        for (process, name) in gpu.processes() {
            is_empty = false;
            text += &format!(
                "|{:>5}   N/A  N/A{:>16}{:>7}   {:<36}{:>10} |\n",
                gpu.index,
                process.pid,
                "C",
                end(&name, PROCESS),
                format!("{}MiB", process.used_memory >> 20)
            );
        }
    }
    if is_empty {
        text += &format!("|  {:<87}|\n", "No running processes found");
    }
    text + LINE
}

/// `-L`
pub(crate) fn list(machine: &Machine<'_>) -> String {
    machine.gpus.iter().map(Gpu::title).collect()
}

/// `--version`
pub(crate) fn versions(machine: &Machine<'_>) -> String {
    // NVML's version is CUDA's major number and the driver's version.
    let nvml = machine.nvml.system_text("nvmlSystemGetNVMLVersion").unwrap_or_default();
    let nvml = nvml.split_once('.').map_or(nvml.as_str(), |(_, driver)| driver);
    let driver = &machine.driver;
    format!(
        "NVIDIA-SMI version  : {driver}\nNVML version        : {nvml}\nDRIVER version      : {driver}\nCUDA Version        : {}\n",
        machine.cuda
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_as_nvidias_are() {
        assert_eq!(begin("NVIDIA GeForce RTX 5090 Laptop GPU", NAME), "NVIDIA GeForce RTX 5090 ...");
        assert_eq!(begin("NVIDIA A100-SXM4-80GB", NAME), "NVIDIA A100-SXM4-80GB");
        assert_eq!(end("/opt/my_lab_python_env_LLM3/bin/python", PROCESS), "...ab_python_env_LLM3/bin/python");
    }
}
