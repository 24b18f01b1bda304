//! CUDA graphs: operations with an order between them (`structure`), how streams record them (`capture`), and how they run
//! again (`exec`); and how work is submitted to a stream, recorded or not (`submit`).

pub(crate) mod capture;
pub(crate) mod exec;
pub(crate) mod structure;
pub(crate) mod submit;
pub(crate) mod user_object;
