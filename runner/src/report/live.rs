//! A running cluster as a table: what `ftest top` shows.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use protocol::activity::Activation;
use protocol::diagnosis::Diagnosis;
use serde_json::Value;

/// Maximum width of an operation, columns.
const OPERATION: usize = 58;

/// Bytes per second of each communicator, by its number, computed from two samples.
pub type Rates = BTreeMap<u64, f64>;

/// Bytes moved so far, by communicator.
pub fn moved(status: &Value) -> BTreeMap<u64, u64> {
    list(&status["communicators"]).map(|entry| (number(&entry["comm_id"]), number(&entry["bytes"]))).collect()
}

/// The rates between two samples `seconds` apart.
pub fn rates(before: &BTreeMap<u64, u64>, now: &BTreeMap<u64, u64>, seconds: f64) -> Rates {
    let rate = |(id, bytes): (&u64, &u64)| {
        let grown = bytes.saturating_sub(before.get(id).copied().unwrap_or(0));
        (*id, grown as f64 / seconds.max(1e-3))
    };
    now.iter().map(rate).collect()
}

/// The table: `status` and `diagnosis` are a coordinator's answers, `address` is where it is.
pub fn table(address: &str, status: &Value, diagnosis: &Diagnosis, rates: Option<&Rates>) -> String {
    let mut text = String::new();
    let cluster = &status["cluster"];
    let processes: Vec<&Value> = list(&status["processes"]).collect();
    let _ = writeln!(
        text,
        "{}: {} on {}, {}, at {address}\n",
        cluster["name"].as_str().unwrap_or("no cluster file"),
        counted(number(&cluster["world_size"]), "rank", "ranks"),
        counted(number(&cluster["nodes"]), "node", "nodes"),
        counted(processes.len() as u64, "process", "processes")
    );
    let _ = writeln!(
        text,
        "{:>4}  {:<20} {:>11} {:>9} {:>10} {:>12}",
        "COMM", "RANKS", "COLLECTIVES", "TRANSFERS", "MOVED", "RATE"
    );
    for communicator in list(&status["communicators"]) {
        let id = number(&communicator["comm_id"]);
        let rate = rates.and_then(|rates| rates.get(&id)).map_or("-".to_owned(), |rate| format!("{}/s", size(*rate)));
        let _ = writeln!(
            text,
            "{id:>4}  {:<20} {:>11} {:>9} {:>10} {rate:>12}",
            ranges(&list(&communicator["ranks"]).map(number).collect::<Vec<_>>()),
            number(&communicator["collectives"]),
            number(&communicator["transfers"]),
            size(number(&communicator["bytes"]) as f64)
        );
    }
    let _ = writeln!(
        text,
        "\n{:>4}  {:<10} {:>7}  {:<OPERATION$} {:>8} {:>6}",
        "RANK", "NODE", "PID", "IN", "SINCE", "QUEUED"
    );
    let mut rows: Vec<(u64, String)> = Vec::new();
    for process in &processes {
        let rank = number(&process["rank"]);
        let own = || diagnosis.activities.iter().filter(|activity| u64::from(activity.rank.0) == rank);
        let queued: u64 = own().map(|activity| activity.queued).sum();
        let current = own().flat_map(|activity| activity.current.iter().map(move |entry| (activity, entry))).next();
        let (what, since) = match current {
            Some((activity, entry)) => {
                let seconds = entry.age_us as f64 / 1e6;
                (format!("{} of communicator {}", describe(entry), activity.comm_id), format!("{seconds:.1} s"))
            }
            None => ("-".to_owned(), String::new()),
        };
        let what: String = what.chars().take(OPERATION).collect();
        let node = process["node"].as_str().unwrap_or("-");
        let row =
            format!("{rank:>4}  {node:<10} {:>7}  {what:<OPERATION$} {since:>8} {queued:>6}", number(&process["pid"]));
        rows.push((rank, row.trim_end().to_owned()));
    }
    rows.sort();
    for (_, row) in rows {
        let _ = writeln!(text, "{row}");
    }
    if let Some(hang) = &diagnosis.hang {
        let _ = writeln!(text, "\nwaiting: {}", hang.sentence);
    }
    for failure in list(&status["failures"]).filter_map(Value::as_str).take(8) {
        let _ = writeln!(text, "\nfailure: {failure}");
    }
    text
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// "all_reduce(count 4, float32, sum) #2".
fn describe(entry: &Activation) -> String {
    match entry.sequence.0 {
        0 => entry.describe(),
        sequence => format!("{} #{sequence}", entry.describe()),
    }
}

/// "1 node", "2 nodes".
fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// "0-3,6".
fn ranges(ranks: &[u64]) -> String {
    let mut parts: Vec<(u64, u64)> = Vec::new();
    for rank in ranks {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == *rank => *last = *rank,
            _ => parts.push((*rank, *rank)),
        }
    }
    let part = |(first, last): &(u64, u64)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    parts.iter().map(part).collect::<Vec<_>>().join(",")
}

/// "1.5 MiB".
fn size(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{value:.0} B") } else { format!("{value:.1} {}", units[unit]) }
}

#[cfg(test)]
mod tests {
    use protocol::datatype::{Datatype, Operation, ReductionOp};
    use protocol::diagnosis::RankActivity;
    use protocol::ids::{CommunicatorId, Rank, Sequence, SiteId};
    use protocol::report::Hang;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_table_has_communicators_ranks_and_waits() {
        let status = json!({
            "cluster": { "name": "pair", "nodes": 1, "world_size": 2 },
            "processes": [
                { "pid": 12, "rank": 1, "node": "node0" }, { "pid": 11, "rank": 0, "node": "node0" },
            ],
            "communicators": [{ "comm_id": 1, "ranks": [0, 1], "collectives": 7, "transfers": 0, "bytes": 3_145_728 }],
            "failures": [],
        });
        let entry = Activation {
            sequence: Sequence(8),
            operation: Operation::AllReduce,
            count: 4,
            datatype: Datatype::Float32,
            reduction_op: Some(ReductionOp::Sum),
            root: None,
            peer: None,
            age_us: 2_500_000,
            took_us: None,
            site: SiteId::default(),
        };
        let activity = |rank: u32, queued: u64, current: Vec<Activation>| RankActivity {
            rank: Rank(rank),
            comm_id: CommunicatorId(1),
            comm_rank: Rank(rank),
            ranks: vec![Rank(0), Rank(1)],
            current,
            queued,
            recent: Vec::new(),
        };
        let hang = Hang {
            sentence: "rank 0 waits".to_owned(),
            waits: Vec::new(),
            missing: Vec::new(),
            cycle: Vec::new(),
            sites: Vec::new(),
        };
        let activities = vec![activity(0, 2, vec![entry]), activity(1, 0, Vec::new())];
        let diagnosis = Diagnosis { hang: Some(hang), activities, ..Diagnosis::default() };
        let before = BTreeMap::from([(1, 1_048_576)]);
        let text = table("/tmp/c.sock", &status, &diagnosis, Some(&rates(&before, &moved(&status), 2.0)));
        let expected = "\
pair: 2 ranks on 1 node, 2 processes, at /tmp/c.sock

COMM  RANKS                COLLECTIVES TRANSFERS      MOVED         RATE
   1  0-1                            7         0    3.0 MiB    1.0 MiB/s

RANK  NODE           PID  IN                                                            SINCE QUEUED
   0  node0           11  all_reduce(count 4, float32, sum) #8 of communicator 1        2.5 s      2
   1  node0           12  -                                                                        0

waiting: rank 0 waits
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_signal_has_no_count() {
        let signal = Activation {
            sequence: Sequence(0),
            operation: Operation::Signal,
            count: 0,
            datatype: Datatype::Int8,
            reduction_op: None,
            root: None,
            peer: Some(Rank(1)),
            age_us: 1,
            took_us: None,
            site: SiteId::default(),
        };
        assert_eq!(describe(&signal), "signal(peer 1)");
    }

    #[test]
    fn ranks_are_shown_as_ranges() {
        assert_eq!(ranges(&[0, 1, 2, 6, 8, 9]), "0-2,6,8-9");
        assert_eq!(size(0.0), "0 B");
        assert_eq!(size(1536.0), "1.5 KiB");
    }
}
