//! Bytes over direct connections between ranks.

pub(crate) mod collectives;
mod connect;
mod greeter;
mod hello;
pub(crate) mod inbox;
pub(crate) mod listener;
pub(crate) mod mesh;
pub(crate) mod put_link;
pub(crate) mod request;
mod socket;
pub(crate) mod transfers;
pub(crate) mod wire;
