//! What a stream is given. A live stream issues it at once; a stream that captures puts it into a graph, whose launches issue it.

use std::fmt::{Debug, Formatter};
use std::sync::Arc;

use super::capture;
use super::structure::Graph;
use super::undo::Undo;
use crate::device::copy::{BoxCopy, BoxFill};
use crate::device::error::{CudaError, CudaResult};
use crate::device::event::Event;
use crate::device::launch::KernelCall;
use crate::device::stream::Stream;

/// Work of a library: it is issued again at every launch of its graph.
pub(crate) trait Work: Send + Sync {
    /// Gives it to a stream that is not capturing.
    ///
    /// # Errors
    /// Of the library, as CUDA's code.
    fn issue(&self, stream: &Arc<Stream>) -> CudaResult;

    /// What `cudaGraphDebugDotPrint` and messages call it.
    fn name(&self) -> &str;
}

/// A program's function that is called in stream order, and what it gets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostCall {
    /// `cudaHostFn_t`
    pub(crate) function: unsafe extern "C" fn(*mut std::ffi::c_void),
    /// Address that the function is given.
    pub(crate) data: usize,
}

/// An operation.
#[derive(Clone)]
pub(crate) enum Operation {
    Empty,
    Copy(BoxCopy),
    Fill(BoxFill),
    Kernel(Arc<KernelCall>),
    Host(HostCall),
    Record(Arc<Event>),
    Wait(Arc<Event>),
    /// Only in graphs.
    Child(Arc<Graph>),
    /// Of a library: a kernel as far as CUDA can see.
    Work(Arc<dyn Work>),
}

impl Debug for Operation {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name())
    }
}

impl Operation {
    /// `cudaGraphNodeType`, `CUgraphNodeType`
    pub(crate) fn node_type(&self) -> u32 {
        match self {
            Self::Kernel(_) | Self::Work(_) => 0,
            Self::Copy(_) => 1,
            Self::Fill(_) => 2,
            Self::Host(_) => 3,
            Self::Child(_) => 4,
            Self::Empty => 5,
            Self::Wait(_) => 6,
            Self::Record(_) => 7,
        }
    }

    /// One word for people; a kernel's own name.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Empty => "empty".to_owned(),
            Self::Copy(_) => "memcpy".to_owned(),
            Self::Fill(_) => "memset".to_owned(),
            Self::Kernel(call) => call.name(),
            Self::Host(_) => "host".to_owned(),
            Self::Record(_) => "event record".to_owned(),
            Self::Wait(_) => "event wait".to_owned(),
            Self::Child(_) => "graph".to_owned(),
            Self::Work(work) => work.name().to_owned(),
        }
    }

    /// What CUDA refuses before it is given to a stream or put into a graph.
    ///
    /// # Errors
    /// Of each kind of operation.
    pub(crate) fn check(&self) -> CudaResult {
        match self {
            Self::Copy(copy) => copy.check().map(drop),
            Self::Fill(fill) => fill.check().map(drop),
            _ => Ok(()),
        }
    }

    /// Gives it to a stream that is not capturing.
    ///
    /// # Errors
    /// Of each kind of operation.
    pub(crate) fn issue(&self, stream: &Arc<Stream>) -> CudaResult {
        match self {
            Self::Empty => Ok(()),
            Self::Copy(copy) => copy.issue(stream),
            Self::Fill(fill) => fill.issue(stream),
            Self::Kernel(call) => call.issue(stream),
            Self::Host(call) => {
                call.issue(stream);
                Ok(())
            }
            Self::Record(event) => event.record(stream),
            Self::Wait(event) => {
                event.hold_up(stream);
                Ok(())
            }
            // Graphs are flattened before they are launched.
            Self::Child(_) => Err(CudaError::UNKNOWN),
            Self::Work(work) => work.issue(stream),
        }
    }

    /// Does it once within a capture, so that operators of PyTorch behind it find numbers that make sense. Kernels and host
    /// functions, of which nobody knows what they write, wait for the first launch.
    pub(crate) fn rehearse(&self, undo: &mut Undo) {
        match self {
            Self::Copy(copy) => copy.rehearse(undo),
            Self::Fill(fill) => fill.rehearse(undo),
            _ => {}
        }
    }

    /// A program gives it to a stream.
    ///
    /// # Errors
    /// Of each kind of operation, and of captures.
    pub(crate) fn submit(self, stream: &Arc<Stream>) -> CudaResult {
        match capture::of(stream)? {
            Some(capture) => {
                self.check()?;
                capture.add(&[stream], self)
            }
            None => self.issue(stream),
        }
    }
}
