//! What nvidia-smi prints when asked for help.

use super::DISPLAYS;
use crate::field;
use crate::part::Query;
use crate::subcommands;

const USAGE: &str = "\
NVIDIA System Management Interface, as simulated by ftest

nvidia-smi [OPTION1 [ARG1]] [OPTION2 [ARG2]] ...

    -h,   --help                Print usage information and exit.
          --version             Print version information and exit.

  LIST OPTIONS:

    -L,   --list-gpus           Display a list of GPUs connected to the system.
    -B,   --list-excluded-gpus  Display a list of excluded GPUs in the system.

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

    -u,   --unit                Show units, of which there are none.
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

  DEVICE MODIFICATION OPTIONS:

    Nobody is root on a simulated machine. What is so already succeeds; what would change a GPU ends with 4.

    -pm, -e, -p, -c, -r, -lgc, -rgc, -lmc, -rmc, -ac, -rac, -pl, -am, -caa, -mig, -gtt, each also by its
    long name

    -eow, --error-on-warning    Return a non-zero error for warnings.

  SUBCOMMANDS:

    Each has a help of its own: \"nvidia-smi topo -h\".

    dmon                        Monitor GPUs: -i, -d SECONDS, -c COUNT, -s METRICS, -o D|T, -f FILE,
                                --gpm-metrics, --format
    pmon                        Monitor processes: -i, -d, -c, -s, -o, -f
";

/// `-h`
pub(super) fn usage() -> String {
    let displays: Vec<&str> = DISPLAYS.iter().map(|(name, _)| *name).collect();
    let subcommands: String =
        subcommands::all().map(|subcommand| format!("    {:<27} {}\n", subcommand.name, subcommand.about)).collect();
    format!("{USAGE}                                {}\n{FIELDS}{subcommands}", displays.join(", "))
}

/// `"name" or "alias"`
fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(" or ")
}

/// `--help-query-gpu`
pub(super) fn gpu() -> String {
    let mut text = "List of valid properties to query for the switch \"--query-gpu\":\n".to_owned();
    for field in field::all() {
        text += &format!("\n{}\n{}\n", quoted(field.names), field.about);
    }
    text
}

/// `--help-query-...`
pub(super) fn parts(query: &Query) -> String {
    let mut text =
        format!("List of valid properties to query for the switch \"--query-{}\":\n\n{}", query.name, query.about);
    for field in query.fields() {
        text += &format!("\n{}\n{}\n", quoted(field.names), field.about());
    }
    text
}
