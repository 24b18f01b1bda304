//! Charts of a cluster report, and of what differs under a relation, each a self-contained piece of SVG.

pub mod bandwidth;
pub mod curves;
pub mod gpu_timeline;
pub mod heat_map;
pub mod histogram;
pub(crate) mod svg;
pub mod timeline;

pub use svg::escaped;
