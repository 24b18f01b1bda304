//! `dmon` and `pmon`: one line per sample and GPU or process.

use crate::counters::Counters;
use crate::gpu::Read::{self, Bar1, Clock, Memory, Nth, Number, Of, Value};
use crate::gpu::{Gpu, Machine, Reading};
use crate::{Failure, UNKNOWN, clock};

/// A column of dmon: the letter of `-s` that selects it, its name, its unit and its values.
struct Column {
    select: char,
    name: &'static str,
    unit: &'static str,
    read: Read,
}

const fn column(select: char, name: &'static str, unit: &'static str, read: Read) -> Column {
    Column { select, name, unit, read }
}

fn power(gpu: &Gpu<'_>) -> Reading {
    gpu.nvml.number(gpu.device, "nvmlDeviceGetPowerUsage").map(|milliwatts| (milliwatts / 1000).to_string())
}

fn temperature(gpu: &Gpu<'_>) -> Reading {
    gpu.nvml.long(gpu.device, "nvmlDeviceGetTemperature", [0]).map(|degrees| degrees.to_string())
}

fn memory_busy(gpu: &Gpu<'_>) -> Reading {
    gpu.nvml.long(gpu.device, "nvmlDeviceGetUtilizationRates", []).map(|rates| (rates >> 32).to_string())
}

/// MB/s over PCIe.
fn throughput(gpu: &Gpu<'_>, which: i32) -> Reading {
    let kilobytes = gpu.nvml.long(gpu.device, "nvmlDeviceGetPcieThroughput", [which])?;
    Ok((kilobytes / 1000).to_string())
}

static COLUMNS: &[Column] = &[
    column('p', "pwr", "W", Of(power)),
    column('p', "gtemp", "C", Of(temperature)),
    column('p', "mtemp", "C", Value(82)),
    column('u', "sm", "%", Nth("GetUtilizationRates", 0)),
    column('u', "mem", "%", Of(memory_busy)),
    column('u', "enc", "%", Nth("GetEncoderUtilization", 0)),
    column('u', "dec", "%", Nth("GetDecoderUtilization", 0)),
    column('u', "jpg", "%", Nth("GetJpgUtilization", 0)),
    column('u', "ofa", "%", Nth("GetOfaUtilization", 0)),
    column('c', "mclk", "MHz", Clock("GetClockInfo", 2)),
    column('c', "pclk", "MHz", Clock("GetClockInfo", 0)),
    column('v', "pviol", "%", Read::Fixed("0")),
    column('v', "tviol", "bool", Read::Fixed("0")),
    column('m', "fb", "MB", Memory(1)),
    column('m', "bar1", "MB", Bar1(1)),
    column('m', "ccpm", "MB", Read::Fixed("0")),
    column('e', "sbecc", "errs", Read::Ecc(0, 1, None)),
    column('e', "dbecc", "errs", Read::Ecc(1, 1, None)),
    column('e', "pci", "errs", Number("GetPcieReplayCounter")),
    column('t', "rxpci", "MB/s", Of(|gpu| throughput(gpu, 1))),
    column('t', "txpci", "MB/s", Of(|gpu| throughput(gpu, 0))),
];

/// A run of dmon or pmon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Monitor {
    is_of_processes: bool,
    /// Letters of `-s`.
    metrics: String,
    has_date: bool,
    has_time: bool,
    /// `NVML_GPM_METRIC_*`
    counters: Vec<u32>,
    is_csv: bool,
    has_units: bool,
    has_heading: bool,
}

/// Number of performance counters that `--gpm-metrics` accepts: `NVML_GPM_METRIC_*`.
const COUNTERS: u32 = 97;

/// The failure for an invalid command line.
fn unread(why: &str) -> Failure {
    Failure { message: format!("{why}\nFailed to process command line \n"), code: UNKNOWN }
}

fn dash(reading: Reading) -> String {
    reading.unwrap_or_else(|_| "-".to_owned())
}

impl Monitor {
    /// Settings with the default metrics.
    pub(crate) fn new(is_of_processes: bool) -> Self {
        let metrics = if is_of_processes { "u" } else { "puc" }.to_owned();
        Self {
            is_of_processes,
            metrics,
            has_date: false,
            has_time: false,
            counters: Vec::new(),
            is_csv: false,
            has_units: true,
            has_heading: true,
        }
    }

    /// `-s`
    ///
    /// # Errors
    /// For an unknown letter.
    pub(crate) fn select(&mut self, metrics: &str) -> Result<(), Failure> {
        let known = if self.is_of_processes { "um" } else { "pucvmet" };
        if metrics.is_empty() || !metrics.chars().all(|letter| known.contains(letter)) {
            return Err(unread("Failed to find any metric to display"));
        }
        metrics.clone_into(&mut self.metrics);
        Ok(())
    }

    /// `-o`
    ///
    /// # Errors
    /// For an unknown letter.
    pub(crate) fn options(&mut self, options: &str) -> Result<(), Failure> {
        for letter in options.chars() {
            match letter {
                'D' => self.has_date = true,
                'T' => self.has_time = true,
                _ => return Err(unread("Error in parsing options")),
            }
        }
        Ok(())
    }

    /// The selected performance counters.
    pub(crate) fn counted(&self) -> &[u32] {
        &self.counters
    }

    /// `--gpm-metrics`
    ///
    /// # Errors
    /// For anything that is not the number of a counter.
    pub(crate) fn counters(&mut self, numbers: &str) -> Result<(), Failure> {
        for number in numbers.split(',') {
            match number.trim().parse() {
                Ok(number @ 1..=COUNTERS) => self.counters.push(number),
                Ok(number) => {
                    return Err(unread(&format!("Metric value too high: {number}\nCould not parse GPM metrics")));
                }
                Err(_) => return Err(unread("Could not parse GPM metrics")),
            }
        }
        Ok(())
    }

    /// `--format`
    ///
    /// # Errors
    /// For an unknown word.
    pub(crate) fn format(&mut self, words: &str) -> Result<(), Failure> {
        for word in words.split(',') {
            match word.trim() {
                "csv" => self.is_csv = true,
                "nounit" => self.has_units = false,
                "noheader" => self.has_heading = false,
                unknown => {
                    let why = format!("{unknown} is not a recognized format option\nError parsing format options");
                    return Err(unread(&why));
                }
            }
        }
        Ok(())
    }

    /// Headings if `is_first`, and a sample.
    pub(crate) fn table<'a>(&self, machine: &Machine<'a>, counters: &mut Counters<'a>, is_first: bool) -> String {
        if self.is_of_processes {
            self.of_processes(machine, is_first)
        } else {
            self.of_gpus(machine, counters, is_first)
        }
    }

    /// Date and time before a line: their headings, or the values.
    fn stamp(&self, headings: Option<[&str; 2]>) -> String {
        let [date, time] = headings.map_or_else(clock::columns, |headings| headings.map(str::to_owned));
        let mut text = String::new();
        if self.has_date {
            text += &format!("{date:<9}");
        }
        if self.has_time {
            text += &format!("{time:<9}");
        }
        text
    }

    /// "# gpu", after the headings of date and time.
    fn heading(&self, stamp: [&str; 2], word: &str) -> String {
        let stamp = self.stamp(Some(stamp));
        format!("#{stamp}{word:>4}")
    }

    fn of_gpus<'a>(&self, machine: &Machine<'a>, counters: &mut Counters<'a>, is_first: bool) -> String {
        let mut columns = Vec::new();
        for letter in self.metrics.chars() {
            columns.extend(COLUMNS.iter().filter(|column| column.select == letter));
        }
        let line = |first: String, cells: Vec<String>, counters: Vec<String>| {
            if self.is_csv {
                let words = first.split_whitespace().map(str::to_owned).chain(cells).chain(counters);
                let line = words.collect::<Vec<_>>().join(", ");
                return format!("{}{}\n", if first.starts_with('#') { "" } else { " " }, line.replacen("#, ", "#", 1));
            }
            let cells: String = cells.iter().map(|cell| format!("{cell:>7}")).collect();
            let counters: String = counters.iter().map(|cell| format!("{cell:>11}")).collect();
            format!("{first}{cells}{counters} \n")
        };
        let mut text = String::new();
        if is_first && self.has_heading {
            let names = columns.iter().map(|column| column.name.to_owned()).collect();
            let counters = self.counters.iter().map(|number| format!("id={number}")).collect();
            text += &line(self.heading(["Date", "Time"], "gpu"), names, counters);
        }
        if is_first && self.has_units {
            let units = columns.iter().map(|column| column.unit.to_owned()).collect();
            let counters = self.counters.iter().map(|_| "GPM".to_owned()).collect();
            text += &line(self.heading(["YYYYMMDD", "HH:MM:SS"], "Idx"), units, counters);
        }
        for (place, gpu) in machine.gpus.iter().enumerate() {
            let cells = columns.iter().map(|column| dash(column.read.read(gpu))).collect();
            let counters = counters.cells(place, gpu);
            text += &line(format!(" {}{:>4}", self.stamp(None), gpu.index), cells, counters);
        }
        text
    }

    fn of_processes(&self, machine: &Machine<'_>, is_first: bool) -> String {
        let (has_use, has_memory) = (self.metrics.contains('u'), self.metrics.contains('m'));
        let mut text = String::new();
        if is_first {
            let names = [["sm", "mem", "enc", "dec", "jpg", "ofa"].as_slice(), &["fb", "ccpm"]];
            let units = [["%"; 6].as_slice(), &["MB"; 2]];
            let wanted = |groups: [&[&str]; 2]| -> String {
                let shown = groups.iter().zip([has_use, has_memory]).filter(|(_, is_shown)| *is_shown);
                shown.flat_map(|(group, _)| group.iter()).map(|word| format!("{word:>7}")).collect()
            };
            let [date, units_of_date] = [["Date", "Time"], ["YYYYMMDD", "HH:MM:SS"]];
            text += &format!("{}{:>12}{:>7}{}    command \n", self.heading(date, "gpu"), "pid", "type", wanted(names));
            text +=
                &format!("{}{:>12}{:>7}{}    name \n", self.heading(units_of_date, "Idx"), "#", "C/G", wanted(units));
        }
        for gpu in &machine.gpus {
            let first = format!(" {}{:>4}", self.stamp(None), gpu.index);
            let line = |pid: &str, kind: &str, use_: [String; 6], memory: [String; 2], name: &str| {
                let mut cells = String::new();
                if has_use {
                    cells += &use_.iter().map(|cell| format!("{cell:>7}")).collect::<String>();
                }
                if has_memory {
                    cells += &memory.iter().map(|cell| format!("{cell:>7}")).collect::<String>();
                }
                format!("{first}{pid:>11}{kind:>6}{cells}    {name:<15}\n")
            };
            let nothing = || "-".to_owned();
            let processes = gpu.processes();
            if processes.is_empty() {
                text += &line("-", "-", std::array::from_fn(|_| nothing()), [nothing(), nothing()], "-");
            }
            let samples = gpu.nvml.process_samples(gpu.device).unwrap_or_default();
            for (process, name) in processes {
                let percent = |read: fn(&crate::nvml::ProcessSample) -> u32| {
                    let sample = samples.iter().find(|sample| sample.pid == process.pid);
                    sample.map_or_else(nothing, |sample| read(sample).to_string())
                };
                let cells = [
                    percent(|sample| sample.sm),
                    percent(|sample| sample.memory),
                    percent(|sample| sample.encoder),
                    percent(|sample| sample.decoder),
                    nothing(),
                    nothing(),
                ];
                let memory = [(process.used_memory >> 20).to_string(), "0".to_owned()];
                // The name of the program without its directory, as much of it as fits.
                let name: String = name.rsplit('/').next().unwrap_or(&name).chars().take(15).collect();
                text += &line(&process.pid.to_string(), "C", cells, memory, &name);
            }
        }
        text
    }
}
