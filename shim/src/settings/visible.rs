//! `CUDA_VISIBLE_DEVICES`: the GPUs that CUDA shows, and their order.

use std::sync::OnceLock;

use protocol::gpu::Gpu;
use protocol::machine;

/// One GPU that CUDA shows; its index is its ordinal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visible {
    /// What it is.
    pub(crate) gpu: &'static Gpu,
}

/// The GPUs that this process sees, in order. The mask is read at the first call; bad settings show none.
pub(crate) fn gpus() -> &'static [Visible] {
    static VISIBLE: OnceLock<Vec<Visible>> = OnceLock::new();
    VISIBLE.get_or_init(|| {
        let Ok(settings) = super::get() else { return Vec::new() };
        let mask = super::hybrid::variable("CUDA_VISIBLE_DEVICES");
        let chosen = machine::choose(&settings.gpus, mask.as_deref());
        chosen.into_iter().map(|index| Visible { gpu: &settings.gpus[index] }).collect()
    })
}
