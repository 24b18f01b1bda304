//! What holds for every crate: structure, sizes, links, and the readers behind those tests.

mod architecture;
mod circles;
mod commands;
mod links;
mod modules;
mod sizes;
mod stages;
