//! Which of a cluster report's long lists the checks of a case may read. When in doubt, all of them.

use crate::check::expectations::Expectations;
use crate::check::invariant::Invariant;
use crate::check::perf::Metric;
use crate::check::report::{ReportKind, plain_names};
use crate::expression;

/// The name of the cluster report in invariants.
const REPORT: &str = "report";

/// Lists with an item for each operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// `operation_timeline.entries`.
    pub entries: bool,
    /// `measured.operations`.
    pub operations: bool,
}

impl Need {
    /// Everything.
    pub const ALL: Need = Need { entries: true, operations: true };

    /// What these checks need.
    pub fn from_expectations(expect: &Expectations) -> Need {
        let paths = expect
            .report
            .iter()
            .filter(|check| check.of == ReportKind::Cluster && check.rank.is_none())
            .map(|check| Need::of_path(&check.path.to_string()));
        let metrics = expect.perf.iter().filter_map(|check| match &check.metric {
            Metric::Path(ReportKind::Cluster, path) => Some(Need::of_path(&path.to_string())),
            _ => None,
        });
        let snapshots = expect.snapshots.iter().filter(|check| check.of == ReportKind::Cluster).map(|check| {
            // The whole report except measured values.
            let whole = Need { entries: check.selection.select.is_empty(), operations: false };
            let selected = check.selection.select.iter().map(|path| Need::of_path(&path.to_string()));
            selected.fold(whole, Need::and)
        });
        paths.chain(metrics).chain(snapshots).fold(Need::of_invariants(&expect.invariants), Need::and)
    }

    fn and(self, other: Need) -> Need {
        Need { entries: self.entries || other.entries, operations: self.operations || other.operations }
    }

    fn of_path(path: &str) -> Need {
        // A filter may use an absolute path to any part of the report.
        if path.matches('$').count() > 1 {
            return Need::ALL;
        }
        let names = plain_names(path);
        // Several names in one pair of brackets, or a name with special characters.
        if names.iter().any(|name| name.contains(['\'', '\\'])) {
            return Need::ALL;
        }
        Need::of_names(&names)
    }

    fn of_invariants(invariants: &[Invariant]) -> Need {
        invariants.iter().fold(Need::default(), |need, invariant| match expression::uses(&invariant.that, REPORT) {
            Some(uses) => uses.iter().map(|names| Need::of_names(names)).fold(need, Need::and),
            None => Need::ALL,
        })
    }

    /// The need for everything at or below the path `names`.
    fn of_names(names: &[String]) -> Need {
        let names: Vec<&str> = names.iter().take(2).map(String::as_str).collect();
        match names[..] {
            [] => Need::ALL,
            ["operation_timeline"] | ["operation_timeline", "entries"] => Need { entries: true, operations: false },
            ["measured"] | ["measured", "operations"] => Need { entries: false, operations: true },
            _ => Need::default(),
        }
    }
}

/// The top-level names of the cluster report that `invariants` use; `None` if they may read all of it.
pub fn sections(invariants: &[Invariant]) -> Option<Vec<String>> {
    let mut sections = Vec::new();
    for invariant in invariants {
        for names in expression::uses(&invariant.that, REPORT)? {
            sections.push(names.into_iter().next()?);
        }
    }
    Some(sections)
}

#[cfg(test)]
mod tests {
    use serde_json_path::JsonPath;

    use super::*;

    const NOTHING: Need = Need { entries: false, operations: false };
    const ENTRIES: Need = Need { entries: true, operations: false };
    const OPERATIONS: Need = Need { entries: false, operations: true };

    #[test]
    fn paths() {
        for (path, need) in [
            ("$.cluster.world_size", NOTHING),
            ("$['links'][*].bytes", NOTHING),
            ("$.operation_timeline.dropped_entries", NOTHING),
            ("$.measured.ranks[*].pids", NOTHING),
            ("$.operation_timeline", ENTRIES),
            ("$.operation_timeline.*", ENTRIES),
            ("$.operation_timeline..count", ENTRIES),
            ("$['operation_timeline']['entries'][0].count", ENTRIES),
            ("$.measured.operations[?@.index > 3]", OPERATIONS),
            ("$.measured[?@.index > 3]", OPERATIONS),
            ("$", Need::ALL),
            ("$.*", Need::ALL),
            ("$[*]", Need::ALL),
            ("$..calls", Need::ALL),
            ("$['cluster', 'measured']", Need::ALL),
            ("$.operation_timeline['dropped_entries', 'entries']", Need::ALL),
            ("$['operation_timeline']['dropped_entries'][0]", NOTHING),
            ("$[?@.entries]", Need::ALL),
            ("$.links[?@.bytes == $.measured.operations[0].index]", Need::ALL),
        ] {
            assert_eq!(Need::of_path(&JsonPath::parse(path).unwrap().to_string()), need, "{path}");
        }
    }

    #[test]
    fn invariants() {
        for (that, need) in [
            ("report.cluster.world_size == world_size", NOTHING),
            ("report.links | pluck('bytes') | sum > 0 and 1 == 1", NOTHING),
            ("report['links'][0].bytes > report.measured.ranks | length", NOTHING),
            ("report.operation_timeline.retained_entries == 4", NOTHING),
            ("report.operation_timeline.entries | length == 4", ENTRIES),
            ("[report.operation_timeline] | map(attribute='entries') | list", ENTRIES),
            ("report.measured['operations'] | length > 0", OPERATIONS),
            ("report.measured[matrix.x] | length > 0", OPERATIONS),
            ("[report] | pluck('measured.operations')", Need::ALL),
            ("report[matrix.x] | length > 0", Need::ALL),
            ("report is mapping", Need::ALL),
            ("world_size == 4", NOTHING),
        ] {
            let invariant = Invariant { that: that.to_owned(), ..Invariant::default() };
            assert_eq!(Need::of_invariants(&[invariant]), need, "{that}");
        }
    }
}
