//! CUDA graphs: operations with an order between them (`structure`), how streams record them (`capture`), and how they run
//! again (`exec`).

pub(crate) mod allocation;
pub(crate) mod capture;
pub(crate) mod captured;
pub(crate) mod condition;
pub(crate) mod exec;
pub(crate) mod structure;
pub(crate) mod undo;
pub(crate) mod user_object;
