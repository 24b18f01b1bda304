//! One direction of one link: when a packet arrives, if it does. No I/O, no clock.

use std::time::{Duration, Instant};

use crate::case::network::Link;

/// Maximum queueing time before a slow link. Packets beyond it are dropped, as by a switch with a full buffer.
const BUFFER: Duration = Duration::from_millis(200);

/// One direction of a link.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) link: Link,
    /// When all earlier packets have been sent.
    free: Option<Instant>,
    /// State of the random generator that decides on losses.
    random: u64,
    cut: Option<Until>,
    /// Connections that a cut stops are reset.
    resets: bool,
    /// What happened to the packets.
    pub(super) count: Count,
}

/// The end of a cut.
#[derive(Clone, Copy, Debug)]
enum Until {
    Never,
    At(Instant),
}

/// What happened to the packets of a wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    /// Packets that went through.
    pub(super) passed: u64,
    /// Their bytes.
    pub(super) bytes: u64,
    /// Lost by chance.
    pub(super) lost: u64,
    /// Dropped because the buffer before a slow link was full.
    pub(super) overrun: u64,
    /// Dropped because the link was cut.
    pub(super) cut: u64,
}

impl Wire {
    /// One direction of `link`; different seeds lose different packets.
    pub(super) fn new(link: Link, seed: u64) -> Wire {
        Wire { link, free: None, random: seed, cut: None, resets: false, count: Count::default() }
    }

    /// Lets nothing through from `now` on, for a time or for good.
    pub(super) fn cut(&mut self, now: Instant, lasts: Option<Duration>, resets: bool) {
        self.resets = resets;
        self.cut = Some(lasts.map_or(Until::Never, |lasts| Until::At(now + lasts)));
    }

    /// Whether it lets nothing through.
    pub(super) fn is_cut(&self, now: Instant) -> bool {
        match self.cut {
            Some(Until::At(end)) => now < end,
            Some(Until::Never) => true,
            None => false,
        }
    }

    /// Whether it is cut, and resets connections.
    pub(super) fn resets(&self, now: Instant) -> bool {
        self.resets && self.is_cut(now)
    }

    /// When a packet of `bytes` sent `now` arrives; `None` if it never does.
    pub(super) fn pass(&mut self, bytes: usize, now: Instant) -> Option<Instant> {
        if self.is_cut(now) {
            self.count.cut += 1;
            return None;
        }
        if self.link.loss > 0.0 && self.draw() < self.link.loss {
            self.count.lost += 1;
            return None;
        }
        let mut sent = now;
        if let Some(gbps) = self.link.gbps {
            let begin = self.free.map_or(now, |free| free.max(now));
            if begin - now > BUFFER {
                self.count.overrun += 1;
                return None;
            }
            sent = begin + Duration::from_secs_f64(8.0 * bytes as f64 / (gbps * 1e9));
            self.free = Some(sent);
        }
        self.count.passed += 1;
        self.count.bytes += bytes as u64;
        Some(sent + self.link.delay)
    }

    /// A number from 0 to below 1: SplitMix64 (Steele, Lea, Flood 2014).
    fn draw(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

impl Count {
    /// Both directions together.
    pub(super) fn and(self, other: Count) -> Count {
        Count {
            passed: self.passed + other.passed,
            bytes: self.bytes + other.bytes,
            lost: self.lost + other.lost,
            overrun: self.overrun + other.overrun,
            cut: self.cut + other.cut,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn a_packet_takes_its_turn_and_the_delay() {
        let now = Instant::now();
        // 1250 bytes are 10 000 bits: 1 ms at 0.01 Gbit/s.
        let mut wire = Wire::new(Link { delay: ms(5), loss: 0.0, gbps: Some(0.01) }, 1);
        assert_eq!(wire.pass(1250, now), Some(now + ms(6)));
        assert_eq!(wire.pass(1250, now), Some(now + ms(7)), "behind the first");
        assert_eq!(wire.pass(1250, now + ms(50)), Some(now + ms(56)), "the wire is free again");
        let mut perfect = Wire::new(Link::default(), 1);
        assert_eq!(perfect.pass(9000, now), Some(now));
        assert_eq!(perfect.count, Count { passed: 1, bytes: 9000, ..Count::default() });
    }

    #[test]
    fn the_buffer_before_a_slow_link_is_finite() {
        let now = Instant::now();
        let mut wire = Wire::new(Link { gbps: Some(0.01), ..Link::default() }, 1);
        let passed = (0..1000).filter(|_| wire.pass(1250, now).is_some()).count();
        // The first 200 wait for less than 200 ms, the 201st for exactly as long.
        assert_eq!(passed, 201);
        assert_eq!(wire.count.overrun, 799);
    }

    #[test]
    fn losses_are_drawn_from_the_seed() {
        let now = Instant::now();
        let lost = |seed| {
            let mut wire = Wire::new(Link { loss: 0.1, ..Link::default() }, seed);
            (0..10_000).map(|_| wire.pass(100, now).is_none()).collect::<Vec<bool>>()
        };
        assert_eq!(lost(7), lost(7));
        assert_ne!(lost(7), lost(8));
        let count = lost(7).iter().filter(|lost| **lost).count();
        // Ten standard deviations, 30 each, of a binomial distribution.
        assert!((700..1300).contains(&count), "{count}");
    }

    #[test]
    fn a_cut_ends_when_it_says() {
        let now = Instant::now();
        let mut wire = Wire::new(Link::default(), 1);
        wire.cut(now, Some(ms(100)), true);
        assert!(wire.resets(now + ms(99)) && !wire.resets(now + ms(100)));
        assert_eq!(wire.pass(1, now + ms(99)), None);
        assert_eq!(wire.pass(1, now + ms(100)), Some(now + ms(100)));
        wire.cut(now, None, false);
        assert!(!wire.resets(now));
        assert_eq!(wire.pass(1, now + ms(1_000_000)), None);
        assert_eq!(wire.count, Count { passed: 1, bytes: 1, cut: 2, ..Count::default() });
    }
}
