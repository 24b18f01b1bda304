//! What is watched while a case runs: the ends of its processes, the lines that trigger kills and cuts, and whether anything
//! still moves.

pub(super) mod cuts;
pub mod deaths;
pub(super) mod kills;
pub(super) mod stillness;
