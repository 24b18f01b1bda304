//! HTML pages of runs that are hard to show: many cases, long names, eight ranks, sixteen nodes, hangs, retries. With
//! `FTEST_PAGES=DIR` they are left there, to be looked at in a browser (`.ci/screenshots` does).

use std::path::Path;

use runner::observation::Hang;
use runner::record::event::{Attempt, CaseInfo};
use runner::report::html::{self, Limits};
use runner::verdict::Verdict;

use crate::stories::{Story, case, cluster_report, failed, passed, write_report};

fn keep(name: &str, page: &str) {
    if let Some(directory) = std::env::var_os("FTEST_PAGES") {
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(Path::new(&directory).join(name), page).unwrap();
    }
}

#[test]
fn few_cases_with_everything() {
    let directory = tempfile::tempdir().unwrap();
    write_report(directory.path(), "small.json", &cluster_report(2, 4, 60, false));
    let mut hung = cluster_report(16, 8, 400, true);
    hung.hang = serde_json::from_value(serde_json::json!({
        "sentence": "rank 3 waits in all_reduce 8 of communicator 1 for rank 5", "missing": [5], "cycle": [],
        "waits": [{"rank": 3, "comm_id": 1, "seqno": 8, "operation": "all_reduce 8 of communicator 1", "for_ranks": [5]}]
    }))
    .unwrap();
    write_report(directory.path(), "large.json", &hung);
    let long =
        "a-case-with-a-name-that-nobody-would-type[collective=reduce_scatter,dtype=bfloat16,route=socket,world=8]";
    let ids = [
        "sweep[op=sum,world=4]",
        "sweep[op=max,world=4]",
        "killed",
        long,
        "stuck",
        "needs-gcc",
        "known-hole",
        "again",
        "late",
    ];
    let mut cases: Vec<CaseInfo> = ids.iter().map(|id| case("dist", id, Some(8))).collect();
    cases.extend(["ddp", "fsdp"].map(|id| case("ddp", id, Some(4))));
    let mut before = Story::new("20261120T103000-0001", cases.clone());
    for id in ["sweep[op=sum,world=4]", "killed", long, "stuck"] {
        before.ends(&format!("dist/{id}"), vec![Attempt { duration_us: 400_000, ..passed(1) }], Verdict::Passed);
    }
    before.ends("ddp/ddp", vec![failed(4, "small.json")], Verdict::Failed);
    let mut now = Story::new("20261121T103000-1a2b", cases);
    now.ends(
        "dist/sweep[op=sum,world=4]",
        vec![Attempt { cluster_report: Some("small.json".into()), slow: true, ..passed(7) }],
        Verdict::Passed,
    );
    now.ends("dist/sweep[op=max,world=4]", vec![passed(9)], Verdict::Passed);
    now.ends("dist/killed", vec![failed(4, "small.json")], Verdict::Failed);
    now.ends(&format!("dist/{long}"), vec![failed(8, "large.json")], Verdict::Broken);
    let hang = Hang {
        idle: true,
        sentence: "Nothing has moved for 5 s. Ranks 0 to 4, 6 and 7 wait in all_reduce 8 of communicator 1 for rank 5, which last finished broadcast 7 and is in Python code.".into(),
        missing: vec![5],
        at: vec!["rank 5 is at train.py:44 (validate)".into()],
        lines: vec!["rank 5 got as far as broadcast 7, called at train.py:31 (step)".into()],
        details: (0..8).map(|rank| format!("rank {rank}: waits since 5.0 s in all_reduce 8; process 47{rank} sleeps")).collect(),
        flight_record: Some("flight".into()),
    };
    now.ends(
        "dist/stuck",
        vec![Attempt {
            verdict: Verdict::Timeout,
            hang: Some(Box::new(hang)),
            failures: Vec::new(),
            ..failed(8, "large.json")
        }],
        Verdict::Timeout,
    );
    now.ends("dist/needs-gcc", Vec::new(), Verdict::Skipped { reason: "program gcc is not on PATH".into() });
    now.ends(
        "dist/known-hole",
        vec![failed(4, "missing.json")],
        Verdict::Xfailed { reason: "NCCL 2.30 is not simulated yet".into() },
    );
    now.ends("dist/again", vec![failed(4, "small.json"), Attempt { number: 2, ..passed(3) }], Verdict::Passed);
    now.ends("ddp/ddp", vec![Attempt { cluster_report: Some("small.json".into()), ..passed(11) }], Verdict::Passed);
    now.ends("ddp/fsdp", vec![passed(12)], Verdict::Passed);
    let page = html::page(&now.run(directory.path()), Some(&before.run(directory.path())), Limits::default()).unwrap();
    keep("few.html", &page);
    assert!(page.contains("3 of 11 cases did not pass"), "{}", &page[..2000]);
    // The map, the timeline, the sizes and the bandwidth of five attempts; the sixth has no file and says so.
    assert_eq!(page.matches("<svg class=\"chart\"").count(), 6 * 4);
    assert_eq!(page.matches("missing.json cannot be shown").count(), 1);
    for words in [
        "flaky",
        "2 attempts",
        "hang",
        "was passed",
        "was failed",
        "Rank 3 still waits",
        "rank 5 is at train.py:44 (validate): Nothing has moved for 5 s.",
        "nccl.ncclCommRegister",
        "not run",
    ] {
        assert!(page.contains(words), "{words}");
    }
    assert!(!page.contains('\u{1b}'), "terminal escapes are left");
}

#[test]
fn thousands_of_cases() {
    let directory = tempfile::tempdir().unwrap();
    write_report(directory.path(), "large.json", &cluster_report(16, 8, 400, true));
    let axes = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all"];
    let ids: Vec<(String, String)> = (0..5000)
        .map(|index| {
            let suite = format!("suite{}", index / 1250);
            (suite, format!("numbers-{}[collective={},count={}]", index / 50, axes[index % 5], index % 50))
        })
        .collect();
    let mut story =
        Story::new("20261121T103000-1a2b", ids.iter().map(|(suite, id)| case(suite, id, Some(2))).collect());
    for (index, (suite, id)) in ids.iter().enumerate() {
        let name = format!("{suite}/{id}");
        match index % 131 {
            0 => story.ends(&name, vec![failed(8, "large.json")], Verdict::Failed),
            1 => story.ends(&name, Vec::new(), Verdict::Skipped { reason: "no memory left".into() }),
            _ => story.ends(&name, vec![passed(index as u64)], Verdict::Passed),
        }
    }
    let page = html::page(&story.run(directory.path()), None, Limits::default()).unwrap();
    keep("many.html", &page);
    assert_eq!(page.matches("<li class=\"row\"").count(), 5000);
    assert!(page.len() < 20 << 20, "{} bytes", page.len());
    assert!(page.contains("9 more did not pass"), "the failures beyond the first 30 are counted");
}

#[test]
fn one_case_that_passed() {
    let mut story = Story::new("20261121T103000-1a2b", vec![case("dist", "only", None)]);
    story.ends("dist/only", vec![passed(1)], Verdict::Passed);
    let page = html::page(&story.run(Path::new("/nowhere")), None, Limits::default()).unwrap();
    keep("one.html", &page);
    assert!(page.contains("All 1 case passed") && !page.contains("Did not pass"), "{page}");
}
