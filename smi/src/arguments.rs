//! The command line of nvidia-smi: what is asked for, of which GPUs, where to, how often.

use crate::Failure;
use crate::field;
use crate::monitor::Monitor;
use crate::part::{self, Query};

/// What of a CSV is left out.
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
    Matrix,
    /// `NVML_P2P_CAPS_INDEX_*`
    Peers(i32),
    Links,
    Versions,
    /// A text.
    Help(String),
}

/// The whole command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arguments {
    pub(crate) command: Command,
    /// Names of GPUs; all without.
    pub(crate) gpus: Option<Vec<String>>,
    /// Where to; standard output without.
    pub(crate) file: Option<String>,
    /// Milliseconds between two samples; only one without.
    pub(crate) every: Option<u64>,
    /// Samples; as many as fit before Ctrl+C without.
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
    ("GSP_FIRMWARE_VERSION", &["gsp_firmware_version"]),
];

/// Options that change a GPU, which takes an administrator.
const SETTERS: &[&str] = &[
    "-pm",
    "--persistence-mode",
    "-e",
    "--ecc-config",
    "-p",
    "--reset-ecc-errors",
    "-c",
    "--compute-mode",
    "--gom",
    "-r",
    "--gpu-reset",
    "-vm",
    "--virt-mode",
    "-lgc",
    "--lock-gpu-clocks",
    "-rgc",
    "--reset-gpu-clocks",
    "-lmc",
    "--lock-memory-clocks",
    "-rmc",
    "--reset-memory-clocks",
    "-ac",
    "--applications-clocks",
    "-rac",
    "--reset-applications-clocks",
    "-pl",
    "--power-limit",
    "-am",
    "--accounting-mode",
    "-caa",
    "--clear-accounted-apps",
    "--auto-boost-default",
    "--auto-boost-permission",
    "-mig",
    "--multi-instance-gpu",
    "-gtt",
    "--gpu-target-temp",
];

const USAGE: &str = "\
NVIDIA System Management Interface, as simulated by ftest

nvidia-smi [OPTION1 [ARG1]] [OPTION2 [ARG2]] ...

    -h,   --help                Print usage information and exit.
          --version             Print version information and exit.

  LIST OPTIONS:

    -L,   --list-gpus           Display a list of GPUs connected to the system.

  SUMMARY OPTIONS:

    <no arguments>              Show a summary of GPUs connected to the system.

    [plus any of]

    -i,   --id=                 Target a specific GPU.
    -f,   --filename=           Log to a specified file, rather than to stdout.
    -l,   --loop=               Probe until Ctrl+C at specified second interval.
    -lms, --loop-ms=            Probe until Ctrl+C at specified millisecond interval.

  QUERY OPTIONS:

    -q,   --query               Display GPU info.

    [plus any of]

    -x,   --xml-format          Produce XML output.
    -d,   --display=            Display only selected information, comma separated:
";

const FIELDS: &str = "
  SELECTIVE QUERY OPTIONS:

    --query-gpu=                Information about GPUs; see --help-query-gpu.
    --query-supported-clocks=   Supported clocks; see --help-query-supported-clocks.
    --query-compute-apps=       Active compute processes; see --help-query-compute-apps.
    --query-accounted-apps=     Accounted processes; see --help-query-accounted-apps.
    --query-retired-pages=      Retired pages; see --help-query-retired-pages.
    --query-remapped-rows=      Remapped rows; see --help-query-remapped-rows.
    --format=                   csv (mandatory), noheader, nounits

  SUBCOMMANDS:

    dmon, pmon                  Monitor GPUs, or processes: -i, -d SECONDS, -c COUNT, -s METRICS, -o D|T, -f FILE
    topo                        -m: how GPUs are connected; -p2p r|w|n|a|p: peer to peer
    nvlink                      -s: state of links
";

impl Arguments {
    /// Reads the words behind the program's name.
    ///
    /// # Errors
    /// nvidia-smi's words for what it does not know.
    pub(crate) fn parse(words: &[String]) -> Result<Self, Failure> {
        match words.first().map(String::as_str) {
            Some("dmon" | "pmon") => Self::monitor(&words[0], &words[1..]),
            Some("topo") => Self::topology(&words[1..]),
            Some("nvlink") => Self::links(&words[1..]),
            _ => Self::query(words),
        }
    }

    fn new(command: Command) -> Self {
        Self { command, gpus: None, file: None, every: None, rounds: None }
    }

    fn query(words: &[String]) -> Result<Self, Failure> {
        let mut result = Self::new(Command::Summary);
        let (mut is_query, mut is_xml, mut displays) = (false, false, None);
        let (mut fields, mut format) = (None, None);
        let mut words = Words::new(words);
        while let Some((option, value)) = words.next() {
            match option {
                "-h" | "--help" => return Ok(Self::new(Command::Help(usage()))),
                "--help-query-gpu" => return Ok(Self::new(Command::Help(help_gpu()))),
                "--version" => result.command = Command::Versions,
                "-L" | "--list-gpus" => result.command = Command::List,
                "-q" | "--query" => is_query = true,
                "-x" | "--xml-format" => is_xml = true,
                "-d" | "--display" => displays = Some(words.value(option, value)?),
                "-i" | "--id" => result.gpus = Some(list(&words.value(option, value)?)),
                "-f" | "--filename" => result.file = Some(words.value(option, value)?),
                "-l" | "--loop" => {
                    let seconds = words.optional(value).unwrap_or_else(|| "5".to_owned());
                    result.every = Some(1000 * number(option, &seconds)?);
                }
                "-lms" | "--loop-ms" => {
                    let value = words.value(option, value)?;
                    result.every = Some(number(option, &value)?);
                }
                "--query-gpu" => fields = Some((None, words.value(option, value)?)),
                "--format" => format = Some(words.value(option, value)?),
                option => {
                    let help = option.strip_prefix("--help-query-").and_then(part::find);
                    if let Some(query) = help {
                        return Ok(Self::new(Command::Help(help_parts(query))));
                    }
                    if let Some(query) = option.strip_prefix("--query-").and_then(part::find) {
                        fields = Some((Some(query), words.value(option, value)?));
                        continue;
                    }
                    return Err(refusal(option));
                }
            }
        }
        if let Some((of, names)) = fields {
            let Some(format) = format else {
                return Err(Failure::argument(
                    "\"--format=\" is missing: it must name csv, as in --format=csv\n".to_owned(),
                ));
            };
            result.command = Command::Fields { of, fields: known(of, &names)?, format: read_format(&format)? };
        } else if is_query || is_xml || displays.is_some() {
            let sections = displays.map_or(Ok(Vec::new()), |displays| elements(&displays))?;
            result.command = Command::Query { xml: is_xml, sections };
        }
        Ok(result)
    }

    fn monitor(name: &str, words: &[String]) -> Result<Self, Failure> {
        let mut monitor = Monitor::new(name == "pmon");
        let mut result = Self::new(Command::Summary);
        result.every = Some(1000);
        let mut words = Words::new(words);
        while let Some((option, value)) = words.next() {
            match option {
                "-h" | "--help" => return Ok(Self::new(Command::Help(usage()))),
                "-i" | "--id" => result.gpus = Some(list(&words.value(option, value)?)),
                "-d" | "--delay" => {
                    let value = words.value(option, value)?;
                    result.every = Some(1000 * number(option, &value)?);
                }
                "-c" | "--count" => {
                    let value = words.value(option, value)?;
                    result.rounds = Some(number(option, &value)?).filter(|count| *count > 0);
                }
                "-s" | "--select" => monitor.select(&words.value(option, value)?)?,
                "-o" | "--options" => monitor.options(&words.value(option, value)?)?,
                "-f" | "--filename" => result.file = Some(words.value(option, value)?),
                unknown => {
                    return Err(Failure::argument(format!(
                        "Option {unknown} is not recognized. Please run 'nvidia-smi {name} -h'."
                    )));
                }
            }
        }
        result.command = Command::Monitor(monitor);
        Ok(result)
    }

    fn topology(words: &[String]) -> Result<Self, Failure> {
        let mut result = Self::new(Command::Help(usage()));
        let mut words = Words::new(words);
        while let Some((option, value)) = words.next() {
            match option {
                "-h" | "--help" => return Ok(Self::new(Command::Help(usage()))),
                "-m" | "--matrix" => result.command = Command::Matrix,
                "-p2p" | "--p2pstatus" => {
                    let word = words.value(option, value)?;
                    let capability = ["r", "w", "n", "a", "p"].iter().position(|known| *known == word);
                    let Some(capability) = capability else {
                        return Err(Failure::argument(format!(
                            "Invalid argument {word} of {option}: r, w, n, a or p is expected."
                        )));
                    };
                    result.command = Command::Peers(capability as i32);
                }
                "-i" | "--id" => result.gpus = Some(list(&words.value(option, value)?)),
                unknown => {
                    return Err(Failure::argument(format!(
                        "Option {unknown} is not recognized. Please run 'nvidia-smi topo -h'."
                    )));
                }
            }
        }
        Ok(result)
    }

    fn links(words: &[String]) -> Result<Self, Failure> {
        let mut result = Self::new(Command::Help(usage()));
        let mut words = Words::new(words);
        while let Some((option, value)) = words.next() {
            match option {
                "-h" | "--help" => return Ok(Self::new(Command::Help(usage()))),
                "-s" | "--status" => result.command = Command::Links,
                "-i" | "--id" => result.gpus = Some(list(&words.value(option, value)?)),
                unknown => {
                    return Err(Failure::argument(format!(
                        "Option {unknown} is not recognized. Please run 'nvidia-smi nvlink -h'."
                    )));
                }
            }
        }
        Ok(result)
    }
}

/// The words of a command line: an option and, behind `=` or as the next word, its value.
struct Words<'a> {
    rest: std::iter::Peekable<std::slice::Iter<'a, String>>,
}

impl<'a> Words<'a> {
    fn new(words: &'a [String]) -> Self {
        Self { rest: words.iter().peekable() }
    }

    /// The next option, and what is behind its `=`.
    fn next(&mut self) -> Option<(&'a str, Option<&'a str>)> {
        let word = self.rest.next()?;
        Some(match word.split_once('=').filter(|_| word.starts_with('-')) {
            Some((option, value)) => (option, Some(value)),
            None => (word, None),
        })
    }

    fn value(&mut self, option: &str, value: Option<&str>) -> Result<String, Failure> {
        let value = value.map(str::to_owned).or_else(|| self.rest.next().cloned());
        value.filter(|value| !value.is_empty()).ok_or_else(|| {
            Failure::argument(format!("Option {option} is missing its value. Please run 'nvidia-smi -h' for help.\n"))
        })
    }

    /// A value that may be left out.
    fn optional(&mut self, value: Option<&str>) -> Option<String> {
        value
            .map(str::to_owned)
            .or_else(|| self.rest.next_if(|word| word.bytes().all(|byte| byte.is_ascii_digit())).cloned())
    }
}

fn list(text: &str) -> Vec<String> {
    text.split(',').map(|name| name.trim().to_owned()).collect()
}

fn number(option: &str, text: &str) -> Result<u64, Failure> {
    text.parse().map_err(|_| Failure::argument(format!("Invalid value {text} of {option}: a number is expected.\n")))
}

fn read_format(text: &str) -> Result<Format, Failure> {
    let (mut format, mut is_csv) = (Format::default(), false);
    for word in list(text) {
        match word.as_str() {
            "csv" => is_csv = true,
            "noheader" => format.no_header = true,
            "nounits" => format.no_units = true,
            unknown => {
                return Err(Failure::argument(format!(
                    "\"{unknown}\" is not a valid format option: csv, noheader or nounits.\n"
                )));
            }
        }
    }
    if is_csv {
        Ok(format)
    } else {
        Err(Failure::argument("\"--format=\" must name csv, as in --format=csv\n".to_owned()))
    }
}

/// The fields, of which each must be known.
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
            let message = format!("Unknown display type {display}. Please run 'nvidia-smi -h' for help.\n");
            return Err(Failure::argument(message));
        };
        elements.extend(shown.iter().map(|element| (*element).to_owned()));
    }
    Ok(elements)
}

fn usage() -> String {
    let displays: Vec<&str> = DISPLAYS.iter().map(|(name, _)| *name).collect();
    format!("{USAGE}                                {}\n{FIELDS}", displays.join(", "))
}

/// `"name" or "alias"`
fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(" or ")
}

fn help_gpu() -> String {
    let mut text = "List of valid properties to query for the switch \"--query-gpu\":\n".to_owned();
    for field in field::all() {
        text += &format!("\n{}\n{}\n", quoted(field.names), field.about);
    }
    text
}

fn help_parts(query: &Query) -> String {
    let mut text =
        format!("List of valid properties to query for the switch \"--query-{}\":\n\n{}", query.name, query.about);
    for field in query.fields() {
        text += &format!("\n{}\n{}\n", quoted(field.names), field.about());
    }
    text
}

/// What an option is that does not ask for anything: one for administrators, or none.
fn refusal(option: &str) -> Failure {
    if SETTERS.contains(&option) {
        let message =
            format!("Unable to apply {option}: Insufficient Permissions\nTerminating early due to previous errors.");
        return Failure { message, code: 4 };
    }
    Failure::argument(format!(
        "Invalid combination of input arguments: {option}. Please run 'nvidia-smi -h' for help.\n"
    ))
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
        for line in [
            "--query-gpu=name",
            "--query-gpu=name --format=noheader",
            "--frobnicate",
            "-q -d WEATHER",
            "-l -5",
            "topo -p2p z",
            "-i",
        ] {
            assert_eq!(failure(line).code, 2, "{line}");
        }
        assert_eq!(failure("-pm 1").code, 4);
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
