//! The critical path of a step: what its end waited for, step by step back to its beginning, on one rank. Each moment of the step is
//! on it once: a piece of work that ran, the gap before it, its wait for other ranks, or the host, which submitted it.

use std::collections::BTreeMap;

use protocol::datatype::Operation;
use protocol::ids::Rank;
use protocol::report::{PathKind, PathSegment};

use super::summary::share;
use super::{Interval, TOLD};

/// The name of what work lost beside other work.
pub const LOST: &str = "slowed down by work beside it";

/// A piece of work of a step that is looked at closely. All times in ns.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Its name.
    pub name: String,
    /// What it is: work of the device, not `Host`, `Gap` or `Wait`.
    pub kind: PathKind,
    /// What operation it is, of a collective.
    pub operation: Option<Operation>,
    /// Bytes of a copy or a collective.
    pub bytes: Option<u64>,
    /// The line of the program that submitted it, where that is known.
    pub line: Option<(String, u32)>,
    /// Its stream.
    pub stream: u64,
    /// When the host had submitted it.
    pub at_ns: u64,
    /// When what it waited for on the device had ended; 0 for nothing.
    pub after_ns: u64,
    /// How much earlier that would have ended alone, if it is not a piece that ended then.
    pub lost_ns: u64,
    /// When it could begin.
    pub ready_ns: u64,
    /// When it began: later, if it waited for other ranks.
    pub begin_ns: u64,
    /// The global rank that was ready last, if it waited for that.
    pub awaited: Option<u32>,
    /// When it ended.
    pub end_ns: u64,
    /// Whether the host's submission, and not work before it, decided when it could begin.
    pub is_host_late: bool,
}

/// Where the path is, going back.
enum Place<'p> {
    /// The piece that ended then.
    Device(&'p Piece),
    Host,
}

/// A path under construction, from its end back.
struct Back<'p> {
    begin: u64,
    now: u64,
    stretches: Vec<Stretch<'p>>,
}

impl<'p> Back<'p> {
    /// Goes back to `to`, but not beyond the beginning.
    fn go(&mut self, to: u64, kind: PathKind, name: &'p str, line: Option<&'p (String, u32)>) {
        self.go_for(to, (kind, name, line, None));
    }

    fn go_for(&mut self, to: u64, what: What<'p>) {
        let to = to.max(self.begin);
        if to < self.now {
            self.stretches.push((what, self.now - to));
            self.now = to;
        }
    }
}

/// What a stretch of the path is: its kind, its name, its line, and the rank that it waited for.
type What<'p> = (PathKind, &'p str, Option<&'p (String, u32)>, Option<u32>);

/// One stretch of the path, and how long it is, ns.
type Stretch<'p> = (What<'p>, u64);

/// The longest segments of the path of a step, equal ones added up, and the longest first. `None` if what ended the step, or began
/// a part of it, is not among the pieces.
pub fn critical_path(pieces: &[Piece], host_waits: &[Interval], step: Interval) -> Option<Vec<PathSegment>> {
    let (begin, end) = step;
    // How many, and how long.
    let mut totals: BTreeMap<What<'_>, (u64, u64)> = BTreeMap::new();
    for (what, ns) in stretches(pieces, host_waits, step)? {
        let total = totals.entry(what).or_default();
        total.0 += 1;
        total.1 += ns;
    }
    let segment = |((kind, name, line, awaited), (count, time_ns)): (What<'_>, (u64, u64))| PathSegment {
        kind,
        name: name.to_owned(),
        file: line.map(|(file, _)| file.clone()),
        line: line.map(|(_, line)| *line),
        awaited: awaited.map(Rank),
        count,
        time_ns,
        share: share(time_ns, end - begin).unwrap_or_default(),
    };
    let mut segments: Vec<PathSegment> = totals.into_iter().map(segment).collect();
    segments.sort_by_key(|segment| std::cmp::Reverse(segment.time_ns));
    segments.truncate(TOLD);
    Some(segments)
}

/// The whole path, from the end back; their lengths add up to the step's.
fn stretches<'p>(pieces: &'p [Piece], host_waits: &[Interval], (begin, end): Interval) -> Option<Vec<Stretch<'p>>> {
    let ended_at = |moment: u64| pieces.iter().find(|piece| piece.end_ns == moment && piece.begin_ns < moment);
    let mut by_submission: Vec<&Piece> = pieces.iter().collect();
    by_submission.sort_by_key(|piece| piece.at_ns);
    let mut path = Back { begin, now: end, stretches: Vec::new() };
    let mut place = match ended_at(end) {
        Some(piece) => Place::Device(piece),
        // Nothing ended then: the host came to its mark.
        None => Place::Host,
    };
    while path.now > begin {
        place = match place {
            Place::Device(piece) => {
                let (name, line) = (piece.name.as_str(), piece.line.as_ref());
                path.go(piece.begin_ns, piece.kind, name, line);
                path.go_for(piece.ready_ns, (PathKind::Wait, name, line, piece.awaited));
                if piece.is_host_late {
                    path.go(piece.at_ns, PathKind::Host, name, line);
                    Place::Host
                } else {
                    let ended_ns = piece.after_ns - piece.lost_ns;
                    path.go(piece.after_ns, PathKind::Gap, name, line);
                    path.go(ended_ns, PathKind::Compute, LOST, None);
                    if path.now == begin {
                        break;
                    }
                    Place::Device(ended_at(ended_ns)?)
                }
            }
            Place::Host => {
                let waited = host_waits.iter().map(|(_, end)| *end).filter(|end| *end <= path.now).max().unwrap_or(0);
                let stop = waited.max(begin);
                // The host's time before each submission is that piece's.
                let within = by_submission.partition_point(|piece| piece.at_ns <= path.now);
                for piece in by_submission[..within].iter().rev().take_while(|piece| piece.at_ns > stop) {
                    // From the submission to the mark or the next one, nothing is known to be submitted.
                    path.go(piece.at_ns, PathKind::Host, "", None);
                    let before = by_submission.partition_point(|other| other.at_ns < piece.at_ns);
                    let last = before.checked_sub(1).map_or(0, |last| by_submission[last].at_ns);
                    path.go(last.max(stop), PathKind::Host, &piece.name, piece.line.as_ref());
                }
                path.go(stop, PathKind::Host, "", None);
                if path.now == begin {
                    break;
                }
                Place::Device(ended_at(waited)?)
            }
        };
    }
    Some(path.stretches)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(name: &str, kind: PathKind, [at_ns, after_ns, ready_ns, begin_ns, end_ns]: [u64; 5]) -> Piece {
        let (name, line) = (name.to_owned(), (kind == PathKind::Compute).then(|| ("train.py".to_owned(), 7)));
        let is_host_late = at_ns + 3 == ready_ns;
        Piece {
            name,
            kind,
            operation: None,
            bytes: None,
            line,
            stream: 1,
            at_ns,
            after_ns,
            lost_ns: 0,
            ready_ns,
            begin_ns,
            awaited: (ready_ns < begin_ns).then_some(3),
            end_ns,
            is_host_late,
        }
    }

    /// The host submits two kernels and a collective; it waits for the second kernel, and then submits a third.
    fn pieces() -> Vec<Piece> {
        vec![
            piece("first", PathKind::Compute, [110, 0, 113, 113, 150]),
            piece("second", PathKind::Compute, [120, 150, 151, 151, 200]),
            // It is ready with the first kernel, and others come at 190: nothing waits for it.
            piece("all_reduce", PathKind::Collective, [130, 150, 151, 190, 230]),
            piece("third", PathKind::Compute, [212, 200, 215, 215, 240]),
            // After both: the collective is ready at 241, and others come at 260.
            piece("all_gather", PathKind::Collective, [220, 240, 241, 260, 300]),
        ]
    }

    #[test]
    fn the_path_goes_back_from_the_end_and_has_every_moment_once() {
        let all = pieces();
        let path = stretches(&all, &[(130, 200)], (100, 300)).unwrap();
        let told: Vec<_> = path.iter().map(|((kind, name, ..), ns)| (kind.name(), *name, *ns)).collect();
        let expected = [
            ("collective", "all_gather", 40),
            ("wait", "all_gather", 19),
            ("gap", "all_gather", 1),
            ("compute", "third", 25),
            ("host", "third", 3),
            ("host", "third", 12),
            ("compute", "second", 49),
            ("gap", "second", 1),
            ("compute", "first", 37),
            ("host", "first", 3),
            ("host", "first", 10),
        ];
        assert_eq!(told, expected);
        assert_eq!(path.iter().map(|(.., ns)| ns).sum::<u64>(), 200);
        let short = critical_path(&all, &[(130, 200)], (100, 300)).unwrap();
        let first = &short[0];
        assert_eq!((first.kind, &*first.name, first.line, first.time_ns), (PathKind::Compute, "second", Some(7), 49));
        assert_eq!((first.share, first.count, short.len()), (0.245, 1, TOLD));
        let host = short.iter().find(|segment| segment.name == "third" && segment.kind == PathKind::Host).unwrap();
        assert_eq!((host.count, host.time_ns), (2, 15));
        let awaited = |segment: &PathSegment| (segment.kind == PathKind::Wait).then_some(segment.awaited);
        assert_eq!(short.iter().filter_map(awaited).collect::<Vec<_>>(), [Some(Rank(3))]);
        assert!(short.iter().all(|segment| segment.kind == PathKind::Wait || segment.awaited.is_none()));
    }

    #[test]
    fn what_work_lost_beside_other_work_is_on_the_path() {
        let mut all = pieces();
        // The collective waits for the first kernel, which ended 30 later beside others.
        let late = [130, 180, 181, 190, 230];
        all[2] = Piece { lost_ns: 30, ..piece("all_reduce", PathKind::Collective, late) };
        let path = stretches(&all[..3], &[], (100, 230)).unwrap();
        let told: Vec<_> = path.iter().map(|((kind, name, ..), ns)| (kind.name(), *name, *ns)).collect();
        let expected = [
            ("collective", "all_reduce", 40),
            ("wait", "all_reduce", 9),
            ("gap", "all_reduce", 1),
            ("compute", LOST, 30),
        ];
        assert_eq!(told[..4], expected);
        assert_eq!((told[4], path.iter().map(|(.., ns)| ns).sum::<u64>()), (("compute", "first", 37), 130));
    }

    #[test]
    fn the_host_ends_a_step_that_the_device_does_not() {
        let all = pieces();
        let path = stretches(&all[..1], &[], (100, 170)).unwrap();
        let told: Vec<_> = path.iter().map(|((kind, name, ..), ns)| (kind.name(), *name, *ns)).collect();
        assert_eq!(told, [("host", "", 60), ("host", "first", 10)]);
    }

    #[test]
    fn without_what_it_waited_for_there_is_no_path() {
        let all = pieces();
        assert_eq!(critical_path(&all[1..], &[(130, 200)], (100, 300)), None);
        assert_eq!(critical_path(&all[..1], &[(130, 200)], (100, 300)), None);
        assert_eq!(critical_path(&[], &[], (100, 100)), Some(Vec::new()));
    }
}
