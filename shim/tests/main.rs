//! The library as C programs, Python and linkers see it.

mod c;
mod cuda;
mod exports;
mod python;
