//! MT19937 as far as the bridge needs it: where in a seed's sequence an engine is, and an engine at a given place.
//! Matsumoto and Nishimura, "Mersenne Twister", ACM TOMACS 8 (1998); the words are those of `at::mt19937`.

use super::symbols::Engine;

const WORDS: usize = 624;
const SHIFT: usize = 397;

impl Engine {
    /// An engine at the start of the sequence of `seed`.
    pub(super) fn new(seed: u64) -> Self {
        let mut state = [0; WORDS];
        state[0] = seed as u32;
        for index in 1..WORDS {
            let before: u32 = state[index - 1];
            state[index] = 1_812_433_253u32.wrapping_mul(before ^ (before >> 30)).wrapping_add(index as u32);
        }
        Self { seed, left: 1, seeded: true, next: 0, state }
    }

    fn twist(state: &mut [u32; WORDS]) {
        for index in 0..WORDS {
            let mixed = state[index] & 0x8000_0000 | state[(index + 1) % WORDS] & 0x7fff_ffff;
            let odd = if state[(index + 1) % WORDS] & 1 == 1 { 0x9908_b0df } else { 0 };
            state[index] = state[(index + SHIFT) % WORDS] ^ (mixed >> 1) ^ odd;
        }
    }

    /// The engine after `draws` more numbers of 32 bits. It must be at the start.
    pub(super) fn after_draws(seed: u64, draws: u64) -> Self {
        let mut engine = Self::new(seed);
        if draws > 0 {
            let rounds = draws.div_ceil(WORDS as u64);
            (0..rounds).for_each(|_| Self::twist(&mut engine.state));
            engine.next = (draws - (rounds - 1) * WORDS as u64) as u32;
            engine.left = (WORDS as u32 + 1 - engine.next) as i32;
        }
        engine
    }

    /// Numbers of 32 bits drawn between `self` and `later`, an engine of the same sequence.
    pub(super) fn draws_until(&self, later: &Self) -> u64 {
        let (mut state, mut rounds) = (self.state, 0u64);
        while state != later.state {
            Self::twist(&mut state);
            rounds += 1;
        }
        // Before the first draw, the engine is at the end of the round before the first.
        let place = |engine: &Self| if engine.left == 1 && engine.next == 0 { WORDS as u32 } else { engine.next };
        rounds * WORDS as u64 + u64::from(place(later)) - u64::from(place(self))
    }

    /// The next number of 32 bits.
    pub(super) fn draw(&mut self) -> u32 {
        self.left -= 1;
        if self.left == 0 {
            Self::twist(&mut self.state);
            (self.left, self.next) = (WORDS as i32, 0);
        }
        let mut word = self.state[self.next as usize];
        self.next += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ (word >> 18)
    }

    /// A double in [0, 1) with 53 random bits, as produced by `at::uniform_real_distribution<double>`.
    pub(super) fn uniform(&mut self) -> f64 {
        let (high, low) = (u64::from(self.draw()), u64::from(self.draw()));
        ((high << 32 | low) & ((1 << 53) - 1)) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First words and the 10 000th for the default seed: the C++ standard, [rand.predef], and mt19937ar.out.
    #[test]
    fn the_sequence_is_mt19937() {
        let mut engine = Engine::new(5489);
        assert_eq!([engine.draw(), engine.draw(), engine.draw()], [3_499_211_612, 581_869_302, 3_890_346_734]);
        let mut engine = Engine::after_draws(5489, 9_999);
        assert_eq!(engine.draw(), 4_123_659_995);
    }

    #[test]
    fn a_place_is_found_again() {
        for (first, second) in [(0, 0), (0, 1), (1, 2), (623, 625), (624, 625), (0, 5000), (624, 1248), (100, 100)] {
            let (early, late) = (Engine::after_draws(7, first), Engine::after_draws(7, second));
            assert_eq!(early.draws_until(&late), second - first, "{first} {second}");
            let mut walked = Engine::new(7);
            (0..second).for_each(|_| {
                walked.draw();
            });
            assert_eq!((walked.left, walked.next, walked.state), (late.left, late.next, late.state), "{second}");
        }
    }
}
