//! Fourier transforms of one dimension, for cuFFT. RustFFT's planner is generic over the numbers, so it is compiled where it is
//! named with a type: here, once, and not in the shim at each of its changes.

use std::sync::Arc;

pub use rustfft::{Fft, FftNum, num_complex::Complex};
use rustfft::{FftDirection, FftPlanner};

/// Numbers that transforms are planned for.
pub trait Number: FftNum {
    /// The transforms of each of these lengths, in numbers: forward and inverse, nothing scaled.
    fn plan(lengths: &[usize]) -> Vec<[Arc<dyn Fft<Self>>; 2]>;
}

impl Number for f32 {
    fn plan(lengths: &[usize]) -> Vec<[Arc<dyn Fft<Self>>; 2]> {
        planned(lengths)
    }
}

impl Number for f64 {
    fn plan(lengths: &[usize]) -> Vec<[Arc<dyn Fft<Self>>; 2]> {
        planned(lengths)
    }
}

fn planned<T: FftNum>(lengths: &[usize]) -> Vec<[Arc<dyn Fft<T>>; 2]> {
    let mut planner = FftPlanner::new();
    let directions = [FftDirection::Forward, FftDirection::Inverse];
    lengths.iter().map(|length| directions.map(|direction| planner.plan_fft(*length, direction))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inverse_after_a_transform_multiplies_by_the_length() {
        for length in [1, 2, 5, 8, 12] {
            let numbers: Vec<_> = (0..length).map(|index| Complex::new(index as f64, -1.0)).collect();
            let [forward, inverse] = &f64::plan(&[length])[0];
            let mut moved = numbers.clone();
            forward.process(&mut moved);
            inverse.process(&mut moved);
            for (number, moved) in numbers.iter().zip(&moved) {
                assert!((number * length as f64 - moved).norm() < 1e-9, "{moved} for {number}, {length} of them");
            }
        }
    }
}
