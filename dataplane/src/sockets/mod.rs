//! Bytes over direct connections between ranks.

pub(crate) mod collectives;
mod greeter;
pub(crate) mod inbox;
mod last_words;
pub(crate) mod listener;
pub(crate) mod mesh;
pub(crate) mod put_link;
pub(crate) mod transfers;
