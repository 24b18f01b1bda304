//! Memory that CUDA knows: allocated on the device and the host, mapped, pooled, shared with other processes, owned by graphs; arrays
//! and textures over it; what an address points into, and its misuse.

pub(crate) mod address;
pub(crate) mod allocator;
pub(crate) mod array;
pub(crate) mod copy;
mod freed;
pub(crate) mod fresh;
pub(crate) mod graph_memory;
pub(crate) mod ipc;
pub(crate) mod mapping;
pub(crate) mod mipmap;
pub(crate) mod misuse;
pub(crate) mod multicast;
mod on_device;
mod on_host;
pub(crate) mod pool;
mod shareable;
mod team;
pub(crate) mod texture;
pub(crate) mod undo;
pub(crate) mod view;

pub(crate) use on_device::{
    Kind, Location, Trace, allocate, arena_of, free, free_graph, free_internal, in_arena, info, reset, trace, vacate,
};
pub(crate) use on_host::{
    HostKind, allocate_host, forget_host, free_host, freed_host, host_mapped, locate_host, register_host,
    unregister_host,
};
