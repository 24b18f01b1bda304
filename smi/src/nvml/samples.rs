//! Samples: NVML's latest measurements, and performance counters at one moment.

use std::ffi::{c_char, c_int, c_uint};

use super::{Code, Device, Nvml, answer};

/// `nvmlSample_t`, for types whose values are unsigned ints.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Measured {
    /// Microseconds.
    pub(crate) timestamp: u64,
    pub(crate) value: c_uint,
    rest: c_uint,
}

/// `nvmlGpmMetric_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct GpmMetric {
    id: c_uint,
    status: c_uint,
    value: f64,
    texts: [*const c_char; 3],
}

/// `NVML_GPM_METRIC_MAX` of the newest header, so that there is enough room for any library.
const GPM_METRICS: usize = 333;

/// `nvmlGpmMetricsGet_t`.
#[repr(C)]
struct GpmMetrics {
    version: c_uint,
    count: c_uint,
    samples: [usize; 2],
    metrics: [GpmMetric; GPM_METRICS],
}

/// An `nvmlGpmSample_t`, freed with this.
pub(crate) struct Sample<'a> {
    nvml: &'a Nvml,
    sample: usize,
}

impl Drop for Sample<'_> {
    fn drop(&mut self) {
        // SAFETY: `nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t)`, once for each that was allocated.
        unsafe {
            if let Ok(free) = self.nvml.function::<unsafe extern "C" fn(usize) -> c_uint>("nvmlGpmSampleFree") {
                free(self.sample);
            }
        }
    }
}

impl Nvml {
    /// The latest measurements: `NVML_*_SAMPLES`.
    pub(crate) fn samples(&self, device: Device, which: c_int) -> Result<Vec<Measured>, Code> {
        let (mut kind, mut count) = (0, 0);
        // SAFETY: the function's C type; the list has the length that it asked for.
        unsafe {
            let function: unsafe extern "C" fn(Device, c_int, u64, *mut c_int, *mut c_uint, *mut Measured) -> c_uint =
                self.function("nvmlDeviceGetSamples")?;
            answer(function(device, which, 0, &raw mut kind, &raw mut count, std::ptr::null_mut()))?;
            let mut list = vec![Measured::default(); count as usize];
            answer(function(device, which, 0, &raw mut kind, &raw mut count, list.as_mut_ptr()))?;
            list.truncate(count as usize);
            Ok(list)
        }
    }

    /// The current performance counters.
    pub(crate) fn sample(&self, device: Device) -> Result<Sample<'_>, Code> {
        let mut sample = 0usize;
        // SAFETY: the functions' C types; the sample was allocated by the first.
        unsafe {
            let allocate: unsafe extern "C" fn(*mut usize) -> c_uint = self.function("nvmlGpmSampleAlloc")?;
            answer(allocate(&raw mut sample))?;
            let sample = Sample { nvml: self, sample };
            let take: unsafe extern "C" fn(Device, usize) -> c_uint = self.function("nvmlGpmSampleGet")?;
            answer(take(device, sample.sample))?;
            Ok(sample)
        }
    }

    /// `NVML_GPM_METRIC_*` between two samples.
    pub(crate) fn counters(
        &self,
        before: &Sample<'_>,
        now: &Sample<'_>,
        numbers: &[c_uint],
    ) -> Result<Vec<Result<f64, Code>>, Code> {
        let none = GpmMetric { id: 0, status: 0, value: 0.0, texts: [std::ptr::null(); 3] };
        let mut asked = Box::new(GpmMetrics {
            version: 1,
            count: numbers.len() as c_uint,
            samples: [before.sample, now.sample],
            metrics: [none; GPM_METRICS],
        });
        for (metric, number) in asked.metrics.iter_mut().zip(numbers) {
            metric.id = *number;
        }
        // SAFETY: `nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *)`, with room for all that there are.
        unsafe {
            let function: unsafe extern "C" fn(*mut GpmMetrics) -> c_uint = self.function("nvmlGpmMetricsGet")?;
            answer(function(&raw mut *asked))?;
        }
        let value = |metric: &GpmMetric| answer(metric.status).map(|()| metric.value);
        Ok(asked.metrics.iter().take(numbers.len()).map(value).collect())
    }
}
