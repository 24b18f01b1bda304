//! How long work takes on the modeled clock: on the host, which submits it, and on the device.

use std::sync::OnceLock;

use timing::physics::Uses;
use timing::work::{self as model, Demand, Gpu, Number, Path, Product, host};

use super::work::{Element, Form, Kind, Place, Work};
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

/// What a piece of work costs on the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// How long it takes alone, us.
    pub(crate) us: f64,
    /// What it uses meanwhile.
    pub(crate) demand: Demand,
    /// Whether the model knew what decides that.
    pub(super) is_known: bool,
}

/// The cost of collectives that take `us` and use so much.
pub(crate) fn of_collective(device: u32, us: f64, uses: &Uses) -> Cost {
    let gpu = gpu(device);
    let demand = Demand {
        sms: (f64::from(uses.blocks) / f64::from(gpu.sms)).min(1.0),
        memory: model::memory_demand(gpu, uses.memory_bytes, us),
        inside: uses.inside,
        between: uses.between,
        is_collective: true,
    };
    Cost { us, demand, is_known: true }
}

/// What a piece of work costs. A collective's cost is that of `nccl`.
pub(super) fn on_device(device: u32, work: &Work) -> Cost {
    let (us, is_known) = device_us(device, work);
    let gpu = gpu(device);
    let sms = match (&work.kind, work.form) {
        (Kind::Copy { .. } | Kind::Fill { .. } | Kind::HostFunction | Kind::Event { .. }, _) => 0.0,
        (_, Form::Product { batch, m, n, k }) => {
            let number = work.element.map_or(Number::Single, number);
            model::product(gpu, &Product { batch, m, n, k, number }).1
        }
        // Their blocks are many.
        (_, Form::Attention { .. } | Form::Convolution) => 1.0 - model::FLOOR_US / us,
        (Kind::Kernel(grid), Form::Instructions { .. }) => {
            let blocks: f64 = grid.grid.iter().map(|extent| f64::from(*extent)).product();
            (blocks / f64::from(gpu.sms)).min(1.0)
        }
        // What streams through memory leaves its SMs waiting.
        _ => 0.0,
    };
    let memory = model::memory_demand(gpu, work.bytes as f64, us);
    let is_collective = matches!(work.kind, Kind::Collective { .. });
    Cost { us, demand: Demand { sms, memory, inside: 0.0, between: 0.0, is_collective }, is_known }
}

/// How long a piece of work takes, us, and whether the model knew what decides that.
fn device_us(device: u32, work: &Work) -> (f64, bool) {
    let gpu = gpu(device);
    let number = work.element.map_or(Number::Single, number);
    match &work.kind {
        Kind::Copy { from, to, bytes } => (model::copy_us(gpu, path(*from, *to), *bytes), true),
        Kind::Fill { .. } => (model::memory_us(gpu, work.bytes), true),
        Kind::HostFunction | Kind::Event { .. } => (0.0, true),
        Kind::Collective { .. } => (model::memory_us(gpu, work.bytes), false),
        Kind::Operator { .. } | Kind::Library | Kind::Kernel(_) => match work.form {
            Form::Product { batch, m, n, k } => {
                // The published figures are of products one after the other.
                (model::product_us(gpu, &Product { batch, m, n, k, number }) - model::GAP_US, true)
            }
            Form::Attention { sequence, head, is_backward } => {
                let share = model::attention_share(gpu, sequence, head, is_backward);
                (model::flops_us(gpu, work.flops as f64, work.bytes, number, share), true)
            }
            Form::Convolution => {
                (model::flops_us(gpu, work.flops as f64, work.bytes, number, model::CONVOLUTION_SHARE), true)
            }
            Form::Instructions { per_scheduler } => {
                // A scheduler issues one instruction of a warp in each cycle.
                let issuing = per_scheduler as f64 / gpu.ghz / 1e3;
                // How often its loops go round is not known.
                (model::FLOOR_US + issuing, false)
            }
            Form::Other => (model::memory_us(gpu, work.bytes), work.bytes > 0),
        },
    }
}

/// Whether it is work of the tensor cores, which [`model::Load`] slows down.
pub(super) fn is_for_tensor_cores(work: &Work) -> bool {
    let has_form = matches!(work.form, Form::Product { .. } | Form::Attention { .. } | Form::Convolution);
    has_form && !matches!(work.element.map(number), None | Some(Number::Single | Number::Double))
}

/// The GPU of a device, as the time model sees it.
pub(super) fn gpu(device: u32) -> &'static Gpu {
    static GPUS: OnceLock<Vec<Gpu>> = OnceLock::new();
    &GPUS.get_or_init(|| all().iter().map(|device| Gpu::from_profile(&device.gpu.profile)).collect())[device as usize]
}

fn number(element: Element) -> Number {
    match element {
        Element::Fp64 => Number::Double,
        Element::Fp32 => Number::Single,
        Element::Tf32 => Number::Tf32,
        Element::Fp16 | Element::Bf16 => Number::Half,
        Element::Fp8 => Number::Float8,
        Element::Int8 => Number::Int8,
    }
}

fn path(from: Place, to: Place) -> Path {
    match (from, to) {
        (Place::Device(from), Place::Device(to)) if from == to => Path::Device,
        (Place::Device(from), Place::Device(_)) => Path::Peer(nvlink_gbytes(from)),
        (Place::Pageable, Place::Device(_)) | (Place::Device(_), Place::Pageable) => Path::Pageable,
        (Place::Pinned, Place::Device(_)) | (Place::Device(_), Place::Pinned) => Path::Pinned,
        _ => Path::Host,
    }
}

/// NVLink of a device in one direction, GB/s as its data sheet counts.
fn nvlink_gbytes(device: u32) -> f64 {
    let gpu = &all()[device as usize].gpu;
    let links = settings::get().map_or(0, |settings| settings.links(gpu));
    let each = gpu.profile.nvlink.as_ref().map_or(0.0, |nvlink| nvlink.gigabytes_per_second_per_link);
    f64::from(links) * each
}
