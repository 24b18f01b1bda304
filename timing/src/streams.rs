//! The work of a device's streams at the same time, on the modeled clock. A stream knows what other streams did up to the places that
//! it waited for, whatever those knew, and nothing else: that is the same in every run, however threads are scheduled. What it lost
//! beside what it learns of is added to its end then.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::work::{Cost, Demand, GAP_US, GRAPH_GAP_US, Piece, delay_ns, host, nanoseconds};

/// Pieces of one stream that are compared with those of another at a time: the last ones.
const COMPARED: usize = 1 << 16;
/// Pieces that a stream keeps. Far more than are compared: who compares may come late.
const KEPT: usize = 1 << 20;

/// When a piece of work can begin. All times in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// When what is before it had ended; 0 for nothing.
    pub after_ns: u64,
    /// From there to when the stream could begin it.
    pub gap_ns: u64,
    /// When its stream could have begun it.
    pub could_ns: u64,
    /// When the host had submitted it as well.
    pub ready_ns: u64,
}

impl Start {
    /// Of work that the host had submitted at `at_ns`, when everything before it in its stream is done.
    pub fn new(after_ns: u64, at_ns: u64, is_node: bool) -> Self {
        let gap_ns = nanoseconds(if is_node { GRAPH_GAP_US } else { GAP_US });
        let could_ns = if after_ns == 0 { 0 } else { after_ns + gap_ns };
        Self { after_ns, gap_ns, could_ns, ready_ns: could_ns.max(at_ns + nanoseconds(host::SUBMISSION_US)) }
    }

    /// What work that begins at `begin_ns` is to its stream: when it ends, and from when to when it takes what.
    pub fn pieces(&self, begin_ns: u64, cost: &Cost) -> (u64, impl Iterator<Item = ((u64, u64), Demand)> + use<>) {
        let (ready_ns, demand, end_ns) = (self.ready_ns, cost.demand, begin_ns + nanoseconds(cost.us));
        // Its blocks have their SMs while they wait for other ranks.
        let waits = demand.is_collective && ready_ns < begin_ns;
        let waiting = Demand { sms: demand.sms, is_collective: true, ..Demand::default() };
        let waiting = waits.then_some(((ready_ns, begin_ns), waiting));
        (end_ns, waiting.into_iter().chain([((begin_ns, end_ns), demand)]))
    }
}

/// By stream: how many of its pieces have ended.
type Known = BTreeMap<u64, u64>;

/// A place in a stream on the modeled clock.
#[derive(Clone, Debug, Default)]
pub struct Reached {
    /// When, ns.
    pub ns: u64,
    /// Of that, since the last work before it ended: it would have taken so much longer beside other work, ns.
    lost_ns: u64,
    stream: u64,
    /// Pieces of the stream before it.
    pieces: u64,
    /// What has ended in other streams before it, if anything has.
    known: Option<Arc<Known>>,
}

impl Reached {
    fn known(&self) -> impl Iterator<Item = (u64, u64)> {
        self.known.iter().flat_map(|known| known.iter()).map(|(stream, pieces)| (*stream, *pieces))
    }
}

/// What one stream did.
#[derive(Debug)]
struct Log<T> {
    /// The stream.
    owner: T,
    /// Pieces before those that are kept.
    dropped: u64,
    pieces: Vec<Piece>,
    /// When the last of all ended, and how many marks of steps there were when the host submitted it.
    last: (u64, usize),
    /// An end of the stream at which no work ended, and how much before it one did, ns.
    lost: (u64, u64),
    known: Arc<Known>,
}

impl<T> Log<T> {
    /// The numbers of its pieces, from `from` to `to`, as far as they are compared.
    fn between(&self, from: u64, to: u64) -> &[Piece] {
        let place = |number: u64| (number.saturating_sub(self.dropped) as usize).min(self.pieces.len());
        let to = place(to);
        &self.pieces[place(from).clamp(to.saturating_sub(COMPARED).min(to), to)..to]
    }

    fn count(&self) -> u64 {
        self.dropped + self.pieces.len() as u64
    }
}

/// What a stream lost.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// When its last work would have ended, ns.
    pub begin_ns: u64,
    /// When it ends.
    pub end_ns: u64,
    /// Whether that is a collective.
    pub is_collective: bool,
    /// How many marks of steps there were when the host submitted it.
    pub marked: usize,
}

/// The streams of a device that did something, by their numbers.
#[derive(Debug)]
pub struct Sharing<T>(BTreeMap<u64, Log<T>>);

impl<T> Default for Sharing<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Clone> Sharing<T> {
    /// Adds a piece of work of a stream, by its number, which begins `gap_ns` after what is before it if nothing else holds it up.
    pub fn add(
        &mut self,
        (id, owner): (u64, &T),
        (begin_ns, end_ns): (u64, u64),
        gap_ns: u64,
        marked: usize,
        demand: Demand,
    ) {
        let log = self.log(id, owner);
        let slack_ns = begin_ns.saturating_sub(log.last.0 + gap_ns);
        log.pieces.push(Piece { begin_ns, end_ns, slack_ns, demand });
        log.last = (end_ns, marked);
        if log.pieces.len() >= 2 * KEPT {
            log.pieces.drain(..KEPT);
            log.dropped += KEPT as u64;
        }
    }

    fn log(&mut self, id: u64, owner: &T) -> &mut Log<T> {
        self.0.entry(id).or_insert_with(|| Log {
            owner: owner.clone(),
            dropped: 0,
            pieces: Vec::new(),
            last: (0, 0),
            lost: (0, 0),
            known: Arc::default(),
        })
    }

    /// The place that a stream has come to, which ends then.
    pub fn moment(&self, stream: u64, ns: u64) -> Reached {
        let Some(log) = self.0.get(&stream) else { return Reached { ns, stream, ..Reached::default() } };
        Reached {
            ns,
            lost_ns: self.lost_ns(stream, ns),
            stream,
            pieces: log.count(),
            known: Some(Arc::clone(&log.known)),
        }
    }

    /// How long before this end of a stream its last work ended, if it was delayed, ns.
    pub fn lost_ns(&self, stream: u64, ends_ns: u64) -> u64 {
        self.0.get(&stream).filter(|log| log.lost.0 == ends_ns).map_or(0, |log| log.lost.1)
    }

    /// The stream waits for a place in another. Returns when that is, as far as it is known now, and what the stream itself lost beside
    /// what it has learned of.
    pub fn follow(&mut self, (id, owner): (u64, &T), moment: &Reached) -> (u64, Option<Loss>) {
        let place = [(moment.stream, moment.pieces)];
        let log = self.log(id, owner);
        let before = Arc::clone(&log.known);
        let mut known = Known::clone(&before);
        for (stream, pieces) in moment.known().chain(place) {
            if stream != id {
                let count = known.entry(stream).or_default();
                *count = (*count).max(pieces);
            }
        }
        if known == *before {
            return (moment.ns, None);
        }
        log.known = Arc::new(known);
        let loss = self.pay(id, &before);
        // The other stream did not know yet what this one knows.
        let log = &self.0[&id];
        let own = (id, log.count());
        let unknown = log.known.iter().map(|(stream, count)| (*stream, *count)).chain([own]);
        let unknown = unknown.filter(|(stream, _)| *stream != moment.stream);
        let since = |stream: u64| moment.known.as_ref().and_then(|known| known.get(&stream)).copied().unwrap_or(0);
        let beside: Vec<&[Piece]> =
            unknown.filter_map(|(stream, count)| Some(self.0.get(&stream)?.between(since(stream), count))).collect();
        let theirs = self.0.get(&moment.stream).map_or(&[][..], |log| log.between(0, moment.pieces));
        let late_ns = delay_ns(theirs, &beside);
        let ns = moment.ns + late_ns;
        if late_ns + moment.lost_ns > 0 {
            self.log(id, owner).lost = (ns, late_ns + moment.lost_ns);
        }
        (ns, loss)
    }

    /// What a stream lost beside what it did not know `before`. From now on, it has.
    fn pay(&mut self, stream: u64, before: &Known) -> Option<Loss> {
        let log = self.0.get(&stream)?;
        let since = |stream: u64| before.get(&stream).copied().unwrap_or(0);
        let fresh =
            log.known.iter().filter_map(|(other, count)| Some(self.0.get(other)?.between(since(*other), *count)));
        let lost_ns = delay_ns(log.between(0, u64::MAX), &fresh.collect::<Vec<_>>());
        let log = self.0.get_mut(&stream)?;
        let (begin_ns, marked) = log.last;
        let is_collective = log.pieces.last()?.demand.is_collective;
        if lost_ns == 0 {
            return None;
        }
        let end_ns = begin_ns + lost_ns;
        log.pieces.push(Piece { begin_ns, end_ns, slack_ns: 0, demand: Demand { is_collective, ..Demand::default() } });
        log.last.0 = end_ns;
        Some(Loss { begin_ns, end_ns, is_collective, marked })
    }

    /// The host waits for all streams: each knows now what all others did, and what it lost.
    pub fn settle(&mut self) -> Vec<(T, Loss)> {
        let all: Known = self.0.iter().map(|(stream, log)| (*stream, log.count())).collect();
        let mut losses = Vec::new();
        for stream in all.keys() {
            let Some(log) = self.0.get_mut(stream) else { continue };
            let mut known = all.clone();
            known.remove(stream);
            let before = std::mem::replace(&mut log.known, Arc::new(known));
            let owner = log.owner.clone();
            losses.extend(self.pay(*stream, &before).map(|loss| (owner, loss)));
        }
        for log in self.0.values_mut() {
            log.dropped = log.count();
            log.pieces.clear();
        }
        losses
    }
}
