//! Work that runs on one GPU at the same time: kernels get what the collectives beside them leave, equals share alike. Nothing here is
//! fitted: a channel is a block, a block of NCCL fills an SM, and bytes are counted. That a kernel keeps a twentieth of its speed beside a
//! collective that takes everything is assumed.

/// What a piece of work uses of a GPU while it runs alone, each as a share from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand {
    /// Its streaming multiprocessors.
    pub sms: f64,
    /// The rate of its memory that a kernel reaches.
    pub memory: f64,
    /// Its NVLinks, or its PCIe slot without them.
    pub inside: f64,
    /// The NICs of its node.
    pub between: f64,
    /// Whether it is a collective: its blocks keep their SMs until it ends, whatever else is there.
    pub is_collective: bool,
}

/// A piece of work of a stream as if it were alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    /// When it begins, ns.
    pub begin_ns: u64,
    /// When it ends, ns.
    pub end_ns: u64,
    /// How much later than its stream allowed it begins: for another stream, the host or other ranks, ns. Work that was delayed before
    /// does not delay it by as much.
    pub slack_ns: u64,
    /// What it uses.
    pub demand: Demand,
}

impl Demand {
    /// How fast a kernel runs beside a collective, as a share of its own speed.
    fn rate_beside(&self, collective: &Self) -> f64 {
        let left = |needs: f64, taken: f64| {
            // A block that is there before the collective is, finishes.
            const LEAST: f64 = 0.05;
            let left = (1.0 - taken).max(LEAST);
            if needs > left { left / needs } else { 1.0 }
        };
        left(self.sms, collective.sms).min(left(self.memory, collective.memory))
    }

    /// How much longer each of two equals takes while both run: what they need together beyond all there is.
    fn excess(&self, other: &Self) -> f64 {
        let needs = if self.is_collective {
            (self.inside + other.inside).max(self.between + other.between)
        } else {
            (self.sms + other.sms).max(self.memory + other.memory)
        };
        (needs - 1.0).max(0.0)
    }
}

/// How much later than alone the last of `pieces` ends, ns: one stream's, in order, beside those of other streams, each in order.
/// A pair is counted by itself, so three at the same time cost what their pairs cost.
pub fn delay_ns(pieces: &[Piece], beside: &[&[Piece]]) -> u64 {
    let Some(first) = beside.iter().filter_map(|list| list.first()).map(|other| other.begin_ns).min() else { return 0 };
    let from = pieces.partition_point(|piece| piece.end_ns <= first);
    let mut behind = 0.0_f64;
    for piece in &pieces[from..] {
        behind = (behind - piece.slack_ns as f64).max(0.0);
        let begin = piece.begin_ns as f64 + behind;
        behind += beside.iter().map(|list| loss(piece, begin, list)).sum::<f64>();
    }
    behind.round() as u64
}

/// What a piece that begins at `begin` loses beside the pieces of one stream, ns.
fn loss(piece: &Piece, begin: f64, others: &[Piece]) -> f64 {
    let mut lost = 0.0;
    let mut now = begin;
    let mut left = (piece.end_ns - piece.begin_ns) as f64;
    let earliest = piece.begin_ns.min(begin as u64);
    let from = others.partition_point(|other| other.end_ns <= earliest);
    for other in &others[from..] {
        let (other_begin, other_end) = (other.begin_ns as f64, other.end_ns as f64);
        if other_begin >= now + left && other.begin_ns >= piece.end_ns {
            break;
        }
        match (piece.demand.is_collective, other.demand.is_collective) {
            (true, false) => {}
            (false, true) => {
                let alone = (other_begin - now).clamp(0.0, left);
                (now, left) = (now + alone, left - alone);
                let rate = piece.demand.rate_beside(&other.demand);
                let beside = (other_end - now).max(0.0).min(left / rate);
                lost += beside * (1.0 - rate);
                (now, left) = (now + beside, left - beside * rate);
            }
            // Shared alike, each of two is later by as long as both would have run.
            _ => {
                let both = piece.end_ns.min(other.end_ns).saturating_sub(piece.begin_ns.max(other.begin_ns));
                lost += both as f64 * piece.demand.excess(&other.demand);
            }
        }
    }
    lost
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn piece(begin_ns: u64, end_ns: u64, demand: Demand) -> Piece {
        Piece { begin_ns, end_ns, slack_ns: 0, demand }
    }

    fn kernel(sms: f64, memory: f64) -> Demand {
        Demand { sms, memory, ..Demand::default() }
    }

    fn collective(sms: f64, memory: f64) -> Demand {
        Demand { sms, memory, inside: 1.0, between: 0.0, is_collective: true }
    }

    #[test]
    fn a_kernel_gets_what_a_collective_leaves() {
        let beside = [piece(0, 1000, collective(0.2, 0.1))];
        for (what, demand, ns) in [
            // 4 of 5 SMs: 400 take 500.
            ("all SMs", kernel(1.0, 0.0), 100),
            ("an SM of five is idle anyway", kernel(0.8, 0.0), 0),
            // 9 tenths of the memory: 400 take 444.
            ("all of the memory", kernel(0.0, 1.0), 44),
            ("whatever is scarcer", kernel(1.0, 1.0), 100),
        ] {
            assert_eq!(delay_ns(&[piece(100, 500, demand)], &[&beside]), ns, "{what}");
        }
        // Nothing is taken from a collective.
        assert_eq!(delay_ns(&beside, &[&[piece(0, 1000, kernel(1.0, 1.0))]]), 0);
    }

    #[test]
    fn a_collective_that_ends_gives_back_what_it_took() {
        let busy = kernel(1.0, 0.0);
        let beside = [piece(50, 150, collective(0.5, 0.0))];
        // 50 alone, 50 in the 100 beside it, and the rest alone.
        assert_eq!(delay_ns(&[piece(0, 400, busy)], &[&beside]), 50);
        // The second kernel is later, and so beside less of the collective: 50 beside it are lost by both together.
        assert_eq!(delay_ns(&[piece(0, 100, busy), piece(100, 400, busy)], &[&beside]), 50);
        // Work that waited for others anyway is not later.
        let waited = Piece { slack_ns: 30, ..piece(150, 400, busy) };
        assert_eq!(delay_ns(&[piece(0, 120, busy), waited], &[&beside]), 20);
        assert_eq!(delay_ns(&[piece(200, 400, busy)], &[&beside]), 0);
    }

    #[test]
    fn equals_share_alike() {
        let full = kernel(1.0, 0.2);
        assert_eq!(delay_ns(&[piece(0, 100, full)], &[&[piece(0, 100, full)]]), 100);
        // Each uses 6 tenths of the memory.
        let stream = kernel(0.0, 0.6);
        assert_eq!(delay_ns(&[piece(0, 100, stream)], &[&[piece(50, 300, stream)]]), 10);
        assert_eq!(delay_ns(&[piece(0, 100, full)], &[&[piece(0, 100, stream)]]), 0);
        // Two collectives over the same links; one inside a node does not slow down one whose NICs are full.
        let (inside, between) = (collective(0.1, 0.1), Demand { inside: 0.3, between: 1.0, ..collective(0.1, 0.1) });
        assert_eq!(delay_ns(&[piece(0, 100, inside)], &[&[piece(40, 200, inside)]]), 60);
        assert_eq!(delay_ns(&[piece(0, 100, between)], &[&[piece(40, 200, between)]]), 60);
        assert_eq!(delay_ns(&[piece(0, 100, between)], &[&[piece(0, 100, inside)]]), 30);
    }

    proptest! {
        /// Moment by moment: a stream of kernels beside one of collectives is exactly what a step-by-step simulation says.
        #[test]
        fn a_stream_is_later_by_what_every_moment_takes(
            lengths in prop::collection::vec((0u64..40, 1u64..60), 1..8),
            gaps in prop::collection::vec((0u64..60, 1u64..80), 0..8),
        ) {
            let (mut pieces, mut now) = (Vec::new(), 0);
            for (index, (slack_ns, length)) in lengths.iter().enumerate() {
                let slack_ns = if index == 0 { 0 } else { *slack_ns };
                let begin_ns = now + slack_ns;
                now = begin_ns + length;
                pieces.push(Piece { slack_ns, ..piece(begin_ns, now, kernel(1.0, 0.0)) });
            }
            let (mut beside, mut then) = (Vec::new(), 0);
            for (gap, length) in &gaps {
                beside.push(piece(then + gap, then + gap + length, collective(0.5, 0.0)));
                then += gap + length;
            }
            // In tenths of a ns.
            let slowed = |moment: u64| beside.iter().any(|other| (other.begin_ns * 10..other.end_ns * 10).contains(&moment));
            let mut moment = 0;
            for piece in &pieces {
                moment = moment.max(piece.begin_ns * 10);
                let mut done = 0.0;
                while done < ((piece.end_ns - piece.begin_ns) * 10) as f64 - 1e-6 {
                    done += if slowed(moment) { 0.5 } else { 1.0 };
                    moment += 1;
                }
            }
            let late = moment as f64 / 10.0 - now as f64;
            let delay = delay_ns(&pieces, &[&beside]) as f64;
            prop_assert!((delay - late).abs() < 2.0, "{delay} against {late}");
        }
    }
}
