//! Charts of a cluster report, each a piece of SVG that stands for itself.

pub mod bandwidth;
pub mod heat_map;
pub mod histogram;
pub(crate) mod svg;
pub mod timeline;
