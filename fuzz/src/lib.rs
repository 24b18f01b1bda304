//! What is fed with bytes of any kind, each as a plain function that panics when a promise is broken. `tests/corpus.rs`
//! replays and mutates `corpus/TARGET`; `cargo fuzz` looks for more (README.md).

mod filter;
mod log;
mod report;
mod suite;
mod wire;
mod xml;

pub use filter::filter;
pub use log::log;
pub use report::report;
pub use suite::suite;
pub use wire::wire;
pub use xml::xml;

/// A target.
pub type Target = fn(&[u8]);

/// Every target, by the name of its directory in `corpus`.
pub const TARGETS: &[(&str, Target)] =
    &[("suite", suite), ("filter", filter), ("xml", xml), ("wire", wire), ("report", report), ("log", log)];
