//! What nvidia-smi prints of a fixed machine, column for column: two H100 and a T4 with driver 580.65.06, on which nothing runs.
//! The layouts are those of NVIDIA's program of that driver, the numbers follow from the formulas of docs/monitors.md.

use std::path::Path;
use std::process::{Command, Output};

use quick_xml::Reader;
use quick_xml::events::Event;

/// nvidia-smi with these arguments, on the machine.
fn smi(arguments: &[&str]) -> Output {
    let test = std::env::current_exe().unwrap();
    let shim = test.parent().unwrap().join("libfakegpu.so");
    assert!(shim.exists(), "{} is not there: cargo builds it with this test", shim.display());
    let libraries = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(&shim, libraries.path().join("libnvidia-ml.so.1")).unwrap();
    run(libraries.path(), arguments)
}

fn run(libraries: &Path, arguments: &[&str]) -> Output {
    command(libraries, arguments).output().unwrap()
}

fn command(libraries: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fakegpu-smi"));
    command.args(arguments).env_clear().env("TZ", "UTC").env("LD_LIBRARY_PATH", libraries);
    command.env("FAKEGPU_PROFILES", "h100:2,t4").env("FAKEGPU_DRIVER", "13.0");
    command
}

/// As [`smi`], where the case did something to each of the GPUs: the first is tired, the second fell off the bus, and the third
/// retired pages. `FTEST_FAULTS` as the runner makes it.
fn unwell(arguments: &[&str]) -> Output {
    let healths = [
        r#"{"ecc": {"corrected": 12, "uncorrected": 1, "earlier_corrected": 40, "earlier_uncorrected": 2},
            "remapped_rows": {"corrected": 2}, "throttle": "thermal", "pcie_generation": 3, "pcie_width": 8}"#,
        r#"{"lost": true, "xid": 79}"#,
        r#"{"retired_pages": {"corrected": 1, "uncorrected": 2, "pending": true}}"#,
    ];
    let event = |(gpu, health): (usize, &&str)| {
        let number = gpu + 1;
        format!(
            r#"{{"number": {number}, "origin": "", "at": {{"after": {{"rank": {gpu}, "elapsed": {{"secs": 0, "nanos": 0}}}}}},
                "action": {{"gpu": {{"gpu": "node0/{gpu}", "node": 0, "local": {gpu}, "slot": {gpu}, "health": {health}}}}}}}"#
        )
    };
    let events: Vec<String> = healths.iter().enumerate().map(event).collect();
    let shim = std::env::current_exe().unwrap().parent().unwrap().join("libfakegpu.so");
    let libraries = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(&shim, libraries.path().join("libnvidia-ml.so.1")).unwrap();
    let mut command = command(libraries.path(), arguments);
    command.env("FTEST_FAULTS", format!("[{}]", events.join(","))).output().unwrap()
}

#[test]
fn a_gpu_that_is_unwell() {
    let text = |arguments: &[&str]| {
        let output = unwell(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let fields = "--query-gpu=ecc.errors.corrected.volatile.total,ecc.errors.uncorrected.volatile.total,\
                  ecc.errors.corrected.aggregate.dram,ecc.errors.uncorrected.aggregate.total,remapped_rows.correctable,\
                  remapped_rows.uncorrectable,remapped_rows.pending,remapped_rows.failure,temperature.gpu,temperature.gpu.tlimit,\
                  clocks_event_reasons.hw_slowdown,clocks_event_reasons.hw_thermal_slowdown,\
                  clocks_event_reasons.sw_thermal_slowdown,pcie.link.gen.current,pcie.link.gen.max,\
                  pcie.link.width.current,gpu_recovery_action";
    assert_eq!(
        text(&[fields, "--format=csv,noheader", "-i", "0"]),
        "12, 1, 52, 3, 2, 3, Yes, No, 92, -7, Active, Active, Not Active, 3, 5, 8, Drain and Reset\n"
    );
    let counters =
        "--query-gpu=clocks_event_reasons_counters.hw_thermal_slowdown,clocks_event_reasons_counters.sw_power_cap";
    let counters = text(&[counters, "--format=csv,noheader,nounits", "-i", "0"]);
    let numbers: Vec<i64> = counters.trim().split(", ").map(|number| number.parse().unwrap()).collect();
    assert!(numbers[0] >= 0 && numbers[1] == 0, "{counters}");
    let table = text(&["-i", "0,2"]);
    assert!(table.contains("00000000:01:00.0 Off |                    1 |"), "{table}");
    assert!(table.contains("| N/A   92C    P0 "), "{table}");

    // The pages are the last of 16 GiB, of 64 KiB each.
    let pages = text(&[
        "--query-retired-pages=gpu_bus_id,retired_pages.address,retired_pages.cause",
        "--format=csv",
        "-i",
        "2",
    ]);
    assert_eq!(
        pages,
        "gpu_bus_id, retired_pages.address, retired_pages.cause\n\
         00000000:03:00.0, 0x00000003ffff0000, Single Bit ECC\n\
         00000000:03:00.0, 0x00000003fffe0000, Double Bit ECC\n\
         00000000:03:00.0, 0x00000003fffd0000, Double Bit ECC\n"
    );
    let retired = "--query-gpu=retired_pages.sbe,retired_pages.dbe,retired_pages.pending";
    assert_eq!(text(&[retired, "--format=csv,noheader", "-i", "2"]), "1, 2, Yes\n");
}

#[test]
fn a_lost_gpu_has_no_handle() {
    for arguments in [&[][..], &["-L"], &["-q"], &["-i", "1"], &["-i", "00000000:02:00.0", "-q"]] {
        let output = unwell(arguments);
        assert_eq!(
            String::from_utf8(output.stdout).unwrap(),
            "Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.  Reboot the system to recover this GPU\n",
            "{arguments:?}"
        );
        assert_eq!(output.status.code(), Some(15), "{arguments:?}");
    }
    assert!(unwell(&["-i", "0,2"]).status.success(), "those that are there");
}

#[test]
fn parts_of_gpus_as_csv() {
    let clocks = text(&["--query-supported-clocks=gpu_name,mem,gr", "--format=csv", "-i", "2"]);
    let lines: Vec<&str> = clocks.lines().collect();
    // From 1590 MHz down to 210 in steps of 15, for each of the two clocks of the memory.
    assert_eq!((lines[0], lines[1]), ("gpu_name, memory [MHz], graphics [MHz]", "Tesla T4, 5001 MHz, 1590 MHz"));
    assert_eq!((lines.len(), *lines.last().unwrap()), (1 + 2 * 93, "Tesla T4, 405 MHz, 210 MHz"));
    let rows = "--query-remapped-rows=gpu_bus_id,remapped_rows.correctable,remapped_rows.failure";
    assert_eq!(
        text(&[rows, "--format=csv"]),
        "gpu_bus_id, remapped_rows.correctable, remapped_rows.failure\n00000000:01:00.0, 0, No\n\
         00000000:02:00.0, 0, No\n00000000:03:00.0, [N/A], [N/A]\n"
    );
    assert_eq!(text(&["--query-accounted-apps=pid,gpu_util", "--format=csv"]), "pid, gpu_utilization [%]\n");
    // The H100s remap rows instead, and the T4 has retired none.
    let pages = ["--query-retired-pages=gpu_bus_id,retired_pages.address,retired_pages.cause", "--format=csv,noheader"];
    assert_eq!(text(&[pages[0], pages[1], "-i", "2"]), "");
    assert_eq!(
        text(&[pages[0], pages[1], "-i", "0"]),
        "00000000:01:00.0, [N/A], Single Bit ECC\n00000000:01:00.0, [N/A], Double Bit ECC\n"
    );
    let help = text(&["--help-query-retired-pages"]);
    assert!(help.contains("\"retired_pages.address\"\n"), "{help}");
}

/// What it prints when it succeeds.
fn text(arguments: &[&str]) -> String {
    let output = smi(arguments);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {}\n{text}", output.status);
    text
}

/// The UUIDs of the machine, which never change.
const UUIDS: [&str; 3] = [
    "GPU-3e32758b-cdb2-4b38-a7e1-0e471d98cdd1",
    "GPU-56e105e2-1245-43ea-8c1c-4de82b4c7cd1",
    "GPU-6fc1a69a-8107-4663-aabc-259b564deaab",
];

const TABLE: &str = "\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 580.65.06              Driver Version: 580.65.06      CUDA Version: 13.0     |
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:01:00.0 Off |                    0 |
| N/A   30C    P0             70W /  700W |       0MiB /  81920MiB |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA H100 80GB HBM3          On  |   00000000:02:00.0 Off |                    0 |
| N/A   30C    P0             70W /  700W |       0MiB /  81920MiB |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
|   2  Tesla T4                       On  |   00000000:03:00.0 Off |                    0 |
| N/A   30C    P8              7W /   70W |       0MiB /  16384MiB |      0%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|  No running processes found                                                             |
+-----------------------------------------------------------------------------------------+
";

#[test]
fn the_table() {
    let text = text(&[]);
    let (date, table) = text.split_once('\n').unwrap();
    // "Mon Jun 22 04:00:43 2026       "
    assert_eq!((date.len(), date.trim_end().len()), (31, 24), "{date}");
    assert_eq!(table, TABLE);
}

#[test]
fn the_list_and_the_versions() {
    let list: String = ["NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3", "Tesla T4"]
        .iter()
        .enumerate()
        .map(|(index, name)| format!("GPU {index}: {name} (UUID: {})\n", UUIDS[index]))
        .collect();
    assert_eq!(text(&["-L"]), list);
    assert_eq!(text(&["--list-gpus"]), list);
    let versions = "NVIDIA-SMI version  : 580.65.06\nNVML version        : 580.65.06\n\
                    DRIVER version      : 580.65.06\nCUDA Version        : 13.0\n";
    assert_eq!(text(&["--version"]), versions);
}

#[test]
fn fields_as_csv() {
    let fields = "--query-gpu=index,gpu_name,memory.total,utilization.gpu,temperature.gpu,power.draw,clocks.sm,fan.speed,\
                  mig.mode.current,clocks_throttle_reasons.active,pcie.link.gen.max,compute_cap,gpu_bus_id";
    assert_eq!(
        text(&[fields, "--format=csv"]),
        "index, name, memory.total [MiB], utilization.gpu [%], temperature.gpu, power.draw [W], clocks.current.sm [MHz], \
         fan.speed [%], mig.mode.current, clocks_event_reasons.active, pcie.link.gen.max, compute_cap, pci.bus_id\n\
         0, NVIDIA H100 80GB HBM3, 81920 MiB, 0 %, 30, 70.00 W, 210 MHz, [N/A], Disabled, 0x0000000000000001, 5, 9.0, 00000000:01:00.0\n\
         1, NVIDIA H100 80GB HBM3, 81920 MiB, 0 %, 30, 70.00 W, 210 MHz, [N/A], Disabled, 0x0000000000000001, 5, 9.0, 00000000:02:00.0\n\
         2, Tesla T4, 16384 MiB, 0 %, 30, 7.00 W, 210 MHz, [N/A], [N/A], 0x0000000000000001, 3, 7.5, 00000000:03:00.0\n"
    );
    assert_eq!(
        text(&["--query-gpu=memory.free", "--format=csv,noheader,nounits", "-i", "00000000:03:00.0"]),
        "16384\n"
    );
    assert_eq!(text(&["--query-gpu=index", "--format=csv,noheader", "-i", UUIDS[1]]), "1\n");
    assert_eq!(
        text(&["--query-compute-apps=pid,name,used_memory", "--format=csv"]),
        "pid, process_name, used_gpu_memory [MiB]\n"
    );
}

#[test]
fn every_documented_field_has_a_value_or_is_not_available() {
    let help = text(&["--help-query-gpu"]);
    let names: Vec<&str> = help.lines().filter_map(|line| line.strip_prefix('"')?.split('"').next()).collect();
    assert!(names.len() > 150, "{}", names.len());
    let query = format!("--query-gpu={}", names.join(","));
    let text = text(&[&query, "--format=csv,noheader"]);
    for line in text.lines() {
        let cells: Vec<&str> = line.split(", ").collect();
        assert_eq!(cells.len(), names.len());
        for (name, cell) in names.iter().zip(cells) {
            assert!(!cell.is_empty() && !cell.contains("Error"), "{name}: {cell}");
        }
    }
}

/// Fields that NVIDIA's manual lists for drivers 580, 590 and newer. The T4 has no SRAM counters, and no module.
#[test]
fn the_fields_of_nvidia_smi_580_and_newer() {
    let expected = [
        ("kmd_version", "580.65.06", "580.65.06"),
        ("inforom.checksum_validation", "[N/A]", "[N/A]"),
        ("ecc.errors.corrected.volatile.sram", "0", "[N/A]"),
        ("ecc.errors.uncorrected.aggregate.dram", "0", "0"),
        ("ecc.errors.uncorrected.volatile.sram.parity", "0", "[N/A]"),
        ("ecc.errors.uncorrected.volatile.sram.secded", "0", "[N/A]"),
        ("ecc.errors.uncorrected.aggregate.sram.parity", "0", "[N/A]"),
        ("ecc.errors.uncorrected.aggregate.sram.secded", "0", "[N/A]"),
        ("ecc.errors.uncorrected.aggregate.sram.thresholdExceeded", "No", "[N/A]"),
        ("ecc.errors.uncorrected.aggregate.sram.l2", "0", "[N/A]"),
        ("ecc.errors.uncorrected.aggregate.sram.sm", "0", "[N/A]"),
        ("ecc.errors.uncorrected.aggregate.sram.mcu", "0", "[N/A]"),
        ("ecc.errors.uncorrected.aggregate.sram.pcie", "0", "[N/A]"),
        ("ecc.errors.uncorrected.aggregate.sram.other", "0", "[N/A]"),
        ("dramEncryption.mode.current", "[N/A]", "[N/A]"),
        ("dramEncryption.mode.pending", "[N/A]", "[N/A]"),
        ("temperature.gpu.tlimit", "55", "[N/A]"),
        ("power.draw.average", "70.00 W", "7.00 W"),
        ("power.draw.instant", "70.00 W", "7.00 W"),
        ("edpp_multiplier", "[N/A]", "[N/A]"),
        ("module.power.draw.average", "[N/A]", "[N/A]"),
        ("gsp.mode.current", "Enabled", "Enabled"),
        ("gsp.mode.default", "Enabled", "Enabled"),
        ("c2c.mode", "Disabled", "Disabled"),
        ("protected_memory.total", "0 MiB", "0 MiB"),
        ("fabric.state", "[N/A]", "[N/A]"),
        ("fabric.cliqueId", "[N/A]", "[N/A]"),
        ("platform.chassis_serial_number", "[N/A]", "[N/A]"),
        ("platform.slot_number", "[N/A]", "[N/A]"),
        ("platform.tray_index", "[N/A]", "[N/A]"),
        ("platform.host_id", "[N/A]", "[N/A]"),
        ("platform.peer_type", "[N/A]", "[N/A]"),
        ("platform.module_id", "1", "[N/A]"),
        ("platform.gpu_fabric_guid", "[N/A]", "[N/A]"),
        ("hostname", "[N/A]", "[N/A]"),
        ("bbx.time_run", "[N/A]", "[N/A]"),
        ("gpu.base.current", "[N/A]", "[N/A]"),
        ("power_smoothing.enabled", "[N/A]", "[N/A]"),
        ("power_smoothing.window_multiplier", "[N/A]", "[N/A]"),
        ("power_smoothing.admin_override.ramp_up_rate", "[N/A]", "[N/A]"),
    ];
    let names: Vec<&str> = expected.iter().map(|(name, ..)| *name).collect();
    let query = format!("--query-gpu={}", names.join(","));
    let values = text(&[&query, "--format=csv,noheader", "-i", "0,2"]);
    let [h100, t4] = [0, 1].map(|row| values.lines().nth(row).unwrap().split(", ").collect::<Vec<_>>());
    let actual: Vec<(&str, &str, &str)> =
        names.iter().enumerate().map(|(nth, name)| (*name, h100[nth], t4[nth])).collect();
    assert_eq!(actual, expected);
}

#[test]
fn the_topology() {
    let matrix = text(&["topo", "-m"]);
    let mut lines = matrix.lines();
    assert_eq!(lines.next().unwrap(), "\t\u{1b}[4mGPU0\tGPU1\tGPU2\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\u{1b}[0m");
    let rows: Vec<Vec<&str>> = lines.take(3).map(|line| line.split('\t').collect()).collect();
    let links: Vec<&[&str]> = rows.iter().map(|row| &row[..4]).collect();
    assert_eq!(
        links,
        [["GPU0", " X ", "NV18", "NODE"], ["GPU1", "NV18", " X ", "NODE"], ["GPU2", "NODE", "NODE", " X "]]
    );
    assert!(rows.iter().all(|row| row[row.len() - 3..] == ["0", "", "N/A"]), "{rows:?}");
    assert!(matrix.contains("\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe"));

    let peers = text(&["topo", "-p2p", "n"]);
    let rows = " \t\u{1b}[4mGPU0\tGPU1\tGPU2\t\u{1b}[0m\n GPU0\tX\tOK\tNS\t\n GPU1\tOK\tX\tNS\t\n GPU2\tNS\tNS\tX\t\n\nLegend:\n\n  X    = Self\n";
    assert!(peers.starts_with(rows), "{peers}");

    let links: String = (0..18).map(|link| format!("\t Link {link}: 26.562 GB/s\n")).collect();
    let of_first = format!("GPU 0: NVIDIA H100 80GB HBM3 (UUID: {})\n{links}", UUIDS[0]);
    assert_eq!(text(&["nvlink", "-s", "-i", "0"]), of_first);
}

#[test]
fn the_monitors() {
    assert_eq!(
        text(&["dmon", "-c", "2", "-d", "1"]),
        "# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa   mclk   pclk \n\
         # Idx      W      C      C      %      %      %      %      %      %    MHz    MHz \n\
         \u{20}   0     70     30     35      0      0      0      0      0      0   2619    210 \n\
         \u{20}   1     70     30     35      0      0      0      0      0      0   2619    210 \n\
         \u{20}   2      7     30      -      0      0      0      0      0      0    405    210 \n\
         \u{20}   0     70     30     35      0      0      0      0      0      0   2619    210 \n\
         \u{20}   1     70     30     35      0      0      0      0      0      0   2619    210 \n\
         \u{20}   2      7     30      -      0      0      0      0      0      0    405    210 \n"
    );
    assert_eq!(
        text(&["pmon", "-c", "1", "-i", "1", "-s", "um"]),
        "# gpu         pid   type     sm    mem    enc    dec    jpg    ofa     fb   ccpm    command \n\
         # Idx           #    C/G      %      %      %      %      %      %     MB     MB    name \n\
         \u{20}   1          -     -      -      -      -      -      -      -      -      -    -              \n"
    );
}

#[test]
fn the_report_and_a_section_of_it() {
    let text = text(&["-q", "-i", "2"]);
    for line in [
        "\n==============NVSMI LOG==============\n\nTimestamp                                              : ",
        "\nDriver Version                                         : 580.65.06\n",
        "\n\nAttached GPUs                                          : 3\nGPU 00000000:03:00.0\n",
        "    Product Brand                                      : Tesla\n",
        "    Product Architecture                               : Turing\n",
        "    MIG Mode\n        Current                                        : N/A\n",
        "    PCI\n        Bus                                            : 0x03\n",
        "            HW Thermal Slowdown                        : Not Active\n",
        "    FB Memory Usage\n        Total                                          : 16384 MiB\n",
        "        Single Bit ECC                                 : 0\n",
        "    Remapped Rows                                      : N/A\n",
        "        Instantaneous Power Draw                       : 7.00 W\n",
        "    Processes                                          : None\n",
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
    let section = self::text(&["-q", "-d", "MEMORY,COMPUTE", "-i", "2"]);
    assert!(
        section.contains("GPU 00000000:03:00.0\n    FB Memory Usage\n") && !section.contains("Product Name"),
        "{section}"
    );
}

#[test]
fn the_report_as_xml_has_nvidias_elements() {
    let text = text(&["-q", "-x"]);
    assert!(text.starts_with(
        "<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v13.dtd\">\n<nvidia_smi_log>\n"
    ));
    let mut reader = Reader::from_str(&text);
    let (mut path, mut paths) = (Vec::new(), Vec::new());
    loop {
        match reader.read_event().unwrap() {
            Event::Start(element) => {
                path.push(String::from_utf8(element.name().as_ref().to_vec()).unwrap());
                paths.push(path[1..].join("/"));
            }
            Event::End(_) => drop(path.pop()),
            Event::Eof => break,
            _ => {}
        }
    }
    assert_eq!(paths.iter().filter(|path| *path == "gpu").count(), 3);
    for wanted in include_str!("elements.txt").lines() {
        assert!(paths.iter().any(|path| path == wanted), "{wanted} is missing");
    }
}

#[test]
fn mistakes_end_with_nvidias_words_and_return_values() {
    for (arguments, words, code) in [
        (
            &["--query-gpu=name,cuda_version", "--format=csv"][..],
            "Field \"cuda_version\" is not a valid field to query.\n\n",
            2,
        ),
        (&["-i", "3"], "No devices were found\n", 6),
        (&["-i", "GPU-00000000"], "No devices were found\n", 6),
    ] {
        let output = smi(arguments);
        assert_eq!((String::from_utf8(output.stdout).unwrap().as_str(), output.status.code()), (words, Some(code)));
    }
    let empty = tempfile::tempdir().unwrap();
    let output = run(empty.path(), &[]);
    assert_eq!(output.status.code(), Some(12));
    assert!(output.stdout.starts_with(b"NVIDIA-SMI couldn't find libnvidia-ml.so library in your system."));
}

/// Lines of NVIDIA's program, version 550.163.01, of the same GPUs; the case `frameworks/nvidia-smi` compares with the program itself.
#[test]
fn changes_and_subcommands_say_what_nvidias_say() {
    for (line, words, code) in [
        ("-pm 1 -i 0", "Persistence mode is already Enabled for GPU 00000000:01:00.0.\nAll done.\n", 0),
        (
            "-i 0 -pm 0",
            "Unable to set persistence mode for GPU 00000000:01:00.0: Insufficient Permissions\n\
             Terminating early due to previous errors.\n",
            4,
        ),
        ("-pm 7", "Invalid persistence mode: 7\nTerminating early due to previous errors.\n", 2),
        (
            "-gtt 70 -i 1",
            "GPU Target Temperature Threshold not supported for GPU 00000000:02:00.0.\n\
             Treating as warning and moving on.\nAll done.\n",
            0,
        ),
        (
            "-gtt 70 -eow",
            "GPU Target Temperature Threshold not supported for GPU 00000000:01:00.0.\n\
             Terminating early due to previous errors.\n",
            3,
        ),
        (
            "-i 2 -pl 300",
            "Provided power limit 300.00 W is not a valid power limit which should be between 17.50 W and 70.00 W for GPU \
             00000000:03:00.0\nTerminating early due to previous errors.\n",
            2,
        ),
        ("-dm 0", "-dm is not simulated by ftest: see \"nvidia-smi\" in its page on monitors\n", 3),
        ("--gom=0", "--gom is not simulated by ftest: see \"nvidia-smi\" in its page on monitors\n", 3),
        ("-B", "No excluded devices found.\n", 0),
        ("mig -lgi", "No MIG-enabled devices found.\n", 0),
        ("c2c -s", "No Devices support C2C.\n", 3),
        ("drain -q -p 0000:01:00.0", "The current drain state of GPU 00000000:01:00.0 is: not draining.\n", 0),
        (
            "topo -p -i 0,2",
            "Device 0 is connected to device 2 by way of an on-CPU interconnect between PCIe host bridges.\n\n",
            0,
        ),
        ("topo -p2p", "Option \"-p2p\" is missing its value.\n", 2),
        ("nvlink -c -i 2", "", 0),
        ("--frobnicate", "ERROR: Option --frobnicate is not recognized. Please run 'nvidia-smi -h'.\n\n", 255),
        (
            "dmon -c 1 -i 2 --format csv,nounit --gpm-metrics 2",
            "#gpu, pwr, gtemp, mtemp, sm, mem, enc, dec, jpg, ofa, mclk, pclk, id=2\n 2, 7, 30, -, 0, 0, 0, 0, 0, 0, 405, 210, -\n",
            0,
        ),
    ] {
        let output = smi(&line.split(' ').collect::<Vec<_>>());
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!((printed.as_str(), output.status.code()), (words, Some(code)), "{line}");
    }
}

#[test]
fn output_without_room_is_an_error() {
    let test = std::env::current_exe().unwrap();
    let libraries = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(test.with_file_name("libfakegpu.so"), libraries.path().join("libnvidia-ml.so.1"))
        .unwrap();
    let printed = "nvidia-smi: cannot write its output: No space left on device (os error 28)\n";
    for arguments in [&[][..], &["-L"], &["-q", "-x"], &["--help"], &["dmon", "-c", "1"], &["--wrong"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = command(libraries.path(), arguments);
        let child = command.stdout(full).stderr(std::process::Stdio::piped()).spawn().unwrap();
        let done = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(done.stderr).unwrap(), printed, "{arguments:?}");
        assert_eq!(done.status.code(), Some(255), "{arguments:?}");
    }
    let done = run(libraries.path(), &["-q", "-f", "/dev/full"]);
    assert_eq!((done.status.code(), String::from_utf8(done.stderr).unwrap().as_str()), (Some(255), printed));
}
