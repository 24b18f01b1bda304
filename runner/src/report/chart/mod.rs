//! Charts of a cluster report, each a self-contained piece of SVG.

pub mod bandwidth;
pub mod heat_map;
pub mod histogram;
pub(crate) mod svg;
pub mod timeline;
