//! CUDA graphs: operations with an order between them (`structure`), how streams record them (`capture`), and how they run
//! again (`exec`). What an operation is, live or in a graph, is in `operation`.

pub(crate) mod capture;
pub(crate) mod exec;
pub(crate) mod operation;
pub(crate) mod structure;
pub(crate) mod undo;
pub(crate) mod user_object;
