//! The performance counters of `dmon --gpm-metrics`: the difference between two samples of a GPU.

use crate::gpu::{Gpu, Machine};
use crate::nvml::Sample;

/// What `dmon` keeps from one line to the next.
pub(crate) struct Counters<'a> {
    /// `NVML_GPM_METRIC_*`
    numbers: Vec<u32>,
    last: Vec<Option<Sample<'a>>>,
}

impl<'a> Counters<'a> {
    /// None were sampled yet.
    pub(crate) fn new(machine: &Machine<'a>, numbers: &[u32]) -> Self {
        Self { numbers: numbers.to_vec(), last: machine.gpus.iter().map(|_| None).collect() }
    }

    /// A cell for each number since the previous sample; "-" if there is none.
    pub(crate) fn cells(&mut self, place: usize, gpu: &Gpu<'a>) -> Vec<String> {
        if self.numbers.is_empty() {
            return Vec::new();
        }
        let now = gpu.nvml.sample(gpu.device).ok();
        let before = std::mem::replace(&mut self.last[place], now);
        let values = before
            .as_ref()
            .zip(self.last[place].as_ref())
            .map(|(before, now)| gpu.nvml.counters(before, now, &self.numbers).unwrap_or_default());
        let cell = |nth: usize| match values.as_ref().and_then(|values| values.get(nth)) {
            Some(Ok(value)) => format!("{value:.0}"),
            _ => "-".to_owned(),
        };
        (0..self.numbers.len()).map(cell).collect()
    }
}
