//! The reports that a case leaves behind.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use protocol::device_report::{REFUSED, UNWRITTEN};
use serde_json::Value;

use super::lean_report;
use crate::check::need::Need;

/// Value of `FAKEGPU_REPORT_PATH` for the processes of a case.
pub fn device_report_pattern(scratch: &Path) -> PathBuf {
    scratch.join("device-{pid}.json")
}

/// The file through which the processes of a case share the memory of their GPUs.
pub fn machine(scratch: &Path) -> PathBuf {
    scratch.join("gpus")
}

/// The file in which the processes of a case record gaps and findings immediately.
pub fn journal(scratch: &Path) -> PathBuf {
    scratch.join("journal.jsonl")
}

/// The cluster report, with only the long lists that are needed, and its file; `None` if there is none.
///
/// # Errors
/// One sentence if the report cannot be read or does not parse.
pub fn cluster(path: &Path, need: Need) -> Result<Option<(Value, File)>, String> {
    let unreadable = |error: std::io::Error| format!("cluster report {}: {error}", path.display());
    let mut file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(unreadable)?,
    };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(unreadable)?;
    let report = lean_report::read(&bytes, need).map_err(|error| format!("cluster report does not parse: {error}"))?;
    Ok(Some((report, file)))
}

/// The device reports of a case, by rank, then pid.
///
/// # Errors
/// One sentence naming a report that does not parse; a killed process leaves no report or a complete one.
pub fn devices(scratch: &Path) -> Result<Vec<Value>, String> {
    let mut reports = Vec::new();
    for entry in std::fs::read_dir(scratch).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
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

/// What the operating system refused to the processes of a case, and why a device report is missing.
pub fn refusals(scratch: &Path) -> Vec<String> {
    let mut refusals = Vec::new();
    for entry in std::fs::read_dir(scratch).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with("device-") || ![REFUSED, UNWRITTEN].iter().any(|ending| name.ends_with(ending)) {
            continue;
        }
        refusals.push(match std::fs::read_link(entry.path()) {
            Ok(sentence) => sentence.to_string_lossy().into_owned(),
            // There was no room for a link.
            Err(_) => format!("a device report could not be written ({name}); see the stderr of its process"),
        });
    }
    refusals.sort();
    refusals
}

pub(in crate::execute) fn rank_of(report: &Value) -> Option<u32> {
    report.get("measured")?.get("rank")?.as_u64()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::execute::collect::gaps;
    use crate::observation::Gap;

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
        assert_eq!(gaps::in_reports(None, &reports), [expected]);
        assert_eq!(refusals(scratch.path()), [""; 0]);
        std::os::unix::fs::symlink("no room; make some", scratch.path().join("device-5.json.unwritten")).unwrap();
        assert_eq!(refusals(scratch.path()), ["no room; make some"]);
        std::fs::write(scratch.path().join("device-4.json.unwritten"), "{").unwrap();
        assert!(
            refusals(scratch.path())[0].starts_with("a device report could not be written (device-4.json.unwritten)")
        );
        std::fs::write(scratch.path().join("device-7.json"), "{").unwrap();
        assert!(devices(scratch.path()).unwrap_err().contains("device-7.json"));
    }
}
