//! Random numbers. A CUDA generator keeps its own state, seed and offset; it draws the CPU generator's sequence for
//! that seed, and the offset is the position in that sequence. So seeding, saving, restoring and forking the state work
//! as on a GPU, and the numbers are those of the CPU device (NVIDIA's would come from Philox).

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::MutexGuard;

use dataplane::lock::Mutex;

use super::cxx::{IValue, MaybeDouble};
use super::libtorch::torch;
use super::object;
use super::symbols::Engine;
use super::value::Value;
use crate::device::graph::capture;

/// Number of CPU generators kept, one per position of a CUDA generator: a few, for programs that go back and forth.
const KEPT: usize = 8;

/// A CPU generator that continues the sequence of a seed at an offset.
struct CpuGenerator {
    seed: u64,
    offset: u64,
    cpu: *mut c_void,
    engine: Box<Engine>,
}

// SAFETY: the generator is used under the lock only.
unsafe impl Send for CpuGenerator {}

static POOL: Mutex<Vec<CpuGenerator>> = Mutex::new(Vec::new());

/// CUDA requires offsets in multiples of four: each draw counts as eight, and four more mean that half of a pair of
/// normal numbers is left.
const PER_DRAW: u64 = 8;
const HALF_PAIR: u64 = 4;
/// Draws that a pair of normal doubles takes.
const DRAWS_PER_PAIR: u64 = 4;

/// An operator's use of a CUDA generator; no other thread draws in the meantime.
pub(super) struct Drawing {
    cuda: *mut c_void,
    generator: Option<CpuGenerator>,
    pool: MutexGuard<'static, Vec<CpuGenerator>>,
}

impl Drawing {
    /// Begins to draw from `cuda`, or from the default generator of GPU `index`. Numbers drawn during capture are discarded, so
    /// they come from a private generator.
    pub(super) fn begin(cuda: Option<*mut c_void>, index: i8) -> Self {
        let symbols = &torch().symbols;
        if capture::is_hidden() {
            let generator = Some(CpuGenerator::new(0, 0));
            return Self { cuda: std::ptr::null_mut(), generator, pool: POOL.lock() };
        }
        // SAFETY: PyTorch's CUDA generators, alive while the operator that names them runs.
        let (cuda, seed, offset) = unsafe {
            let cuda = cuda.unwrap_or_else(|| *(symbols.cuda_generator)(index));
            (cuda, (symbols.cuda_seed)(cuda), (symbols.cuda_offset)(cuda))
        };
        let mut pool = POOL.lock();
        let known = pool.iter().position(|generator| generator.seed == seed && generator.offset == offset);
        let generator = known.map_or_else(|| CpuGenerator::new(seed, offset), |index| pool.remove(index));
        Self { cuda, generator: Some(generator), pool }
    }

    /// True if `generator` is of PyTorch's class for CUDA.
    pub(super) fn is_cuda(generator: *mut c_void, index: i8) -> bool {
        // SAFETY: live generators.
        unsafe { object::is_same_class(generator, *(torch().symbols.cuda_generator)(index)) }
    }

    /// Seed and offset of the CUDA generator before the operator draws, as input for [`again`].
    pub(super) fn place(&self) -> (u64, u64) {
        let Some(generator) = self.generator.as_ref().filter(|_| !self.cuda.is_null()) else { return (0, 0) };
        let mut places = PLACES.lock();
        if places.len() == REMEMBERED {
            places.pop_front();
        }
        places.push_back((generator.seed, generator.offset, generator.engine.clone()));
        (generator.seed, generator.offset)
    }

    /// The CPU generator, as an argument that the callee takes over.
    pub(super) fn argument(&self) -> IValue {
        let cpu = self.generator.as_ref().map_or(std::ptr::null_mut(), |generator| generator.cpu);
        // SAFETY: a live generator.
        unsafe { object::retain(cpu) };
        IValue::new(torch().layout.tags.generator, cpu as u64)
    }
}

impl Drop for Drawing {
    /// Advances the CUDA generator by what was drawn.
    fn drop(&mut self) {
        let symbols = &torch().symbols;
        let Some(mut generator) = self.generator.take() else { return };
        if self.cuda.is_null() {
            // SAFETY: the reference that came from `createCPUGenerator`.
            return unsafe { object::release(generator.cpu) };
        }
        let mut engine = Engine::new(0);
        // SAFETY: live generators; `engine` fills the place that it is given.
        let has_half = unsafe {
            (symbols.engine)(&raw mut engine, generator.cpu);
            (symbols.next_normal)(generator.cpu).is_some
        };
        let draws = generator.offset / PER_DRAW + generator.engine.draws_until(&engine);
        generator.offset = draws * PER_DRAW + if has_half { HALF_PAIR } else { 0 };
        *generator.engine = engine;
        // SAFETY: a live CUDA generator; the offset is a multiple of four.
        unsafe { (symbols.set_cuda_offset)(self.cuda, generator.offset) };
        self.pool.push(generator);
        if self.pool.len() > KEPT {
            let oldest = self.pool.remove(0);
            // SAFETY: the reference that came from `createCPUGenerator`.
            unsafe { object::release(oldest.cpu) };
        }
    }
}

/// Places that a forward drew from and its backward will draw from again. Getting there from the seed takes longer the
/// more a program has drawn.
static PLACES: Mutex<VecDeque<(u64, u64, Box<Engine>)>> = Mutex::new(VecDeque::new());
const REMEMBERED: usize = 256;

/// A CPU generator that repeats the draws from a [`Drawing::place`]; no CUDA generator advances.
pub(super) fn again(seed: u64, offset: u64) -> Value {
    let places = PLACES.lock();
    let known = places.iter().rfind(|place| (place.0, place.1) == (seed, offset));
    let engine = known.map_or_else(|| Box::new(Engine::after_draws(seed, offset / PER_DRAW)), |place| place.2.clone());
    drop(places);
    Value::own(IValue::new(torch().layout.tags.generator, CpuGenerator::with_engine(seed, offset, engine).cpu as u64))
}

/// The state of a CUDA generator before PyTorch's own kernel draws from it; restored when this is dropped.
pub(super) struct Unmoved {
    cuda: *mut c_void,
    offset: u64,
}

impl Unmoved {
    /// Saves the default generator of GPU `index`.
    pub(super) fn keep(index: i8) -> Self {
        let symbols = &torch().symbols;
        // SAFETY: PyTorch's generator of a GPU, which lives as long as the process.
        unsafe {
            let cuda = *(symbols.cuda_generator)(index);
            Self { cuda, offset: (symbols.cuda_offset)(cuda) }
        }
    }
}

impl Drop for Unmoved {
    fn drop(&mut self) {
        // SAFETY: as above; the offset was its own.
        unsafe { (torch().symbols.set_cuda_offset)(self.cuda, self.offset) };
    }
}

impl CpuGenerator {
    fn new(seed: u64, offset: u64) -> Self {
        Self::with_engine(seed, offset, Box::new(Engine::after_draws(seed, offset / PER_DRAW)))
    }

    fn with_engine(seed: u64, offset: u64, engine: Box<Engine>) -> Self {
        let symbols = &torch().symbols;
        let mut cpu = std::ptr::null_mut();
        // SAFETY: `createCPUGenerator` makes a generator of our own; the engine is copied into it.
        unsafe {
            (symbols.create_generator)(&raw mut cpu, seed);
            (symbols.set_engine)(cpu, *engine);
            if offset % PER_DRAW == HALF_PAIR {
                (symbols.set_next_normal)(cpu, half_pair(seed, offset / PER_DRAW));
            }
        }
        Self { seed, offset, cpu, engine }
    }
}

/// The second normal number of the pair that ended at `draws`: by the Box-Muller method, as in
/// `at::normal_distribution`.
fn half_pair(seed: u64, draws: u64) -> MaybeDouble {
    let mut engine = Engine::after_draws(seed, draws.saturating_sub(DRAWS_PER_PAIR));
    let (first, second) = (engine.uniform(), engine.uniform());
    let radius = (-2.0 * (-second).ln_1p()).sqrt();
    MaybeDouble { value: radius * (2.0 * std::f64::consts::PI * first).sin(), is_some: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second number of `torch.manual_seed(seed); torch.randn(2, dtype=torch.float64)` on the CPU (torch 2.9).
    #[test]
    fn the_kept_half_of_a_pair_is_pytorchs_second_normal_number() {
        for (seed, expected) in [(0, -0.293_428_905_760_946_4), (42, 0.128_809_405_136_589_7)] {
            let half = half_pair(seed, DRAWS_PER_PAIR);
            assert!(half.is_some && (half.value - expected).abs() < 1e-15, "{seed}: {}", half.value);
        }
    }

    /// `torch.rand(dtype=torch.float64)` with seed 0: the first three numbers, and the one after 5000.
    #[test]
    fn uniform_numbers_are_pytorchs() {
        let mut engine = Engine::new(0);
        let drawn = [engine.uniform(), engine.uniform(), engine.uniform()];
        assert_eq!(drawn, [0.970_053_001_806_553_1, 0.707_819_864_399_788, 0.459_382_943_127_450_87]);
        assert_eq!(Engine::after_draws(0, 2 * 5000).uniform(), 0.165_883_895_689_035_94);
    }
}
