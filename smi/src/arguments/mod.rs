//! The command line of nvidia-smi: the request, its GPUs, its output file and how often it repeats.

mod help;
mod words;

use words::Words;

use crate::field;
use crate::monitor::Monitor;
use crate::part::{self, Query};
use crate::setter::Setter;
use crate::subcommand::{Call, Given};
use crate::subcommands;
use crate::{Failure, INVALID_ARGUMENT, NOT_FOUND, NOT_SUPPORTED, UNKNOWN};

/// Options of NVIDIA's program that no cluster of today has a use for: driver models of Windows, modes of Kepler, vGPU hosts.
const UNSIMULATED: &[&str] = &[
    "--dtd",
    "--gom",
    "-vm",
    "--virt-mode",
    "-lmcd",
    "--lock-memory-clocks-deferred",
    "-rmcd",
    "--reset-memory-clocks-deferred",
    "-cc",
    "--cuda-clocks",
    "--auto-boost-default",
    "--auto-boost-permission",
    "-dm",
    "--driver-model",
    "-fdm",
    "--force-driver-model",
];

/// Parts left out of a CSV.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) no_header: bool,
    pub(crate) no_units: bool,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Summary,
    List,
    /// All, or the sections of these names.
    Query {
        xml: bool,
        sections: Vec<String>,
    },
    /// Fields by name, of GPUs or of parts of them.
    Fields {
        of: Option<&'static Query>,
        fields: Vec<String>,
        format: Format,
    },
    Monitor(Monitor),
    Subcommand(Call),
    Set {
        setter: &'static Setter,
        value: String,
        /// Whether an operation that a GPU does not support is an error.
        is_strict: bool,
    },
    /// The GPUs excluded by the driver; there are none.
    Excluded,
    /// S-class units; there are none.
    Units {
        xml: bool,
    },
    Versions,
    /// A text.
    Help(String),
}

/// The whole command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arguments {
    pub(crate) command: Command,
    /// Names of GPUs; all if absent.
    pub(crate) gpus: Option<Vec<String>>,
    /// The output file; standard output if absent.
    pub(crate) file: Option<String>,
    /// Milliseconds between two samples; only one sample if absent.
    pub(crate) every: Option<u64>,
    /// Number of samples; until Ctrl+C if absent.
    pub(crate) rounds: Option<u64>,
}

/// Displays of `-d`, and the elements of the report that each shows.
pub(crate) const DISPLAYS: &[(&str, &[&str])] = &[
    ("MEMORY", &["fb_memory_usage", "bar1_memory_usage", "cc_protected_memory_usage"]),
    ("UTILIZATION", &["utilization"]),
    ("ECC", &["ecc_mode", "ecc_errors"]),
    ("TEMPERATURE", &["temperature"]),
    ("POWER", &["gpu_power_readings", "module_power_readings"]),
    (
        "CLOCK",
        &[
            "clocks",
            "applications_clocks",
            "default_applications_clocks",
            "max_clocks",
            "max_customer_boost_clocks",
            "clock_policy",
        ],
    ),
    ("COMPUTE", &["compute_mode"]),
    ("PIDS", &["processes"]),
    (
        "PERFORMANCE",
        &["performance_state", "clocks_event_reasons", "clocks_event_reasons_counters", "sparse_operation_mode"],
    ),
    ("SUPPORTED_CLOCKS", &["supported_clocks"]),
    ("PAGE_RETIREMENT", &["retired_pages"]),
    ("ACCOUNTING", &["accounting_mode", "accounting_mode_buffer_size"]),
    ("ENCODER_STATS", &["encoder_stats"]),
    ("FBC_STATS", &["fbc_stats"]),
    ("ROW_REMAPPER", &["remapped_rows"]),
    ("RESET_STATUS", &["gpu_recovery_action"]),
    ("SUPPORTED_GPU_TARGET_TEMP", &["supported_gpu_target_temp"]),
    ("VOLTAGE", &["voltage"]),
    ("GSP_FIRMWARE_VERSION", &["gsp_firmware_version"]),
];

impl Arguments {
    /// Reads the words after the program's name.
    ///
    /// # Errors
    /// nvidia-smi's message for anything it does not know.
    pub(crate) fn parse(words: &[String]) -> Result<Self, Failure> {
        match words.first().map(String::as_str) {
            Some("dmon" | "pmon") => Self::monitor(&words[0], &words[1..]),
            Some("daemon" | "replay" | "encodersessions" | "fbcsessions") => Err(unsimulated(&words[0])),
            Some(name) if subcommands::find(name).is_some() => Self::subcommand(name, &words[1..]),
            _ => Self::options(words),
        }
    }

    fn new(command: Command) -> Self {
        Self { command, gpus: None, file: None, every: None, rounds: None }
    }

    fn options(words: &[String]) -> Result<Self, Failure> {
        let mut result = Self::new(Command::Summary);
        let mut seen = Seen::default();
        let mut words = Words::new(words);
        while let Some((option, value)) = words.next() {
            let word = value.map_or_else(|| option.to_owned(), |value| format!("{option}={value}"));
            let family = match option {
                "-h" | "--help" => seen.alone(Command::Help(help::usage())),
                "--help-query-gpu" => seen.alone(Command::Help(help::gpu())),
                "--version" => seen.alone(Command::Versions),
                "-L" | "--list-gpus" => seen.alone(Command::List),
                "-B" | "--list-excluded-gpus" => seen.alone(Command::Excluded),
                option if UNSIMULATED.contains(&option) => return Err(unsimulated(option)),
                "-t" | "--toggle-led" => {
                    words.value(option, value)?;
                    seen.is_of_leds = true;
                    Family::Setter
                }
                "-q" | "--query" => seen.flag(|seen| &mut seen.is_query),
                "-x" | "--xml-format" => seen.flag(|seen| &mut seen.is_xml),
                "-u" | "--unit" => seen.flag(|seen| &mut seen.is_of_units),
                "-eow" | "--error-on-warning" => {
                    seen.is_strict = true;
                    Family::Setter
                }
                "-sc" | "--scope" | "-m" | "--mode" => {
                    words.value(option, value)?;
                    seen.modifier.get_or_insert(option.to_owned());
                    Family::Setter
                }
                "-d" | "--display" => {
                    seen.displays = Some(words.value(option, value)?);
                    Family::Report
                }
                "-i" | "--id" => {
                    result.gpus = Some(list(&words.value(option, value)?));
                    Family::Any
                }
                "-f" | "--filename" => {
                    result.file = Some(words.value(option, value)?);
                    Family::Shown
                }
                "-l" | "--loop" => {
                    let seconds = words.optional(value).unwrap_or_else(|| "5".to_owned());
                    result.every = Some(1000 * period(option, &seconds)?);
                    Family::Shown
                }
                "-lms" | "--loop-ms" => {
                    let milliseconds = words.optional(value).unwrap_or_else(|| "5000".to_owned());
                    result.every = Some(period(option, &milliseconds)?);
                    Family::Shown
                }
                "--query-gpu" => seen.fields(None, words.given(value))?,
                "--format" => {
                    seen.format = Some(words.given(value));
                    Family::Fields
                }
                option => {
                    if let Some(setter) = Setter::find(option) {
                        let value = if setter.takes_value() { words.value(option, value)? } else { String::new() };
                        seen.setter(setter, value)?
                    } else if let Some(query) = option.strip_prefix("--help-query-").and_then(part::find) {
                        seen.alone(Command::Help(help::parts(query)))
                    } else if let Some(query) = option.strip_prefix("--query-").and_then(part::find) {
                        seen.fields(Some(query), words.given(value))?
                    } else {
                        return Err(unknown(&word));
                    }
                }
            };
            seen.words.push((word, family));
        }
        result.command = seen.command()?;
        Ok(result)
    }

    fn monitor(name: &str, words: &[String]) -> Result<Self, Failure> {
        let mut monitor = Monitor::new(name == "pmon");
        let mut result = Self::new(Command::Summary);
        result.every = Some(1000);
        let mut words = Words::new(words);
        // nvidia-smi prints its usage and exits with 0, which would let a mistake pass.
        let mistake = |what: String| Failure::argument(format!("{what} Please run 'nvidia-smi {name} -h'."));
        while let Some((option, value)) = words.next() {
            let mut value = || words.value_or(value, || mistake(format!("Option \"{option}\" is missing its value.")));
            match option {
                "-h" | "--help" => return Ok(Self::new(Command::Help(help::usage()))),
                "-i" | "--id" => result.gpus = Some(list(&value()?)),
                "-d" | "--delay" => {
                    let most = if name == "pmon" { 10 } else { 600 };
                    let seconds = value()?.parse::<u64>().ok().filter(|seconds| (1..=most).contains(seconds));
                    let wrong =
                        || mistake(format!("Collection delay/interval should be between 1 second and {most} seconds."));
                    result.every = Some(1000 * seconds.ok_or_else(wrong)?);
                }
                "-c" | "--count" => {
                    let wrong = |_| mistake("Invalid value for number of samples to be displayed.".to_owned());
                    result.rounds = Some(value()?.parse().map_err(wrong)?).filter(|count| *count > 0);
                }
                "-s" | "--select" => monitor.select(&value()?)?,
                "-o" | "--options" => monitor.options(&value()?)?,
                "-f" | "--filename" => result.file = Some(value()?),
                "--gpm-metrics" if name == "dmon" => monitor.counters(&value()?)?,
                "--format" if name == "dmon" => monitor.format(&value()?)?,
                unknown => return Err(mistake(format!("Option \"{unknown}\" is not recognized."))),
            }
        }
        result.command = Command::Monitor(monitor);
        Ok(result)
    }

    fn subcommand(name: &str, words: &[String]) -> Result<Self, Failure> {
        let subcommand = subcommands::find(name).expect("the caller found it");
        let mut result = Self::new(Command::Help(subcommand.help()));
        let mut given = Given::default();
        let mut words = Words::new(words);
        while let Some((option, value)) = words.next() {
            if ["-h", "--help"].contains(&option) {
                return Ok(result);
            }
            let Some(choice) = subcommand.options.iter().find(|choice| choice.names.contains(&option)) else {
                return Err(Failure::argument(format!("Option \"{option}\" is not recognized.")));
            };
            let value = if choice.takes_value {
                let missing = || Failure::argument(format!("Option \"{option}\" is missing its value."));
                words.value_or(value, missing)?
            } else {
                String::new()
            };
            if choice.names[0] == "-i" && subcommand.chooses {
                result.gpus = Some(list(&value));
            } else {
                given.0.push((choice.names[0], value));
            }
        }
        if let Some(call) = subcommand.call(given) {
            result.command = Command::Subcommand(call);
        }
        Ok(result)
    }
}

/// The family of an option, which determines the options it can be combined with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    /// Nothing can.
    Alone,
    /// `-q`
    Report,
    /// `--query-gpu` and similar.
    Fields,
    /// Options that change a GPU.
    Setter,
    /// Options that show something.
    Shown,
    Any,
}

/// The options that were seen.
#[derive(Debug, Default)]
struct Seen {
    words: Vec<(String, Family)>,
    alone: Option<Command>,
    is_query: bool,
    is_xml: bool,
    is_of_units: bool,
    is_strict: bool,
    is_of_leds: bool,
    modifier: Option<String>,
    displays: Option<String>,
    fields: Option<(Option<&'static Query>, String)>,
    format: Option<String>,
    setter: Option<(&'static Setter, String)>,
}

impl Seen {
    fn alone(&mut self, command: Command) -> Family {
        self.alone.get_or_insert(command);
        Family::Alone
    }

    fn flag(&mut self, flag: fn(&mut Self) -> &mut bool) -> Family {
        *flag(self) = true;
        Family::Report
    }

    /// # Errors
    /// For a second one.
    fn fields(&mut self, of: Option<&'static Query>, names: String) -> Result<Family, Failure> {
        if self.fields.replace((of, names)).is_some() {
            return Err(Failure::argument("Only one --query-* switch can be used at a time.".to_owned()));
        }
        Ok(Family::Fields)
    }

    /// # Errors
    /// For a second one.
    fn setter(&mut self, setter: &'static Setter, value: String) -> Result<Family, Failure> {
        if self.setter.replace((setter, value)).is_some() {
            return Err(combination("Only one device modification may be done at a time."));
        }
        Ok(Family::Setter)
    }

    /// The first word that belongs to none of these families.
    fn stranger(&self, families: &[Family]) -> Option<&str> {
        self.words.iter().find(|(_, family)| !families.contains(family)).map(|(word, _)| word.as_str())
    }

    /// What is asked for.
    ///
    /// # Errors
    /// For options that cannot be combined.
    fn command(mut self) -> Result<Command, Failure> {
        if let Some(command) = self.alone.take() {
            return match self.stranger(&[Family::Alone]) {
                Some(word) => Err(Failure::argument(format!(
                    "ERROR: Option {word} is not valid for this command. Please run 'nvidia-smi -h' for help.\n"
                ))),
                None => Ok(command),
            };
        }
        let unfit = |word: &str, code| Failure {
            message: format!("ERROR: Option {word} is not recognized. Please run 'nvidia-smi -h' for help.\n"),
            code,
        };
        if let Some((setter, value)) = self.setter.take() {
            return match self.stranger(&[Family::Setter, Family::Any]) {
                Some(word) => Err(unfit(word, UNKNOWN)),
                None => Ok(Command::Set { setter, value, is_strict: self.is_strict }),
            };
        }
        if self.is_of_leds {
            return Err(Failure { message: "No units found in system".to_owned(), code: NOT_FOUND });
        }
        match self.modifier.as_deref() {
            Some("-sc" | "--scope") => return Err(combination("'--scope' can only be used with '--power-limits'.")),
            Some(_) => return Err(combination("'--mode' can only be used with '--lock-gpu-clocks'.")),
            None => {}
        }
        if let Some((of, names)) = self.fields.take() {
            if let Some(word) = self.stranger(&[Family::Fields, Family::Shown, Family::Any]) {
                return Err(unfit(word, INVALID_ARGUMENT));
            }
            let Some(format) = self.format else {
                return Err(Failure::argument(
                    "\"--format=\" switch is missing. Please run 'nvidia-smi -h' for help.\n".to_owned(),
                ));
            };
            return Ok(Command::Fields { of, fields: known(of, &names)?, format: read_format(&format)? });
        }
        if let Some(word) = self.stranger(&[Family::Report, Family::Shown, Family::Any]) {
            return Err(unknown(word));
        }
        let needs_query = |option: &str, what: &str| {
            combination(&format!(
                "Specify -q/--query and {option} to run {what} query.  Please run 'nvidia-smi -h' for help."
            ))
        };
        match (self.is_query, self.is_xml, self.is_of_units, self.displays) {
            (false, true, ..) => Err(needs_query("-x/--xml-format", "an XML")),
            (false, _, _, Some(_)) => Err(needs_query("-d/--display", "a filtered")),
            (false, _, true, _) => Err(needs_query("-u/--unit", "a unit")),
            (false, ..) => Ok(Command::Summary),
            (true, true, _, Some(_)) => Err(Failure::argument(
                "Invalid combination of input arguments: --display/-d flags can not be combined with -x/--xml-format flags."
                    .to_owned(),
            )),
            (true, xml, true, _) => Ok(Command::Units { xml }),
            (true, xml, false, displays) => {
                let sections = displays.map_or(Ok(Vec::new()), |displays| elements(&displays))?;
                Ok(Command::Query { xml, sections })
            }
        }
    }
}

fn combination(what: &str) -> Failure {
    Failure::argument(format!("Invalid combination of input arguments. {what}\n"))
}

fn unknown(word: &str) -> Failure {
    Failure { message: format!("ERROR: Option {word} is not recognized. Please run 'nvidia-smi -h'.\n"), code: UNKNOWN }
}

/// The failure for a feature that NVIDIA's program has but this one does not.
fn unsimulated(what: &str) -> Failure {
    let message = format!("{what} is not simulated by ftest: see \"nvidia-smi\" in its page on monitors");
    Failure { message, code: NOT_SUPPORTED }
}

fn list(text: &str) -> Vec<String> {
    text.split(',').map(|name| name.trim().to_owned()).collect()
}

/// Seconds or milliseconds between two samples.
fn period(option: &str, text: &str) -> Result<u64, Failure> {
    match text.parse() {
        Ok(0) => Err(Failure::argument(
            "Provided [-l(ms) | --loop(-ms)=] value is incorrect. Loop frequency must be greater than 0.\n".to_owned(),
        )),
        Ok(number) => Ok(number),
        Err(_) => Err(Failure::argument(format!("Invalid value {text} of {option}: a number is expected.\n"))),
    }
}

fn read_format(text: &str) -> Result<Format, Failure> {
    let (mut format, mut is_csv) = (Format::default(), false);
    for word in list(text) {
        match word.as_str() {
            "csv" => is_csv = true,
            "noheader" => format.no_header = true,
            "nounits" => format.no_units = true,
            _ => return Err(Failure::argument("Format modifier is not recognized.".to_owned())),
        }
    }
    if is_csv { Ok(format) } else { Err(Failure::argument("Format modifier --format=csv is mandatory.".to_owned())) }
}

/// The fields; each must be known.
fn known(of: Option<&'static Query>, names: &str) -> Result<Vec<String>, Failure> {
    let names = list(names);
    let is_known = |name: &str| match of {
        None => field::find(name).is_some(),
        Some(query) => query.field(name).is_some(),
    };
    match names.iter().find(|name| !is_known(name)) {
        Some(unknown) => Err(Failure::argument(format!("Field \"{unknown}\" is not a valid field to query.\n"))),
        None => Ok(names),
    }
}

/// The elements that displays show.
fn elements(displays: &str) -> Result<Vec<String>, Failure> {
    let mut elements = Vec::new();
    for display in list(displays) {
        let Some((_, shown)) = DISPLAYS.iter().find(|(name, _)| name.eq_ignore_ascii_case(&display)) else {
            return Err(Failure::argument("Failed to parse --display/-d flags".to_owned()));
        };
        elements.extend(shown.iter().map(|element| (*element).to_owned()));
    }
    Ok(elements)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, Failure> {
        Arguments::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn values_follow_an_equals_sign_or_are_the_next_word() {
        for line in [
            "--query-gpu=name,uuid --format=csv,noheader -i 0,1 -lms 200",
            "--format csv,noheader --query-gpu name,uuid --id=0,1 --loop-ms=200",
        ] {
            let arguments = parse(line).unwrap();
            let format = Format { no_header: true, no_units: false };
            let fields = vec!["name".to_owned(), "uuid".to_owned()];
            assert_eq!(arguments.command, Command::Fields { of: None, fields, format });
            assert_eq!(arguments.gpus.unwrap(), ["0", "1"]);
            assert_eq!(arguments.every, Some(200));
        }
        assert_eq!(parse("-l").unwrap().every, Some(5000));
        assert_eq!(parse("-l 2 -q").unwrap().every, Some(2000));
        assert_eq!(parse("dmon -c 3 -d 2").unwrap().rounds, Some(3));
    }

    #[test]
    fn mistakes_have_nvidias_return_values() {
        let failure = |line: &str| parse(line).unwrap_err();
        let unknown = failure("--query-gpu=name,cuda_version --format=csv");
        assert_eq!(unknown.message, "Field \"cuda_version\" is not a valid field to query.\n");
        assert_eq!(unknown.code, 2);
        for (line, code) in [
            ("--query-gpu=name", 2),
            ("--query-gpu=name --format=noheader", 2),
            ("--frobnicate", 255),
            ("stats", 255),
            ("-q -d WEATHER", 2),
            ("-q -x -d MEMORY", 2),
            ("-x", 2),
            ("-L -x", 2),
            ("-l -5", 255),
            ("-lms 0", 2),
            ("topo -p2p", 2),
            ("nvlink -z", 2),
            ("dmon -z", 2),
            ("-i", 255),
            ("-pm", 255),
            ("-pm 1 -q", 255),
            ("-pm 1 -c 0", 2),
            ("-t 0", 6),
            ("daemon", 3),
        ] {
            assert_eq!(failure(line).code, code, "{line}");
        }
    }

    #[test]
    fn displays_are_sections_of_the_report() {
        let Command::Query { xml: false, sections } = parse("-q -d MEMORY,ecc").unwrap().command else { panic!() };
        assert_eq!(
            sections,
            ["fb_memory_usage", "bar1_memory_usage", "cc_protected_memory_usage", "ecc_mode", "ecc_errors"]
        );
    }

    #[test]
    fn no_field_has_a_name_of_another() {
        let mut names: Vec<&str> = field::all().flat_map(|field| field.names.iter().copied()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!((names.len(), count > 170), (count, true));
    }
}
