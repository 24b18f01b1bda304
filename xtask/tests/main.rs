//! What holds for every crate: structure, names, sizes, links, and the readers behind those tests.

mod architecture;
mod circles;
mod commands;
mod links;
mod modules;
mod names;
mod sizes;
mod stages;
