//! The trace keeps the rules of the Trace Event Format, as Perfetto's importer reads it.

use std::collections::{BTreeMap, BTreeSet};

use runner::record::event::Attempt;
use runner::report::trace;
use runner::verdict::Verdict;
use serde_json::{Value, json};

use crate::stories::{Story, case, cluster_report, failed, passed, write_report};

/// What is wrong with the trace; nothing when nothing is.
fn mistakes(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let Ok(trace) = serde_json::from_str::<Value>(text) else { return vec!["it is not JSON".to_owned()] };
    if !matches!(trace["displayTimeUnit"].as_str(), Some("ms" | "ns")) {
        wrong.push("displayTimeUnit is ms or ns".to_owned());
    }
    let Some(events) = trace["traceEvents"].as_array() else { return vec!["traceEvents is a list".to_owned()] };
    let mut named = BTreeSet::new();
    let mut slices: BTreeMap<(u64, u64), Vec<(f64, f64)>> = BTreeMap::new();
    let mut flows: BTreeMap<(u64, String), Vec<&Value>> = BTreeMap::new();
    for event in events {
        let (Some(process), Some(thread)) = (event["pid"].as_u64(), event["tid"].as_u64()) else {
            wrong.push(format!("pid and tid are numbers: {event}"));
            continue;
        };
        if event["name"].as_str().is_none_or(str::is_empty) {
            wrong.push(format!("every event has a name: {event}"));
        }
        let time = event["ts"].as_f64().filter(|time| time.is_finite() && *time >= 0.0);
        match (event["ph"].as_str(), time) {
            (Some("M"), _) => match event["name"].as_str() {
                Some("process_name" | "thread_name") if event["args"]["name"].is_string() => {
                    let of_thread = event["name"] == "thread_name";
                    named.insert((process, of_thread.then_some(thread)));
                }
                Some("process_sort_index" | "thread_sort_index") if event["args"]["sort_index"].is_u64() => {}
                _ => wrong.push(format!("metadata names or sorts: {event}")),
            },
            (Some("X"), Some(begin)) => match event["dur"].as_f64().filter(|duration| *duration >= 0.0) {
                Some(duration) => slices.entry((process, thread)).or_default().push((begin, begin + duration)),
                None => wrong.push(format!("a complete slice has a duration: {event}")),
            },
            (Some("s" | "f"), Some(_)) => {
                let Some(id) = event["id"].as_u64() else {
                    wrong.push(format!("a flow has an id: {event}"));
                    continue;
                };
                flows.entry((id, event["cat"].to_string())).or_default().push(event);
            }
            _ => wrong.push(format!("a phase with its time: {event}")),
        }
    }
    for (place @ (process, thread), slices) in &mut slices {
        if !named.contains(&(*process, None)) || !named.contains(&(*process, Some(*thread))) {
            wrong.push(format!("track {place:?} has no name"));
        }
        // The outer one first; what begins within another must end within it. A microsecond has nine digits before it.
        slices.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
        let mut open: Vec<f64> = Vec::new();
        for (begin, end) in slices.iter() {
            while open.last().is_some_and(|outer| *outer <= *begin + 1e-6) {
                open.pop();
            }
            if open.last().is_some_and(|outer| *end > outer + 1e-3) {
                wrong.push(format!("a slice of {place:?} at {begin} ends after the one around it"));
            }
            open.push(*end);
        }
    }
    for ((id, _), ends) in &flows {
        let phases: Vec<&str> = ends.iter().filter_map(|event| event["ph"].as_str()).collect();
        if phases != ["s", "f"] {
            wrong.push(format!("flow {id} has a start and an end: {phases:?}"));
        }
        for event in ends {
            let (place, time) =
                ((event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap()), event["ts"].as_f64().unwrap());
            let slices = slices.get(&place).map(Vec::as_slice).unwrap_or_default();
            if !slices.iter().any(|(begin, end)| *begin - 1e-6 <= time && time <= *end + 1e-6) {
                wrong.push(format!("flow {id} is bound to no slice at {time}"));
            }
        }
    }
    wrong
}

fn story() -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    write_report(directory.path(), "small.json", &cluster_report(2, 4, 60, false));
    write_report(directory.path(), "large.json", &cluster_report(16, 8, 400, true));
    let ids = ["a", "b", "retried", "skipped", "late"];
    let mut story = Story::new("r", ids.map(|id| case("s", id, Some(4))).to_vec());
    story.ends("s/a", vec![failed(8, "large.json")], Verdict::Failed);
    story.ends("s/b", vec![passed(5)], Verdict::Passed);
    let second = Attempt { number: 2, cluster_report: Some("small.json".into()), ..passed(3) };
    story.ends("s/retried", vec![failed(4, "small.json"), second], Verdict::Passed);
    story.ends("s/skipped", Vec::new(), Verdict::Skipped { reason: "no".into() });
    let text = trace::render(&story.run(directory.path()));
    (directory, text)
}

#[test]
fn the_format_is_kept() {
    let (_directory, text) = story();
    assert_eq!(mistakes(&text), [""; 0]);
}

#[test]
fn cases_operations_waits_and_releases_are_there() {
    let (_directory, text) = story();
    let trace: Value = serde_json::from_str(&text).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let count = |kind: &str| events.iter().filter(|event| event["cat"] == kind).count();
    assert_eq!((count("case"), count("attempt")), (4, 4));
    assert!(count("collective") > 1000 && count("transfer") > 10 && count("barrier") > 10 && count("wait") > 1000);
    assert!(count("release") > 1000 && count("release") % 2 == 0);
    let operation = events.iter().find(|event| event["cat"] == "collective").unwrap();
    for name in ["seqno", "communicator", "bytes", "count", "dtype", "waited_us", "modeled_us"] {
        assert!(operation["args"].get(name).is_some(), "{name}: {operation}");
    }
    // Cases that ran at one time have tracks of their own.
    let tracks: BTreeSet<u64> =
        events.iter().filter(|event| event["cat"] == "case").map(|event| event["tid"].as_u64().unwrap()).collect();
    assert_eq!(tracks.len(), 4);
    assert!(text.contains("rank 0 (compute-rack-0-accelerated-node-0)"));
}

/// A rank's steps and the streams of its second one, in its own time.
#[test]
fn the_modeled_clock_has_tracks_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let piece = |name: &str, kind: &str, stream: u64, begin: u64, end: u64| json!({"name": name, "kind": kind, "stream": stream, "begin_ns": begin, "end_ns": end});
    let mut gather = piece("ncclDevKernel_AllGather", "collective", 1, 2_500, 3_500);
    gather["bytes"] = json!(4096);
    gather["file"] = json!("train.py");
    gather["line"] = json!(7);
    let time = json!({
        "is_calibrated": true, "works": 3, "busy_ns": 0, "computing_ns": 0, "communication_ns": 0, "exposed_communication_ns": 0,
        "step_windows": [{"begin_ns": 0, "end_ns": 2_000}, {"begin_ns": 2_000, "end_ns": 4_000}],
        "sample": {"step": 2, "begin_ns": 2_000, "end_ns": 4_000, "is_whole": true, "pieces": [
            piece("gemm", "compute", 0, 2_000, 3_000), gather, piece("Memcpy HtoD", "copy", 0, 3_000, 4_000),
        ]},
    });
    let report = json!({"measured": {"rank": 1}, "devices": [{"time": time}]});
    let file = directory.path().join("devices.json");
    std::fs::write(&file, json!([report]).to_string()).unwrap();
    let mut story = Story::new("r", vec![case("s", "a", Some(2))]);
    story.ends("s/a", vec![Attempt { device_reports: Some(file), ..passed(5) }], Verdict::Passed);
    let text = trace::render(&story.run(directory.path()));
    assert_eq!(mistakes(&text), [""; 0]);
    let trace: Value = serde_json::from_str(&text).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let named: Vec<&str> = events.iter().filter_map(|event| event["args"]["name"].as_str()).collect();
    for name in ["s/a, modeled clock", "rank 1, steps", "rank 1, stream 0", "rank 1, stream 1"] {
        assert!(named.contains(&name), "{name}: {named:?}");
    }
    let slices = |kind: &str| events.iter().filter(move |event| event["cat"] == kind).collect::<Vec<_>>();
    assert_eq!([slices("step").len(), slices("kernel").len(), slices("copy").len()], [2, 1, 1]);
    let [gather] = slices("collective")[..] else { panic!("{text}") };
    assert_eq!((&gather["args"]["bytes"], &gather["args"]["line"]), (&json!(4096), &json!("train.py:7")));
    let steps = slices("step");
    let from_step = |event: &Value| event["ts"].as_f64().unwrap() - steps[0]["ts"].as_f64().unwrap();
    assert!((from_step(gather) - 2.5).abs() < 1e-3 && gather["dur"] == json!(1.0), "{gather}");
}

/// The check of this file is one that can fail.
#[test]
fn broken_traces_are_detected() {
    let (_directory, text) = story();
    for (from, to) in [
        ("\"ph\":\"f\"", "\"ph\":\"s\""),
        ("\"displayTimeUnit\": \"ms\"", "\"displayTimeUnit\": \"s\""),
        ("\"name\":\"thread_name\"", "\"name\":\"thread\""),
        ("\"ph\":\"X\"", "\"ph\":\"Z\""),
        (
            "\"ts\":1000000.0,\"dur\":2345678.0,\"name\":\"attempt",
            "\"ts\":1000001.0,\"dur\":2345678.0,\"name\":\"attempt",
        ),
    ] {
        let broken = text.replacen(from, to, 1);
        assert_ne!(broken, text, "{from} is not in the trace");
        assert!(!mistakes(&broken).is_empty(), "{from} -> {to} is not reported");
    }
}
