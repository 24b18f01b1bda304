//! `benches/on_gpu`: the recorder runs on the simulation as on hardware, says the same twice, and its comparison names what differs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use serde_json::{Value, json};
use tempfile::TempDir;

/// All that needs no PyTorch.
const AREAS: &str = "attributes,limits,allocation,nvml,errors,nccl,failed_collective";
/// Calls that are right or wrong in a way of their own.
const SMALL_CALLS: usize = 200;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where the programs are: beside the directory of this test.
fn programs() -> PathBuf {
    std::env::current_exe().unwrap().ancestors().nth(2).unwrap().to_owned()
}

/// A command without the settings of whoever runs the tests.
fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env("FTEST_PROGRAMS", programs()).env("FTEST_HOME", root()).env_remove("FTEST_RUNS_DIR");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("FAKEGPU_")) {
        command.env_remove(name);
    }
    command
}

fn run(arguments: &[&str]) -> Output {
    command("python3").arg(root().join("benches/on_gpu/run")).args(arguments).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A record behind `ftest exec`, of two simulated H100s.
fn simulated(directory: &Path, name: &str, areas: &str) -> Value {
    let file = directory.join(name);
    let mut ftest = command(programs().join("ftest"));
    ftest.args(["exec", "--devices", "h100:2", "--", "python3"]).arg(root().join("benches/on_gpu/run"));
    ftest.args(["record", "--areas", areas, "--output"]).arg(&file).env("FAKEGPU_UNSUPPORTED_API", "warn");
    let output = ftest.current_dir(directory).output().unwrap();
    // The probes' mistakes are findings, so the exit code is 1.
    read(&file).unwrap_or_else(|| panic!("{}", text(&output)))
}

fn read(file: &Path) -> Option<Value> {
    Some(serde_json::from_slice(&fs::read(file).ok()?).unwrap())
}

struct Records {
    directory: TempDir,
    first: Value,
    second: Value,
}

/// Recorded once for all tests.
fn records() -> &'static Records {
    static RECORDS: OnceLock<Records> = OnceLock::new();
    RECORDS.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        let (first, second) =
            (simulated(directory.path(), "first.json", AREAS), simulated(directory.path(), "second.json", AREAS));
        Records { directory, first, second }
    })
}

/// What is left when everything that is marked as measured is gone.
fn lasting(mut value: Value) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.remove("measured");
                fields.values_mut().for_each(strip);
            }
            Value::Array(elements) => elements.iter_mut().for_each(strip),
            _ => {}
        }
    }
    strip(&mut value);
    value
}

#[test]
fn two_records_of_the_simulation_are_the_same() {
    let records = records();
    // What differs, in words; and nothing else than what is marked may differ in the files.
    let at = |name| records.directory.path().join(name).display().to_string();
    let output = run(&["compare", &at("first.json"), &at("second.json")]);
    assert_eq!(text(&output).trim(), "0 probes differ, 0 areas or probes were not compared");
    assert_eq!(lasting(records.first.clone()), lasting(records.second.clone()));
    let areas = records.first["areas"].as_object().unwrap();
    assert_eq!(areas.len(), AREAS.split(',').count());
    for (area, found) in areas {
        assert!(found["probes"].as_object().is_some_and(|probes| !probes.is_empty()), "{area}: {found}");
        for (name, answer) in found["probes"].as_object().unwrap() {
            for unwanted in ["ended", "gap", "not_made", "skipped"] {
                assert!(answer.get(unwanted).is_none(), "{area}: {name}: {answer}");
            }
        }
    }
    assert!(areas["errors"]["probes"].as_object().unwrap().len() >= SMALL_CALLS);
}

#[test]
fn a_simulation_is_never_called_hardware() {
    let records = records();
    assert_eq!(records.first["source"]["kind"], "simulation");
    let evidence = records.first["source"]["evidence"].as_array().unwrap();
    assert!(evidence.contains(&json!("libfakegpu.so is mapped")), "{evidence:?}");
    assert!(evidence.contains(&json!("no device of NVIDIA's driver is open")), "{evidence:?}");
    // Nor does it get among the recorded ones.
    let directory = tempfile::tempdir().unwrap();
    fs::copy(records.directory.path().join("first.json"), directory.path().join("h100.json")).unwrap();
    let output = run(&["check", directory.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("h100.json: a record of simulation"), "{}", text(&output));
    // Where nothing answers, nothing is recorded.
    let output = run(&["record", "--output", directory.path().join("none.json").to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(text(&output).contains("no GPU answers"), "{}", text(&output));
    assert!(!directory.path().join("none.json").exists());
}

#[test]
fn a_record_does_not_differ_from_itself() {
    let file = records().directory.path().join("first.json");
    let output = run(&["compare", file.to_str().unwrap(), file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert_eq!(text(&output).trim(), "0 probes differ, 0 areas or probes were not compared");
}

/// Changes one field of the first record, by JSON pointer.
fn changed(pointer: &str, to: &Value) -> PathBuf {
    let mut record = records().first.clone();
    let field = record.pointer_mut(pointer).unwrap_or_else(|| panic!("there is no {pointer}"));
    assert_ne!(field, to);
    *field = to.clone();
    let name: String = pointer.chars().filter(char::is_ascii_alphanumeric).collect();
    let file = records().directory.path().join(format!("{name}.json"));
    fs::write(&file, record.to_string()).unwrap();
    file
}

#[test]
fn what_differs_is_named_and_nothing_else() {
    let first = records().directory.path().join("first.json");
    let begins = "/areas/nccl/probes/2 ranks: all_reduce float32 sum of 1000/out/begins/1";
    let bits = records().first.pointer(begins).unwrap().as_str().unwrap();
    // One bit of one element of one rank.
    let last = u8::from_str_radix(&bits[bits.len() - 2..], 16).unwrap() ^ 1;
    let flipped = format!("{}{last:02x}", &bits[..bits.len() - 2]);
    let cases = [
        (
            "/areas/attributes/probes/driver 1 MaxThreadsPerBlock/out/value",
            json!(512),
            "attributes: driver 1 MaxThreadsPerBlock",
        ),
        ("/areas/errors/probes/cudaFree twice/answers/1", json!("cudaFree: 0 cudaSuccess"), "errors: cudaFree twice"),
        (
            "/areas/errors/probes/a kernel traps/after/1",
            json!("cuMemAlloc_v2: 0 CUDA_SUCCESS"),
            "errors: a kernel traps",
        ),
        ("/areas/nvml/probes/nvmlDeviceGetMemoryBusWidth/out/value", json!(4096), "nvml: nvmlDeviceGetMemoryBusWidth"),
        ("/areas/limits/probes/limit stack/out/value", json!(2048), "limits: limit stack"),
        ("/areas/allocation/probes/context/out/taken_mib", json!(430), "allocation: context"),
        (begins, json!(flipped), "nccl: 2 ranks: all_reduce float32 sum of 1000"),
        (
            "/areas/failed_collective/probes/the other rank was killed/answers/3",
            json!("asynchronous error: 0 no error"),
            "failed_collective: the other rank was killed",
        ),
    ];
    for (pointer, value, probe) in cases {
        let file = changed(pointer, &value);
        let output = run(&["compare", first.to_str().unwrap(), file.to_str().unwrap(), "--json"]);
        assert_eq!(output.status.code(), Some(1), "{pointer}: {}", text(&output));
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let differences = found["differences"].as_array().unwrap();
        assert_eq!(differences.len(), 1, "{pointer}: {found}");
        assert_eq!(differences[0]["probe"], probe);
        assert_eq!(differences[0]["left"], *records().first.pointer(pointer).unwrap());
        assert_eq!(differences[0]["right"], value);
        assert_eq!(found["not_compared"], json!([]));
    }
    // Measured values do not count as differences.
    let file = changed("/areas/attributes/probes/driver 33 PciBusId/measured/value", &json!(7));
    let output = run(&["compare", first.to_str().unwrap(), file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    // An area that one of them lacks is named; it is not a silent success.
    let file = changed("/areas/nvml", &json!({"skipped": "there is no NVML"}));
    let output = run(&["compare", first.to_str().unwrap(), file.to_str().unwrap()]);
    assert!(
        text(&output).contains("not compared: nvml (left: recorded, right: there is no NVML)"),
        "{}",
        text(&output)
    );
}

/// A record as hardware would have made it, of one area, changed as given.
fn as_hardware(directory: &Path, changed: &[(&str, Value)]) {
    let mut record = records().first.clone();
    record["source"] = json!({"kind": "hardware", "evidence": ["/dev/nvidia0 is open"]});
    let limits = record["areas"]["limits"].clone();
    record["areas"] = json!({"limits": limits});
    for (pointer, value) in changed {
        *record.pointer_mut(pointer).unwrap() = value.clone();
    }
    fs::write(directory.join("h100.json"), record.to_string()).unwrap();
}

#[test]
fn a_record_of_hardware_is_compared_with_the_simulation_of_its_profile() {
    let directory = tempfile::tempdir().unwrap();
    let check = || run(&["check", directory.path().to_str().unwrap()]);
    as_hardware(directory.path(), &[]);
    let output = check();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(text(&output).contains("1 records checked"), "{}", text(&output));

    as_hardware(directory.path(), &[("/areas/limits/probes/limit stack/out/value", json!(2048))]);
    let output = check();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("limits: limit stack: out.value: hardware 2048, ours 1024"), "{}", text(&output));
    fs::write(directory.path().join("h100.known.json"), r#"{"limits: limit stack": "set by the site"}"#).unwrap();
    let output = check();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    as_hardware(directory.path(), &[]);
    let output = check();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("it differs no longer; remove the line"), "{}", text(&output));

    as_hardware(directory.path(), &[("/machine/devices/0/name", json!("NVIDIA Q999"))]);
    let output = check();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(text(&output).contains("no profile has the name 'NVIDIA Q999'"), "{}", text(&output));
}

/// Those under profiles/recorded. The README there says how many; a record that is added is checked from then on.
#[test]
fn the_recorded_hardware_answers_as_its_simulation() {
    let output = run(&["check"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(text(&output).contains("records checked"), "{}", text(&output));
}

#[test]
fn the_simulation_answers_what_is_documented() {
    let file = records().directory.path().join("first.json");
    let output = run(&["documented", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let rows: usize = text(&output).split_whitespace().next().unwrap().parse().unwrap();
    assert!(rows > SMALL_CALLS, "{}", text(&output));
}

#[test]
fn without_a_gpu_the_modes_that_need_one_say_so() {
    let output = run(&["modes"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let lines: Vec<_> = text(&output).lines().map(str::to_owned).collect();
    let of =
        |mode: &str| lines.iter().find(|line| line.starts_with(mode)).unwrap_or_else(|| panic!("{mode}: {lines:?}"));
    assert!(of("simulate:").contains("recorded from simulation"), "{lines:?}");
    for mode in ["passthrough:", "nccl proxy:", "nccl passthrough:", "hybrid, clamp:", "hybrid, spill_cpu:"] {
        assert!(of(mode).contains("refused: "), "{lines:?}");
    }
}

#[test]
fn the_schema_describes_records_and_refuses_others() {
    let schema: Value = serde_json::from_slice(&fs::read(root().join("schema/gpu_record.v1.json")).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let record = &records().first;
    let mistakes: Vec<_> =
        validator.iter_errors(record).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
    let wrong = [
        ("/source/kind", json!("gpu")),
        ("/source/evidence", json!([])),
        ("/machine/devices", json!([])),
        ("/version", json!(2)),
        ("/areas/limits/probes/limit stack", json!({"value": 1024})),
        ("/areas/limits", json!({})),
    ];
    for (pointer, value) in wrong {
        let mut record = record.clone();
        *record.pointer_mut(pointer).unwrap() = value;
        assert!(!validator.is_valid(&record), "{pointer}");
    }
    let mut fields = Vec::new();
    described(&schema, "", &mut fields);
    assert!(fields.len() > 25, "{fields:?}");
}

/// Every field has a description; `seen` gets their paths.
fn described(schema: &Value, path: &str, seen: &mut Vec<String>) {
    let Some(fields) = schema.as_object() else { return };
    for (name, property) in fields.get("properties").and_then(Value::as_object).into_iter().flatten() {
        assert!(property["description"].is_string(), "{path}.{name} has no description");
        seen.push(format!("{path}.{name}"));
    }
    for (name, value) in fields {
        match value {
            Value::Object(_) => described(value, &format!("{path}.{name}"), seen),
            Value::Array(list) => list.iter().for_each(|value| described(value, &format!("{path}.{name}"), seen)),
            _ => {}
        }
    }
}
