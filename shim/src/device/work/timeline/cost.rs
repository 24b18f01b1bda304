//! How long work takes on the modeled clock: on the host, which submits it, and on the devices of this process.

use std::sync::OnceLock;

use protocol::operations::{LoggedWork, WorkKind};
use timing::physics::Uses;
use timing::work::{Cost, Gpu, host};

use super::work::{Kind, Work};
use crate::device::all;
use crate::settings;

/// What submitting costs the host, us. A graph's nodes cost nothing by themselves.
pub(super) fn host_us(work: &Work, is_node: bool) -> f64 {
    match &work.kind {
        Kind::Event { .. } => 0.0,
        _ if is_node => 0.0,
        Kind::Operator { is_backward: false } => host::OPERATOR_US + host::LAUNCH_US,
        Kind::Operator { is_backward: true } => host::BACKWARD_OPERATOR_US + host::LAUNCH_US,
        Kind::Kernel(_) | Kind::Library | Kind::HostFunction => host::LAUNCH_US,
        Kind::Copy { .. } | Kind::Fill { .. } => host::COPY_US,
        Kind::Collective { .. } => host::COLLECTIVE_US,
    }
}

/// The cost of collectives that take `us` and use so much.
pub(crate) fn of_collective(device: u32, us: f64, uses: &Uses) -> Cost {
    Cost::of_collective(gpu(device), us, uses)
}

/// What a piece of work costs. A collective's cost is that of `nccl`.
pub(super) fn on_device(device: u32, work: &LoggedWork) -> Cost {
    let nvlink_gbytes = || settings::get().map_or(0.0, |settings| settings.nvlink_gbytes(all()[device as usize].gpu));
    let is_copy = matches!(work.kind, WorkKind::Copy(..));
    Cost::of_work(gpu(device), if is_copy { nvlink_gbytes() } else { 0.0 }, work)
}

/// The GPU of a device, as the time model sees it.
pub(super) fn gpu(device: u32) -> &'static Gpu {
    static GPUS: OnceLock<Vec<Gpu>> = OnceLock::new();
    &GPUS.get_or_init(|| all().iter().map(|device| Gpu::from_profile(&device.gpu.profile)).collect())[device as usize]
}
