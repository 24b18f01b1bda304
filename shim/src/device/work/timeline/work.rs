//! What a piece of work on a stream is: its kind, its name, and the amounts that decide how long it takes.

use std::borrow::Cow;

use protocol::datatype::{Datatype, Operation};
pub(crate) use protocol::operations::{Element, Form, Place};
use protocol::operations::{LoggedWork, WorkKind};
use protocol::route;

/// A piece of work.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Work {
    pub(crate) kind: Kind,
    pub(crate) name: Cow<'static, str>,
    /// The type of the elements that it computes with, if known.
    pub(crate) element: Option<Element>,
    /// Operations of matrix products, convolutions and attention, where a multiply-add is two; 0 for all other work.
    pub(crate) flops: u64,
    /// What else decides how long it takes.
    pub(crate) form: Form,
    /// Bytes read and written; 0 for kernels of the program, whose accesses are not known.
    pub(crate) bytes: u64,
}

/// The kinds of work.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    /// A kernel of the program.
    Kernel(Grid),
    /// The kernels of an operator of PyTorch; the backward pass calls it without Python.
    Operator { is_backward: bool },
    /// Kernels of a library that computes here by other means: nothing is known of their launch.
    Library,
    /// A copy of so many bytes.
    Copy { from: Place, to: Place, bytes: u64 },
    /// A memset of so many bytes.
    Fill { place: Place, value: u32, bytes: u64 },
    /// The operations of one NCCL kernel, of this rank.
    Collective { parts: Vec<Part>, ranks: u32 },
    /// An event is reached; the numbers of the event, and of this record among all.
    Event { event: u32, record: u64 },
    /// A function of the program that is called in stream order.
    HostFunction,
}

/// How a kernel was launched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grid {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) static_shared: u32,
    pub(crate) dynamic_shared: u32,
    pub(crate) registers: u32,
}

/// One operation of a collective kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) operation: Operation,
    pub(crate) datatype: Datatype,
    pub(crate) count: u64,
}

impl Part {
    /// Its bytes as nccl-tests count them, among so many ranks.
    pub(crate) fn bytes(&self, ranks: u32) -> u64 {
        route::request_bytes(self.operation, ranks, self.count, self.datatype.size() as u64)
    }
}

/// The kernel of a matrix product of this type, without the form of its tiles: which one a GPU's library chooses is not known here.
pub(crate) fn product_kernel(element: Element) -> &'static str {
    match element {
        Element::Fp64 => "dgemm",
        Element::Fp32 => "sgemm",
        Element::Tf32 => "gemm_f32f32_tf32f32_f32",
        Element::Fp16 => "gemm_f16f16_f16f32_f32",
        Element::Bf16 => "gemm_bf16bf16_bf16f32_f32",
        Element::Fp8 => "gemm_f8f8_f32_f32",
        Element::Int8 => "gemm_s8s8_s32_s32",
    }
}

impl Work {
    /// Work of a library, of which only the name is known.
    pub(crate) fn library(name: impl Into<Cow<'static, str>>) -> Self {
        Self { kind: Kind::Library, name: name.into(), element: None, flops: 0, form: Form::Other, bytes: 0 }
    }

    /// A copy; its name is NVIDIA's in traces.
    pub(crate) fn copy(from: Place, to: Place, bytes: u64) -> Self {
        let name = match (from.device(), to.device()) {
            (None, None) => "Memcpy HtoH",
            (None, Some(_)) => "Memcpy HtoD",
            (Some(_), None) => "Memcpy DtoH",
            (Some(from), Some(to)) if from == to => "Memcpy DtoD",
            (Some(_), Some(_)) => "Memcpy PtoP",
        };
        Self {
            kind: Kind::Copy { from, to, bytes },
            name: name.into(),
            element: None,
            flops: 0,
            form: Form::Other,
            bytes: 2 * bytes,
        }
    }

    /// A memset.
    pub(crate) fn fill(place: Place, value: u32, bytes: u64) -> Self {
        Self {
            kind: Kind::Fill { place, value, bytes },
            name: "Memset".into(),
            element: None,
            flops: 0,
            form: Form::Other,
            bytes,
        }
    }

    /// An event is reached.
    pub(crate) fn event(event: u32, record: u64) -> Self {
        Self { kind: Kind::Event { event, record }, ..Self::library("event") }
    }

    /// What decides how long it takes, without its name.
    pub(super) fn shape(&self, is_node: bool) -> LoggedWork {
        let kind = match &self.kind {
            Kind::Kernel(grid) => WorkKind::Kernel(grid.grid.iter().map(|extent| u64::from(*extent)).product()),
            Kind::Operator { .. } | Kind::Library => WorkKind::Operator,
            Kind::Copy { from, to, bytes } => WorkKind::Copy(*from, *to, *bytes),
            Kind::Fill { .. } => WorkKind::Fill,
            Kind::Collective { .. } => WorkKind::Collective,
            Kind::Event { .. } | Kind::HostFunction => WorkKind::HostFunction,
        };
        let Self { element, flops, form, bytes, .. } = *self;
        LoggedWork { name: 0, kind, element, flops, form, bytes, is_node }
    }

    /// A function of the program.
    pub(crate) fn host_function() -> Self {
        Self {
            kind: Kind::HostFunction,
            name: "host function".into(),
            element: None,
            flops: 0,
            form: Form::Other,
            bytes: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_named_by_their_ends() {
        use Place::{Device, Pageable, Pinned};
        for (from, to, name) in [
            (Pageable, Device(0), "Memcpy HtoD"),
            (Device(1), Pinned, "Memcpy DtoH"),
            (Device(1), Device(1), "Memcpy DtoD"),
            (Device(1), Device(0), "Memcpy PtoP"),
            (Pinned, Pageable, "Memcpy HtoH"),
        ] {
            let copy = Work::copy(from, to, 10);
            assert_eq!((&*copy.name, copy.bytes), (name, 20), "{from:?} to {to:?}");
        }
    }
}
