//! How long work of a stream takes and what it uses meanwhile, by what it is.

use protocol::operations::{Element, Form, LoggedWork, Place, WorkKind};

use super::{
    CONVOLUTION_SHARE, Demand, FLOOR_US, GAP_US, Gpu, Number, Path, Product, attention_share, copy_us, flops_us,
    memory_demand, memory_us, product, product_us,
};
use crate::physics::Uses;

/// What a piece of work costs on the device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// How long it takes alone, us.
    pub us: f64,
    /// What it uses meanwhile.
    pub demand: Demand,
    /// Whether the model knew what decides that.
    pub is_known: bool,
}

impl Cost {
    /// Of collectives that take `us` and use so much.
    pub fn of_collective(gpu: &Gpu, us: f64, uses: &Uses) -> Self {
        let demand = Demand {
            sms: (f64::from(uses.blocks) / f64::from(gpu.sms)).min(1.0),
            memory: memory_demand(gpu, uses.memory_bytes, us),
            inside: uses.inside,
            between: uses.between,
            is_collective: true,
        };
        Self { us, demand, is_known: true }
    }

    /// Of a piece of work, on a GPU whose NVLinks carry `nvlink_gbytes` in one direction. A collective's cost is that of its group
    /// ([`crate::group`]); this is what one takes of which that is not known.
    pub fn of_work(gpu: &Gpu, nvlink_gbytes: f64, work: &LoggedWork) -> Self {
        let (us, is_known) = device_us(gpu, nvlink_gbytes, work);
        let sms = match (work.kind, work.form) {
            (WorkKind::Copy(..) | WorkKind::Fill | WorkKind::HostFunction, _) => 0.0,
            (_, Form::Product { batch, m, n, k }) => {
                product(gpu, &Product { batch, m, n, k, number: number_of(work) }).1
            }
            // Their blocks are many.
            (_, Form::Attention { .. } | Form::Convolution) => 1.0 - FLOOR_US / us,
            (WorkKind::Kernel(blocks), Form::Instructions { .. }) => (blocks as f64 / f64::from(gpu.sms)).min(1.0),
            // What streams through memory leaves its SMs waiting.
            _ => 0.0,
        };
        let memory = memory_demand(gpu, work.bytes as f64, us);
        let is_collective = work.kind == WorkKind::Collective;
        Self { us, demand: Demand { sms, memory, inside: 0.0, between: 0.0, is_collective }, is_known }
    }
}

/// How long a piece of work takes, us, and whether the model knew what decides that.
fn device_us(gpu: &Gpu, nvlink_gbytes: f64, work: &LoggedWork) -> (f64, bool) {
    let number = number_of(work);
    match work.kind {
        WorkKind::Copy(from, to, bytes) => (copy_us(gpu, path(from, to, nvlink_gbytes), bytes), true),
        WorkKind::Fill => (memory_us(gpu, work.bytes), true),
        WorkKind::HostFunction => (0.0, true),
        WorkKind::Collective => (memory_us(gpu, work.bytes), false),
        WorkKind::Operator | WorkKind::Kernel(_) => match work.form {
            Form::Product { batch, m, n, k } => {
                // The published figures are of products one after the other.
                (product_us(gpu, &Product { batch, m, n, k, number }) - GAP_US, true)
            }
            Form::Attention { sequence, head, is_backward } => {
                let share = attention_share(gpu, sequence, head, is_backward);
                (flops_us(gpu, work.flops as f64, work.bytes, number, share), true)
            }
            Form::Convolution => (flops_us(gpu, work.flops as f64, work.bytes, number, CONVOLUTION_SHARE), true),
            Form::Instructions { per_scheduler } => {
                // A scheduler issues one instruction of a warp in each cycle.
                let issuing = per_scheduler as f64 / gpu.ghz / 1e3;
                // How often its loops go round is not known.
                (FLOOR_US + issuing, false)
            }
            Form::Other => (memory_us(gpu, work.bytes), work.bytes > 0),
        },
    }
}

/// Whether it is work of the tensor cores, which [`super::Load`] slows down.
pub fn is_for_tensor_cores(work: &LoggedWork) -> bool {
    let has_form = matches!(work.form, Form::Product { .. } | Form::Attention { .. } | Form::Convolution);
    has_form && !matches!(work.element.map(number), None | Some(Number::Single | Number::Double))
}

fn number_of(work: &LoggedWork) -> Number {
    work.element.map_or(Number::Single, number)
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

fn path(from: Place, to: Place, nvlink_gbytes: f64) -> Path {
    match (from, to) {
        (Place::Device(from), Place::Device(to)) if from == to => Path::Device,
        (Place::Device(_), Place::Device(_)) => Path::Peer(nvlink_gbytes),
        (Place::Pageable, Place::Device(_)) | (Place::Device(_), Place::Pageable) => Path::Pageable,
        (Place::Pinned, Place::Device(_)) | (Place::Device(_), Place::Pinned) => Path::Pinned,
        _ => Path::Host,
    }
}
