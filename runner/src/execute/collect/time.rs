//! What the GPUs of a case did on the modeled clock: the steps in its device reports become `time` of its cluster report.

use std::collections::BTreeSet;
use std::path::Path;

use protocol::device_report::DeviceTime;
use protocol::report::ClusterReport;
use serde_json::Value;
use timing::steps::run_time;

use crate::host::whole_file;

/// Adds `time` to the cluster report, if there is one and a device has times.
///
/// # Errors
/// One sentence if a device's times do not parse or the report cannot be replaced.
pub fn add_to(report: &Path, devices: &[Value]) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("cluster report {}: {error}", report.display());
    let times = devices.iter().flat_map(entries).filter_map(|entry| entry.get("time"));
    let times: Vec<DeviceTime> = times
        .map(|time| serde_json::from_value(time.clone()).map_err(|error| format!("`time` of a device: {error}")))
        .collect::<Result<_, String>>()?;
    if times.is_empty() {
        return Ok(());
    }
    // A report that is not there or does not parse is handled elsewhere.
    let Ok(bytes) = std::fs::read(report) else { return Ok(()) };
    let Ok(mut parsed) = serde_json::from_slice::<ClusterReport>(&bytes) else { return Ok(()) };
    let is_calibrated = times.iter().all(|time| time.is_calibrated);
    parsed.time = Some(run_time(is_calibrated, times.into_iter().filter_map(|time| time.steps).collect()));
    let mut text = serde_json::to_vec_pretty(&parsed).map_err(|error| failed(&error))?;
    text.push(b'\n');
    whole_file::replace(report, &[&text]).map_err(|error| failed(&error))
}

/// The note about GPUs of a case whose times were compared with nothing.
pub fn uncalibrated(devices: &[Value]) -> Option<String> {
    let outside = devices.iter().flat_map(entries).filter(|entry| entry["time"]["is_calibrated"] == false);
    let models: BTreeSet<&str> = outside.filter_map(|entry| entry["gpu_profile"]["id"].as_str()).collect();
    uncalibrated_models(&models)
}

/// The note about models of GPU whose times were compared with nothing; `None` without any.
pub fn uncalibrated_models(models: &BTreeSet<&str>) -> Option<String> {
    (!models.is_empty()).then(|| {
        format!(
            "the time model was compared with no measurement of {}: its times are outside of what was calibrated",
            models.iter().copied().collect::<Vec<_>>().join(", ")
        )
    })
}

fn entries(report: &Value) -> &[Value] {
    report["devices"].as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::check::report_shape;

    const REPORT: &str = include_str!("../../../tests/reports/cluster_report.json");

    fn device(rank: u32, is_calibrated: bool, duration_ns: u64) -> Value {
        let step = json!({"step": 2, "duration_ns": duration_ns, "busy_ns": 900, "computing_ns": 700, "communication_ns": 400,
            "exposed_communication_ns": 200, "collective_wait_ns": 0, "launch_bound_ns": 50, "host_wait_ns": 0,
            "overlap_share": 0.5, "launch_bound_share": 0.05});
        let steps = json!({"rank": rank, "device": 0, "marked_by": "optimizer", "count": 2, "first": step, "last": step,
            "median": step, "shortest": step, "longest": step, "total": step});
        let time = json!({"is_calibrated": is_calibrated, "works": 3, "busy_ns": 1, "computing_ns": 1, "communication_ns": 0,
            "exposed_communication_ns": 0, "steps": steps});
        json!({"devices": [{"gpu_profile": {"id": "t4"}, "time": time}, {"gpu_profile": {"id": "h100"}}]})
    }

    #[test]
    fn the_steps_of_the_devices_are_the_time_of_the_cluster() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("report.json");
        std::fs::write(&path, REPORT).unwrap();
        let before: Value = serde_json::from_str(REPORT).unwrap();
        let read = || serde_json::from_slice::<Value>(&std::fs::read(&path).unwrap()).unwrap();
        add_to(&path, &[json!({"devices": [{"gpu_profile": {"id": "t4"}}]})]).unwrap();
        assert_eq!(read(), before, "no modeled clock");

        add_to(&path, &[device(1, false, 1000), device(0, true, 3000)]).unwrap();
        let report = read();
        assert_eq!(report_shape::mistakes(&report), [""; 0]);
        let time = &report["time"];
        assert_eq!(
            (&time["step_us"], &time["slowest_rank"], &time["is_calibrated"]),
            (&json!(3.0), &json!(0), &json!(false))
        );
        assert_eq!((&time["exposed_share"], &time["busy_share"]), (&json!(0.1), &json!(0.45)));
        assert_eq!((&time["steps"][0]["rank"], &time["steps"][1]["rank"]), (&json!(0), &json!(1)));

        let error = add_to(&path, &[json!({"devices": [{"time": {"works": "many"}}]})]).unwrap_err();
        assert!(error.starts_with("`time` of a device: "), "{error}");
        add_to(&scratch.path().join("none.json"), &[device(0, true, 1)]).unwrap();
    }

    #[test]
    fn a_gpu_outside_of_what_was_calibrated_is_named_once() {
        let note = uncalibrated(&[device(0, false, 1), device(1, false, 1)]).unwrap();
        assert_eq!(
            note,
            "the time model was compared with no measurement of t4: its times are outside of what was calibrated"
        );
        assert_eq!(uncalibrated(&[device(0, true, 1)]), None);
    }
}
