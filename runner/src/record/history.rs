//! What earlier runs know about a case: how long it takes.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use super::log::LOG;
use super::store::Runs;

/// Runs that are looked at.
const RUNS: usize = 5;

/// The usual duration of each case, by its full id: the median of its last runs. A case that did not run in them has none.
pub fn durations(runs: &Runs) -> HashMap<String, Duration> {
    let mut seen: HashMap<String, Vec<u64>> = HashMap::new();
    for run in runs.list().iter().rev().take(RUNS) {
        for (case, us) in of_run(&run.join(LOG)) {
            seen.entry(case).or_default().push(us);
        }
    }
    seen.into_iter().filter_map(|(case, times)| Some((case, Duration::from_micros(median(times)?)))).collect()
}

/// The time of every case in one log, of all attempts together. What cannot be read has no history.
fn of_run(log: &Path) -> BTreeMap<String, u64> {
    /// The part of a line that counts here: texts of streams are not even unescaped.
    #[derive(Deserialize)]
    struct Line {
        case: String,
        attempt: Attempt,
    }
    #[derive(Deserialize)]
    struct Attempt {
        duration_us: u64,
    }
    let mut times = BTreeMap::new();
    let Ok(file) = File::open(log) else { return times };
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
        if line.starts_with(br#"{"event":"attempt_finished""#)
            && let Ok(line) = serde_json::from_slice::<Line>(&line)
        {
            *times.entry(line.case).or_default() += line.attempt.duration_us;
        }
        line.clear();
    }
    times
}

fn median(mut values: Vec<u64>) -> Option<u64> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::event;
    use crate::record::event::Event;

    #[test]
    fn the_median_of_the_last_runs() {
        let directory = tempfile::tempdir().unwrap();
        let runs = Runs::new(Some(directory.path()));
        for (run, us) in [("1", 9_000), ("2", 1), ("3", 7), ("4", 5), ("5", 100), ("6", 6)] {
            let mut store = runs.open(run, 10, u64::MAX).unwrap();
            let attempt = event::Attempt { duration_us: us, ..Default::default() };
            let event = Event::AttemptFinished { case: "s/a".into(), attempt };
            store.append(serde_json::to_string(&event).unwrap()).unwrap();
            store.append("{\"event\":\"attempt_finished\",\"ca".into()).unwrap();
        }
        assert_eq!(durations(&runs), HashMap::from([("s/a".into(), Duration::from_micros(6))]));
        assert_eq!(durations(&Runs::new(Some(Path::new("/no/runs")))), HashMap::new());
    }
}
