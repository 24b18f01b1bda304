//! What a case leaves behind as reports, and the gaps told in them.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use protocol::device_report::UNWRITTEN;
use serde_json::Value;

use super::lean_report;
use crate::check::need::Need;
use crate::observation::Gap;

/// Value of `FAKEGPU_REPORT_PATH` for the processes of a case.
pub fn device_report_pattern(scratch: &Path) -> PathBuf {
    scratch.join("device-{pid}.json")
}

/// The cluster report, with those of its long lists that are needed; `None` when there is none.
///
/// # Errors
/// One sentence for a report that cannot be read or does not parse.
pub fn cluster(path: &Path, need: Need) -> Result<Option<Value>, String> {
    match std::fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("cluster report {}: {error}", path.display())),
        Ok(bytes) => {
            lean_report::read(&bytes, need).map(Some).map_err(|error| format!("cluster report does not parse: {error}"))
        }
    }
}

/// The device reports of a case, by rank, then pid.
///
/// # Errors
/// One sentence naming a report that does not parse, or that a process says it could not write; a process that was killed
/// leaves none or a whole one.
pub fn devices(scratch: &Path) -> Result<Vec<Value>, String> {
    let mut reports = Vec::new();
    for entry in std::fs::read_dir(scratch).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(report) =
            name.strip_prefix("device-").and_then(|rest| rest.strip_suffix(&format!(".json{UNWRITTEN}")))
        {
            return Err(format!(
                "device report device-{report}.json could not be written; the stderr of its process says why"
            ));
        }
        let Some(pid) = name.strip_prefix("device-").and_then(|rest| rest.strip_suffix(".json")) else { continue };
        let pid: u64 = pid.parse().unwrap_or(u64::MAX);
        let bytes = std::fs::read(entry.path()).map_err(|error| format!("device report {name}: {error}"))?;
        let report: Value =
            serde_json::from_slice(&bytes).map_err(|error| format!("device report {name} does not parse: {error}"))?;
        reports.push((rank_of(&report).unwrap_or(u32::MAX), pid, report));
    }
    reports.sort_by_key(|(rank, pid, _)| (*rank, *pid));
    Ok(reports.into_iter().map(|(_, _, report)| report).collect())
}

fn rank_of(report: &Value) -> Option<u32> {
    report.get("measured")?.get("rank")?.as_u64()?.try_into().ok()
}

/// The gaps of the reports, sorted.
pub fn gaps(cluster: Option<&Value>, devices: &[Value]) -> Vec<Gap> {
    let mut gaps: Vec<Gap> = Vec::new();
    for (report, rank) in
        devices.iter().map(|report| (report, rank_of(report))).chain(cluster.map(|report| (report, None)))
    {
        for gap in report.get("gaps").and_then(Value::as_array).into_iter().flatten() {
            let text = |name: &str| gap.get(name).and_then(Value::as_str).unwrap_or("unknown").to_owned();
            gaps.push(Gap {
                library: text("library"),
                name: text("name"),
                detail: gap.get("detail").and_then(Value::as_str).unwrap_or_default().to_owned(),
                count: gap.get("count").and_then(Value::as_u64).unwrap_or(1),
                rank,
            });
        }
    }
    gaps.sort();
    gaps
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reports_come_by_rank_and_their_gaps_with_them() {
        let scratch = tempfile::tempdir().unwrap();
        let write = |pid: u32, report: Value| {
            std::fs::write(scratch.path().join(format!("device-{pid}.json")), report.to_string()).unwrap();
        };
        write(
            5,
            json!({"measured": {"rank": 1}, "gaps": [{"library": "nccl", "name": "ncclX", "detail": "d", "count": 3}]}),
        );
        write(9, json!({"measured": {"rank": 0}, "gaps": []}));
        let reports = devices(scratch.path()).unwrap();
        assert_eq!(reports[0]["measured"]["rank"], 0);
        let expected =
            Gap { library: "nccl".into(), name: "ncclX".into(), detail: "d".into(), count: 3, rank: Some(1) };
        assert_eq!(gaps(None, &reports), [expected]);
        std::fs::write(scratch.path().join("device-7.json"), "{").unwrap();
        assert!(devices(scratch.path()).unwrap_err().contains("device-7.json"));
        std::fs::remove_file(scratch.path().join("device-7.json")).unwrap();
        std::fs::write(scratch.path().join("device-8.json.unwritten"), "").unwrap();
        assert!(devices(scratch.path()).unwrap_err().starts_with("device report device-8.json could not be written"));
    }
}
