//! What a long load costs: tensor cores that have been busy for a while compute more slowly than in a product by itself.

use super::gpu::Gpu;

/// How long tensor cores are busy before that shows, us. Assumed: the tables of [`super::product_us`] were measured in milliseconds,
/// training steps in seconds.
const WINDOW_US: f64 = 20_000.0;

/// How busy the tensor cores of a device were lately, as its power limit sees them.
///
/// Only additions, multiplications and divisions, which round the same on every machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Load {
    /// From 0, idle, to 1, never idle.
    share: f64,
    /// When the last of them ended, ns.
    until_ns: u64,
}

impl Load {
    /// How long work takes now, us, that begins at `begin_ns` and keeps the tensor cores busy for `us` if nothing ran before it.
    pub fn stretched_us(&mut self, gpu: &Gpu, begin_ns: u64, us: f64) -> f64 {
        let idle_us = begin_ns.saturating_sub(self.until_ns) as f64 / 1e3;
        let before = self.share / (1.0 + idle_us / WINDOW_US);
        let us = us / (1.0 - before * (1.0 - gpu.loaded_share()));
        self.share = 1.0 - (1.0 - before) / (1.0 + us / WINDOW_US);
        self.until_ns = begin_ns + (us * 1e3) as u64;
        us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn h100() -> Gpu {
        Gpu::from_profile(protocol::profile::builtin("h100").unwrap())
    }

    #[test]
    fn the_first_product_is_not_slowed_down_and_the_thousandth_is() {
        let (gpu, mut load) = (h100(), Load::default());
        assert_eq!(load.stretched_us(&gpu, 0, 500.0), 500.0);
        let mut at = 500_000;
        for _ in 0..999 {
            at += (load.stretched_us(&gpu, at, 500.0) * 1e3) as u64;
        }
        let slowed = 500.0 / gpu.loaded_share();
        assert!((load.stretched_us(&gpu, at, 500.0) / slowed - 1.0).abs() < 0.001);
    }

    #[test]
    fn a_pause_of_one_window_halves_the_load() {
        let (gpu, mut load) = (h100(), Load { share: 1.0, until_ns: 1_000_000 });
        let us = load.stretched_us(&gpu, 21_000_000, 100.0);
        assert!((us - 100.0 / (1.0 - 0.5 * (1.0 - gpu.loaded_share()))).abs() < 1e-9, "{us}");
    }

    #[test]
    fn half_a_load_is_half_of_the_loss() {
        let (gpu, mut load, mut at, mut last) = (h100(), Load::default(), 0, 0.0);
        for _ in 0..10_000 {
            last = load.stretched_us(&gpu, at, 100.0);
            // As long a pause as the work.
            at += (2.0 * last * 1e3) as u64;
        }
        let expected = 100.0 / (1.0 - 0.5 * (1.0 - gpu.loaded_share()));
        assert!((last / expected - 1.0).abs() < 0.01, "{last} instead of {expected}");
    }
}
